//! Merging tables from hash to block: some parts of all keys at a time, each part on a thread of its
//! own. Inputs are read in large steps, so that memory does not grow with what is merged.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::BlockRange;
use rayon::prelude::*;

use super::merge::Output;
use crate::error::{Error, Result};
use crate::format::table::packed::{BuiltPages, Rebase, build_pages};
use crate::format::table::{TableBuilder, TableDirectory, TableShape};
use crate::format::{Damage, Decoded};
use crate::read::objects::{Objects, OpenRun, OpenSegment};
use crate::write::seal::HASH_KEY_BITS;

/// Entries of a part: what one thread sorts at once.
const PART_ENTRIES: u64 = 256 << 10;
/// Parts that are in memory together, twice: some are read while others are merged.
const PARTS_AT_ONCE: u64 = 8;

/// A table to merge, and where its blocks begin.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    table: OpenTable,
    first_block: u64,
}

#[derive(Clone, Debug)]
enum OpenTable {
    Run(Arc<OpenRun>),
    Segment(Arc<OpenSegment>),
}

impl Source {
    pub(crate) fn run(run: Arc<OpenRun>, first_block: u64) -> Self {
        let table = OpenTable::Run(run);
        Self { table, first_block }
    }

    /// The table of a segment that has one.
    pub(crate) fn segment(segment: Arc<OpenSegment>) -> Result<Self> {
        if segment.tables.hashes.is_none() {
            let missing = Damage("a sealed segment without hashes");
            return Err(Error::damaged(&segment.identity.name, missing));
        }
        let first_block = segment.tables.facts.range.start;
        let table = OpenTable::Segment(segment);
        Ok(Self { table, first_block })
    }

    fn name(&self) -> &str {
        match &self.table {
            OpenTable::Run(run) => &run.identity.name,
            OpenTable::Segment(segment) => &segment.identity.name,
        }
    }

    /// The directory, and where in the object its pages begin.
    fn directory(&self) -> (&TableDirectory, u64) {
        match &self.table {
            OpenTable::Run(run) => (&run.hashes, run.offset),
            OpenTable::Segment(segment) => {
                let hashes = segment.tables.hashes.as_ref();
                let (table, offset) = hashes.expect("a segment without hashes is no source");
                (table, *offset)
            }
        }
    }

    fn table(&self) -> &TableDirectory {
        self.directory().0
    }

    /// Reads the pages with the keys of some parts.
    async fn read(&self, objects: &Objects, parts: &Range<u64>, bits: u32) -> Result<Loaded> {
        let lost = || Error::damaged(self.name(), Damage("read beyond a table"));
        let (table, offset) = self.directory();
        let pages = table.pages_of(parts, bits);
        let first = table.place(pages.start).ok_or_else(lost)?;
        let last = table.place(pages.end.saturating_sub(1)).ok_or_else(lost)?;
        let start = first.start;
        let bytes = if start < last.end {
            let range = offset + start..offset + last.end;
            let read = objects.blobs().range(self.name(), range).await;
            read.map_err(|error| Error::reading(self.name(), error))?
        } else {
            Bytes::new()
        };
        Ok(Loaded { start, bytes })
    }
}

/// Pages of a source that are in memory.
struct Loaded {
    start: u64,
    bytes: Bytes,
}

/// Everything that merging a part needs, on whichever thread.
struct Merge {
    sources: Vec<Source>,
    shape: TableShape,
    range: BlockRange,
    bits: u32,
}

/// Merges tables over a range into one, at the end of the output. Entries after the end of the range
/// are left out. Returns the directory and the number of entries.
pub(crate) async fn merge_tables(
    objects: &Objects,
    sources: Vec<Source>,
    range: BlockRange,
    output: &mut Output,
) -> Result<(Vec<u8>, u64)> {
    let tables = || sources.iter().map(Source::table);
    let entries: u64 = tables().map(TableDirectory::entries).sum();
    // A table that an older version made may have longer keys; none can be made longer.
    let key_bits = tables().map(TableDirectory::key_bits);
    let key_bits = key_bits.fold(HASH_KEY_BITS, u32::min);
    let payload_bits = range.len().max(2).next_power_of_two().ilog2();
    let shape = TableShape::for_entries(entries.max(range.len()), key_bits, payload_bits);
    if !shape.packs() {
        return Err(Error::Invalid(format!(
            "too many blocks for a run: {range}"
        )));
    }
    let bits = (entries / PART_ENTRIES).max(1).ilog2();
    let merge = Arc::new(Merge {
        sources,
        shape,
        range,
        bits: bits.min(shape.page_bits()),
    });
    let mut table = TableBuilder::new(shape);
    let mut before = None;
    let all = 1_u64 << merge.bits;
    for start in (0..all).step_by(PARTS_AT_ONCE as usize) {
        let parts = start..all.min(start + PARTS_AT_ONCE);
        let reads = merge.sources.iter();
        let reads = reads.map(|source| source.read(objects, &parts, merge.bits));
        let loaded = futures::future::try_join_all(reads).await?;
        let own = merge.clone();
        let merging = tokio::task::spawn_blocking(move || own.parts(&loaded, parts));
        if let Some(merging) = before.replace(merging) {
            append(merging, &mut table, output).await?;
        }
    }
    if let Some(merging) = before {
        append(merging, &mut table, output).await?;
    }
    let kept = table.entries();
    Ok((table.finish(output.container.buffer()), kept))
}

async fn append(
    merging: tokio::task::JoinHandle<Result<Vec<BuiltPages>>>,
    table: &mut TableBuilder,
    output: &mut Output,
) -> Result<()> {
    let merged = merging.await;
    let merged = merged.map_err(|error| Error::Internal(format!("merging failed: {error}")))?;
    for built in merged? {
        table.append(&built, output.container.buffer());
        output.flush().await?;
    }
    Ok(())
}

impl Merge {
    fn parts(&self, loaded: &[Loaded], parts: Range<u64>) -> Result<Vec<BuiltPages>> {
        let parts = parts.into_par_iter();
        parts.map(|part| self.part(loaded, part)).collect()
    }

    /// The pages with the keys of one part.
    fn part(&self, loaded: &[Loaded], part: u64) -> Result<BuiltPages> {
        let mut entries = Vec::with_capacity(PART_ENTRIES as usize * 5 / 4);
        for (source, loaded) in self.sources.iter().zip(loaded) {
            let unpacked = self.unpack(source, loaded, part, &mut entries);
            unpacked.map_err(|damage| Error::damaged(source.name(), damage))?;
        }
        // Each source's are in order: sorting finds that, and merges.
        entries.sort();
        // Keys that were longer may have become the same.
        entries.dedup();
        let pages = 1 << (self.shape.page_bits() - self.bits);
        let first = part as usize * pages;
        Ok(build_pages(self.shape, first..first + pages, &entries))
    }

    fn unpack(
        &self,
        source: &Source,
        loaded: &Loaded,
        part: u64,
        entries: &mut Vec<u64>,
    ) -> Decoded<()> {
        let lost = Damage("read beyond a table");
        let table = source.table();
        let first_block = source.first_block.checked_sub(self.range.start);
        let rebase = Rebase {
            add: first_block.ok_or(Damage("blocks before the range"))?,
            below: self.range.len(),
        };
        let before = entries.len();
        for index in table.pages_of(&(part..part + 1), self.bits) {
            let place = table.place(index).ok_or(lost)?;
            let (start, end) = (
                place.start.checked_sub(loaded.start).ok_or(lost)? as usize,
                place.end.checked_sub(loaded.start).ok_or(lost)? as usize,
            );
            let page = loaded.bytes.get(start..end).ok_or(lost)?;
            if !page.is_empty() {
                place.verify(page)?;
            }
            table.unpack_into((index, page), self.shape, rebase, entries)?;
        }
        if !table.divides(self.bits) {
            // A page of a small table holds keys of other parts too.
            let own = entries.split_off(before).into_iter();
            entries.extend(own.filter(|&packed| self.shape.part(packed, self.bits) == part));
        }
        Ok(())
    }
}
