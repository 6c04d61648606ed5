//! How long a new block takes to be rows: from the moment the node has it to the moment its pending rows
//! can be read.

use std::fs::File;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, FeesSpec, RpcOptions, RpcServer};
use serde_json::json;
use tokio_postgres::Client;

use crate::database::{Server, connect};
use crate::home::{Home, fees};
use crate::race::Program;
use crate::workload;

/// Rows of a block, on average.
pub(crate) const ROWS_A_BLOCK: u32 = 100;
const BLOCK_TIME: Duration = Duration::from_secs(1);
const BLOCKS: usize = 30;
/// Blocks before the first that counts.
const HISTORY: u64 = 100;
const CONFIRMATIONS: u64 = 12;
const LOOK_EVERY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(30);
/// Rows of a block with a status.
const COUNT: &str = "SELECT count(*) FROM fee_events \
    WHERE chain_id = $1 AND block_number = $2 AND event = 'FeesCollected' AND status = 'pending'";

/// Follows a chain that grows, told of heads by a socket, and prints how late its rows were.
pub(crate) async fn run(server: &Server) -> Result<()> {
    let node = EvmNode::new(workload::spec(ROWS_A_BLOCK * 1_000), HISTORY);
    let rpc = RpcServer::start(node.clone(), RpcOptions::default()).await?;
    let home = Home::new(&json!({
        "chainId": node.chain_id(), "name": "latency", "rpcHttp": [rpc.url()], "rpcWs": [rpc.ws_url()],
        "logs": { "addresses": [const_hex::encode_prefixed(FeesSpec::CONTRACT)] }, "fees": fees(),
        "finality": { "mode": "depth", "confirmations": CONFIRMATIONS },
    }))?;
    let database = server.fresh("latency").await?;
    home.init(&database)?;
    let log = File::create(home.path().join("log"))?;
    let mut command = home.command(&["run"], Some(&database));
    let _program = Program(command.stdout(log.try_clone()?).stderr(log).spawn()?);
    let client = connect(&database.url).await?;
    wait_for(&client, &node, HISTORY).await?;
    let mut times = Vec::new();
    let mut due = tokio::time::Instant::now();
    for _ in 0..BLOCKS {
        due += BLOCK_TIME;
        tokio::time::sleep_until(due).await;
        let began = Instant::now();
        let head = node.mine(1).number;
        wait_for(&client, &node, head).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times.get((times.len() as f64 * part).ceil() as usize - 1);
    println!(
        "latency: {BLOCKS} blocks of {ROWS_A_BLOCK} rows, one a second: p50 {:.1} ms, p95 {:.1} ms (target <= 100), \
         max {:.1} ms",
        at(0.5).context("a time")?,
        at(0.95).context("a time")?,
        at(1.0).context("a time")?,
    );
    Ok(())
}

/// Looks until the rows of this block are pending, all of them.
async fn wait_for(client: &Client, node: &EvmNode, block: u64) -> Result<()> {
    let rows = node.fees(BlockRange::one(block)).len() as i64;
    let began = Instant::now();
    let (chain, number) = (node.chain_id() as i64, block as i64);
    let count = client.prepare(COUNT).await?;
    while began.elapsed() < PATIENCE {
        let row = client.query_one(&count, &[&chain, &number]).await?;
        if row.try_get::<_, i64>(0)? == rows {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    ensure!(rows == 0, "the rows of block {block} did not come");
    Ok(())
}
