//! `chronolith sim`.

use std::time::Duration;

use anyhow::{Context as _, Result};
use chronolith_sim::evm::{EvmNode, EvmSpec, Faults, RpcOptions, RpcServer};

use crate::cli::SimServe;
use crate::exit::Exit;

pub(crate) async fn serve(asked: &SimServe) -> Result<Exit> {
    let mut spec = EvmSpec::mainnet(asked.seed);
    spec.chain_id = asked.chain_id;
    spec.content.logs_per_block = asked.logs_per_block;
    let faults = Faults::new(asked.seed);
    if let Some(path) = &asked.faults {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let loaded = faults.load_json(&text);
        loaded.with_context(|| format!("in {}", path.display()))?;
    }
    let node = EvmNode::new(spec, asked.blocks);
    let options = RpcOptions {
        delay: Duration::from_millis(asked.delay_ms),
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node.clone(), options).await?;
    println!("http      {}", server.url());
    println!("websocket {}", server.ws_url());
    println!("chain     {}, head {}", node.chain_id(), node.head().number);
    tokio::select! {
        stopped = tokio::signal::ctrl_c() => stopped?,
        () = grow(&node, asked.block_time_ms, asked.reorg_every) => {}
    }
    println!("asked     {:?}", server.stats());
    println!("faults    {:?}", faults.injected());
    Ok(Exit::Done)
}

/// Mines for ever, with a reorg in place of every so many-th block.
pub(super) async fn grow(node: &EvmNode, block_time_ms: u64, reorg_every: u64) {
    if block_time_ms == 0 {
        return std::future::pending().await;
    }
    let mut block = 0_u64;
    loop {
        tokio::time::sleep(Duration::from_millis(block_time_ms)).await;
        block += 1;
        if reorg_every > 0 && block.is_multiple_of(reorg_every) {
            node.reorg(1 + block / reorg_every % 4);
        } else {
            node.mine(1);
        }
    }
}
