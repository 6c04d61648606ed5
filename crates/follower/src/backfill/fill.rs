//! Blocks of the archive, fetched once more: into a fill, in order, many ranges at a time.

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
use crate::ingest::Trouble;
use crate::progress::{Progress, Unit};
use crate::settings::{FollowSettings, RangePlan};

/// How often it is looked whether there is room again.
const ROOM_EVERY: Duration = Duration::from_secs(1);
/// How often a range is fetched whose blocks do not fit what is archived; each time whoever
/// delivered them is asked last.
const TRIES: usize = 3;

/// An open archive and where its blocks come from. Whoever has both can fill, in a command or beside a
/// node that runs.
#[derive(Clone, Copy)]
pub struct Refill<'a> {
    pub chain: &'a FollowSettings,
    pub archive: &'a Archive,
    pub source: &'a Arc<dyn Source>,
}

/// The ends of what was pushed, and who delivered them.
#[derive(Default)]
struct Ends {
    first: Option<(BlockRef, Arc<str>)>,
    last: Option<(BlockRef, Arc<str>)>,
}

impl Refill<'_> {
    /// Fetches a range and finishes a fill with it. Only endpoints that have a block of the archive behind
    /// the range are asked: they are on its chain.
    pub async fn refill(
        &self,
        range: BlockRange,
        want: Want,
        begin: impl Fn() -> Result<Fill, ArchiveError>,
        told: &mut (dyn FnMut(u64) + Send),
    ) -> Result<(), Trouble> {
        let mut tries = 1;
        loop {
            let mut ends = Ends::default();
            let done = self.pour(range, &want, begin()?, (&mut ends, told)).await;
            match done {
                Err(Trouble::Archive(error)) if does_not_fit(&error) && tries < TRIES => {
                    tracing::warn!(chain = %self.chain.name, %error, "fetching it once more");
                    for (block, endpoint) in ends.first.iter().chain(&ends.last) {
                        self.source.report_bad(endpoint, *block, &error.to_string());
                    }
                }
                done => return done,
            }
            tries += 1;
        }
    }

    /// Fetches a gap upwards, and publishes it after every checkpoint. What was published stays, whatever
    /// comes then. Without a head of the archive, only endpoints that have the given block are asked.
    pub async fn fill_gap(
        &self,
        gap: BlockRange,
        anchor: Option<BlockRef>,
        told: &mut Told<'_>,
    ) -> Result<(), Trouble> {
        let mut tries = 1;
        let mut at = gap.start;
        while at < gap.end {
            let left = BlockRange::new(at, gap.end);
            let mut steps = Steps::new(self, left);
            let done = steps.climb(anchor, told).await;
            let moved = steps.step.start > at;
            at = steps.step.start;
            match done {
                Err(Trouble::Archive(ArchiveError::OtherContent { archived, .. })) => {
                    at = self.renew(BlockRange::new(at, gap.end), archived).await?;
                    continue;
                }
                Err(Trouble::Archive(error))
                    if does_not_fit(&error) && (moved || tries < TRIES) =>
                {
                    tracing::warn!(chain = %self.chain.name, %error, "fetching it once more");
                    if let Some((block, endpoint)) = &steps.last {
                        self.source.report_bad(endpoint, *block, &error.to_string());
                    }
                }
                done => return done,
            }
            tries = if moved { 1 } else { tries + 1 };
        }
        Ok(())
    }

    /// Fetches the blocks of a gap that an archived segment holds in another form, and replaces segments and
    /// packs of them together: only their payload was lacking, and no other segment can be put beside. Returns
    /// where the gap goes on.
    async fn renew(&self, gap: BlockRange, archived: BlockRange) -> Result<u64, Trouble> {
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
            act: format!("backfill: blocks {from} to {to} fetched anew with their payload"),
        };
        let begin = || self.archive.repair_together(&object, &[], audit());
        let mut progress = Progress::of_command("fetching", &chain.name, Unit::Blocks);
        let told = &mut |done: u64| progress.reach(done, range.len());
        self.refill(range, want_of(chain), begin, told).await?;
        Ok(range.end)
    }

    /// A block of the archive that whoever delivers must have: its head. A halted archive's head may be
    /// the very block that was replaced, so it is the lowest block behind the range there; without one
    /// that can be read, what the archive knows of the range itself is all there is to check by.
    async fn anchor(&self, range: BlockRange) -> Result<Option<BlockRef>, Trouble> {
        let health = self.archive.health();
        if !matches!(health.health, Health::Halted(_)) {
            return Ok(health.head);
        }
        let mut covered = self.archive.coverage(DatasetSet::CLOCK, None).into_iter();
        let behind = covered.find(|(covered, _)| covered.end > range.end);
        let Some((covered, _)) = behind else {
            return Ok(None);
        };
        let number = covered.start.max(range.end);
        let Some(pinned) = self.archive.pin() else {
            return Ok(None);
        };
        match pinned.block_by_number(number).await {
            Ok(clock) => Ok(Some(clock.block_ref())),
            Err(ArchiveError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn pour(
        &self,
        range: BlockRange,
        want: &Want,
        mut fill: Fill,
        (ends, told): (&mut Ends, &mut (dyn FnMut(u64) + Send)),
    ) -> Result<(), Trouble> {
        let anchor = self.anchor(range).await?;
        let mut fetches = Fetches::new(self.source, want, (range, anchor));
        while let Some(fetched) = fetches.next().await {
            let fetched = fetched?;
            let end = |one: &Fetched| (one.block.clock.block_ref(), one.endpoint.clone());
            let (Some(first), Some(last)) = (fetched.first().map(end), fetched.last().map(end))
            else {
                continue;
            };
            push(&mut fill, fetched).await?;
            told(last.0.number + 1 - range.start);
            ends.first.get_or_insert(first);
            ends.last = Some(last);
        }
        Ok(fill.finish().await?)
    }
}

/// Tells how far it is, and whoever waits for new blocks that some are there.
pub struct Told<'a> {
    progress: Progress,
    done: u64,
    all: u64,
    moved: &'a (dyn Fn() + Send + Sync),
}

impl<'a> Told<'a> {
    pub fn new(progress: Progress, all: u64, moved: &'a (dyn Fn() + Send + Sync)) -> Self {
        Self {
            progress,
            done: 0,
            all,
            moved,
        }
    }

    fn add(&mut self, blocks: u64) {
        self.done += blocks;
        self.progress.reach(self.done, self.all);
        (self.moved)();
    }
}

/// A gap on its way, step by step.
struct Steps<'a> {
    refill: &'a Refill<'a>,
    gap: BlockRange,
    /// What is published next. It begins at the end of the gap when all is.
    step: BlockRange,
    fill: Option<Fill>,
    /// The newest block, which is good when the one behind it names it.
    held: Option<Fetched>,
    /// The last block that was taken, and who delivered it.
    last: Option<(BlockRef, Arc<str>)>,
}

impl<'a> Steps<'a> {
    fn new(refill: &'a Refill<'a>, gap: BlockRange) -> Self {
        Self {
            refill,
            gap,
            step: step_at(&refill.chain.plan, gap.start, gap.end),
            fill: None,
            held: None,
            last: None,
        }
    }

    async fn climb(
        &mut self,
        anchor: Option<BlockRef>,
        told: &mut Told<'_>,
    ) -> Result<(), Trouble> {
        let anchor = self.refill.anchor(self.gap).await?.or(anchor);
        let wanted = match self.is_vouched_for() {
            true => self.gap,
            // One more than is wanted: it vouches for the last.
            false => BlockRange::new(self.gap.start, self.gap.end.saturating_add(1)),
        };
        let want = want_of(self.refill.chain);
        let mut fetches = Fetches::new(self.refill.source, &want, (wanted, anchor));
        while let Some(fetched) = fetches.next().await {
            let mut fetched = linked(self.refill.source, self.held.take(), fetched?)?;
            self.held = fetched.pop();
            while !fetched.is_empty() {
                let room = self.room().min(fetched.len() as u64);
                let rest = fetched.split_off(usize::try_from(room).unwrap_or(usize::MAX));
                self.take(std::mem::replace(&mut fetched, rest), told)
                    .await?;
            }
        }
        match self.held.take() {
            Some(last) if last.block.clock.number < self.gap.end => {
                self.take(vec![last], told).await
            }
            _ => Ok(()),
        }
    }

    /// Whether the last block is archived, with less than is wanted of it: the archive takes no other one,
    /// and the source may have none behind it.
    fn is_vouched_for(&self) -> bool {
        let last = self.gap.end.saturating_sub(1);
        let covered = self.refill.archive.coverage(DatasetSet::CLOCK, None);
        covered.iter().any(|(range, _)| range.contains(last))
    }

    /// How many blocks the step still takes.
    fn room(&self) -> u64 {
        let next = self
            .last
            .as_ref()
            .map_or(self.gap.start, |(last, _)| last.number + 1);
        self.step.end.saturating_sub(next).max(1)
    }

    /// Takes blocks of one step, and publishes it where these are its last.
    async fn take(&mut self, blocks: Vec<Fetched>, told: &mut Told<'_>) -> Result<(), Trouble> {
        let mut fill = match self.fill.take() {
            Some(fill) => fill,
            None => self.refill.archive.fill(self.step)?,
        };
        let last = blocks
            .last()
            .map(|one| (one.block.clock.block_ref(), one.endpoint.clone()));
        self.last = last.or(self.last.take());
        push(&mut fill, blocks).await?;
        let reached = self
            .last
            .as_ref()
            .map_or(self.step.start, |(last, _)| last.number + 1);
        if reached < self.step.end {
            self.fill = Some(fill);
            return Ok(());
        }
        fill.finish().await?;
        let (from, to) = (self.step.start, self.step.end - 1);
        self.step = step_at(&self.refill.chain.plan, reached, self.gap.end);
        told.add(to + 1 - from);
        let (name, done, all) = (&self.refill.chain.name, told.done, told.all);
        tracing::info!(chain = %name, from, to, done, all, "filled");
        Ok(())
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

/// Waits while there is too much garbage: it is collected meanwhile, and to give up what was filled so
/// far would make more of it.
async fn await_room(fill: &Fill) -> Result<(), ArchiveError> {
    let mut told = false;
    loop {
        match fill.check_room() {
            Err(error @ ArchiveError::Throttled { .. }) => {
                if !std::mem::replace(&mut told, true) {
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
        // A crash behind ledger 7499001 is gone on from with 7499002.
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
