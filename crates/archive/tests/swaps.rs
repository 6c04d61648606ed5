//! Each unit's checksum knows the unit's place: two whole, valid units that changed places are as
//! wrong as a flipped bit.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod sections;
mod support;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use chronolith_archive::{Error, Provenance, SealSettings};
use chronolith_model::{
    Block, BlockMeta, BlockRange, Clause, Hash32, Log, LogFilter, LogParts, Payload, Tx,
};
use chronolith_store::{BlobStore, MemoryBlobs, MemoryMeta};
use support::{Stores, tiny_settings};

const BLOCKS: u64 = 192;
/// How many different second topics there are: enough for several blocks of postings.
const TOPICS: u64 = 700;

fn topic(number: u64) -> [u8; 32] {
    let mut topic = [0; 32];
    topic[..8].copy_from_slice(&number.to_le_bytes());
    topic
}

/// Blocks with many transactions and logs of one size: their frames pack to equal lengths.
fn uniform_blocks(count: u64) -> Vec<Block> {
    let hash = |number: u64, index: u32| {
        let seed = [number.to_le_bytes(), u64::from(index).to_le_bytes()].concat();
        let high = xxhash_rust::xxh3::xxh3_128(&seed).to_le_bytes();
        let low = xxhash_rust::xxh3::xxh3_128_with_seed(&seed, 1).to_le_bytes();
        Hash32::from_slice(&[high, low].concat()).unwrap()
    };
    let log = |number: u64, index: u32| {
        let data = hash(number, 1_000 + index);
        Log::new(&LogParts {
            tx_index: index,
            log_index: index,
            emitter: &[1; 20],
            topics: &[&[7; 32], &topic((number * 32 + u64::from(index)) % TOPICS)],
            data: &data.0,
            ..LogParts::default()
        })
        .unwrap()
    };
    let block = |number: u64| Block {
        clock: BlockMeta {
            number,
            hash: hash(number, 500),
            parent_hash: number.checked_sub(1).map_or(Hash32::ZERO, |n| hash(n, 500)),
            timestamp: number,
        },
        txs: (0..32)
            .map(|index| Tx {
                index,
                hash: hash(number, index),
            })
            .collect(),
        logs: (0..32).map(|index| log(number, index)).collect(),
        payload: Payload::default(),
    };
    (0..count).map(block).collect()
}

/// Swaps two pieces of equal length.
fn swapped(bytes: &[u8], one: Range<usize>, other: Range<usize>) -> Bytes {
    let mut copy = bytes.to_vec();
    copy[one.clone()].copy_from_slice(&bytes[other.clone()]);
    copy[other].copy_from_slice(&bytes[one]);
    copy.into()
}

/// Two frames of equal length, and neighbours in the sections that are read in blocks.
fn pairs(object: &[u8]) -> Vec<(&'static str, Range<usize>, Range<usize>)> {
    let frames = sections::frames(object);
    let twin = |(at, one): (usize, &Range<usize>)| {
        let twin = frames
            .iter()
            .skip(at + 1)
            .find(|other| other.len() == one.len());
        twin.map(|other| ("frames", one.clone(), other.clone()))
    };
    let mut pairs: Vec<_> = frames
        .iter()
        .enumerate()
        .find_map(twin)
        .into_iter()
        .collect();
    for (what, section, unit) in [
        ("tx hashes", sections::TX_HASHES, 2048),
        ("digests", sections::DIGESTS, 2048),
        ("postings", sections::POSTINGS, 4096),
    ] {
        let place = sections::find(object, section);
        assert!(place.len() >= 2 * unit, "{what} are too few: {place:?}");
        let (one, other) = (place.start, place.start + unit);
        pairs.push((what, one..other, other..other + unit));
    }
    assert_eq!(pairs.len(), 4, "no two frames have the same length");
    pairs
}

#[tokio::test]
async fn units_that_changed_places_are_detected() {
    let mut settings = tiny_settings();
    settings.seal = SealSettings::default();
    settings.limits.results_max = 1_000_000;
    let blobs = Arc::new(MemoryBlobs::new());
    let meta = Arc::new(MemoryMeta::new());
    let stores = Stores {
        meta,
        blobs: blobs.clone(),
    };
    let archive = stores.writer(&settings).await;
    let how = Provenance::default();
    let blocks = uniform_blocks(BLOCKS);
    archive.ingest_finalized_blocks(blocks, &how).await.unwrap();
    let listed = blobs.list("bat/", None, 10).await.unwrap();
    let name = &listed.first().expect("a batch").name;
    let bytes = blobs.get(name).await.unwrap();
    let range = BlockRange::new(0, BLOCKS);
    let mut by_topic = LogFilter::over(range);
    let topics = (0..TOPICS).map(|n| Bytes::from(topic(n).to_vec()));
    by_topic.topics = vec![Clause::Any, Clause::OneOf(topics.collect())];
    for (what, one, other) in pairs(&bytes) {
        assert_ne!(bytes[one.clone()], bytes[other.clone()], "{what} differ");
        let damaged = swapped(&bytes, one, other);
        blobs.put(name, damaged).await.unwrap();
        let reader = stores.reader(&settings).await;
        let answer = match what {
            "digests" => reader.content_root(range).await.map(|_| ()),
            "postings" => reader.query_finalized(&by_topic).await.map(|_| ()),
            _ => reader
                .query_finalized(&LogFilter::over(range))
                .await
                .map(|_| ()),
        };
        let error = answer.expect_err(what);
        println!("{what} swapped: {error}");
        assert!(
            matches!(error, Error::Corrupt { object, .. } if object == *name),
            "{what}"
        );
    }
    blobs.put(name, bytes).await.unwrap();
    let reader = stores.reader(&settings).await;
    let page = reader.query_finalized(&by_topic).await.unwrap();
    assert_eq!(page.logs.len() as u64, BLOCKS * 32, "whole again");
}
