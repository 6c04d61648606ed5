//! What the contract suite cannot see: the lock, the bytes on disk, failures of the disk.

use std::sync::atomic::Ordering;

use super::*;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn one_writer_and_any_reader() {
    let root = directory();
    let reader = FileMeta::open_reader(root.path());
    assert_eq!(reader.load().await.unwrap(), None);

    let writer = FileMeta::open_writer(root.path()).unwrap();
    assert!(writer.is_exclusive() && !reader.is_exclusive());
    let refused = FileMeta::open_writer(root.path()).unwrap_err();
    assert!(
        refused.to_string().contains("stop it, or open as a reader"),
        "{refused}"
    );

    writer.swap(None, Bytes::from_static(b"one")).await.unwrap();
    assert_eq!(reader.load().await.unwrap().unwrap().bytes, "one");
    let refused = reader.swap(Some(Version(1)), Bytes::new()).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })));

    drop(writer);
    FileMeta::open_writer(root.path()).unwrap();
}

#[tokio::test]
async fn every_changed_or_missing_byte_is_found() {
    let root = directory();
    let writer = FileMeta::open_writer(root.path()).unwrap();
    writer
        .swap(None, Bytes::from_static(b"some bytes"))
        .await
        .unwrap();
    let path = root.path().join("state");
    let whole = fs::read(&path).unwrap();
    let reader = FileMeta::open_reader(root.path());
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        for bad in [&changed[..], &whole[..at]] {
            fs::write(&path, bad).unwrap();
            let loaded = reader.load().await;
            assert!(
                matches!(loaded, Err(Error::Corrupt { .. })),
                "byte {at}: {loaded:?}"
            );
        }
    }
    fs::write(&path, &whole).unwrap();
    assert_eq!(reader.load().await.unwrap().unwrap().bytes, "some bytes");
}

/// A swap whose directory sync failed is visible but may be gone after a power cut. Whoever looks
/// after the ambiguous answer must not be told of it before it is durable.
#[tokio::test]
async fn an_unsynced_swap_is_not_shown_to_its_writer_until_it_is_durable() {
    let root = directory();
    let meta = FileMeta::open_writer(root.path()).unwrap();
    meta.swap(None, Bytes::from_static(b"one")).await.unwrap();

    let fail = &meta.inner.writing.as_ref().unwrap().fail_directory_sync;
    fail.store(true, Ordering::SeqCst);
    let swapped = meta
        .swap(Some(Version(1)), Bytes::from_static(b"two"))
        .await;
    assert!(
        matches!(swapped, Err(Error::Unavailable { .. })),
        "{swapped:?}"
    );
    assert!(matches!(meta.load().await, Err(Error::Unavailable { .. })));

    fail.store(false, Ordering::SeqCst);
    let record = meta.load().await.unwrap().unwrap();
    assert_eq!(
        (record.version, &record.bytes[..]),
        (Version(2), &b"two"[..])
    );
    let writing = meta.inner.writing.as_ref().unwrap();
    assert_eq!(*writing.settled.lock(), Settled::Yes);
}

/// A record that cannot be written leaves the old one, and the handle continues.
#[tokio::test]
async fn a_failed_write_changes_nothing() {
    let root = directory();
    let meta = FileMeta::open_writer(root.path()).unwrap();
    meta.swap(None, Bytes::from_static(b"one")).await.unwrap();
    let in_the_way = root.path().join("state.tmp");
    fs::create_dir(&in_the_way).unwrap();
    let swapped = meta
        .swap(Some(Version(1)), Bytes::from_static(b"two"))
        .await;
    assert!(
        matches!(swapped, Err(Error::Unavailable { .. })),
        "{swapped:?}"
    );
    assert_eq!(meta.load().await.unwrap().unwrap().bytes, "one");
    fs::remove_dir(&in_the_way).unwrap();
    meta.swap(Some(Version(1)), Bytes::from_static(b"two"))
        .await
        .unwrap();
}

/// The record is one small file. An operator who lost it had nothing but the objects to go by, and what
/// they do not tell, such as filled history and halts, was gone with it.
#[tokio::test]
async fn the_last_versions_survive_the_loss_of_the_record() {
    let root = directory();
    let writer = FileMeta::open_writer(root.path()).unwrap();
    let mut version = None;
    for number in 1..=20_u8 {
        let swapped = writer.swap(version, Bytes::from(vec![number])).await;
        version = Some(swapped.unwrap());
    }
    let numbers = async |meta: &FileMeta| -> Vec<u64> {
        let kept = meta.kept().await.unwrap();
        let whole = kept.into_iter().filter_map(|(version, bytes)| {
            assert_eq!(u64::from(bytes.ok()?[0]), version.0);
            Some(version.0)
        });
        whole.collect()
    };
    let newest: Vec<u64> = (13..=20).rev().collect();
    assert_eq!(numbers(&writer).await, newest);
    drop(writer);

    // Nothing is loaded from a copy: going back to one is a decision.
    fs::remove_file(root.path().join("state")).unwrap();
    let reader = FileMeta::open_reader(root.path());
    assert_eq!(reader.load().await.unwrap(), None);
    assert_eq!(numbers(&reader).await, newest);

    // A damaged copy is named, and the numbers of a new record are higher than all there were.
    let damaged = root.path().join("states").join(kept_name(20));
    fs::write(&damaged, b"short").unwrap();
    assert_eq!(numbers(&reader).await, newest[1..]);
    let kept = reader.kept().await.unwrap();
    assert!(matches!(kept[0], (Version(20), Err(Error::Corrupt { .. }))));
    let writer = FileMeta::open_writer(root.path()).unwrap();
    let swapped = writer.swap(None, Bytes::from_static(&[21])).await.unwrap();
    assert_eq!(swapped, Version(21));
}

/// The newest copy was a link to the record itself: damage to the one was damage to the other, and a
/// rebuild went back one version, with the halt of the newest one lost.
#[tokio::test]
async fn a_record_that_is_damaged_in_place_leaves_its_copy() {
    let root = directory();
    let writer = FileMeta::open_writer(root.path()).unwrap();
    let first = writer.swap(None, Bytes::from_static(b"one")).await.unwrap();
    let second = writer.swap(Some(first), Bytes::from_static(b"two")).await;
    drop(writer);
    fs::write(root.path().join("state"), b"cut").unwrap();
    let reader = FileMeta::open_reader(root.path());
    assert!(reader.load().await.is_err());
    let (version, bytes) = reader.kept().await.unwrap().remove(0);
    assert_eq!(
        (version, &bytes.unwrap()[..]),
        (second.unwrap(), &b"two"[..])
    );
}

/// On a full disk no record could be written. Garbage is collected by a writer, which swaps first: so nothing
/// could make room, although there was enough to be removed.
#[tokio::test]
async fn a_full_disk_has_room_for_the_record() {
    let root = directory();
    let meta = FileMeta::open_writer(root.path()).unwrap();
    let reserve = root.path().join("state.reserve");
    let fill = |meta: &FileMeta, path: Option<PathBuf>| {
        *meta.inner.writing.as_ref().unwrap().full_while.lock() = path;
    };
    let mut at = Some(meta.swap(None, Bytes::from_static(b"one")).await.unwrap());
    assert!(reserve.exists());
    fill(&meta, Some(reserve.clone()));
    for _ in 0..3 {
        at = Some(meta.swap(at, Bytes::from_static(b"more")).await.unwrap());
    }
    drop(meta);

    // The next process writes the record once more when it first looks.
    let meta = FileMeta::open_writer(root.path()).unwrap();
    meta.swap(at, Bytes::from_static(b"room")).await.unwrap();
    assert!(reserve.exists(), "there is room again");
    drop(meta);
    let meta = FileMeta::open_writer(root.path()).unwrap();
    fill(&meta, Some(reserve.clone()));
    let found = meta.load().await.unwrap().unwrap();
    assert_eq!(found.bytes, "room");

    // Without a reserve the oldest copies go.
    fs::remove_file(&reserve).ok();
    let oldest = root.path().join("states").join(kept_name(1));
    assert!(oldest.exists());
    fill(&meta, Some(oldest));
    let swapped = meta
        .swap(Some(found.version), Bytes::from_static(b"last"))
        .await;
    let kept = meta.kept().await.unwrap();
    assert_eq!(kept[0].0, swapped.unwrap());
    // Where nothing gives room it is an error, and the record is as it was.
    fill(&meta, Some(root.path().join("state")));
    let refused = meta.swap(Some(kept[0].0), Bytes::new()).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    assert!(!root.path().join("state.tmp").exists());
    assert_eq!(meta.load().await.unwrap().unwrap().bytes, "last");
}
