//! Every metric that the requirement wants exists by its name and moves.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chronolith_archive::{GcMode, Provenance};
use chronolith_model::{BlockRange, Dataset, DatasetSet, LogFilter};
use chronolith_sim::{FaultPlan, FaultyMeta, Odds};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use support::{Stores, ingest, tiny_chain, tiny_settings};

/// Remembers which metrics were touched, and how often or by how much.
#[derive(Clone, Default)]
struct Touched(Arc<Mutex<BTreeMap<String, u64>>>);

struct Cell(String, Touched);

impl Cell {
    fn touch(&self, by: u64) {
        *self.1.0.lock().unwrap().entry(self.0.clone()).or_default() += by;
    }
}

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        if value > 0 {
            self.touch(value);
        }
    }
    fn absolute(&self, _value: u64) {
        self.touch(1);
    }
}

impl GaugeFn for Cell {
    fn increment(&self, _value: f64) {
        self.touch(1);
    }
    fn decrement(&self, _value: f64) {
        self.touch(1);
    }
    fn set(&self, _value: f64) {
        self.touch(1);
    }
}

impl HistogramFn for Cell {
    fn record(&self, _value: f64) {
        self.touch(1);
    }
}

impl Touched {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let chain = key
            .labels()
            .any(|label| label.key() == "chain" && label.value() == "7");
        assert!(chain, "{} carries its chain", key.name());
        Arc::new(Cell(key.name().to_owned(), self.clone()))
    }
}

impl Recorder for Touched {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.cell(key))
    }
}

async fn use_everything() {
    let chain = tiny_chain(51);
    let stores = Stores::memory();
    let mut settings = tiny_settings();
    settings.garbage.grace = Duration::ZERO;
    let archive = stores.writer(&settings).await;
    ingest(&archive, &chain, BlockRange::new(0, 200), &[9]).await;
    let mut filter = LogFilter::over(BlockRange::new(0, 200));
    let emitter = chain
        .blocks(BlockRange::new(0, 9))
        .flat_map(|block| block.logs)
        .next()
        .unwrap();
    let emitter = bytes::Bytes::copy_from_slice(emitter.emitter());
    filter.emitters = chronolith_model::Clause::OneOf(vec![emitter]);
    for _ in 0..2 {
        archive.query_finalized(&filter).await.unwrap();
    }
    archive.collect_garbage(GcMode::Remove).await.unwrap();
    let _newer = stores.writer(&settings).await;
    let next = chain.blocks(BlockRange::new(200, 201)).collect();
    archive
        .ingest_finalized_blocks(next, &Provenance::default())
        .await
        .unwrap_err();
}

/// Swaps that get lost are tried again, and counted.
async fn lose_swaps() {
    let stores = Stores::memory();
    let odds = Odds {
        crash_before: 0,
        crash_after: 0,
        fail_unapplied: 3000,
        fail_applied: 1000,
    };
    let meta = FaultyMeta::new(stores.meta.clone(), FaultPlan::random(3, odds));
    let lossy = Stores {
        meta: Arc::new(meta),
        ..stores
    };
    let mut archive = lossy.try_writer(&tiny_settings()).await;
    for _ in 0..50 {
        if archive.is_ok() {
            break;
        }
        archive = lossy.try_writer(&tiny_settings()).await;
    }
    let (archive, chain) = (archive.unwrap(), tiny_chain(52));
    for number in 0..20 {
        // Lost more often than it is tried again: the metric is what counts here.
        let _ = archive
            .ingest_finalized_block(chain.block(number), &Provenance::default())
            .await;
    }
}

/// A segment that is gone is met by the next merge.
async fn lose_a_segment() {
    let (chain, stores) = (tiny_chain(53), Stores::memory());
    let archive = stores.writer(&tiny_settings()).await;
    let blocks = chain.blocks(BlockRange::new(0, 300)).collect();
    let provenance = Provenance::default();
    archive
        .ingest_finalized_blocks(blocks, &provenance)
        .await
        .unwrap();
    let sealed = stores.blobs.list("seg/", None, 1).await.unwrap();
    stores.blobs.delete(&sealed[0].name).await.unwrap();
    let archive = stores.writer(&tiny_settings()).await;
    while archive.maintain_at(1).await.unwrap_or(false) {}
}

/// What the metrics say after something was done.
fn after(work: impl Future<Output = ()>) -> BTreeMap<String, u64> {
    let touched = Touched::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    metrics::with_local_recorder(&touched, || runtime.block_on(work));
    let all = touched.0.lock().unwrap();
    all.clone()
}

/// Logs were counted as they were offered: those of blocks that were archived already, and those that
/// are not kept, counted as archived. Batches, which are not sealed, counted as sealed segments.
#[test]
fn what_is_not_kept_or_not_sealed_is_not_counted() {
    let chain = tiny_chain(54);
    let offered = |range: BlockRange| chain.blocks(range).collect::<Vec<_>>();
    let logs_in = |range: BlockRange| {
        chain
            .blocks(range)
            .map(|block| block.logs.len())
            .sum::<usize>()
    };
    let push = async |kept: DatasetSet| {
        let mut settings = tiny_settings();
        settings.datasets = kept;
        settings.seal.weight = 1 << 20;
        settings.seal.grid_blocks = 1 << 20;
        settings.seal.range_blocks = 1 << 20;
        let archive = Stores::memory().writer(&settings).await;
        let how = Provenance::default();
        for (start, end) in [(0, 10), (5, 20)] {
            let blocks = offered(BlockRange::new(start, end));
            archive.ingest_finalized_blocks(blocks, &how).await.unwrap();
        }
    };
    let of = |all: &BTreeMap<String, u64>, name: &str| {
        let found = all.get(&format!("chronolith_archive_{name}"));
        found.copied().unwrap_or(0)
    };
    let all = after(push(DatasetSet::of(&[Dataset::Logs])));
    let logs = logs_in(BlockRange::new(0, 20)) as u64;
    assert_eq!(of(&all, "ingested_blocks_total"), 20);
    assert_eq!(of(&all, "ingested_logs_total"), logs);
    assert_eq!((of(&all, "seals_total"), of(&all, "segment_bytes")), (0, 0));
    let all = after(push(DatasetSet::CLOCK));
    assert_eq!(of(&all, "ingested_logs_total"), 0);
}

#[test]
fn every_metric_exists_and_moves() {
    let names = after(async {
        use_everything().await;
        lose_swaps().await;
        lose_a_segment().await;
    });
    for name in [
        "ingest_seconds",
        "ingest_block_seconds",
        "ingested_blocks_total",
        "ingested_logs_total",
        "query_seconds",
        "query_candidates",
        "clause_logs",
        "seals_total",
        "segment_bytes",
        "merge_seconds",
        "unsealed_batches",
        "unsealed_weight",
        "swap_retries_total",
        "lease_lost_total",
        "orphan_segment_bytes",
        "orphan_state_records",
        "stale_batch_keys",
        "garbage_removed_total",
        "damaged_objects",
        "cache_hits_total",
        "cache_misses_total",
        "head_block",
    ] {
        let name = format!("chronolith_archive_{name}");
        assert!(
            names.contains_key(&name),
            "{name} was never touched: {names:?}"
        );
    }
}
