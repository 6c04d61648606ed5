//! Serves a simulated EVM node until ctrl-c and prints where.
//!
//! `--seed N --chain-id N --blocks N --logs-per-block N --block-time-ms N --reorg-every N`:
//! so many blocks at the start, then one more every so many milliseconds (0 for none), and a reorg
//! of one to four blocks in place of every so many-th (0 for none).

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};

/// What can be set, with what it is otherwise.
const DEFAULTS: [(&str, u64); 6] = [
    ("--seed", 1),
    ("--chain-id", 31_337),
    ("--blocks", 1_000),
    ("--logs-per-block", 20),
    ("--block-time-ms", 1_000),
    ("--reorg-every", 0),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let settings = parse(std::env::args().skip(1))?;
    let get = |name| settings.get(name).copied().unwrap_or_default();
    let mut spec = EvmSpec::mainnet(get("--seed"));
    spec.chain_id = get("--chain-id");
    spec.content.logs_per_block = u32::try_from(get("--logs-per-block"))?;
    let node = EvmNode::new(spec, get("--blocks"));
    let server = RpcServer::start(node.clone(), RpcOptions::default()).await?;
    println!("http      {}", server.url());
    println!("websocket {}", server.ws_url());
    println!("head      {}", node.head().number);
    tokio::select! {
        stopped = tokio::signal::ctrl_c() => stopped?,
        () = grow(&node, get("--block-time-ms"), get("--reorg-every")) => {}
    }
    let stats = server.stats();
    server.shutdown().await?;
    println!("{stats:?}");
    Ok(())
}

fn parse(
    mut arguments: impl Iterator<Item = String>,
) -> Result<BTreeMap<&'static str, u64>, Box<dyn Error>> {
    let mut settings = BTreeMap::from(DEFAULTS);
    while let Some(name) = arguments.next() {
        let known = DEFAULTS.iter().find(|(known, _)| *known == name);
        let (known, _) = known.ok_or_else(|| format!("unknown argument (name={name})"))?;
        let value = arguments.next().unwrap_or_default();
        let value = value.parse();
        let value = value.map_err(|error| format!("no number (name={name}): {error}"))?;
        settings.insert(known, value);
    }
    Ok(settings)
}

/// Mines for ever.
async fn grow(node: &EvmNode, block_time_ms: u64, reorg_every: u64) {
    if block_time_ms == 0 {
        return std::future::pending().await;
    }
    let mut ticks = tokio::time::interval(Duration::from_millis(block_time_ms));
    // The first tick comes at once.
    ticks.tick().await;
    for block in 1_u64.. {
        ticks.tick().await;
        if reorg_every > 0 && block.is_multiple_of(reorg_every) {
            let depth = 1 + block / reorg_every % 4;
            let head = node.reorg(depth);
            println!("head {} after a reorg of {depth}", head.number);
        } else {
            node.mine(1);
        }
    }
}
