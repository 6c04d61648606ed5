//! How fast logs and times are answered over HTTP, beside PostgreSQL with the index that fits the query
//! exactly and the same encoder, beside Anvil with a chain that both hold, and beside kizami with the times of
//! a chain that both read from one Portal: `make bench-serve`, or
//! `cargo bench -p chronolith-node --bench serve`.
//!
//! Every server runs on the first core, the client that asks on the second. Absolute times say little
//! about another machine; the ratios are what counts.

mod anvil;
mod data;
#[expect(unreachable_pub, reason = "tests use it from another module")]
#[path = "../../tests/support/installed.rs"]
mod installed;
mod kizami;
mod load;
mod postgres;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::anvil::Anvil;
use crate::data::Data;
use crate::load::Measured;
use crate::postgres::Postgres;

/// Our program, as cargo has just built it.
const CHRONOLITH: &str = env!("CARGO_BIN_EXE_chronolith");
const CHAIN: u64 = 900_001;
/// Connections that ask at once where throughput is measured.
const CROWD: usize = 32;
/// Connections that ask at once where memory is.
const CLIENTS: usize = 1_000;
const PARTS: [&str; 3] = ["postgres", "anvil", "kizami"];
const SPANS: [u64; 3] = [100, 1_000, 10_000];
/// The number that the first block that is asked about has on Anvil's chain.
const FIRST_OF_ANVIL: u64 = 1;
/// One of so many questions is asked there: each takes Anvil a tenth of a second.
const EVERY_OF_ANVIL: usize = 5;

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
        [] => compare(1, &PARTS),
        ["--divide", by] => compare(by.parse()?, &PARTS),
        ["--divide", by, parts @ ..] if parts.iter().all(|part| PARTS.contains(part)) => {
            compare(by.parse()?, parts)
        }
        other => bail!(
            "{other:?}: there is --divide N, which makes everything N times smaller, and then parts of {PARTS:?}"
        ),
    }
}

fn compare(divide: u64, parts: &[&str]) -> Result<ExitCode> {
    if parts.contains(&"kizami") {
        kizami::compare(divide)?;
    }
    if parts == ["kizami"] {
        return Ok(ExitCode::SUCCESS);
    }
    let dir = tempfile::tempdir()?;
    let data = Data::make(dir.path(), CHAIN, divide)?;
    println!(
        "{} blocks, {} logs, {} pairs of address and topic, the median with {} logs",
        data.blocks,
        data.logs,
        data.pairs.len(),
        data.median()
    );
    if parts.contains(&"postgres") {
        beside_postgres(dir.path(), &data)?;
    }
    if parts.contains(&"anvil") {
        beside_anvil(dir.path(), &data)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn beside_postgres(dir: &Path, data: &Data) -> Result<()> {
    let chain = json!({
        "chainId": CHAIN, "name": "bench", "rpcHttp": ["http://127.0.0.1:1"], "datasets": ["logs", "tx_hashes"],
    });
    let (server, address) = start_ours(dir, &chain)?;
    let postgres = Postgres::start(data)?;
    let ours = format!("{address}/{CHAIN}");
    let contest = Contest {
        dir,
        ours: &ours,
        theirs: &postgres.address,
        who: "PostgreSQL",
    };
    println!("{}", load::TABLE);
    for span in SPANS {
        let name = format!("address and topic, {span} blocks");
        contest.run(&name, &data.narrow(span))?;
    }
    // Before anything larger is asked: what that leaves behind would hide what these need.
    memory(dir, &server, &data.narrow(u64::MAX), &ours)?;
    contest.run("200 addresses, 10,000 blocks", &data.wide())?;
    contest.run("10,000 logs of the commonest topic", &data.dense())?;
    let times = data.times(CHAIN);
    let name = ("block by time", "ours");
    measure(dir, name, &times, (&address, CROWD))?;
    Ok(())
}

fn beside_anvil(dir: &Path, data: &Data) -> Result<()> {
    let Some(anvil) = Anvil::start(dir, data)? else {
        println!("Anvil: NOT MEASURED; `scripts/need anvil` installs it");
        return Ok(());
    };
    let contest = Contest {
        dir,
        ours: &anvil.ours,
        theirs: &anvil.theirs,
        who: "Anvil",
    };
    let requests = |span| -> Vec<String> {
        let all = data.narrow_from(FIRST_OF_ANVIL, span).into_iter();
        all.step_by(EVERY_OF_ANVIL).collect()
    };
    let mut all = requests(u64::MAX);
    let pairs = data.pairs.iter().step_by(EVERY_OF_ANVIL);
    let (whole, in_whole) = data.all_from(FIRST_OF_ANVIL);
    all.push(whole);
    let expected = pairs.map(|pair| pair.logs).sum::<usize>() + in_whole;
    let logs = anvil.compare(&all)?;
    ensure!(logs == expected, "{logs} logs where {expected} were made");
    println!("{} answers with {logs} logs are equal", all.len());
    println!("{}", load::TABLE);
    for span in SPANS {
        let name = format!("chain of Anvil, {span} blocks");
        contest.run(&name, &requests(span))?;
    }
    Ok(())
}

/// What the process takes, at rest and while a great many ask at once.
fn memory(dir: &Path, server: &Running, requests: &[String], target: &str) -> Result<()> {
    let process = format!("/proc/{}", server.0.id());
    let mebibytes = |field: &str| -> Result<f64> {
        let text = std::fs::read_to_string(format!("{process}/status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(field));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.context("no such field")?.parse::<f64>()? / 1024.0)
    };
    let idle = mebibytes("VmRSS:")?;
    // The kernel's word for: forget the peak so far.
    std::fs::write(format!("{process}/clear_refs"), "5")?;
    let name = ("address and topic, 10,000 blocks", "ours");
    measure(dir, name, requests, (target, CLIENTS))?;
    let peak = mebibytes("VmHWM:")?;
    println!(
        "    memory: {idle:.0} MiB idle, {peak:.0} at most under {CLIENTS} clients: {:.0} more",
        peak - idle
    );
    Ok(())
}

/// Settings for one chain, under a directory.
fn write_config(dir: &Path, chain: &Value) -> Result<PathBuf> {
    let config = dir.join("chronolith.json");
    let text = json!({
        "dataDir": dir.join("data"), "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0",
        "chains": [chain],
    });
    std::fs::write(&config, text.to_string())?;
    Ok(config)
}

/// The program, serving an archive without following.
fn start_ours(dir: &Path, chain: &Value) -> Result<(Running, String)> {
    start_with(dir, chain, "serve")
}

/// The program with a command that serves, and the address of its public listener.
fn start_with(dir: &Path, chain: &Value, command_name: &str) -> Result<(Running, String)> {
    let config = write_config(dir, chain)?;
    let log = dir.join("log");
    let mut command = pinned("0", CHRONOLITH.as_ref());
    command.args([command_name, "--config"]).arg(&config);
    command
        .env("RUST_LOG", "info")
        .stderr(std::fs::File::create(&log)?);
    let running = Running(command.spawn().context("start chronolith")?);
    let listen = said(&log, |line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let is_it = line.pointer("/fields/message")? == "serving";
        let listen = line.pointer("/fields/listen")?.as_str()?.to_owned();
        is_it.then_some(listen)
    })?;
    Ok((running, listen))
}

/// Waits until a line of a file says what is looked for.
fn said(log: &Path, look: impl Fn(&str) -> Option<String>) -> Result<String> {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(log)?;
        if let Some(found) = text.lines().find_map(&look) {
            return Ok(found);
        }
        ensure!(
            began.elapsed() < Duration::from_secs(30),
            "it does not serve: {text}"
        );
        std::thread::yield_now();
    }
}

/// Us and another, with the same behind both.
struct Contest<'a> {
    dir: &'a Path,
    ours: &'a str,
    theirs: &'a str,
    who: &'a str,
}

impl Contest<'_> {
    /// The same requests to both, one at a time and many at once; the answers must be equally long lists.
    fn run(&self, name: &str, requests: &[String]) -> Result<()> {
        let both = |who, target| -> Result<_> {
            let alone = measure(self.dir, (name, who), requests, (target, 1))?;
            let crowd = measure(self.dir, (name, who), requests, (target, CROWD))?;
            Ok((alone, crowd))
        };
        let (ours, our_crowd) = both("ours", self.ours)?;
        let (theirs, their_crowd) = both(self.who, self.theirs)?;
        ensure!(
            ours.logs == theirs.logs,
            "{name}: {} logs and {}",
            ours.logs,
            theirs.logs
        );
        println!(
            "    {} takes {:.1} x as long, and serves {:.3} x as many; {:.0} logs an answer",
            self.who,
            theirs.p50_us / ours.p50_us,
            their_crowd.per_second / our_crowd.per_second,
            ours.logs,
        );
        Ok(())
    }
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
