//! Working on jobs: final blocks from the archive into rows, a page of logs a transaction.

use std::time::Duration;

use chronolith_model::BlockRange;

use crate::copying;
use crate::error::{Error, Result, Tried as _};
use crate::feed::Moment;
use crate::jobs::{self, Job};
use crate::project::{Projected, Projection};
use crate::projector::Projector;

/// How a job ended.
enum Ended {
    Done,
    Paused,
}

impl Projector {
    /// Takes one job of any projection and works on it. False where there is nothing to do.
    ///
    /// # Errors
    /// The database does not answer. What was committed before stays, and the job is tried again.
    pub async fn work(&self) -> Result<bool> {
        jobs::bury(&self.database, self.chain).await?;
        for projection in &self.projections {
            let of = (self.chain, projection.name());
            let (worker, blocks, ttl) = (&self.holder, self.job_blocks, self.job_ttl);
            let job = jobs::claim(&self.database, of, worker, blocks, ttl).await?;
            if let Some(job) = job {
                self.attempt(&**projection, job).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn attempt(&self, projection: &dyn Projection, job: Job) -> Result<()> {
        let (from, to) = (job.from, job.to);
        let ended = tokio::select! {
            ended = self.run(projection, &job) => ended,
            error = self.keep(&job) => Err(error),
        };
        match ended {
            Ok(Ended::Done) => {
                let (chain, name) = (self.chain, projection.name());
                tracing::debug!(chain, projection = name, from, to, "projected");
                Ok(())
            }
            Ok(Ended::Paused) => jobs::put_back(&self.database, &job).await,
            // Whoever took it over goes on with it.
            Err(Error::Fenced { what, .. }) => {
                tracing::warn!(chain = self.chain, %what, "taken over");
                Ok(())
            }
            Err(error) => {
                self.partitions.forget();
                let (chain, name) = (self.chain, projection.name());
                tracing::warn!(chain, projection = name, from, to, %error, "a job failed");
                jobs::fail(&self.database, &job, &error.to_string()).await
            }
        }
    }

    /// Shows that we live, until the job was taken over.
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
            let moment = self.moment_with(job.to).await?;
            let archive = moment.archive.as_ref();
            let archive =
                archive.ok_or_else(|| Error::Conflict("there is no archive".to_owned()))?;
            let rest = BlockRange::new(next as u64, job.to as u64 + 1);
            let page = projection.wanted().page(archive, rest).await?;
            let found: Vec<_> = page.found().collect();
            let projected = match found.is_empty() {
                true => Projected::default(),
                false => projection.rows(&moment, &found).await?,
            };
            let through = page.next as i64;
            let pause = projected.pause.clone();
            next = pause.as_ref().map_or(through, |pause| pause.block as i64);
            self.write_page(projection, job, projected, next).await?;
            if let Some(pause) = pause {
                self.pause(projection.name(), &pause).await?;
                return Ok(Ended::Paused);
            }
        }
        Ok(Ended::Done)
    }

    /// The chain with the blocks of a job: whoever handed it out may know a newer archive than we do.
    async fn moment_with(&self, last: i64) -> Result<Moment> {
        let has = |moment: &Moment| {
            let head = moment.head();
            head.is_some_and(|head| head.number as i64 >= last)
        };
        let moment = self.feed.moment().await?;
        if has(&moment) {
            return Ok(moment);
        }
        self.feed.archive.refresh().await?;
        let moment = self.feed.moment().await?;
        match has(&moment) {
            true => Ok(moment),
            false => Err(Error::Unavailable {
                context: format!("project through block {last}"),
                reason: "the archive here does not reach it".to_owned(),
            }),
        }
    }

    async fn write_page(
        &self,
        projection: &dyn Projection,
        job: &Job,
        projected: Projected,
        next: i64,
    ) -> Result<()> {
        let rows = projected.rows;
        self.ensure_partitions(&rows.months).await?;
        let mut client = self.database.client().await?;
        let tx = client.transaction().await.tried("begin")?;
        // First of all: nobody else may take the job until this ends.
        jobs::hold(&tx, job).await?;
        if !rows.is_empty() {
            let hashes: Vec<&[u8]> = rows
                .blocks
                .iter()
                .map(|one| one.hash.as_bytes().as_slice())
                .collect();
            // What the archive holds is on the chain, whatever it was before.
            let revive = "DELETE FROM dropped_blocks WHERE chain_id = $1 AND block_hash = ANY($2)";
            let revive = tx.execute(revive, &[&self.chain, &hashes]).await;
            revive.tried("take blocks back")?;
            copying::write(&tx, rows).await?;
            projection.confirmed(&tx, None).await?;
        }
        // Last of all: ends of jobs wait for each other here.
        jobs::advance(&tx, (self.chain, projection.name()), job, next).await?;
        tx.commit().await.tried("write rows")
    }
}
