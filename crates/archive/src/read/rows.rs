//! Rows of a segment as logs, with everything an answer carries.

use bytes::Bytes;
use chronolith_model::{Block, BlockRef, Hash32, Log, Payload, Tx};

use super::objects::{Objects, OpenSegment, Part};
use crate::error::{Error, Result};
use crate::format::Damage;
use crate::format::segment::{BlockEntry, HASH_BLOCK_BYTES};

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

/// Loaded blocks of hashes.
struct HashBlocks {
    numbers: Vec<u64>,
    blocks: Vec<Bytes>,
}

impl HashBlocks {
    fn get(&self, ordinal: u64) -> Option<Hash32> {
        let at = self
            .numbers
            .binary_search(&(ordinal / HASHES_PER_BLOCK))
            .ok()?;
        let start = (ordinal % HASHES_PER_BLOCK) as usize * 32;
        Hash32::from_slice(self.blocks.get(at)?.get(start..start + 32)?)
    }
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

    /// The rows with these ids, given in any one order, as `keep` lets them through. Frames and
    /// transaction hashes are asked for together.
    pub(crate) async fn records(
        &self,
        segment: &OpenSegment,
        ids: &[u32],
        mut keep: impl FnMut(u64, &Log) -> bool,
    ) -> Result<Vec<LogRecord>> {
        let tables = &segment.tables;
        let lost = |what| Error::damaged(&segment.identity.name, Damage(what));
        let mut places = Vec::with_capacity(ids.len());
        for &id in ids {
            let place = tables
                .frame_of(id)
                .ok_or_else(|| lost("a posting names no row"))?;
            places.push((id, place));
        }
        let mut numbers: Vec<u32> = places.iter().map(|(_, (frame, ..))| *frame).collect();
        numbers.sort_unstable();
        numbers.dedup();
        // The frame table tells where each frame's transactions begin, so their hashes can be
        // asked for before the frame is unpacked.
        let guess = |(_, (frame, placed, _)): &(
            u32,
            (u32, &crate::format::segment::PlacedStretch, usize),
        )| {
            let first = tables
                .frames
                .get(*frame as usize)
                .map_or(0, |place| place.first_tx);
            u64::from(placed.first_tx + first) / HASHES_PER_BLOCK
        };
        let guesses: Vec<u64> = places.iter().map(guess).collect();
        let frames = self.frames(segment, &numbers);
        let hashes = self.hash_blocks(segment, Part::TxHashes, guesses);
        let (frames, mut hashes) = futures::try_join!(frames, hashes)?;

        let mut rows = Vec::with_capacity(ids.len());
        let mut more = Vec::new();
        for (id, (frame, placed, row)) in places {
            let at = numbers
                .binary_search(&frame)
                .map_err(|_| lost("frame not loaded"))?;
            let frame = frames.get(at).ok_or_else(|| lost("frame not loaded"))?;
            let numbers = frame
                .numbers(row)
                .ok_or_else(|| lost("no such row in the frame"))?;
            let (number, entry) = tables.block_of(id).ok_or_else(|| lost("row of no block"))?;
            let ordinal = placed.first_tx + numbers.tx_ordinal;
            let place = ordinal
                .checked_sub(entry.first_tx)
                .filter(|&place| place < entry.txs);
            let tx_index = place.and_then(|place| tables.tx_index(number, entry, place));
            let tx_index = tx_index.ok_or_else(|| lost("row of no transaction"))?;
            let log = frame
                .log(row, tx_index)
                .map_err(|damage| Error::damaged(&segment.identity.name, damage))?;
            if keep(number, &log) {
                if hashes.get(u64::from(ordinal)).is_none() {
                    more.push(u64::from(ordinal) / HASHES_PER_BLOCK);
                }
                rows.push((number, entry, ordinal, log));
            }
        }
        if !more.is_empty() {
            more.extend(&hashes.numbers);
            hashes = self.hash_blocks(segment, Part::TxHashes, more).await?;
        }
        let record = |(number, entry, ordinal, log): (u64, &BlockEntry, u32, Log)| {
            let tx_hash = hashes
                .get(u64::from(ordinal))
                .ok_or_else(|| lost("hash not loaded"))?;
            let block = BlockRef {
                number,
                hash: entry.hash,
            };
            Ok(LogRecord {
                block,
                timestamp: entry.timestamp,
                tx_hash,
                log,
            })
        };
        rows.into_iter().map(record).collect()
    }

    /// A block's transactions.
    pub(crate) async fn txs(&self, segment: &OpenSegment, number: u64) -> Result<Vec<Tx>> {
        let lost = |what| Error::damaged(&segment.identity.name, Damage(what));
        let tables = &segment.tables;
        let entry = tables.block(number).ok_or_else(|| lost("no such block"))?;
        let first = u64::from(entry.first_tx);
        let last = first + u64::from(entry.txs);
        let blocks = (first / HASHES_PER_BLOCK..last.div_ceil(HASHES_PER_BLOCK)).collect();
        let hashes = self.hash_blocks(segment, Part::TxHashes, blocks).await?;
        let tx = |place: u32| {
            let hash = hashes.get(first + u64::from(place));
            let index = tables.tx_index(number, entry, place);
            let both = index.zip(hash).map(|(index, hash)| Tx { index, hash });
            both.ok_or_else(|| lost("transaction not loaded"))
        };
        (0..entry.txs).map(tx).collect()
    }

    /// The digest that was stored for a block.
    pub(crate) async fn digest(&self, segment: &OpenSegment, number: u64) -> Result<Hash32> {
        let lost = |what| Error::damaged(&segment.identity.name, Damage(what));
        let place = number.checked_sub(segment.tables.facts.range.start);
        let place = place.ok_or_else(|| lost("no such block"))?;
        let blocks = vec![place / HASHES_PER_BLOCK];
        let digests = self.hash_blocks(segment, Part::Digests, blocks).await?;
        digests.get(place).ok_or_else(|| lost("digest not loaded"))
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
        let (txs, records) = futures::try_join!(
            self.txs(segment, number),
            self.records(segment, &ids, |_, _| true)
        )?;
        let logs = records.into_iter().map(|record| record.log).collect();
        Ok(Block {
            clock,
            txs,
            logs,
            payload: Payload::default(),
        })
    }
}
