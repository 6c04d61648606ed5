//! `chronolith`: follows chains, keeps their history and answers for it.

mod access;
mod bytecode;
mod cli;
mod commands;
mod control;
mod default_run;
mod environment;
mod exit;
mod exporter;
mod health_server;
mod hex;
mod log;
mod meta_store_view;
mod projecting;
mod projection_health;
mod projections;
mod public_server;
mod reader;
mod readiness;
mod running;
mod runtimes;
mod settings;
mod start_point;
mod stop;
mod traces;

use std::path::Path;
use std::process::ExitCode;

#[cfg(feature = "crash")]
use anyhow::Context as _;
use anyhow::Result;
use clap::Parser as _;

use crate::cli::{Cli, Command, RangeCommand};
use crate::commands::InitFlags;
use crate::default_run::Use;
use crate::environment::{Overrides, variable};
use crate::exit::Exit;
use crate::runtimes::{Runtimes, Threads};
use crate::settings::Settings;
use crate::traces::Traces;

/// The exit code that shells show for a program that wrote to a closed pipe.
const SIGPIPE_EXIT: i32 = 141;

fn main() -> ExitCode {
    exit_on_broken_pipe();
    match start(Cli::parse()) {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("error: {error:#}");
            Exit::Failed.into()
        }
    }
}

/// `chronolith state | head` is not a bug: it ends without a message, as other programs do.
fn exit_on_broken_pipe() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let is_broken_pipe = |message: &String| {
            message.starts_with("failed printing to stdout") && message.contains("Broken pipe")
        };
        if info.payload().downcast_ref().is_some_and(is_broken_pipe) {
            std::process::exit(SIGPIPE_EXIT);
        }
        usual(info);
    }));
}

fn start(cli: Cli) -> Result<Exit> {
    #[cfg(feature = "crash")]
    if let Some(steps) = variable("CHRONOLITH_CRASH_AFTER_STEPS") {
        chronolith_store::crash::after_steps(steps.parse().context("count steps")?);
    }
    let runtimes = Runtimes::start()?;
    // Other commands end too soon for their spans to be of use.
    let collector = match cli.command {
        Command::Run { .. } => variable(traces::ENDPOINT),
        _ => None,
    };
    let traces = collector.map(|endpoint| Traces::start(&endpoint, runtimes.main.handle()));
    let traces = traces.transpose()?;
    log::start(&cli, &variable, traces.as_ref())?;
    let overrides = Overrides::new(&cli, &variable)?;
    let done = runtimes
        .main
        .block_on(dispatch(cli, &overrides, &runtimes.threads()));
    // While the runtime still runs: it sends them.
    if let Some(traces) = traces {
        traces.stop();
    }
    done
}

async fn dispatch(cli: Cli, overrides: &Overrides, threads: &Threads) -> Result<Exit> {
    let flags = InitFlags::new(&cli);
    let Cli {
        config, command, ..
    } = cli;
    let (config, what) = (config.as_deref(), Use::of(&command));
    let load = || settings_for(what, config, overrides);
    match command {
        Command::Init(answers) => commands::init(&flags, &answers).await,
        Command::Config { what } => commands::config(what, config, overrides),
        #[cfg(feature = "demo")]
        Command::Demo { seconds } => {
            let data_dir = overrides.data_dir.clone();
            let data_dir = data_dir.unwrap_or_else(|| environment::DATA_DIR.into());
            commands::demo(seconds, &data_dir, threads).await
        }
        Command::Sim { arguments } => {
            let command = arguments.join(" ");
            eprintln!(
                "error: `chronolith sim` is now a program of its own: chronolith-sim {command}"
            );
            Ok(Exit::Usage)
        }
        Command::Chain { what } => commands::chain(&what).await,
        Command::Decode { what } => commands::decode(&what),
        Command::Keys { what } => commands::keys(&what),
        Command::Openapi => {
            print!("{}", **chronolith_serve::OPENAPI);
            Ok(Exit::Done)
        }
        Command::Db { what } => commands::db(load().await, what).await,
        Command::Work { until_done } => commands::work(&load().await?, until_done).await,
        Command::Projection { what } => commands::projection(&load().await?, what).await,
        Command::Jobs { what } => commands::perform(&load().await?, what.into()).await,
        Command::Locks { what } => commands::perform(&load().await?, what.into()).await,
        Command::Partitions { what } => commands::perform(&load().await?, what.into()).await,
        Command::Versions { what } => commands::perform(&load().await?, what.into()).await,
        Command::Run { until_caught_up } => {
            commands::run(&load().await?, until_caught_up, threads).await
        }
        Command::Serve { follow } => {
            commands::serve_archives(&load().await?, follow, threads).await
        }
        Command::State(query) => commands::state(&load().await?, &query).await,
        Command::Range {
            what: RangeCommand::Retry(args),
        } => commands::retry_range(&load().await?, &args).await,
        Command::Logs(query) => commands::logs(&load().await?, &query).await,
        Command::BlockAt(query) => commands::block_at(&load().await?, &query).await,
        Command::Verify(range) => commands::verify(&load().await?, &range).await,
        Command::Repair(range) => commands::repair(&load().await?, &range).await,
        Command::Backfill(range) => commands::backfill(&load().await?, &range).await,
        Command::Backup { dir, wanted } => commands::backup(&load().await?, &dir, &wanted).await,
        Command::Restore { dir, wanted } => commands::restore(&load().await?, &dir, &wanted).await,
        Command::Archive { what } => commands::archive(&load().await?, &what).await,
        Command::Resume {
            drop_undecided,
            args,
        } => commands::resume(&load().await?, drop_undecided, &args).await,
        Command::Prune { below, args } => commands::prune(&load().await?, below, &args).await,
        Command::Rewind { to, args } => commands::rewind(&load().await?, to, &args).await,
        Command::Gc { dry_run, wanted } => commands::gc(&load().await?, dry_run, &wanted).await,
    }
}

/// The settings, once it is known that they are those of the archives that a command is about.
async fn settings_for(what: Use, config: Option<&Path>, overrides: &Overrides) -> Result<Settings> {
    let settings = Settings::load(config, overrides)?;
    default_run::admit(what, &settings).await?;
    Ok(settings)
}
