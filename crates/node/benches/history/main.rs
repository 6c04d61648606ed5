//! Full history of a Stellar network, beside what most do: whole ledgers in zstd frames, each decoded for
//! whatever is asked of it. `make bench-history`, or `cargo bench -p chronolith-node --bench history`.
//!
//! Both servers run on the first core, the client that asks on the second. Absolute times say little about
//! another machine; the ratios are what counts.

mod baseline;
mod lake;
#[path = "../serve/load.rs"]
mod load;
#[path = "../follow/program.rs"]
mod program;
mod walk;

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_archive::{Archive, Settings};
use chronolith_model::ChainId;
use chronolith_stellar::Network;
use chronolith_store::{FileBlobs, FileMeta};
use serde_json::{Value, json};

use crate::lake::Lake;
use crate::load::Measured;
use crate::program::{CHRONOLITH, chronolith};

const LEDGERS: u32 = 600;
const PARTS: [&str; 4] = ["walk", "ingest", "size", "transaction"];

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.retain(|argument| *argument != "--bench");
    match arguments.as_slice() {
        ["load", target, requests, connections] => {
            load::run(target, requests.as_ref(), connections.parse()?)
        }
        ["baseline", lake] => baseline::serve(lake.as_ref()),
        [] => compare(LEDGERS, &PARTS),
        ["--ledgers", count] => compare(count.parse()?, &PARTS),
        ["--ledgers", count, parts @ ..] if parts.iter().all(|part| PARTS.contains(part)) => {
            compare(count.parse()?, parts)
        }
        other => bail!(
            "{other:?}: there is --ledgers N (default {LEDGERS}), and then parts of {PARTS:?}"
        ),
    }
}

fn compare(ledgers: u32, parts: &[&str]) -> Result<ExitCode> {
    let dir = tempfile::tempdir()?;
    let lake = Lake::make(&dir.path().join("lake"), ledgers)?;
    println!(
        "{} ledgers of {} KB with {} transactions each; {:.1} MB as whole zstd-3 frames",
        ledgers,
        lake.raw_bytes / u64::from(ledgers) / 1000,
        lake.hashes.len() / ledgers as usize,
        lake.packed_bytes as f64 / 1e6,
    );
    println!("{:<46} {:>14} {:>14}  ", "what", "ours", "target");
    let mut verdict = Verdict;
    if parts.contains(&"walk") {
        walk::run(&lake, &mut verdict)?;
    }
    if parts.iter().any(|part| *part != "walk") {
        ingest(dir.path(), &lake, &mut verdict)?;
    }
    if parts.contains(&"size") {
        size(dir.path(), &lake, &mut verdict)?;
    }
    if parts.contains(&"transaction") {
        transactions(dir.path(), &lake, &mut verdict)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What was measured, beside what was promised.
pub(crate) struct Verdict;

impl Verdict {
    /// A figure that should be no less than its target.
    pub(crate) fn at_least(&mut self, what: &str, ours: f64, target: f64, unit: &str) {
        self.say(what, ours, target, (unit, ours >= target));
    }

    /// A figure that should be no more than its target.
    pub(crate) fn at_most(&mut self, what: &str, ours: f64, target: f64, unit: &str) {
        self.say(what, ours, target, (unit, ours <= target));
    }

    fn say(&mut self, what: &str, ours: f64, target: f64, (unit, met): (&str, bool)) {
        let met = if met { "met" } else { "MISSED" };
        println!("{what:<46} {ours:>14.2} {target:>14.2}  {unit:<12} {met}");
    }
}

/// The chain's settings: everything on.
fn chain(lake: &Lake, end: u32) -> Value {
    json!([{
        "name": "bench", "mode": "backfill", "startBlock": lake.first, "endBlock": end,
        "stellar": {
            "network": "bench", "passphrase": lake.passphrase,
            "lake": { "dir": lake.directory },
        },
    }])
}

/// The program takes the whole lake in: proven, indexed by hash and by event, packed.
fn ingest(dir: &Path, lake: &Lake, verdict: &mut Verdict) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let chains = chain(lake, lake.last);
    let command = chronolith(dir, &chains, &["run"])?;
    let cost = runtime.block_on(program::measure(command))?;
    let ledgers = f64::from(lake.last - lake.first + 1);
    verdict.at_least(
        "ingest from a local lake, two cores",
        ledgers / cost.seconds,
        100.0,
        "ledgers/s",
    );
    println!(
        "    {:.1} s, {:.1} s of CPU, {:.0} MB/s of ledgers",
        cost.seconds,
        cost.cpu_seconds,
        lake.raw_bytes as f64 / cost.seconds / 1e6
    );
    verdict.at_most("its memory", cost.peak_mib, 1024.0, "MiB");
    Ok(())
}

/// What the archive's state names: merges leave behind what they replaced, until it is collected.
fn size(dir: &Path, lake: &Lake, verdict: &mut Verdict) -> Result<()> {
    let chain = ChainId(Network::new(&*lake.passphrase).chain_id());
    let home = dir.join(format!("data/chains/{chain}"));
    let (meta, blobs) = (FileMeta::open_reader(&home), FileBlobs::open_reader(&home));
    let settings = Settings::stellar(chain);
    let runtime = tokio::runtime::Runtime::new()?;
    let ranges = runtime.block_on(async {
        let archive = Archive::open_reader(Arc::new(meta), Arc::new(blobs), settings).await?;
        Ok::<_, anyhow::Error>(archive.ranges().await)
    })?;
    let bytes = |names: &[String]| -> Result<u64> {
        let lens = names
            .iter()
            .map(|name| Ok(home.join("blobs").join(name).metadata()?.len()));
        lens.sum()
    };
    let (mut packs, mut others) = (0, 0);
    for range in &ranges {
        packs += bytes(&range.packs)?;
        others += bytes(&range.segments)? + bytes(&range.runs)?;
    }
    ensure!(packs > 0, "there are no packs in {}", home.display());
    let packed = lake.packed_bytes as f64;
    let what = "ledgers' bytes beside whole zstd-3 frames";
    verdict.at_most(what, packs as f64 / packed, 1.02, "x");
    println!(
        "    packs {:.1} MB; hashes, events and their indexes {:.1} MB",
        packs as f64 / 1e6,
        others as f64 / 1e6
    );
    Ok(())
}

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

/// Transactions by hash over HTTP: those that are there, warm, one at a time.
fn transactions(dir: &Path, lake: &Lake, verdict: &mut Verdict) -> Result<()> {
    let (_ours, address) = start_ours(dir, lake)?;
    let (_theirs, baseline) = start_baseline(lake)?;
    let requests: Vec<String> = lake.some_hashes(2_000).map(|hash| ask(&hash)).collect();
    let ours = format!("{address}/stellar/bench");
    check(&ours, &baseline, lake)?;
    println!("{}", load::TABLE);
    let name = "getTransaction";
    let alone = measure(dir, (name, "ours"), &requests, (&ours, 1))?;
    measure(dir, (name, "ours"), &requests, (&ours, 32))?;
    let few: Vec<String> = requests.iter().step_by(20).cloned().collect();
    let theirs = measure(dir, (name, "baseline"), &few, (&baseline, 1))?;
    verdict.at_most(
        "getTransaction over HTTP, hit, warm, p50",
        alone.p50_us / 1000.0,
        0.3,
        "ms",
    );
    verdict.at_least(
        "how often the baseline's time that is",
        theirs.p50_us / alone.p50_us,
        10.0,
        "x",
    );
    let absent: Vec<String> = lake.absent_hashes(2_000).map(|hash| ask(&hash)).collect();
    measure(dir, ("of no transaction", "ours"), &absent, (&ours, 1))?;
    Ok(())
}

fn ask(hash: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "getTransaction", "params": { "hash": hash } })
        .to_string()
}

/// Both give the same envelope, result and meta.
fn check(ours: &str, theirs: &str, lake: &Lake) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let client = reqwest::Client::new();
        for hash in lake.some_hashes(50) {
            let mut answers = Vec::new();
            for address in [ours, theirs] {
                let request = client.post(format!("http://{address}")).body(ask(&hash));
                let request = request.header("content-type", "application/json");
                let answer: Value = serde_json::from_str(&request.send().await?.text().await?)?;
                let parts = ["envelopeXdr", "resultXdr", "resultMetaXdr"];
                let part = |part: &&str| answer.pointer(&format!("/result/{part}")).cloned();
                let found: Vec<Option<Value>> = parts.iter().map(part).collect();
                ensure!(found.iter().all(Option::is_some), "{hash}: {answer}");
                answers.push(found);
            }
            ensure!(answers.first() == answers.last(), "{hash}: answers differ");
        }
        Ok(())
    })
}

/// The program, serving the archive without following.
fn start_ours(dir: &Path, lake: &Lake) -> Result<(Running, String)> {
    // It writes the settings; the command itself is started on one core.
    drop(chronolith(dir, &chain(lake, lake.last), &["serve"])?);
    let log = dir.join("log");
    let mut command = pinned("0", CHRONOLITH.as_ref());
    command
        .args(["serve", "--config"])
        .arg(dir.join("chronolith.json"))
        .env("RUST_LOG", "info")
        .stderr(std::fs::File::create(&log)?);
    let running = Running(command.spawn().context("start chronolith")?);
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(&log)?;
        let listen = text.lines().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let is_it = line.pointer("/fields/message")? == "serving";
            let listen = line.pointer("/fields/listen")?.as_str()?.to_owned();
            is_it.then_some(listen)
        });
        if let Some(listen) = listen {
            return Ok((running, listen));
        }
        let waited = began.elapsed();
        ensure!(
            waited < Duration::from_secs(30),
            "it does not serve: {text}"
        );
        std::thread::yield_now();
    }
}

fn start_baseline(lake: &Lake) -> Result<(Running, String)> {
    let mut command = pinned("0", &std::env::current_exe()?);
    let mut child = command.arg("baseline").arg(&lake.directory).spawn()?;
    let mut said = std::io::BufReader::new(child.stdout.take().context("no output")?);
    let mut address = String::new();
    std::io::BufRead::read_line(&mut said, &mut address)?;
    Ok((Running(child), format!("{}/", address.trim())))
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
