//! What the archive's tests share: tiny settings, memory stores, comparison with the oracle.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test file uses its own part, and a test may panic"
)]

use std::sync::Arc;

use chronolith_archive::{
    Archive, AuditEntry, LogPage, Place, Provenance, RebuildReport, Settings, rebuild_state,
};
use chronolith_model::{
    Block, BlockRange, BlockRef, ChainId, ChainProfile, Dataset, DatasetSet, LogFilter,
};
use chronolith_sim::{ChainSpec, Oracle, SimChain};
use chronolith_store::{BlobStore, MemoryBlobs, MemoryMeta, MetaStore, TakeOver};

/// A memory store that outlives the archives opened on it.
#[derive(Clone)]
pub struct Stores {
    pub meta: Arc<dyn MetaStore>,
    pub blobs: Arc<dyn BlobStore>,
}

impl Stores {
    pub fn memory() -> Self {
        Self {
            meta: Arc::new(MemoryMeta::new()),
            blobs: Arc::new(MemoryBlobs::new()),
        }
    }

    pub async fn writer(&self, settings: &Settings) -> Archive {
        self.try_writer(settings).await.unwrap()
    }

    pub async fn try_writer(&self, settings: &Settings) -> chronolith_archive::Result<Archive> {
        let (meta, blobs) = (self.meta.clone(), self.blobs.clone());
        Archive::open_writer(meta, blobs, settings.clone(), TakeOver::NoWait).await
    }

    pub fn place(&self) -> Place {
        Place {
            meta: self.meta.clone(),
            blobs: self.blobs.clone(),
        }
    }

    /// The same objects without their state.
    pub fn without_state(&self) -> Self {
        Self {
            meta: Arc::new(MemoryMeta::new()),
            blobs: self.blobs.clone(),
        }
    }

    /// Makes the state again. Nobody confirms blocks but the anchor.
    pub async fn rebuild(
        &self,
        settings: &Settings,
        anchor: BlockRef,
    ) -> chronolith_archive::Result<RebuildReport> {
        let audit = AuditEntry {
            at: 5,
            act: "rebuild".to_owned(),
        };
        rebuild_state(&self.place(), settings, anchor, audit, &async |_| Ok(false)).await
    }

    pub async fn reader(&self, settings: &Settings) -> Archive {
        self.try_reader(settings).await.unwrap()
    }

    pub async fn try_reader(&self, settings: &Settings) -> chronolith_archive::Result<Archive> {
        let (meta, blobs) = (self.meta.clone(), self.blobs.clone());
        Archive::open_reader(meta, blobs, settings.clone()).await
    }
}

/// Tiers so small that a few hundred blocks cross every boundary.
pub fn tiny_settings() -> Settings {
    let mut settings = Settings::evm(ChainId(7));
    settings.profile = any_profile();
    settings.seal.grid_blocks = 64;
    settings.seal.range_blocks = 640;
    settings.seal.weight = 40;
    settings.seal.fan_in = 3;
    settings.seal.batches_max = 4;
    settings.seal.pack_bytes = 4096;
    settings.seal.pack_dictionary_bytes = 3_000;
    settings.datasets = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]);
    settings.cache = chronolith_archive::Cache::of_bytes(1 << 20);
    // The comparisons ask for everything at once.
    settings.limits.results_max = 10_000_000;
    settings
}

/// The simulated tiny chains use emitters and topics of any length. Receipts cover their logs.
pub fn any_profile() -> ChainProfile {
    ChainProfile {
        receipts_cover_logs: true,
        ..ChainProfile::STELLAR
    }
}

pub fn tiny_chain(seed: u64) -> SimChain {
    SimChain::new(ChainSpec::tiny(seed))
}

pub fn oracle_of(chain: &SimChain, range: BlockRange) -> Oracle {
    let mut oracle = Oracle::new();
    chain.blocks(range).for_each(|block| oracle.push(block));
    oracle
}

/// Feeds a range in batches whose sizes repeat.
pub async fn ingest(archive: &Archive, chain: &SimChain, range: BlockRange, sizes: &[usize]) {
    let mut blocks = chain.blocks(range);
    for &size in sizes.iter().cycle() {
        let batch: Vec<Block> = blocks.by_ref().take(size.max(1)).collect();
        if batch.is_empty() {
            break;
        }
        archive
            .ingest_finalized_blocks(batch, &Provenance::default())
            .await
            .unwrap();
        while archive.maintain().await.unwrap() {}
    }
}

/// The answer must be the oracle's, log for log, with everything around each log.
pub fn assert_answers(page: &LogPage, oracle: &Oracle, filter: &LogFilter) {
    let (expected, has_more) = oracle.query(filter);
    let got: Vec<_> = page
        .logs
        .iter()
        .map(|r| (r.block.number, r.log.clone()))
        .collect();
    assert_eq!(got.len(), expected.len(), "number of logs for {filter:?}");
    assert_eq!(got, expected, "logs for {filter:?}");
    assert_eq!(page.has_more, has_more, "has_more for {filter:?}");
    for record in &page.logs {
        let block = oracle.block(record.block.number).unwrap();
        assert_eq!(record.block, block.clock.block_ref());
        assert_eq!(record.timestamp, block.clock.timestamp);
        assert_eq!(Some(record.tx_hash), block.tx_hash(record.log.tx_index()));
    }
}
