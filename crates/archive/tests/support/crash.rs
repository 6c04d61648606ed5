//! What a crash test compares with: the blocks that an archive must show and whether it is halted.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses its own part"
)]

use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{Archive, Error, Health, Settings, TxLocation};
use chronolith_model::{Block, BlockRange, BlockRef, Dataset, DatasetSet, Hash32, LogFilter};
use chronolith_sim::{FaultPlan, FaultyBlobs, FaultyMeta, Oracle, SimChain};

use crate::support::{Stores, assert_answers, oracle_of, tiny_settings};

/// Of the blocks, one in so many is looked up by hash and for its payload in one check.
const SAMPLE: u64 = 5;

/// Tiny tiers, every dataset, no grace, and a cache that never lets go: so that the number of
/// operations does not depend on chance.
pub fn crash_settings() -> Settings {
    let mut settings = tiny_settings();
    settings.datasets = DatasetSet::of(&Dataset::ALL);
    settings.garbage.grace = Duration::ZERO;
    settings.cache = chronolith_archive::Cache::of_bytes(64 << 20);
    settings
}

/// The same stores, as a process sees them that obeys a plan.
pub fn faulty(inner: &Stores, plan: &Arc<FaultPlan>) -> Stores {
    Stores {
        meta: Arc::new(FaultyMeta::new(inner.meta.clone(), plan.clone())),
        blobs: Arc::new(FaultyBlobs::new(inner.blobs.clone(), plan.clone())),
    }
}

pub fn batch(chain: &SimChain, range: BlockRange) -> Vec<Block> {
    chain.blocks(range).collect()
}

/// What an archive must show.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// The newest block of the live run.
    pub head: Option<BlockRef>,
    /// The covered intervals and what is in them.
    pub covered: Vec<(BlockRange, Arc<Oracle>)>,
    pub halted: bool,
    /// Blocks that were taken back, or never were there.
    pub absent: Vec<Hash32>,
}

impl Reference {
    /// Blocks of a chain: a fill, if any, below a live run that may touch it.
    pub fn of(chain: &SimChain, filled: Option<BlockRange>, live: BlockRange) -> Self {
        let ranges = match filled {
            Some(filled) if filled.end == live.start => {
                vec![BlockRange::new(filled.start, live.end)]
            }
            Some(filled) => vec![filled, live],
            None => vec![live],
        };
        let with_oracle = |range| (range, Arc::new(oracle_of(chain, range)));
        Self {
            head: Some(chain.block_ref(live.end - 1)),
            covered: ranges.into_iter().map(with_oracle).collect(),
            halted: false,
            absent: vec![chain.block_hash(live.end)],
        }
    }

    pub fn ranges(&self) -> Vec<BlockRange> {
        self.covered.iter().map(|(range, _)| *range).collect()
    }

    /// Whether the archive claims to be in this state. What it holds is checked by `check`.
    pub fn fits(&self, archive: &Archive) -> bool {
        let health = archive.health();
        let halted = matches!(health.health, Health::Halted(_));
        (health.head, halted, covered(archive)) == (self.head, self.halted, self.ranges())
    }

    /// Everything must be as it went in: all logs, and of the blocks those that the salt chooses.
    pub async fn check(&self, archive: &Archive, salt: u64) {
        for (range, oracle) in &self.covered {
            let mut filter = LogFilter::over(*range);
            filter.limit = Some(1_000_000);
            let page = archive.query_finalized(&filter).await.unwrap();
            assert_answers(&page, oracle, &filter);
            let chosen = |block: &&Block| (block.clock.number + salt).is_multiple_of(SAMPLE);
            for block in oracle.blocks().filter(chosen) {
                check_block(archive, block).await;
            }
            let behind = archive.block_by_number(range.end).await;
            assert!(
                matches!(behind, Err(Error::NotCovered { .. })),
                "{behind:?}"
            );
        }
        let head = self.covered.first().map(|(range, _)| range.end - 1);
        assert_eq!(archive.indexed_finalized_head(), head);
        for hash in self.absent.iter().filter(|_| !self.covered.is_empty()) {
            assert_eq!(archive.block_by_hash(hash).await.unwrap(), None);
        }
    }
}

/// The intervals in which every dataset is covered.
pub fn covered(archive: &Archive) -> Vec<BlockRange> {
    let intervals = archive.coverage(DatasetSet::of(&Dataset::ALL), None);
    intervals.into_iter().map(|(range, _)| range).collect()
}

/// One block, by every way that leads to it.
async fn check_block(archive: &Archive, block: &Block) {
    let (number, hash) = (block.clock.number, block.clock.hash);
    let found = archive.block_by_hash(&hash).await.unwrap();
    assert_eq!(found, Some(block.clock));
    let payload = archive.payload(number, Dataset::Transactions).await;
    let mut whole = archive.block(number).await.unwrap();
    whole.payload = payload.unwrap();
    assert_eq!(whole, *block);
    for tx in block.txs.first().iter().chain(&block.txs.last()) {
        let place = archive.transaction_by_hash(&tx.hash).await.unwrap();
        let expected = TxLocation {
            block: block.clock,
            index: tx.index,
        };
        assert_eq!(place, Some(expected), "transaction {}", tx.hash);
    }
}
