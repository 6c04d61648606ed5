//! Ingest at 10, 100 and 1,000 logs a block, in memory: what the archive itself costs.

use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_model::{Block, BlockRange, ChainId};
use chronolith_sim::{ChainSpec, SimChain};
use chronolith_store::{MemoryBlobs, MemoryMeta, TakeOver};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tokio::runtime::Runtime;

/// Logs of one measured run: enough to seal a segment or two.
const LOGS: u64 = 100_000;
/// Logs in one ingest call.
const CALL_LOGS: u64 = 20_000;

fn ingest(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime starts");
    let mut group = criterion.benchmark_group("ingest");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(4));
    for logs_per_block in [10_u32, 100, 1_000] {
        let chain = SimChain::new(ChainSpec {
            logs_per_block,
            ..ChainSpec::mainnet(1)
        });
        let blocks: Vec<Block> = chain
            .blocks(BlockRange::new(0, LOGS / u64::from(logs_per_block)))
            .collect();
        let logs: usize = blocks.iter().map(|block| block.logs.len()).sum();
        let call = (CALL_LOGS / u64::from(logs_per_block)) as usize;
        let calls: Vec<Vec<Block>> = blocks.chunks(call).map(<[Block]>::to_vec).collect();
        group.throughput(Throughput::Elements(logs as u64));
        let id = BenchmarkId::new("logs_per_block", logs_per_block);
        group.bench_with_input(id, &calls, |bencher, calls| {
            bencher.iter_batched(
                || calls.clone(),
                |calls| runtime.block_on(fill(calls)),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

async fn fill(calls: Vec<Vec<Block>>) -> Archive {
    let (meta, blobs) = (Arc::new(MemoryMeta::new()), Arc::new(MemoryBlobs::new()));
    let settings = Settings::evm(ChainId(1));
    let archive = Archive::open_writer(meta, blobs, settings, TakeOver::NoWait).await;
    let archive = archive.expect("an archive opens in memory");
    let provenance = Provenance::default();
    for blocks in calls {
        let appended = archive.ingest_finalized_blocks(blocks, &provenance).await;
        appended.expect("blocks of a simulated chain fit");
    }
    archive
}

criterion_group!(benches, ingest);
criterion_main!(benches);
