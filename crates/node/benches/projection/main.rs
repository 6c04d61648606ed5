//! How fast fees are projected into PostgreSQL, beside Ponder that indexes the same event into the same
//! columns, and beside bare COPY of the same rows: `make bench-projection`, or
//! `cargo bench -p chronolith-node --bench projection -- [--scale X] [PART..]`.
//!
//! All sides have the same simulated node, which runs in this process, and the same PostgreSQL, which
//! keeps what it commits. A side is done when the last row that must be there is there: PostgreSQL says
//! so, not the side. Then every row is compared with what the chain was made from. Absolute times say
//! little about another machine; the ratios are what counts.

mod bare;
mod database;
#[expect(unreachable_pub, dead_code, reason = "tests use it, and more of it")]
#[path = "../../tests/support/installed.rs"]
mod installed;
mod ours;
mod ponder;
mod process;
mod race;
mod table;
mod workload;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};

use crate::database::Server;
use crate::table::{Measured, Verdict};
use crate::workload::{Chain, WORKLOADS};

const SIDES: [&str; 3] = ["bare", "ours", "ponder"];

/// What to run.
struct Asked {
    scale: f64,
    parts: Vec<String>,
}

impl Asked {
    fn parse(mut words: Vec<String>) -> Result<Self> {
        // Cargo adds a flag of its own.
        words.retain(|word| word != "--bench");
        let mut scale = 1.0;
        if let Some(at) = words.iter().position(|word| word == "--scale") {
            let number = words.get(at + 1).context("--scale X: a number")?;
            scale = number.parse().context("--scale X: a number")?;
            words.drain(at..at + 2);
        }
        ensure!(scale > 0.0, "--scale: above 0, for 1 is the whole size");
        let workloads = || WORKLOADS.iter().map(|workload| workload.name);
        let known = |word: &String| workloads().chain(SIDES).any(|part| part == word);
        let unknown = words.iter().find(|word| !known(word));
        if let Some(unknown) = unknown {
            let parts: Vec<&str> = workloads().chain(SIDES).collect();
            anyhow::bail!("{unknown}: there is --scale X, and then parts of {parts:?}");
        }
        let parts = words;
        Ok(Self { scale, parts })
    }

    /// Whether a part of a list is wanted: it is named, or none of the list is.
    fn wants(&self, part: &str, list: &[&str]) -> bool {
        let is_named = |part: &str| self.parts.iter().any(|named| named == part);
        is_named(part) || !list.iter().any(|part| is_named(part))
    }
}

fn main() -> Result<ExitCode> {
    let asked = Asked::parse(std::env::args().skip(1).collect())?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let server = Server::start()?;
        let names = WORKLOADS.map(|workload| workload.name);
        let mut verdict = Verdict::default();
        println!("{}", table::HEAD);
        for workload in &WORKLOADS {
            if asked.wants(workload.name, &names) {
                let chain = Chain::make(workload, asked.scale);
                compare(&chain, &server, &asked, &mut verdict).await?;
            }
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
    let mut bare = None;
    if asked.wants("bare", &SIDES) {
        let measured = bare::run(chain, server).await.context("bare COPY")?;
        bare = verdict.take(chain, "bare COPY", Some(measured));
    }
    let (mut backfill, mut again) = (None, None);
    if asked.wants("ours", &SIDES) {
        let measured = ours::backfill(chain, server).await.context("ours")?;
        backfill = verdict.take(chain, "ours from RPC", measured);
        let measured = ours::reproject(chain, server).await.context("ours")?;
        again = verdict.take(chain, "ours from archive", measured);
    }
    let mut peer = None;
    if asked.wants("ponder", &SIDES) {
        let measured = ponder::run(chain, server).await;
        // One that does not run must not hide the figures of the others.
        let measured = measured.inspect_err(|error| println!("    {}: {error:#}", ponder::NAME));
        peer = verdict.take(chain, ponder::NAME, measured.ok().flatten());
    }
    let ratio = |what: &str, over: &Option<Measured>, under: &Option<Measured>| {
        if let (Some(over), Some(under)) = (over, under) {
            println!("    {what}: {:.2} x", over.seconds / under.seconds);
        }
    };
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
    Ok(())
}
