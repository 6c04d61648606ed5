//! What a few clients, ingest or an endpoint may take from all others: `make bench-isolation`, or
//! `cargo bench -p chronolith-node --bench isolation -- [--divide N] [PART..]`.
//!
//! Each part is a load that used to stall every other client or to take gigabytes, and prints what others wait
//! and what memory the program takes beside the target. The program, the load and the probes share all cores.
//! Where a target is missed, or an honest request fails, the bench fails after its last part.
#![expect(
    clippy::disallowed_methods,
    reason = "clients read at a pace and probes send at one: the load is made of time"
)]

mod bomb;
mod clients;
#[allow(
    dead_code,
    reason = "the questions of the other bench that uses it are not asked here"
)]
#[path = "../serve/data.rs"]
mod data;
mod ingest;
mod memory;
mod probe;
#[allow(
    dead_code,
    reason = "this bench measures no program that ends by itself"
)]
#[path = "../follow/program.rs"]
mod program;
mod report;
mod server;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::data::Data;
use crate::report::Report;

/// The chain that is served.
pub(crate) const CHAIN: u64 = 900_001;
const PARTS: [&str; 7] = [
    "ingest", "gzip", "filters", "readers", "batches", "unread", "bomb",
];

/// Measures one load on the archive in a directory.
type Part = fn(&Path, &mut Report) -> Result<()>;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.retain(|argument| *argument != "--bench");
    let (divide, parts) = match arguments.as_slice() {
        ["--divide", by, parts @ ..] => (by.parse()?, parts),
        parts => (1, parts),
    };
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(part)) {
        bail!("{unknown} is none of {}", PARTS.join(", "));
    }
    let wanted = |part: &str| parts.is_empty() || parts.contains(&part);
    raise_file_limit()?;
    println!("{}", probe::TABLE);
    let mut report = Report::default();
    if wanted("ingest") {
        report.part("ingest", |report| ingest::run(divide, report));
    }
    if PARTS.iter().skip(1).any(|part| wanted(part)) {
        let dir = tempfile::tempdir()?;
        Data::make(dir.path(), CHAIN, divide)?;
        let parts: [(&str, Part); 6] = [
            ("gzip", clients::gzip),
            ("filters", clients::filters),
            ("readers", memory::slow_readers),
            ("batches", memory::batches),
            ("unread", memory::unread),
            ("bomb", bomb::run),
        ];
        for (name, run) in parts.into_iter().filter(|(name, _)| wanted(name)) {
            report.part(name, |report| run(dir.path(), report));
        }
    }
    Ok(report.end())
}

/// The clients take more files than a process may have open by default.
fn raise_file_limit() -> Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).context("raise the limit of open files")
}
