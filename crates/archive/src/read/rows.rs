//! Rows of a segment as logs, with everything an answer carries.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{Block, BlockRef, Hash32, Log, Payload, Tx};

use super::cache::{Part, Value, into_bytes};
use super::objects::{Objects, OpenSegment, Want};
use crate::error::{Error, Result};
use crate::format::frame::{FRAME_ROWS, Frame};
use crate::format::segment::{BlockEntry, HASH_BLOCK_BYTES, PlacedStretch, SegmentTables};
use crate::format::{Damage, Decoded};

const HASHES_PER_BLOCK: u64 = HASH_BLOCK_BYTES as u64 / 32;

/// A log with its place in the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRecord {
    /// The block it is in.
    pub block: BlockRef,
    /// That block's time.
    pub timestamp: u64,
    /// The transaction it is of.
    pub tx_hash: Hash32,
    /// The log; it knows its index in the block and its transaction's.
    pub log: Log,
}

/// When transaction hashes are asked for.
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
    /// A hash by its ordinal. `near` is where the last one was found: neighbours are asked for
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
    /// and transaction hashes are asked for together.
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
        let mut numbers: Vec<u32> = groups.iter().map(|group| group.frame).collect();
        numbers.sort_unstable();
        // The frame table tells where each frame's transactions begin, so their hashes can be
        // asked for before the frame is unpacked.
        let guess = |group: &FrameGroup<'_>| {
            let first = tables
                .frames
                .get(group.frame as usize)
                .map_or(0, |place| place.first_tx);
            (u64::from(group.stretch.first_tx) + u64::from(first)) / HASHES_PER_BLOCK
        };
        let guesses: Vec<u64> = match when {
            Hashes::AtOnce => groups.iter().map(guess).collect(),
            Hashes::Afterwards => Vec::new(),
        };
        let frames = self.frames(segment, &numbers);
        let hashes = self.hash_blocks(segment, Part::TxHashes, guesses);
        let (frames, mut hashes) = futures::try_join!(frames, hashes)?;
        let first = out.len();
        let ordinals = unpack(tables, &groups, (&numbers, &frames), keep, out).map_err(damaged)?;

        let mut near = 0;
        let missing = ordinals
            .iter()
            .filter(|&&ordinal| hashes.get(ordinal, &mut near).is_none());
        let mut more: Vec<u64> = missing.map(|ordinal| ordinal / HASHES_PER_BLOCK).collect();
        if !more.is_empty() {
            more.extend(&hashes.numbers);
            hashes = self.hash_blocks(segment, Part::TxHashes, more).await?;
        }
        for (record, ordinal) in out.iter_mut().skip(first).zip(ordinals) {
            let hash = hashes.get(ordinal, &mut near);
            record.tx_hash = hash.ok_or_else(|| damaged(Damage("hash not loaded")))?;
        }
        Ok(())
    }

    /// A block's transactions.
    pub(crate) async fn txs(&self, segment: &OpenSegment, number: u64) -> Result<Vec<Tx>> {
        let lost = |what| Error::damaged(&segment.identity.name, Damage(what));
        let tables = &segment.tables;
        let entry = tables.block(number).ok_or_else(|| lost("no such block"))?;
        let hashes = self.tx_list(segment, number, entry).await?;
        let (hashes, _) = hashes.as_chunks::<32>();
        let tx = |(place, hash): (u32, &[u8; 32])| {
            let index = tables.tx_index(number, entry, place);
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
        let hashes = self.tx_list(segment, number, entry).await?;
        let (hashes, _) = hashes.as_chunks::<32>();
        let place = hashes.iter().position(|listed| *listed == hash.0);
        Ok(place.and_then(|place| segment.tables.tx_index(number, entry, place as u32)))
    }

    /// All hashes of a block's transactions, end to end. Kept as one, since all of them are looked
    /// at together.
    async fn tx_list(
        &self,
        segment: &OpenSegment,
        number: u64,
        entry: &BlockEntry,
    ) -> Result<Bytes> {
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
        Ok(values.into_iter().find_map(into_bytes).unwrap_or_default())
    }

    /// The digest that was stored for a block.
    pub(crate) async fn digest(&self, segment: &OpenSegment, number: u64) -> Result<Hash32> {
        let lost = |what| Error::damaged(&segment.identity.name, Damage(what));
        let place = number.checked_sub(segment.tables.facts.range.start);
        let place = place.ok_or_else(|| lost("no such block"))?;
        let blocks = vec![place / HASHES_PER_BLOCK];
        let digests = self.hash_blocks(segment, Part::Digests, blocks).await?;
        digests
            .get(place, &mut 0)
            .ok_or_else(|| lost("digest not loaded"))
    }

    /// A whole block as it went in, without its payload.
    pub(crate) async fn block(&self, segment: &OpenSegment, number: u64) -> Result<Block> {
        let lost = |what| Error::damaged(&segment.identity.name, Damage(what));
        let clock = segment
            .tables
            .clock(number)
            .ok_or_else(|| lost("no such block"))?;
        let entry = *segment
            .tables
            .block(number)
            .ok_or_else(|| lost("no such block"))?;
        let ids: Vec<u32> = (entry.first_id..entry.first_id + entry.logs).collect();
        let mut records = Vec::with_capacity(ids.len());
        let logs = self.records(segment, (&ids, Hashes::AtOnce), |_, _| true, &mut records);
        let (txs, ()) = futures::try_join!(self.txs(segment, number), logs)?;
        let logs = records.into_iter().map(|record| record.log).collect();
        Ok(Block {
            clock,
            txs,
            logs,
            payload: Payload::default(),
        })
    }
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

/// Takes the wanted rows out of their frames. Their transaction hashes are still to be filled in,
/// by the ordinals that this returns.
fn unpack(
    tables: &SegmentTables,
    groups: &[FrameGroup<'_>],
    (numbers, frames): (&[u32], &[Arc<Frame>]),
    mut keep: impl FnMut(u64, &Log) -> bool,
    out: &mut Vec<LogRecord>,
) -> Decoded<Vec<u64>> {
    let rows = groups.iter().map(|group| group.ids.len()).sum();
    let mut ordinals = Vec::with_capacity(rows);
    out.reserve(rows);
    let mut block: Option<(u64, &BlockEntry)> = None;
    for group in groups {
        let at = numbers
            .binary_search(&group.frame)
            .map_err(|_| Damage("frame not loaded"))?;
        let frame = frames.get(at).ok_or(Damage("frame not loaded"))?;
        for &id in group.ids {
            let inside = |(_, entry): &(u64, &BlockEntry)| {
                id >= entry.first_id && id - entry.first_id < entry.logs
            };
            let (number, entry) = match block.filter(inside) {
                Some(same) => same,
                None => tables.block_of(id).ok_or(Damage("row of no block"))?,
            };
            block = Some((number, entry));
            let row = (id - group.stretch.first_id) as usize % FRAME_ROWS;
            let row_numbers = frame
                .numbers(row)
                .ok_or(Damage("no such row in the frame"))?;
            let ordinal = group.stretch.first_tx.checked_add(row_numbers.tx_ordinal);
            let ordinal = ordinal.ok_or(Damage("transaction ordinal too large"))?;
            let place = ordinal
                .checked_sub(entry.first_tx)
                .filter(|&place| place < entry.txs);
            let tx_index = place.and_then(|place| tables.tx_index(number, entry, place));
            let tx_index = tx_index.ok_or(Damage("row of no transaction"))?;
            let log = frame.log(row, tx_index)?;
            if keep(number, &log) {
                let hash = entry.hash;
                ordinals.push(u64::from(ordinal));
                out.push(LogRecord {
                    block: BlockRef { number, hash },
                    timestamp: entry.timestamp,
                    tx_hash: Hash32::default(),
                    log,
                });
            }
        }
    }
    Ok(ordinals)
}
