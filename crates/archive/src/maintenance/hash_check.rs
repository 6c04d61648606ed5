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

/// One of a power of two of equal parts of all hashes, by their first bits.
#[derive(Clone, Copy)]
pub(crate) struct Slice {
    number: u64,
    bits: u32,
}

impl Slice {
    /// The slices of this many hashes: each holds about `at_once` of them, or fewer.
    pub(crate) fn all(hashes: u64, at_once: u64) -> impl Iterator<Item = Self> {
        let slices = hashes.div_ceil(at_once.max(1)).next_power_of_two();
        let bits = slices.trailing_zeros();
        (0..slices).map(move |number| Self { number, bits })
    }

    fn contains(self, prefix: u64) -> bool {
        prefix.checked_shr(u64::BITS - self.bits).unwrap_or(0) == self.number
    }
}

/// Those of the segments whose hashes are in no table of their own.
pub(crate) fn merged(segments: &[Arc<SegmentEntry>]) -> Vec<Arc<SegmentEntry>> {
    let merged = segments.iter().filter(|entry| entry.tier > 1);
    merged.cloned().collect()
}

/// The runs that hold exactly the hashes of the segments over their blocks, or of the merged ones among
/// them, and hold blocks that are not among those covered before.
pub(crate) async fn covering_runs(
    objects: &Objects,
    segments: &[Arc<SegmentEntry>],
    runs: &[Arc<RunEntry>],
    mut covered: Vec<BlockRange>,
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
        let known = union(covered.iter().copied());
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
                covered.push(run.range);
                taken.push(run.clone());
            }
            // A damaged one covers nothing.
            Ok(false) | Err(Error::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

/// Objects because of which a hash of these blocks is not found: a run without it, or a segment
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
    let covered = covering_runs(objects, all, &runs, Vec::new()).await?;
    let covered = union(covered.iter().map(|run| run.range));
    let mut found: Vec<DamagedObject> = Vec::new();
    for segment in segments.into_iter().filter(inside) {
        let wanted = segment.facts.range.intersect(range).into_iter();
        for blocks in minus(&wanted.collect::<Vec<_>>(), &covered) {
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
    let others = segments
        .iter()
        .filter(|entry| entry.tier <= 1 && entry.facts.range.intersect(&blocks).is_some());
    let runs = runs
        .iter()
        .filter(|run| run.range.intersect(&blocks).is_some());
    let mut lowest = None;
    for slice in Slice::all(facts.txs + facts.range.len(), KEYS_MAX) {
        let mut wanted = Vec::new();
        collect(objects, (segment, blocks), slice, &mut wanted).await?;
        let mut wanted = sorted(wanted);
        for other in others.clone() {
            let mut held = Vec::new();
            collect(objects, (other, blocks), slice, &mut held).await?;
            let held = sorted(held);
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

/// Adds the hashes of a slice that blocks of a segment have.
pub(crate) async fn collect(
    objects: &Objects,
    (entry, blocks): (&SegmentEntry, BlockRange),
    slice: Slice,
    hashes: &mut Vec<Wanted>,
) -> Result<()> {
    let segment = objects.open(&entry.object).await?;
    let mut reader = BlockHashes::new(objects, &segment);
    let Some(inside) = entry.facts.range.intersect(&blocks) else {
        return Ok(());
    };
    for number in inside.start..inside.end {
        let mut take = |hash: &Hash32| {
            let prefix = hash.prefix64();
            if slice.contains(prefix) {
                hashes.push((prefix, number));
            }
        };
        reader.show(number, &mut take).await?;
    }
    Ok(())
}

pub(crate) fn sorted(mut hashes: Vec<Wanted>) -> Vec<Wanted> {
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Keeps those of the hashes, which are sorted, that a run does not hold with their block.
pub(crate) async fn keep_missing(
    objects: &Objects,
    (run, first_block): (&OpenRun, u64),
    wanted: &mut Vec<Wanted>,
) -> Result<()> {
    let (name, table) = (&run.identity.name, &run.hashes);
    let mut window = Window::new(objects, name, (run.offset, table.section_len()));
    let mut missing = Vec::new();
    let page_of = |wanted: &Wanted| table.page_of(table.key(wanted.0));
    // Keys keep the order of hashes, and pages that of keys.
    for of_page in wanted.chunk_by(|one, next| page_of(one) == page_of(next)) {
        let page = of_page.first().map(page_of);
        let page = page.expect("a chunk has at least one element");
        let mut entries = Vec::new();
        if let Some(place) = table.place(page).filter(|place| place.start < place.end) {
            let bytes = window.slice(place.start, place.end).await?;
            let read = place.verify(&bytes);
            let read = read.and_then(|()| table.entries_of(page, &bytes));
            entries = read.map_err(|damage| Error::damaged(name, damage))?;
        }
        let entry = |&(prefix, number): &Wanted| {
            let offset = number.checked_sub(first_block)?;
            Some((table.key(prefix), offset))
        };
        missing.extend(missing_of(entries, of_page, entry));
    }
    *wanted = missing;
    Ok(())
}

/// Those of the hashes whose entry is not in a page. Entries of one key need not be in the order of their
/// blocks: keys that were longer once were cut.
fn missing_of(
    mut entries: Vec<(u64, u64)>,
    wanted: &[Wanted],
    entry: impl Fn(&Wanted) -> Option<(u64, u64)>,
) -> Vec<Wanted> {
    entries.sort_unstable();
    let is_held = |one: &Wanted| entry(one).is_some_and(|one| entries.binary_search(&one).is_ok());
    wanted.iter().copied().filter(|one| !is_held(one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_key_are_found_in_any_order() {
        let page = vec![(4, 9), (7, 50), (7, 3), (8, 1)];
        let look = |wanted: &[Wanted]| missing_of(page.clone(), wanted, |&wanted| Some(wanted));
        assert_eq!(look(&[(4, 9), (7, 3), (7, 50)]), []);
        assert_eq!(look(&[(7, 50), (8, 1), (11, 2)]), [(11, 2)]);
        assert_eq!(look(&[(7, 3), (7, 4), (7, 50)]), [(7, 4)]);
        assert_eq!(look(&[(9, 1)]), [(9, 1)]);
    }
}
