//! History: our program beside the bare client, at several round-trip times.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chronolith_sim::evm::{EvmNode, EvmSpec, RateLimit, RpcOptions, RpcServer};
use chronolith_sim::portal::{PortalOptions, PortalServer};
use serde_json::{Value, json};

use crate::program::{Cost, chronolith, measure};
use crate::{Scale, archive};

/// What the simulated provider allows, as real ones do.
const BLOCKS_MAX: u64 = 10_000;
const LOGS_MAX: u64 = 10_000;
const BATCH_MAX: u64 = 100;
/// Round-trip in milliseconds, and requests in flight.
const WAYS: [(u64, usize); 4] = [(0, 32), (20, 32), (50, 32), (50, 8)];
/// Where a block is small, many more are needed at a time to fill a long line.
const WAYS_SPARSE: [(u64, usize); 5] = [(0, 32), (20, 32), (50, 32), (50, 128), (50, 8)];
/// No chain that is known by its id.
const FIRST_ID: u64 = 900_001;
/// All but the last of the blocks are final.
const CONFIRMATIONS: u64 = 5;

pub(crate) const TABLE: &str = "chain   strategy  level     rtt  in flight   blocks/s    logs/s  seconds    bare  of bare  requests  of least  cpu us/log  cpu us/block  peak MiB";

/// A chain to fetch.
struct Chain {
    name: &'static str,
    node: EvmNode,
    blocks: u64,
    logs: u64,
    least_by_logs: u64,
}

impl Chain {
    fn new(name: &'static str, spec: EvmSpec, blocks: u64) -> Self {
        let node = EvmNode::new(spec, blocks - 1);
        let counts: Vec<u64> = (0..blocks)
            .map(|number| {
                node.block(number)
                    .map_or(0, |block| block.logs.len() as u64)
            })
            .collect();
        Self {
            name,
            node,
            blocks,
            logs: counts.iter().sum(),
            least_by_logs: least_ranges(&counts) + blocks.div_ceil(BATCH_MAX),
        }
    }

    /// The fewest requests that anybody could send under the limits.
    fn least(&self, how: How) -> u64 {
        match how.strategy {
            "logs" => self.least_by_logs,
            _ => (2 * self.blocks).div_ceil(BATCH_MAX),
        }
    }
}

/// The fewest calls of `eth_getLogs` that cover all blocks: each as far as the limits let it.
fn least_ranges(counts: &[u64]) -> u64 {
    let (mut ranges, mut blocks, mut logs) = (1, 0, 0);
    for &count in counts {
        if blocks == BLOCKS_MAX || (logs + count > LOGS_MAX && blocks > 0) {
            (ranges, blocks, logs) = (ranges + 1, 0, 0);
        }
        (blocks, logs) = (blocks + 1, logs + count);
    }
    ranges
}

/// How a chain is fetched.
#[derive(Clone, Copy)]
struct How {
    strategy: &'static str,
    level: &'static str,
    round_trip_ms: u64,
    in_flight: usize,
    /// Whether whole transactions are kept, beside headers, logs and transaction hashes.
    bodies: bool,
}

pub(crate) async fn run(part: &str, scale: Scale) -> Result<()> {
    let sparse = || Chain::new("sparse", EvmSpec::sparse(1, 120), scale.of(250_000));
    let dense = || Chain::new("dense", archive::dense(), scale.of(100_000));
    match part {
        "sparse" => compare_all(&sparse(), &["logs"], &WAYS_SPARSE).await,
        "dense" => compare_all(&dense(), &["logs", "receipts"], &WAYS).await,
        _ => limited(&sparse()).await,
    }
}

async fn compare_all(
    chain: &Chain,
    strategies: &[&'static str],
    ways: &[(u64, usize)],
) -> Result<()> {
    for &strategy in strategies {
        let level = match strategy {
            "logs" => "bloom",
            _ => "receipts",
        };
        let mut at_once = 0.0;
        for &(round_trip_ms, in_flight) in ways {
            let how = How {
                strategy,
                level,
                round_trip_ms,
                in_flight,
                bodies: false,
            };
            let seconds = compare(chain, how).await?;
            if round_trip_ms == 0 {
                at_once = seconds;
            } else {
                let percent = at_once / seconds * 100.0;
                println!("    throughput: {percent:.0} % of that at 0 ms");
            }
        }
    }
    if strategies.contains(&"receipts") {
        proof(chain).await?;
    }
    Ok(())
}

/// What proving costs: the same fetch with nothing checked but links. Where transactions are kept,
/// they are fetched whole at every level; else level roots alone fetches them.
async fn proof(chain: &Chain) -> Result<()> {
    let cases = [
        (false, &["linked", "receipts", "roots"][..]),
        (true, &["linked", "roots"][..]),
    ];
    for (bodies, levels) in cases {
        let archived = archive_cost(chain, bodies)?;
        let kept = if bodies { "transactions" } else { "hashes" };
        println!("    archive, {kept} kept: {archived:.2} us of CPU a log");
        let mut linked = None;
        for &level in levels {
            let how = How {
                strategy: "receipts",
                level,
                round_trip_ms: 0,
                in_flight: 32,
                bodies,
            };
            let (server, _) = serve(chain, how, None).await?;
            let cost = fetch(chain, &server, how).await?.cpu_seconds;
            server.shutdown().await?;
            let fetched = cost * 1e6 / chain.logs as f64;
            let proof = fetched - *linked.get_or_insert(fetched);
            println!(
                "    level {level}, {kept} kept: {fetched:.2} us of CPU a log, {proof:.2} of it for the proof, {:.2} x archive",
                proof / archived
            );
        }
    }
    Ok(())
}

/// CPU microseconds a log of archiving alone.
fn archive_cost(chain: &Chain, bodies: bool) -> Result<f64> {
    let dir = tempfile::tempdir()?;
    let mut program = Command::new(std::env::current_exe()?);
    program.args(["archive", &chain.blocks.to_string(), &bodies.to_string()]);
    let output = program.arg(dir.path()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let (cpu, logs) = text.trim().split_once(' ').context("archive alone")?;
    Ok(cpu.parse::<f64>()? * 1e6 / logs.parse::<f64>()?)
}

async fn serve(chain: &Chain, how: How, rate_limit: Option<RateLimit>) -> Result<(RpcServer, u64)> {
    let options = RpcOptions {
        delay: Duration::from_millis(how.round_trip_ms),
        max_block_range: Some(BLOCKS_MAX),
        max_results: Some(LOGS_MAX),
        max_batch: Some(BATCH_MAX as usize),
        keeps_requests: true,
        rate_limit,
        ..RpcOptions::default()
    };
    let server = RpcServer::start(chain.node.clone(), options).await?;
    Ok((server, chain.least(how)))
}

fn entry(chain: &Chain, server: &RpcServer, how: How) -> Value {
    let mut datasets = vec!["headers", "logs", "tx_hashes"];
    datasets.extend(how.bodies.then_some("transactions"));
    json!([{
        "chainId": chain.node.chain_id(), "name": chain.name,
        "rpcHttp": [{ "url": server.url(), "inFlight": how.in_flight, "batch": BATCH_MAX }],
        "strategy": how.strategy, "verification": how.level, "datasets": datasets,
        "finality": { "mode": "depth", "confirmations": CONFIRMATIONS },
    }])
}

async fn fetch(chain: &Chain, server: &RpcServer, how: How) -> Result<Cost> {
    let dir = tempfile::tempdir()?;
    let program = chronolith(
        dir.path(),
        &entry(chain, server, how),
        &["run", "--until-caught-up"],
    )?;
    measure(program).await.context("fetch the chain")
}

/// Fetches a chain, replays the same requests, and prints a line.
async fn compare(chain: &Chain, how: How) -> Result<f64> {
    let (server, least) = serve(chain, how, None).await?;
    let ours = fetch(chain, &server, how).await?;
    let requests = server.requests();
    let bare = replay(&server, &requests, how).await?;
    server.shutdown().await?;
    let a = |count: u64, seconds: f64| seconds * 1e6 / count.max(1) as f64;
    println!(
        "{:<7} {:<9} {:<8} {:>4} {:>10} {:>10.0} {:>9.0} {:>8.2} {:>7.2} {:>6.0} % {:>9} {:>9.2} {:>11.2} {:>13.2} {:>9.0}",
        chain.name,
        how.strategy,
        how.level,
        how.round_trip_ms,
        how.in_flight,
        chain.blocks as f64 / ours.seconds,
        chain.logs as f64 / ours.seconds,
        ours.seconds,
        bare.seconds,
        bare.seconds / ours.seconds * 100.0,
        requests.len(),
        requests.len() as f64 / least as f64,
        a(chain.logs, ours.cpu_seconds),
        a(chain.blocks, ours.cpu_seconds),
        ours.peak_mib,
    );
    Ok(ours.seconds)
}

async fn replay(server: &RpcServer, requests: &[bytes::Bytes], how: How) -> Result<Cost> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), requests.join(&b"\n"[..]))?;
    let mut program = Command::new(std::env::current_exe()?);
    program.arg("bare").arg(server.url()).arg(file.path());
    program.arg(how.in_flight.to_string());
    measure(program).await.context("replay the requests")
}

/// A provider that refuses more than so many calls a second: we must end up near its limit.
async fn limited(chain: &Chain) -> Result<()> {
    const CALLS_A_SECOND: u64 = 20_000;
    let how = How {
        strategy: "logs",
        level: "bloom",
        round_trip_ms: 20,
        in_flight: 32,
        bodies: false,
    };
    let limit = RateLimit {
        calls_per_second: CALLS_A_SECOND,
        retry_after_seconds: None,
    };
    let (server, least) = serve(chain, how, Some(limit)).await?;
    let ours = fetch(chain, &server, how).await?;
    let requests = server.requests().len();
    server.shutdown().await?;
    let allowed = chain.blocks as f64 / CALLS_A_SECOND as f64;
    println!(
        "limited to {CALLS_A_SECOND} calls/s: {:.2} s, {:.0} % of what the limit allows, {requests} requests, {:.2} of the least",
        ours.seconds,
        allowed / ours.seconds * 100.0,
        requests as f64 / least as f64
    );
    Ok(())
}

/// Clocks alone from a Portal: one chain, then four at once.
pub(crate) async fn portal(scale: Scale) -> Result<()> {
    let blocks = scale.of(2_000_000);
    for chains in [1_u64, 4] {
        let (mut servers, mut entries) = (Vec::new(), Vec::new());
        for chain_id in FIRST_ID..FIRST_ID + chains {
            let mut spec = EvmSpec::sparse(chain_id, 0);
            spec.chain_id = chain_id;
            let node = EvmNode::new(spec, blocks / chains);
            node.set_finalized_depth(0);
            let server = PortalServer::start(node, PortalOptions::default()).await?;
            let url = server.url();
            let (base, dataset) = url
                .trim_end_matches('/')
                .rsplit_once('/')
                .context("a URL")?;
            entries.push(json!({
                "chainId": chain_id, "name": format!("clock-{chain_id}"), "datasets": ["clock"],
                "portal": { "url": base, "dataset": dataset },
            }));
            servers.push(server);
        }
        let dir = tempfile::tempdir()?;
        let program = chronolith(dir.path(), &json!(entries), &["run", "--until-caught-up"])?;
        let cost = measure(program).await?;
        ensure!(
            servers
                .iter()
                .all(|server| !server.stats().requests.is_empty()),
            "a portal was never asked"
        );
        println!(
            "portal, clocks alone, {chains} chain(s): {blocks} blocks in {:.2} s, {:.0} blocks/s, {:.0} MiB",
            cost.seconds,
            blocks as f64 / cost.seconds,
            cost.peak_mib
        );
    }
    Ok(())
}
