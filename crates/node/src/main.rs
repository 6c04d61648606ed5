//! `chronolith`: follows chains, keeps their history and answers for it.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong use, 3 something is not whole (`verify`).

mod backfill;
mod chain;
mod cli;
mod clock;
mod commands;
mod environment;
mod exporter;
mod gaps;
mod hex;
mod ingest;
mod log;
mod meters;
mod operations;
mod readiness;
mod settings;
mod walk;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;

use crate::cli::{Cli, Command, SimCommand};
use crate::environment::{DATA_DIR, Overrides, variable};
use crate::settings::Settings;

fn main() -> ExitCode {
    match start(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(cli: Cli) -> Result<ExitCode> {
    log::start(&cli, &variable)?;
    let overrides = Overrides::new(&cli, &variable)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(dispatch(cli, &overrides))
}

async fn dispatch(cli: Cli, overrides: &Overrides) -> Result<ExitCode> {
    if let Command::Config { what } = &cli.command {
        return commands::config(*what, &cli.config, overrides);
    }
    match &cli.command {
        Command::Demo { seconds } => {
            let data_dir = overrides.data_dir.clone();
            let data_dir = data_dir.unwrap_or_else(|| DATA_DIR.into());
            return commands::demo(*seconds, &data_dir).await;
        }
        Command::Sim { what } => {
            return match what {
                SimCommand::Serve(serve) => commands::serve(serve).await,
                SimCommand::Torture { seed, seeds } => commands::torture(*seed, *seeds).await,
            };
        }
        _ => {}
    }
    let settings = Settings::load(&cli.config, overrides)?;
    match cli.command {
        Command::Config { .. } | Command::Demo { .. } | Command::Sim { .. } => {
            Ok(ExitCode::SUCCESS)
        }
        Command::Run { until_caught_up } => commands::run(&settings, until_caught_up).await,
        Command::State(wanted) => commands::state(&settings, &wanted).await,
        Command::Logs(query) => commands::logs(&settings, &query).await,
        Command::BlockAt(query) => commands::block_at(&settings, &query).await,
        Command::Verify(range) => commands::verify(&settings, &range).await,
        Command::Resume(act) => commands::resume(&settings, &act).await,
        Command::Rewind { to, act } => commands::rewind(&settings, to, &act).await,
        Command::Gc { dry_run, wanted } => commands::gc(&settings, dry_run, &wanted).await,
    }
}
