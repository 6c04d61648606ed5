//! A chain written by hand, small enough to know every answer by looking at it.

use bytes::Bytes;
use chronolith_archive::{Archive, LogRecord, Provenance, Settings};
use chronolith_model::{
    Block, BlockMeta, BlockRange, ChainId, Clause, Hash32, Log, LogFilter, LogParts, Payload, Tx,
};

use crate::support::Stores;

pub(crate) const A: [u8; 20] = [0xaa; 20];
pub(crate) const B: [u8; 20] = [0xbb; 20];
pub(crate) const C: [u8; 20] = [0xcc; 20];
pub(crate) const X: [u8; 32] = [1; 32];
pub(crate) const Y: [u8; 32] = [2; 32];
pub(crate) const Z: [u8; 32] = [3; 32];
/// An address that is in no log, and a topic that looks like an address of one.
pub(crate) const NOBODY: [u8; 20] = [0xdd; 20];

/// Times of the blocks: equal ones side by side, as on fast chains.
pub(crate) const TIMES: [u64; 6] = [100, 100, 110, 110, 110, 120];

pub(crate) type Row = ([u8; 20], &'static [[u8; 32]]);

/// The logs of each block of the chain.
pub(crate) const ROWS: [&[Row]; 6] = [
    &[(A, &[X]), (A, &[X, Y]), (B, &[])],
    &[],
    &[(B, &[Y, X]), (A, &[X, X, X, X]), (A, &[])],
    &[(B, &[X, Y, Z]), (B, &[X])],
    &[(C, &[Z, Y])],
    &[(A, &[Z])],
];

pub(crate) fn hash(number: u64, salt: u8) -> Hash32 {
    let mut bytes = [salt; 32];
    bytes[..8].copy_from_slice(&(number + 1).to_le_bytes());
    Hash32(bytes)
}

/// The hand-made chain, its first block at `start`. Each log has a transaction of its own.
pub(crate) fn chain(start: u64) -> Vec<Block> {
    let block = |(at, rows): (usize, &&[Row])| {
        let number = start + at as u64;
        let log = |(index, (emitter, topics)): (usize, &Row)| {
            let topics: Vec<&[u8]> = topics.iter().map(|topic| &topic[..]).collect();
            Log::new(&LogParts {
                tx_index: index as u32,
                log_index: index as u32,
                emitter,
                topics: &topics,
                data: &[at as u8, index as u8],
                ..LogParts::default()
            })
            .unwrap()
        };
        let tx = |index: usize| Tx {
            index: index as u32,
            hash: hash(number * 100 + index as u64, 9),
        };
        Block {
            clock: BlockMeta {
                number,
                hash: hash(number, 7),
                parent_hash: number.checked_sub(1).map_or(Hash32::ZERO, |n| hash(n, 7)),
                timestamp: TIMES[at],
            },
            txs: (0..rows.len()).map(tx).collect(),
            logs: rows.iter().enumerate().map(log).collect(),
            payload: Payload::default(),
        }
    };
    ROWS.iter().enumerate().map(block).collect()
}

pub(crate) fn settings() -> Settings {
    let mut settings = Settings::evm(ChainId(1));
    settings.seal.grid_blocks = 4;
    settings.seal.weight = 4;
    settings.seal.fan_in = 2;
    settings
}

/// The chain in every form it can lie in: as one batch, as batches, sealed and merged and opened
/// again.
pub(crate) async fn forms(start: u64, settings: &Settings) -> Vec<(&'static str, Archive)> {
    let how = Provenance::default();
    let mut loose = settings.clone();
    loose.seal.weight = 1_000_000;
    loose.seal.grid_blocks = 1_000_000;
    let whole = Stores::memory().writer(&loose).await;
    whole
        .ingest_finalized_blocks(chain(start), &how)
        .await
        .unwrap();
    let single = Stores::memory().writer(&loose).await;
    let stores = Stores::memory();
    let writer = stores.writer(settings).await;
    for block in chain(start) {
        single
            .ingest_finalized_block(block.clone(), &how)
            .await
            .unwrap();
        writer.ingest_finalized_block(block, &how).await.unwrap();
        while writer.maintain().await.unwrap() {}
    }
    assert!(
        writer.health().tiers.len() > 2,
        "{:?}",
        writer.health().tiers
    );
    let sealed = stores.reader(settings).await;
    vec![
        ("one batch", whole),
        ("batches", single),
        ("merged", sealed),
    ]
}

pub(crate) fn one_of(values: &[&[u8]]) -> Clause {
    Clause::OneOf(
        values
            .iter()
            .map(|value| Bytes::copy_from_slice(value))
            .collect(),
    )
}

pub(crate) fn filter(start: u64, emitters: Clause, topics: &[Clause]) -> LogFilter {
    let mut filter = LogFilter::over(BlockRange::new(start, start + ROWS.len() as u64));
    filter.emitters = emitters;
    filter.topics = topics.to_vec();
    filter
}

/// Block offset and log index of each log found.
pub(crate) async fn places(archive: &Archive, filter: &LogFilter, start: u64) -> Vec<(u64, u32)> {
    let page = archive.query_finalized(filter).await.unwrap();
    assert!(!page.has_more && page.next.is_none());
    let place = |record: &LogRecord| (record.block.number - start, record.log.log_index());
    page.logs.iter().map(place).collect()
}
