//! From a block being mined to its being there for queries, while a chain is followed.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::Scale;
use crate::program::chronolith;

const BLOCK_TIME: Duration = Duration::from_millis(400);
const ROUND_TRIPS_MS: [u64; 3] = [0, 20, 50];
const LOOK_EVERY: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that ends with whoever started it.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) async fn run(scale: Scale) -> Result<()> {
    for (round_trip_ms, socket) in ROUND_TRIPS_MS
        .into_iter()
        .flat_map(|ms| [(ms, true), (ms, false)])
    {
        let mut times = follow(scale.of(200), round_trip_ms, socket).await?;
        times.sort_unstable();
        let at = |percent: usize| times.get((times.len() - 1) * percent / 100).copied();
        let (half, most) = (at(50).unwrap_or_default(), at(99).unwrap_or_default());
        let told = if socket { "told by socket" } else { "polling" };
        println!(
            "head to queryable, {round_trip_ms} ms, {told}: p50 {:.0} ms, p99 {:.0} ms, over {} blocks",
            half.as_secs_f64() * 1e3,
            most.as_secs_f64() * 1e3,
            times.len()
        );
    }
    Ok(())
}

async fn follow(blocks: u64, round_trip_ms: u64, socket: bool) -> Result<Vec<Duration>> {
    let mut spec = EvmSpec::mainnet(3);
    spec.content.logs_per_block = 50;
    let node = EvmNode::new(spec, 500);
    let options = RpcOptions {
        delay: Duration::from_millis(round_trip_ms),
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node.clone(), options).await?;
    let port = free_port().await?;
    let sockets: &[String] = if socket { &[server.ws_url()] } else { &[] };
    let chains = json!([{
        "chainId": node.chain_id(), "name": "head", "rpcHttp": [server.url()], "rpcWs": sockets,
        "pollMs": if socket { 1_000 } else { 100 },
        "finality": { "mode": "depth", "confirmations": 12 },
    }]);
    let dir = tempfile::tempdir()?;
    let mut program = chronolith(dir.path(), &chains, &["run"])?;
    let config = dir.path().join("chronolith.json");
    let mut settings: Value = serde_json::from_slice(&std::fs::read(&config)?)?;
    if let Some(place) = settings.get_mut("metricsPort") {
        *place = port.into();
    }
    std::fs::write(&config, settings.to_string())?;
    let _running = Running(program.stdout(Stdio::null()).spawn()?);
    let client = reqwest::Client::new();
    wait_for(&client, port, node.head().number).await?;
    let mut times = Vec::new();
    let mut due = tokio::time::Instant::now();
    for _ in 0..blocks {
        due += BLOCK_TIME;
        tokio::time::sleep_until(due).await;
        let began = Instant::now();
        let head = node.mine(1).number;
        wait_for(&client, port, head).await?;
        times.push(began.elapsed());
    }
    Ok(times)
}

/// Looks until this block is there.
async fn wait_for(client: &reqwest::Client, port: u16, block: u64) -> Result<()> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if head_of(client, port)
            .await
            .is_some_and(|head| head >= block)
        {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bail!("block {block} did not come within {PATIENCE:?}")
}

/// The newest block that is there for queries; none while nobody answers.
pub(crate) async fn head_of(client: &reqwest::Client, port: u16) -> Option<u64> {
    let url = format!("http://127.0.0.1:{port}/health");
    let text = client.get(url).send().await.ok()?.text().await.ok()?;
    let health: Value = serde_json::from_str(&text).ok()?;
    let chain = health.get("chains")?.get(0)?;
    let number = |field: &str| chain.get(field).and_then(Value::as_u64);
    number("lastSeenBlock")?.checked_sub(number("lagBlocks")?)
}

/// A port that was free a moment ago.
pub(crate) async fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .context("a port")?;
    Ok(listener.local_addr()?.port())
}
