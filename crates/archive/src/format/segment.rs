//! A segment's tables: where each block's rows and transactions are, and where each frame lies.
//!
//! Rows have ids. A *stretch* is what was sealed at once; its ids begin at a multiple of 64 Ki, so
//! that merging segments moves neither a frame nor a page of postings, it only renumbers them.

use bytes::Bytes;
use chronolith_model::{BlockRange, DatasetSet};

use super::blocks::{BlockEntry, BlockTable};
use super::container::{Container, ObjectKind, Section};
use super::facts::SegmentFacts;
use super::frame::FRAME_ROWS;
use super::page::PAGE_IDS;
use super::table::TableDirectory;
use super::wire::{Put, Reader};
use super::{Damage, Decoded, checksum, ensure, v1};

/// Bytes of a block of the hash sections: 64 hashes.
pub(crate) const HASH_BLOCK_BYTES: usize = 2048;
/// Bytes of a block of the postings section.
pub(crate) const POSTING_BLOCK_BYTES: usize = 4096;

/// A part of a segment that was sealed at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    pub(crate) blocks: u32,
    pub(crate) rows: u32,
    pub(crate) txs: u32,
    pub(crate) frames: u32,
    /// Which dictionary its frames need, counted from one; 0 for none.
    pub(crate) dictionary: u32,
}

impl Stretch {
    /// How many pages of ids it takes.
    pub(crate) fn pages(&self) -> u32 {
        self.rows.div_ceil(PAGE_IDS)
    }
}

/// A stretch with everything that lies before it counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedStretch {
    pub(crate) stretch: Stretch,
    pub(crate) first_id: u32,
    pub(crate) first_tx: u32,
    pub(crate) first_frame: u32,
}

/// A frame's place in the frames section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FramePlace {
    pub(crate) start: u64,
    pub(crate) len: u32,
    /// Ordinal, in the stretch, of the first row's transaction.
    pub(crate) first_tx: u32,
    checksum: u32,
}

impl FramePlace {
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    pub(crate) fn verify(&self, bytes: &[u8], index: u32) -> Decoded<()> {
        if bytes.is_empty() {
            // Its checksum holds: no merge may copy it further.
            Err(Damage("a frame of zero bytes"))
        } else if checksum(bytes, u64::from(index)) == self.checksum {
            Ok(())
        } else {
            Err(Damage("frame checksum mismatch"))
        }
    }
}

/// Checksums of a section that is read in blocks of a fixed size.
#[derive(Debug, Default)]
pub(crate) struct BlockedSection {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) block_bytes: u64,
    sums: Vec<u32>,
}

impl BlockedSection {
    fn decode(
        reader: &mut Reader<'_>,
        (offset, len): (u64, u64),
        expected: usize,
    ) -> Decoded<Self> {
        let block_bytes = reader.varint()?;
        let sums = reader.list(4, Reader::u32)?;
        ensure(
            block_bytes == expected as u64 && len.div_ceil(block_bytes) == sums.len() as u64,
            "block checksums do not fit their section",
        )?;
        Ok(Self {
            offset,
            len,
            block_bytes,
            sums,
        })
    }

    /// Where a block lies in the section.
    pub(crate) fn block(&self, index: u64) -> (u64, u64) {
        let start = index * self.block_bytes;
        (start, (start + self.block_bytes).min(self.len))
    }

    pub(crate) fn verify(&self, index: u64, bytes: &[u8]) -> Decoded<()> {
        let expected = usize::try_from(index)
            .ok()
            .and_then(|index| self.sums.get(index));
        ensure(
            expected == Some(&checksum(bytes, index)),
            "block checksum mismatch",
        )
    }
}

/// Everything of a segment that stays in memory while it is open.
#[derive(Debug)]
pub(crate) struct SegmentTables {
    pub(crate) facts: SegmentFacts,
    pub(crate) blocks: BlockTable,
    pub(crate) block_hashes: BlockedSection,
    /// Hashes of all blocks, in segments of version 1, which have no section of them.
    pub(crate) listed_hashes: Option<Bytes>,
    pub(crate) stretches: Vec<PlacedStretch>,
    /// Which stretch each page of ids belongs to.
    page_owner: Vec<u32>,
    pub(crate) frames: Vec<FramePlace>,
    pub(crate) frames_offset: u64,
    pub(crate) dictionaries: Vec<Bytes>,
    /// Positions of transactions of the blocks that do not list all of theirs, by block.
    odd_tx_indexes: Vec<OddIndexes>,
    pub(crate) tx_hashes: BlockedSection,
    pub(crate) digests: BlockedSection,
    pub(crate) postings: BlockedSection,
    pub(crate) terms: TableDirectory,
    pub(crate) terms_offset: u64,
    /// Hashes of transactions and blocks, in segments that no run covers yet.
    pub(crate) hashes: Option<(TableDirectory, u64)>,
}

impl SegmentTables {
    pub(crate) fn decode(tail: Bytes, tail_offset: u64) -> Decoded<Self> {
        let container = Container::parse(tail, tail_offset, ObjectKind::Segment)?;
        let summary = container.table(Section::Summary)?;
        let mut reader = Reader::new(&summary);
        let facts = SegmentFacts::decode(&mut reader)?;
        reader.finish()?;
        let stretches = decode_stretches(&container.table(Section::Stretches)?)?;
        let (blocks, listed_hashes) = decode_blocks(&container, &facts, &stretches)?;
        let frames_at = container.data(Section::Frames)?;
        let frames = decode_frames(
            &container.table(Section::FrameTable)?,
            &stretches,
            frames_at.1,
        )?;
        let dictionaries = decode_dictionaries(&container.table(Section::Dictionaries)?)?;
        let enough =
            |placed: &PlacedStretch| placed.stretch.dictionary as usize <= dictionaries.len();
        ensure(stretches.iter().all(enough), "a dictionary is missing")?;
        let blocked = Blocked::decode(&container, &facts, listed_hashes.is_some())?;
        let (terms_offset, terms_len) = container.data(Section::Terms)?;
        let terms = TableDirectory::decode(&container.table(Section::TermDirectory)?, terms_len)?;
        let hashes = decode_hashes(&container)?;
        let odd_tx_indexes = decode_tx_indexes(&container.table(Section::TxIndexes)?, &blocks)?;
        let pages = stretches
            .iter()
            .map(|placed| placed.stretch.pages() as usize);
        let page_owner = pages
            .enumerate()
            .flat_map(|(at, n)| std::iter::repeat_n(at as u32, n));
        Ok(Self {
            page_owner: page_owner.collect(),
            facts,
            blocks,
            block_hashes: blocked.block_hashes,
            listed_hashes,
            stretches,
            frames,
            frames_offset: frames_at.0,
            dictionaries,
            odd_tx_indexes,
            tx_hashes: blocked.tx_hashes,
            digests: blocked.digests,
            postings: blocked.postings,
            terms,
            terms_offset,
            hashes,
        })
    }

    /// Positions of transactions of the blocks that do not list all of theirs.
    pub(crate) fn odd_tx_indexes(&self) -> &[OddIndexes] {
        &self.odd_tx_indexes
    }

    /// Bytes they take in memory.
    pub(crate) fn weight(&self) -> usize {
        self.blocks.weight()
            + self.listed_hashes.as_ref().map_or(0, Bytes::len)
            + self.frames.len() * size_of::<FramePlace>()
            + self.stretches.len() * size_of::<PlacedStretch>()
            + self
                .odd_tx_indexes
                .iter()
                .map(|odd| odd.rest.len() * 4 + size_of::<OddIndexes>())
                .sum::<usize>()
            // Once as bytes, once made ready to unpack with.
            + self.dictionaries.iter().map(|bytes| bytes.len() * 4).sum::<usize>()
            + self.terms.weight()
            + self
                .hashes
                .as_ref()
                .map_or(0, |(directory, _)| directory.weight())
            + [&self.tx_hashes, &self.postings, &self.digests, &self.block_hashes]
                .map(|section| section.sums.len() * 4)
                .iter()
                .sum::<usize>()
            + 1024
    }

    /// A block's place in the segment.
    pub(crate) fn place(&self, number: u64) -> Option<u32> {
        let place = u32::try_from(number.checked_sub(self.facts.range.start)?).ok()?;
        (place < self.blocks.len()).then_some(place)
    }

    /// The table's entry of a block of the range.
    pub(crate) fn block(&self, number: u64) -> Option<BlockEntry> {
        self.blocks.at(self.place(number)?)
    }

    /// The number of the block at a place.
    pub(crate) fn number(&self, place: u32) -> u64 {
        self.facts.range.start + u64::from(place)
    }

    /// The ids that rows of these blocks can have: from the first row to the one after the last.
    pub(crate) fn ids_of(&self, range: &BlockRange) -> (u32, u32) {
        let Some(inside) = range.intersect(&self.facts.range) else {
            return (0, 0);
        };
        let entry = |number: u64| {
            let entry = self.block(number);
            entry.expect("a table has an entry for each block of its segment")
        };
        let last = entry(inside.end - 1);
        (entry(inside.start).first_id, last.first_id + last.logs)
    }

    /// Which frame holds a row, which stretch it belongs to, and the row's place in it.
    pub(crate) fn frame_of(&self, id: u32) -> Option<(u32, &PlacedStretch, usize)> {
        let owner = *self.page_owner.get((id / PAGE_IDS) as usize)?;
        let placed = self.stretches.get(owner as usize)?;
        let local = id - placed.first_id;
        let frame = placed.first_frame + local / FRAME_ROWS as u32;
        (local < placed.stretch.rows).then_some((frame, placed, local as usize % FRAME_ROWS))
    }

    /// The position in its block of the transaction with this place in the block's list.
    pub(crate) fn tx_index(&self, entry: &BlockEntry, place: u32) -> Option<u32> {
        if entry.txs_in_sequence {
            return Some(place);
        }
        let found = self
            .odd_tx_indexes
            .binary_search_by_key(&entry.place, |odd| odd.block)
            .ok()?;
        let odd = self.odd_tx_indexes.get(found)?;
        match place.checked_sub(odd.in_sequence) {
            Some(at) => odd.rest.get(at as usize).copied(),
            None => Some(place),
        }
    }
}

/// The sections that are read in blocks of a fixed size.
struct Blocked {
    tx_hashes: BlockedSection,
    digests: BlockedSection,
    postings: BlockedSection,
    block_hashes: BlockedSection,
}

impl Blocked {
    fn decode(container: &Container, facts: &SegmentFacts, listed: bool) -> Decoded<Self> {
        let sums = container.table(Section::BlockChecksums)?;
        let mut reader = Reader::new(&sums);
        let mut next = |section: Section, bytes: usize| {
            BlockedSection::decode(&mut reader, container.data(section)?, bytes)
        };
        let sections = Self {
            tx_hashes: next(Section::TxHashes, HASH_BLOCK_BYTES)?,
            digests: next(Section::Digests, HASH_BLOCK_BYTES)?,
            postings: next(Section::Postings, POSTING_BLOCK_BYTES)?,
            block_hashes: match listed {
                true => BlockedSection::default(),
                false => next(Section::BlockHashes, HASH_BLOCK_BYTES)?,
            },
        };
        reader.finish()?;
        let of_blocks = facts.range.len() * 32;
        let digests_fit = match sections.digests.len {
            0 => digests_follow(facts),
            len => len == of_blocks,
        };
        let hashes_fit = listed || sections.block_hashes.len == of_blocks;
        ensure(
            sections.tx_hashes.len == facts.txs * 32 && digests_fit && hashes_fit,
            "hash sections do not fit the counts",
        )?;
        Ok(sections)
    }
}

/// Whether the digests of blocks are made from their clocks, and not stored: nothing else is kept.
pub(crate) fn digests_follow(facts: &SegmentFacts) -> bool {
    facts.datasets == DatasetSet::CLOCK
}

/// The block table, and the hashes of blocks where they are not a section of their own.
fn decode_blocks(
    container: &Container,
    facts: &SegmentFacts,
    stretches: &[PlacedStretch],
) -> Decoded<(BlockTable, Option<Bytes>)> {
    let table = container.table(Section::Blocks)?;
    if container.data(Section::BlockHashes).is_ok() {
        // A buffer of its own: what stays in memory must not keep all tables there, uncounted.
        let table = Bytes::copy_from_slice(&table);
        return Ok((BlockTable::decode(table, facts, stretches)?, None));
    }
    let (pages, hashes) = v1::decode_blocks(&table, stretches)?;
    ensure(
        hashes.last_chunk::<32>() == Some(&facts.last_hash.0),
        "block table does not fit the summary",
    )?;
    Ok((BlockTable::decode(pages, facts, stretches)?, Some(hashes)))
}

/// The table from hash to block, in segments that have one.
fn decode_hashes(container: &Container) -> Decoded<Option<(TableDirectory, u64)>> {
    let Ok((offset, len)) = container.data(Section::Hashes) else {
        return Ok(None);
    };
    let directory = container.table(Section::HashDirectory)?;
    Ok(Some((TableDirectory::decode(&directory, len)?, offset)))
}

/// Stretches, with what lies before each counted.
pub(crate) fn place_stretches(stretches: &[Stretch]) -> Decoded<Vec<PlacedStretch>> {
    let damage = Damage("stretch too large");
    let (mut page, mut tx, mut frame) = (0_u32, 0_u32, 0_u32);
    let mut placed = Vec::with_capacity(stretches.len());
    for &stretch in stretches {
        let first_id = page.checked_mul(PAGE_IDS).ok_or(damage)?;
        first_id.checked_add(stretch.rows).ok_or(damage)?;
        placed.push(PlacedStretch {
            stretch,
            first_id,
            first_tx: tx,
            first_frame: frame,
        });
        page = page.checked_add(stretch.pages()).ok_or(damage)?;
        tx = tx.checked_add(stretch.txs).ok_or(damage)?;
        frame = frame.checked_add(stretch.frames).ok_or(damage)?;
    }
    Ok(placed)
}

pub(crate) fn encode_stretches(stretches: &[Stretch]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_list(stretches, |stretch, out| {
        out.put_varint(u64::from(stretch.blocks));
        out.put_varint(u64::from(stretch.rows));
        out.put_varint(u64::from(stretch.txs));
        out.put_varint(u64::from(stretch.frames));
        out.put_varint(u64::from(stretch.dictionary));
    });
    out
}

fn decode_stretches(bytes: &[u8]) -> Decoded<Vec<PlacedStretch>> {
    let mut reader = Reader::new(bytes);
    let stretches = reader.list(5, |reader| {
        let stretch = Stretch {
            blocks: reader.varint_u32()?,
            rows: reader.varint_u32()?,
            txs: reader.varint_u32()?,
            frames: reader.varint_u32()?,
            dictionary: reader.varint_u32()?,
        };
        let fits = stretch.frames == stretch.rows.div_ceil(FRAME_ROWS as u32);
        ensure(fits, "frames do not fit the rows")?;
        Ok(stretch)
    })?;
    reader.finish()?;
    place_stretches(&stretches)
}

/// Appends a frame to the frame table.
pub(crate) fn encode_frame_place(bytes: &[u8], index: u32, first_tx: u32, out: &mut Vec<u8>) {
    out.put_varint(bytes.len() as u64);
    out.put_varint(u64::from(first_tx));
    out.put_u32(checksum(bytes, u64::from(index)));
}

fn decode_frames(
    bytes: &[u8],
    stretches: &[PlacedStretch],
    section_len: u64,
) -> Decoded<Vec<FramePlace>> {
    let mut reader = Reader::new(bytes);
    let count: usize = stretches
        .iter()
        .map(|placed| placed.stretch.frames as usize)
        .sum();
    ensure(count <= bytes.len() / 6, "frame table too short")?;
    let mut frames = Vec::with_capacity(count);
    let mut start = 0_u64;
    for _ in 0..count {
        let len = reader.varint_u32()?;
        let first_tx = reader.varint_u32()?;
        frames.push(FramePlace {
            start,
            len,
            first_tx,
            checksum: reader.u32()?,
        });
        start += u64::from(len);
    }
    reader.finish()?;
    ensure(start == section_len, "frames do not fill their section")?;
    Ok(frames)
}

pub(crate) fn encode_dictionaries<'a>(dictionaries: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    dictionaries.for_each(|dictionary| out.put_bytes(dictionary));
    out
}

fn decode_dictionaries(bytes: &[u8]) -> Decoded<Vec<Bytes>> {
    let mut reader = Reader::new(bytes);
    let mut dictionaries = Vec::new();
    while !reader.is_empty() {
        // A buffer of its own, as for the table of blocks.
        dictionaries.push(Bytes::copy_from_slice(reader.bytes()?));
    }
    Ok(dictionaries)
}

/// Positions of the transactions of a block that does not list all of its own, or lists second hashes
/// after them. As many as are in sequence are counted; in most such blocks these are nearly all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OddIndexes {
    pub(crate) block: u32,
    pub(crate) in_sequence: u32,
    pub(crate) rest: Box<[u32]>,
}

impl OddIndexes {
    pub(crate) fn new(block: u32, indexes: impl Iterator<Item = u32>) -> Self {
        let mut indexes = indexes.peekable();
        let mut in_sequence = 0;
        while indexes.next_if_eq(&in_sequence).is_some() {
            in_sequence += 1;
        }
        Self {
            block,
            in_sequence,
            rest: indexes.collect(),
        }
    }

    fn all(&self) -> impl Iterator<Item = u32> {
        (0..self.in_sequence).chain(self.rest.iter().copied())
    }
}

/// Positions of transactions, for the blocks that need them.
pub(crate) fn encode_tx_indexes(blocks: impl Iterator<Item = OddIndexes>) -> Vec<u8> {
    let mut out = Vec::new();
    for odd in blocks {
        out.put_varint(u64::from(odd.block));
        let mut next = 0;
        for index in odd.all() {
            out.put_varint(u64::from(index) - next);
            next = u64::from(index) + 1;
        }
    }
    out
}

fn decode_tx_indexes(bytes: &[u8], blocks: &BlockTable) -> Decoded<Vec<OddIndexes>> {
    let mut reader = Reader::new(bytes);
    let mut found = Vec::new();
    for entry in blocks.counted().filter(|entry| !entry.txs_in_sequence) {
        let fits = reader.varint_u32()? == entry.place && entry.txs as usize <= reader.rest().len();
        ensure(fits, "transaction positions do not fit the blocks")?;
        let mut indexes = Vec::with_capacity(entry.txs as usize);
        let mut next = 0_u64;
        for _ in 0..entry.txs {
            let index = next.saturating_add(reader.varint()?);
            indexes.push(u32::try_from(index).map_err(|_| Damage("position too large"))?);
            next = index + 1;
        }
        found.push(OddIndexes::new(entry.place, indexes.into_iter()));
    }
    reader.finish()?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_positions_only_those_out_of_sequence_take_memory() {
        let alias = 1 << 31;
        for (indexes, in_sequence) in [
            (vec![0, 1, 2, alias, alias | 2], 3),
            (vec![3, 5], 0),
            (vec![0, 2, 3], 1),
            (vec![], 0),
        ] {
            let odd = OddIndexes::new(7, indexes.iter().copied());
            assert_eq!(odd.in_sequence, in_sequence);
            assert_eq!(odd.rest.len(), indexes.len() - in_sequence as usize);
            assert_eq!(odd.all().collect::<Vec<_>>(), indexes);
        }
    }
}
