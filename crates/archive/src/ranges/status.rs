//! Where each range is in its life: a pure function of what state and catalog name.

use std::sync::Arc;

use chronolith_model::BlockRange;

use super::geometry::{Geometry, LedgerPhase, RangeState, TxHashPhase};
use crate::settings::SealSettings;
use crate::state::catalog::{Catalog, PackEntry, RunEntry, SegmentEntry};
use crate::state::coverage::without_packs;
use crate::state::record::State;

/// Neighbours that are put together although they are not heavy enough: this many times `fan_in`.
/// What ingest seals never comes to that many; small fills do.
const MANY: u64 = 4;

/// Where one range is. Only ranges with archived blocks have one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct RangeStatus {
    pub(crate) id: u64,
    /// The blocks of the range, without those below the first block of the archive.
    pub(crate) span: BlockRange,
    pub(crate) blocks: u64,
    /// The block after the last one up to which none is missing.
    pub(crate) prefix_end: u64,
    /// No block is missing, and no payload that its segments keep.
    pub(crate) closed: bool,
    /// The journal records its one run as verified.
    pub(crate) verified: bool,
    pub(crate) failed: bool,
    /// Segments, packs and runs are in their last form.
    pub(crate) ledger: LedgerPhase,
    pub(crate) txhash: TxHashPhase,
    /// Some segment still has a table of its own.
    pub(crate) tables: bool,
    /// Some segment or pack is to be put together with others.
    pub(crate) loose: bool,
}

impl RangeStatus {
    pub(crate) fn empty(id: u64, span: BlockRange) -> Self {
        Self {
            id,
            span,
            prefix_end: span.start,
            ..Self::default()
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.ledger == LedgerPhase::Immutable && self.txhash == TxHashPhase::Complete
    }

    /// Its transition is due and nothing is in its way.
    pub(crate) fn in_transition(&self) -> bool {
        self.closed && !self.failed && !self.is_complete()
    }

    pub(crate) fn state(&self) -> RangeState {
        match () {
            () if self.failed => RangeState::Failed,
            () if !self.closed => RangeState::Ingesting,
            () if self.is_complete() => RangeState::Complete,
            () => RangeState::Transitioning,
        }
    }

    /// Takes note of archived blocks, this many of them new.
    fn take_blocks(&mut self, part: BlockRange, new: u64) {
        self.blocks += new;
        if part.start <= self.prefix_end {
            self.prefix_end = self.prefix_end.max(part.end);
        }
    }

    /// Takes note of blocks whose payload is missing: what is archived of them is not all.
    fn take_bare(&mut self, bare: &[BlockRange]) {
        let behind = bare.partition_point(|bare| bare.end <= self.span.start);
        if let Some(bare) = bare.get(behind) {
            self.prefix_end = self.prefix_end.min(bare.start.max(self.span.start));
        }
    }

    /// Draws the conclusions, once everything was looked at.
    fn conclude(&mut self, covered_by: &Covering) {
        if !self.closed {
            return;
        }
        self.txhash = match () {
            () if self.tables => TxHashPhase::Compacting,
            () if !covered_by.is_one() => TxHashPhase::BuildingIndex,
            () if !self.verified => TxHashPhase::VerifyingIndex,
            () => TxHashPhase::Complete,
        };
        // A range that was verified stays as it is, whatever the settings are now.
        let done = self.txhash == TxHashPhase::Complete;
        self.ledger = match done || !(self.loose || self.tables) {
            true => LedgerPhase::Immutable,
            false => LedgerPhase::Merging,
        };
    }
}

/// Where every range with archived blocks is, in order.
pub(crate) fn range_statuses(
    state: &State,
    catalog: &Catalog,
    geometry: Geometry,
    settings: &SealSettings,
) -> Vec<RangeStatus> {
    let mut segments: Vec<&Arc<SegmentEntry>> =
        catalog.segments.iter().chain(&state.batches).collect();
    segments.sort_by_key(|entry| entry.facts.range.start);
    let base = segments.first().map_or(0, |entry| entry.facts.range.start);
    let mut statuses: Vec<RangeStatus> = Vec::new();
    let mut behind = 0;
    for entry in &segments {
        let range = entry.facts.range;
        for part in parts(geometry, range) {
            let status = status_of(&mut statuses, geometry, part, base);
            let new = BlockRange::new(part.start.max(behind), part.end);
            status.take_blocks(part, new.len());
            status.tables |= entry.tier <= 1;
            status.loose |= entry.tier < last_tier(settings);
        }
        behind = behind.max(range.end);
    }
    let packs = catalog.packs.iter().chain(&state.batch_packs);
    let bare = without_packs(&segments, packs);
    for status in &mut statuses {
        status.take_bare(&bare);
        status.closed = status.prefix_end == geometry.blocks_of(status.id).end;
        let covering = Covering::of(status.span, &catalog.runs);
        let record = catalog.journal.records.get(&status.id);
        let verified = record.and_then(|record| record.verified.as_ref());
        status.failed = status.closed && record.is_some_and(|record| record.failure.is_some());
        status.verified = verified.is_some_and(|verified| {
            covering.is_one()
                && covering.last.as_deref() == Some(&verified.run)
                && verified.blocks.covers(&status.span)
        });
        // Packs of a range that was verified stay as they are, whatever the settings are now.
        if status.closed && !status.verified {
            status.loose |= has_loose_packs(status.span, state, catalog, settings);
        }
        status.conclude(&covering);
    }
    statuses
}

/// The tier that segments of a complete range reach. Their hashes are in a run from the second on.
pub(crate) fn last_tier(settings: &SealSettings) -> u8 {
    settings.merge_tiers.max(1).saturating_add(1)
}

/// The parts of some blocks that lie in ranges of their own.
fn parts(geometry: Geometry, blocks: BlockRange) -> impl Iterator<Item = BlockRange> {
    let mut at = blocks.start.max(geometry.first);
    std::iter::from_fn(move || {
        let id = geometry.id_of(at).filter(|_| at < blocks.end)?;
        let part = BlockRange::new(at, geometry.blocks_of(id).end.min(blocks.end));
        at = part.end;
        (!part.is_empty()).then_some(part)
    })
}

/// The status of the range that holds these blocks, which is made where there is none yet.
fn status_of(
    statuses: &mut Vec<RangeStatus>,
    geometry: Geometry,
    part: BlockRange,
    base: u64,
) -> &mut RangeStatus {
    let id = geometry.id_of(part.start);
    let id = id.expect("parts are cut at the borders of ranges, the first block's among them");
    let found = statuses.binary_search_by_key(&id, |status| status.id);
    let at = found.unwrap_or_else(|at| {
        let blocks = geometry.blocks_of(id);
        let span = BlockRange::new(blocks.start.max(base), blocks.end);
        statuses.insert(at, RangeStatus::empty(id, span));
        at
    });
    let status = statuses.get_mut(at);
    status.expect("the status was found or inserted at this place")
}

/// Whether some pack of these blocks is not finished, or is to be put together with others.
fn has_loose_packs(
    span: BlockRange,
    state: &State,
    catalog: &Catalog,
    settings: &SealSettings,
) -> bool {
    let inside = |pack: &Arc<PackEntry>| pack.range.intersect(&span).is_some();
    if state.batch_packs.iter().any(inside) {
        return true;
    }
    // They are sorted by their first block, and few are longer than others.
    let packs = &catalog.packs;
    let behind = packs.partition_point(|pack| pack.range.start < span.end);
    let before = packs.partition_point(|pack| pack.range.start < span.start);
    let packs = packs.get(before..behind.max(before));
    let packs = packs.expect("partition points lie in their slice");
    !small_packs(packs, settings, true).is_empty()
}

/// The first finished packs that are to become one: small neighbours that hold the same, as soon as
/// they are enough together, or many, or nothing more can come between them.
pub(crate) fn small_packs(
    packs: &[Arc<PackEntry>],
    settings: &SealSettings,
    closed: bool,
) -> Vec<Arc<PackEntry>> {
    let is_small = |pack: &PackEntry| pack.object.len < settings.pack_bytes / 2;
    let side_by_side = |a: &Arc<PackEntry>, b: &Arc<PackEntry>| {
        a.range.end == b.range.start && a.content == b.content && is_small(a) && is_small(b)
    };
    for group in packs.chunk_by(side_by_side).filter(|group| group.len() > 1) {
        let mut bytes = 0;
        let mut taken = Vec::new();
        for pack in group {
            bytes += pack.object.len;
            taken.push(pack.clone());
            if bytes >= settings.pack_bytes || taken.len() as u64 >= many(settings) {
                return taken;
            }
        }
        if closed {
            return taken;
        }
    }
    Vec::new()
}

/// How many light neighbours are too many.
pub(crate) fn many(settings: &SealSettings) -> u64 {
    settings.fan_in.max(2).saturating_mul(MANY)
}

/// How runs cover some blocks.
#[derive(Debug)]
pub(crate) struct Covering {
    /// Runs with blocks among them.
    count: usize,
    last: Option<String>,
    /// The first blocks that no run covers.
    pub(crate) gap: Option<BlockRange>,
}

impl Covering {
    pub(crate) fn of(span: BlockRange, runs: &[Arc<RunEntry>]) -> Self {
        let (mut count, mut last, mut at, mut gap) = (0, None, span.start, None);
        // They are sorted by their first block.
        for run in runs
            .iter()
            .filter(|run| run.range.intersect(&span).is_some())
        {
            if run.range.start > at && gap.is_none() {
                gap = Some(BlockRange::new(at, run.range.start));
            }
            at = at.max(run.range.end);
            (count, last) = (count + 1, Some(run.object.name.clone()));
        }
        if at < span.end && gap.is_none() {
            gap = Some(BlockRange::new(at, span.end));
        }
        Self { count, last, gap }
    }

    /// Whether one run covers everything.
    pub(crate) fn is_one(&self) -> bool {
        self.count == 1 && self.gap.is_none()
    }
}
