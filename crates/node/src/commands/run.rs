//! `chronolith run`.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::chain::Chain;
use crate::exporter;
use crate::ingest;
use crate::operations;
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings, until_caught_up: bool) -> Result<ExitCode> {
    let metrics = exporter::start(settings)?;
    let mut chains = Vec::new();
    for chain in &settings.chains {
        let opened = Chain::open(chain.clone(), &settings.chain_dir(chain)).await;
        let opened =
            opened.with_context(|| format!("chain {} ({})", chain.name, chain.chain_id))?;
        let next = opened.archive_next();
        tracing::info!(chain = %chain.name, id = chain.chain_id, next, "following");
        chains.push(Arc::new(opened));
    }
    let mut tasks = JoinSet::new();
    for chain in &chains {
        let chain = chain.clone();
        tasks.spawn(async move {
            if until_caught_up {
                catch_up(&chain).await;
            } else {
                ingest::run(&chain).await;
            }
        });
    }
    let health = operations::serve(settings, chains.clone(), metrics);
    let mut terminate = signal(SignalKind::terminate()).context("wait for signals")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
        done = all_done(&mut tasks) => done?,
        served = health => served?,
    }
    tracing::info!("stopping");
    let stop = async {
        // A task that is dropped in the middle of a publish has published or it has not: either way
        // the archive is whole.
        tasks.shutdown().await;
        for chain in &chains {
            let head = chain.archive.health().head.map(|head| head.number);
            if let Err(error) = chain.archive.release().await {
                tracing::warn!(chain = %chain.settings.name, %error, "the lease was not released");
            }
            tracing::info!(chain = %chain.settings.name, head, "stopped");
        }
    };
    tokio::select! {
        () = stop => Ok(ExitCode::SUCCESS),
        _ = terminate.recv() => Ok(ExitCode::FAILURE),
        _ = tokio::signal::ctrl_c() => Ok(ExitCode::FAILURE),
    }
}

/// Rounds until one ends well.
async fn catch_up(chain: &Chain) {
    while let Err(trouble) = ingest::round(chain).await {
        tracing::warn!(chain = %chain.settings.name, %trouble, "trying again");
        tokio::time::sleep(chain.settings.poll).await;
    }
}

/// Waits for all tasks; one that panicked ends the program, so that somebody starts it again.
async fn all_done(tasks: &mut JoinSet<()>) -> Result<()> {
    while let Some(done) = tasks.join_next().await {
        done.context("a chain's task ended, please report it")?;
    }
    Ok(())
}
