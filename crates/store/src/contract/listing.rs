//! Lists: order, pages, prefixes.

use std::sync::Arc;

use super::pattern;
use crate::{BlobInfo, BlobStore};

type Blobs = Arc<dyn BlobStore>;

/// Names whose order by path parts differs from their order as strings.
const NAMES: [&str; 14] = [
    "a-", "a-/z", "a.b", "a/-", "a/b", "a/b-c", "a/bc", "a/bc.d", "a/c/d/e", "a/c0", "a0", "a_b",
    "ab", "b/a",
];

async fn fill(blobs: &Blobs) -> Vec<&'static str> {
    // A name that is another's directory is nothing that every backend can hold.
    let names: Vec<_> = NAMES.into_iter().filter(|name| *name != "a-").collect();
    for (at, name) in names.iter().enumerate().rev() {
        blobs.put(name, pattern(at as u64, at)).await.unwrap();
    }
    names
}

fn names(infos: &[BlobInfo]) -> Vec<&str> {
    infos.iter().map(|info| &info.name[..]).collect()
}

pub(super) async fn names_come_in_order(blobs: Blobs) {
    assert_eq!(blobs.list("", None, 10).await.unwrap(), []);
    let all = fill(&blobs).await;
    let mut sorted = all.clone();
    sorted.sort_unstable();
    assert_eq!(all, sorted, "the cases are in order");
    let listed = blobs.list("", None, 100).await.unwrap();
    assert_eq!(names(&listed), all);
    for (at, info) in listed.iter().enumerate() {
        assert_eq!(info.len, at as u64, "{}", info.name);
    }
}

pub(super) async fn pages_hold_everything_once(blobs: Blobs) {
    let all = fill(&blobs).await;
    for limit in 1..=all.len() + 1 {
        let mut paged = Vec::new();
        loop {
            let after = paged.last().cloned();
            let page = blobs.list("", after.as_deref(), limit).await.unwrap();
            assert!(page.len() <= limit);
            paged.extend(page.iter().map(|info| info.name.clone()));
            if page.len() < limit {
                break;
            }
        }
        assert_eq!(paged, all, "limit {limit}");
    }
    assert_eq!(blobs.list("", None, 0).await.unwrap(), []);
    // Behind names that are not there, too.
    for after in [
        "a",
        "a-",
        "a/",
        "a/bb",
        "a/c",
        "a/c/",
        "a/c/d/e/f",
        "zz",
        "",
        "-",
        "b/a",
        "aa",
    ] {
        let expected: Vec<_> = all.iter().copied().filter(|name| *name > after).collect();
        let listed = blobs.list("", Some(after), 100).await.unwrap();
        assert_eq!(names(&listed), expected, "after {after:?}");
    }
}

pub(super) async fn a_prefix_is_a_string_not_a_directory(blobs: Blobs) {
    let all = fill(&blobs).await;
    let prefixes = [
        "", "a", "a/", "a/b", "a/bc", "a/bc.d", "a/c", "a/c/", "a/c/d", "a-", "a-/", "b", "c",
        "a/bcd", "a/b/", "ab", "b/a/",
    ];
    for prefix in prefixes {
        let of_prefix = all.iter().copied().filter(|name| name.starts_with(prefix));
        let of_prefix: Vec<_> = of_prefix.collect();
        let listed = blobs.list(prefix, None, 100).await.unwrap();
        assert_eq!(names(&listed), of_prefix, "prefix {prefix:?}");
        for after in ["a", "a/", "a/b", "a/bb", "a/c/d/e", "b", "zz"] {
            let expected: Vec<_> = of_prefix.iter().copied().filter(|n| *n > after).collect();
            for limit in [1, 2, 100] {
                let listed = blobs.list(prefix, Some(after), limit).await.unwrap();
                let expected = &expected[..expected.len().min(limit)];
                assert_eq!(
                    names(&listed),
                    expected,
                    "{prefix:?} after {after:?} limit {limit}"
                );
            }
        }
    }
}
