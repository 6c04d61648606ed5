//! Which segments belong to the archive: those that lead from the anchor backwards, and further
//! islands whose last block is confirmed.
//!
//! A backfill fills several ranges at the same time, and a lost object leaves a gap. What lies below a
//! gap is not linked to the anchor, and is as good as anything above it once its last block is known
//! to be the chain's.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chronolith_model::{
    BlockRange, BlockRef, ChainProfile, DatasetSet, Hash32, Scope, Verification,
};

use super::scan::Found;
use crate::error::{Error, Result};
use crate::read::objects::Objects;
use crate::state::catalog::SegmentEntry;
use crate::state::coverage::{minus, union};

/// Ends of segments that are confirmed by the caller, the newest first; the others are left undecided.
const CONFIRMED_MAX: usize = 1000;

/// Segments that are used, and what they cover.
pub(super) struct Used {
    pub(super) segments: Vec<Arc<SegmentEntry>>,
    names: HashSet<String>,
    /// For each sort of content the blocks that are held with at least that much.
    held: Vec<(DatasetSet, Scope, Vec<BlockRange>)>,
}

impl Used {
    pub(super) fn new(segments: Vec<Arc<SegmentEntry>>) -> Self {
        let names = segments.iter().map(|entry| entry.object.name.clone());
        let names = names.collect();
        let mut used = Self {
            segments,
            names,
            held: Vec::new(),
        };
        used.segments.sort_by_key(|entry| entry.facts.range.start);
        used
    }

    fn take(&mut self, chain: &[&Found]) {
        let entries = chain.iter().map(|found| Arc::new(found.entry.clone()));
        let segments = self.segments.iter().cloned().chain(entries);
        *self = Self::new(segments.collect());
    }

    /// All blocks that are held.
    pub(super) fn blocks(&self) -> Vec<BlockRange> {
        union(self.segments.iter().map(|entry| entry.facts.range))
    }

    /// Whether a segment holds something of a block that no used one holds.
    fn is_missing(&mut self, found: &Found) -> bool {
        let facts = &found.entry.facts;
        if self.names.contains(&found.entry.object.name) {
            return false;
        }
        let sort = |held: &&(DatasetSet, Scope, Vec<BlockRange>)| {
            held.0 == facts.datasets && held.1 == facts.scope
        };
        if !self.held.iter().any(|held| sort(&held)) {
            let holding = self.segments.iter().map(|entry| &entry.facts);
            let holding = holding.filter(|held| {
                held.datasets.covers(facts.datasets)
                    && (held.scope == Scope::All || held.scope == facts.scope)
            });
            let blocks = union(holding.map(|held| held.range));
            self.held
                .push((facts.datasets, facts.scope.clone(), blocks));
        }
        let held = self.held.iter().find(sort);
        !held.is_some_and(|(_, _, blocks)| is_inside(facts.range, blocks))
    }

    /// Whether a block is that of the used segments; none where they do not hold its number.
    pub(super) async fn holds(&self, objects: &Objects, block: BlockRef) -> Result<Option<bool>> {
        let mut found = None;
        for entry in &self.segments {
            let facts = &entry.facts;
            if facts.range.start == block.number + 1 && facts.parent_hash != block.hash {
                return Ok(Some(false));
            }
            if !facts.range.contains(block.number) || found.is_some() {
                continue;
            }
            let clock = async {
                let segment = objects.open(&entry.object).await?;
                objects.clock(&segment, block.number).await
            };
            match clock.await {
                Ok(clock) => found = clock.map(|clock| clock.hash == block.hash),
                // Another segment may hold it.
                Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }
}

/// Whether a range lies in one of these, which are in order and apart.
fn is_inside(range: BlockRange, blocks: &[BlockRange]) -> bool {
    let after = blocks.partition_point(|block| block.start <= range.start);
    let before = after.checked_sub(1).and_then(|at| blocks.get(at));
    before.is_some_and(|block| block.covers(&range))
}

/// Takes every segment below the anchor that holds something more and whose last block is confirmed:
/// by what is used already, or by the caller.
pub(super) async fn take_islands(
    objects: &Objects,
    found: &[Found],
    (used, anchor): (&mut Used, BlockRef),
    profile: &ChainProfile,
    confirm: &impl AsyncFn(BlockRef) -> Result<bool>,
) -> Result<()> {
    let mut known_ends: HashMap<BlockRef, bool> = HashMap::new();
    loop {
        let below = found
            .iter()
            .filter(|found| found.end().number <= anchor.number);
        let mut more: Vec<&Found> = below.filter(|found| used.is_missing(found)).collect();
        more.sort_by_key(|found| (Reverse(found.end().number), found.end().hash));
        let mut confirmed = None;
        for end in more.iter().map(|found| found.end()) {
            let is_theirs = match known_ends.get(&end) {
                Some(&known) => known,
                None => match used.holds(objects, end).await? {
                    Some(holds) => holds,
                    None if known_ends.len() >= CONFIRMED_MAX => false,
                    None => confirm(end).await?,
                },
            };
            known_ends.insert(end, is_theirs);
            if is_theirs {
                confirmed = Some(end);
                break;
            }
        }
        match confirmed {
            Some(end) => used.take(&follow(&more, end, profile)),
            None => return Ok(()),
        }
    }
}

/// Blocks of segments that are not used and that no used one holds, with these segments: not linked to
/// anything, and not confirmed.
pub(super) fn unlinked<'a>(found: &'a [Found], used: &Used) -> Vec<(BlockRange, Vec<&'a Found>)> {
    let held = used.blocks();
    let alone = found
        .iter()
        .filter(|found| !minus(&[found.entry.facts.range], &held).is_empty());
    let alone: Vec<&Found> = alone.collect();
    let ranges = union(alone.iter().map(|found| found.entry.facts.range));
    let island = |range: BlockRange| {
        let inside = alone
            .iter()
            .filter(|found| range.covers(&found.entry.facts.range));
        (range, inside.copied().collect())
    };
    ranges.into_iter().map(island).collect()
}

/// What makes one copy better than another: all logs, more datasets, better proven, longer. Levels count
/// as what they mean in this family, not as they are stored.
fn worth(
    found: &Found,
    profile: &ChainProfile,
) -> (bool, u32, Option<(Verification, Verification)>, u64) {
    let facts = &found.entry.facts;
    let datasets = facts.datasets.bits().count_ones();
    let level = facts.level_within(&facts.range);
    let level = level.map(|proof| profile.reads(proof));
    (
        facts.scope == Scope::All,
        datasets,
        level.map(|proof| (proof.logs(), proof.txs())),
        facts.range.len(),
    )
}

/// How far down each segment leads, through those that end where it begins.
fn reaches<'a>(found: &[&'a Found]) -> HashMap<&'a str, u64> {
    let mut by_end: Vec<&'a Found> = found.to_vec();
    by_end.sort_by_key(|found| found.entry.facts.range.end);
    // The lowest block that a segment with this end leads to.
    let mut lowest: HashMap<(u64, Hash32), u64> = HashMap::new();
    let mut reaches = HashMap::new();
    for found in by_end {
        let facts = &found.entry.facts;
        let below = lowest.get(&(facts.range.start, facts.parent_hash));
        let reach = below.copied().unwrap_or(facts.range.start);
        let end = lowest
            .entry((facts.range.end, facts.last_hash))
            .or_insert(reach);
        *end = reach.min(*end);
        reaches.insert(found.entry.object.name.as_str(), reach);
    }
    reaches
}

/// The segments that lead from the anchor backwards. Of several that fit, one that leads furthest: what
/// is left out is collected once an operator has looked. Of those, the best.
pub(super) fn follow<'a>(
    found: &[&'a Found],
    anchor: BlockRef,
    profile: &ChainProfile,
) -> Vec<&'a Found> {
    let reaches = reaches(found);
    let reach = |found: &Found| reaches.get(found.entry.object.name.as_str()).copied();
    let mut by_end: HashMap<(u64, Hash32), Vec<&Found>> = HashMap::new();
    for found in found {
        let facts = &found.entry.facts;
        let end = by_end.entry((facts.range.end, facts.last_hash));
        end.or_default().push(found);
    }
    let mut chain = Vec::new();
    let (mut end, mut hash) = (anchor.number + 1, anchor.hash);
    loop {
        let fits = by_end.get(&(end, hash)).into_iter().flatten().copied();
        let Some(next) = fits.max_by_key(|found| (Reverse(reach(found)), worth(found, profile)))
        else {
            break;
        };
        chain.push(next);
        (end, hash) = (next.entry.facts.range.start, next.entry.facts.parent_hash);
    }
    chain
}

#[cfg(test)]
mod tests {
    use chronolith_model::Proof;

    use super::*;
    use crate::format::facts::tests::sample;
    use crate::state::catalog::ObjectRef;

    fn found(name: &str, level: Proof) -> Found {
        let range = BlockRange::new(10, 20);
        let mut facts = sample(range);
        facts.levels = vec![(range.end, level)];
        let object = ObjectRef {
            name: name.to_owned(),
            len: 100,
            tables_start: 50,
        };
        Found {
            last_timestamp: facts.last_timestamp,
            entry: SegmentEntry {
                object,
                tier: 1,
                facts,
                keys: None,
            },
        }
    }

    /// Old Stellar segments say `receipts` of logs where nothing was compared. As stored that is above
    /// `linked`, so that a copy whose transactions are proven was left out, and dropped in the end.
    #[test]
    fn the_better_proven_copy_is_the_one_by_what_its_level_means() {
        let old = found("seg/old", Proof::of_logs(Verification::Receipts));
        let new = found("seg/new", Proof::LINKED.with_transactions());
        let check = |profile: &ChainProfile, expected: &str| {
            for copies in [[&old, &new], [&new, &old]] {
                let chain = follow(&copies, old.end(), profile);
                let names: Vec<&str> = chain
                    .iter()
                    .map(|found| found.entry.object.name.as_str())
                    .collect();
                assert_eq!(names, [expected]);
            }
        };
        check(&ChainProfile::STELLAR, "seg/new");
        check(&ChainProfile::EVM, "seg/old");
    }
}
