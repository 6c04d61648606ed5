//! Many chains at once: what memory they take.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::json;

use crate::Scale;
use crate::head::Running;
use crate::program::{chronolith, peak_of};

const CHAINS: u64 = 30;
/// No chain that is known by its id.
const FIRST_ID: u64 = 900_001;
const BLOCK_TIME: Duration = Duration::from_secs(1);

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
    let mut peak_mib = 0_f64;
    for _ in 0..scale.of(90) {
        tokio::time::sleep(BLOCK_TIME).await;
        nodes.iter().for_each(|node| {
            node.mine(1);
        });
        peak_mib = peak_mib.max(peak_of(running.0.id()).unwrap_or(0.0));
    }
    println!(
        "{CHAINS} chains of 100 logs a block, history and then following: {peak_mib:.0} MiB at most"
    );
    Ok(())
}
