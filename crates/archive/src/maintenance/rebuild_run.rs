//! Runs rebuilt from the hashes that segments hold.

use std::sync::Arc;

use chronolith_model::{BlockRange, Hash32};

use crate::blocking;
use crate::error::{Error, Result};
use crate::format::container::{ContainerBuilder, ObjectKind, Section};
use crate::read::segment_hashes::BlockHashes;
use crate::state::catalog::{ObjectRef, PackContent, RunEntry, SegmentEntry};
use crate::state::snapshot::Snapshot;
use crate::write::edit::Edit;
use crate::write::pack;
use crate::write::publish::Uploading;
use crate::write::seal::{build_hash_table, hash_key};
use crate::write::writer::Writer;

/// Hashes that are sorted in memory at once; a larger run is replaced by several.
const RUN_ENTRIES_MAX: usize = 1 << 22;

/// What was read and is in no run yet.
struct Gathered {
    /// Keys of hashes, each with its block, counted from the first.
    entries: Vec<(u64, u64)>,
    first_block: u64,
    /// The last block that was read.
    last: Option<(u64, Hash32)>,
}

impl Writer {
    /// Makes runs of blocks whose hashes no run holds, one range after the other; returns how many were
    /// made. A range whose segments are damaged is passed over: lookups by hash report it.
    pub(crate) async fn derive_runs(&self, ranges: &[BlockRange]) -> Result<usize> {
        let _no_merges = self.maintenance.lock().await;
        let snapshot = self.publisher.settled().await?;
        let mut edit = Edit::default();
        for blocks in ranges {
            match self.make_runs(&snapshot, *blocks, None, &mut edit).await {
                Ok(()) => {}
                Err(Error::Corrupt { object, reason }) => {
                    let chain = self.settings.chain.0;
                    tracing::warn!(chain, %blocks, object, reason, "no run of these blocks can be made");
                }
                Err(error) => return Err(error),
            }
        }
        let made = edit.runs.len();
        if made > 0 {
            self.publisher.publish(edit).await?;
        }
        Ok(made)
    }

    /// Adds runs over these blocks to the edit. `last_hash` is that of the last block, which may be
    /// pruned; where it is not given, the block must be there.
    pub(crate) async fn make_runs(
        &self,
        snapshot: &Snapshot,
        blocks: BlockRange,
        last_hash: Option<Hash32>,
        edit: &mut Edit,
    ) -> Result<()> {
        let Some(last_block) = blocks.end.checked_sub(1).filter(|_| !blocks.is_empty()) else {
            return Ok(());
        };
        let mut gathered = Gathered {
            entries: Vec::new(),
            first_block: blocks.start,
            last: None,
        };
        for group in groups(&snapshot.segments, &blocks) {
            self.gather(&group, blocks, (&mut gathered, edit)).await?;
        }
        let own = gathered.last.filter(|(number, _)| *number == last_block);
        let last = last_hash.or(own.map(|(_, hash)| hash));
        let last = last.ok_or_else(|| Error::not_covered(BlockRange::one(last_block)))?;
        self.add_run((blocks.end, last), &mut gathered, edit).await
    }

    /// Reads segments that hold the same blocks, and adds a run whenever there is enough for one.
    async fn gather(
        &self,
        group: &[&Arc<SegmentEntry>],
        blocks: BlockRange,
        (gathered, edit): (&mut Gathered, &mut Edit),
    ) -> Result<()> {
        let objects = &self.view.objects;
        let mut open = Vec::with_capacity(group.len());
        for entry in group {
            open.push(objects.open(&entry.object).await?);
        }
        let mut readers: Vec<BlockHashes<'_>> = open
            .iter()
            .map(|segment| BlockHashes::new(objects, segment))
            .collect();
        let first = readers.iter().map(|reader| reader.range().start).min();
        let end = readers.iter().map(|reader| reader.range().end).max();
        let first = first.unwrap_or(blocks.start).max(blocks.start);
        for number in first..end.unwrap_or(first).min(blocks.end) {
            let offset = number - gathered.first_block;
            let entries = &mut gathered.entries;
            let mut own = None;
            for reader in &mut readers {
                if reader.range().contains(number) {
                    let mut take = |hash: &Hash32| entries.push((hash_key(hash), offset));
                    own = Some(reader.show(number, &mut take).await?);
                }
            }
            gathered.last = own.map(|hash| (number, hash)).or(gathered.last);
            let is_enough = gathered.entries.len() >= RUN_ENTRIES_MAX;
            if let Some(hash) = own.filter(|_| is_enough && number + 1 < blocks.end) {
                self.add_run((number + 1, hash), gathered, edit).await?;
            }
        }
        Ok(())
    }

    /// Stores what was gathered as a run that ends before a block, and adds it to the edit.
    async fn add_run(
        &self,
        (end, last_hash): (u64, Hash32),
        gathered: &mut Gathered,
        edit: &mut Edit,
    ) -> Result<()> {
        let part = BlockRange::new(gathered.first_block, end);
        let entries = std::mem::take(&mut gathered.entries);
        edit.add_run(self.store_run(part, last_hash, entries).await?);
        gathered.first_block = end;
        Ok(())
    }

    async fn store_run(
        &self,
        range: BlockRange,
        last_hash: Hash32,
        mut entries: Vec<(u64, u64)>,
    ) -> Result<(RunEntry, Uploading)> {
        let build = move || {
            entries.sort_unstable();
            entries.dedup();
            let count = entries.len() as u64;
            let mut container = ContainerBuilder::new(ObjectKind::Run);
            container.begin(Section::Hashes);
            let entries = entries.into_iter();
            let directory = build_hash_table(range.len(), count, entries, container.buffer());
            container.table(Section::HashDirectory, directory);
            let summary = pack::encode_summary(&range, last_hash, &PackContent::NOTHING);
            container.table(Section::Summary, summary);
            let finished = container.finish();
            Ok((container.drain(), finished, count))
        };
        let (bytes, finished, entries) = blocking::run(build).await?;
        let uploading = self.publisher.name("run", range);
        let object = ObjectRef::new(&uploading.name, finished);
        let stored = self.put_all(vec![(uploading, bytes)]).await?.pop();
        let uploading = stored.expect("one object was stored");
        let run = RunEntry {
            object,
            tier: 1,
            range,
            last_hash,
            entries,
        };
        Ok((run, uploading))
    }
}

/// Segments with blocks among these, in order: those together that hold the same ones, which are few. One
/// group is open at a time, since the tables of a range may be more than fit in memory.
fn groups<'a>(
    segments: &'a [Arc<SegmentEntry>],
    blocks: &BlockRange,
) -> Vec<Vec<&'a Arc<SegmentEntry>>> {
    let mut groups: Vec<Vec<&Arc<SegmentEntry>>> = Vec::new();
    let mut end = 0;
    let inside = |entry: &&Arc<SegmentEntry>| entry.facts.range.intersect(blocks).is_some();
    for entry in segments.iter().filter(inside) {
        let range = entry.facts.range;
        match groups.last_mut().filter(|_| range.start < end) {
            Some(group) => group.push(entry),
            None => groups.push(vec![entry]),
        }
        end = end.max(range.end);
    }
    groups
}
