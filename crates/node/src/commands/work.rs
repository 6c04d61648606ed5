//! `chronolith work`: jobs of projections, from archives that another process writes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chronolith_archive::Archive;
use chronolith_chain_view::Live;
use chronolith_finality::{Tail, TailSnapshot};
use chronolith_follower::chain::open_reader;
use chronolith_model::{BlockRef, Hash32, Proof};
use chronolith_projection::{ChainFeed, Database, Projector};
use chronolith_source::Backoff;
use futures::future::join_all;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::exit::Exit;
use crate::projecting::{database, release_one, work_off};
use crate::projections::{has_any, projector};
use crate::settings::{ChainSettings, Settings};
use crate::start_point;

/// How often a worker without work looks for some.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pauses after failures.
const BACKOFF: Backoff = Backoff::new(LOOK_EVERY, Duration::from_secs(15));

/// A worker knows final blocks only.
struct NoTail;

impl Live for NoTail {
    fn tail(&self) -> TailSnapshot {
        Tail::new(0, None).snapshot()
    }

    fn source_head(&self) -> Option<u64> {
        None
    }

    fn is_source_head(&self, _block: BlockRef) -> bool {
        false
    }

    fn was_source_head(&self, _block: BlockRef) -> bool {
        false
    }

    fn proof(&self, _block: &Hash32) -> Option<Proof> {
        None
    }
}

pub(crate) async fn work(settings: &Settings, until_done: bool) -> Result<Exit> {
    let database = database(settings)?;
    let database = database.context("no chain of the settings file has projections")?;
    database.check_version().await?;
    let settings = &start_point::of_first_run(settings, Some(&database)).await?;
    let mut tasks = JoinSet::new();
    let mut projectors = Vec::new();
    for chain in &settings.chains {
        if !has_any(chain) {
            continue;
        }
        let archive = open_reader(chain, &settings.place(chain)).await?;
        for _ in 0..settings.database.workers.max(1) {
            let projector = Arc::new(worker(&database, chain, &archive)?);
            projector.check_settings().await?;
            projectors.push(projector.clone());
            let archive = archive.clone();
            tasks.spawn(async move { work_on(&projector, &archive, until_done).await });
        }
    }
    ensure!(
        !tasks.is_empty(),
        "no chain of the settings file has projections"
    );
    let mut terminate = signal(SignalKind::terminate()).context("wait for signals")?;
    let all = async {
        while let Some(done) = tasks.join_next().await {
            done.context("a worker ended, please report it")??;
        }
        Ok(Exit::Done)
    };
    let done = tokio::select! {
        done = all => done,
        _ = terminate.recv() => Ok(Exit::Done),
        _ = tokio::signal::ctrl_c() => Ok(Exit::Done),
    };
    tasks.shutdown().await;
    join_all(projectors.iter().map(|one| release_one(one))).await;
    done
}

fn worker(database: &Database, chain: &ChainSettings, archive: &Archive) -> Result<Projector> {
    let feed = ChainFeed {
        chain: chain.chain_id,
        name: chain.name.clone(),
        archive: archive.clone(),
        live: Arc::new(NoTail),
    };
    Ok(projector(database, feed, chain)?)
}

async fn work_on(projector: &Projector, archive: &Archive, until_done: bool) -> Result<()> {
    let mut backoff = BACKOFF;
    loop {
        match projector.work().await {
            Ok(true) => backoff.reset(),
            Ok(false) if until_done => return work_off(projector).await,
            Ok(false) => {
                backoff.reset();
                tokio::time::sleep(LOOK_EVERY).await;
                if let Err(error) = archive.refresh().await {
                    tracing::warn!(chain = projector.chain(), %error, "the archive was not refreshed");
                }
            }
            Err(error) => {
                tracing::warn!(chain = projector.chain(), %error, "retrying");
                tokio::time::sleep(backoff.next()).await;
            }
        }
    }
}
