//! Merging: neighbouring segments become one. Frames and pages of postings are copied as they are;
//! only tables, the dictionary and short lists are rebuilt. Memory does not grow with the size
//! of what is merged, except for the new tables.

use std::sync::Arc;

use chronolith_model::{BlockRange, Hash32, Proof};
use chronolith_store::BlobWriter;

use crate::error::{Error, Result};
use crate::format::Damage;
use crate::format::container::{BlockSums, ContainerBuilder, ObjectKind, Section};
use crate::format::digest::ClockDigests;
use crate::format::facts::SegmentFacts;
use crate::format::page::PAGE_IDS;
use crate::format::postings::{HEAD_BYTES_MAX, ListBuilder, Pointer, RecordHead};
use crate::format::segment::{
    self, FramePlace, HASH_BLOCK_BYTES, OddIndexes, POSTING_BLOCK_BYTES, Stretch, digests_follow,
    encode_frame_place,
};
use crate::format::table::{TableBuilder, TableShape};
use crate::format::term::TERM_BITS;
use crate::format::wire::Put;
use crate::ranges::tx_counts::TxCounts;
use crate::read::cache::Part;
use crate::read::objects::{Objects, OpenSegment, section_of};
use crate::read::window::{TableCursor, Window};
use crate::state::catalog::{ObjectRef, SegmentEntry};
use crate::write::publish::Uploading;
use crate::write::writer::Writer;

/// Bytes that are handed to the store at once.
const WRITE_BYTES: usize = 4 << 20;

/// An object that is written as it is made.
pub(crate) struct Output {
    pub(crate) container: ContainerBuilder,
    /// Checksums of the sections so far that are read in blocks.
    sums: Vec<u8>,
    writer: Box<dyn BlobWriter>,
}

impl Output {
    pub(crate) async fn create(objects: &Objects, name: &str, kind: ObjectKind) -> Result<Self> {
        let writer = objects.blobs().create(name).await;
        Ok(Self {
            container: ContainerBuilder::new(kind),
            sums: Vec::new(),
            writer: writer.map_err(Error::store("create an object"))?,
        })
    }

    /// Hands over what was made, once it is worth it.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        if self.container.buffer().len() >= WRITE_BYTES {
            self.write().await?;
        }
        Ok(())
    }

    /// Completes the object and returns where it lies.
    pub(crate) async fn finish(mut self, name: &str) -> Result<ObjectRef> {
        let finished = self.container.finish();
        self.write().await?;
        let completed = self.writer.finish(finished.len).await;
        completed.map_err(Error::store("complete an object"))?;
        Ok(ObjectRef::new(name, finished))
    }

    async fn write(&mut self) -> Result<()> {
        let written = self.writer.write(self.container.drain()).await;
        written.map_err(Error::store("write an object"))
    }
}

impl Writer {
    /// Merges neighbours into one segment of the next tier. The new object is complete, but nothing
    /// names it yet.
    pub(crate) async fn merge(
        &self,
        inputs: &[Arc<SegmentEntry>],
    ) -> Result<(SegmentEntry, Uploading)> {
        let objects = &self.view.objects;
        let mut open = Vec::with_capacity(inputs.len());
        for input in inputs {
            open.push(objects.open(&input.object).await?);
        }
        let range = range_of(inputs)?;
        let uploading = self.publisher.name("seg", range);
        let mut output = Output::create(objects, &uploading.name, ObjectKind::Segment).await?;
        let follow = inputs.iter().all(|input| digests_follow(&input.facts));
        let frame_table = copy_frames(objects, &open, &mut output).await?;
        output.container.begin(Section::TxHashes);
        let mut keys = TxCounts::default();
        let count = |hashes: &[u8]| keys.count_all(hashes);
        copy_hashes(objects, &open, Part::TxHashes, &mut output, count).await?;
        output.container.begin(Section::Digests);
        let mut root = blake3::Hasher::new();
        let stored = if follow { &[] } else { &open[..] };
        let hash = |digests: &[u8]| {
            root.update(digests);
        };
        copy_hashes(objects, stored, Part::Digests, &mut output, hash).await?;
        let terms = merge_terms(objects, &open, &mut output).await?;
        output.container.begin(Section::Terms);
        output.container.buffer().put(&terms.pages);
        output.container.begin(Section::BlockHashes);
        let times = open.iter().flat_map(|input| input.tables.blocks.times());
        let first = inputs.first().expect("merging nothing is refused above");
        let mut clocks = ClockDigests::new(range.start, first.facts.parent_hash, times);
        let hash = |hashes: &[u8]| {
            if follow {
                clocks.add_to(&mut root, hashes);
            }
        };
        copy_hashes(objects, &open, Part::BlockHashes, &mut output, hash).await?;
        let root = Hash32(*root.finalize().as_bytes());
        let mut facts = join_facts(inputs, range, root);
        // Inputs of older versions do not have it.
        let latest = open.iter().map(|input| input.tables.blocks.latest_time());
        facts.latest_timestamp = latest.max().expect("merging nothing is refused above");
        let mut summary = Vec::new();
        facts.encode(&mut summary);
        let container = &mut output.container;
        container.table(Section::Summary, summary);
        join_tables(&open, container);
        container.table(Section::FrameTable, frame_table);
        container.table(Section::TermDirectory, terms.directory);
        container.table(Section::BlockChecksums, std::mem::take(&mut output.sums));
        let object = output.finish(&uploading.name).await?;
        // What replaces others must itself be readable.
        objects.open(&object).await?;
        let tier = inputs.iter().map(|input| input.tier).max();
        let tier = tier.expect("merging nothing is refused above") + 1;
        Ok((
            SegmentEntry {
                object,
                tier,
                facts,
                keys: Some(keys),
            },
            uploading,
        ))
    }
}

pub(crate) fn range_of(inputs: &[Arc<SegmentEntry>]) -> Result<BlockRange> {
    let joined = inputs.windows(2).all(|pair| match pair {
        [before, next] => before.facts.joins(&next.facts),
        _ => true,
    });
    match (inputs.first(), inputs.last()) {
        (Some(first), Some(last)) if joined => Ok(BlockRange::new(
            first.facts.range.start,
            last.facts.range.end,
        )),
        _ => Err(Error::Invalid(
            "segments to merge are no neighbours".to_owned(),
        )),
    }
}

async fn copy_frames(
    objects: &Objects,
    inputs: &[Arc<OpenSegment>],
    output: &mut Output,
) -> Result<Vec<u8>> {
    output.container.begin(Section::Frames);
    let mut table = Vec::new();
    let mut index = 0;
    for input in inputs {
        let name = &input.identity.name;
        let tables = &input.tables;
        let len = tables.frames.last().map_or(0, FramePlace::end);
        let mut window = Window::new(objects, name, (tables.frames_offset, len));
        for (number, place) in (0..).zip(&tables.frames) {
            let frame = window.slice(place.start, place.end()).await?;
            let verified = place.verify(&frame, number);
            verified.map_err(|damage| Error::damaged(name, damage))?;
            encode_frame_place(&frame, index, place.first_tx, &mut table);
            output.container.buffer().put(&frame);
            output.flush().await?;
            index += 1;
        }
    }
    Ok(table)
}

/// Copies a section of hashes from all inputs, block by block, and passes what it copies to `seen`.
async fn copy_hashes(
    objects: &Objects,
    inputs: &[Arc<OpenSegment>],
    part: Part,
    output: &mut Output,
    mut seen: impl FnMut(&[u8]),
) -> Result<()> {
    let mut new_sums = BlockSums::new(HASH_BLOCK_BYTES);
    for input in inputs {
        if let (Part::BlockHashes, Some(hashes)) = (part, &input.tables.listed_hashes) {
            new_sums.update(hashes);
            seen(hashes);
            output.container.buffer().put(hashes);
            output.flush().await?;
            continue;
        }
        let section = section_of(input, part);
        let mut window = Window::blocked(objects, &input.identity.name, section);
        for start in (0..section.len).step_by(WRITE_BYTES) {
            let end = (start + WRITE_BYTES as u64).min(section.len);
            let bytes = window.slice(start, end).await?;
            new_sums.update(&bytes);
            seen(&bytes);
            output.container.buffer().put(&bytes);
            output.flush().await?;
        }
    }
    new_sums.finish(&mut output.sums);
    Ok(())
}

struct MergedTerms {
    pages: Vec<u8>,
    directory: Vec<u8>,
}

/// One input's terms and lists, read side by side: lists lie in the order of their terms.
struct TermSource<'a> {
    terms: TableCursor<'a>,
    /// The next term and its payload.
    next: Option<(u64, u64)>,
    lists: Window<'a>,
    /// The section's length, for a record's head at its very end.
    lists_len: u64,
    name: &'a str,
    /// Where this input's ids begin in the merged segment.
    base: u32,
}

async fn merge_terms(
    objects: &Objects,
    inputs: &[Arc<OpenSegment>],
    output: &mut Output,
) -> Result<MergedTerms> {
    let (mut sources, mut page) = (Vec::with_capacity(inputs.len()), 0_u32);
    let (mut entries, mut list_bytes) = (0_u64, 0_u64);
    for input in inputs {
        let tables = &input.tables;
        let name = input.identity.name.as_str();
        let place = (tables.terms_offset, tables.terms.section_len());
        let window = Window::new(objects, name, place);
        let terms = TableCursor::new(window, &tables.terms);
        let lists = Window::blocked(objects, name, &tables.postings);
        let too_large = || Error::Invalid("too many rows for one segment".to_owned());
        let base = page.checked_mul(PAGE_IDS).ok_or_else(too_large)?;
        sources.push(TermSource {
            terms,
            next: None,
            lists,
            lists_len: tables.postings.len,
            name,
            base,
        });
        page += tables
            .stretches
            .iter()
            .map(|placed| placed.stretch.pages())
            .sum::<u32>();
        entries += tables.terms.entries();
        list_bytes += tables.postings.len;
    }
    output.container.begin(Section::Postings);
    // A term with one log in each of two inputs gets a record where there was none.
    let bound = list_bytes + entries * 8;
    let bits = Pointer::bits(u64::from(page) * u64::from(PAGE_IDS), bound);
    let mut table = TableBuilder::new(TableShape::for_entries(entries, TERM_BITS, bits));
    let mut new_sums = BlockSums::new(POSTING_BLOCK_BYTES);
    let (mut pages, mut offset) = (Vec::new(), 0_u64);
    let mut list = ListBuilder::default();
    for source in &mut sources {
        source.next = source.terms.peek().await?;
    }
    while let Some(term) = sources
        .iter()
        .filter_map(|source| source.next)
        .map(|next| next.0)
        .min()
    {
        list.clear();
        for source in &mut sources {
            if let Some((_, payload)) = source.next.filter(|next| next.0 == term) {
                source.add_to(payload, &mut list).await?;
            }
        }
        let start = output.container.buffer().len();
        let pointer = list.finish(offset, output.container.buffer());
        let record = output.container.buffer().get(start..);
        let record = record.expect("the buffer only grew since its length was taken");
        offset += record.len() as u64;
        new_sums.update(record);
        table.push(term, pointer.encode(), &mut pages);
        output.flush().await?;
    }
    new_sums.finish(&mut output.sums);
    let directory = table.finish(&mut pages);
    Ok(MergedTerms { pages, directory })
}

impl TermSource<'_> {
    /// Adds this input's logs of its next term, and continues to the one after it.
    async fn add_to(&mut self, payload: u64, list: &mut ListBuilder) -> Result<()> {
        self.terms.pop();
        self.next = self.terms.peek().await?;
        let name = self.name;
        let damaged = |damage: Damage| Error::damaged(name, damage);
        let offset = match Pointer::decode(payload).map_err(damaged)? {
            Pointer::One(id) => {
                let id = id.checked_add(self.base).ok_or(Damage("id too large"));
                list.push_ids(&[id.map_err(damaged)?]);
                return Ok(());
            }
            Pointer::Record(offset) => offset,
        };
        let end = (offset + HEAD_BYTES_MAX as u64).min(self.lists_len);
        let head = self.lists.slice(offset, end).await?;
        let head = RecordHead::decode(&head, offset).map_err(damaged)?;
        let body = self.lists.slice(head.body.0, head.body.1).await?;
        if head.is_short() {
            let mut ids = head.short_ids(&body).map_err(damaged)?;
            for id in &mut ids {
                *id = id
                    .checked_add(self.base)
                    .ok_or(Damage("id too large"))
                    .map_err(damaged)?;
            }
            list.push_ids(&ids);
            return Ok(());
        }
        for place in head.pages(&body).map_err(damaged)? {
            let page = self.lists.slice(place.start, place.end).await?;
            list.push_page(place.page + self.base / PAGE_IDS, place.count, &page);
        }
        Ok(())
    }
}

/// The tables that are those of the inputs, one after the other.
fn join_tables(inputs: &[Arc<OpenSegment>], container: &mut ContainerBuilder) {
    let (stretches, dictionaries) = join_stretches(inputs);
    container.table(Section::Stretches, segment::encode_stretches(&stretches));
    let pages = inputs.iter().map(|input| &input.tables.blocks.bytes()[..]);
    container.table(Section::Blocks, pages.collect::<Vec<_>>().concat());
    let dictionaries = dictionaries.iter().map(|bytes| &bytes[..]);
    let dictionaries = segment::encode_dictionaries(dictionaries);
    container.table(Section::Dictionaries, dictionaries);
    container.table(Section::TxIndexes, tx_indexes(inputs));
}

/// All stretches in order, and each dictionary once.
fn join_stretches(inputs: &[Arc<OpenSegment>]) -> (Vec<Stretch>, Vec<bytes::Bytes>) {
    let mut stretches = Vec::new();
    let mut dictionaries: Vec<bytes::Bytes> = Vec::new();
    for input in inputs {
        for placed in &input.tables.stretches {
            let mut stretch = placed.stretch;
            let own = stretch.dictionary.checked_sub(1).map(|at| {
                let own = input.tables.dictionaries.get(at as usize);
                own.expect("a segment without one of its dictionaries does not open")
            });
            stretch.dictionary = match own {
                None => 0,
                Some(bytes) => {
                    let known = dictionaries.iter().position(|known| known == bytes);
                    let at = known.unwrap_or_else(|| {
                        dictionaries.push(bytes.clone());
                        dictionaries.len() - 1
                    });
                    at as u32 + 1
                }
            };
            stretches.push(stretch);
        }
    }
    (stretches, dictionaries)
}

fn tx_indexes(inputs: &[Arc<OpenSegment>]) -> Vec<u8> {
    let mut first = 0_u32;
    let mut all = Vec::new();
    for input in inputs {
        let odd = input.tables.odd_tx_indexes();
        all.extend(odd.iter().map(|odd| OddIndexes {
            block: first + odd.block,
            ..odd.clone()
        }));
        first += input.tables.blocks.len();
    }
    segment::encode_tx_indexes(all.into_iter())
}

fn join_facts(inputs: &[Arc<SegmentEntry>], range: BlockRange, root: Hash32) -> SegmentFacts {
    let first = inputs.first().expect("merging nothing is refused above");
    let mut facts = first.facts.clone();
    facts.range = range;
    facts.root = root;
    let mut levels: Vec<(u64, Proof)> = Vec::new();
    (facts.logs, facts.txs, facts.log_bytes) = (0, 0, 0);
    for input in inputs {
        let next = &input.facts;
        facts.last_hash = next.last_hash;
        facts.last_timestamp = next.last_timestamp;
        facts.logs += next.logs;
        facts.txs += next.txs;
        facts.log_bytes += next.log_bytes;
        for &(end, level) in &next.levels {
            match levels.last_mut() {
                Some(last) if last.1 == level => last.0 = end,
                _ => levels.push((end, level)),
            }
        }
    }
    facts.levels = levels;
    facts
}
