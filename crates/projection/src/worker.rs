//! Working on jobs: final blocks from the archive into rows, a page of logs a transaction.

use std::sync::atomic::Ordering;
use std::time::Duration;

use chronolith_archive::Error as ArchiveError;
use chronolith_chain_view::ChainView;
use chronolith_model::{BlockMeta, BlockRange, ErrorKind};
use tracing::Instrument as _;

use crate::copying;
use crate::error::{Error, Result, Tried as _};
use crate::jobs::{self, Claimer, Job};
use crate::meters::{self, Counts};
use crate::project::{Projected, Projection};
use crate::projector::Projector;
use crate::settle::Noting;

/// How a job ended.
enum Ended {
    Done,
    Paused,
}

impl Projector {
    /// Takes one job of any projection and works on it. False where there is nothing to do.
    ///
    /// # Errors
    /// The database or the archive does not answer. What was committed before stays, and the job is
    /// tried again.
    pub async fn work(&self) -> Result<bool> {
        jobs::bury(&self.database, self.chain).await?;
        // Each in turn is the first, so that none waits for the whole history of another.
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let count = self.projections.len();
        for offset in 0..count {
            let Some(projection) = self.projections.get((first + offset) % count) else {
                continue;
            };
            if let Some(job) = self.claim(&**projection).await? {
                self.attempt(&**projection, job).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What keeps the chain from being projected.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn left(&self) -> Result<jobs::Left> {
        jobs::left(&self.database, self.chain).await
    }

    /// Puts back what this holder was working on, so that no other worker has to wait for it.
    ///
    /// # Errors
    /// The database does not answer: others take it when its time is over.
    pub async fn put_jobs_back(&self) -> Result<()> {
        jobs::put_all_back(&self.database, self.chain, &self.holder).await
    }

    /// A job that waits, or the next range that is final and in the archive.
    async fn claim(&self, projection: &dyn Projection) -> Result<Option<Job>> {
        let of = (self.chain, projection.name());
        let settings = projection.settings();
        let claimer = Claimer {
            worker: &self.holder,
            settings: &settings,
            blocks: self.job_blocks,
            ttl: self.job_ttl,
        };
        if let Some(job) = jobs::claim_again(&self.database, of, claimer).await? {
            return Ok(Some(job));
        }
        let Some(next) = jobs::next_block(&self.database, of).await? else {
            return Ok(None);
        };
        let view = self.feed.view().await?;
        let archive = view.archive.as_ref();
        let covered = |archive| projection.selection().covered_through(archive, next as u64);
        // History may still be on its way into the archive.
        let Some(last) = archive.and_then(covered) else {
            return Ok(None);
        };
        jobs::claim_next(&self.database, of, claimer, (next, last as i64)).await
    }

    async fn attempt(&self, projection: &dyn Projection, job: Job) -> Result<()> {
        let (from, to) = (job.from, job.to);
        let (chain, name) = (self.chain, projection.name());
        let ended = tokio::select! {
            ended = self.run(projection, &job) => ended,
            error = self.keep(&job) => Err(error),
        };
        if ended.is_err() {
            self.database.reconnect();
        }
        match ended {
            Ok(Ended::Done) => {
                tracing::debug!(chain, projection = name, from, to, "projected");
                Ok(())
            }
            Ok(Ended::Paused) => jobs::put_back(&self.database, &job, None).await,
            // The worker that took it over continues with it.
            Err(Error::Fenced { what, .. }) => {
                tracing::warn!(chain, %what, "taken over");
                Ok(())
            }
            // Not the job's fault: it is tried until it can be done.
            Err(error) if is_outside(&error) => {
                self.partitions.forget();
                // What is there by now may be more than was seen of it, or other.
                self.feed.archive.refresh().await?;
                jobs::put_back(&self.database, &job, Some(&error.to_string())).await?;
                Err(error)
            }
            Err(error) => {
                tracing::warn!(chain, projection = name, from, to, %error, "a job failed");
                jobs::fail(&self.database, &job, &error.to_string()).await
            }
        }
    }

    /// Renews the job until another worker takes it over.
    async fn keep(&self, job: &Job) -> Error {
        loop {
            tokio::time::sleep((self.job_ttl / 4).max(Duration::from_millis(10))).await;
            match jobs::renew(&self.database, job, self.job_ttl).await {
                Err(error @ Error::Fenced { .. }) => return error,
                // The work itself will find out.
                Err(error) => tracing::debug!(chain = self.chain, %error, "not renewed"),
                Ok(()) => {}
            }
        }
    }

    async fn run(&self, projection: &dyn Projection, job: &Job) -> Result<Ended> {
        let mut next = job.next;
        while next <= job.to {
            let view = self.view_with(job.to).await?;
            self.check_chain(&view).await?;
            let none = || Error::Conflict("there is no archive".to_owned());
            let archive = view.archive.as_ref().ok_or_else(none)?;
            let rest = BlockRange::new(next as u64, job.to as u64 + 1);
            let page = projection.selection().page(archive, rest).await?;
            let found: Vec<_> = page.logs().collect();
            let projected = match found.is_empty() {
                true => Projected::default(),
                false => {
                    let span = meters::decoding(self.chain, projection.name(), &found);
                    projection.rows(&view, &found).instrument(span).await?
                }
            };
            if projected.not_yet {
                return Err(Error::Unavailable {
                    context: format!("project from block {next}"),
                    reason: "not everything that it needs is at hand yet".to_owned(),
                });
            }
            let through = projected.next.unwrap_or(page.next) as i64;
            let pause = projected.pause.clone();
            next = pause.as_ref().map_or(through, |pause| pause.block as i64);
            let name = std::iter::once(projection.name());
            let write = self.write_page(projection, job, projected, next);
            let written = meters::timed(self.chain, name, "backfill", write).await?;
            // Events that were there already were counted when they came.
            let counts = Counts::from([(projection.name().to_owned(), written)]);
            meters::events(self.chain, "confirmed", &counts);
            if let Some(clock) = self.clock {
                meters::arrived(self.chain, &counts, clock());
            }
            if let Some(pause) = pause {
                self.pause(projection.name(), &pause).await?;
                return Ok(Ended::Paused);
            }
        }
        Ok(Ended::Done)
    }

    /// The chain with the blocks of a job: the process that made it may know a newer archive than this one.
    async fn view_with(&self, last: i64) -> Result<ChainView> {
        let has = |view: &ChainView| {
            let head = view.finalized_head();
            head.is_some_and(|head| head.number as i64 >= last)
        };
        let view = self.feed.view().await?;
        if has(&view) {
            return Ok(view);
        }
        self.feed.archive.refresh().await?;
        let view = self.feed.view().await?;
        match has(&view) {
            true => Ok(view),
            false => Err(Error::Unavailable {
                context: format!("project through block {last}"),
                reason: "the archive here does not reach it".to_owned(),
            }),
        }
    }

    /// What is final in the database must be what the archive here has: rows of another chain would be
    /// confirmed at once.
    pub(crate) async fn check_chain(&self, view: &ChainView) -> Result<()> {
        const SAFE: &str = "SELECT last_safe_block, last_safe_hash FROM processing_state \
            WHERE chain_id = $1 AND last_safe_hash IS NOT NULL";
        let safe = {
            let client = self.database.client().await?;
            let safe = client.query_opt(SAFE, &[&self.chain]).await;
            safe.tried("read the last safe block")?
        };
        let Some(safe) = safe else {
            return Ok(());
        };
        let (number, hash): (i64, Vec<u8>) = (safe.get(0), safe.get(1));
        let found = match u64::try_from(number) {
            Ok(number) if view.is_final(number) => view.hash_at(number).await?,
            _ => None,
        };
        match found {
            Some(found) if found.as_bytes().as_slice() == hash => Ok(()),
            Some(found) => Err(Error::Conflict(format!(
                "block {number} of chain {} is final and {} in the database, and {found} in this archive: \
                 it is of another chain",
                self.chain,
                const_hex::encode_prefixed(hash)
            ))),
            None => Err(Error::Unavailable {
                context: format!("compare block {number} with the archive"),
                reason: "the archive here does not reach it yet".to_owned(),
            }),
        }
    }

    /// Writes a page of rows, and returns how many events were not there before.
    async fn write_page(
        &self,
        projection: &dyn Projection,
        job: &Job,
        projected: Projected,
        next: i64,
    ) -> Result<u64> {
        let rows = projected.rows;
        self.ensure_partitions(&rows.months).await?;
        let mut client = self.database.client().await?;
        let tx = client.transaction().await.tried("begin")?;
        let number = |block: Option<&BlockMeta>| block.map_or(0, |block| block.number as i64);
        let range = (number(rows.blocks.first()), number(rows.blocks.last()));
        let blocks = rows.blocks.iter().map(|one| one.hash.as_bytes().to_vec());
        let blocks: Vec<Vec<u8>> = blocks.collect();
        let staged = copying::stage(&tx, self.database.kinds(), rows).await?;
        // From here on nothing else may take the job until this ends.
        jobs::hold(&tx, job).await?;
        let mut written = 0;
        if !blocks.is_empty() {
            // What the archive holds is on the chain, whatever it was before.
            let revive = "DELETE FROM dropped_blocks WHERE chain_id = $1 AND block_hash = ANY($2)";
            let revive = tx.execute(revive, &[&self.chain, &blocks]).await;
            revive.tried("take blocks back")?;
            let place = (self.chain, range.0, range.1);
            written = copying::insert_range(&tx, &staged, place).await?;
            projection.confirmed(&tx, None).await?;
        }
        // Last of all: ends of jobs wait for each other here.
        jobs::advance(&tx, (self.chain, projection.name()), job, next).await?;
        tx.commit().await.tried("write rows")?;
        // The job is done whatever comes of this: the next settling notes it too.
        if next > job.to
            && let Err(error) = self.note_complete(&client, Noting::Works).await
        {
            tracing::debug!(chain = self.chain, %error, "what is complete was not noted");
        }
        Ok(written)
    }
}

/// Whether a failure says nothing of the job: the database or the archive did not answer, or do not
/// have everything yet.
fn is_outside(error: &Error) -> bool {
    use ErrorKind::{Disagreement, Unavailable};
    matches!(error, Error::Archive(ArchiveError::NotCovered { .. }))
        || matches!(error.kind(), Unavailable | Disagreement)
}
