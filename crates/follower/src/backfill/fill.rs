//! Blocks below the head, into fills of the archive: history that is missing, and objects that are rebuilt.

use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{
    Archive, AuditEntry, Error as ArchiveError, Fill, Health, ObjectSort, StoredObject,
};
use chronolith_model::{BlockRange, BlockRef, DatasetSet};
use chronolith_source::{Fetched, Source, Want};

use crate::backfill::append::{by_provenance, linked, proven};
use crate::backfill::prefetch::Fetches;
use crate::chain::want_of;
use crate::clock::now;
use crate::error::FollowError;
use crate::progress::Progress;
use crate::settings::{FollowSettings, RangePlan};

/// How often a paused fill checks whether there is room again.
const ROOM_EVERY: Duration = Duration::from_secs(1);
/// How often blocks are fetched that do not fit what is archived; each time the endpoint that delivered
/// them is tried last.
const ATTEMPTS_MAX: usize = 3;

/// An open archive and where its blocks come from: a command has both, and so has a running node.
#[derive(Clone, Copy)]
pub struct Filler<'a> {
    pub chain: &'a FollowSettings,
    pub archive: &'a Archive,
    pub source: &'a Arc<dyn Source>,
}

/// Blocks to fetch, and the fills that take them.
struct Job<'a> {
    range: BlockRange,
    want: &'a Want,
    /// A block that endpoints must have, where the archive has no head.
    anchor: Option<BlockRef>,
    /// Begins the fill of a part of the range.
    begin: &'a (dyn Fn(BlockRange) -> Result<Fill, ArchiveError> + Send + Sync),
    /// Where parts end that are published by themselves. Without, the range is published as a whole.
    checkpoints: Option<&'a RangePlan>,
}

/// Why a job stopped, and the first block that it did not publish.
struct Stopped {
    at: u64,
    error: FollowError,
}

impl Filler<'_> {
    /// Fetches a range and finishes one fill with it.
    pub async fn rebuild(
        &self,
        range: BlockRange,
        want: &Want,
        begin: impl Fn() -> Result<Fill, ArchiveError> + Send + Sync,
        filling: &mut Filling<'_>,
    ) -> Result<(), FollowError> {
        let job = Job {
            range,
            want,
            anchor: None,
            begin: &|_| begin(),
            checkpoints: None,
        };
        let done = self.run(&job, filling).await;
        done.map_err(|stopped| stopped.error)
    }

    /// Fetches a gap upwards, and publishes it after every checkpoint. What was published stays, whatever
    /// happens after it. Without a head of the archive, only endpoints that have the given block are used.
    pub async fn fill_gap(
        &self,
        gap: BlockRange,
        anchor: Option<BlockRef>,
        filling: &mut Filling<'_>,
    ) -> Result<(), FollowError> {
        let want = want_of(self.chain);
        let mut job = Job {
            range: gap,
            want: &want,
            anchor,
            begin: &|step| self.archive.fill(step),
            checkpoints: Some(&self.chain.ranges),
        };
        while let Err(Stopped { at, error }) = self.run(&job, filling).await {
            let FollowError::Archive(ArchiveError::OtherContent { archived, .. }) = error else {
                return Err(error);
            };
            let left = BlockRange::new(at, gap.end);
            let next = self.renew(left, archived, filling).await?;
            job.range = BlockRange::new(next, gap.end);
        }
        Ok(())
    }

    /// Fetches the blocks of a gap that an archived segment holds in another form, and replaces segments and
    /// packs of them together: only their payload was missing, and no other segment can be put beside. Returns
    /// where the gap continues.
    async fn renew(
        &self,
        gap: BlockRange,
        archived: BlockRange,
        filling: &mut Filling<'_>,
    ) -> Result<u64, FollowError> {
        let chain = self.chain;
        let range = gap.intersect(&archived).unwrap_or(gap);
        let (from, to) = (range.start, range.end - 1);
        tracing::warn!(chain = %chain.name, from, to, "archived form differs, replacing segments and packs");
        let object = StoredObject {
            name: String::new(),
            sort: ObjectSort::Pack,
            range,
            datasets: chain.datasets,
            scope: chain.scope.clone(),
        };
        let audit = || AuditEntry {
            at: now(),
            act: format!("backfill: blocks {from} to {to} fetched again with their payload"),
        };
        let begin = || self.archive.repair_together(&object, &[], audit());
        self.rebuild(range, &want_of(chain), begin, filling).await?;
        Ok(range.end)
    }

    /// Does a job. Blocks that do not fit what is archived are fetched again, from other endpoints.
    async fn run(&self, job: &Job<'_>, filling: &mut Filling<'_>) -> Result<(), Stopped> {
        let mut attempts = 1;
        let mut at = job.range.start;
        loop {
            let mut steps = Steps::new(self, job, at);
            let done = steps.climb(filling).await;
            let moved = steps.step.start > at;
            at = steps.step.start;
            match done {
                Err(FollowError::Archive(error))
                    if does_not_fit(&error) && (moved || attempts < ATTEMPTS_MAX) =>
                {
                    tracing::warn!(chain = %self.chain.name, %error, "fetching it once more");
                    for (block, endpoint) in steps.suspects() {
                        self.source.report_bad(endpoint, *block, &error.to_string());
                    }
                }
                done => {
                    filling.begin_at += at - job.range.start;
                    return done.map_err(|error| Stopped { at, error });
                }
            }
            attempts = if moved { 1 } else { attempts + 1 };
        }
    }

    /// A block of the archive that an endpoint must have to be on its chain: the head. The head of a halted
    /// archive may be the block that was replaced, so it is the lowest block after the range there; without
    /// one that can be read, what the archive knows of the range itself is all there is to check by.
    async fn anchor(&self, range: BlockRange) -> Result<Option<BlockRef>, FollowError> {
        let health = self.archive.health();
        if !matches!(health.health, Health::Halted(_)) {
            return Ok(health.head);
        }
        let mut covered = self.archive.coverage(DatasetSet::CLOCK, None).into_iter();
        let after = covered.find(|(covered, _)| covered.end > range.end);
        let Some(((covered, _), pinned)) = after.zip(self.archive.pin()) else {
            return Ok(None);
        };
        let number = covered.start.max(range.end);
        match pinned.block_by_number(number).await {
            Ok(clock) => Ok(Some(clock.block_ref())),
            Err(ArchiveError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// How far several jobs have come together.
pub struct Filling<'a> {
    progress: Progress,
    /// Blocks of the jobs before this one.
    begin_at: u64,
    all: u64,
    /// Called when blocks have become visible.
    published: &'a (dyn Fn() + Send + Sync),
}

impl<'a> Filling<'a> {
    pub fn new(progress: Progress, all: u64, published: &'a (dyn Fn() + Send + Sync)) -> Self {
        Self {
            progress,
            begin_at: 0,
            all,
            published,
        }
    }
}

/// A job on its way, step by step.
struct Steps<'a> {
    filler: &'a Filler<'a>,
    job: &'a Job<'a>,
    /// What is published next. It begins at the end of the range when all is.
    step: BlockRange,
    fill: Option<Fill>,
    /// The newest block, which is good when the one after it names it.
    held: Option<Fetched>,
    /// The first and the last block that were taken, and the endpoints that delivered them.
    first: Option<(BlockRef, Arc<str>)>,
    last: Option<(BlockRef, Arc<str>)>,
}

impl<'a> Steps<'a> {
    fn new(filler: &'a Filler<'a>, job: &'a Job<'a>, at: u64) -> Self {
        Self {
            filler,
            job,
            step: job.step_at(at),
            fill: None,
            held: None,
            first: None,
            last: None,
        }
    }

    async fn climb(&mut self, filling: &mut Filling<'_>) -> Result<(), FollowError> {
        let (filler, job) = (self.filler, self.job);
        let left = BlockRange::new(self.step.start, job.range.end);
        let anchor = filler.anchor(left).await?.or(job.anchor);
        // A block of a gap is taken when the next one names it as its parent.
        let links = job.checkpoints.is_some();
        let wanted = if links && !self.is_vouched_for() {
            BlockRange::new(left.start, left.end.saturating_add(1))
        } else {
            left
        };
        let mut fetches = Fetches::new(filler.source, job.want, wanted, anchor);
        while let Some(fetched) = fetches.next().await {
            let mut fetched = fetched?;
            if links {
                fetched = linked(filler.source, self.held.take(), fetched)?;
                self.held = fetched.pop();
            }
            while !fetched.is_empty() {
                let room = self.room().min(fetched.len() as u64);
                let rest = fetched.split_off(usize::try_from(room).unwrap_or(usize::MAX));
                self.take(std::mem::replace(&mut fetched, rest), filling)
                    .await?;
            }
        }
        match self.held.take() {
            Some(last) if last.block.clock.number < job.range.end => {
                self.take(vec![last], filling).await
            }
            _ => Ok(()),
        }
    }

    /// Whether the last block is archived, with less than is wanted of it: the archive takes no other one,
    /// and the source may have none after it.
    fn is_vouched_for(&self) -> bool {
        let last = self.job.range.end.saturating_sub(1);
        let covered = self.filler.archive.coverage(DatasetSet::CLOCK, None);
        covered.iter().any(|(range, _)| range.contains(last))
    }

    /// The blocks to doubt where what was taken does not fit.
    fn suspects(&self) -> impl Iterator<Item = &(BlockRef, Arc<str>)> {
        let first = self.first.iter().filter(|_| self.job.checkpoints.is_none());
        first.chain(&self.last)
    }

    /// The block after those that were taken.
    fn next(&self) -> u64 {
        let last = self.last.as_ref();
        last.map_or(self.step.start, |(last, _)| last.number + 1)
    }

    /// How many blocks the step still takes.
    fn room(&self) -> u64 {
        self.step.end.saturating_sub(self.next()).max(1)
    }

    /// Takes blocks of one step, and publishes it where these are its last.
    async fn take(
        &mut self,
        blocks: Vec<Fetched>,
        filling: &mut Filling<'_>,
    ) -> Result<(), FollowError> {
        let mut fill = match self.fill.take() {
            Some(fill) => fill,
            None => (self.job.begin)(self.step)?,
        };
        let end = |one: &Fetched| (one.block.clock.block_ref(), one.endpoint.clone());
        self.first = self.first.take().or(blocks.first().map(end));
        self.last = blocks.last().map(end).or(self.last.take());
        push(&mut fill, blocks).await?;
        let done = filling.begin_at + self.next() - self.job.range.start;
        filling.progress.reach(done, filling.all);
        if self.next() < self.step.end {
            self.fill = Some(fill);
            return Ok(());
        }
        fill.finish().await?;
        let (from, to) = (self.step.start, self.step.end - 1);
        self.step = self.job.step_at(self.next());
        (filling.published)();
        let (name, all) = (&self.filler.chain.name, filling.all);
        tracing::info!(event = "filled", chain = %name, from, to, done, all, "filled");
        Ok(())
    }
}

impl Job<'_> {
    /// The blocks from one on that are published together.
    fn step_at(&self, at: u64) -> BlockRange {
        match self.checkpoints {
            Some(plan) => step_at(plan, at, self.range.end),
            None => BlockRange::new(at, self.range.end),
        }
    }
}

/// Hands blocks to a fill, those of one level and endpoint together.
async fn push(fill: &mut Fill, blocks: Vec<Fetched>) -> Result<(), ArchiveError> {
    for (how, group) in by_provenance(blocks.into_iter().map(proven)) {
        await_room(fill).await?;
        fill.push(group, &how).await?;
    }
    Ok(())
}

/// Waits while there is too much garbage: it is collected meanwhile, and dropping what was filled so
/// far would make more of it.
async fn await_room(fill: &Fill) -> Result<(), ArchiveError> {
    let mut logged = false;
    loop {
        match fill.check_room() {
            Err(error @ ArchiveError::Throttled { .. }) => {
                if !std::mem::replace(&mut logged, true) {
                    tracing::warn!(%error, "fill paused");
                }
                tokio::time::sleep(ROOM_EVERY).await;
            }
            room => return room,
        }
    }
}

/// Steps from checkpoint to checkpoint, counted from the first block of the range.
fn step_at(plan: &RangePlan, at: u64, end: u64) -> BlockRange {
    let in_range = at.saturating_sub(plan.first) % plan.size.max(1);
    let checkpoint = plan.checkpoint.max(1);
    let left = checkpoint - in_range % checkpoint;
    let left = left.min(plan.size - in_range);
    BlockRange::new(at, at.saturating_add(left).min(end))
}

/// Whether blocks were refused for what they are: another endpoint may have the right ones.
fn does_not_fit(error: &ArchiveError) -> bool {
    matches!(
        error,
        ArchiveError::BadParent { .. } | ArchiveError::FinalityViolation { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_at_checkpoints_of_their_range() {
        let plan = RangePlan {
            first: 2,
            size: 10_000_000,
            parallel: 2,
            checkpoint: 1_000,
        };
        let end_of = |at, end| step_at(&plan, at, end).end;
        assert_eq!(end_of(2, 10_000_002), 1_002);
        // After a crash that follows ledger 7499001, the next is 7499002.
        assert_eq!(end_of(7_498_002, 10_000_002), 7_499_002);
        assert_eq!(end_of(7_499_500, 10_000_002), 7_500_002);
        assert_eq!(
            end_of(9_999_900, 20_000_002),
            10_000_002,
            "the end of a range"
        );
        assert_eq!(end_of(5, 7), 7, "the end of the gap");
        let uneven = RangePlan {
            first: 0,
            size: 25,
            checkpoint: 10,
            ..plan
        };
        let mut at = 0;
        let mut ends = Vec::new();
        while at < 50 {
            at = step_at(&uneven, at, 50).end;
            ends.push(at);
        }
        assert_eq!(ends, [10, 20, 25, 35, 45, 50]);
    }
}
