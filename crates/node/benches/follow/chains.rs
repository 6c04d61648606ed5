//! Many chains at once: what memory they take.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::json;

use crate::Scale;
use crate::head::Running;
use crate::program::{chronolith, memory_of};

const CHAINS: u64 = 30;
/// No chain that is known by its id.
const FIRST_ID: u64 = 900_001;
const BLOCK_TIME: Duration = Duration::from_secs(1);
/// How long they are followed; by the middle all have caught up.
const SECONDS: u64 = 90;

pub(crate) async fn run(scale: Scale) -> Result<()> {
    let (mut nodes, mut servers, mut entries) = (Vec::new(), Vec::new(), Vec::new());
    for chain_id in FIRST_ID..FIRST_ID + CHAINS {
        let mut spec = EvmSpec::mainnet(chain_id);
        (spec.chain_id, spec.content.logs_per_block) = (chain_id, 100);
        let node = EvmNode::new(spec, scale.of(2_000));
        let server = RpcServer::start(node.clone(), RpcOptions::default()).await?;
        entries.push(json!({
            "chainId": chain_id, "name": format!("chain-{chain_id}"), "rpcHttp": [server.url()],
            "finality": { "mode": "depth", "confirmations": 64 },
        }));
        nodes.push(node);
        servers.push(server);
    }
    let dir = tempfile::tempdir()?;
    let mut program = chronolith(dir.path(), &json!(entries), &["run"])?;
    let running = Running(program.stdout(Stdio::null()).spawn()?);
    let (mut peak_mib, mut most_mib) = (0_f64, 0_f64);
    for second in 0..SECONDS {
        tokio::time::sleep(BLOCK_TIME).await;
        nodes.iter().for_each(|node| {
            node.mine(1);
        });
        peak_mib = peak_mib.max(memory_of(running.0.id(), "VmHWM:").unwrap_or(0.0));
        if second >= SECONDS / 2 {
            most_mib = most_mib.max(memory_of(running.0.id(), "VmRSS:").unwrap_or(0.0));
        }
    }
    println!(
        "{CHAINS} chains of 100 logs a block: {most_mib:.0} MiB while following, {peak_mib:.0} MiB while all fetch their history"
    );
    Ok(())
}
