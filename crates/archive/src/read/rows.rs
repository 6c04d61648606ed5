//! Rows of a segment as logs, with everything an answer carries.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{Block, BlockMeta, BlockRef, Cursor, Hash32, Log, Payload, Tx};

use super::cache::{Part, Value, into_bytes};
use super::objects::{Objects, OpenSegment, Want, all_of};
use crate::error::{Error, Result};
use crate::format::blocks::BlockEntry;
use crate::format::digest::clock_digest;
use crate::format::frame::{FRAME_ROWS, Frame};
use crate::format::segment::{HASH_BLOCK_BYTES, PlacedStretch, SegmentTables};
use crate::format::{Damage, Decoded};

const HASHES_PER_BLOCK: u64 = HASH_BLOCK_BYTES as u64 / 32;

/// A log with its place in the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRecord {
    /// The block it is in.
    pub block: BlockRef,
    pub timestamp: u64,
    /// The transaction it is of.
    pub tx_hash: Hash32,
    /// The log; it knows its index in the block and its transaction's.
    pub log: Log,
}

impl LogRecord {
    /// The position of this log: a page that continues from it begins with the next one.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor {
            block: self.block,
            log_index: self.log.log_index(),
        }
    }
}

/// When hashes of transactions and blocks are requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hashes {
    /// Together with the frames: nearly all rows are wanted.
    AtOnce,
    /// When it is known which rows are wanted.
    Afterwards,
}

/// Loaded blocks of hashes.
struct HashBlocks {
    numbers: Vec<u64>,
    blocks: Vec<Bytes>,
}

impl HashBlocks {
    /// A hash by its ordinal. `near` is where the last one was found: neighbours are requested
    /// one after the other.
    fn get(&self, ordinal: u64, near: &mut usize) -> Option<Hash32> {
        let number = ordinal / HASHES_PER_BLOCK;
        if self.numbers.get(*near) != Some(&number) {
            *near = self.numbers.binary_search(&number).ok()?;
        }
        let start = (ordinal % HASHES_PER_BLOCK) as usize * 32;
        Hash32::from_slice(self.blocks.get(*near)?.get(start..start + 32)?)
    }
}

/// What is still to be filled into a record: the hashes of its transaction and its block.
struct Unnamed {
    tx: u64,
    block: u64,
}

/// Neighbouring ids that lie in one frame.
struct FrameGroup<'a> {
    frame: u32,
    stretch: &'a PlacedStretch,
    ids: &'a [u32],
}

impl Objects {
    async fn hash_blocks(
        &self,
        segment: &OpenSegment,
        part: Part,
        mut numbers: Vec<u64>,
    ) -> Result<HashBlocks> {
        numbers.sort_unstable();
        numbers.dedup();
        let blocks = self.blocks(segment, part, &numbers).await?;
        Ok(HashBlocks { numbers, blocks })
    }

    /// Appends the rows with these ids, given rising or falling, that `keep` lets through. Frames
    /// and hashes are requested together.
    pub(crate) async fn records(
        &self,
        segment: &OpenSegment,
        (ids, when): (&[u32], Hashes),
        keep: impl FnMut(u64, &Log) -> bool,
        out: &mut Vec<LogRecord>,
    ) -> Result<()> {
        let tables = &segment.tables;
        let damaged = |damage| Error::damaged(&segment.identity.name, damage);
        let groups = frame_groups(tables, ids).map_err(damaged)?;
        let blocks = blocks_of(tables, ids).map_err(damaged)?;
        let mut numbers: Vec<u32> = groups.iter().map(|group| group.frame).collect();
        numbers.sort_unstable();
        // The tables show where each frame's transactions begin and which block a row is of, so
        // hashes can be requested before the frame is unpacked.
        let guess = |group: &FrameGroup<'_>| {
            let first = tables
                .frames
                .get(group.frame as usize)
                .map_or(0, |place| place.first_tx);
            (u64::from(group.stretch.first_tx) + u64::from(first)) / HASHES_PER_BLOCK
        };
        let (tx_guesses, block_guesses) = match when {
            Hashes::AtOnce => (
                groups.iter().map(guess).collect(),
                blocks.iter().map(|entry| hash_block(entry.place)).collect(),
            ),
            Hashes::Afterwards => (Vec::new(), Vec::new()),
        };
        let frames = self.frames(segment, &numbers);
        let tx_hashes = self.hash_blocks(segment, Part::TxHashes, tx_guesses);
        let block_hashes = self.hash_blocks(segment, Part::BlockHashes, block_guesses);
        let (frames, tx_hashes, block_hashes) =
            futures::try_join!(frames, tx_hashes, block_hashes)?;
        let first = out.len();
        let loaded = (&numbers[..], &frames[..]);
        let unnamed = unpack(tables, (&groups, &blocks), loaded, keep, out).map_err(damaged)?;

        let txs = unnamed.iter().map(|row| row.tx);
        let in_blocks = unnamed.iter().map(|row| row.block);
        let tx_hashes = self.complete(segment, Part::TxHashes, tx_hashes, txs);
        let block_hashes = self.complete(segment, Part::BlockHashes, block_hashes, in_blocks);
        let (tx_hashes, block_hashes) = futures::try_join!(tx_hashes, block_hashes)?;
        let (mut near_tx, mut near_block) = (0, 0);
        let missing = || damaged(Damage("hash not loaded"));
        for (record, row) in out.iter_mut().skip(first).zip(unnamed) {
            record.tx_hash = tx_hashes.get(row.tx, &mut near_tx).ok_or_else(missing)?;
            let hash = block_hashes.get(row.block, &mut near_block);
            record.block.hash = hash.ok_or_else(missing)?;
        }
        Ok(())
    }

    /// Loads what is missing of the hashes with these ordinals.
    async fn complete(
        &self,
        segment: &OpenSegment,
        part: Part,
        known: HashBlocks,
        ordinals: impl Iterator<Item = u64>,
    ) -> Result<HashBlocks> {
        let mut near = 0;
        let missing = ordinals.filter(|&ordinal| known.get(ordinal, &mut near).is_none());
        let mut more: Vec<u64> = missing.map(|ordinal| ordinal / HASHES_PER_BLOCK).collect();
        if more.is_empty() {
            return Ok(known);
        }
        more.extend(&known.numbers);
        self.hash_blocks(segment, part, more).await
    }

    /// A block's clock; none where the segment does not hold the block.
    pub(crate) async fn clock(
        &self,
        segment: &OpenSegment,
        number: u64,
    ) -> Result<Option<BlockMeta>> {
        let tables = &segment.tables;
        let lost = || Error::damaged(&segment.identity.name, Damage("block hash not loaded"));
        let Some(place) = tables.place(number) else {
            return Ok(None);
        };
        let timestamp = tables.blocks.time_at(place).ok_or_else(lost)?;
        let before = place.checked_sub(1);
        let wanted = before.into_iter().chain([place]).map(hash_block).collect();
        let hashes = self.hash_blocks(segment, Part::BlockHashes, wanted).await?;
        let hash = |place: u32| hashes.get(u64::from(place), &mut 0).ok_or_else(lost);
        Ok(Some(BlockMeta {
            number,
            hash: hash(place)?,
            parent_hash: before.map_or(Ok(tables.facts.parent_hash), hash)?,
            timestamp,
        }))
    }

    /// A block's transactions.
    pub(crate) async fn txs(&self, segment: &OpenSegment, number: u64) -> Result<Vec<Tx>> {
        let lost = |what| Error::damaged(&segment.identity.name, Damage(what));
        let tables = &segment.tables;
        let entry = tables.block(number).ok_or_else(|| lost("no such block"))?;
        let hashes = self.tx_list(segment, number, &entry).await?;
        let (hashes, _) = hashes.as_chunks::<32>();
        let tx = |(place, hash): (u32, &[u8; 32])| {
            let index = tables.tx_index(&entry, place);
            let index = index.ok_or_else(|| lost("transaction not loaded"))?;
            let hash = Hash32(*hash);
            Ok(Tx { index, hash })
        };
        (0..entry.txs).zip(hashes).map(tx).collect()
    }

    /// The position in its block of the transaction with this hash, if the block lists it.
    pub(crate) async fn find_tx(
        &self,
        segment: &OpenSegment,
        number: u64,
        hash: &Hash32,
    ) -> Result<Option<u32>> {
        let Some(entry) = segment.tables.block(number) else {
            return Ok(None);
        };
        let hashes = self.tx_list(segment, number, &entry).await?;
        let (hashes, _) = hashes.as_chunks::<32>();
        let place = hashes.iter().position(|listed| *listed == hash.0);
        Ok(place.and_then(|place| segment.tables.tx_index(&entry, place as u32)))
    }

    /// All hashes of a block's transactions, end to end. Kept as one, since all of them are looked
    /// at together.
    async fn tx_list(
        &self,
        segment: &OpenSegment,
        number: u64,
        entry: &BlockEntry,
    ) -> Result<Bytes> {
        if entry.txs == 0 {
            // A read of no bytes would still be a request to the store, once a block.
            return Ok(Bytes::new());
        }
        let section = &segment.tables.tx_hashes;
        let first = u64::from(entry.first_tx);
        let last = first + u64::from(entry.txs);
        let blocks = first / HASHES_PER_BLOCK..last.div_ceil(HASHES_PER_BLOCK);
        let start = (blocks.start * section.block_bytes).min(section.len);
        let end = (blocks.end * section.block_bytes)
            .min(section.len)
            .max(start);
        let want = Want {
            at: number,
            range: section.offset + start..section.offset + end,
        };
        let decode = |_, read: Bytes| {
            for (number, block) in blocks.clone().zip(read.chunks(HASH_BLOCK_BYTES)) {
                section.verify(number, block)?;
            }
            let hashes = (first * 32).checked_sub(start).and_then(|skip| {
                let len = (last - first) as usize * 32;
                read.get(skip as usize..skip as usize + len)
            });
            hashes
                .map(Value::own)
                .ok_or(Damage("hash outside its section"))
        };
        let values = self
            .load(&segment.identity, Part::TxList, &[want], decode)
            .await?;
        let mut found = all_of(&segment.identity, values, into_bytes)?;
        Ok(found.pop().expect("one part was requested"))
    }

    /// The digest of a block.
    pub(crate) async fn digest(&self, segment: &OpenSegment, number: u64) -> Result<Hash32> {
        let lost = |what| Error::damaged(&segment.identity.name, Damage(what));
        let place = segment.tables.place(number);
        let place = place.ok_or_else(|| lost("no such block"))?;
        if segment.tables.digests.len == 0 {
            let clock = self.clock(segment, number).await?;
            let clock = clock.ok_or_else(|| lost("no such block"))?;
            return Ok(clock_digest(clock));
        }
        let blocks = vec![hash_block(place)];
        let digests = self.hash_blocks(segment, Part::Digests, blocks).await?;
        digests
            .get(u64::from(place), &mut 0)
            .ok_or_else(|| lost("digest not loaded"))
    }

    /// A whole block as it went in, without its payload.
    pub(crate) async fn block(&self, segment: &OpenSegment, number: u64) -> Result<Block> {
        let lost = |what| Error::damaged(&segment.identity.name, Damage(what));
        let entry = segment.tables.block(number);
        let entry = entry.ok_or_else(|| lost("no such block"))?;
        let ids: Vec<u32> = (entry.first_id..entry.first_id + entry.logs).collect();
        let mut records = Vec::with_capacity(ids.len());
        let logs = self.records(segment, (&ids, Hashes::AtOnce), |_, _| true, &mut records);
        let (clock, txs) = (self.clock(segment, number), self.txs(segment, number));
        let (clock, txs, ()) = futures::try_join!(clock, txs, logs)?;
        let clock = clock.ok_or_else(|| lost("no such block"))?;
        let logs = records.into_iter().map(|record| record.log).collect();
        Ok(Block {
            clock,
            txs,
            logs,
            payload: Payload::default(),
        })
    }
}

/// Which block of its section a block's hash lies in.
fn hash_block(place: u32) -> u64 {
    u64::from(place) / HASHES_PER_BLOCK
}

/// The blocks of these rows; neighbours of one block name it once.
fn blocks_of(tables: &SegmentTables, ids: &[u32]) -> Decoded<Vec<BlockEntry>> {
    let mut blocks: Vec<BlockEntry> = Vec::new();
    for &id in ids {
        if !blocks.last().is_some_and(|last| last.has(id)) {
            let entry = tables.blocks.of_row(id);
            blocks.push(entry.ok_or(Damage("row of no block"))?);
        }
    }
    Ok(blocks)
}

fn frame_groups<'a>(tables: &'a SegmentTables, ids: &'a [u32]) -> Decoded<Vec<FrameGroup<'a>>> {
    let mut groups = Vec::new();
    let mut rest = ids;
    while let Some(&id) = rest.first() {
        let (frame, stretch, _) = tables
            .frame_of(id)
            .ok_or(Damage("a posting names no row"))?;
        let first = stretch.first_id + (frame - stretch.first_frame) * FRAME_ROWS as u32;
        let end = (first + FRAME_ROWS as u32).min(stretch.first_id + stretch.stretch.rows);
        let same = rest
            .iter()
            .take_while(|&&id| id >= first && id < end)
            .count();
        let (ids, behind) = rest.split_at(same.max(1));
        groups.push(FrameGroup {
            frame,
            stretch,
            ids,
        });
        rest = behind;
    }
    Ok(groups)
}

/// Takes the wanted rows out of their frames. Hashes are still to be filled in, by what this returns.
fn unpack(
    tables: &SegmentTables,
    (groups, blocks): (&[FrameGroup<'_>], &[BlockEntry]),
    (numbers, frames): (&[u32], &[Arc<Frame>]),
    mut keep: impl FnMut(u64, &Log) -> bool,
    out: &mut Vec<LogRecord>,
) -> Decoded<Vec<Unnamed>> {
    let rows = groups.iter().map(|group| group.ids.len()).sum();
    let mut unnamed = Vec::with_capacity(rows);
    out.reserve(rows);
    let mut blocks = blocks.iter().peekable();
    for group in groups {
        let at = numbers
            .binary_search(&group.frame)
            .map_err(|_| Damage("frame not loaded"))?;
        let frame = frames.get(at).ok_or(Damage("frame not loaded"))?;
        for &id in group.ids {
            while blocks.next_if(|entry| !entry.has(id)).is_some() {}
            let entry = blocks.peek().ok_or(Damage("row of no block"))?;
            let row = (id - group.stretch.first_id) as usize % FRAME_ROWS;
            let row_numbers = frame
                .numbers(row)
                .ok_or(Damage("no such row in the frame"))?;
            let ordinal = group.stretch.first_tx.checked_add(row_numbers.tx_ordinal);
            let ordinal = ordinal.ok_or(Damage("transaction ordinal too large"))?;
            let place = ordinal
                .checked_sub(entry.first_tx)
                .filter(|&place| place < entry.txs);
            let tx_index = place.and_then(|place| tables.tx_index(entry, place));
            let tx_index = tx_index.ok_or(Damage("row of no transaction"))?;
            let log = frame.log(row, tx_index)?;
            let number = tables.number(entry.place);
            if keep(number, &log) {
                unnamed.push(Unnamed {
                    tx: u64::from(ordinal),
                    block: u64::from(entry.place),
                });
                out.push(LogRecord {
                    block: BlockRef {
                        number,
                        hash: Hash32::default(),
                    },
                    timestamp: entry.timestamp,
                    tx_hash: Hash32::default(),
                    log,
                });
            }
        }
    }
    Ok(unnamed)
}
