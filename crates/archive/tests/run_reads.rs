//! What a lookup by hash reads: one page of each run that is not in memory, all of them at once. And what is
//! read where a run is rebuilt.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chronolith_archive::{AuditEntry, Cache, ObjectSort, Settings, StoredObject};
use chronolith_model::{BlockRange, DatasetSet, Hash32, Scope};
use chronolith_sim::{CountingBlobs, IoCount, Operation};
use chronolith_store::{BlobInfo, BlobStore, BlobWriter, Result};
use support::{Stores, ingest, tiny_chain, tiny_settings};
use tokio::time::Instant;

const RANGES: u64 = 5;
/// What a read takes, on a clock that runs only while everybody waits.
const READ: Duration = Duration::from_millis(5);

/// A store far away that counts.
#[derive(Debug)]
struct Far(Arc<CountingBlobs>);

#[async_trait]
impl BlobStore for Far {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.0.put(name, bytes).await
    }
    async fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>> {
        self.0.create(name).await
    }
    async fn get(&self, name: &str) -> Result<Bytes> {
        tokio::time::sleep(READ).await;
        self.0.get(name).await
    }
    async fn range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        tokio::time::sleep(READ).await;
        self.0.range(name, range).await
    }
    async fn ranges(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        tokio::time::sleep(READ).await;
        self.0.ranges(name, ranges).await
    }
    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<BlobInfo>> {
        self.0.list(prefix, after, limit).await
    }
    async fn delete(&self, name: &str) -> Result<()> {
        self.0.delete(name).await
    }
}

/// Finished ranges with several pages a run, and nothing behind them.
fn settings() -> Settings {
    let mut settings = tiny_settings();
    settings.seal.grid_blocks = 512;
    settings.seal.range_blocks = 512;
    settings.cache = Cache::of_bytes(16 << 20);
    settings
}

/// A hash that is nowhere.
fn absent(seed: u8) -> Hash32 {
    Hash32([seed.wrapping_mul(37); 32])
}

#[tokio::test(start_paused = true)]
async fn a_miss_is_one_page_of_each_run_all_at_once() {
    let stores = Stores::memory();
    let range = BlockRange::new(0, RANGES * 512);
    let writer = stores.writer(&settings()).await;
    ingest(&writer, &tiny_chain(3), range, &[64]).await;
    let counting = Arc::new(CountingBlobs::new(stores.blobs.clone()));
    let far = Stores {
        meta: stores.meta.clone(),
        blobs: Arc::new(Far(counting.clone())),
    };
    let reader = far.reader(&settings()).await;
    // Opens the runs.
    assert_eq!(reader.transaction_by_hash(&absent(1)).await.unwrap(), None);
    counting.take();
    let started = Instant::now();
    assert_eq!(reader.transaction_by_hash(&absent(6)).await.unwrap(), None);
    assert_eq!(started.elapsed(), READ, "one after the other");
    let reads: Vec<((Operation, String), IoCount)> = counting.take().into_iter().collect();
    assert_eq!(reads.len() as u64, RANGES, "{reads:?}");
    for ((operation, name), io) in &reads {
        assert_eq!(
            (*operation, io.calls, io.ranges),
            (Operation::BlobRanges, 1, 1)
        );
        assert!(
            name.starts_with("run/") && io.bytes < 8 << 10,
            "{name}: {io:?}"
        );
    }
    // What is in memory is not read again, however often it is asked for.
    for _ in 0..40 {
        assert_eq!(reader.transaction_by_hash(&absent(6)).await.unwrap(), None);
    }
    assert!(counting.take().is_empty());
}

/// A run is rebuilt from the hashes of its segments, which are read in large steps: page by page, and block
/// by block through the cache, a range of ten million blocks would take hours on a store far away.
#[tokio::test(start_paused = true)]
async fn a_run_is_rebuilt_with_few_reads() {
    let stores = Stores::memory();
    let range = BlockRange::new(0, 512);
    let mut settings = settings();
    // One segment for all of them.
    settings.seal.weight = 1 << 20;
    let writer = stores.writer(&settings).await;
    ingest(&writer, &tiny_chain(4), range, &[64]).await;
    writer.release().await.unwrap();
    let counting = Arc::new(CountingBlobs::new(stores.blobs.clone()));
    let counted = Stores {
        meta: stores.meta.clone(),
        blobs: counting.clone(),
    };
    let writer = counted.writer(&settings).await;
    let report = writer.ranges().await;
    assert_eq!(report[0].segments.len(), 1);
    let object = StoredObject {
        name: report[0].runs[0].clone(),
        sort: ObjectSort::Run,
        range,
        datasets: DatasetSet::CLOCK,
        scope: Scope::All,
    };
    counting.take();
    let audit = AuditEntry {
        at: 1,
        act: "mend".to_owned(),
    };
    writer.rebuild_run(&object, audit).await.unwrap();
    let reads = counting.take();
    let of_segment = |name: &str| *name == report[0].segments[0];
    let reads = reads
        .iter()
        .filter(|((_, name), _)| of_segment(name))
        .map(|(_, io)| io.calls);
    let reads: u64 = reads.sum();
    let keys = report[0].keys.unwrap().total();
    assert!(keys > 2_000, "{keys} hashes are too few to tell");
    assert!(
        (1..=4).contains(&reads),
        "{reads} reads for {keys} hashes: its tables, and each of two sections"
    );
    let made = writer.ranges().await[0].runs[0].clone();
    assert_ne!(made, object.name);
    let (before, after) = (
        stores.blobs.get(&object.name).await.unwrap(),
        stores.blobs.get(&made).await.unwrap(),
    );
    assert_eq!(before, after, "the same hashes give the same bytes");
}
