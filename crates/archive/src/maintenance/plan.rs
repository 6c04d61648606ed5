//! What to do next: which segments, runs and packs to put together, and what a range whose blocks
//! are all there still needs. Pure: a plan is made from one snapshot.

use std::collections::HashSet;
use std::sync::Arc;

use chronolith_model::BlockRange;

use crate::ranges::geometry::{FailedPhase, LedgerPhase, TxHashPhase};
use crate::ranges::status::{Covering, RangeStatus, last_tier, many, small_packs};
use crate::settings::SealSettings;
use crate::state::catalog::{Catalog, PackEntry, RunEntry, SegmentEntry};

/// One step of maintenance.
#[derive(Debug)]
pub(crate) enum Step {
    /// Make one segment of these.
    Merge(Vec<Arc<SegmentEntry>>),
    /// This one is heavy enough for the next tier by itself.
    Promote(Arc<SegmentEntry>),
    /// Make one run of these.
    MergeRuns(Vec<Arc<RunEntry>>),
    /// Make a run of these blocks, whose hashes no run holds.
    MakeRun(BlockRange),
    /// Make one pack of these, to which more will be joined.
    JoinPacks(Vec<Arc<PackEntry>>),
    /// Make one pack of these for good.
    FinishPack(Vec<Arc<PackEntry>>),
    /// Count the transactions of a segment.
    Count(Arc<SegmentEntry>),
    /// Look up every hash of these blocks in the one run of their range.
    Verify(BlockRange, Arc<RunEntry>),
}

impl Step {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Merge(_) => "merge segments",
            Self::Promote(_) => "promote a segment",
            Self::MergeRuns(_) => "merge runs",
            Self::MakeRun(_) => "make a run",
            Self::JoinPacks(_) => "join packs",
            Self::FinishPack(_) => "finish a pack",
            Self::Count(_) => "count transactions",
            Self::Verify(..) => "verify a range",
        }
    }

    /// The phase of a transition that it belongs to.
    pub(crate) fn phase(&self) -> FailedPhase {
        match self {
            Self::Merge(_) | Self::Promote(_) | Self::JoinPacks(_) | Self::FinishPack(_) => {
                FailedPhase::Merging
            }
            Self::Count(_) => FailedPhase::Compacting,
            Self::MergeRuns(_) | Self::MakeRun(_) => FailedPhase::BuildingIndex,
            Self::Verify(..) => FailedPhase::VerifyingIndex,
        }
    }

    /// Its first block.
    pub(crate) fn first_block(&self) -> Option<u64> {
        let first = match self {
            Self::Merge(inputs) => inputs.first()?.facts.range,
            Self::Promote(entry) | Self::Count(entry) => entry.facts.range,
            Self::MergeRuns(inputs) => inputs.first()?.range,
            Self::JoinPacks(inputs) | Self::FinishPack(inputs) => inputs.first()?.range,
            Self::MakeRun(blocks) | Self::Verify(blocks, _) => *blocks,
        };
        Some(first.start)
    }
}

/// What there is to choose from.
pub(crate) struct Plan<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) batch_packs: &'a [Arc<PackEntry>],
    pub(crate) settings: &'a SealSettings,
    /// Objects that were found damaged: steps on them are passed over, so that one damaged object
    /// does not hold up everything else.
    pub(crate) skip: &'a HashSet<String>,
    pub(crate) statuses: &'a [RangeStatus],
    /// Ranges that are being verified.
    pub(crate) verifying: &'a HashSet<u64>,
}

impl Plan<'_> {
    /// Chooses the next step: the lowest tier first. Groups depend on content alone: they begin
    /// where an alignment boundary lies or the group before ends, and end at the first segment that fills
    /// them. Ranges are brought to their end when nothing else is due.
    pub(crate) fn next(&self) -> Option<Step> {
        (1..last_tier(self.settings))
            .find_map(|tier| self.next_merge(tier))
            .or_else(|| self.next_runs())
            .or_else(|| self.next_batch_packs())
            .or_else(|| self.next_small_packs())
            .or_else(|| self.next_uncounted())
            .or_else(|| {
                let due = self.statuses.iter().filter(|one| one.in_transition());
                let mut due = due.filter(|one| !self.verifying.contains(&one.id));
                due.find_map(|status| self.next_of_range(status))
            })
    }

    /// Where the range of a block is.
    pub(crate) fn status(&self, block: u64) -> Option<&RangeStatus> {
        let behind = self
            .statuses
            .partition_point(|status| status.span.start <= block);
        let status = self.statuses.get(behind.checked_sub(1)?)?;
        status.span.contains(block).then_some(status)
    }

    /// Whether all blocks are there of the range of this one, and it is being brought to its end.
    fn is_closing(&self, block: u64) -> bool {
        self.status(block).is_some_and(RangeStatus::in_transition)
    }

    /// Whether an object may be touched. What is complete stays as it is, and what failed waits for
    /// an operator. A damaged object in a range that is brought to its end is no longer passed over:
    /// the range fails because of it.
    fn may_touch(&self, name: &str, blocks: &BlockRange) -> bool {
        match self.status(blocks.start).filter(|one| one.closed) {
            Some(status) => status.in_transition(),
            None => !self.skip.contains(name),
        }
    }

    fn next_merge(&self, tier: u8) -> Option<Step> {
        // A group that is being collected; one for each sort of content, since segments of several
        // datasets and scopes may lie side by side, and some with terms of another key.
        let mut groups: Vec<Vec<Arc<SegmentEntry>>> = Vec::new();
        for entry in &self.catalog.segments {
            let facts = &entry.facts;
            let same_sort = |group: &Vec<Arc<SegmentEntry>>| {
                group.last().is_some_and(|last| {
                    last.facts.datasets == facts.datasets
                        && last.facts.scope == facts.scope
                        && last.facts.term_key == facts.term_key
                })
            };
            let mut group = match groups.iter().position(same_sort) {
                Some(at) => groups.swap_remove(at),
                None => Vec::new(),
            };
            let follows = group.last().is_none_or(|last| last.facts.joins(facts));
            let fits = entry.tier == tier && self.may_touch(&entry.object.name, &facts.range);
            if !(follows && fits) {
                if let Some(step) = self.cut_short(&group) {
                    return Some(step);
                }
                group.clear();
            }
            if !fits {
                continue;
            }
            group.push(entry.clone());
            if self.is_full(&group, tier) {
                return merge_of(group);
            }
            groups.push(group);
        }
        groups.iter().find_map(|group| self.cut_short(group))
    }

    /// Whether a group is what the next tier is made of.
    fn is_full(&self, group: &[Arc<SegmentEntry>], tier: u8) -> bool {
        let settings = self.settings;
        let scale = settings.fan_in.saturating_pow(u32::from(tier));
        let weight: u64 = group.iter().map(|entry| entry.facts.weight()).sum();
        let bytes: u64 = group.iter().map(|entry| entry.facts.bytes()).sum();
        let ends = group.last().map(|last| last.facts.range.end);
        weight >= settings.weight.saturating_mul(scale)
            || bytes >= settings.bytes.saturating_mul(scale)
            || ends.is_some_and(|end| settings.boundary_begins(end))
            || group.len() as u64 >= many(settings)
    }

    /// A group that nothing can follow any more, since all blocks of its range are there.
    fn cut_short(&self, group: &[Arc<SegmentEntry>]) -> Option<Step> {
        let last = group.last()?;
        self.is_closing(last.facts.range.start)
            .then(|| merge_of(group.to_vec()))?
    }

    /// Runs of ranges that are still being written, merged geometrically.
    fn next_runs(&self) -> Option<Step> {
        let fan_in = usize::try_from(self.settings.fan_in)
            .unwrap_or(usize::MAX)
            .max(2);
        let geometry = self.settings.geometry();
        let mut group: Vec<Arc<RunEntry>> = Vec::new();
        let open = |run: &&Arc<RunEntry>| {
            self.may_touch(&run.object.name, &run.range) && !self.is_closing(run.range.start)
        };
        for run in self.catalog.runs.iter().filter(open) {
            let follows = group.last().is_none_or(|last| {
                last.tier == run.tier
                    && last.range.end == run.range.start
                    && geometry.id_of(last.range.start) == geometry.id_of(run.range.start)
            });
            if !follows {
                group.clear();
            }
            group.push(run.clone());
            if group.len() == fan_in {
                return Some(Step::MergeRuns(group));
            }
        }
        None
    }

    /// Packs that lie side by side in one range and hold the same are joined until they are large
    /// enough, or until something else follows, or their range ends.
    fn next_batch_packs(&self) -> Option<Step> {
        let touchable = |pack: &Arc<PackEntry>| self.may_touch(&pack.object.name, &pack.range);
        // One that cannot be read parts what lies before it from what follows.
        let side_by_side = |a: &Arc<PackEntry>, b: &Arc<PackEntry>| {
            a.range.end == b.range.start
                && a.content == b.content
                && !self.settings.range_begins(a.range.end)
                && touchable(a)
                && touchable(b)
        };
        let last = self.batch_packs.last()?.range.end;
        for group in self.batch_packs.chunk_by(side_by_side) {
            let (Some(first), Some(end)) = (group.first(), group.last()) else {
                continue;
            };
            if !touchable(first) {
                continue;
            }
            let (start, end) = (first.range.start, end.range.end);
            let bytes: u64 = group.iter().map(|pack| pack.object.len).sum();
            // A range may end without packs, where what lies in them is not kept any more.
            let over = end != last || self.settings.range_begins(end) || self.is_closing(start);
            if over || bytes >= self.settings.pack_bytes {
                return Some(Step::FinishPack(group.to_vec()));
            }
            if group.len() > self.settings.batches_max {
                return Some(Step::JoinPacks(group.to_vec()));
            }
        }
        None
    }

    /// Finished packs that are too small to stay alone: those of small fills.
    fn next_small_packs(&self) -> Option<Step> {
        let geometry = self.settings.geometry();
        let same_range = |a: &Arc<PackEntry>, b: &Arc<PackEntry>| {
            geometry.id_of(a.range.start) == geometry.id_of(b.range.start)
        };
        for packs in self.catalog.packs.chunk_by(same_range) {
            // The first may begin below everything that was not pruned.
            let closing = packs.iter().any(|pack| self.is_closing(pack.range.start));
            let touchable = |pack: &&Arc<PackEntry>| self.may_touch(&pack.object.name, &pack.range);
            let packs: Vec<_> = packs.iter().filter(touchable).cloned().collect();
            let group = small_packs(&packs, self.settings, closing);
            if !group.is_empty() {
                return Some(Step::FinishPack(group));
            }
        }
        None
    }

    /// A segment whose transactions were never counted: one of an older version, or of a rebuilt state.
    fn next_uncounted(&self) -> Option<Step> {
        let mut uncounted = self.catalog.segments.iter().filter(|entry| {
            entry.keys.is_none() && self.may_touch(&entry.object.name, &entry.facts.range)
        });
        uncounted.next().cloned().map(Step::Count)
    }

    /// The last steps of a range whose segments and packs are done.
    fn next_of_range(&self, status: &RangeStatus) -> Option<Step> {
        let span = status.span;
        let inside = |run: &&Arc<RunEntry>| run.range.intersect(&span).is_some();
        let mut runs = self.catalog.runs.iter().filter(inside);
        match status.txhash {
            TxHashPhase::BuildingIndex => {
                if let Some(gap) = Covering::of(span, &self.catalog.runs).gap {
                    return Some(Step::MakeRun(gap));
                }
                let at_once = usize::try_from(many(self.settings)).unwrap_or(usize::MAX);
                let runs: Vec<_> = runs.take(at_once).cloned().collect();
                (runs.len() > 1).then_some(Step::MergeRuns(runs))
            }
            TxHashPhase::VerifyingIndex if status.ledger == LedgerPhase::Immutable => {
                Some(Step::Verify(span, runs.next()?.clone()))
            }
            _ => None,
        }
    }
}

fn merge_of(group: Vec<Arc<SegmentEntry>>) -> Option<Step> {
    match group.as_slice() {
        [] => None,
        [only] => Some(Step::Promote(only.clone())),
        _ => Some(Step::Merge(group)),
    }
}
