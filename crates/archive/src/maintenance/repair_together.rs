//! Payload and segments together: a digest is over both, so neither changes without the other.
//!
//! A segment that is rebuilt alone keeps the payload that its packs hold: its digests are over that,
//! and its levels claim no more of it than before. Where the content itself changes, segments and
//! packs of a range are replaced in one edit, and what reaches beyond the range is kept as it is.

use std::sync::Arc;

use chronolith_model::{Block, BlockRange, Proof, Scope};

use super::repair::Purpose;
use super::replace::Replaced;
use crate::error::{Error, Result};
use crate::state::catalog::{PackContent, PackEntry};
use crate::state::record::AuditEntry;
use crate::state::snapshot::Snapshot;
use crate::tools::inspect::{ObjectSort, StoredObject};
use crate::write::edit::Edit;
use crate::write::fill::{Fill, failed};
use crate::write::seal::Kept;
use crate::write::writer::Writer;

/// What packs hold of the blocks of a segment that is rebuilt alone.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Packed {
    /// Some of it is not what was pushed.
    other: bool,
    /// Some of it cannot be read.
    unread: bool,
}

impl Packed {
    /// Whether packs may hold something else than was pushed.
    pub(crate) fn is_in_doubt(self) -> bool {
        self.other || self.unread
    }
}

/// The blocks to fetch so that objects of a range can be replaced together: all blocks of those that
/// cannot be read, since nothing of them can be kept.
fn range_around(object: &StoredObject, damaged: &[StoredObject]) -> BlockRange {
    let mut range = object.range;
    let together =
        |one: &&StoredObject| one.sort != ObjectSort::Run && one.datasets == object.datasets;
    loop {
        let before = range;
        for one in damaged.iter().filter(together) {
            if one.range.intersect(&range).is_some() {
                let (start, end) = (
                    one.range.start.min(range.start),
                    one.range.end.max(range.end),
                );
                range = BlockRange::new(start, end);
            }
        }
        if range == before {
            return range;
        }
    }
}

impl Fill {
    /// Begins to replace the segments and packs that hold blocks of an object.
    pub(crate) fn repairing_together(
        writer: Arc<Writer>,
        snapshot: Option<Arc<Snapshot>>,
        (object, damaged): (&StoredObject, &[StoredObject]),
        audit: AuditEntry,
    ) -> Result<Self> {
        let range = range_around(object, damaged);
        let segments = snapshot.iter().flat_map(|snapshot| &snapshot.segments);
        let facts = segments.map(|entry| &entry.facts).filter(|facts| {
            facts.datasets == object.datasets && facts.range.intersect(&range).is_some()
        });
        let mut scopes: Vec<&Scope> = facts.map(|facts| &facts.scope).collect();
        scopes.dedup();
        let [scope] = scopes[..] else {
            return Err(Error::Invalid(format!(
                "blocks {range} are kept with {} scopes: their packs cannot be replaced",
                scopes.len()
            )));
        };
        let kept = Kept {
            datasets: object.datasets,
            scope: scope.clone(),
        };
        Self::new(writer, range, kept, Purpose::Together, Some(audit))
    }

    /// Puts the payload that packs hold in the place of what was pushed, where they differ. Returns the
    /// level of each block: nothing was proven of such payload just now, so its block is as sure as it was.
    pub(crate) async fn keep_packed(
        &mut self,
        blocks: &mut [Arc<Block>],
        proof: Proof,
    ) -> Result<Vec<Proof>> {
        let Purpose::Segment(name) = &self.purpose else {
            return Err(failed());
        };
        let snapshot = self.writer.publisher.settled().await?;
        let old = snapshot.segments.iter();
        let old = old.clone().find(|entry| entry.object.name == *name);
        let content = self.kept.packed();
        let packs = snapshot
            .packs()
            .filter(|pack| pack.content == content && pack.range.intersect(&self.range).is_some());
        let packs: Vec<_> = packs.collect();
        let mut levels = Vec::with_capacity(blocks.len());
        for block in blocks {
            let number = block.clock.number;
            let pack = packs.iter().find(|pack| pack.range.contains(number));
            let held = match pack {
                None => None,
                Some(pack) => match self.writer.view.objects.payload(pack, number).await {
                    Err(Error::Corrupt { .. }) => {
                        self.packed.unread = true;
                        None
                    }
                    held => Some(held?),
                },
            };
            let other = held.filter(|held| *held != block.payload);
            let Some(other) = other else {
                levels.push(proof);
                continue;
            };
            self.packed.other = true;
            Arc::make_mut(block).payload = other;
            let known = old.and_then(|old| old.facts.level_within(&BlockRange::one(number)));
            levels.push(known.unwrap_or(Proof::CLAIMED));
        }
        Ok(levels)
    }

    /// Adds to an edit what replaces the packs of the range, and what stays of segments and packs that
    /// reach beyond it.
    pub(crate) async fn keep_around(
        &self,
        snapshot: &Snapshot,
        replaced: &Replaced,
        edit: &mut Edit,
    ) -> Result<()> {
        for entry in &replaced.segments {
            for part in outside(entry.facts.range, self.range) {
                self.writer.reseal(entry, part, edit).await?;
            }
        }
        let content = self.kept.packed();
        let packs = snapshot
            .packs()
            .filter(|pack| pack.content == content && pack.range.intersect(&self.range).is_some());
        for pack in packs {
            edit.remove.push(pack.object.name.clone());
            let mut batch = snapshot.state.batch_packs.iter();
            let unfinished = batch.any(|one| one.object.name == pack.object.name);
            for part in outside(pack.range, self.range) {
                let kept = self.repack(pack, part, edit).await?;
                match unfinished {
                    true => edit.batch_packs.extend(kept),
                    false => edit.packs.extend(kept),
                }
            }
        }
        Ok(())
    }

    /// Stores a pack of some blocks of another one.
    async fn repack(
        &self,
        pack: &PackEntry,
        part: BlockRange,
        edit: &mut Edit,
    ) -> Result<Option<PackEntry>> {
        // What lies before the range ends with the parent of its first block.
        let last = match part.end == pack.range.end {
            true => pack.last_hash,
            false => self.first_parent.ok_or_else(failed)?,
        };
        let learner = self.learner.clone();
        let built = self.writer.repack(pack, part, last, learner).await?;
        let mut uploads = Vec::new();
        let entry = built.map(|built| self.writer.upload_pack(built, &mut uploads));
        edit.uploads.extend(self.writer.put_all(uploads).await?);
        Ok(entry)
    }

    /// Refuses where segments with another scope share the packs: their digests are over that payload too.
    pub(crate) fn check_packs_are_ours(&self, snapshot: &Snapshot) -> Result<()> {
        let mut facts = snapshot.segments.iter().map(|entry| &entry.facts);
        let other = facts.find(|facts| {
            PackContent::new(facts.datasets, &facts.scope) == self.kept.packed()
                && facts.scope != self.kept.scope
                && facts.range.intersect(&self.range).is_some()
        });
        match other {
            None => Ok(()),
            Some(facts) => Err(Error::Invalid(format!(
                "blocks {} are archived with another scope over the same packs: fetch this range into a new \
                 archive",
                facts.range
            ))),
        }
    }
}

/// What a range holds before and after another one that it meets.
fn outside(range: BlockRange, other: BlockRange) -> impl Iterator<Item = BlockRange> {
    let before = BlockRange::new(range.start, other.start.max(range.start));
    let after = BlockRange::new(other.end.min(range.end), range.end);
    let parts = [before, after].into_iter();
    parts.filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chronolith_model::DatasetSet;

    fn object(sort: ObjectSort, start: u64, end: u64) -> StoredObject {
        StoredObject {
            name: String::new(),
            sort,
            range: BlockRange::new(start, end),
            datasets: DatasetSet::CLOCK,
            scope: Scope::All,
        }
    }

    #[test]
    fn damaged_neighbours_are_fetched_together() {
        use ObjectSort::{Pack, Run, Segment};
        let damaged = [
            object(Pack, 15, 30),
            object(Run, 0, 100),
            object(Segment, 5, 12),
            object(Segment, 28, 40),
            object(Pack, 40, 50),
        ];
        let range = range_around(&object(Segment, 10, 20), &damaged);
        assert_eq!(range, BlockRange::new(5, 40));
        assert_eq!(range_around(&object(Pack, 60, 70), &damaged).start, 60);
    }

    #[test]
    fn what_is_outside_is_before_or_after() {
        let all = |range: (u64, u64), other: (u64, u64)| -> Vec<(u64, u64)> {
            let (range, other) = (
                BlockRange::new(range.0, range.1),
                BlockRange::new(other.0, other.1),
            );
            outside(range, other)
                .map(|part| (part.start, part.end))
                .collect()
        };
        assert_eq!(all((10, 20), (12, 15)), [(10, 12), (15, 20)]);
        assert_eq!(all((10, 20), (5, 15)), [(15, 20)]);
        assert_eq!(all((10, 20), (15, 25)), [(10, 15)]);
        assert!(all((10, 20), (10, 20)).is_empty());
    }
}
