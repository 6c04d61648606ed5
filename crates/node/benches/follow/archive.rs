//! What archiving alone costs: the same blocks as they come out of a fetch, and nothing before it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, ensure};
use chronolith_archive::{Archive, Provenance, Settings};
use chronolith_model::{Block, ChainId, Dataset, DatasetSet, Proof, Verification};
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_store::{FileBlobs, FileMeta, TakeOver};

use crate::program::own_cpu;

/// Blocks that are archived at once: as many as a node gathers while it fetches history.
const STEP_BLOCKS: usize = 1_200;

/// The chain that is fetched and archived.
pub(crate) fn dense() -> EvmSpec {
    let mut spec = EvmSpec::mainnet(1);
    spec.content.logs_per_block = 50;
    spec.call_words = 6;
    spec
}

/// Archives so many blocks, with whole transactions or without, and prints the CPU seconds that took, and the logs.
pub(crate) fn run(blocks: u64, bodies: bool, dir: &Path) -> Result<ExitCode> {
    let node = EvmNode::new(dense(), blocks - 1);
    let runtime = tokio::runtime::Runtime::new()?;
    let mut settings = Settings::evm(ChainId(node.chain_id()));
    let mut datasets = vec![Dataset::Headers, Dataset::Logs, Dataset::TxHashes];
    datasets.extend(bodies.then_some(Dataset::Transactions));
    settings.datasets = DatasetSet::of(&datasets);
    settings.start_block = Some(0);
    let (mut cpu, mut logs) = (0.0, 0);
    runtime.block_on(async {
        let meta = Arc::new(FileMeta::open_writer(dir)?);
        let blobs = Arc::new(FileBlobs::open_writer(dir)?);
        let archive = Archive::open_writer(meta, blobs, settings, TakeOver::NoWait).await?;
        let numbers: Vec<u64> = (0..blocks).collect();
        for numbers in numbers.chunks(STEP_BLOCKS) {
            let some: Vec<Block> = numbers
                .iter()
                .filter_map(|number| made(&node, *number, bodies))
                .collect();
            ensure!(some.len() == numbers.len(), "a block is missing");
            logs += some.iter().map(|block| block.logs.len()).sum::<usize>();
            let provenance = Provenance {
                proof: Proof::of_logs(Verification::Receipts),
                source: "bench".to_owned(),
                now: 0,
            };
            let before = own_cpu()?;
            archive.ingest_finalized_blocks(some, &provenance).await?;
            while archive.maintain().await? {}
            cpu += own_cpu()? - before;
        }
        archive.release().await?;
        anyhow::Ok(())
    })?;
    println!("{cpu} {logs}");
    Ok(ExitCode::SUCCESS)
}

fn made(node: &EvmNode, number: u64, bodies: bool) -> Option<Block> {
    let block = node.block(number)?;
    let mut made = block.to_model();
    made.payload.header = Some(block.encoded_header());
    let txs = block.txs.iter();
    let encoded = txs.map(|tx| tx.encoded(node.chain_id()).into());
    made.payload.bodies = bodies.then(|| encoded.collect());
    Some(made)
}
