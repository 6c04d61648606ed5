//! Runs and packs of the segments that are used.
//!
//! Runs are taken if they hold the hashes of their segments, which is checked by reading both. The
//! range that a run names proves nothing: after a change of what is kept, runs over the same blocks lie
//! side by side, and one of them misses hashes that the others hold.

use std::cmp::Reverse;
use std::sync::Arc;

use chronolith_model::BlockRange;

use super::chain::Used;
use super::scan::FoundPart;
use crate::error::{Error, Result};
use crate::maintenance::hash_check::{covering_runs, first_missing, merged};
use crate::read::objects::Objects;
use crate::state::catalog::{PackContent, PackEntry, RunEntry};
use crate::state::coverage::{minus, union};

/// The runs to use. `known` are those that a kept version of the state names: they are taken as they
/// are. Of the others, those that hold exactly the hashes of blocks that no run holds yet.
pub(super) async fn runs_of(
    objects: &Objects,
    used: &Used,
    found: &[FoundPart],
    known: &[Arc<RunEntry>],
) -> Result<Vec<Arc<RunEntry>>> {
    let mut fitting = Vec::new();
    for part in found {
        let is_known = known.iter().any(|run| run.object.name == part.object.name);
        if !is_known && ends_in(objects, part, used).await? {
            fitting.push(Arc::new(RunEntry {
                object: part.object.clone(),
                tier: 1,
                range: part.range,
                last_hash: part.last_hash,
                entries: 0,
            }));
        }
    }
    // Few long runs are better than many short ones.
    fitting.sort_by_key(|run| (Reverse(run.range.len()), run.range.start));
    let covered = known.iter().map(|run| run.range).collect();
    let taken = covering_runs(objects, &used.segments, &fitting, covered).await?;
    let mut taken: Vec<_> = known.iter().cloned().chain(taken).collect();
    let held = union(taken.iter().map(|run| run.range));
    fitting.retain(|run| !minus(&[run.range], &held).is_empty());
    taken.extend(overlapping(objects, used, fitting, &held).await?);
    Ok(taken)
}

/// Runs that hold the hashes of merged segments together: more than is needed is never wrong, since the
/// segment decides what a hash leads to. Where one is missing none of them is taken, so that the segment
/// counts as one without a run.
async fn overlapping(
    objects: &Objects,
    used: &Used,
    mut runs: Vec<Arc<RunEntry>>,
    held: &[BlockRange],
) -> Result<Vec<Arc<RunEntry>>> {
    loop {
        let mut missing = Vec::new();
        for segment in merged(&used.segments) {
            for blocks in minus(&[segment.facts.range], held) {
                let tables = (&used.segments[..], &runs[..]);
                match first_missing(objects, tables, (&segment, blocks)).await {
                    Ok(None) => {}
                    Ok(Some(_)) | Err(Error::Corrupt { .. }) => missing.push(blocks),
                    Err(error) => return Err(error),
                }
            }
        }
        let before = runs.len();
        runs.retain(|run| {
            let mut missing = missing.iter();
            !missing.any(|blocks| run.range.intersect(blocks).is_some())
        });
        // One that is left out may have held what another segment needs.
        if runs.len() == before {
            return Ok(runs);
        }
    }
}

/// The packs to use: `known` ones, and of the others those that hold something of a block that no
/// other holds. They may overlap.
pub(super) async fn packs_of(
    objects: &Objects,
    used: &Used,
    found: &[FoundPart],
    known: Vec<Arc<PackEntry>>,
) -> Result<Vec<Arc<PackEntry>>> {
    let is_known = |part: &FoundPart| {
        let mut names = known.iter().map(|pack| &pack.object.name);
        names.any(|name| *name == part.object.name)
    };
    let mut fitting: Vec<&FoundPart> = Vec::new();
    for part in found.iter().filter(|part| !is_known(part)) {
        if ends_in(objects, part, used).await? && !is_held(part, &known) {
            fitting.push(part);
        }
    }
    fitting.sort_by_key(|part| {
        let datasets = part.content.datasets().bits().count_ones();
        let range = part.range;
        (range.start, Reverse(range.end), Reverse(datasets))
    });
    let mut taken = known;
    // How far those reach that hold the same, and begin no later than the next.
    let mut reached: Vec<(PackContent, u64)> = Vec::new();
    for part in fitting {
        let (content, end) = (&part.content, part.range.end);
        let holds = |held: &(PackContent, u64)| held.0.covers(content) && held.1 >= end;
        if reached.iter().any(holds) {
            continue;
        }
        // It reaches further than all before it.
        reached.retain(|held| held.0 != *content);
        reached.push((content.clone(), end));
        taken.push(Arc::new(PackEntry {
            object: part.object.clone(),
            range: part.range,
            last_hash: part.last_hash,
            content: content.clone(),
        }));
    }
    Ok(taken)
}

/// Whether one of these packs holds all of another.
fn is_held(part: &FoundPart, packs: &[Arc<PackEntry>]) -> bool {
    let holds = |pack: &Arc<PackEntry>| {
        pack.content.covers(&part.content) && pack.range.covers(&part.range)
    };
    packs.iter().any(holds)
}

/// Whether a part ends with a block of the used segments: then all of it is of their chain. Blocks at its
/// beginning may be missing among them.
async fn ends_in(objects: &Objects, part: &FoundPart, used: &Used) -> Result<bool> {
    let Some(number) = part.range.end.checked_sub(1) else {
        return Ok(false);
    };
    let hash = part.last_hash;
    let found = used.holds(objects, chronolith_model::BlockRef { number, hash });
    // Where this is unknown, it is listed as undecided.
    Ok(found.await? == Some(true))
}

/// Merged segments whose hashes no run holds, each with those of its blocks.
pub(super) fn without_run(used: &Used, runs: &[Arc<RunEntry>]) -> Vec<BlockRange> {
    let held = union(runs.iter().map(|run| run.range));
    let ranges = merged(&used.segments);
    let ranges = ranges.iter().map(|entry| entry.facts.range);
    ranges.flat_map(|range| minus(&[range], &held)).collect()
}
