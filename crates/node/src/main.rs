//! `chronolith`: follows chains, keeps their history and answers for it.

mod backfill;
mod chain;
mod cli;
mod clock;
mod commands;
mod confirm;
mod exit;
mod fetches;
mod genesis;
mod ingest;
mod l1;
mod operations;
mod progress;
mod refill;
mod settings;
mod streaming;
mod walk;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command, SimCommand};
use crate::exit::Exit;
use crate::progress::LogWriter;
use crate::settings::Settings;

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_log(&cli.command);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(dispatch(cli)),
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("error: {error:#}");
            Exit::Failed.into()
        }
    }
}

/// To standard error, so that answers can be piped: lines for people on a terminal, else JSON.
/// `RUST_LOG` over `LOG_LEVEL` over `info`; the demo shows what is worth seeing in its own lines.
fn start_log(command: &Command) {
    let demo = matches!(command, Command::Demo { .. });
    let default = if demo { "error" } else { "info" };
    let level = std::env::var("RUST_LOG").or_else(|_| std::env::var("LOG_LEVEL"));
    let filter = EnvFilter::new(level.unwrap_or_else(|_| default.to_owned()));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| LogWriter)
        .with_target(false);
    if demo {
        log.without_time().with_level(false).init();
    } else if std::io::stderr().is_terminal() {
        log.init();
    } else {
        log.json().init();
    }
}

async fn dispatch(cli: Cli) -> anyhow::Result<Exit> {
    if let Command::Config { what } = &cli.command {
        return commands::config(*what, &cli.config);
    }
    match &cli.command {
        Command::Demo { seconds, data_dir } => {
            return commands::demo(*seconds, data_dir.as_deref()).await;
        }
        Command::Sim { what } => {
            return match what {
                SimCommand::Serve(serve) => commands::serve(serve).await,
                SimCommand::Torture(asked) => commands::torture(asked).await,
            };
        }
        _ => {}
    }
    let settings = Settings::load(&cli.config)?;
    match cli.command {
        Command::Config { .. } | Command::Demo { .. } | Command::Sim { .. } => Ok(Exit::Done),
        Command::Run { until_caught_up } => commands::run(&settings, until_caught_up).await,
        Command::State(wanted) => commands::state(&settings, &wanted).await,
        Command::Logs(query) => commands::logs(&settings, &query).await,
        Command::BlockAt(query) => commands::block_at(&settings, &query).await,
        Command::Verify(range) => commands::verify(&settings, &range).await,
        Command::Repair(range) => commands::repair(&settings, &range).await,
        Command::Backfill(range) => commands::backfill(&settings, &range).await,
        Command::Backup { dir, wanted } => commands::backup(&settings, &dir, &wanted).await,
        Command::Restore { dir, wanted } => commands::restore(&settings, &dir, &wanted).await,
        Command::Archive { what } => commands::archive(&settings, &what).await,
        Command::Resume(act) => commands::resume(&settings, &act).await,
        Command::Rewind { to, act } => commands::rewind(&settings, to, &act).await,
        Command::Gc { dry_run, wanted } => commands::gc(&settings, dry_run, &wanted).await,
    }
}
