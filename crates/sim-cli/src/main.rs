//! `chronolith-sim`: simulated chains to develop and test against. No part of the product.

mod cli;
mod serve;
mod stellar;
mod torture;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command};

/// The exit code that shells report for a program that SIGPIPE ended.
const SIGPIPE_EXIT: i32 = 141;
/// The commands print their results; the log is for debugging them.
const DEFAULT_LOG_FILTER: &str = "error";

fn main() -> ExitCode {
    exit_on_broken_pipe();
    match start(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `chronolith-sim torture | head` is not a bug: it ends without a message, as other programs do.
fn exit_on_broken_pipe() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let message = info.payload().downcast_ref::<String>();
        let is_broken_pipe = |message: &String| {
            message.starts_with("failed printing to stdout") && message.contains("Broken pipe")
        };
        if message.is_some_and(is_broken_pipe) {
            std::process::exit(SIGPIPE_EXIT);
        }
        default_hook(info);
    }));
}

fn start(cli: &Cli) -> Result<()> {
    start_log(cli.log_level.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        match &cli.command {
            Command::Serve(options) => serve::serve(options).await,
            Command::Torture(options) => torture::torture(options).await,
            Command::StellarLake(options) => stellar::stellar_lake(options),
            Command::StellarCore(options) => stellar::stellar_core(options).await,
        }
    })
}

fn start_log(flag: Option<&str>) -> Result<()> {
    let variable = std::env::var("RUST_LOG").ok();
    let filter = flag.or(variable.as_deref()).unwrap_or(DEFAULT_LOG_FILTER);
    let filter = EnvFilter::builder().parse(filter);
    let filter = filter.context("--log-level: not a valid log filter")?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .init();
    Ok(())
}
