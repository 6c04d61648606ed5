//! How fast logs and times are answered over HTTP, beside PostgreSQL with the index that fits the query
//! exactly and the same encoder: `make bench-serve`, or `cargo bench -p chronolith-node --bench serve`.
//!
//! Every server runs on the first core, the client that asks on the second. Absolute times say little
//! about another machine; the ratios are what counts.

mod data;
mod load;
mod postgres;

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use crate::data::Data;
use crate::load::Measured;
use crate::postgres::Postgres;

/// Our program, as cargo has just built it.
const CHRONOLITH: &str = env!("CARGO_BIN_EXE_chronolith");
const CHAIN: u64 = 900_001;
/// Connections that ask at once where throughput is measured.
const CROWD: usize = 32;

/// A process that ends with the bench.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command on one core.
fn pinned(core: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(program);
    command.stderr(Stdio::inherit()).stdout(Stdio::piped());
    command
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.retain(|argument| *argument != "--bench");
    match arguments.as_slice() {
        ["load", target, requests, connections] => {
            load::run(target, requests.as_ref(), connections.parse()?)
        }
        ["postgres", url] => postgres::serve(url),
        [] => compare(1),
        ["--divide", by] => compare(by.parse()?),
        other => bail!("{other:?}: there is --divide N, which makes everything N times smaller"),
    }
}

fn compare(divide: u64) -> Result<ExitCode> {
    let dir = tempfile::tempdir()?;
    let data = Data::make(dir.path(), CHAIN, divide)?;
    println!(
        "{} blocks, {} logs, {} pairs of address and topic",
        data.blocks,
        data.logs,
        data.pairs.len()
    );
    let (_ours, address) = start_ours(dir.path())?;
    let postgres = Postgres::start(&data)?;
    let ours = format!("{address}/{CHAIN}");
    println!("{}", load::TABLE);
    for span in [100, 1_000, 10_000] {
        let requests = data.narrow(span);
        let name = format!("address and topic, {span} blocks");
        both(dir.path(), &name, &requests, (&ours, &postgres.address))?;
    }
    both(
        dir.path(),
        "200 addresses, 10,000 blocks",
        &data.wide(),
        (&ours, &postgres.address),
    )?;
    both(
        dir.path(),
        "10,000 logs of the commonest topic",
        &data.dense(),
        (&ours, &postgres.address),
    )?;
    let times = data.times(CHAIN);
    measure(
        dir.path(),
        ("block by time", "ours"),
        &times,
        (&address, CROWD),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The program, serving the archive without a source.
fn start_ours(dir: &Path) -> Result<(Running, String)> {
    let config = dir.join("chronolith.json");
    let text = json!({
        "dataDir": dir.join("data"), "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0",
        "chains": [{ "chainId": CHAIN, "name": "bench", "rpcHttp": ["http://127.0.0.1:1"], "datasets": ["logs", "tx_hashes"] }],
    });
    std::fs::write(&config, text.to_string())?;
    let log = dir.join("log");
    let mut command = pinned("0", CHRONOLITH.as_ref());
    command.args(["serve", "--config"]).arg(&config);
    command
        .env("RUST_LOG", "info")
        .stderr(std::fs::File::create(&log)?);
    let running = Running(command.spawn().context("start chronolith")?);
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(&log)?;
        let listen = text.lines().find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            let is_it = line.pointer("/fields/message")? == "serving";
            let listen = line.pointer("/fields/listen")?.as_str()?.to_owned();
            is_it.then_some(listen)
        });
        if let Some(listen) = listen {
            return Ok((running, listen));
        }
        ensure!(
            began.elapsed() < Duration::from_secs(30),
            "it does not serve: {text}"
        );
        std::thread::yield_now();
    }
}

/// The same requests to both, one at a time and many at once; the answers must be equally long lists.
fn both(dir: &Path, name: &str, requests: &[String], (ours, theirs): (&str, &str)) -> Result<()> {
    let mut medians = Vec::new();
    for (who, target) in [("ours", ours), ("PostgreSQL", theirs)] {
        let alone = measure(dir, (name, who), requests, (target, 1))?;
        let crowd = measure(dir, (name, who), requests, (target, CROWD))?;
        medians.push((alone, crowd));
    }
    if let [(ours, our_crowd), (theirs, their_crowd)] = medians.as_slice() {
        ensure!(
            ours.logs == theirs.logs,
            "{name}: {} logs and {}",
            ours.logs,
            theirs.logs
        );
        println!(
            "    PostgreSQL takes {:.1} x as long, and serves {:.2} x as many; {:.0} logs an answer",
            theirs.p50_us / ours.p50_us,
            their_crowd.per_second / our_crowd.per_second,
            ours.logs,
        );
    }
    Ok(())
}

fn measure(
    dir: &Path,
    (name, who): (&str, &str),
    requests: &[String],
    (target, connections): (&str, usize),
) -> Result<Measured> {
    let file = dir.join("requests");
    std::fs::write(&file, requests.join("\n"))?;
    let mut command = pinned("1", &std::env::current_exe()?);
    command
        .args(["load", target])
        .arg(&file)
        .arg(connections.to_string());
    let output = command.output().context("start the client")?;
    ensure!(
        output.status.success(),
        "the client failed on {name}, {who}"
    );
    let measured = Measured::read(&String::from_utf8(output.stdout)?)?;
    println!("{}", measured.row(name, who, connections));
    Ok(measured)
}
