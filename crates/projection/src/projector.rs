//! The projections of one chain, and what they share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chronolith_chain_view::ChainView;
use deadpool_postgres::Transaction;
use tokio::sync::watch;
use tokio_postgres::types::ToSql;

use crate::chain_id;
use crate::database::Database;
use crate::error::{Error, Result, Tried as _};
use crate::feed::ChainFeed;
use crate::meters::Counts;
use crate::months::Month;
use crate::partitions::{Partitions, ahead};
use crate::project::{Pause, Projection};

/// How a chain is projected.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProjectorSettings {
    /// Blocks of a job; [`JOB_BLOCKS`] where it is none.
    pub job_blocks: Option<u64>,
    /// How long a worker may be silent before others take its job.
    pub job_ttl: Option<Duration>,
    /// Seconds since 1970, to measure how old a block is when its rows are written.
    pub clock: Option<fn() -> f64>,
}

/// Blocks of a job where nothing else is set. What is written at once is limited by the rows it has.
pub const JOB_BLOCKS: u64 = 50_000;
/// How long a worker holds a job without renewing it.
const JOB_TTL: Duration = Duration::from_secs(120);

/// The projections of one chain.
pub struct Projector {
    pub(crate) database: Database,
    pub(crate) feed: ChainFeed,
    pub(crate) chain: i64,
    pub(crate) projections: Vec<Arc<dyn Projection>>,
    pub(crate) partitions: Partitions,
    /// The name of this process, for people.
    pub(crate) holder: String,
    pub(crate) job_blocks: i64,
    pub(crate) job_ttl: Duration,
    pub(crate) clock: Option<fn() -> f64>,
    /// The month through which everything is written down and made.
    registered: Mutex<Option<Month>>,
    pub(crate) turn: AtomicUsize,
    /// Through which block everything is confirmed, as far as it was settled here.
    pub(crate) settled: watch::Sender<i64>,
}

/// The settings that a projection's rows are made with; none where there is no such projection yet.
///
/// # Errors
/// The database does not answer, or its tables are not those that this program knows.
pub async fn recorded_settings(
    database: &Database,
    chain: u64,
    projection: &str,
) -> Result<Option<serde_json::Value>> {
    const KNOWN: &str = "SELECT settings FROM projections WHERE chain_id = $1 AND projection = $2";
    database.check_version().await?;
    let client = database.client().await?;
    let known = client
        .query_opt(KNOWN, &[&chain_id(chain)?, &projection])
        .await;
    let known = known.tried("read the settings of a projection")?;
    Ok(known.map(|row| row.get(0)))
}

impl Projector {
    /// Projects a chain into a database, as `holder`.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn new(
        database: Database,
        feed: ChainFeed,
        projections: Vec<Arc<dyn Projection>>,
        settings: ProjectorSettings,
        holder: &str,
    ) -> Result<Self> {
        let blocks = settings.job_blocks.unwrap_or(JOB_BLOCKS);
        let in_range = (1..=1_000_000_000).contains(&blocks);
        let too_many = || Error::Invalid(format!("{blocks} blocks cannot be one job"));
        Ok(Self {
            chain: chain_id(feed.chain)?,
            database,
            feed,
            projections,
            partitions: Partitions::default(),
            holder: holder.to_owned(),
            job_blocks: in_range.then_some(blocks as i64).ok_or_else(too_many)?,
            job_ttl: settings.job_ttl.unwrap_or(JOB_TTL),
            clock: settings.clock,
            registered: Mutex::default(),
            turn: AtomicUsize::new(0),
            settled: watch::Sender::new(-1),
        })
    }

    /// Changes whenever more blocks are settled here, and so may be worked on.
    pub fn settled(&self) -> watch::Receiver<i64> {
        self.settled.subscribe()
    }

    /// The chain's id.
    #[must_use]
    pub fn chain(&self) -> u64 {
        self.feed.chain
    }

    /// The first block whose logs count. Registration may change it: see [`Projection::adopts`].
    #[must_use]
    pub fn start_block(&self) -> Option<u64> {
        let starts = self.projections.iter().map(|one| one.start_block());
        starts.min()
    }

    /// [`Projector::register`], once, and again with every month.
    ///
    /// # Errors
    /// As there.
    pub async fn ensure_registered(&self, now: u64) -> Result<()> {
        let known = *self.registered();
        match known == Some(Month::of(now)) {
            true => Ok(()),
            false => self.register(now).await,
        }
    }

    fn registered(&self) -> MutexGuard<'_, Option<Month>> {
        let registered = self.registered.lock();
        registered.unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down what there is to project, where it is not written down yet, and makes partitions for
    /// the months to come.
    ///
    /// # Errors
    /// The tables are of another version, or were made with other settings.
    pub async fn register(&self, now: u64) -> Result<()> {
        let version = self.database.check_version().await;
        version.inspect_err(|_| self.database.reconnect())?;
        let view = self.feed.view().await?;
        let mut client = self.database.client().await?;
        let tx = client.transaction().await.tried("begin")?;
        let named = "INSERT INTO chains (chain_id, name) VALUES ($1, $2) \
            ON CONFLICT (chain_id) DO UPDATE SET name = excluded.name";
        let named = tx.execute(named, &[&self.chain, &self.feed.name]).await;
        named.tried("write down a chain")?;
        let state = "INSERT INTO processing_state (chain_id) VALUES ($1) ON CONFLICT DO NOTHING";
        let state = tx.execute(state, &[&self.chain]).await;
        state.tried("write down a chain")?;
        for projection in &self.projections {
            self.register_one(&tx, &view, &**projection).await?;
            projection.registered(&tx).await?;
        }
        tx.commit().await.tried("write down what is projected")?;
        drop(client);
        self.ensure_partitions(&ahead(now)).await?;
        *self.registered() = Some(Month::of(now));
        Ok(())
    }

    /// Writes down a projection. One that makes more of the same chain than before starts again: rows that
    /// are there stay. One that makes other rows is refused.
    async fn register_one(
        &self,
        tx: &Transaction<'_>,
        view: &ChainView,
        projection: &dyn Projection,
    ) -> Result<()> {
        const KNOWN: &str = "INSERT INTO projections AS p \
            (chain_id, projection, start_block, next_block, settings) \
            VALUES ($1, $2, $3, $3, $4) ON CONFLICT (chain_id, projection) \
            DO UPDATE SET settings = p.settings RETURNING p.settings";
        const AGAIN: &str = "UPDATE projections SET settings = $4, start_block = $3, next_block = $3, \
            paused_at = NULL, paused_reason = NULL, paused_detail = NULL \
            WHERE chain_id = $1 AND projection = $2";
        const GOES_ON: &str =
            "UPDATE projections SET settings = $3 WHERE chain_id = $1 AND projection = $2";
        const NOTHING: [&str; 2] = [
            "DELETE FROM projected_ranges WHERE chain_id = $1 AND projection = $2",
            "DELETE FROM jobs WHERE chain_id = $1 AND projection = $2",
        ];
        let (name, settings) = (projection.name(), projection.settings());
        let start = projection.start_block() as i64;
        let parameters: [&(dyn ToSql + Sync); 4] = [&self.chain, &name, &start, &settings];
        let row = tx.query_one(KNOWN, &parameters).await;
        let known: serde_json::Value = row.tried("write down a projection")?.get(0);
        if known == settings {
            return Ok(());
        }
        if projection.adopts(&known) {
            let (chain, first) = (self.chain, projection.start_block());
            tracing::info!(
                event = "start_point_kept",
                chain,
                projection = name,
                wanted = start,
                first,
                "START_POINT is for the first run only: the rows of the database begin at block {first}"
            );
            return Ok(());
        }
        let known = projection.made_with(tx, view, known).await?;
        if projection.continues(&known) {
            let goes_on = tx.execute(GOES_ON, &[&self.chain, &name, &settings]).await;
            return goes_on.tried("write down settings").map(|_| ());
        }
        if !projection.extends(&known) {
            return Err(Error::Conflict(format!(
                "the rows of projection {name} of chain {} were made with other settings: {known}; now they \
                 are {settings}. Put the old ones back, have all rows rebuilt with `chronolith projection reset`, or \
                 use another database",
                self.chain
            )));
        }
        tracing::info!(
            chain = self.chain,
            projection = name,
            "more is projected: all of it again"
        );
        for nothing in NOTHING {
            let nothing = tx.execute(nothing, &[&self.chain, &name]).await;
            nothing.tried("begin a projection again")?;
        }
        let again = tx.execute(AGAIN, &parameters).await;
        again.tried("begin a projection again").map(|_| ())
    }

    /// Whether the rows that are there were made with the same settings.
    ///
    /// # Errors
    /// They were not, or the database does not answer.
    pub async fn check_settings(&self) -> Result<()> {
        const KNOWN: &str =
            "SELECT settings FROM projections WHERE chain_id = $1 AND projection = $2";
        let client = self.database.client().await?;
        for projection in &self.projections {
            let name = projection.name();
            let known = client.query_opt(KNOWN, &[&self.chain, &name]).await;
            let known = known.tried("read the settings of a projection")?;
            let known: Option<serde_json::Value> = known.map(|row| row.get(0));
            let differs = |known: &serde_json::Value| {
                *known != projection.settings() && !projection.adopts(known)
            };
            if known.as_ref().is_some_and(differs) {
                return Err(Error::Conflict(format!(
                    "projection {name} of chain {} has other settings where it is followed: use the same file",
                    self.chain
                )));
            }
        }
        Ok(())
    }

    /// Makes sure, to the end of a transaction, that rows are made with the settings that are written
    /// down: a projection may have been reset, or follow other settings by now.
    pub(crate) async fn check_registered(
        &self,
        tx: &Transaction<'_>,
        counts: &Counts,
    ) -> Result<()> {
        const SAME: &str = "SELECT 1 FROM projections WHERE chain_id = $1 AND projection = $2 \
            AND settings = $3 FOR KEY SHARE";
        let with_rows = |one: &&Arc<dyn Projection>| counts.contains_key(one.name());
        for projection in self.projections.iter().filter(with_rows) {
            let (name, settings) = (projection.name(), projection.settings());
            let same = tx.query_opt(SAME, &[&self.chain, &name, &settings]).await;
            if same.tried("compare settings")?.is_none() {
                let chain = self.chain;
                return Err(Error::Fenced {
                    what: format!("projection {name} of chain {chain} with these settings"),
                    epoch: 0,
                });
            }
        }
        Ok(())
    }

    /// Everything is written down again before the next round.
    pub(crate) fn forget_registered(&self) {
        *self.registered() = None;
    }

    /// Makes partitions that are missing, of every projection.
    pub(crate) async fn ensure_partitions(&self, months: &BTreeSet<Month>) -> Result<()> {
        for projection in &self.projections {
            let (chain, tables) = (self.feed.chain, projection.kind().tables());
            let ensured = self
                .partitions
                .ensure(&self.database, chain, tables, months);
            ensured.await?;
        }
        Ok(())
    }

    /// Pauses a projection until an operator acts.
    pub(crate) async fn pause(&self, projection: &str, pause: &Pause) -> Result<()> {
        const PAUSE: &str = "UPDATE projections SET paused_at = now(), paused_reason = $3, \
            paused_detail = $4 WHERE chain_id = $1 AND projection = $2 AND paused_at IS NULL";
        let client = self.database.client().await?;
        let (chain, reason, detail) = (self.chain, pause.reason, &pause.detail);
        let parameters: [&(dyn ToSql + Sync); 4] = [&chain, &projection, &reason, detail];
        let done = client.execute(PAUSE, &parameters).await;
        tracing::error!(chain, projection, reason, %detail, "projection paused");
        done.tried("pause a projection").map(|_| ())
    }

    /// The projections that are not paused, by their place. One whose reason is gone is resumed: the
    /// block may be on no chain any more, or an operator named what was not known.
    pub(crate) async fn running(&self, view: &ChainView) -> Result<Vec<usize>> {
        const PAUSED: &str = "SELECT projection, coalesce(paused_reason, '') FROM projections \
            WHERE chain_id = $1 AND paused_at IS NOT NULL";
        let rows = {
            let client = self.database.client().await?;
            let rows = client.query(PAUSED, &[&self.chain]).await;
            rows.tried("look which projections are paused")?
        };
        let paused: BTreeMap<String, String> =
            rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let mut running = Vec::new();
        for (at, projection) in self.projections.iter().enumerate() {
            if let Some(reason) = paused.get(projection.name()) {
                if projection.is_still_paused(view, reason).await? {
                    continue;
                }
                self.go_on(projection.name(), reason).await?;
            }
            running.push(at);
        }
        Ok(running)
    }

    /// Contracts of the chain as it is whose code projections have to know, and whether the block that
    /// named them is final.
    ///
    /// # Errors
    /// The archive cannot be read.
    pub async fn implementations(&self) -> Result<Vec<([u8; 20], bool)>> {
        let view = self.feed.view().await?;
        let mut all = Vec::new();
        for projection in &self.projections {
            all.extend(projection.implementations(&view).await?);
        }
        Ok(all)
    }

    /// Stores the hash of the code of a contract; none where the chain does not give its code.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn note_code(&self, contract: &[u8; 20], hash: Option<[u8; 32]>) -> Result<()> {
        for projection in &self.projections {
            projection.note_code(contract, hash).await?;
        }
        Ok(())
    }

    async fn go_on(&self, projection: &str, reason: &str) -> Result<()> {
        const GO_ON: &str = "UPDATE projections SET paused_at = NULL, paused_reason = NULL, \
            paused_detail = NULL WHERE chain_id = $1 AND projection = $2 AND paused_reason = $3";
        let client = self.database.client().await?;
        let resumed = client
            .execute(GO_ON, &[&self.chain, &projection, &reason])
            .await;
        resumed.tried("resume a projection")?;
        tracing::info!(chain = self.chain, projection, reason, "projection resumed");
        Ok(())
    }
}
