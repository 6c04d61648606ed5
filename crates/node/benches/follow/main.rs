//! How fast chains are followed, beside a bare client that sends the same requests and throws the
//! answers away: `make bench-follow`, or `cargo bench -p chronolith-node --bench follow -- [PART..]`.
//!
//! The simulated node runs in this process, everything that is measured in a process of its own.
//! Absolute times say little about another machine; the ratios are what counts.

mod archive;
mod backfill;
mod bare;
mod chains;
mod head;
mod program;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// How large a run is: the sizes that the targets are set for, divided by a number.
#[derive(Clone, Copy)]
pub(crate) struct Scale(u64);

impl Scale {
    pub(crate) fn of(self, whole: u64) -> u64 {
        whole / self.0
    }
}

const PARTS: [&str; 6] = ["sparse", "dense", "limits", "portal", "head", "chains"];

fn main() -> Result<ExitCode> {
    // Cargo adds a flag of its own.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.retain(|argument| *argument != "--bench");
    if let Some(["bare", url, requests, in_flight]) = arguments.get(..4) {
        return bare::run(url, requests.as_ref(), in_flight.parse()?);
    }
    if let Some(["archive", blocks, bodies, dir]) = arguments.get(..4) {
        return archive::run(blocks.parse()?, bodies.parse()?, dir.as_ref());
    }
    let mut scale = Scale(1);
    if let Some(at) = arguments
        .iter()
        .position(|argument| *argument == "--divide")
    {
        arguments.remove(at);
        let Some(divisor) = arguments.get(at) else {
            bail!("--divide N makes everything N times smaller");
        };
        scale = Scale(divisor.parse()?);
        arguments.remove(at);
    }
    if let Some(unknown) = arguments.iter().find(|part| !PARTS.contains(part)) {
        bail!("{unknown} is none of {}", PARTS.join(", "));
    }
    let wanted = |part: &str| arguments.is_empty() || arguments.contains(&part);
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        println!("{}", backfill::TABLE);
        for part in ["sparse", "dense", "limits"] {
            if wanted(part) {
                backfill::run(part, scale).await?;
            }
        }
        if wanted("portal") {
            backfill::portal(scale).await?;
        }
        if wanted("head") {
            head::run(scale).await?;
        }
        if wanted("chains") {
            chains::run(scale).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}
