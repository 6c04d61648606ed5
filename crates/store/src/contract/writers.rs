//! Objects written piece by piece.

use std::sync::Arc;

use bytes::Bytes;

use super::{pattern, soon};
use crate::{BlobStore, BlobWriter, Error};

type Blobs = Arc<dyn BlobStore>;

async fn nothing_there(blobs: &Blobs, name: &str) {
    let found = blobs.get(name).await;
    assert!(matches!(found, Err(Error::NotFound { .. })), "{found:?}");
    assert_eq!(blobs.list("", None, 10).await.unwrap(), []);
}

async fn write_all(writer: &mut Box<dyn BlobWriter>, bytes: &Bytes, piece: usize) {
    for start in (0..bytes.len()).step_by(piece) {
        let end = bytes.len().min(start + piece);
        writer.write(bytes.slice(start..end)).await.unwrap();
    }
}

pub(super) async fn an_object_exists_when_finished(blobs: Blobs) {
    for (name, len, piece) in [
        ("w/empty", 0, 1),
        ("w/small", 10, 3),
        ("w/some", 70_000, 1000),
    ] {
        let bytes = pattern(len as u64, len);
        let mut writer = blobs.create(name).await.unwrap();
        nothing_there(&blobs, name).await;
        write_all(&mut writer, &bytes, piece).await;
        writer.write(Bytes::new()).await.unwrap();
        nothing_there(&blobs, name).await;
        writer.finish(len as u64).await.unwrap();
        assert_eq!(blobs.get(name).await.unwrap(), bytes);
        let listed = blobs.list("w/", None, 10).await.unwrap();
        assert_eq!((listed.len(), listed[0].len), (1, len as u64));
        blobs.delete(name).await.unwrap();
    }
}

pub(super) async fn another_length_is_refused(blobs: Blobs) {
    for (len, expected) in [(10, 9), (10, 11), (0, 1), (1, 0), (10_000_000, 9_999_999)] {
        let mut writer = blobs.create("short").await.unwrap();
        write_all(&mut writer, &pattern(1, len), 1 << 20).await;
        let refused = writer.finish(expected).await;
        assert!(
            matches!(refused, Err(Error::Conflict { .. })),
            "{refused:?}"
        );
        nothing_there(&blobs, "short").await;
    }
}

pub(super) async fn a_dropped_writer_leaves_nothing(blobs: Blobs) {
    for len in [0, 10, 9_000_000] {
        let mut writer = blobs.create("gone").await.unwrap();
        write_all(&mut writer, &pattern(1, len), 1 << 20).await;
        drop(writer);
        nothing_there(&blobs, "gone").await;
    }
    let mut writer = blobs.create("gone").await.unwrap();
    write_all(&mut writer, &pattern(1, 10), 10).await;
    writer.finish(10).await.unwrap();
    assert_eq!(blobs.get("gone").await.unwrap(), pattern(1, 10));
}

pub(super) async fn a_large_object_is_streamed(blobs: Blobs) {
    let bytes = pattern(7, (12 << 20) + 12_345);
    for piece in [777_777, 12_000_000] {
        let mut writer = blobs.create("large/object").await.unwrap();
        soon("write", write_all(&mut writer, &bytes, piece)).await;
        nothing_there(&blobs, "large/object").await;
        soon("finish", writer.finish(bytes.len() as u64))
            .await
            .unwrap();
        assert!(
            blobs.get("large/object").await.unwrap() == bytes,
            "other bytes came back"
        );
        let ranges = [5_000_000..5_000_100, 12_582_900..12_582_950, 0..10];
        let parts = blobs.ranges("large/object", &ranges).await.unwrap();
        for (range, part) in ranges.into_iter().zip(parts) {
            assert_eq!(part, bytes.slice(range.start as usize..range.end as usize));
        }
        blobs.delete("large/object").await.unwrap();
    }
}

/// Two writers of one name carry the same bytes by contract; their pieces never mix.
pub(super) async fn the_last_of_two_writers_is_whole(blobs: Blobs) {
    let bytes = pattern(3, 100_000);
    let mut one = blobs.create("two").await.unwrap();
    let mut two = blobs.create("two").await.unwrap();
    write_all(&mut one, &bytes.slice(..50_000), 10_000).await;
    write_all(&mut two, &bytes, 7_000).await;
    two.finish(bytes.len() as u64).await.unwrap();
    assert_eq!(blobs.get("two").await.unwrap(), bytes);
    write_all(&mut one, &bytes.slice(50_000..), 10_000).await;
    one.finish(bytes.len() as u64).await.unwrap();
    assert_eq!(blobs.get("two").await.unwrap(), bytes);
}
