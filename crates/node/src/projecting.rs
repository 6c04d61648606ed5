//! Projections of the chains that are followed here: into PostgreSQL, beside everything else.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chronolith_finality::TailSnapshot;
use chronolith_model::{BlockRef, ErrorKind};
use chronolith_projection::fees::Fees;
use chronolith_projection::{
    ChainFeed, Database, Error, Following, Live, ProjectionSettings, Projector,
};

use crate::chain::Chain;
use crate::clock::now;
use crate::settings::{ChainSettings, Settings};

/// A lease must be renewed, and somebody else's look for new ranges noticed, at least so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pause after a first failure; it doubles with each that follows.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// How long locks may take to be given back at the end.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

/// A chain that is followed here.
struct Followed(Arc<Chain>);

impl Live for Followed {
    fn tail(&self) -> TailSnapshot {
        self.0.tail()
    }

    fn is_newest(&self, block: BlockRef) -> bool {
        let seen = self.0.status().source_head;
        seen.is_some_and(|(head, _)| head == block)
    }
}

/// The database, where anything is projected.
pub(crate) fn database(settings: &Settings) -> Result<Option<Database>> {
    let projected = settings.chains.iter().find(|chain| chain.fees.is_some());
    let Some(chain) = projected else {
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
    Ok(Some(Database::writer(&url.0, connections)?))
}

/// The database for an operator's act, whatever is projected.
pub(crate) fn database_of(settings: &Settings) -> Result<Database> {
    let url = settings.database.writer.as_ref();
    let url = url.context("there is no database: set PG_URL, or db.url in the settings file")?;
    Ok(Database::writer(&url.0, settings.database.connections)?)
}

/// What is projected of a chain; none where nothing is.
pub(crate) fn projections_of(settings: &ChainSettings) -> Result<Option<ProjectionSettings>> {
    let Some(fees) = &settings.fees else {
        return Ok(None);
    };
    Ok(Some(ProjectionSettings {
        fees: Some(Fees::new(settings.chain_id, fees.contracts.clone())?),
        job_blocks: fees.job_blocks,
        ..ProjectionSettings::default()
    }))
}

/// The projections of chains that are followed here, written down in the database; none where a chain
/// has none.
pub(crate) async fn projectors(
    database: Option<&Database>,
    chains: &[Arc<Chain>],
) -> Result<Vec<Option<Arc<Projector>>>> {
    let mut all = Vec::new();
    for chain in chains {
        let made = database
            .map(|database| projector(database, chain))
            .transpose()?;
        let made = made.flatten();
        if let Some(made) = &made {
            let registered = register(made).await;
            registered.with_context(|| format!("chain {}", chain.settings.name))?;
        }
        all.push(made);
    }
    Ok(all)
}

/// Gives back what this process holds, so that nobody has to wait.
pub(crate) async fn release(projectors: &[Option<Arc<Projector>>]) {
    for projector in projectors.iter().flatten() {
        let released = tokio::time::timeout(RELEASE_WITHIN, projector.release_all()).await;
        if !matches!(released, Ok(Ok(()))) {
            tracing::warn!(
                chain = projector.chain(),
                "locks were not released: they run out"
            );
        }
    }
}

/// The projections of a chain that is followed here; none where there are none.
fn projector(database: &Database, chain: &Arc<Chain>) -> Result<Option<Arc<Projector>>> {
    let settings = &chain.settings;
    let Some(projections) = projections_of(settings)? else {
        return Ok(None);
    };
    let feed = ChainFeed {
        chain: settings.chain_id,
        name: settings.name.clone(),
        archive: chain.archive.clone(),
        live: Arc::new(Followed(chain.clone())),
    };
    let projector = Projector::new(database.clone(), feed, projections, &who())?;
    Ok(Some(Arc::new(projector)))
}

/// This process, as it is named where it holds something.
pub(crate) fn who() -> String {
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_string_lossy().into_owned();
    format!("{machine}:{}", std::process::id())
}

/// Writes down what there is to project. A database that does not answer is waited for later; one that
/// does not fit is an error now.
async fn register(projector: &Projector) -> Result<()> {
    match projector.register(now()).await {
        Err(error) if error.kind() == ErrorKind::Unavailable => {
            tracing::warn!(chain = projector.chain(), %error, "projections wait for the database");
            Ok(())
        }
        done => Ok(done?),
    }
}

/// Follows a chain's newest blocks for ever.
pub(crate) async fn follow(projector: &Projector, chain: &Chain) {
    let mut moves = chain.moves();
    let mut following = Following::default();
    let mut pause = PAUSE_FIRST;
    loop {
        moves.mark_unchanged();
        match step(projector, &mut following).await {
            Ok(waiting) => {
                settle_trouble(chain);
                pause = PAUSE_FIRST;
                if waiting {
                    tokio::time::sleep(LOOK_EVERY).await;
                    continue;
                }
                tokio::select! {
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    Ok(()) = moves.changed() => {}
                }
            }
            Err(error) => {
                tell(chain, &error);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

async fn step(projector: &Projector, following: &mut Following) -> Result<bool, Error> {
    projector.ensure_registered(now()).await?;
    Ok(projector.follow(following).await?.waiting)
}

/// Works on jobs of a chain for ever.
pub(crate) async fn work(projector: &Projector, chain: &Chain) {
    let mut settled = projector.settled();
    let mut pause = PAUSE_FIRST;
    loop {
        settled.mark_unchanged();
        let worked = match projector.ensure_registered(now()).await {
            Ok(()) => projector.work().await,
            Err(error) => Err(error),
        };
        match worked {
            Ok(true) => pause = PAUSE_FIRST,
            Ok(false) => {
                pause = PAUSE_FIRST;
                tokio::select! {
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                    Ok(()) = settled.changed() => {}
                }
            }
            Err(error) => {
                tracing::debug!(chain = %chain.settings.name, %error, "no work is done");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

/// Brings the tables of a chain that has caught up to where it is.
pub(crate) async fn catch_up(projector: &Projector) -> Result<()> {
    projector.ensure_registered(now()).await?;
    let mut following = Following::default();
    while projector.follow(&mut following).await?.waiting {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    while projector.work().await? {}
    projector.release(&mut following).await?;
    Ok(())
}

fn tell(chain: &Chain, error: &Error) {
    let said = error.to_string();
    let name = &chain.settings.name;
    let known = chain.projection_trouble().replace(said.clone());
    if known.as_deref() == Some(said.as_str()) {
        tracing::debug!(chain = %name, %said, "projections are still in trouble");
    } else {
        tracing::warn!(chain = %name, %said, "projections stand still, everything else goes on");
    }
}

fn settle_trouble(chain: &Chain) {
    if chain.projection_trouble().take().is_some() {
        tracing::info!(chain = %chain.settings.name, "projections go on");
    }
}
