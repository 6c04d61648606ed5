//! Every metric that the requirement wants exists by its name and moves.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chronolith_archive::{Collect, Provenance};
use chronolith_model::{BlockRange, LogFilter};
use chronolith_sim::{FaultPlan, FaultyMeta, Odds};
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName};
use metrics::{Metadata, Recorder, SharedString, Unit};
use support::{Stores, ingest, tiny_chain, tiny_settings};

/// Remembers which metrics were touched.
#[derive(Clone, Default)]
struct Touched(Arc<Mutex<BTreeSet<String>>>);

struct Cell(String, Touched);

impl Cell {
    fn touch(&self) {
        self.1.0.lock().unwrap().insert(self.0.clone());
    }
}

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        if value > 0 {
            self.touch();
        }
    }
    fn absolute(&self, _value: u64) {
        self.touch();
    }
}

impl GaugeFn for Cell {
    fn increment(&self, _value: f64) {
        self.touch();
    }
    fn decrement(&self, _value: f64) {
        self.touch();
    }
    fn set(&self, _value: f64) {
        self.touch();
    }
}

impl HistogramFn for Cell {
    fn record(&self, _value: f64) {
        self.touch();
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
    archive.collect_garbage(Collect::Remove).await.unwrap();
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

#[test]
fn every_metric_exists_and_moves() {
    let touched = Touched::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    metrics::with_local_recorder(&touched, || {
        runtime.block_on(async {
            use_everything().await;
            lose_swaps().await;
            lose_a_segment().await;
        })
    });
    let names = touched.0.lock().unwrap().clone();
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
        assert!(names.contains(&name), "{name} was never touched: {names:?}");
    }
}
