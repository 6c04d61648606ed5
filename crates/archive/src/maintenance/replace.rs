//! What may replace archived content: the same, other content that is proven further, or content that is
//! proven as far as hashes allow. The hash of a block never changes.

use std::sync::Arc;

use chronolith_model::{BlockRange, Proof};

use super::repair::Purpose;
use crate::error::{Error, Result};
use crate::state::catalog::SegmentEntry;
use crate::state::snapshot::Snapshot;
use crate::write::fill::Fill;

/// Segments that a fill replaces.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) segments: Vec<Arc<SegmentEntry>>,
    /// Whether every block that is archived is the same in all that is kept of it.
    pub(crate) same_content: bool,
}

impl Replaced {
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.segments.iter();
        names.map(|entry| entry.object.name.clone()).collect()
    }
}

/// How blocks compare with those of an archived segment.
#[derive(Default, Debug)]
struct Compared {
    /// The first block whose digest is another, or cannot be read.
    other: Option<u64>,
    /// The first such block that may not be replaced.
    refused: Option<u64>,
}

impl Fill {
    /// Segments that this fill replaces: the same is kept of their blocks, they lie inside the range, and
    /// every block is equal or may be replaced. A repair of several objects replaces those that reach beyond it too.
    pub(crate) async fn superseded(&self, snapshot: &Snapshot) -> Result<Replaced> {
        let (mut segments, mut same_content) = (Vec::new(), true);
        for old in &snapshot.segments {
            let facts = &old.facts;
            let shared = facts.range.intersect(&self.range);
            let Some(shared) = shared.filter(|_| self.kept.is_of(facts)) else {
                continue;
            };
            let repairs_together = matches!(self.purpose, Purpose::Together);
            // Ingest still works on a batch: it goes only where it has to.
            let inside =
                self.range.covers(&facts.range) && (old.tier > 0 || self.purpose.repairs());
            let goes = inside || repairs_together;
            let compared = match self.compare(old, shared).await {
                // Another object is rebuilt here, and this one is repaired by itself.
                Err(Error::Corrupt { .. }) if self.purpose.repairs() && !goes => continue,
                compared => compared?,
            };
            if let Some(block) = self.refused(&compared, goes) {
                return Err(Error::OtherContent {
                    block,
                    archived: facts.range,
                    object: old.object.name.clone(),
                });
            }
            same_content &= compared.other.is_none();
            if goes {
                self.check_no_less_proven(old)?;
                segments.push(old.clone());
            }
        }
        Ok(Replaced {
            segments,
            same_content,
        })
    }

    /// The first block that keeps a segment from being replaced.
    fn refused(&self, compared: &Compared, goes: bool) -> Option<u64> {
        let alone = matches!(self.purpose, Purpose::Segment(_));
        match goes && !(alone && self.packed.is_in_doubt()) {
            true => compared.refused,
            // New digests would be over other payload than packs hold.
            false => compared.other,
        }
    }

    /// Compares blocks with those of an archived segment, by digest. Where a segment cannot be read, its
    /// content root in the catalog shows whether all of it is the same.
    async fn compare(&self, old: &SegmentEntry, range: BlockRange) -> Result<Compared> {
        let objects = &self.writer.view.objects;
        let opened = match objects.open(&old.object).await {
            Err(Error::Corrupt { .. }) if self.may_be_unreadable(old) => None,
            opened => Some(opened?),
        };
        let (mut compared, mut root) = (Compared::default(), blake3::Hasher::new());
        for entry in &self.segments {
            let Some(shared) = entry.facts.range.intersect(&range) else {
                continue;
            };
            let new = objects.open(&entry.object).await?;
            for number in shared.start..shared.end {
                let digest = objects.digest(&new, number).await?;
                root.update(&digest.0);
                let known = match &opened {
                    None => None,
                    Some(opened) => match objects.digest(opened, number).await {
                        Err(Error::Corrupt { .. }) if self.may_be_unreadable(old) => None,
                        known => Some(known?),
                    },
                };
                if known == Some(digest) {
                    continue;
                }
                compared.other.get_or_insert(number);
                if !self.may_replace(old, entry, number) {
                    compared.refused.get_or_insert(number);
                }
            }
        }
        let same = range == old.facts.range && *root.finalize().as_bytes() == old.facts.root.0;
        Ok(if same { Compared::default() } else { compared })
    }

    /// Whether a segment that is damaged is to be replaced all the same.
    fn may_be_unreadable(&self, old: &SegmentEntry) -> bool {
        self.purpose.repairs() && self.range.covers(&old.facts.range)
    }

    /// Whether other content of a block may replace what is archived of it: it is proven further, or as far as
    /// the block's hash allows. Then what differs is form, or what no hash covers: an older version wrote
    /// bodies as JSON and no marks of proven events, and nodes show fields beside those that are hashed.
    fn may_replace(&self, old: &SegmentEntry, new: &SegmentEntry, number: u64) -> bool {
        let profile = &self.writer.settings.profile;
        let level = |entry: &SegmentEntry| entry.facts.level_within(&BlockRange::one(number));
        let (Some(archived), Some(offered)) = (level(old), level(new)) else {
            return false;
        };
        let archived = profile.reads(archived);
        let settled = profile.settles(offered, self.kept.datasets) && offered.covers(archived);
        settled || offered.exceeds(archived)
    }

    /// What replaces a segment must not make any block less sure than it was.
    fn check_no_less_proven(&self, old: &SegmentEntry) -> Result<()> {
        if !self.purpose.repairs() {
            return Ok(());
        }
        let mut start = old.facts.range.start;
        let profile = &self.writer.settings.profile;
        for &(end, level) in &old.facts.levels {
            let level = profile.reads(level);
            let part = BlockRange::new(start, end);
            start = end;
            let Some(part) = part.intersect(&self.range) else {
                continue;
            };
            let within = |new: &SegmentEntry| new.facts.level_within(&part);
            let reached = self.segments.iter().filter_map(within).reduce(Proof::lower);
            if !reached.is_some_and(|reached| reached.covers(level)) {
                return Err(less_proven(&part, level, reached));
            }
        }
        Ok(())
    }

    /// Packs of the segments that this fill replaces: their payload may be the one that was wrong. One
    /// that reaches beyond the fill stays where no content changes: digests are over payload too.
    pub(crate) fn superseded_packs(
        &self,
        snapshot: &Snapshot,
        replaced: &Replaced,
    ) -> Result<Vec<String>> {
        let (mut names, content) = (Vec::new(), self.kept.packed());
        let packs = snapshot.packs().filter(|pack| pack.content == content);
        for pack in packs.filter(|pack| pack.range.intersect(&self.range).is_some()) {
            if !self.range.covers(&pack.range) {
                if replaced.same_content {
                    continue;
                }
                return Err(Error::Invalid(format!(
                    "the fill cuts the pack of blocks {}: fill all of it",
                    pack.range
                )));
            }
            names.push(pack.object.name.clone());
        }
        Ok(names)
    }
}

/// Runs that no merged segment needs once these are gone.
pub(crate) fn superseded_runs(snapshot: &Snapshot, gone: &[String]) -> Vec<String> {
    let needed = |range: &BlockRange| {
        let merged = snapshot.segments.iter().filter(|entry| entry.tier > 1);
        let mut staying = merged.filter(|entry| !gone.contains(&entry.object.name));
        staying.any(|entry| entry.facts.range.intersect(range).is_some())
    };
    let runs = snapshot
        .catalog
        .runs
        .iter()
        .filter(|run| !needed(&run.range));
    runs.map(|run| run.object.name.clone()).collect()
}

fn less_proven(range: &BlockRange, was: Proof, is: Option<Proof>) -> Error {
    Error::Invalid(format!(
        "blocks {range} are proven less far than what they would replace (archived={was:?}, \
         offered={is:?}): ask a source that proves more"
    ))
}
