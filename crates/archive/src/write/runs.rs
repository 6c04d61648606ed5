//! Runs: tables from hash to block over many segments, so that a lookup asks few of them.

use std::sync::Arc;

use chronolith_model::{BlockRange, DatasetSet, Hash32};

use super::merge::Output;
use super::pack::encode_summary;
use super::publish::Uploading;
use super::seal::HASH_KEY_BITS;
use super::writer::Writer;
use crate::catalog::{RunEntry, SegmentEntry};
use crate::error::{Error, Result};
use crate::format::Damage;
use crate::format::container::{ObjectKind, Section};
use crate::format::table::{TableBuilder, TableDirectory, TableShape};
use crate::read::objects::Objects;
use crate::read::window::{TableCursor, Window};

/// One table to merge: where it lies, and where its blocks begin.
struct Source<'a> {
    name: &'a str,
    table: &'a TableDirectory,
    offset: u64,
    first_block: u64,
}

impl<'a> Source<'a> {
    /// Its entries in order, as a table with such keys over the range from `start` on has them.
    fn cursor(&self, objects: &'a Objects, start: u64, key_bits: u32) -> Entries<'a> {
        let last = self.table.place(self.table.page_count().saturating_sub(1));
        let place = (self.offset, last.map_or(0, |place| place.end));
        let window = Window::new(objects, self.name, place);
        Entries {
            table: TableCursor::new(window, self.table),
            shorter_by: self.table.key_bits() - key_bits,
            offset: self.first_block - start,
        }
    }
}

/// Entries of one table on their way into another.
struct Entries<'a> {
    table: TableCursor<'a>,
    shorter_by: u32,
    offset: u64,
}

impl Entries<'_> {
    async fn peek(&mut self) -> Result<Option<(u64, u64)>> {
        let next = self.table.peek().await?;
        Ok(next.map(|(key, block)| (key >> self.shorter_by, block + self.offset)))
    }
}

impl Writer {
    /// Makes the run of segments that are about to be merged, where they hold tables of their own.
    pub(crate) async fn run_of_segments(
        &self,
        inputs: &[Arc<SegmentEntry>],
        range: BlockRange,
    ) -> Result<Option<(RunEntry, Uploading)>> {
        // A run was made when they left the first tier.
        if inputs.iter().any(|input| input.tier > 1) {
            return Ok(None);
        }
        let objects = &self.view.objects;
        let mut open = Vec::with_capacity(inputs.len());
        for input in inputs {
            open.push(objects.open(&input.object).await?);
        }
        let last_hash = inputs
            .last()
            .map_or(Hash32::ZERO, |last| last.facts.last_hash);
        let mut sources = Vec::with_capacity(open.len());
        for segment in &open {
            let name = &segment.identity.name;
            let missing = || Error::damaged(name, Damage("a sealed segment without hashes"));
            let (table, offset) = segment.tables.hashes.as_ref().ok_or_else(missing)?;
            let first_block = segment.tables.facts.range.start;
            sources.push(Source {
                name,
                table,
                offset: *offset,
                first_block,
            });
        }
        self.merge_tables(sources, (range, last_hash), 1)
            .await
            .map(Some)
    }

    /// Merges neighbouring runs into one of the next tier. They may overlap: of what two of them hold,
    /// one is kept.
    pub(crate) async fn merge_runs(
        &self,
        inputs: &[Arc<RunEntry>],
    ) -> Result<(RunEntry, Uploading)> {
        let objects = &self.view.objects;
        let mut open = Vec::with_capacity(inputs.len());
        for input in inputs {
            open.push((objects.open_run(&input.object).await?, input.range.start));
        }
        let first = inputs.iter().map(|input| input.range.start).min();
        let last = inputs.iter().max_by_key(|input| input.range.end);
        let (Some(first), Some(last)) = (first, last) else {
            return Err(Error::Invalid("no runs to merge".to_owned()));
        };
        let range = BlockRange::new(first, last.range.end);
        let tier = inputs.iter().map(|input| input.tier).max().unwrap_or(0) + 1;
        let sources = open
            .iter()
            .map(|(run, first_block)| Source {
                name: &run.identity.name,
                table: &run.hashes,
                offset: run.offset,
                first_block: *first_block,
            })
            .collect();
        self.merge_tables(sources, (range, last.last_hash), tier)
            .await
    }

    /// Makes a run of the first blocks of another.
    pub(crate) async fn trim_run(
        &self,
        run: &RunEntry,
        (range, last_hash): (BlockRange, Hash32),
    ) -> Result<(RunEntry, Uploading)> {
        let open = self.view.objects.open_run(&run.object).await?;
        let source = Source {
            name: &open.identity.name,
            table: &open.hashes,
            offset: open.offset,
            first_block: run.range.start,
        };
        self.merge_tables(vec![source], (range, last_hash), run.tier)
            .await
    }

    /// Merges tables over a range; entries behind its end are left out.
    async fn merge_tables(
        &self,
        sources: Vec<Source<'_>>,
        (range, last_hash): (BlockRange, Hash32),
        tier: u8,
    ) -> Result<(RunEntry, Uploading)> {
        let objects = &self.view.objects;
        let uploading = self
            .publisher
            .name("run", &format!("{:012}-{}", range.start, range.end));
        let mut output = Output::create(objects, &uploading.name, ObjectKind::Run).await?;
        output.container.begin(Section::Hashes);
        let entries: u64 = sources.iter().map(|source| source.table.entries()).sum();
        let payload_bits = range.len().max(2).next_power_of_two().ilog2();
        // A table that an older version made may have longer keys; none can be made longer.
        let bits = sources.iter().map(|source| source.table.key_bits());
        let key_bits = bits.fold(HASH_KEY_BITS, u32::min);
        let shape = TableShape::for_entries(entries.max(range.len()), key_bits, payload_bits);
        let mut table = TableBuilder::new(shape);
        let mut cursors: Vec<_> = sources
            .iter()
            .map(|source| source.cursor(objects, range.start, key_bits))
            .collect();
        let (mut kept, mut newest) = (0, None);
        let mut next = Vec::with_capacity(cursors.len());
        for cursor in &mut cursors {
            next.push(cursor.peek().await?);
        }
        loop {
            let places = next.iter().enumerate();
            let lowest = places
                .filter_map(|(place, next)| next.map(|next| (next, place)))
                .min();
            let Some(((key, offset), place)) = lowest else {
                break;
            };
            if offset < range.len() && newest != Some((key, offset)) {
                newest = Some((key, offset));
                table.push(key, offset, output.container.buffer());
                kept += 1;
            }
            if let (Some(cursor), Some(slot)) = (cursors.get_mut(place), next.get_mut(place)) {
                cursor.table.pop();
                *slot = cursor.peek().await?;
            }
            output.flush().await?;
        }
        let directory = table.finish(output.container.buffer());
        let container = &mut output.container;
        container.table(Section::HashDirectory, directory);
        let summary = encode_summary(&range, last_hash, DatasetSet::CLOCK);
        container.table(Section::Summary, summary);
        let object = output.finish(&uploading.name).await?;
        objects.open_run(&object).await?;
        Ok((
            RunEntry {
                object,
                tier,
                range,
                last_hash,
                entries: kept,
            },
            uploading,
        ))
    }
}
