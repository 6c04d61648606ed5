//! What a few clients, or ingest, may take from all others: `make bench-isolation`, or
//! `cargo bench -p chronolith-node --bench isolation -- [--divide N] [PART..]`.
//!
//! Each part is a load that used to stall every other client or to take gigabytes, and prints what others wait
//! and what memory the program takes beside the target. The program, the load and the probes share all cores.
#![expect(
    clippy::disallowed_methods,
    reason = "clients read at a pace and probes send at one: the load is made of time"
)]

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
mod server;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::data::Data;

/// The chain that is served.
pub(crate) const CHAIN: u64 = 900_001;
const PARTS: [&str; 4] = ["ingest", "gzip", "readers", "batches"];

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
    println!("{}", probe::TABLE);
    if wanted("ingest") {
        ingest::run(divide)?;
    }
    if PARTS.iter().skip(1).any(|part| wanted(part)) {
        let dir = tempfile::tempdir()?;
        Data::make(dir.path(), CHAIN, divide)?;
        if wanted("gzip") {
            clients::gzip(dir.path())?;
        }
        if wanted("readers") {
            memory::slow_readers(dir.path())?;
        }
        if wanted("batches") {
            memory::batches(dir.path())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
