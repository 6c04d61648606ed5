//! Repair: an object that is damaged or gone is rebuilt and replaced.
//!
//! A published block keeps its hash and its content. The catalog remembers of each segment where it
//! begins and ends, how far its blocks were proven, and its content root, even when the segment itself
//! is gone: what replaces it must fit all of that. A run needs no blocks from outside: its segments
//! hold every hash.

use std::sync::Arc;

use chronolith_model::{Block, BlockRange};

use super::replace::Replaced;
use crate::error::{Error, Result};
use crate::format::digest::digest_of;
use crate::format::facts::SegmentFacts;
use crate::state::catalog::{PackContent, RunEntry};
use crate::state::record::AuditEntry;
use crate::state::snapshot::Snapshot;
use crate::tools::inspect::{ObjectSort, StoredObject};
use crate::write::check::normalise;
use crate::write::dictionary::Learner;
use crate::write::edit::Edit;
use crate::write::fill::Fill;
use crate::write::pack::PackBuilder;
use crate::write::publish::Applied;
use crate::write::seal::Kept;
use crate::write::writer::Writer;

/// What a fill is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// Blocks that are missing, or that can be proven further.
    Fill,
    /// A segment that is damaged, or whose content is in doubt.
    Segment { name: String, audit: AuditEntry },
    /// A pack that is damaged.
    Pack { name: String, audit: AuditEntry },
    /// Segments and packs whose content changes, together.
    Together { audit: AuditEntry },
}

impl Purpose {
    pub(crate) fn to_repair(object: &StoredObject, audit: AuditEntry) -> Result<Self> {
        let name = object.name.clone();
        match object.sort {
            ObjectSort::Segment => Ok(Self::Segment { name, audit }),
            ObjectSort::Pack => Ok(Self::Pack { name, audit }),
            ObjectSort::Run => Err(Error::Invalid(format!(
                "a run is made from its segments, not from blocks (object={name})"
            ))),
        }
    }

    pub(crate) fn repairs(&self) -> bool {
        !matches!(self, Self::Fill)
    }

    pub(crate) fn audit(&self) -> Option<AuditEntry> {
        match self {
            Self::Fill => None,
            Self::Segment { audit, .. } | Self::Pack { audit, .. } | Self::Together { audit } => {
                Some(audit.clone())
            }
        }
    }

    /// Whether packs are made beside segments.
    pub(crate) fn packs(&self) -> bool {
        matches!(self, Self::Fill | Self::Together { .. })
    }
}

impl Fill {
    /// Refuses to repair what is no longer there.
    pub(crate) fn check_repaired(&self, replaced: &Replaced) -> Result<()> {
        match &self.purpose {
            Purpose::Segment { name, .. } if !replaced.names().contains(name) => Err(gone(name)),
            _ => Ok(()),
        }
    }

    /// Refuses to repair with blocks that the catalog contradicts: it knows both ends of every segment,
    /// readable or not.
    pub(crate) async fn check_known_ends(&self, snapshot: &Snapshot) -> Result<()> {
        if !self.purpose.repairs() {
            return Ok(());
        }
        if let Purpose::Together { .. } = self.purpose {
            self.check_packs_are_ours(snapshot)?;
        }
        self.check_ends(snapshot).await?;
        let (Some(parent), Some(last)) = (self.first_parent, self.last_hash) else {
            return Err(crate::write::fill::failed());
        };
        for facts in snapshot.segments.iter().map(|entry| &entry.facts) {
            let links = [
                (
                    facts.range.start == self.range.start,
                    facts.range.start,
                    parent,
                    facts.parent_hash,
                ),
                (
                    facts.range.end == self.range.start,
                    facts.range.end,
                    parent,
                    facts.last_hash,
                ),
                (
                    facts.range.start == self.range.end,
                    self.range.end,
                    facts.parent_hash,
                    last,
                ),
            ];
            let broken = links
                .into_iter()
                .find(|(applies, _, names, expected)| *applies && names != expected);
            if let Some((_, number, names, expected)) = broken {
                return Err(Error::BadParent {
                    number,
                    names,
                    expected,
                });
            }
            if facts.range.end == self.range.end && facts.last_hash != last {
                let (number, hash) = (facts.range.end - 1, facts.last_hash);
                return Err(Error::FinalityViolation {
                    archived: chronolith_model::BlockRef { number, hash },
                    offered: last,
                });
            }
        }
        Ok(())
    }

    /// Refuses blocks that are not those at which segments inside the range end.
    async fn check_ends(&self, snapshot: &Snapshot) -> Result<()> {
        let objects = &self.writer.view.objects;
        for facts in snapshot.segments.iter().map(|entry| &entry.facts) {
            let number = facts.range.end - 1;
            let mut new = self.segments.iter();
            let Some(new) = new.find(|new| new.facts.range.contains(number)) else {
                continue;
            };
            let segment = objects.open(&new.object).await?;
            let clock = objects.clock(&segment, number).await?;
            let offered = clock.ok_or_else(crate::write::fill::failed)?.hash;
            if offered != facts.last_hash {
                let hash = facts.last_hash;
                return Err(Error::FinalityViolation {
                    archived: chronolith_model::BlockRef { number, hash },
                    offered,
                });
            }
        }
        Ok(())
    }

    /// Takes payload for a pack, after comparing each block with what is archived of it: its digest
    /// is over its payload too.
    pub(crate) async fn hold_payload(&mut self, blocks: &[Arc<Block>]) -> Result<()> {
        let writer = self.writer.clone();
        let snapshot = writer.publisher.settled().await?;
        let content = self.kept.packed();
        let (mut packing, mut held) = (self.packing_of(content.clone())?, Vec::new());
        for block in blocks {
            compare(&writer, &snapshot, block, &content).await?;
            held.push((block.clock, block.payload.clone()));
        }
        let job = move || {
            for (clock, payload) in held {
                packing.0.push(&clock, &payload);
                packing.0.pack_waiting(&mut packing.1)?;
            }
            Ok::<_, Error>(packing)
        };
        let done = tokio::task::spawn_blocking(job).await;
        let (pack, learner) = done.map_err(|_| crate::write::fill::failed())??;
        (self.pack, self.learner) = (Some(pack), learner);
        Ok(())
    }

    /// The pack that is rebuilt, begun with the first blocks.
    fn packing_of(&mut self, content: PackContent) -> Result<(PackBuilder, Learner)> {
        let pack = self.pack.take().or_else(|| PackBuilder::new(content));
        let pack = pack.ok_or_else(crate::write::fill::failed)?;
        Ok((pack, self.learner.clone()))
    }

    /// Replaces the pack.
    pub(crate) async fn finish_pack(mut self, snapshot: &Snapshot) -> Result<()> {
        let (name, audit) = match &self.purpose {
            Purpose::Pack { name, audit } => (name.clone(), audit.clone()),
            Purpose::Fill | Purpose::Segment { .. } | Purpose::Together { .. } => {
                return Err(crate::write::fill::failed());
            }
        };
        let old = snapshot.packs().find(|pack| pack.object.name == name);
        let old = old.cloned().ok_or_else(|| gone(&name))?;
        let batch = snapshot.state.batch_packs.iter();
        let unfinished = batch.clone().any(|pack| pack.object.name == name);
        let (pack, mut learner) = self.packing_of(old.content.clone())?;
        let built = tokio::task::spawn_blocking(move || pack.finish(&mut learner)).await;
        let built = built.map_err(|_| crate::write::fill::failed())??;
        let built = built.ok_or_else(crate::write::fill::failed)?;
        if built.content != old.content {
            return Err(Error::Invalid(format!("{name} keeps something else")));
        }
        if (built.range, built.last_hash) != (old.range, old.last_hash) {
            let (number, hash) = (old.range.end - 1, old.last_hash);
            return Err(Error::FinalityViolation {
                archived: chronolith_model::BlockRef { number, hash },
                offered: built.last_hash,
            });
        }
        let mut uploads = Vec::new();
        let pack = self.writer.upload_pack(built, &mut uploads);
        let mut edit = Edit {
            remove: vec![old.object.name.clone()],
            uploads: self.writer.put_all(uploads).await?,
            audit: Some(audit),
            ..Edit::default()
        };
        match unfinished {
            true => edit.batch_packs.push(pack),
            false => edit.packs.push(pack),
        }
        published(self.writer.publisher.publish(edit).await?, &old.object.name)
    }
}

/// A block against the segment that keeps the same of it. Without one that can be read there is no
/// telling whether it is the block that was published.
async fn compare(
    writer: &Writer,
    snapshot: &Snapshot,
    block: &Block,
    content: &PackContent,
) -> Result<()> {
    let (number, objects) = (block.clock.number, &writer.view.objects);
    let mut same = snapshot.holding(number);
    let packed = |facts: &SegmentFacts| PackContent::new(facts.datasets, &facts.scope);
    let entry = same.find(|entry| packed(&entry.facts) == *content);
    let entry = entry.ok_or_else(|| Error::not_covered(BlockRange::one(number)))?;
    let segment = objects.open(&entry.object).await?;
    let archived = objects.clock(&segment, number).await?;
    let archived = archived.map(|clock| clock.block_ref());
    if let Some(archived) = archived.filter(|archived| archived.hash != block.clock.hash) {
        let offered = block.clock.hash;
        return Err(Error::FinalityViolation { archived, offered });
    }
    let kept = Kept {
        datasets: entry.facts.datasets,
        scope: entry.facts.scope.clone(),
    };
    let mut kept_of_it = block.clone();
    normalise(&mut kept_of_it, &kept);
    if digest_of(&kept_of_it) == objects.digest(&segment, number).await? {
        return Ok(());
    }
    Err(Error::OtherContent {
        block: number,
        archived: entry.facts.range,
        object: entry.object.name.clone(),
    })
}

impl Writer {
    /// Rebuilds a run from the hashes that its segments hold. Ingest continues: no run holds what it
    /// adds.
    pub(crate) async fn rebuild_run(&self, name: &str, audit: AuditEntry) -> Result<()> {
        let _no_merges = self.maintenance.lock().await;
        let snapshot = self.publisher.settled().await?;
        let runs = &snapshot.catalog.runs;
        let old = runs.iter().find(|run| run.object.name == name);
        let old = old.ok_or_else(|| gone(name))?;
        let mut edit = Edit {
            now: audit.at,
            audit: Some(audit),
            ..Edit::default()
        };
        self.replace_run(&snapshot, old, &mut edit).await?;
        published(self.publisher.publish(edit).await?, name)
    }

    /// Adds to the edit what replaces a run.
    pub(crate) async fn replace_run(
        &self,
        snapshot: &Snapshot,
        old: &RunEntry,
        edit: &mut Edit,
    ) -> Result<()> {
        edit.remove.push(old.object.name.clone());
        self.make_runs(snapshot, old.range, Some(old.last_hash), edit)
            .await
    }
}

fn published(applied: Applied, name: &str) -> Result<()> {
    match applied {
        Applied::Published => Ok(()),
        Applied::Dropped => Err(gone(name)),
    }
}

fn gone(name: &str) -> Error {
    Error::Invalid(format!(
        "nothing to repair: the object was replaced meanwhile (object={name})"
    ))
}
