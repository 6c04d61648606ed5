//! Filtered, OR-list and mixed queries, in memory.

use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_model::{BlockRange, ChainId, LogFilter};
use chronolith_sim::{ChainSpec, QueryClass, QueryMix, SimChain};
use chronolith_store::{MemoryBlobs, MemoryMeta, TakeOver};
use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime;

/// Blocks of the chain, about 250 logs each.
const BLOCKS: u64 = 1_600;
/// Blocks in one ingest call.
const CALL: u64 = 200;
/// Filters that a suite goes through again and again.
const FILTERS: usize = 200;

fn query(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime starts");
    let chain = SimChain::new(ChainSpec::mainnet(1));
    let archive = runtime.block_on(fill(&chain));
    let mut mix = QueryMix::new(&chain, BlockRange::new(0, BLOCKS), 1);
    let mut group = criterion.benchmark_group("query");
    group
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3));
    let suites = [
        ("filtered", QueryClass::Narrow),
        ("or_list", QueryClass::Or256Uniform),
        ("mixed", QueryClass::Mixed),
    ];
    for (name, class) in suites {
        let filter = |_| LogFilter {
            limit: Some(1_000),
            ..mix.next(class)
        };
        let filters: Vec<LogFilter> = (0..FILTERS).map(filter).collect();
        let mut next = filters.iter().cycle();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let filter = next.next().expect("there is always a next one");
                let page = runtime.block_on(archive.query_finalized(filter));
                page.expect("a covered range is answered")
            });
        });
    }
    group.finish();
}

async fn fill(chain: &SimChain) -> Archive {
    let (meta, blobs) = (Arc::new(MemoryMeta::new()), Arc::new(MemoryBlobs::new()));
    let settings = Settings::evm(ChainId(1));
    let archive = Archive::open_writer(meta, blobs, settings, TakeOver::NoWait).await;
    let archive = archive.expect("an archive opens in memory");
    let provenance = Provenance::default();
    for start in (0..BLOCKS).step_by(CALL as usize) {
        let blocks = chain.blocks(BlockRange::new(start, start + CALL)).collect();
        let appended = archive.ingest_finalized_blocks(blocks, &provenance).await;
        appended.expect("blocks of a simulated chain fit");
    }
    archive
}

criterion_group!(benches, query);
criterion_main!(benches);
