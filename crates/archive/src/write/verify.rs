//! Whether a run holds the hashes of its segments, each with its block, and nothing else.
//!
//! Both sides are read from front to back and their entries are added up, each mixed to 128 bits: sums
//! do not depend on the order, and those of two different sets are equal once in 2^128. So every hash
//! is read once, nothing is looked up, and memory does not grow with the range.

use std::sync::Arc;

use chronolith_model::{BlockRange, Hash32};
use xxhash_rust::xxh3::xxh3_128;

use crate::catalog::SegmentEntry;
use crate::error::{Error, Result};
use crate::format::Damage;
use crate::format::segment::HASH_BLOCK_BYTES;
use crate::read::objects::{Objects, OpenRun, OpenSegment};
use crate::read::window::{TableCursor, Window};

/// A set of entries, as far as it must be known to be compared.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Sum {
    entries: u64,
    mixed: u128,
}

impl Sum {
    fn add(&mut self, key: u64, block: u64) {
        let entry = u128::from(key) << 64 | u128::from(block);
        self.entries += 1;
        self.mixed = self.mixed.wrapping_add(xxh3_128(&entry.to_le_bytes()));
    }
}

/// Whether a run over a range holds exactly the hashes of these segments. Where a block is in two of
/// them this cannot be told, and the answer is no.
pub(crate) async fn holds_exactly(
    objects: &Objects,
    segments: &[Arc<SegmentEntry>],
    (run, range): (&OpenRun, BlockRange),
) -> Result<bool> {
    let apart = segments.windows(2).all(|pair| match pair {
        [before, next] => before.facts.range.end <= next.facts.range.start,
        _ => true,
    });
    if !apart {
        return Ok(false);
    }
    let mut wanted = Sum::default();
    for entry in segments {
        let segment = objects.open(&entry.object).await?;
        let key = |hash: &Hash32| run.hashes.key(hash.prefix64());
        count_segment(objects, &segment, &range, (key, &mut wanted)).await?;
    }
    let table = &run.hashes;
    let last = table.place(table.page_count().saturating_sub(1));
    let place = (run.offset, last.map_or(0, |place| place.end));
    let window = Window::new(objects, &run.identity.name, place);
    let mut cursor = TableCursor::new(window, table);
    let mut found = Sum::default();
    while let Some(page) = cursor.next_page().await? {
        for (key, offset) in page {
            found.add(key, range.start + offset);
        }
    }
    Ok(found == wanted)
}

/// Adds up the hashes of a segment's blocks, as far as they are in a range.
async fn count_segment(
    objects: &Objects,
    segment: &OpenSegment,
    range: &BlockRange,
    (key, sum): (impl Fn(&Hash32) -> u64, &mut Sum),
) -> Result<()> {
    let (tables, name) = (&segment.tables, &segment.identity.name);
    let lost = || Error::damaged(name, Damage("hash outside its section"));
    let mut hashes = Hashes::new(Window::blocked(objects, name, &tables.block_hashes));
    let mut txs = Hashes::new(Window::blocked(objects, name, &tables.tx_hashes));
    let mut listing = tables.blocks.counted().peekable();
    let mut keys = Vec::new();
    for place in 0..tables.blocks.len() {
        let number = tables.number(place);
        let listed = listing.next_if(|entry| entry.place == place);
        let inside = range.contains(number);
        keys.clear();
        let first = listed.map_or(0, |entry| u64::from(entry.first_tx));
        let count = listed.map_or(0, |entry| u64::from(entry.txs));
        for ordinal in (first..first + count).filter(|_| inside) {
            let hash = txs.get(ordinal, tables.tx_hashes.len).await?;
            keys.push(key(&hash.ok_or_else(lost)?));
        }
        if inside {
            let hash = match &tables.listed_hashes {
                Some(listed) => listed_hash(listed, place),
                None => {
                    let len = tables.block_hashes.len;
                    hashes.get(u64::from(place), len).await?
                }
            };
            keys.push(key(&hash.ok_or_else(lost)?));
        }
        keys.sort_unstable();
        keys.dedup();
        keys.iter().for_each(|&key| sum.add(key, number));
    }
    Ok(())
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
