//! How fast fees are projected into PostgreSQL, beside Ponder that indexes the same event into the same
//! columns, and beside bare COPY of the same rows: `make bench-projection`, or
//! `cargo bench -p chronolith-node --bench projection -- [--scale X] [--strategy logs|receipts] [PART..]`.
//!
//! All sides have the same simulated node, which runs in this process, and the same PostgreSQL, which
//! keeps what it commits. A side is done when the last row that must be there is there: PostgreSQL says
//! so, not the side. Then every row is compared with what the chain was made from. Absolute times say
//! little about another machine; the ratios are what counts.
//!
//! Beside that race: what projections cost in memory, how late new rows are, what confirming costs, and how
//! fast consumers are answered. These have sizes of their own, whatever the scale is.

mod bare;
mod confirm;
mod database;
mod home;
#[expect(unreachable_pub, dead_code, reason = "tests use it, and more of it")]
#[path = "../../tests/support/installed.rs"]
mod installed;
mod latency;
mod memory;
mod ours;
mod ponder;
mod process;
mod queries;
mod race;
mod table;
mod workload;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use crate::database::Server;
use crate::ours::Ours;
use crate::table::{Measured, Verdict};
use crate::workload::{Chain, WORKLOADS};

const SIDES: [&str; 4] = ["bare", "memory", "ours", "ponder"];
/// What has a chain of its own.
const APART: [&str; 3] = ["confirm", "latency", "queries"];
/// What projections are measured in memory with.
const MEMORY_WORKLOAD: &str = "dense";
/// Connections that bare COPY is tried with: the faster one counts.
const BARE_CONNECTIONS: [usize; 2] = [1, 2];
/// Told `receipts`, the program makes as many calls in the same time: it asks for logs wherever only those
/// of some contracts are kept.
const STRATEGY: &str = "logs";

/// What to run.
struct Asked {
    scale: f64,
    strategy: String,
    parts: Vec<String>,
}

impl Asked {
    fn parse(mut words: Vec<String>) -> Result<Self> {
        // Cargo adds a flag of its own.
        words.retain(|word| word != "--bench");
        let scale = option(&mut words, "--scale")?.map(|scale| scale.parse());
        let scale = scale.transpose().context("--scale X: a number")?;
        let scale = scale.unwrap_or(1.0);
        ensure!(scale > 0.0, "--scale: above 0, for 1 is the whole size");
        let strategy = option(&mut words, "--strategy")?;
        let known: Vec<&str> = workloads().into_iter().chain(SIDES).chain(APART).collect();
        let unknown = words.iter().find(|word| !known.contains(&word.as_str()));
        if let Some(unknown) = unknown {
            anyhow::bail!("{unknown}: there is --scale X, and then parts of {known:?}");
        }
        Ok(Self {
            scale,
            strategy: strategy.unwrap_or_else(|| STRATEGY.to_owned()),
            parts: words,
        })
    }

    /// Whether a part of a list is wanted: it is named, or none of the list is.
    fn wants(&self, part: &str, list: &[&str]) -> bool {
        self.names(&[part]) || !self.names(list)
    }

    fn names(&self, list: &[&str]) -> bool {
        self.parts
            .iter()
            .any(|named| list.contains(&named.as_str()))
    }

    /// Whether there is a race at all.
    fn races(&self) -> bool {
        self.names(&SIDES) || self.names(&workloads()) || !self.names(&APART)
    }

    /// Whether a part with a chain of its own is wanted.
    fn wants_apart(&self, part: &str) -> bool {
        self.names(&[part]) || self.parts.is_empty()
    }
}

fn workloads() -> [&'static str; 2] {
    WORKLOADS.map(|workload| workload.name)
}

/// Takes an option and its value out of the words.
fn option(words: &mut Vec<String>, name: &str) -> Result<Option<String>> {
    let Some(at) = words.iter().position(|word| word == name) else {
        return Ok(None);
    };
    let value = words.get(at + 1).cloned();
    let value = value.with_context(|| format!("{name}: a value"))?;
    words.drain(at..at + 2);
    Ok(Some(value))
}

fn main() -> Result<ExitCode> {
    let asked = Asked::parse(std::env::args().skip(1).collect())?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let server = Server::start()?;
        let mut verdict = Verdict::default();
        if asked.races() {
            println!("{}", table::HEAD);
        }
        for workload in WORKLOADS.iter().filter(|_| asked.races()) {
            if asked.wants(workload.name, &workloads()) {
                let chain = Chain::make(workload, asked.scale);
                compare(&chain, &server, &asked, &mut verdict).await?;
            }
        }
        if asked.wants_apart("latency") {
            latency::run(&server).await.context("latency")?;
        }
        if asked.wants_apart("confirm") {
            confirm::run(&server).await.context("confirm")?;
        }
        if asked.wants_apart("queries") {
            queries::run(&server).await.context("queries")?;
        }
        Ok(verdict.exit())
    })
}

/// All sides on one chain, and how they stand to each other.
async fn compare(
    chain: &Chain,
    server: &Server,
    asked: &Asked,
    verdict: &mut Verdict,
) -> Result<()> {
    let (mut bare, mut backfill, mut again, mut peer) = (None, None, None, None);
    if ["bare", "memory", "ours"]
        .iter()
        .any(|part| asked.wants(part, &SIDES))
    {
        let done = ours::backfill(chain, server, &asked.strategy).await;
        let (measured, ours) = done.context("ours")?;
        backfill = verdict.take(chain, "ours from RPC", Some(measured));
        if asked.wants("bare", &SIDES) {
            bare = copy(chain, server, &ours, verdict)
                .await
                .context("bare COPY")?;
        }
        if asked.wants("ours", &SIDES) {
            let measured = ours.reproject(chain, server).await.context("ours")?;
            again = verdict.take(chain, "ours from archive", Some(measured));
        }
    }
    if asked.wants("ponder", &SIDES) {
        let measured = ponder::run(chain, server).await;
        // One that does not run must not hide the figures of the others.
        let measured = measured.inspect_err(|error| println!("    {}: {error:#}", ponder::NAME));
        peer = verdict.take(chain, ponder::NAME, measured.ok().flatten());
    }
    ratio(
        "Ponder takes, of our time from RPC (target >= 10)",
        &peer,
        &backfill,
    );
    ratio(
        "our time from RPC, of that from the archive (target >= 3)",
        &backfill,
        &again,
    );
    ratio(
        "bare COPY takes, of our time from the archive (target >= 0.8)",
        &bare,
        &again,
    );
    if asked.wants("memory", &SIDES) && chain.name == MEMORY_WORKLOAD {
        let (without, seconds) = memory::without(chain, &asked.strategy)
            .await
            .context("memory")?;
        let with = backfill.and_then(|measured| measured.peak_mib);
        let with = with.context("memory of ours")?;
        println!(
            "    memory: {with:.0} MiB, {without:.0} without projections (in {seconds:.2} s): {:+.0} (target <= 300)",
            with - without
        );
    }
    Ok(())
}

/// Bare COPY of what our side has, at its best.
async fn copy(
    chain: &Chain,
    server: &Server,
    ours: &Ours,
    verdict: &mut Verdict,
) -> Result<Option<Measured>> {
    let mut best: Option<Measured> = None;
    for connections in BARE_CONNECTIONS {
        let measured = bare::run(chain, server, ours, connections).await?;
        let side = format!("bare COPY over {connections}");
        let measured = verdict.take(chain, &side, Some(measured));
        best = measured
            .into_iter()
            .chain(best)
            .min_by(|a, b| a.seconds.total_cmp(&b.seconds));
    }
    Ok(best)
}

fn ratio(what: &str, over: &Option<Measured>, under: &Option<Measured>) {
    if let (Some(over), Some(under)) = (over, under) {
        println!("    {what}: {:.2} x", over.seconds / under.seconds);
    }
}
