//! Four chains of block metadata are ingested from a Portal as fast as they come: what probes and callers wait.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_sim::portal::{PortalOptions, PortalServer};
use rustix::process::setpriority_process;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::probe::{Probe, Waited, get};
use crate::report::Report;
use crate::server::Server;

const CHAINS: u64 = 4;
const BLOCKS: u64 = 24_000_000;
const FIRST_ID: u64 = 900_001;
/// How long the idle program is probed, and how long one that ingests may be.
const IDLE: Duration = Duration::from_secs(5);
const LASTING: Duration = Duration::from_secs(60);
/// Portals are on other machines: here they give way as ingest does, which waits for them.
const PORTAL_NICE: i32 = 4;
const HEALTH_TARGET_MS: f64 = 20.0;
/// An answer may take this many times as long while the program ingests.
const WHILE_INGESTING: f64 = 2.0;

pub(crate) fn run(divide: u64, report: &mut Report) -> Result<()> {
    let runtime = Builder::new_multi_thread()
        .on_thread_start(|| {
            let _ = setpriority_process(None, PORTAL_NICE);
        })
        .enable_all()
        .build()?;
    let (mut servers, mut chains) = (Vec::new(), Vec::new());
    for chain_id in FIRST_ID..FIRST_ID + CHAINS {
        let mut spec = EvmSpec::sparse(chain_id, 0);
        spec.chain_id = chain_id;
        let node = EvmNode::new(spec, BLOCKS / divide / CHAINS);
        node.set_finalized_depth(0);
        let started = PortalServer::start(node, PortalOptions::default());
        let server = runtime.block_on(started)?;
        let url = server.url();
        let parts = url.trim_end_matches('/').rsplit_once('/');
        let (base, dataset) = parts.context("a URL")?;
        chains.push(json!({
            "chainId": chain_id, "name": format!("clock-{chain_id}"), "datasets": ["clock"],
            "portal": { "url": base, "dataset": dataset },
        }));
        servers.push(server);
    }
    let dir = tempfile::tempdir()?;
    let chains = json!(chains);
    let ingesting = measure(
        dir.path(),
        &chains,
        "ingest, four clock chains",
        Until::Done,
    )?;
    let idle = measure(
        dir.path(),
        &chains,
        "the same chains, caught up",
        Until::Elapsed,
    )?;
    for (load, waited, idle) in ingesting
        .iter()
        .zip(&idle)
        .map(|(one, idle)| ("ingest, four clock chains", one, idle))
    {
        let target = match waited.name {
            "block before a time" => idle.p99_ms * WHILE_INGESTING,
            _ => HEALTH_TARGET_MS,
        };
        report.waited(load, waited, Some(target));
    }
    for waited in &idle {
        report.waited("the same chains, caught up", waited, None);
    }
    Ok(())
}

/// How long the program is probed.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    /// Until every chain has all blocks.
    Done,
    Elapsed,
}

fn measure(dir: &Path, chains: &Value, load: &str, until: Until) -> Result<Vec<Waited>> {
    let server = Server::start(dir, chains, "run")?;
    let time = time_of(&server, first_block(&server)? / 2)?;
    let path = format!("/v1/chains/{FIRST_ID}/block/before/{time}");
    let probes = [
        Probe::start("/health/live", &server.health, get("/health/live")),
        Probe::start("/metrics", &server.health, get("/metrics")),
        Probe::start("block before a time", &server.public, get(&path)),
    ];
    let began = Instant::now();
    let done = || match until {
        Until::Elapsed => began.elapsed() >= IDLE,
        Until::Done => began.elapsed() >= LASTING || is_caught_up(&server),
    };
    while !done() {
        std::thread::sleep(Duration::from_millis(100));
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{load}: probed for {seconds:.1} s");
    probes.into_iter().map(Probe::stop).collect()
}

/// Waits until all chains have blocks; the newest one of the first.
fn first_block(server: &Server) -> Result<u64> {
    let began = Instant::now();
    loop {
        let heads: Option<Vec<u64>> = heads(server).and_then(|heads| heads.into_iter().collect());
        if let Some(head) = heads.and_then(|heads| heads.first().copied()) {
            return Ok(head);
        }
        anyhow::ensure!(began.elapsed() < LASTING, "no block came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// When a block of the first chain was made.
fn time_of(server: &Server, number: u64) -> Result<u64> {
    let path = format!("/v1/chains/{FIRST_ID}/blocks/{number}/clock");
    let answer = crate::clients::fetch(&server.public, &get(&path))?;
    let (_, body) = answer.split_once("\r\n\r\n").context("a body")?;
    let clock: Value = serde_json::from_str(body)?;
    let time = clock.get("timestamp").and_then(Value::as_u64);
    time.with_context(|| answer.clone())
}

fn is_caught_up(server: &Server) -> bool {
    let ready = crate::clients::fetch(&server.health, &get("/health/ready"));
    let caught_up = heads(server).is_some_and(|heads| {
        let first = heads.first().copied().flatten();
        first.is_some() && heads.iter().all(|head| *head == first)
    });
    ready.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")) && caught_up
}

/// The newest block of each chain.
fn heads(server: &Server) -> Option<Vec<Option<u64>>> {
    let answer = crate::clients::fetch(&server.public, &get("/v1/indexing-status")).ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let status: Value = serde_json::from_str(body).ok()?;
    let chains = status.as_array()?.iter();
    Some(
        chains
            .map(|chain| chain.get("lastIndexedBlock").and_then(Value::as_u64))
            .collect(),
    )
}
