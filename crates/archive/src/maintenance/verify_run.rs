//! Whether a run holds the hashes of its segments, each with its block, and nothing else.
//!
//! Both sides are read from front to back and their entries are added up, each mixed to 128 bits: sums
//! do not depend on the order, and those of two different sets are equal once in 2^128. So every hash
//! is read once, nothing is looked up, and memory does not grow with the range.

use std::sync::Arc;

use chronolith_model::{BlockRange, Hash32};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::Result;
use crate::read::objects::{Objects, OpenRun};
use crate::read::segment_hashes::BlockHashes;
use crate::read::window::{TableCursor, Window};
use crate::state::catalog::SegmentEntry;

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
/// them this is unknown, and the answer is no.
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
    let mut keys = Vec::new();
    for entry in segments {
        let segment = objects.open(&entry.object).await?;
        let mut reader = BlockHashes::new(objects, &segment);
        // Default: the segment has no block of the range.
        let inside = reader.range().intersect(&range).unwrap_or_default();
        for number in inside.start..inside.end {
            let mut take = |hash: &Hash32| keys.push(run.hashes.key(hash.prefix64()));
            reader.show(number, &mut take).await?;
            keys.sort_unstable();
            keys.dedup();
            keys.drain(..).for_each(|key| wanted.add(key, number));
        }
    }
    let table = &run.hashes;
    let place = (run.offset, table.section_len());
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
