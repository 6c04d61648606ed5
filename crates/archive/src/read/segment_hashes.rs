//! The hashes of a segment, block by block, read from front to back and past the cache.

use std::iter::Peekable;

use chronolith_model::{BlockRange, Hash32};

use super::objects::{Objects, OpenSegment};
use super::window::Window;
use crate::error::{Error, Result};
use crate::format::Damage;
use crate::format::blocks::BlockEntry;
use crate::format::segment::HASH_BLOCK_BYTES;

/// Reads the hashes of a segment's blocks.
pub(crate) struct BlockHashes<'a> {
    segment: &'a OpenSegment,
    own: Hashes<'a>,
    txs: Hashes<'a>,
    /// Blocks that have transactions, those that were not come to yet.
    listing: Peekable<Box<dyn Iterator<Item = BlockEntry> + Send + 'a>>,
}

impl<'a> BlockHashes<'a> {
    pub(crate) fn new(objects: &'a Objects, segment: &'a OpenSegment) -> Self {
        let (tables, name) = (&segment.tables, &segment.identity.name);
        let listing: Box<dyn Iterator<Item = BlockEntry> + Send + 'a> =
            Box::new(tables.blocks.counted());
        Self {
            segment,
            own: Hashes::new(Window::blocked(objects, name, &tables.block_hashes)),
            txs: Hashes::new(Window::blocked(objects, name, &tables.tx_hashes)),
            listing: listing.peekable(),
        }
    }

    /// The blocks of the segment.
    pub(crate) fn range(&self) -> BlockRange {
        self.segment.tables.facts.range
    }

    /// Shows the hashes of a block, those of its transactions and then its own, which it returns. Numbers
    /// must rise.
    pub(crate) async fn show(
        &mut self,
        number: u64,
        seen: &mut (impl FnMut(&Hash32) + Send),
    ) -> Result<Hash32> {
        let tables = &self.segment.tables;
        let name = &self.segment.identity.name;
        let lost = || Error::damaged(name, Damage("hash outside its section"));
        let place = tables.place(number).ok_or_else(lost)?;
        while self.listing.next_if(|entry| entry.place < place).is_some() {}
        let listed = self.listing.next_if(|entry| entry.place == place);
        let first = listed.map_or(0, |entry| u64::from(entry.first_tx));
        let count = listed.map_or(0, |entry| u64::from(entry.txs));
        for ordinal in first..first + count {
            let hash = self.txs.get(ordinal, tables.tx_hashes.len).await?;
            seen(&hash.ok_or_else(lost)?);
        }
        let own = match &tables.listed_hashes {
            Some(listed) => listed_hash(listed, place),
            None => {
                let len = tables.block_hashes.len;
                self.own.get(u64::from(place), len).await?
            }
        };
        let own = own.ok_or_else(lost)?;
        seen(&own);
        Ok(own)
    }
}

fn listed_hash(listed: &[u8], place: u32) -> Option<Hash32> {
    let start = place as usize * 32;
    Hash32::from_slice(listed.get(start..start + 32)?)
}

/// Hashes of a section, in order, a block at a time.
struct Hashes<'a> {
    window: Window<'a>,
    block: Option<u64>,
    bytes: bytes::Bytes,
}

impl<'a> Hashes<'a> {
    fn new(window: Window<'a>) -> Self {
        Self {
            window,
            block: None,
            bytes: bytes::Bytes::new(),
        }
    }

    /// The hash with an ordinal, of a section that is so long; ordinals must not fall.
    async fn get(&mut self, ordinal: u64, len: u64) -> Result<Option<Hash32>> {
        let at = ordinal.saturating_mul(32);
        let block = at / HASH_BLOCK_BYTES as u64;
        if self.block != Some(block) {
            let start = block * HASH_BLOCK_BYTES as u64;
            if start >= len {
                return Ok(None);
            }
            let end = len.min(start + HASH_BLOCK_BYTES as u64);
            self.bytes = self.window.slice(start, end).await?;
            self.block = Some(block);
        }
        let start = (at % HASH_BLOCK_BYTES as u64) as usize;
        Ok(self
            .bytes
            .get(start..start + 32)
            .and_then(Hash32::from_slice))
    }
}
