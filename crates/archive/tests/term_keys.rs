//! What terms are hashed with: a secret of each archive, so that whoever emits logs cannot choose
//! topics that crowd a page of the dictionary.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod sections;
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use chronolith_archive::{Archive, AuditEntry, Provenance, Settings, rebuild_state};
use chronolith_model::{
    Block, BlockMeta, BlockRange, ChainId, Clause, Hash32, Log, LogFilter, LogParts, Payload, Tx,
};
use chronolith_sim::Oracle;
use chronolith_store::MemoryMeta;
use support::{Stores, assert_answers, ingest, oracle_of, tiny_chain, tiny_settings};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const LOGS_PER_BLOCK: u64 = 100;
const BLOCKS: u64 = 120;
/// `keccak256("Transfer(address,address,uint256)")`: the topic that is asked for most.
const TRANSFER: [u8; 32] = [
    0xdd, 0xf2, 0x52, 0xad, 0x1b, 0xe2, 0xc8, 0x9b, 0x69, 0xc2, 0xb0, 0x68, 0xfc, 0x37, 0x8d, 0xaa,
    0x95, 0x2b, 0xa7, 0xf1, 0x63, 0xc4, 0xa1, 0x16, 0x28, 0xf5, 0x5a, 0x4d, 0xf5, 0x23, 0xb3, 0xef,
];
/// Leading bits of the hash that choose a page in a dictionary of this size.
const PAGE_BITS: u32 = 6;

/// Topics whose hash without a key leads to the page of Transfer at position 0.
fn crowding() -> impl Iterator<Item = [u8; 32]> {
    let page = |value: &[u8], seed: u64| xxh3_64_with_seed(value, seed) >> (64 - PAGE_BITS);
    let wanted = page(&TRANSFER, 1);
    (0_u64..)
        .map(|number| *blake3::hash(&number.to_le_bytes()).as_bytes())
        .filter(move |topic| page(topic, 2) == wanted)
}

fn blocks() -> Vec<Block> {
    let mut topics = crowding();
    let hash = |number: u64| Hash32(*blake3::hash(&number.to_be_bytes()).as_bytes());
    let block = |number: u64| {
        let log = |at: u64| {
            let parts = LogParts {
                tx_index: 0,
                log_index: at as u32,
                emitter: &[7; 20],
                topics: &[&TRANSFER, &topics.next().unwrap()],
                ..LogParts::default()
            };
            Log::new(&parts).unwrap()
        };
        Block {
            clock: BlockMeta {
                number,
                hash: hash(number),
                parent_hash: number.checked_sub(1).map_or(Hash32::ZERO, hash),
                timestamp: number,
            },
            logs: (0..LOGS_PER_BLOCK).map(log).collect(),
            txs: vec![Tx {
                index: 0,
                hash: hash(1 << 32 | number),
            }],
            payload: Payload::default(),
        }
    };
    (0..BLOCKS).map(block).collect()
}

/// Length of the largest page of a segment's term dictionary, and how many times the mean that is.
fn largest_page(segment: &[u8]) -> (usize, f64) {
    let mut directory = &segment[sections::find(segment, sections::TERM_DIRECTORY)];
    let pages = 1 << directory[2];
    directory = &directory[3..];
    sections::varint(&mut directory);
    let lens: Vec<usize> = (0..pages)
        .map(|_| {
            let len = sections::varint(&mut directory);
            directory = &directory[4..];
            len
        })
        .collect();
    let mean = lens.iter().sum::<usize>() as f64 / lens.len() as f64;
    let largest = *lens.iter().max().unwrap();
    (largest, largest as f64 / mean)
}

async fn objects(stores: &Stores, folder: &str) -> Vec<bytes::Bytes> {
    let mut found = Vec::new();
    for info in stores.blobs.list(folder, None, 10_000).await.unwrap() {
        found.push(stores.blobs.get(&info.name).await.unwrap());
    }
    found
}

/// The hash of a term had no key. A few dozen tries a topic, and all topics of an attacker lay in the
/// page of Transfer: a query for Transfer then read megabytes instead of a few kilobytes.
#[tokio::test]
async fn topics_cannot_be_chosen_to_crowd_a_page() {
    let stores = Stores::memory();
    let mut settings = Settings::evm(ChainId(1));
    settings.seal.weight = 5_000;
    settings.limits.results_max = 100_000;
    let archive = stores.writer(&settings).await;
    let (blocks, how) = (blocks(), Provenance::default());
    for part in blocks.chunks(20) {
        let ingested = archive.ingest_finalized_blocks(part.to_vec(), &how);
        ingested.await.unwrap();
    }
    while archive.maintain().await.unwrap() {}
    let segments = objects(&stores, "seg/").await;
    assert!(!segments.is_empty(), "nothing was sealed");
    for segment in segments {
        let (largest, times_mean) = largest_page(&segment);
        assert!(
            times_mean < 3.0,
            "a page of {largest} bytes, {times_mean} times the mean"
        );
    }
    let mut oracle = Oracle::new();
    blocks.into_iter().for_each(|block| oracle.push(block));
    let mut filter = LogFilter::over(BlockRange::new(0, BLOCKS));
    filter.topics = vec![Clause::OneOf(vec![TRANSFER.to_vec().into()])];
    assert_answers(
        &archive.query_finalized(&filter).await.unwrap(),
        &oracle,
        &filter,
    );
    let topic: [u8; 32] = crowding().nth(77).unwrap();
    filter
        .topics
        .push(Clause::OneOf(vec![topic.to_vec().into()]));
    assert_answers(
        &archive.query_finalized(&filter).await.unwrap(),
        &oracle,
        &filter,
    );
}

/// The keys of all sealed segments: the end of their summary, as docs/dev/format.md has it.
async fn keys(stores: &Stores) -> BTreeSet<Vec<u8>> {
    let segments = objects(stores, "seg/").await;
    let key = |segment: &bytes::Bytes| {
        let summary = &segment[sections::find(segment, sections::SUMMARY)];
        summary[summary.len() - 16..].to_vec()
    };
    segments.iter().map(key).collect()
}

async fn filled(stores: &Stores, range: BlockRange) -> Archive {
    let archive = stores.writer(&tiny_settings()).await;
    ingest(&archive, &tiny_chain(81), range, &[7, 3]).await;
    archive
}

/// Each archive has a key of its own, and the same content gives the same root all the same. A state
/// that is rebuilt finds the key in the segments, so that those which follow merge with them.
#[tokio::test]
async fn a_key_stays_with_its_archive() {
    let chain = tiny_chain(81);
    let range = BlockRange::new(0, 230);
    let (one, two) = (Stores::memory(), Stores::memory());
    let (first, second) = (filled(&one, range).await, filled(&two, range).await);
    let root = first.content_root(range).await.unwrap();
    assert_eq!(root, second.content_root(range).await.unwrap());
    let of_one = keys(&one).await;
    assert_eq!(of_one.len(), 1);
    assert!(of_one.is_disjoint(&keys(&two).await));
    drop((first, second));

    let lost = Stores {
        meta: Arc::new(MemoryMeta::new()),
        ..one.clone()
    };
    let audit = AuditEntry {
        at: 5,
        act: "rebuild".to_owned(),
    };
    let anchor = chain.block_ref(range.end - 1);
    let settings = tiny_settings();
    let confirm = async |_| Ok(false);
    let place = lost.place();
    let rebuilt = rebuild_state(&place, &settings, anchor, audit, &confirm);
    rebuilt.await.unwrap();
    let archive = lost.writer(&tiny_settings()).await;
    let audit = AuditEntry {
        at: 6,
        act: "resume".to_owned(),
    };
    archive.resume(audit).await.unwrap();
    let all = BlockRange::new(0, 460);
    let more = BlockRange::new(range.end, all.end);
    ingest(&archive, &chain, more, &[11]).await;
    assert_eq!(keys(&lost).await, of_one);
    let filter = LogFilter::over(all);
    let page = archive.query_finalized(&filter).await.unwrap();
    assert_answers(&page, &oracle_of(&chain, all), &filter);
}
