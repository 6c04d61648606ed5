//! `chronolith demo`: two simulated chains, followed before your eyes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::json;
use tokio::task::JoinSet;

use super::sim::grow;
use crate::chain::Chain;
use crate::hex::{hex, parse_hex};
use crate::ingest;
use crate::settings::Settings;

/// Name, id, blocks at the start, milliseconds from block to block, a reorg every so many blocks.
const CHAINS: [(&str, u64, u64, u64, u64); 2] = [
    ("steady", 31_337, 3_000, 700, 6),
    ("hasty", 31_338, 6_000, 250, 9),
];
const LOGS_PER_BLOCK: u32 = 40;
const CONFIRMATIONS: u64 = 8;

pub(crate) async fn demo(seconds: u64, data_dir: &Path) -> Result<ExitCode> {
    let dir = fresh(data_dir)?;
    println!(
        "Two simulated chains with reorgs, followed into {}.",
        dir.display()
    );
    println!(
        "A block is archived when {CONFIRMATIONS} others stand on it; until then it waits in memory."
    );
    println!();
    let (mut nodes, mut servers, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    for (name, chain_id, blocks, block_time_ms, reorg_every) in CHAINS {
        let mut spec = EvmSpec::mainnet(chain_id);
        spec.chain_id = chain_id;
        spec.content.logs_per_block = LOGS_PER_BLOCK;
        let node = EvmNode::new(spec, blocks);
        let server = RpcServer::start(node.clone(), RpcOptions::default()).await?;
        entries.push(json!({
            "chainId": chain_id,
            "name": name,
            "rpcHttp": [server.url()],
            "finality": { "mode": "depth", "confirmations": CONFIRMATIONS },
            "pollMs": 100,
        }));
        servers.push(server);
        nodes.push((node, block_time_ms, reorg_every));
    }
    let config = dir.join("chronolith.json");
    let text = serde_json::to_string_pretty(&json!({ "dataDir": dir, "chains": entries }))?;
    std::fs::write(&config, &text)?;
    let settings = Settings::parse(&text, false)?;
    let mut chains = Vec::new();
    for chain in &settings.chains {
        chains.push(Arc::new(
            Chain::open(chain.clone(), &settings.chain_dir(chain)).await?,
        ));
    }
    let mut tasks = JoinSet::new();
    for chain in &chains {
        let chain = chain.clone();
        tasks.spawn(async move { ingest::run(&chain).await });
    }
    for (node, block_time_ms, reorg_every) in nodes.clone() {
        tasks.spawn(async move { grow(&node, block_time_ms, reorg_every).await });
    }
    let limit = match seconds {
        0 => Duration::MAX,
        seconds => Duration::from_secs(seconds),
    };
    tokio::select! {
        () = watch(&chains, &nodes, &config) => {}
        () = tokio::time::sleep(limit) => {}
        stopped = tokio::signal::ctrl_c() => stopped?,
    }
    tasks.shutdown().await;
    for chain in &chains {
        chain.archive.release().await?;
    }
    println!();
    println!("Stopped. The archives are kept; ask them with the commands above.");
    Ok(ExitCode::SUCCESS)
}

/// An empty directory for the demo. What is there is removed only if a demo made it.
fn fresh(data_dir: &Path) -> Result<PathBuf> {
    let dir = std::path::absolute(data_dir.join("demo"))?;
    if dir.exists() {
        if !dir.join("chronolith.json").exists() {
            bail!(
                "{} is not a demo's: remove it, or name another --data-dir",
                dir.display()
            );
        }
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot empty {}", dir.display()))?;
    }
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot write to {}", dir.display()))?;
    Ok(dir)
}

type Node = (EvmNode, u64, u64);

/// A line a second for each chain, and once they have caught up, what to try.
async fn watch(chains: &[Arc<Chain>], nodes: &[Node], config: &Path) {
    let mut told = false;
    loop {
        let mut behind = 0;
        for (chain, (node, ..)) in chains.iter().zip(nodes) {
            let report = chain.archive.health();
            let archived = report.head.map_or(0, |head| head.number);
            let (head, waiting) = (node.head().number, chain.tail().len());
            behind += head.saturating_sub(archived + waiting as u64);
            println!(
                "{:<7} head {head:>6}   archived {archived:>6}   in memory {waiting:>3}   {:>8} logs   {:>6.1} MiB",
                chain.settings.name,
                report.logs,
                report.stored_bytes as f64 / f64::from(1 << 20),
            );
        }
        if behind < 5 && !told {
            told = true;
            suggest(chains, config).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Three questions to paste into another terminal, with values that have answers.
async fn suggest(chains: &[Arc<Chain>], config: &Path) {
    let Some(chain) = chains.first() else { return };
    let Ok(block) = chain.archive.block(1_000).await else {
        return;
    };
    let Some(log) = block.logs.first() else {
        return;
    };
    let (name, config) = (&chain.settings.name, config.display());
    let address = hex(log.emitter());
    debug_assert!(parse_hex(&address).is_some());
    println!();
    println!("Both have caught up. In another terminal:");
    println!("  chronolith -c {config} logs --chain {name} --address {address}");
    println!(
        "  chronolith -c {config} block-at --chain {name} {}",
        block.clock.timestamp
    );
    println!("  chronolith -c {config} verify --chain {name}");
    println!();
}
