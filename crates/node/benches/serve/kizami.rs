//! Blocks by time, beside kizami, the server that the requirement of block times describes. Both read one chain from
//! one simulated Portal and stay running; both must give the same blocks.
//!
//! `CHRONOLITH_BENCH_KIZAMI` names its program: a build that takes the Portal's address from `SQD_PORTAL_BASE`, reads gzip, and
//! listens on 127.0.0.1.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_sim::portal::{PortalOptions, PortalServer};
use serde_json::{Value, json};

use crate::{Running, load, measure, pinned, start_with};

const PROGRAM: &str = "CHRONOLITH_BENCH_KIZAMI";
/// A chain and a dataset that kizami knows, and whose first block is not known to Chronolith: it is made here.
const CHAIN: u64 = 4_200;
const DATASET: &str = "merlin-mainnet";
const BLOCKS: u64 = 1_000_000;
const CONNECTIONS: [usize; 4] = [1, 16, 64, 256];
/// How often each is measured, alternately.
const ROUNDS: usize = 3;
const TIMES: u64 = 2_000;
const PATIENCE: Duration = Duration::from_secs(300);

/// A server, and where it listens.
struct Peer {
    address: String,
    _running: Running,
}

pub(crate) fn compare(divide: u64) -> Result<()> {
    let Some(program) = std::env::var_os(PROGRAM) else {
        println!("kizami: NOT MEASURED; {PROGRAM} names its program");
        return Ok(());
    };
    let runtime = tokio::runtime::Runtime::new()?;
    let mut spec = EvmSpec::sparse(CHAIN, 0);
    spec.chain_id = CHAIN;
    let last = BLOCKS / divide - 1;
    let node = EvmNode::new(spec, last);
    node.set_finalized_depth(0);
    let options = PortalOptions {
        dataset: Some(DATASET.to_owned()),
        ..PortalOptions::default()
    };
    let portal = runtime.block_on(PortalServer::start(node.clone(), options))?;
    let url = portal.url();
    let (base, _) = url.rsplit_once('/').context("a URL")?;
    let dir = tempfile::tempdir()?;
    let chain = json!({
        "chainId": CHAIN, "name": "bench", "datasets": ["clock"], "portal": { "url": base, "dataset": DATASET },
    });
    let (running, address) = start_with(dir.path(), &chain, "run")?;
    let ours = Peer {
        address,
        _running: running,
    };
    let theirs = start(&program, base, dir.path())?;
    let time = |number: u64| {
        node.block(number)
            .map(|block| block.to_model().clock.timestamp)
    };
    let times: Vec<u64> = (1..=TIMES)
        .filter_map(|at| time(1 + at * 7_919 % (last - 1)))
        .collect();
    ensure!(times.len() as u64 == TIMES, "a block is missing");
    let end = time(last).context("the last block")? + 1;
    for peer in [&ours, &theirs] {
        peer.wait_for(end, last)?;
    }
    let paths: Vec<String> = times
        .iter()
        .map(|time| format!("/v1/chains/{CHAIN}/block/before/{}", time + 1))
        .collect();
    for path in &paths {
        let (one, other) = (ours.block(path)?, theirs.block(path)?);
        ensure!(one == other, "{path}: {one:?} here, {other:?} there");
    }
    println!("{} answers of kizami are equal", paths.len());
    println!("{}", load::TABLE);
    let requests: Vec<String> = paths.iter().map(|path| format!("GET {path}")).collect();
    for connections in CONNECTIONS {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let per_second = |who, peer: &Peer| {
                let name = ("block by time", who);
                let measured = measure(dir.path(), name, &requests, (&peer.address, connections));
                measured.map(|measured| measured.per_second)
            };
            ratios.push(per_second("ours", &ours)? / per_second("kizami", &theirs)?);
        }
        ratios.sort_by(f64::total_cmp);
        let median = ratios.get(ROUNDS / 2).copied().unwrap_or(f64::NAN);
        println!(
            "    {connections} connections: {median:.2} x as many as kizami (target 1.5), rounds {ratios:.2?}"
        );
    }
    Ok(())
}

fn start(program: &OsString, base: &str, dir: &Path) -> Result<Peer> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = free.local_addr()?;
    drop(free);
    let mut command = pinned("0", program.as_ref());
    command
        .env("SQD_PORTAL_BASE", base)
        .env("DATA_DIR", dir.join("kizami"))
        .env("PORT", address.port().to_string())
        .env("INGEST_INTERVAL_SECS", "1")
        .env("RUST_LOG", "off");
    let running = Running(command.spawn().context("start kizami")?);
    Ok(Peer {
        address: address.to_string(),
        _running: running,
    })
}

impl Peer {
    /// Waits until the newest block before this time is this one.
    #[expect(
        clippy::disallowed_methods,
        reason = "another program cannot be seen into, and both share its core with what asks"
    )]
    fn wait_for(&self, time: u64, last: u64) -> Result<()> {
        let began = Instant::now();
        let path = format!("/v1/chains/{CHAIN}/block/before/{time}");
        loop {
            let newest = self.block(&path).ok();
            if newest.is_some_and(|(number, _)| number == last) {
                return Ok(());
            }
            ensure!(
                began.elapsed() < PATIENCE,
                "{} is at {newest:?}",
                self.address
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Number and time of the block that a path finds.
    fn block(&self, path: &str) -> Result<(u64, u64)> {
        let answer = get(&self.address, path)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("a body")?;
        let block: Value = serde_json::from_str(body).with_context(|| body.to_owned())?;
        let field = |name: &str| block.get(name).and_then(Value::as_u64);
        let found = field("number").zip(field("timestamp"));
        found.with_context(|| body.to_owned())
    }
}

/// The whole answer to one request, over a connection of its own.
fn get(host: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
