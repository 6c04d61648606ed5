//! Projections of the followed chains into PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_archive::Archive;
use chronolith_follower::chain::Chain;
use chronolith_follower::clock::now;
use chronolith_model::ErrorKind;
use chronolith_projection::jobs::Left;
use chronolith_projection::leases::{self, LeaseReport};
use chronolith_projection::{
    ChainFeed, ChainState, Database, Error, Following, Order, Projector, Round, TakenBack,
};
use chronolith_source::Backoff;
use futures::future::join_all;

use crate::bytecode::{self, Codes};
use crate::exporter::observe_projections;
use crate::projections::{self, KINDS, has_any};
use crate::public_server::Followed;
use crate::running::RunningChain;
use crate::settings::{ChainSettings, DatabaseSettings, Settings, Token};

/// How often leases are renewed and new ranges of others are noticed, at least.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Without a successful round for this long, the chain is left to another node, if there is one.
const STALE_AFTER: Duration = Duration::from_secs(60);
/// How often the state of projections is read, and how long that may take.
const WATCH_EVERY: Duration = Duration::from_secs(2);
const LOOK_WITHIN: Duration = Duration::from_secs(10);
/// The pauses after failures.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(15));

/// How long the release of locks may take at the end.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// The database, where anything is projected.
pub(crate) fn database(settings: &Settings) -> Result<Option<Database>> {
    let mut chains = settings.chains.iter();
    let Some(chain) = chains.find(|chain| has_any(chain)) else {
        return Ok(None);
    };
    let Some(url) = &settings.database.writer else {
        bail!(
            "chain {} has projections, and there is no database for them: set PG_URL, such as \
             postgres://user:password@host:5432/database",
            chain.name
        );
    };
    let connections = settings.database.connections;
    Ok(Some(Database::writer(&url.0, connections, KINDS)?))
}

/// The database for the API; none where nothing is projected.
pub(crate) fn reader(settings: &Settings) -> Result<Option<Database>> {
    let DatabaseSettings { writer, reader, .. } = &settings.database;
    let projects = settings.chains.iter().any(has_any);
    let url = reader.as_ref().or(writer.as_ref()).filter(|_| projects);
    let connections = settings.database.connections;
    let open = |url: &Token| Database::reader(&url.0, connections, KINDS);
    Ok(url.map(open).transpose()?)
}

/// The database for an operator, whatever is projected.
pub(crate) fn database_of(settings: &Settings) -> Result<Database> {
    let url = settings.database.writer.as_ref();
    let url = url.context("there is no database: set PG_URL, or db.url in the settings file")?;
    let connections = settings.database.connections;
    Ok(Database::writer(&url.0, connections, KINDS)?)
}

/// The projections of chains that are followed here, written down in the database; none where a chain
/// has none.
pub(crate) async fn projectors(
    database: Option<&Database>,
    chains: &[Arc<RunningChain>],
) -> Result<Vec<Option<Arc<Projector>>>> {
    let mut all = Vec::new();
    let mut answers = true;
    for chain in chains {
        check_contracts(chain).await?;
        let made = match database {
            Some(database) => projector(database, chain)?,
            None => None,
        };
        if let (Some(_), Some(database)) = (&made, database) {
            chain.projected_into.get_or_init(|| database.clone());
        }
        // A database that does not answer gets one request, not one for each chain: nothing is followed before
        // this ends.
        if let Some(made) = made.as_ref().filter(|_| answers) {
            let registered = register(made, chain).await;
            answers = registered.with_context(|| format!("chain {}", chain.settings.name))?;
        }
        all.push(made);
    }
    Ok(all)
}

/// Refuses an address without a contract: its events would never come. A source that does not know the code
/// is accepted, and one that did not answer is used again before the first row ([`Codes::look_soon`]).
async fn check_contracts(chain: &RunningChain) -> Result<()> {
    if !chain.is_admitted() {
        return Ok(());
    }
    let name = &chain.settings.name;
    match bytecode::missing_contract(chain).await {
        Ok(None) => Ok(()),
        Ok(Some(why)) => bail!("chain {name}: {why}"),
        Err(error) => {
            tracing::warn!(chain = %name, %error, "the code of contracts was not checked");
            Ok(())
        }
    }
}

/// Releases what this process holds, so that others need not wait.
pub(crate) async fn release(projectors: &[Option<Arc<Projector>>]) {
    join_all(projectors.iter().flatten().map(|one| release_one(one))).await;
}

/// Releases what this process holds of a chain.
pub(crate) async fn release_one(projector: &Projector) {
    let release = async {
        projector.put_jobs_back().await?;
        projector.release_all().await
    };
    let released = tokio::time::timeout(RELEASE_WITHIN, release).await;
    if !matches!(released, Ok(Ok(()))) {
        tracing::warn!(
            chain = projector.chain(),
            "locks were not released: they run out"
        );
    }
}

/// The projections of a chain that is followed here; none where there are none.
fn projector(database: &Database, chain: &Arc<RunningChain>) -> Result<Option<Arc<Projector>>> {
    let settings = &chain.settings;
    if !has_any(settings) {
        return Ok(None);
    }
    let feed = ChainFeed {
        chain: settings.chain_id,
        name: settings.name.clone(),
        archive: chain.archive.clone(),
        live: Arc::new(Followed(chain.clone())),
    };
    let projector = projections::projector(database, feed, settings)?;
    Ok(Some(Arc::new(projector)))
}

/// Takes back what is final in the database and missing in the archive after a rewind.
pub(crate) async fn take_back(
    database: &Database,
    archive: &Archive,
    chain: &ChainSettings,
    reason: &str,
) -> Result<TakenBack> {
    let operator = who();
    let order = Order {
        operator: &operator,
        reason,
    };
    Ok(chronolith_projection::rewind(database, chain.chain_id, archive, order).await?)
}

/// This process, as it is named where it holds something.
pub(crate) fn who() -> String {
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy().into_owned();
    format!("{machine}:{}", std::process::id())
}

/// Writes down what there is to project; false where the database does not answer, which is waited for
/// later. One that does not fit is an error now.
async fn register(projector: &Projector, chain: &RunningChain) -> Result<bool> {
    match ensure_registered(projector, chain).await {
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            tracing::warn!(event = "projections_wait_for_database", chain = projector.chain(), %error, "projections wait for the database");
            Ok(false)
        }
        done => Ok(done.map(|_| true)?),
    }
}

/// [`Projector::ensure_registered`]. Whether blocks below the start of the chain are wanted now: the rows of a
/// first run may begin there, and the database may not have answered when the chain was opened.
async fn ensure_registered(projector: &Projector, chain: &RunningChain) -> Result<bool, Error> {
    projector.ensure_registered(now()).await?;
    let fees = chain.settings.fees.as_ref();
    let first = fees.filter(|fees| fees.first_run_only);
    let first = first.and_then(|_| projector.start_block());
    Ok(first.is_some_and(|first| chain.want_from(first)))
}

/// Follows a chain's newest blocks forever.
pub(crate) async fn follow(projector: &Projector, chain: &RunningChain) {
    let mut moves = chain.moves();
    let mut following = Following::default();
    let mut codes = Codes::default();
    let mut ahead = None;
    let mut backoff = BACKOFF;
    loop {
        moves.mark_unchanged();
        if is_stale(chain) {
            // A node that receives new blocks may do better.
            if let Err(error) = projector.release(&mut following).await {
                tracing::debug!(chain = %chain.settings.name, %error, "locks were not released");
            }
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        }
        match step(projector, chain, &mut following, &mut codes).await {
            Ok(round) => {
                settle_error(chain);
                report_ahead(chain, &mut ahead, round.behind);
                backoff.reset();
                if round.waiting {
                    tokio::time::sleep(LOOK_EVERY).await;
                    continue;
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    Ok(()) = moves.changed() => {}
                }
            }
            Err(error) => {
                report(chain, &error);
                tokio::time::sleep(backoff.next()).await;
            }
        }
    }
}

/// Whether no round of the chain has succeeded for long.
fn is_stale(chain: &Chain) -> bool {
    let good = chain.status().last_success;
    let patience = STALE_AFTER.max(chain.settings.poll * 3);
    good.is_some_and(|at| at.elapsed() > patience)
}

async fn step(
    projector: &Projector,
    chain: &RunningChain,
    following: &mut Following,
    codes: &mut Codes,
) -> Result<Round, Error> {
    ensure_registered(projector, chain).await?;
    codes.look_soon(projector, chain).await;
    match codes.missing() {
        Some(why) => Err(Error::Invalid(why.to_owned())),
        None => projector.follow(following).await,
    }
}

/// Reads the state of projections forever.
pub(crate) async fn watch(database: Option<&Database>, chains: &[Arc<RunningChain>]) {
    let Some(database) = database else {
        return std::future::pending().await;
    };
    let projected = chains.iter().filter(|chain| has_any(&chain.settings));
    let projected: Vec<&Arc<RunningChain>> = projected.collect();
    for chain in &projected {
        chain.projected.begin();
    }
    loop {
        match look(database).await {
            Ok((states, held)) => {
                observe_projections(Some((&states, &held)));
                for chain in &projected {
                    let id = i64::try_from(chain.settings.chain_id).ok();
                    let of = states.iter().find(|state| Some(state.chain_id) == id);
                    let held = held.iter().filter(|lease| Some(lease.chain_id) == id);
                    let held: Vec<LeaseReport> = held.cloned().collect();
                    chain.projected.saw(of, &held);
                }
            }
            Err(error) => {
                observe_projections(None);
                tracing::debug!(%error, "projections could not be looked at");
                let message = error.to_string();
                for chain in &projected {
                    chain.projected.cannot_look(&message);
                }
            }
        }
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

async fn look(database: &Database) -> Result<(Vec<ChainState>, Vec<LeaseReport>), Error> {
    let look = async {
        let states = chronolith_projection::state(database, None).await?;
        Ok((states, leases::list(database, None).await?))
    };
    let late = |_| {
        Err(Error::Unavailable {
            context: "look at projections".to_owned(),
            reason: format!("no answer within {} s", LOOK_WITHIN.as_secs()),
        })
    };
    tokio::time::timeout(LOOK_WITHIN, look)
        .await
        .unwrap_or_else(late)
}

/// Works on jobs of a chain forever.
pub(crate) async fn work(projector: &Projector, chain: &Chain) {
    let mut settled = projector.settled();
    let mut backoff = BACKOFF;
    loop {
        settled.mark_unchanged();
        let worked = match projector.ensure_registered(now()).await {
            Ok(()) => projector.work().await,
            Err(error) => Err(error),
        };
        match worked {
            Ok(true) => backoff.reset(),
            Ok(false) => {
                backoff.reset();
                tokio::select! {
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    Ok(()) = settled.changed() => {}
                }
            }
            Err(error) => {
                tracing::debug!(chain = %chain.settings.name, %error, "no work is done");
                tokio::time::sleep(backoff.next()).await;
            }
        }
    }
}

/// Brings the tables of a chain that has caught up to where it is.
pub(crate) async fn catch_up(projector: &Projector, chain: &RunningChain) -> Result<()> {
    if ensure_registered(projector, chain).await? {
        chronolith_follower::catch_up::run(chain).await?;
    }
    Codes::default().look(projector, chain).await?;
    let mut following = Following::default();
    while projector.follow(&mut following).await?.waiting {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    work_off(projector).await?;
    projector.release(&mut following).await?;
    Ok(())
}

/// Works until no job is left, including those that wait or that others work on.
pub(crate) async fn work_off(projector: &Projector) -> Result<()> {
    loop {
        while projector.work().await? {}
        let Left { open, dead, paused } = projector.left().await?;
        let chain = projector.chain();
        // Its jobs wait for a person, and so would we.
        ensure!(
            paused == 0,
            "chain {chain}: a projection is paused: see `chronolith projection state`"
        );
        if open > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        }
        ensure!(
            dead == 0,
            "chain {chain}: {dead} jobs failed permanently: look at them with `chronolith jobs list`"
        );
        return Ok(());
    }
}

fn report(chain: &RunningChain, error: &Error) {
    let message = error.to_string();
    let name = &chain.settings.name;
    if chain.projected.cannot_write(&message) {
        tracing::warn!(event = "projections_failing", chain = %name, %error, "projections failing, ingest and API not affected");
    } else {
        tracing::debug!(chain = %name, %error, "projections still failing")
    }
}

/// Logs once that the database has more final blocks than are known here.
fn report_ahead(chain: &Chain, reported: &mut Option<i64>, ahead: Option<i64>) {
    if let Some(through) = ahead.filter(|_| reported.is_none()) {
        let known = chain.archive.health().head.map(|head| head.number);
        tracing::warn!(
            chain = %chain.settings.name, known, through,
            "the database has final rows above everything known here: projections wait until this node gets \
             there. If its archive was rewound, run `chronolith projection rewind`"
        );
    }
    *reported = ahead;
}

fn settle_error(chain: &RunningChain) {
    if chain.projected.writes() {
        tracing::info!(event = "projections_recovered", chain = %chain.settings.name, "projections recovered");
    }
}
