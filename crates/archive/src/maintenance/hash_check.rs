//! Whether runs hold the hashes of merged segments, which have no table of their own.
//!
//! Nearly always a run holds the hashes of its segments and nothing else, which is seen by reading both
//! once. Where it is not so, every hash is looked up.

use std::sync::Arc;

use chronolith_model::{BlockRange, Hash32};

use super::verify_run::holds_exactly;
use crate::error::{Error, Result};
use crate::read::objects::{Objects, OpenRun};
use crate::read::segment_hashes::BlockHashes;
use crate::read::window::Window;
use crate::state::catalog::{RunEntry, SegmentEntry};
use crate::state::coverage::{minus, union};
use crate::state::snapshot::Snapshot;
use crate::tools::inspect::{DamagedObject, Entry};

/// Hashes that are looked up at once.
const KEYS_MAX: u64 = 1 << 22;

/// A hash, as far as tables know it, and the block it must lead to.
type Wanted = (u64, u64);

/// Those of the segments whose hashes are in no table of their own.
pub(crate) fn merged(segments: &[Arc<SegmentEntry>]) -> Vec<Arc<SegmentEntry>> {
    let merged = segments.iter().filter(|entry| entry.tier > 1);
    merged.cloned().collect()
}

/// The runs that hold exactly the hashes of the segments over their blocks, or of the merged ones among
/// them, and hold blocks that are not among those shown before.
pub(crate) async fn shown_by_runs(
    objects: &Objects,
    segments: &[Arc<SegmentEntry>],
    runs: &[Arc<RunEntry>],
    mut shown: Vec<BlockRange>,
) -> Result<Vec<Arc<RunEntry>>> {
    let mut taken = Vec::new();
    for run in runs {
        let inside = |entry: &&Arc<SegmentEntry>| entry.facts.range.intersect(&run.range).is_some();
        let all: Vec<_> = segments.iter().filter(inside).cloned().collect();
        let merged = merged(&all);
        let wanted = union(merged.iter().map(|entry| entry.facts.range));
        let wanted: Vec<BlockRange> = wanted
            .iter()
            .filter_map(|range| range.intersect(&run.range))
            .collect();
        let known = union(shown.iter().copied());
        if minus(&wanted, &known).is_empty() {
            continue;
        }
        let exact = async {
            let open = objects.open_run(&run.object).await?;
            let of_all = holds_exactly(objects, &all, (&open, run.range)).await?;
            if of_all || merged.len() == all.len() {
                return Ok(of_all);
            }
            holds_exactly(objects, &merged, (&open, run.range)).await
        };
        match exact.await {
            Ok(true) => {
                shown.push(run.range);
                taken.push(run.clone());
            }
            // A damaged one shows nothing.
            Ok(false) | Err(Error::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

/// Objects by whose fault a hash of these blocks would not be found: a run that lacks it, or a segment
/// without a run. What is damaged is passed over: it is found by reading it.
pub(crate) async fn missing(
    objects: &Objects,
    snapshot: &Snapshot,
    range: &BlockRange,
) -> Result<Vec<DamagedObject>> {
    let runs = snapshot.catalog.runs.iter();
    let runs = runs.filter(|run| run.range.intersect(range).is_some());
    let runs: Vec<Arc<RunEntry>> = runs.cloned().collect();
    let inside = |entry: &Arc<SegmentEntry>| entry.facts.range.intersect(range).is_some();
    let all = &snapshot.segments;
    let segments: Vec<_> = merged(all);
    let shown = shown_by_runs(objects, all, &runs, Vec::new()).await?;
    let shown = union(shown.iter().map(|run| run.range));
    let mut found: Vec<DamagedObject> = Vec::new();
    for segment in segments.into_iter().filter(inside) {
        let wanted = segment.facts.range.intersect(range).into_iter();
        for blocks in minus(&wanted.collect::<Vec<_>>(), &shown) {
            let missing = first_missing(objects, (all, &runs), (&segment, blocks)).await;
            let number = match missing {
                Ok(Some(number)) => number,
                Ok(None) | Err(Error::Corrupt { .. }) => continue,
                Err(error) => return Err(error),
            };
            let damaged = fault(snapshot, &segment, number);
            if found.iter().all(|known| known.object != damaged.object) {
                found.push(damaged);
            }
        }
    }
    Ok(found)
}

/// The object that ought to hold the hashes of a block.
fn fault(snapshot: &Snapshot, segment: &Arc<SegmentEntry>, number: u64) -> DamagedObject {
    let mut runs = snapshot.catalog.runs.iter();
    let (entry, reason) = match runs.find(|run| run.range.contains(number)) {
        Some(run) => (
            Entry::Run(run.clone()),
            format!("it lacks a hash of block {number}"),
        ),
        None => (
            Entry::Segment(segment.clone()),
            format!("no run holds the hashes of block {number}"),
        ),
    };
    DamagedObject {
        object: entry.described(),
        reason,
    }
}

/// The first of these blocks of a merged segment of which a hash is in no table. They are taken a slice
/// of the hashes at a time, so that memory does not grow with the segment.
pub(crate) async fn first_missing(
    objects: &Objects,
    (segments, runs): (&[Arc<SegmentEntry>], &[Arc<RunEntry>]),
    (segment, blocks): (&Arc<SegmentEntry>, BlockRange),
) -> Result<Option<u64>> {
    let facts = &segment.facts;
    let slices = (facts.txs + facts.range.len()).div_ceil(KEYS_MAX);
    let slices = slices.next_power_of_two();
    let bits = slices.trailing_zeros();
    let others = segments
        .iter()
        .filter(|entry| entry.tier <= 1 && entry.facts.range.intersect(&blocks).is_some());
    let runs = runs
        .iter()
        .filter(|run| run.range.intersect(&blocks).is_some());
    let mut lowest = None;
    for slice in 0..slices {
        let of_slice = |prefix: u64| bits == 0 || prefix >> (u64::BITS - bits) == slice;
        let mut wanted = hashes_of(objects, segment, blocks, &of_slice).await?;
        for other in others.clone() {
            let held = hashes_of(objects, other, blocks, &of_slice).await?;
            wanted.retain(|one| held.binary_search(one).is_err());
        }
        for run in runs.clone() {
            let open = objects.open_run(&run.object).await?;
            keep_missing(objects, (&open, run.range.start), &mut wanted).await?;
        }
        let missing = wanted.iter().map(|(_, number)| *number).min();
        lowest = [lowest, missing].into_iter().flatten().min();
    }
    Ok(lowest)
}

/// Hashes of blocks of a segment, in order.
async fn hashes_of(
    objects: &Objects,
    entry: &SegmentEntry,
    blocks: BlockRange,
    of_slice: &(impl Fn(u64) -> bool + Sync),
) -> Result<Vec<Wanted>> {
    let segment = objects.open(&entry.object).await?;
    let mut reader = BlockHashes::new(objects, &segment);
    let mut hashes = Vec::new();
    let inside = entry.facts.range.intersect(&blocks);
    let inside = inside.unwrap_or(BlockRange::new(0, 0));
    for number in inside.start..inside.end {
        let mut take = |hash: &Hash32| {
            let prefix = hash.prefix64();
            if of_slice(prefix) {
                hashes.push((prefix, number));
            }
        };
        reader.show(number, &mut take).await?;
    }
    hashes.sort_unstable();
    hashes.dedup();
    Ok(hashes)
}

/// Keeps those of the hashes, which are in order, that a run does not hold with their block.
async fn keep_missing(
    objects: &Objects,
    (run, first_block): (&OpenRun, u64),
    wanted: &mut Vec<Wanted>,
) -> Result<()> {
    let (name, table) = (&run.identity.name, &run.hashes);
    let last = table.place(table.page_count().saturating_sub(1));
    let section = (run.offset, last.map_or(0, |place| place.end));
    let mut window = Window::new(objects, name, section);
    let mut missing = Vec::new();
    let page_of = |wanted: &Wanted| table.page_of(table.key(wanted.0));
    // Keys keep the order of hashes, and pages that of keys.
    for of_page in wanted.chunk_by(|one, next| page_of(one) == page_of(next)) {
        let Some(page) = of_page.first().map(page_of) else {
            continue;
        };
        let mut entries = Vec::new();
        if let Some(place) = table.place(page).filter(|place| place.start < place.end) {
            let bytes = window.slice(place.start, place.end).await?;
            let read = place.verify(&bytes);
            let read = read.and_then(|()| table.entries_of(page, &bytes));
            entries = read.map_err(|damage| Error::damaged(name, damage))?;
        }
        entries.sort_unstable();
        let is_missing = |&(prefix, number): &Wanted| {
            let offset = number.checked_sub(first_block);
            offset.is_none_or(|offset| entries.binary_search(&(table.key(prefix), offset)).is_err())
        };
        missing.extend(of_page.iter().copied().filter(is_missing));
    }
    *wanted = missing;
    Ok(())
}
