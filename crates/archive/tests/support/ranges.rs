//! What tests of ranges share: ranges of a few blocks, and counting again what was counted.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test file uses its own part, and a test may panic"
)]

use std::time::Duration;

use chronolith_archive::{
    Archive, AuditEntry, Error, LedgerPhase, Provenance, RangeReport, RangeState, Settings,
    TxCounts, TxHashPhase,
};
use chronolith_model::{Block, BlockRange, Dataset, DatasetSet};
use chronolith_sim::SimChain;

use crate::support::tiny_settings;

/// The first block of range 0, blocks of a cell of the grid, and blocks of a range.
pub const FIRST: u64 = 2;
pub const GRID: u64 = 20;
pub const SIZE: u64 = 40;

/// Ranges of 40 blocks from block 2 on, with everything that can be kept.
pub fn range_settings() -> Settings {
    let mut settings = tiny_settings();
    settings.seal.first_block = FIRST;
    settings.seal.grid_blocks = GRID;
    settings.seal.range_blocks = SIZE;
    settings.seal.weight = 24;
    settings.seal.pack_bytes = 2_000;
    settings.datasets = DatasetSet::of(&Dataset::ALL);
    settings.garbage.grace = Duration::ZERO;
    settings.cache = chronolith_archive::Cache::of_bytes(64 << 20);
    settings
}

pub fn at(now: u64) -> Provenance {
    Provenance {
        now,
        ..Provenance::default()
    }
}

pub fn audit(now: u64, act: &str) -> AuditEntry {
    AuditEntry {
        at: now,
        act: act.to_owned(),
    }
}

pub async fn append(archive: &Archive, chain: &SimChain, range: BlockRange, size: usize, now: u64) {
    let blocks: Vec<Block> = chain.blocks(range).collect();
    for batch in blocks.chunks(size) {
        archive
            .ingest_finalized_blocks(batch.to_vec(), &at(now))
            .await
            .unwrap();
    }
}

pub async fn fill(
    archive: &Archive,
    chain: &SimChain,
    range: BlockRange,
    now: u64,
) -> Result<(), Error> {
    let mut fill = archive.fill(range)?;
    let blocks: Vec<Block> = chain.blocks(range).collect();
    for batch in blocks.chunks(7) {
        fill.push(batch.to_vec(), &at(now)).await?;
    }
    fill.finish().await
}

/// All maintenance that is due.
pub async fn settle(archive: &Archive, now: u64) {
    while archive.maintain_at(now).await.unwrap() {}
}

pub async fn report(archive: &Archive, id: u64) -> RangeReport {
    let ranges = archive.ranges().await;
    let found = ranges.into_iter().find(|report| report.id == id);
    found.unwrap_or_else(|| panic!("range {id} is not reported"))
}

/// How far a range is, as numbers that never fall in a transition.
pub fn progress(report: &RangeReport) -> (u8, u8) {
    let ledger = match report.ledger {
        None | Some(LedgerPhase::Ingesting) => 0,
        Some(LedgerPhase::Merging) => 1,
        Some(LedgerPhase::Immutable) => 2,
    };
    let txhash = match report.txhash {
        None | Some(TxHashPhase::Ingesting) => 0,
        Some(TxHashPhase::Compacting) => 1,
        Some(TxHashPhase::BuildingIndex) => 2,
        Some(TxHashPhase::VerifyingIndex) => 3,
        Some(TxHashPhase::Complete) => 4,
    };
    (ledger, txhash)
}

/// Counts the blocks and transactions of every range again, from the chain, and compares.
pub async fn check_counts(archive: &Archive, chain: &SimChain) {
    for report in archive.ranges().await {
        let (mut keys, mut blocks, mut prefix) = (TxCounts::default(), 0, None);
        let base = archive.health().covered.map_or(0, |covered| covered.start);
        let mut whole = true;
        for number in report.first.max(base)..=report.last {
            if archive.block_by_number(number).await.is_err() {
                whole = false;
                continue;
            }
            let block = chain.blocks(BlockRange::one(number)).next().unwrap();
            block.txs.iter().for_each(|tx| keys.count(&tx.hash));
            blocks += 1;
            prefix = Some(number).filter(|_| whole).or(prefix);
        }
        assert_eq!(report.blocks, blocks, "{report:?}");
        assert_eq!(report.last_committed, prefix, "{report:?}");
        let pending = report.state == RangeState::Pending;
        assert_eq!(pending, blocks == 0, "{report:?}");
        assert_eq!(report.keys, (!pending).then_some(keys), "{report:?}");
        if report.state == RangeState::Complete {
            assert!(whole && report.runs.len() == 1, "{report:?}");
            assert_eq!(progress(&report), (2, 4), "{report:?}");
        }
    }
}

/// Every transaction of these blocks is found by its hash.
pub async fn check_lookups(archive: &Archive, chain: &SimChain, range: BlockRange) {
    for block in chain.blocks(range) {
        for tx in &block.txs {
            let found = archive.transaction_by_hash(&tx.hash).await.unwrap();
            let found = found.map(|place| (place.block, place.index));
            assert_eq!(found, Some((block.clock, tx.index)));
        }
        let found = archive.block_by_hash(&block.clock.hash).await.unwrap();
        assert_eq!(found, Some(block.clock));
    }
}
