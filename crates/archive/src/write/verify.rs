//! Whether runs hold what they should: every hash of the segments of a range, with its block, and
//! nothing else.
//!
//! Both sides are read from front to back and their entries are added up, each mixed to 128 bits: sums
//! do not depend on the order, and the sums of two different sets are equal once in 2^128. So nothing
//! has to be looked up, and memory does not grow with the range.

use chronolith_model::{BlockRange, Hash32};
use xxhash_rust::xxh3::xxh3_128;

use super::writer::Writer;
use crate::catalog::{RunEntry, SegmentEntry};
use crate::error::{Error, Result};
use crate::format::Damage;
use crate::format::segment::HASH_BLOCK_BYTES;
use crate::read::objects::{Objects, OpenSegment};
use crate::read::snapshot::Snapshot;
use crate::read::window::{TableCursor, Window};

/// What was found to be right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// The blocks.
    pub range: BlockRange,
    /// Runs that hold their hashes.
    pub runs: usize,
    /// Archived blocks of the range.
    pub blocks: u64,
    /// Keys in the runs: those of blocks and of transactions. Two hashes of one block that begin alike
    /// share one.
    pub keys: u64,
    /// Listed transaction hashes by their first four bits; second hashes count.
    pub transactions: [u64; 16],
}

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

/// What the segments of a run hold.
#[derive(Debug, Default)]
struct Counted {
    sum: Sum,
    blocks: u64,
    transactions: [u64; 16],
}

impl Writer {
    /// Checks that every hash of the segments of a range is in its run, with its block, and that the
    /// run holds nothing else. Reads past the cache, in bounded memory.
    pub(crate) async fn verify_run(&self, range: BlockRange) -> Result<Verified> {
        let snapshot = self.publisher.settled().await?;
        let objects = &self.view.objects;
        let runs = snapshot.catalog.runs.iter();
        let runs: Vec<_> = runs.filter(|run| overlap(&run.range, &range)).collect();
        let segments = held(&snapshot, &range)?;
        let without = |entry: &&SegmentEntry| {
            let inside = |run: &&RunEntry| {
                run.range.start <= entry.facts.range.start && entry.facts.range.end <= run.range.end
            };
            !runs.iter().any(|run| inside(&&***run))
        };
        if let Some(entry) = segments.iter().copied().find(without) {
            return Err(Error::not_covered(entry.facts.range));
        }
        let mut verified = Verified {
            range,
            runs: runs.len(),
            blocks: 0,
            keys: 0,
            transactions: [0; 16],
        };
        for run in runs {
            let counted = verify_one(objects, &snapshot, run).await?;
            verified.blocks += counted.blocks;
            verified.keys += counted.sum.entries;
            let both = verified.transactions.iter_mut().zip(counted.transactions);
            both.for_each(|(all, more)| *all += more);
        }
        Ok(verified)
    }
}

fn overlap(a: &BlockRange, b: &BlockRange) -> bool {
    a.start < b.end && b.start < a.end
}

/// The segments that hold blocks of a range, each block in one.
fn held<'a>(snapshot: &'a Snapshot, range: &BlockRange) -> Result<Vec<&'a SegmentEntry>> {
    let all = snapshot.segments.iter().map(|entry| &**entry);
    let found: Vec<&SegmentEntry> = all
        .filter(|entry| overlap(&entry.facts.range, range))
        .collect();
    let apart = found.windows(2).all(|pair| match pair {
        [before, next] => before.facts.range.end <= next.facts.range.start,
        _ => true,
    });
    if apart {
        return Ok(found);
    }
    Err(Error::Invalid(format!(
        "blocks of {range} are in several segments, so its run cannot be compared with them"
    )))
}

async fn verify_one(objects: &Objects, snapshot: &Snapshot, run: &RunEntry) -> Result<Counted> {
    let open = objects.open_run(&run.object).await?;
    let segments = held(snapshot, &run.range)?;
    let mut counted = Counted::default();
    for entry in &segments {
        let segment = objects.open(&entry.object).await?;
        let key = |hash: &Hash32| open.hashes.key(hash.prefix64());
        count_segment(objects, &segment, &run.range, (key, &mut counted)).await?;
    }
    let table = &open.hashes;
    let last = table.place(table.page_count().saturating_sub(1));
    let place = (open.offset, last.map_or(0, |place| place.end));
    let window = Window::new(objects, &open.identity.name, place);
    let mut cursor = TableCursor::new(window, table);
    let is_held = |block: u64| {
        let behind = segments.partition_point(|entry| entry.facts.range.end <= block);
        let entry = segments.get(behind);
        entry.is_some_and(|entry| entry.facts.range.contains(block))
    };
    let mut found = Sum::default();
    while let Some(page) = cursor.next_page().await? {
        for (key, offset) in page {
            let block = run.range.start + offset;
            // A run may still name blocks that were pruned.
            if is_held(block) {
                found.add(key, block);
            }
        }
    }
    if found == counted.sum {
        return Ok(counted);
    }
    Err(Error::Corrupt {
        object: run.object.name.clone(),
        reason: format!(
            "its hashes are not those of its segments (segments={}, run={})",
            counted.sum.entries, found.entries
        ),
    })
}

/// Adds up the hashes of a segment's blocks, as far as they are in a range.
async fn count_segment(
    objects: &Objects,
    segment: &OpenSegment,
    range: &BlockRange,
    (key, counted): (impl Fn(&Hash32) -> u64, &mut Counted),
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
            let hash = hash.ok_or_else(lost)?;
            let nibble = usize::from(hash.0.first().copied().unwrap_or(0) >> 4);
            let slot = counted.transactions.get_mut(nibble);
            slot.into_iter().for_each(|count| *count += 1);
            keys.push(key(&hash));
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
            counted.blocks += 1;
        }
        keys.sort_unstable();
        keys.dedup();
        keys.iter().for_each(|&key| counted.sum.add(key, number));
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
