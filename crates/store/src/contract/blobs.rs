//! Whole objects and parts of them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::task::JoinSet;

use super::{pattern, soon};
use crate::{BlobStore, Error, NAME_BYTES_MAX, NAME_PART_BYTES_MAX};

type Blobs = Arc<dyn BlobStore>;

pub(super) async fn what_was_put_is_there(blobs: Blobs) {
    let part = "p".repeat(NAME_PART_BYTES_MAX);
    let longest = format!("{part}/{part}");
    assert!(longest.len() <= NAME_BYTES_MAX);
    let names = ["a", "b/c", "b/d/e.f", "0-9_.x", "...", &longest];
    for (seed, name) in names.iter().enumerate() {
        for len in [0, 1, 4096, 300_000] {
            let name = format!("{name}-{len}").replace(&format!("{longest}-{len}"), &longest);
            let bytes = pattern(seed as u64, if name == longest { 7 } else { len });
            blobs.put(&name, bytes.clone()).await.unwrap();
            assert_eq!(blobs.get(&name).await.unwrap(), bytes, "{name}");
        }
    }
}

pub(super) async fn an_absent_object_is_not_found(blobs: Blobs) {
    blobs.put("dir/there", pattern(1, 10)).await.unwrap();
    for name in [
        "missing",
        "dir",
        "dir/missing",
        "dir/there/below",
        "dir/ther",
    ] {
        absent(name, blobs.get(name).await);
        absent(name, blobs.range(name, 0..1).await);
        absent(name, blobs.range(name, 0..0).await);
        absent(name, blobs.ranges(name, &[0..1, 5..6]).await);
    }
}

fn absent<T: std::fmt::Debug>(name: &str, outcome: Result<T, Error>) {
    match outcome {
        Err(Error::NotFound { name: named }) => assert_eq!(named, name),
        other => panic!("{name}: {other:?}"),
    }
}

pub(super) async fn a_range_is_exact_or_an_error(blobs: Blobs) {
    let len = 100_000;
    let bytes = pattern(1, len as usize);
    blobs.put("r", bytes.clone()).await.unwrap();
    for range in [
        0..len,
        0..1,
        len - 1..len,
        10..10,
        len..len,
        4095..4097,
        1..len - 1,
    ] {
        let part = blobs.range("r", range.clone()).await.unwrap();
        assert_eq!(
            part,
            bytes.slice(range.start as usize..range.end as usize),
            "{range:?}"
        );
    }
    for range in outside(len) {
        corrupt(&range, blobs.range("r", range.clone()).await);
        // A good range beside a bad one does not save it, nor does the order matter.
        corrupt(&range, blobs.ranges("r", &[0..1, range.clone()]).await);
        corrupt(&range, blobs.ranges("r", &[range.clone(), 0..1]).await);
    }
    blobs.put("empty", Bytes::new()).await.unwrap();
    assert_eq!(blobs.range("empty", 0..0).await.unwrap(), Bytes::new());
    corrupt(&(0..1), blobs.range("empty", 0..1).await);
}

fn outside(len: u64) -> [Range<u64>; 8] {
    [
        0..len + 1,
        len - 1..len + 1,
        len..len + 1,
        len + 1..len + 1,
        len + 5..len + 9,
        len * 30..len * 30 + 1,
        0..u64::MAX,
        Range { start: 9, end: 8 },
    ]
}

fn corrupt<T: std::fmt::Debug>(range: &Range<u64>, outcome: Result<T, Error>) {
    assert!(
        matches!(outcome, Err(Error::Corrupt { .. })),
        "{range:?}: {outcome:?}"
    );
}

pub(super) async fn several_ranges_at_once(blobs: Blobs) {
    let bytes = pattern(2, 3_000_000);
    blobs.put("many/ranges", bytes.clone()).await.unwrap();
    assert_eq!(
        blobs.ranges("many/ranges", &[]).await.unwrap(),
        Vec::<Bytes>::new()
    );
    // Unordered, overlapping, equal, empty, adjacent, far apart.
    let mut ranges = vec![
        10..20,
        0..5,
        15..30,
        10..20,
        7..7,
        20..21,
        2_999_990..3_000_000,
    ];
    ranges.extend((0..100).map(|at| at * 29_999..at * 29_999 + 300));
    let parts = blobs.ranges("many/ranges", &ranges).await.unwrap();
    assert_eq!(parts.len(), ranges.len());
    for (range, part) in ranges.iter().zip(parts) {
        assert_eq!(
            part,
            bytes.slice(range.start as usize..range.end as usize),
            "{range:?}"
        );
    }
}

pub(super) async fn putting_again_is_fine(blobs: Blobs) {
    for _ in 0..3 {
        blobs.put("x/again", pattern(1, 5000)).await.unwrap();
        assert_eq!(blobs.get("x/again").await.unwrap(), pattern(1, 5000));
    }
    assert_eq!(blobs.list("", None, 10).await.unwrap().len(), 1);
}

pub(super) async fn deleting_is_idempotent(blobs: Blobs) {
    blobs.delete("never/was").await.unwrap();
    for _ in 0..2 {
        blobs.put("d/one", pattern(1, 10)).await.unwrap();
        blobs.put("d/two", pattern(2, 10)).await.unwrap();
        assert_eq!(blobs.range("d/one", 0..10).await.unwrap(), pattern(1, 10));
        // A directory of other objects is not an object.
        blobs.delete("d").await.unwrap();
        blobs.delete("d/one/below").await.unwrap();
        assert_eq!(blobs.get("d/one").await.unwrap(), pattern(1, 10));
        for _ in 0..2 {
            blobs.delete("d/one").await.unwrap();
            absent("d/one", blobs.get("d/one").await);
            absent("d/one", blobs.range("d/one", 0..10).await);
            let left = blobs.list("d/", None, 10).await.unwrap();
            assert_eq!(
                left.iter().map(|info| &info.name[..]).collect::<Vec<_>>(),
                ["d/two"]
            );
        }
    }
}

pub(super) async fn bad_names_are_refused(blobs: Blobs) {
    let long = vec!["x"; NAME_BYTES_MAX].join("/");
    let part = "x".repeat(NAME_PART_BYTES_MAX + 1);
    let bad = [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "../a",
        "a/../../b",
        "a/./b",
        "A",
        "a b",
        "a\\b",
        "a\0b",
        "é",
        "a%2e",
        &long,
        &part,
    ];
    for name in bad {
        refused(name, blobs.put(name, pattern(1, 10)).await);
        refused(name, blobs.create(name).await.map(drop));
        refused(name, blobs.get(name).await);
        refused(name, blobs.range(name, 0..1).await);
        refused(name, blobs.ranges(name, &[0..1, 2..3]).await);
        refused(name, blobs.delete(name).await);
    }
    assert_eq!(blobs.list("", None, 10).await.unwrap(), []);
}

fn refused<T: std::fmt::Debug>(name: &str, outcome: Result<T, Error>) {
    assert!(
        matches!(outcome, Err(Error::Conflict { .. })),
        "{name:?}: {outcome:?}"
    );
}

/// The same names by many tasks at once: an object is whole or absent, in reads and in lists.
pub(super) async fn many_use_it_at_once(blobs: Blobs) {
    const LEN: usize = 50_000;
    let mut tasks = JoinSet::new();
    for task in 0..8_u64 {
        let blobs = blobs.clone();
        tasks.spawn(async move {
            for round in 0..6 {
                let seed = (task + round) % 4;
                let name = format!("shared/{seed}/x");
                blobs.put(&name, pattern(seed, LEN)).await.unwrap();
                match blobs.get(&name).await {
                    Ok(bytes) => assert_eq!(bytes, pattern(seed, LEN)),
                    Err(Error::NotFound { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                for info in blobs.list("shared/", None, 100).await.unwrap() {
                    assert_eq!(info.len, LEN as u64, "{} is cut", info.name);
                }
                if round % 2 == 1 {
                    blobs.delete(&name).await.unwrap();
                }
            }
        });
    }
    soon("tasks that share a store", tasks.join_all()).await;
    for seed in 0..4 {
        let name = format!("shared/{seed}/x");
        blobs.put(&name, pattern(seed, LEN)).await.unwrap();
        assert_eq!(blobs.get(&name).await.unwrap(), pattern(seed, LEN));
    }
}
