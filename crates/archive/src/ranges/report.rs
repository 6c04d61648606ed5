//! Reports on ranges, from one snapshot.

use chronolith_model::{BlockRange, Dataset, DatasetSet};

use super::geometry::{Geometry, LedgerPhase, PartStatus, RangeReport, RangeState, TxHashPhase};
use super::status::{RangeStatus, range_statuses};
use super::tx_counts::TxCounts;
use crate::error::Result;
use crate::read::objects::{Objects, OpenSegment};
use crate::read::window::{STEP_BYTES, Window};
use crate::settings::SealSettings;
use crate::state::coverage::{minus, union};
use crate::state::snapshot::{Need, Piece, Snapshot};

/// How ranges are counted: as the archive's own are, where it has some.
pub(crate) fn geometry(snapshot: &Snapshot, settings: &SealSettings) -> Geometry {
    let written = snapshot.catalog.journal.geometry;
    written.unwrap_or_else(|| settings.geometry())
}

/// Ranges without blocks that are listed between two that have some: with small ranges and blocks far
/// apart there may be more than fit in memory.
const PENDING_MAX: usize = 1024;

/// Every range from the first to the last that has archived blocks, in order. Of very many in a row
/// that have none, the first.
pub(crate) async fn reports(
    objects: &Objects,
    snapshot: &Snapshot,
    settings: &SealSettings,
) -> Vec<RangeReport> {
    let geometry = geometry(snapshot, settings);
    let statuses = range_statuses(&snapshot.state, &snapshot.catalog, geometry, settings);
    let mut reports: Vec<RangeReport> = Vec::with_capacity(statuses.len());
    for status in &statuses {
        let next = reports.last().map_or(status.id, |last| last.id + 1);
        let pending = (next..status.id).take(PENDING_MAX);
        reports.extend(pending.map(|id| RangeReport::pending(geometry, id)));
        let mut report = described(snapshot, status, geometry);
        report.keys = keys_of(objects, snapshot, geometry.blocks_of(status.id)).await;
        reports.push(report);
    }
    reports
}

/// Everything but the counts.
fn described(snapshot: &Snapshot, status: &RangeStatus, geometry: Geometry) -> RangeReport {
    let catalog = &snapshot.catalog;
    let record = catalog.journal.records.get(&status.id).cloned();
    let record = record.unwrap_or_default();
    let blocks = geometry.blocks_of(status.id);
    let inside = |range: &BlockRange| range.intersect(&blocks).is_some();
    let segments = snapshot.segments.iter();
    let segments = segments.filter(|entry| inside(&entry.facts.range));
    let packs = snapshot.packs().filter(|entry| inside(&entry.range));
    let runs = catalog.runs.iter().filter(|entry| inside(&entry.range));
    // What the archive holds of a range may be in its last form, and the range is not complete for all that where
    // its first blocks are not there.
    let is_cut = status.span.start > blocks.start;
    let (state, ledger, txhash) = match status.state() {
        RangeState::Transitioning | RangeState::Complete if is_cut => (
            RangeState::Ingesting,
            LedgerPhase::Ingesting,
            TxHashPhase::Ingesting,
        ),
        state => (state, status.ledger, status.txhash),
    };
    let (ledger_status, txhash_status) = statuses(status, state);
    let begun = status.prefix_end > status.span.start;
    RangeReport {
        state,
        ledger: Some(ledger),
        txhash: Some(txhash),
        last_committed: begun.then(|| status.prefix_end - 1),
        blocks: status.blocks,
        created_at: record.created_at,
        completed_at: record.completed_at.filter(|_| !is_cut),
        transition_started_at: record.started_at,
        ledger_status,
        txhash_status,
        verified_keys: record.verified.map(|verified| verified.keys),
        segments: segments.map(|entry| entry.object.name.clone()).collect(),
        packs: packs.map(|entry| entry.object.name.clone()).collect(),
        runs: runs.map(|entry| entry.object.name.clone()).collect(),
        failure: record.failure.filter(|_| status.failed),
        ..RangeReport::pending(geometry, status.id)
    }
}

/// How far the two parts of a transition are. Nothing is done about a range that failed.
fn statuses(status: &RangeStatus, state: RangeState) -> (Option<PartStatus>, Option<PartStatus>) {
    let open = match state {
        RangeState::Transitioning => PartStatus::InProgress,
        RangeState::Failed => PartStatus::Pending,
        RangeState::Pending | RangeState::Ingesting | RangeState::Complete => return (None, None),
    };
    let part = |done: bool| Some(if done { PartStatus::Complete } else { open });
    (
        part(status.ledger == LedgerPhase::Immutable),
        part(status.txhash == TxHashPhase::Complete),
    )
}

/// The transactions of a range's archived blocks by the first digit of their hashes; none where
/// some segment was not counted yet or cannot be read.
pub(crate) async fn keys_of(
    objects: &Objects,
    snapshot: &Snapshot,
    blocks: BlockRange,
) -> Option<TxCounts> {
    let mut keys = TxCounts::default();
    for piece in pieces(snapshot, blocks)? {
        let whole = piece.range == piece.entry.facts.range;
        let counted = match piece.entry.keys.filter(|_| whole) {
            Some(counted) => counted,
            // Batches are few and small, and so is what is cut.
            None if !whole || piece.entry.tier == 0 => count_piece(objects, &piece).await.ok()?,
            None => return None,
        };
        keys.add(&counted);
    }
    Some(keys)
}

/// The segments to read for the transactions of the blocks that are archived: of each block one that
/// lists all of them, where there is such. None where some block is in no segment: a count of the
/// others would pass for the whole.
fn pieces(snapshot: &Snapshot, blocks: BlockRange) -> Option<Vec<Piece>> {
    let all = Need {
        datasets: DatasetSet::of(&[Dataset::TxHashes]),
        filter: None,
    };
    let listing = snapshot.segments.iter().map(|entry| &entry.facts);
    let listing = listing.filter(|facts| facts.datasets.contains(Dataset::TxHashes));
    let listed = union(listing.filter_map(|facts| facts.range.intersect(&blocks)));
    let mut pieces = Vec::new();
    for run in snapshot.clock_runs() {
        let Some(part) = run.range.intersect(&blocks) else {
            continue;
        };
        let inside: Vec<_> = listed
            .iter()
            .filter_map(|one| one.intersect(&part))
            .collect();
        let others = minus(&[part], &inside).into_iter();
        let wanted = inside.into_iter().map(|range| (range, &all));
        let wanted = wanted.chain(others.map(|range| (range, &Need::CLOCK)));
        for (range, need) in wanted {
            pieces.extend(snapshot.select_whole(&range, need).ok()?);
        }
    }
    Some(pieces)
}

async fn count_piece(objects: &Objects, piece: &Piece) -> Result<TxCounts> {
    let segment = objects.open(&piece.entry.object).await?;
    let mut keys = TxCounts::default();
    for number in piece.range.start..piece.range.end {
        let txs = objects.txs(&segment, number).await?;
        txs.iter().for_each(|tx| keys.count(&tx.hash));
    }
    Ok(keys)
}

/// Counts the transactions of a whole segment, past the cache and in bounded memory.
pub(crate) async fn count_segment(objects: &Objects, segment: &OpenSegment) -> Result<TxCounts> {
    let section = &segment.tables.tx_hashes;
    let mut window = Window::blocked(objects, &segment.identity.name, section);
    let mut keys = TxCounts::default();
    // A step is a whole number of hashes.
    for start in (0..section.len).step_by(STEP_BYTES as usize) {
        let end = (start + STEP_BYTES).min(section.len);
        keys.count_all(&window.slice(start, end).await?);
    }
    Ok(keys)
}
