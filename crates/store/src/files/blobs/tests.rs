//! What the contract suite cannot see: other handles, other files, unfinished ones.

use super::*;

fn files_in(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn refused<T: std::fmt::Debug>(outcome: Result<T>) {
    assert!(
        matches!(outcome, Err(Error::Conflict { .. })),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_reader_sees_what_a_writer_puts_and_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let reader = FileBlobs::open_reader(root.path());
    assert_eq!(reader.list("", None, 10).await.unwrap(), []);
    assert!(matches!(
        reader.get("a/b").await,
        Err(Error::NotFound { .. })
    ));

    let writer = FileBlobs::open_writer(root.path()).unwrap();
    writer
        .put("a/b", Bytes::from_static(b"bytes"))
        .await
        .unwrap();
    assert_eq!(reader.get("a/b").await.unwrap(), "bytes");
    refused(reader.put("c", Bytes::new()).await);
    refused(reader.create("c").await.map(drop));
    refused(reader.delete("a/b").await);
    assert_eq!(writer.get("a/b").await.unwrap(), "bytes");
}

/// A second writer must not take the first one's unfinished objects for leftovers.
#[tokio::test]
async fn leftovers_are_removed_only_when_no_process_writes() {
    let root = tempfile::tempdir().unwrap();
    let tmp = root.path().join("tmp");
    let first = FileBlobs::open_writer(root.path()).unwrap();
    let mut unfinished = first.create("a").await.unwrap();
    unfinished
        .write(Bytes::from_static(b"by the first"))
        .await
        .unwrap();
    fs::write(tmp.join("leftover"), "by a killed one").unwrap();

    let second = FileBlobs::open_writer(root.path()).unwrap();
    assert_eq!(
        files_in(&tmp).len(),
        3,
        "lock, leftover and the unfinished one"
    );
    unfinished.finish(12).await.unwrap();
    assert_eq!(second.get("a").await.unwrap(), "by the first");

    drop((first, second));
    let third = FileBlobs::open_writer(root.path()).unwrap();
    assert_eq!(files_in(&tmp), ["lock"]);
    assert_eq!(third.get("a").await.unwrap(), "by the first");
}

#[tokio::test]
async fn a_dropped_or_refused_writer_leaves_no_file() {
    let root = tempfile::tempdir().unwrap();
    let blobs = FileBlobs::open_writer(root.path()).unwrap();
    let mut dropped = blobs.create("a").await.unwrap();
    dropped.write(vec![0; 3 << 20].into()).await.unwrap();
    drop(dropped);
    blobs
        .create("a")
        .await
        .unwrap()
        .finish(1)
        .await
        .unwrap_err();
    assert_eq!(files_in(&root.path().join("tmp")), ["lock"]);
}

#[tokio::test]
async fn a_name_is_not_anothers_directory() {
    let root = tempfile::tempdir().unwrap();
    let blobs = FileBlobs::open_writer(root.path()).unwrap();
    blobs.put("a", Bytes::new()).await.unwrap();
    blobs.put("b/c", Bytes::new()).await.unwrap();
    refused(blobs.put("a/b", Bytes::new()).await);
    refused(blobs.put("b", Bytes::new()).await);
    assert_eq!(blobs.list("", None, 10).await.unwrap().len(), 2);
    assert_eq!(files_in(&root.path().join("tmp")), ["lock"]);
}

/// More objects than open files are kept: handles are closed and opened again.
#[tokio::test]
async fn open_files_are_bounded() {
    const OBJECTS: usize = 1200;
    let root = tempfile::tempdir().unwrap();
    let blobs = FileBlobs::open_writer(root.path()).unwrap();
    fs::create_dir(root.path().join("blobs/many")).unwrap();
    for number in 0..OBJECTS {
        let path = root.path().join(format!("blobs/many/{number}"));
        fs::write(path, number.to_string()).unwrap();
    }
    for number in 0..OBJECTS {
        let found = blobs.get(&format!("many/{number}")).await.unwrap();
        assert_eq!(found, number.to_string());
    }
    let here = fs::canonicalize(root.path()).unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let open = open.filter(|path| path.starts_with(&here)).count();
    assert!((100..=400).contains(&open), "{open} files are open");
}

/// A file that lost its end under an open handle is reported, whichever way it is read.
#[tokio::test]
async fn a_file_that_was_cut_is_corrupt() {
    let root = tempfile::tempdir().unwrap();
    let blobs = FileBlobs::open_writer(root.path()).unwrap();
    blobs.put("a", vec![7; 10_000].into()).await.unwrap();
    blobs.get("a").await.unwrap();
    let file = File::options()
        .write(true)
        .open(root.path().join("blobs/a"))
        .unwrap();
    file.set_len(9_000).unwrap();
    for outcome in [blobs.get("a").await, blobs.range("a", 8_990..9_010).await] {
        assert!(matches!(outcome, Err(Error::Corrupt { .. })), "{outcome:?}");
    }
    assert_eq!(blobs.range("a", 0..9_000).await.unwrap().len(), 9_000);
}
