//! The version of an archive is found out, and one of the future is refused.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use chronolith_archive::{Error, Place, check_format, rebuild_anchors};
use chronolith_model::BlockRange;
use chronolith_store::{MemoryMeta, MetaStore};
use support::{Stores, ingest, tiny_chain, tiny_settings};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

fn place(stores: &Stores) -> Place {
    Place {
        meta: stores.meta.clone(),
        blobs: stores.blobs.clone(),
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The same object, as if version 9 had written it for readers of version 9.
fn of_the_future(object: &[u8]) -> Bytes {
    let mut bytes = object.to_vec();
    let footer = bytes.len() - 32;
    let (tables, trailer) = (u64_at(&bytes, footer), u64_at(&bytes, footer + 8));
    let at = trailer as usize;
    bytes[at + 1..at + 5].copy_from_slice(&[9, 0, 9, 0]);
    let sum = xxh3_64_with_seed(&bytes[at..footer], trailer ^ tables.rotate_left(32));
    bytes[footer + 16..footer + 24].copy_from_slice(&sum.to_le_bytes());
    bytes.into()
}

#[tokio::test]
async fn every_object_is_of_the_newest_version_and_the_future_is_refused() {
    let (chain, stores) = (tiny_chain(91), Stores::memory());
    let none = check_format(&place(&stores)).await;
    assert!(matches!(none, Err(Error::Invalid(_))), "{none:?}");
    let archive = stores.writer(&tiny_settings()).await;
    ingest(&archive, &chain, BlockRange::new(0, 200), &[5]).await;
    let health = archive.health();
    let parts = health.segments.0 + health.runs_and_packs.0 + health.runs_and_packs.1;
    let report = check_format(&place(&stores)).await.unwrap();
    assert_eq!(report.newest, 3);
    assert_eq!(
        report.objects.into_iter().collect::<Vec<_>>(),
        [(3, parts as u64 + 2)]
    );

    let newest = archive.segments_of(199).remove(0).name;
    let whole = stores.blobs.get(&newest).await.unwrap();
    stores.blobs.delete(&newest).await.unwrap();
    stores
        .blobs
        .put(&newest, of_the_future(&whole))
        .await
        .unwrap();
    let refused = check_format(&place(&stores)).await.unwrap_err().to_string();
    assert!(
        refused.contains("use a newer one") && refused.contains(&newest),
        "{refused}"
    );

    let state = stores.meta.load().await.unwrap().unwrap().bytes;
    let mut state = state[..state.len() - 8].to_vec();
    state[8..12].copy_from_slice(&[9, 0, 9, 0]);
    let sum = xxh3_64(&state);
    state.extend(sum.to_le_bytes());
    let meta = MemoryMeta::new();
    meta.swap(None, state.into()).await.unwrap();
    let future = Place {
        meta: Arc::new(meta),
        blobs: stores.blobs.clone(),
    };
    let refused = check_format(&future).await.unwrap_err().to_string();
    assert!(refused.contains("object=state, format=9"), "{refused}");
}

#[tokio::test]
async fn ends_of_segments_are_listed_newest_first() {
    let (chain, stores) = (tiny_chain(92), Stores::memory());
    assert!(rebuild_anchors(&*stores.blobs).await.unwrap().is_empty());
    let archive = stores.writer(&tiny_settings()).await;
    ingest(&archive, &chain, BlockRange::new(0, 120), &[7]).await;
    let anchors = rebuild_anchors(&*stores.blobs).await.unwrap();
    assert_eq!(anchors[0], chain.block_ref(119));
    assert!(
        anchors.is_sorted_by(|a, b| a.number > b.number),
        "{anchors:?}"
    );
    assert!(
        anchors
            .iter()
            .all(|end| *end == chain.block_ref(end.number))
    );
}
