//! A snapshot: one state and everything it names. A reader keeps the one it began with.

use std::sync::{Arc, OnceLock};

use chronolith_model::{BlockRange, BlockRef, Dataset, DatasetSet, LogFilter, Proof, Scope};
use chronolith_store::Version;

use super::catalog::{Catalog, PackEntry, SegmentEntry, order};
use super::coverage::{BodiesOf, PACKED, holding, minus, union};
use super::record::State;
use crate::error::{Error, Result};
use crate::ranges::geometry::{FailedPhase, RangeFailure};
use crate::read::run_set::RunSet;
use crate::write::edit::{catalog_names, state_names};

/// One state and everything it names.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) version: Version,
    pub(crate) state: State,
    pub(crate) catalog: Arc<Catalog>,
    /// Sealed segments and batches, by their first block.
    pub(crate) segments: Vec<Arc<SegmentEntry>>,
    /// The runs, ready to be looked into.
    pub(crate) runs: RunSet,
    /// Blocks of the widest segment: how far to the left of a block its segments can begin.
    widest: u64,
    /// What [`Self::clock_runs`] gives, once it was requested.
    clock_runs: OnceLock<Vec<ClockRun>>,
    /// The blocks of which packs hold each dataset that lies in packs, once it was requested.
    packed: [OnceLock<Vec<BlockRange>>; PACKED.len()],
    /// The first merged segment whose hashes no run holds, or the first range that failed on hashes.
    without_hashes: Option<BlockRange>,
    /// The first segment that does not list all transactions of its blocks, or is the above.
    without_tx_hashes: Option<BlockRange>,
}

/// What a request needs of each block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need<'a> {
    pub(crate) datasets: DatasetSet,
    pub(crate) filter: Option<&'a LogFilter>,
}

impl Need<'_> {
    /// Nothing but the clock.
    pub(crate) const CLOCK: Need<'static> = Need {
        datasets: DatasetSet::CLOCK,
        filter: None,
    };

    fn met_by(&self, entry: &SegmentEntry) -> bool {
        entry.facts.datasets.covers(self.datasets)
            && self
                .filter
                .is_none_or(|filter| entry.facts.scope.proves(filter))
    }
}

/// A segment and the blocks of it that a request looks at.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) entry: Arc<SegmentEntry>,
    pub(crate) range: BlockRange,
}

/// Covered blocks up to the next gap, and the segments to read their times from.
#[derive(Debug)]
pub(crate) struct ClockRun {
    pub(crate) range: BlockRange,
    pub(crate) pieces: Vec<Piece>,
    /// For each piece, the latest time of its blocks and of all covered ones before it. It never
    /// falls, whatever times do.
    pub(crate) reached: Vec<u64>,
}

impl Snapshot {
    pub(crate) fn new(version: Version, state: State, catalog: Arc<Catalog>) -> Self {
        let mut segments: Vec<_> = catalog
            .segments
            .iter()
            .chain(&state.batches)
            .cloned()
            .collect();
        segments.sort_by(|a, b| order(a, b));
        let without_hashes = merged_without_run(&segments, &catalog);
        let without_hashes = without_hashes.or_else(|| failed_range(&segments, &catalog));
        let facts = || segments.iter().map(|entry| &entry.facts);
        let listing = facts().filter(|facts| facts.datasets.contains(Dataset::TxHashes));
        // One that lists few may lie beside one that lists all.
        let partial = minus(
            &union(facts().map(|facts| facts.range)),
            &union(listing.map(|facts| facts.range)),
        );
        Self {
            version,
            clock_runs: OnceLock::new(),
            runs: RunSet::new(&catalog.runs),
            packed: Default::default(),
            without_hashes,
            without_tx_hashes: without_hashes.or(partial.first().copied()),
            widest: segments
                .iter()
                .map(|entry| entry.facts.range.len())
                .max()
                .unwrap_or(0),
            state,
            catalog,
            segments,
        }
    }

    /// Names of everything that state and catalog hold.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        catalog_names(&self.catalog).chain(state_names(&self.state))
    }

    /// The newest block of the live run.
    pub(crate) fn head(&self) -> Option<BlockRef> {
        self.state.live.map(|live| live.head)
    }

    /// The covered blocks from the first one on, up to the first gap.
    pub(crate) fn covered_prefix(&self) -> Option<BlockRange> {
        let mut prefix: Option<BlockRange> = None;
        for entry in &self.segments {
            let range = entry.facts.range;
            match &mut prefix {
                None => prefix = Some(range),
                Some(prefix) if range.start <= prefix.end => prefix.end = prefix.end.max(range.end),
                Some(_) => break,
            }
        }
        prefix
    }

    /// All covered blocks, and the segments to read their times from. Made once: a lookup by time
    /// takes less than a microsecond, and going through all segments takes longer.
    pub(crate) fn clock_runs(&self) -> &[ClockRun] {
        self.clock_runs.get_or_init(|| {
            let mut runs: Vec<ClockRun> = Vec::new();
            let (mut at, mut latest) = (0, 0);
            for segment in &self.segments {
                at = segment.facts.range.start.max(at);
                while let Some(entry) = self.best_at(at, &Need::CLOCK) {
                    let range = BlockRange::new(at, entry.facts.range.end);
                    let entry = entry.clone();
                    at = range.end;
                    latest = entry.facts.latest_timestamp.max(latest);
                    match runs.last_mut().filter(|last| last.range.end == range.start) {
                        Some(last) => {
                            last.range.end = range.end;
                            last.pieces.push(Piece { entry, range });
                            last.reached.push(latest);
                        }
                        None => runs.push(ClockRun {
                            range,
                            pieces: vec![Piece { entry, range }],
                            reached: vec![latest],
                        }),
                    }
                }
            }
            runs
        })
    }

    /// Blocks whose hashes cannot be looked up: after a rebuild from a store that had lost them, and
    /// where their range failed before every hash was found in its run.
    pub(crate) fn without_hashes(&self) -> Option<BlockRange> {
        self.without_hashes
    }

    /// Blocks whose transactions cannot be looked up by hash.
    pub(crate) fn without_tx_hashes(&self) -> Option<BlockRange> {
        self.without_tx_hashes
    }

    /// The segments that hold a block.
    pub(crate) fn holding(&self, number: u64) -> impl Iterator<Item = &Arc<SegmentEntry>> {
        let behind = self
            .segments
            .partition_point(|entry| entry.facts.range.start <= number);
        let before = self.segments.iter().take(behind).rev();
        before
            .take_while(move |entry| entry.facts.range.start + self.widest > number)
            .filter(move |entry| entry.facts.range.contains(number))
    }

    /// Packs, sealed and not.
    pub(crate) fn packs(&self) -> impl Iterator<Item = &Arc<PackEntry>> {
        self.catalog.packs.iter().chain(&self.state.batch_packs)
    }

    /// The pieces that hold every block of the range with what is needed, in order.
    ///
    /// # Errors
    /// `NotCovered` where any block is missing: a shorter answer would be wrong.
    pub(crate) fn select(&self, range: &BlockRange, need: &Need<'_>) -> Result<Vec<Piece>> {
        self.select_by(range, need, |at| self.best_at(at, need))
    }

    /// The same, with segments that lie whole in the range wherever there are such.
    ///
    /// # Errors
    /// `NotCovered` where any block is missing.
    pub(crate) fn select_whole(&self, range: &BlockRange, need: &Need<'_>) -> Result<Vec<Piece>> {
        let pick = |at: u64| {
            let holding = self.holding(at).filter(|entry| need.met_by(entry));
            holding.max_by_key(|entry| (entry.facts.range.start == at, entry.facts.range.end))
        };
        self.select_by(range, need, pick)
    }

    fn select_by<'a>(
        &self,
        range: &BlockRange,
        need: &Need<'_>,
        pick: impl Fn(u64) -> Option<&'a Arc<SegmentEntry>>,
    ) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let Some(entry) = pick(at) else {
                return Err(self.not_covered(range, at, need));
            };
            let end = entry.facts.range.end.min(range.end);
            pieces.push(Piece {
                entry: entry.clone(),
                range: BlockRange::new(at, end),
            });
            at = end;
        }
        Ok(pieces)
    }

    /// Of the segments that hold the block and meet the need, the one that reaches furthest.
    pub(crate) fn best_at(&self, number: u64, need: &Need<'_>) -> Option<&Arc<SegmentEntry>> {
        self.furthest(number, |entry| need.met_by(entry))
    }

    /// Of the segments that hold the block with these datasets and all logs of this scope, the one that
    /// reaches furthest.
    pub(crate) fn best_kept(
        &self,
        number: u64,
        datasets: DatasetSet,
        scope: &Scope,
    ) -> Option<&Arc<SegmentEntry>> {
        self.furthest(number, |entry| keeps(entry, datasets, scope))
    }

    fn furthest(
        &self,
        number: u64,
        meets: impl Fn(&SegmentEntry) -> bool,
    ) -> Option<&Arc<SegmentEntry>> {
        let holding = self.holding(number).filter(|entry| meets(entry));
        holding.max_by_key(|entry| entry.facts.range.end)
    }

    /// The lowest proof of a block in the segments that meet the need.
    pub(crate) fn proof_of(&self, number: u64, need: &Need<'_>) -> Option<Proof> {
        let holding = self.holding(number).filter(|entry| need.met_by(entry));
        let block = BlockRange::one(number);
        let levels = holding.filter_map(|entry| entry.facts.level_within(&block));
        levels.reduce(Proof::lower)
    }

    /// Intervals in which the need is met, with what was proven of each.
    pub(crate) fn coverage(&self, need: &Need<'_>) -> Vec<(BlockRange, Proof)> {
        let covered = self.covered_by(|entry| need.met_by(entry));
        let bodies = match need.filter {
            Some(filter) if need.datasets.bodies_by_logs() => BodiesOf::Filter(filter),
            _ => BodiesOf::All,
        };
        self.with_packs(covered, (need.datasets, bodies))
    }

    /// Intervals that are archived with these datasets and all logs of this scope, with their levels.
    pub(crate) fn kept(&self, datasets: DatasetSet, scope: &Scope) -> Vec<(BlockRange, Proof)> {
        let covered = self.covered_by(|entry| keeps(entry, datasets, scope));
        self.with_packs(covered, (datasets, BodiesOf::kept(datasets, scope)))
    }

    /// Blocks of these, in order and without overlap, of which packs do not hold all of these datasets
    /// that belong into packs.
    fn bare(
        &self,
        wanted: &[BlockRange],
        (datasets, bodies): (DatasetSet, BodiesOf<'_>),
    ) -> Vec<BlockRange> {
        let open = PACKED.into_iter().zip(&self.packed);
        let open = open.filter(|(dataset, _)| datasets.contains(*dataset));
        let open = open.flat_map(|(dataset, held)| {
            if dataset == Dataset::Transactions && !matches!(bodies, BodiesOf::All) {
                return minus(wanted, &holding(self.packs(), dataset, bodies));
            }
            let held = held.get_or_init(|| holding(self.packs(), dataset, BodiesOf::All));
            minus(wanted, held)
        });
        union(open)
    }

    /// What remains of intervals without the blocks whose payload is in no pack.
    fn with_packs(
        &self,
        covered: Vec<(BlockRange, Proof)>,
        wanted: (DatasetSet, BodiesOf<'_>),
    ) -> Vec<(BlockRange, Proof)> {
        let ranges: Vec<BlockRange> = covered.iter().map(|(range, _)| *range).collect();
        let bare = self.bare(&ranges, wanted);
        if bare.is_empty() {
            return covered;
        }
        let parts = covered.into_iter().flat_map(|(range, level)| {
            let parts = minus(&[range], &bare).into_iter();
            parts.map(move |part| (part, level))
        });
        parts.collect()
    }

    fn covered_by(&self, meets: impl Fn(&SegmentEntry) -> bool) -> Vec<(BlockRange, Proof)> {
        let mut covered: Vec<(BlockRange, Proof)> = Vec::new();
        for entry in self.segments.iter().filter(|entry| meets(entry)) {
            let mut start = entry.facts.range.start;
            for &(end, level) in &entry.facts.levels {
                let reached = covered.last().map_or(0, |(last, _)| last.end);
                match covered.last_mut() {
                    Some((last, known)) if *known == level && start <= last.end => {
                        last.end = last.end.max(end);
                    }
                    _ if end <= reached => {}
                    _ => covered.push((BlockRange::new(start.max(reached), end), level)),
                }
                start = end;
            }
        }
        covered
    }

    /// The most that was proven of blocks of a range in segments that keep exactly these datasets.
    pub(crate) fn highest_level(&self, range: &BlockRange, datasets: DatasetSet) -> Option<Proof> {
        let mut highest: Option<Proof> = None;
        let facts = self.segments.iter().map(|entry| &entry.facts);
        for facts in facts.filter(|facts| facts.datasets == datasets) {
            let mut start = facts.range.start;
            for &(end, level) in &facts.levels {
                if BlockRange::new(start, end).intersect(range).is_some() {
                    highest = Some(highest.map_or(level, |so_far| so_far.higher(level)));
                }
                start = end;
            }
        }
        highest
    }

    /// The blocks of a range that no segment holds with these datasets and all logs of this scope, or
    /// whose payload is in no pack.
    pub(crate) fn missing(
        &self,
        range: BlockRange,
        datasets: DatasetSet,
        scope: &Scope,
    ) -> Vec<BlockRange> {
        let holding = self
            .segments
            .iter()
            .filter(|entry| keeps(entry, datasets, scope));
        let held = union(holding.map(|entry| entry.facts.range));
        let missing = minus(&[range], &held);
        let bare = self.bare(&[range], (datasets, BodiesOf::kept(datasets, scope)));
        union(missing.into_iter().chain(bare))
    }

    fn not_covered(&self, range: &BlockRange, at: u64, need: &Need<'_>) -> Error {
        let next = self.segments.iter().filter(|entry| need.met_by(entry));
        let next = next
            .map(|entry| entry.facts.range.start)
            .filter(|&start| start > at)
            .min();
        let missing = BlockRange::new(at, next.unwrap_or(range.end).min(range.end));
        let mut covered = BlockRange::new(at, at);
        for (interval, _) in self.coverage(need) {
            if interval.start <= at {
                let joined = covered.end == interval.start && !covered.is_empty();
                covered = BlockRange::new(
                    if joined {
                        covered.start
                    } else {
                        interval.start
                    },
                    interval.end,
                );
            } else if covered.is_empty() {
                covered = interval;
            }
        }
        Error::NotCovered { missing, covered }
    }
}

/// Whether a segment keeps these datasets and all logs of this scope.
fn keeps(entry: &SegmentEntry, datasets: DatasetSet, scope: &Scope) -> bool {
    let kept = &entry.facts.scope;
    entry.facts.datasets.covers(datasets) && (*kept == Scope::All || kept == scope)
}

/// The first merged segment whose hashes no run holds.
fn merged_without_run(segments: &[Arc<SegmentEntry>], catalog: &Catalog) -> Option<BlockRange> {
    let covered = |range: &BlockRange| {
        let mut at = range.start;
        for run in &catalog.runs {
            if run.range.contains(at) {
                at = run.range.end;
            }
        }
        at >= range.end
    };
    let merged = segments.iter().filter(|entry| entry.tier > 1);
    merged
        .map(|entry| entry.facts.range)
        .find(|range| !covered(range))
}

/// The archived blocks of the first range that failed while its hashes were put into a run or looked
/// up there: a hash that is not found may be missing from the run.
fn failed_range(segments: &[Arc<SegmentEntry>], catalog: &Catalog) -> Option<BlockRange> {
    let geometry = catalog.journal.geometry?;
    let on_hashes = |failure: &RangeFailure| failure.phase != FailedPhase::Merging;
    let failed = catalog.journal.records.iter();
    let mut failed = failed.filter(|(_, record)| record.failure.as_ref().is_some_and(on_hashes));
    failed.find_map(|(id, _)| {
        let blocks = geometry.blocks_of(*id);
        let inside = segments
            .iter()
            .filter_map(|entry| entry.facts.range.intersect(&blocks));
        union(inside).first().copied()
    })
}
