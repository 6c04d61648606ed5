//! The cache: bounded in bytes, one read for many that miss the same thing, and reads of many
//! segments at once.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chronolith_archive::{Cache, Settings};
use chronolith_model::{BlockRange, ChainId, Clause, LogFilter};
use chronolith_sim::{ChainSpec, CountingBlobs, QueryClass, QueryMix, SimChain};
use chronolith_store::{BlobInfo, BlobStore, BlobWriter, Result};
use support::{Stores, assert_answers, ingest, oracle_of};
use tokio::time::Instant;

/// What a read takes, on a clock that runs only while everybody waits.
const READ: Duration = Duration::from_millis(5);

/// A store far away.
#[derive(Debug)]
struct Far(Arc<dyn BlobStore>);

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

fn chain() -> SimChain {
    chain_of(23)
}

fn chain_of(seed: u64) -> SimChain {
    SimChain::new(ChainSpec {
        logs_per_block: 40,
        ..ChainSpec::mainnet(seed)
    })
}

fn settings() -> Settings {
    let mut settings = Settings::evm(ChainId(1));
    settings.seal.weight = 800;
    settings.seal.fan_in = 4;
    settings.seal.merge_tiers = 1;
    settings
}

#[tokio::test]
async fn the_cache_stays_within_its_bytes_and_answers_stay_right() {
    let range = BlockRange::new(0, 600);
    let (chain, mut settings) = (chain(), settings());
    let stores = Stores::memory();
    ingest(&stores.writer(&settings).await, &chain, range, &[50]).await;
    let oracle = oracle_of(&chain, range);
    let mut most = 0;
    for cache_bytes in [64 << 10, 512 << 10, 2 << 20] {
        settings.cache = Cache::of_bytes(cache_bytes);
        let reader = stores.reader(&settings).await;
        let mut mix = QueryMix::new(&chain, range, 3);
        for class in QueryClass::ALL.into_iter().cycle().take(120) {
            let mut filter = mix.next(class);
            filter.limit = Some(filter.limit.unwrap_or(2_000).min(2_000));
            let page = reader.query_finalized(&filter).await.unwrap();
            assert_answers(&page, &oracle, &filter);
            let held = settings.cache.bytes();
            assert!(held <= cache_bytes, "{held} bytes, {cache_bytes} allowed");
            most = held.max(most);
        }
        assert!(most > cache_bytes / 3, "{most} of {cache_bytes} bytes used");
    }
}

#[tokio::test]
async fn archives_that_share_a_cache_keep_its_bound_and_their_own_answers() {
    const BYTES: u64 = 1 << 20;
    let range = BlockRange::new(0, 300);
    let cache = Cache::of_bytes(BYTES);
    let mut archives = Vec::new();
    for seed in 1..4 {
        let mut settings = settings();
        settings.cache = cache.clone();
        let (chain, stores) = (chain_of(seed), Stores::memory());
        ingest(&stores.writer(&settings).await, &chain, range, &[50]).await;
        let reader = stores.reader(&settings).await;
        let oracle = oracle_of(&chain, range);
        archives.push((reader, oracle, QueryMix::new(&chain, range, 3)));
    }
    for class in QueryClass::ALL.into_iter().cycle().take(60) {
        for (reader, oracle, mix) in &mut archives {
            let mut filter = mix.next(class);
            filter.limit = Some(filter.limit.unwrap_or(500).min(500));
            let page = reader.query_finalized(&filter).await.unwrap();
            assert_answers(&page, oracle, &filter);
            assert!(cache.bytes() <= BYTES, "{} bytes", cache.bytes());
        }
    }
    assert!(cache.bytes() > BYTES / 3, "{} bytes used", cache.bytes());
}

/// An archive behind a store that is far away and counts.
async fn far(range: BlockRange) -> (Stores, Arc<CountingBlobs>, SimChain) {
    let chain = chain();
    let near = Stores::memory();
    ingest(&near.writer(&settings()).await, &chain, range, &[50]).await;
    let counting = Arc::new(CountingBlobs::new(Arc::new(Far(near.blobs))));
    let stores = Stores {
        blobs: counting.clone(),
        meta: near.meta,
    };
    (stores, counting, chain)
}

#[tokio::test(start_paused = true)]
async fn many_readers_that_miss_the_same_thing_read_it_once() {
    let range = BlockRange::new(0, 300);
    let (stores, counting, chain) = far(range).await;
    let mut mix = QueryMix::new(&chain, range, 5);
    for class in [QueryClass::Narrow, QueryClass::Rare, QueryClass::Absent] {
        let filter = mix.next(class);
        let alone = stores.reader(&settings()).await;
        counting.take();
        let one = alone.query_finalized(&filter).await.unwrap();
        let reads = counting.take();
        assert!(!reads.is_empty());
        let reader = stores.reader(&settings()).await;
        counting.take();
        let all = (0..32).map(|_| reader.query_finalized(&filter));
        for page in futures::future::try_join_all(all).await.unwrap() {
            assert_eq!(page.logs, one.logs);
        }
        assert_eq!(counting.take(), reads, "{class:?}");
    }
}

/// Far away, what counts is how often a query waits: the same whether one segment holds its logs
/// or many do.
#[tokio::test(start_paused = true)]
async fn a_narrow_query_waits_no_more_often_for_many_segments_than_for_one() {
    let whole = BlockRange::new(0, 500);
    let (stores, _, chain) = far(whole).await;
    let mut counts: BTreeMap<Bytes, u32> = BTreeMap::new();
    for log in chain.blocks(whole).flat_map(|block| block.logs) {
        let emitter = Bytes::copy_from_slice(log.emitter());
        *counts.entry(emitter).or_default() += 1;
    }
    let begins = |emitter: &Bytes| {
        let first = chain.blocks(BlockRange::new(0, 20));
        let mut logs = first.flat_map(|block| block.logs);
        logs.any(|log| log.emitter() == emitter)
    };
    let emitter = counts
        .into_iter()
        .find(|(emitter, count)| (60..200).contains(count) && begins(emitter));
    let emitter = emitter.unwrap().0;
    let mut rounds = Vec::new();
    for range in [BlockRange::new(0, 20), whole] {
        let reader = stores.reader(&settings()).await;
        let mut filter = LogFilter::over(range);
        filter.emitters = Clause::OneOf(vec![emitter.clone()]);
        let began = Instant::now();
        let page = reader.query_finalized(&filter).await.unwrap();
        let waited = began.elapsed().as_millis() / READ.as_millis();
        rounds.push((page.cost.segments, page.logs.len(), waited));
    }
    let (one, many) = (rounds[0], rounds[1]);
    assert!(one.0 == 1 && many.0 > 5 && many.0 <= 8, "{rounds:?}");
    assert!(one.1 > 0 && many.1 > one.1, "{rounds:?}");
    assert!(many.2 <= one.2 + 1, "{rounds:?}");
    println!("segments, logs, rounds: {rounds:?}");
}
