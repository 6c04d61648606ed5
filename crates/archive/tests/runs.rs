//! Runs: what they are made of, whether they hold every hash, and what a lookup reads of them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod sections;
mod support;

use std::collections::BTreeMap;

use chronolith_archive::{Archive, AuditEntry, Error, Provenance, Settings};
use chronolith_model::{Block, BlockRange};
use support::{Stores, ingest, tiny_chain, tiny_settings};

/// Two ranges of 128 blocks, in cells of 64.
fn settings() -> Settings {
    let mut settings = tiny_settings();
    settings.seal.range_blocks = 128;
    settings.garbage.grace = std::time::Duration::ZERO;
    settings
}

const RANGES: [BlockRange; 2] = [
    BlockRange { start: 0, end: 128 },
    BlockRange {
        start: 128,
        end: 256,
    },
];

async fn archived(stores: &Stores, settings: &Settings, sizes: &[usize]) -> Archive {
    let archive = stores.writer(settings).await;
    ingest(&archive, &tiny_chain(9), BlockRange::new(0, 300), sizes).await;
    for _ in 0..2 {
        archive
            .collect_garbage(chronolith_archive::Collect::Remove)
            .await
            .unwrap();
    }
    archive
}

/// The hash tables of the runs, by the blocks they are about.
async fn runs(stores: &Stores) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for info in stores.blobs.list("run/", None, 10_000).await.unwrap() {
        let bytes = stores.blobs.get(&info.name).await.unwrap();
        let about = info.name.split('-').take(2).collect::<Vec<_>>().join("-");
        found.insert(
            about,
            bytes[sections::find(&bytes, sections::HASHES)].to_vec(),
        );
    }
    found
}

/// Transactions and blocks of a range, as the chain has them.
fn expected(range: BlockRange) -> (u64, [u64; 16]) {
    let mut nibbles = [0; 16];
    let blocks: Vec<Block> = tiny_chain(9).blocks(range).collect();
    let txs = blocks.iter().flat_map(|block| &block.txs);
    txs.for_each(|tx| nibbles[usize::from(tx.hash.0[0] >> 4)] += 1);
    (blocks.len() as u64, nibbles)
}

#[tokio::test]
async fn a_finished_range_has_one_run_that_holds_every_hash() {
    let stores = Stores::memory();
    let archive = archived(&stores, &settings(), &[7]).await;
    for range in RANGES {
        let verified = archive.verify_run(range).await.unwrap();
        let (blocks, transactions) = expected(range);
        assert_eq!((verified.range, verified.runs), (range, 1));
        assert_eq!(
            (verified.blocks, verified.transactions),
            (blocks, transactions)
        );
        let keys = blocks + transactions.iter().sum::<u64>();
        assert_eq!(verified.keys, keys);
    }
    let unfinished = archive.verify_run(BlockRange::new(256, 384)).await;
    assert!(
        matches!(unfinished, Err(Error::NotCovered { .. })),
        "{unfinished:?}"
    );
}

/// One by one, in one go, with other fan-ins: the same run, byte for byte.
#[tokio::test]
async fn equal_blocks_give_equal_runs_however_they_are_merged() {
    let mut all = Vec::new();
    for (fan_in, merge_tiers, sizes) in [(3, 2, &[1][..]), (2, 3, &[300]), (7, 1, &[5, 31])] {
        let mut settings = settings();
        (settings.seal.fan_in, settings.seal.merge_tiers) = (fan_in, merge_tiers);
        let stores = Stores::memory();
        archived(&stores, &settings, sizes).await;
        let mut found = runs(&stores).await;
        found.retain(|about, _| about.starts_with("run/000000000000-") || about.contains("128-"));
        assert_eq!(found.len(), 2, "{:?}", found.keys());
        all.push(found);
    }
    assert!(all[0] == all[1] && all[0] == all[2], "the runs differ");
}

/// A run of other blocks, well formed in itself, in the place of the right one.
#[tokio::test]
async fn a_run_that_holds_other_hashes_is_found() {
    let (stores, settings) = (Stores::memory(), settings());
    let archive = archived(&stores, &settings, &[7]).await;
    let names = stores.blobs.list("run/", None, 100).await.unwrap();
    let of = |start: &str| {
        let found = names.iter().find(|info| info.name.starts_with(start));
        found.unwrap().name.clone()
    };
    let name = of("run/000000000128-256");
    // Only one hash is another: the last transaction of the range.
    let other = Stores::memory();
    let mut blocks: Vec<Block> = tiny_chain(9).blocks(BlockRange::new(0, 300)).collect();
    let changed = blocks[..256]
        .iter_mut()
        .rev()
        .find(|block| !block.txs.is_empty());
    changed.unwrap().txs[0].hash.0[1] ^= 1;
    let writer = other.writer(&settings).await;
    for batch in blocks.chunks(7) {
        let how = Provenance::default();
        writer
            .ingest_finalized_blocks(batch.to_vec(), &how)
            .await
            .unwrap();
        while writer.maintain().await.unwrap() {}
    }
    let theirs = other
        .blobs
        .list("run/000000000128-256", None, 100)
        .await
        .unwrap();
    let bytes = other.blobs.get(&theirs[0].name).await.unwrap();
    assert_eq!(
        bytes.len() as u64,
        names.iter().find(|info| info.name == name).unwrap().len
    );
    stores.blobs.delete(&name).await.unwrap();
    stores.blobs.put(&name, bytes).await.unwrap();
    drop(archive);
    let reader = stores.writer(&settings).await;
    reader.verify_run(RANGES[0]).await.unwrap();
    let wrong = reader.verify_run(RANGES[1]).await;
    assert!(
        matches!(&wrong, Err(Error::Corrupt { object, .. }) if *object == name),
        "{wrong:?}"
    );
}

/// After a rewind, blocks come again: there is one run a range in the end, and all of it is right.
#[tokio::test]
async fn a_rewind_leaves_no_second_run_over_the_same_blocks() {
    for to in [70, 100, 130, 191, 200, 255] {
        let (stores, settings) = (Stores::memory(), settings());
        let archive = archived(&stores, &settings, &[7]).await;
        let act = "rewind".to_owned();
        archive.rewind(to, AuditEntry { at: 1, act }).await.unwrap();
        let chain = tiny_chain(9);
        for block in chain.blocks(BlockRange::new(0, to + 1)).step_by(9) {
            for tx in &block.txs {
                let place = archive.transaction_by_hash(&tx.hash).await.unwrap();
                assert_eq!(place.unwrap().block, block.clock, "rewound to {to}");
            }
        }
        ingest(&archive, &chain, BlockRange::new(to + 1, 300), &[7]).await;
        for range in RANGES {
            let verified = archive.verify_run(range).await.unwrap();
            assert_eq!(verified.runs, 1, "rewound to {to}: {range}");
            assert_eq!(verified.transactions, expected(range).1);
        }
    }
}
