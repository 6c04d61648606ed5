//! `chronolith run`.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail, ensure};
use chronolith_archive::Error as ArchiveError;
use chronolith_follower::catch_up;
use chronolith_follower::chain::Chain;
use chronolith_follower::error::FollowError;
use chronolith_follower::ingest;
use chronolith_follower::preflight::streaming;
use chronolith_follower::run_state::RunState;
use chronolith_model::ErrorKind;
use chronolith_projection::Projector;
use futures::FutureExt as _;
use futures::stream::{self, FuturesUnordered, StreamExt as _};
use tokio::task::JoinSet;

use crate::control::server as admin;
use crate::exit::Exit;
use crate::health_server::{self, Chains};
use crate::projections::has_any;
use crate::public_server::Serving;
use crate::running::RunningChain;
use crate::runtimes::Threads;
use crate::settings::{ChainSettings, FollowSettings, Mode, Origin, Settings};
use crate::stop::Stop;
use crate::{default_run, exporter, projecting, public_server, start_point};

/// How often a lease is renewed: three times before others may take the archive over.
const LEASE_EVERY: Duration = Duration::from_secs(5);
/// Chains that are opened at the same time.
const OPEN_AT_ONCE: usize = 8;
/// How long the start waits for sources to say which chains they serve.
const ADMIT_WITHIN: Duration = Duration::from_secs(5);

pub(crate) async fn run(
    settings: &Settings,
    until_caught_up: bool,
    threads: &Threads,
) -> Result<Exit> {
    introduce(settings);
    let metrics = exporter::start(settings)?;
    let database = projecting::database(settings)?;
    let settings = &start_point::of_first_run(settings, database.as_ref()).await?;
    let opened = open_all(settings).await?;
    default_run::check_opened(settings, &opened)?;
    let opened = opened.into_iter();
    let opened = settings.chains.iter().cloned().zip(opened);
    let running = |(settings, chain)| Arc::new(RunningChain::new(settings, chain));
    let chains: Vec<Arc<RunningChain>> = opened.map(running).collect();
    let mut tasks = JoinSet::new();
    let projectors = projecting::projectors(database.as_ref(), &chains).await?;
    for (chain, projector) in chains.iter().zip(&projectors) {
        if until_caught_up {
            tasks.spawn(catch_up_all(chain.clone(), projector.clone()))
        } else {
            let workers = settings.database.workers;
            project(&mut tasks, chain, projector.as_ref(), workers);
            let chain = chain.clone();
            tasks.spawn(async move { follow(&chain).await })
        };
    }
    let mut stop = Stop::new(settings)?;
    let probe = Arc::new(Chains::until(chains.clone(), stop.drain()));
    let health = health_server::serve(settings, chains.clone(), probe.clone(), (metrics, threads));
    let admin = admin::serve(settings, chains.clone());
    let leases = keep_leases(settings, &chains);
    // In the heap: they hold all of what is served and followed.
    let work = Box::pin(async {
        tokio::select! {
            done = all_done(&mut tasks) => done,
            lost = leases => lost,
            served = health => served,
            served = admin => served,
            () = projecting::watch(database.as_ref(), &chains) => Ok(()),
        }
    });
    let serving = Serving::new(settings, threads, stop.drain());
    let served = chains.iter().map(public_server::served).collect();
    let public = Box::pin(public_server::serve(settings, served, probe, &serving));
    let ended = stop.serve(public, work).await;
    tracing::info!("stopping");
    let release = async {
        // A task that is dropped in the middle of a publish has published or it has not: either way
        // the archive is whole.
        tasks.shutdown().await;
        projecting::release(&projectors).await;
        for chain in &chains {
            let head = chain.archive.health().head.map(|head| head.number);
            if let Err(error) = chain.archive.release().await {
                tracing::warn!(chain = %chain.settings.name, %error, "the lease was not released");
            }
            tracing::info!(chain = %chain.settings.name, head, "stopped");
        }
    };
    tokio::select! {
        () = release => ended.map(|()| Exit::Done),
        () = stop.requested() => Ok(Exit::Failed),
    }
}

/// Says what is not used of what was set, and what is done where nothing was.
fn introduce(settings: &Settings) {
    for note in &settings.notes {
        tracing::warn!(event = "setting_not_used", "{note}");
    }
    if settings.origin == Origin::KnownChains {
        let (chains, port) = (settings.chains.len(), settings.listen.port());
        let data = settings.data_dir.display();
        println!(
            "No settings file: following the block times of {chains} known chains from an SQD Portal into {data}.\n  \
             http://127.0.0.1:{port}/ shows progress; /v1/chains/1/block/before/2026-01-01 answers once Ethereum is synced.\n  \
             For other chains, logs or your own nodes: `chronolith init` asks four questions and writes a settings file;\n  \
             `chronolith config example` prints one. DATA_DIR, PORT, INGEST_INTERVAL_SECS and PORTAL_URL work without."
        );
    }
}

/// Follows a chain. The end of one, or that it cannot continue, is logged at once: others may keep the program
/// running for long.
async fn follow(chain: &Chain) -> Result<()> {
    let done = ingest::run(chain).await;
    chain.control.close();
    let name = &chain.settings.name;
    match &done {
        Ok(()) => tracing::info!(chain = %name, "every requested block is archived, chain ended"),
        Err(error) => {
            let message = format!("{error:#}");
            let public = error.downcast_ref::<FollowError>();
            let public = public.map(FollowError::public_text);
            let public = public.unwrap_or_else(|| "the chain stopped".to_owned());
            chain.status().set_error(Some((message.clone(), public)));
            tracing::error!(chain = %name, error = %message, "chain stopped");
        }
    }
    done
}

/// Until archive and tables are where the chain is.
async fn catch_up_all(chain: Arc<RunningChain>, projector: Option<Arc<Projector>>) -> Result<()> {
    // A caller that waits for the end learns at once that there will be none.
    let admitted = chain.admit().await;
    admitted.with_context(|| format!("{}: the source cannot be used", named(&chain.settings)))?;
    catch_up::run(&chain).await?;
    match &projector {
        Some(projector) => projecting::catch_up(projector, &chain).await,
        None => Ok(()),
    }
}

/// Follows the projections of a chain, and works on their jobs.
fn project(
    tasks: &mut JoinSet<Result<()>>,
    chain: &Arc<RunningChain>,
    projector: Option<&Arc<Projector>>,
    workers: usize,
) {
    let Some(projector) = projector else {
        return;
    };
    for worker in 0..=workers {
        let (chain, projector) = (chain.clone(), projector.clone());
        tasks.spawn(async move {
            match worker {
                0 => projecting::follow(&projector, &chain).await,
                _ => projecting::work(&projector, &chain).await,
            }
            Ok(())
        });
    }
}

/// Renews the leases of archives in shared storage. Ends when one was taken over: another process writes it now,
/// and this one could not publish any more.
async fn keep_leases(settings: &Settings, chains: &[Arc<RunningChain>]) -> Result<()> {
    if settings.remote.is_none() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(LEASE_EVERY).await;
        for chain in chains {
            let name = &chain.settings.name;
            match chain.archive.renew_lease().await {
                Ok(()) => {}
                Err(error @ ArchiveError::Fenced { .. }) => {
                    return Err(Error::new(error).context(format!("chain {name}")));
                }
                // The next round tries again; ingest reports what is wrong.
                Err(error) => tracing::warn!(chain = %name, %error, "the lease was not renewed"),
            }
        }
    }
}

/// A chain by its name and id.
fn named(chain: &FollowSettings) -> String {
    format!("chain {} ({})", chain.name, chain.chain_id)
}

/// Opens all chains, several at a time. If an archive or a setting keeps one from starting none does, and
/// every reason is reported. A source that does not answer, or is not the chain's, stops no other chain.
async fn open_all(settings: &Settings) -> Result<Vec<Chain>> {
    let open = |chain: &ChainSettings| {
        let (chain, place) = (chain.follow.clone(), settings.place(chain));
        async move {
            let named = named(&chain);
            let opened = Chain::open(chain, &place).await;
            opened.map_err(|error| format!("{:#}", error.context(named)))
        }
    };
    let opened: Vec<Result<Chain, String>> = stream::iter(settings.chains.iter().map(open))
        .buffered(OPEN_AT_ONCE)
        .collect()
        .await;
    let chains = all_or_none(opened)?;
    admit_all(settings, &chains).await?;
    let mut checked = Vec::new();
    for chain in chains {
        let (place, named) = (settings.place(&chain.settings), named(&chain.settings));
        let check = async {
            streaming::check(&chain).await?;
            RunState::note(&chain.settings, place.notes())
        };
        let done = check.await.map(|()| chain);
        checked.push(done.map_err(|error: Error| format!("{:#}", error.context(named))));
    }
    let mut chains = all_or_none(checked)?;
    share_l1(&mut chains);
    for chain in &chains {
        let (name, id) = (&chain.settings.name, chain.settings.chain_id);
        let next = chain.archive_next();
        tracing::info!(event = "following", chain = %name, id, next, "following");
    }
    Ok(chains)
}

/// All of them, or why some are not there.
fn all_or_none(opened: Vec<Result<Chain, String>>) -> Result<Vec<Chain>> {
    let mut chains = Vec::new();
    let mut failed = Vec::new();
    for one in opened {
        match one {
            Ok(chain) => chains.push(chain),
            Err(why) => failed.push(why),
        }
    }
    match failed.as_slice() {
        [] => Ok(chains),
        [only] => bail!("{only}"),
        all => bail!("{} chains cannot start:\n  {}", all.len(), all.join("\n  ")),
    }
}

/// Asks all sources whether they serve their chains, for a moment: what is archived can be served without them,
/// and each is asked again before it is used. Once one does, only those are waited for that are checked further
/// at the start. Refuses only where none of them does, no later try would change that, and nothing is archived: a
/// first run has a wrong setting then, and would serve nothing.
async fn admit_all(settings: &Settings, chains: &[Chain]) -> Result<()> {
    let is_checked = |chain: &ChainSettings| chain.mode == Mode::Streaming || has_any(chain);
    let ask = |(chain, settings): (_, &ChainSettings)| {
        let is_checked = is_checked(settings);
        let asked = tokio::time::timeout(ADMIT_WITHIN, Chain::admit(chain));
        asked.map(move |answer| (chain, is_checked, answer))
    };
    let mut asked: FuturesUnordered<_> = chains.iter().zip(&settings.chains).map(ask).collect();
    let mut waited_for = settings
        .chains
        .iter()
        .filter(|chain| is_checked(chain))
        .count();
    let (mut is_any_admitted, mut refused) = (false, Vec::new());
    while let Some((chain, is_checked, answer)) = asked.next().await {
        waited_for -= usize::from(is_checked);
        match answer.unwrap_or_else(|_| Err(no_answer())) {
            Ok(()) => is_any_admitted = true,
            Err(error) => {
                if error.kind() == ErrorKind::Invalid {
                    refused.push(format!("{}: {error}", named(&chain.settings)));
                }
                ingest::report(chain, &error);
            }
        }
        if is_any_admitted && waited_for == 0 {
            return Ok(());
        }
    }
    let is_archived = |chain: &Chain| chain.archive.health().head.is_some();
    if chains.iter().any(is_archived) {
        return Ok(());
    }
    match refused.as_slice() {
        [only] if chains.len() == 1 => bail!("{only}"),
        all if all.len() == chains.len() => {
            bail!("no chain can be followed:\n  {}", all.join("\n  "))
        }
        _ => Ok(()),
    }
}

fn no_answer() -> FollowError {
    FollowError::Unsettled(format!(
        "the source did not answer within {} s of the start",
        ADMIT_WITHIN.as_secs()
    ))
}

/// A chain that settles on another one of the file looks at its head there.
fn share_l1(chains: &mut [Chain]) {
    let followed = chains.iter();
    let followed: Vec<_> = followed
        .map(|chain| (chain.settings.clone(), chain.source.clone()))
        .collect();
    for chain in chains.iter_mut().filter(|chain| chain.l1.is_none()) {
        let id = chain.settings.l1.as_ref().map(|l1| l1.chain_id);
        let l1 = followed.iter().find(|(l1, _)| Some(l1.chain_id) == id);
        if let Some((l1, source)) = l1 {
            chain.share_l1(l1, source.clone());
        }
    }
}

/// Waits for all tasks, and reports why each failed that did; one that panicked ends the program, so that
/// its supervisor starts it again.
async fn all_done(tasks: &mut JoinSet<Result<()>>) -> Result<()> {
    let mut failed = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let done = done.context("a chain's task ended, please report it")?;
        failed.extend(done.err().map(|error| format!("{error:#}")));
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n  "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// How long the report of a panic may take.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn a_task_that_panics_ends_the_program_whatever_the_others_do() {
        let mut tasks = JoinSet::new();
        tasks.spawn(async { Ok(()) });
        tasks.spawn(std::future::pending());
        tasks.spawn(async { panic!("a bug") });
        let done = tokio::time::timeout(PATIENCE, all_done(&mut tasks)).await;
        let error = done.expect("the others were waited for").unwrap_err();
        let message = format!("{error:#}");
        assert!(message.contains("please report it"), "{message}");
    }
}
