//! Runs: what they are made of, whether they hold every hash, and what a lookup reads of them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod sections;
mod support;

use std::collections::BTreeMap;

use chronolith_archive::{Archive, AuditEntry, Provenance, RangeState, Settings, TxCounts};
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
            .collect_garbage(chronolith_archive::GcMode::Remove)
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
    let reports = archive.ranges().await;
    for (range, report) in RANGES.into_iter().zip(&reports) {
        let (blocks, transactions) = expected(range);
        assert_eq!(report.state, RangeState::Complete, "{report:?}");
        assert_eq!((report.blocks, report.runs.len()), (blocks, 1));
        assert_eq!(report.keys, Some(TxCounts(transactions)));
        assert_eq!(report.verified_keys, Some(transactions.iter().sum()));
    }
    assert_ne!(reports[2].state, RangeState::Complete);
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
        let reports = archive.ranges().await;
        for (range, report) in RANGES.into_iter().zip(&reports) {
            assert_eq!(
                report.state,
                RangeState::Complete,
                "rewound to {to}: {report:?}"
            );
            assert_eq!(report.runs.len(), 1, "rewound to {to}: {range}");
            assert_eq!(report.keys, Some(TxCounts(expected(range).1)));
        }
    }
}

/// Takes the blocks and stops when the second range has its run and is not verified yet. Returns the
/// name of the run.
async fn until_merged(stores: &Stores, blocks: &[Block]) -> String {
    let archive = stores.writer(&settings()).await;
    for batch in blocks.chunks(7) {
        let how = Provenance::default();
        archive
            .ingest_finalized_blocks(batch.to_vec(), &how)
            .await
            .unwrap();
        loop {
            let reports = archive.ranges().await;
            let second = reports
                .get(1)
                .filter(|report| report.state != RangeState::Complete);
            let runs = second.map(|report| report.runs.as_slice());
            if let Some([run]) = runs
                && run.starts_with("run/000000000128-256")
            {
                return run.clone();
            }
            if !archive.maintain().await.unwrap() {
                break;
            }
        }
    }
    panic!("the second range was never seen with one run");
}

/// A run that is well formed in itself, with one hash that is another, in the place of the right one.
#[tokio::test]
async fn a_run_without_one_hash_fails_its_range() {
    let mut blocks: Vec<Block> = tiny_chain(9).blocks(BlockRange::new(0, 300)).collect();
    let stores = Stores::memory();
    let name = until_merged(&stores, &blocks).await;
    let changed = blocks[..256]
        .iter_mut()
        .rev()
        .find(|block| !block.txs.is_empty())
        .unwrap();
    let number = changed.clock.number;
    changed.txs[0].hash.0[1] ^= 1;
    let other = Stores::memory();
    let theirs = until_merged(&other, &blocks).await;
    let bytes = other.blobs.get(&theirs).await.unwrap();
    stores.blobs.delete(&name).await.unwrap();
    stores.blobs.put(&name, bytes).await.unwrap();
    let archive = stores.writer(&settings()).await;
    while archive.maintain().await.unwrap() {}
    let reports = archive.ranges().await;
    assert_eq!(reports[0].state, RangeState::Complete);
    let failure = reports[1].failure.as_ref().unwrap();
    let cause = format!("it lacks a hash of block {number}");
    assert!(
        failure.object == name && failure.cause.contains(&cause),
        "{failure:?}"
    );
}

/// A segment that straddles the block is kept, and runs that end before that block went: hashes of its first
/// blocks were unknown although the blocks are there.
#[tokio::test]
async fn runs_of_what_a_prune_keeps_are_kept() {
    let chain = tiny_chain(10);
    let mut straddled = 0;
    for below in (5..200).step_by(13) {
        let archive = Stores::memory().writer(&tiny_settings()).await;
        ingest(&archive, &chain, BlockRange::new(0, 230), &[7]).await;
        let reported = AuditEntry {
            at: 1,
            act: "prune".to_owned(),
        };
        archive.prune(below, reported).await.unwrap();
        let first = archive.health().covered.unwrap().start;
        straddled += usize::from(first < below);
        for number in first..230 {
            let found = archive.block_by_hash(&chain.block_hash(number)).await;
            assert_eq!(
                found.unwrap(),
                Some(chain.clock(number)),
                "{below}: {number}"
            );
        }
    }
    assert!(straddled > 0);
}
