//! Repair: an object that is damaged or gone is rebuilt and replaced.
//!
//! A published block keeps its hash and its content. The catalog remembers of each segment where it
//! begins and ends, how far its blocks were proven, and its content root, even when the segment itself
//! is gone: what replaces it must fit all of that. A run needs no blocks from outside: its segments
//! hold every hash.

use std::sync::Arc;

use chronolith_model::{Block, BlockRange, BlockRef};

use super::replace::Replaced;
use crate::blocking;
use crate::error::{Error, Result};
use crate::format::digest::digest_of;
use crate::state::catalog::{PackContent, RunEntry};
use crate::state::record::AuditEntry;
use crate::state::snapshot::Snapshot;
use crate::tools::inspect::{ObjectSort, StoredObject};
use crate::write::check::{check_parent, check_same, normalise};
use crate::write::dictionary::Learner;
use crate::write::edit::Edit;
use crate::write::fill::{Fill, failed};
use crate::write::pack::PackBuilder;
use crate::write::seal::Kept;
use crate::write::writer::Writer;

/// What a fill is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// Blocks that are missing, or that can be proven further.
    Fill,
    /// A segment that is damaged, or whose content is in doubt.
    Segment(String),
    /// A pack that is damaged.
    Pack(String),
    /// Segments and packs whose content changes, together.
    Together,
}

impl Purpose {
    pub(crate) fn to_repair(object: &StoredObject) -> Result<Self> {
        let name = object.name.clone();
        match object.sort {
            ObjectSort::Segment => Ok(Self::Segment(name)),
            ObjectSort::Pack => Ok(Self::Pack(name)),
            ObjectSort::Run => Err(Error::Invalid(format!(
                "a run is made from its segments, not from blocks (object={name})"
            ))),
        }
    }

    pub(crate) fn repairs(&self) -> bool {
        !matches!(self, Self::Fill)
    }

    /// Whether packs are made beside segments.
    pub(crate) fn packs(&self) -> bool {
        matches!(self, Self::Fill | Self::Together)
    }
}

impl Fill {
    /// Refuses to repair what is no longer there.
    pub(crate) fn check_repaired(&self, replaced: &Replaced) -> Result<()> {
        match &self.purpose {
            Purpose::Segment(name) if !replaced.names().contains(name) => {
                Err(Error::Invalid(gone(name)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses to repair with blocks that the catalog contradicts: it knows both ends of every segment,
    /// readable or not.
    pub(crate) async fn check_known_ends(&self, snapshot: &Snapshot) -> Result<()> {
        if !self.purpose.repairs() {
            return Ok(());
        }
        if let Purpose::Together = self.purpose {
            self.check_packs_are_ours(snapshot)?;
        }
        self.check_ends(snapshot).await?;
        let (Some(parent), Some(last)) = (self.first_parent, self.last_hash) else {
            return Err(failed());
        };
        let (start, end) = (self.range.start, self.range.end);
        for facts in snapshot.segments.iter().map(|entry| &entry.facts) {
            if facts.range.start == start {
                check_parent(start, parent, facts.parent_hash)?;
            }
            if facts.range.end == start {
                check_parent(start, parent, facts.last_hash)?;
            }
            if facts.range.start == end {
                check_parent(end, facts.parent_hash, last)?;
            }
            if facts.range.end == end {
                check_same(facts.last_block(), last)?;
            }
        }
        Ok(())
    }

    /// Refuses blocks that are not those at which segments inside the range end.
    async fn check_ends(&self, snapshot: &Snapshot) -> Result<()> {
        let objects = &self.writer.view.objects;
        for facts in snapshot.segments.iter().map(|entry| &entry.facts) {
            let archived = facts.last_block();
            let mut new = self.segments.iter();
            let Some(new) = new.find(|new| new.facts.range.contains(archived.number)) else {
                continue;
            };
            let segment = objects.open(&new.object).await?;
            let offered = objects.clock(&segment, archived.number).await?;
            check_same(archived, offered.ok_or_else(failed)?.hash)?;
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
            Ok(packing)
        };
        let (pack, learner) = blocking::run(job).await?;
        (self.pack, self.learner) = (Some(pack), learner);
        Ok(())
    }

    /// The pack that is rebuilt, begun with the first blocks.
    fn packing_of(&mut self, content: PackContent) -> Result<(PackBuilder, Learner)> {
        let pack = self.pack.take().or_else(|| PackBuilder::new(content));
        let pack = pack.ok_or_else(failed)?;
        Ok((pack, self.learner.clone()))
    }

    /// Replaces the pack.
    pub(crate) async fn finish_pack(mut self, snapshot: &Snapshot, name: &str) -> Result<()> {
        let old = snapshot.packs().find(|pack| pack.object.name == name);
        let old = old.ok_or_else(|| Error::Invalid(gone(name)))?;
        let mut batch = snapshot.state.batch_packs.iter();
        let unfinished = batch.any(|pack| pack.object.name == name);
        let (pack, mut learner) = self.packing_of(old.content.clone())?;
        let built = blocking::run(move || pack.finish(&mut learner)).await?;
        let built = built.ok_or_else(failed)?;
        if built.content != old.content {
            return Err(Error::Invalid(format!("{name} keeps something else")));
        }
        let (number, hash) = (old.range.end - 1, old.last_hash);
        check_same(BlockRef { number, hash }, built.last_hash)?;
        if built.range != old.range {
            return Err(failed());
        }
        let mut uploads = Vec::new();
        let pack = self.writer.upload_pack(built, &mut uploads);
        let mut edit = Edit {
            remove: vec![name.to_owned()],
            uploads: self.writer.put_all(uploads).await?,
            audit: self.audit,
            ..Edit::default()
        };
        match unfinished {
            true => edit.batch_packs.push(pack),
            false => edit.packs.push(pack),
        }
        let publisher = &self.writer.publisher;
        publisher.publish_or(edit, gone(name)).await
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
    let entry = same.find(|entry| PackContent::of(&entry.facts) == *content);
    let entry = entry.ok_or_else(|| Error::not_covered(BlockRange::one(number)))?;
    let segment = objects.open(&entry.object).await?;
    if let Some(archived) = objects.clock(&segment, number).await? {
        check_same(archived.block_ref(), block.clock.hash)?;
    }
    let mut kept_of_it = block.clone();
    normalise(&mut kept_of_it, &Kept::of(&entry.facts));
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
        let old = old.ok_or_else(|| Error::Invalid(gone(name)))?;
        let mut edit = Edit {
            now: audit.at,
            audit: Some(audit),
            ..Edit::default()
        };
        self.replace_run(&snapshot, old, &mut edit).await?;
        self.publisher.publish_or(edit, gone(name)).await
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

fn gone(name: &str) -> String {
    format!("nothing to repair: the object was replaced meanwhile (object={name})")
}
