//! Verifying a range: every hash of its segments is in its run.
//!
//! Nearly always the run holds these and nothing else, which is seen by reading both once. Where it is
//! not so, the keys are taken a slice at a time, small enough to be sorted in memory, and compared with
//! the pages of the run that hold the same slice: that names the block.

use std::iter::Peekable;
use std::sync::Arc;

use chronolith_model::{BlockRange, Hash32};

use super::report::{count_segment, keys_of};
use super::tx_counts::TxCounts;
use crate::error::{Error, Result};
use crate::maintenance::verify_run::holds_exactly;
use crate::read::objects::{Objects, OpenRun, OpenSegment};
use crate::read::segment_hashes::BlockHashes;
use crate::read::window::Window;
use crate::state::catalog::{RunEntry, SegmentEntry};
use crate::state::snapshot::Snapshot;
use crate::write::writer::Writer;

impl Writer {
    /// Looks up every hash of these blocks in a run, and compares how many there are with what the
    /// catalog says. Returns how many transactions these are.
    ///
    /// # Errors
    /// `Corrupt`, with the object that lacks something or is damaged; `Store`.
    pub(crate) async fn verify_range(
        &self,
        snapshot: &Snapshot,
        blocks: BlockRange,
        run: &RunEntry,
    ) -> Result<TxCounts> {
        let objects = &self.view.objects;
        let inside = |entry: &&Arc<SegmentEntry>| entry.facts.range.intersect(&blocks).is_some();
        let segments = snapshot.segments.iter().filter(inside);
        let segments: Vec<Arc<SegmentEntry>> = segments.cloned().collect();
        let mut all = TxCounts::default();
        // One is open at a time, here and below: the tables of a range may be more than fit in memory.
        for entry in &segments {
            let segment = objects.open(&entry.object).await?;
            all.add(&recount(objects, entry, &segment).await?);
        }
        let open = objects.open_run(&run.object).await?;
        if !holds_exactly(objects, &segments, (&open, run.range)).await? {
            self.look_up_all(&segments, (&open, run)).await?;
        }
        // Blocks that two segments hold are counted once, as reports count them.
        let counted = keys_of(objects, snapshot, blocks).await;
        Ok(counted.unwrap_or(all))
    }

    /// Looks up every hash of these segments in a run.
    async fn look_up_all(
        &self,
        segments: &[Arc<SegmentEntry>],
        (open, run): (&Arc<OpenRun>, &RunEntry),
    ) -> Result<()> {
        let objects = &self.view.objects;
        let hashes = segments.iter().map(|entry| &entry.facts);
        let hashes: u64 = hashes.map(|facts| facts.txs + facts.range.len()).sum();
        let at_once = self.settings.seal.verify_keys.max(1);
        let pages = open.hashes.page_count() as u64;
        let slices = hashes.div_ceil(at_once).next_power_of_two().min(pages);
        for slice in 0..slices {
            let share = pages / slices;
            let wanted = Slice {
                run: open,
                first_block: run.range.start,
                pages: (slice * share) as usize..((slice + 1) * share) as usize,
            };
            let mut keys = Vec::new();
            for entry in segments {
                let segment = objects.open(&entry.object).await?;
                wanted.collect(objects, &segment, &mut keys).await?;
            }
            let sorted = tokio::task::spawn_blocking(move || {
                keys.sort_unstable();
                keys.dedup();
                keys
            });
            let sorted = sorted.await;
            let sorted = sorted.map_err(|error| Error::Internal(error.to_string()))?;
            if let Some((_, offset)) = wanted.first_missing(objects, &sorted).await? {
                let number = run.range.start + offset;
                return Err(Error::Corrupt {
                    object: run.object.name.clone(),
                    reason: format!("it lacks a hash of block {number}"),
                });
            }
        }
        Ok(())
    }
}

/// Counts the transactions of a segment and compares with what the catalog says of it.
async fn recount(
    objects: &Objects,
    entry: &SegmentEntry,
    segment: &OpenSegment,
) -> Result<TxCounts> {
    let counted = count_segment(objects, segment).await?;
    match entry.keys {
        Some(written) if written != counted => Err(Error::damaged(
            &entry.object.name,
            "its transactions are not as many as were counted",
        )),
        _ => Ok(counted),
    }
}

/// Some pages of a run, and what must be in them.
struct Slice<'a> {
    run: &'a Arc<OpenRun>,
    first_block: u64,
    pages: std::ops::Range<usize>,
}

impl Slice<'_> {
    /// Adds the keys of a segment's hashes that belong into these pages, each with its block.
    async fn collect(
        &self,
        objects: &Objects,
        segment: &OpenSegment,
        keys: &mut Vec<(u64, u64)>,
    ) -> Result<()> {
        let mut reader = BlockHashes::new(objects, segment);
        let range = reader.range();
        for number in range.start..range.end {
            let offset = number.wrapping_sub(self.first_block);
            let mut take = |hash: &Hash32| {
                let key = self.run.hashes.key(hash.prefix64());
                if self.pages.contains(&self.run.hashes.page_of(key)) {
                    keys.push((key, offset));
                }
            };
            reader.show(number, &mut take).await?;
        }
        Ok(())
    }

    /// The first of these sorted keys that is not in the run with its block.
    async fn first_missing(
        &self,
        objects: &Objects,
        keys: &[(u64, u64)],
    ) -> Result<Option<(u64, u64)>> {
        let name = &self.run.identity.name;
        let table = &self.run.hashes;
        let last = table.place(table.page_count().saturating_sub(1));
        let section = (self.run.offset, last.map_or(0, |place| place.end));
        let mut window = Window::new(objects, name, section);
        let mut wanted = keys.iter().copied().peekable();
        for (at, place) in self
            .pages
            .clone()
            .filter_map(|at| Some((at, table.place(at)?)))
        {
            let bytes = window.slice(place.start, place.end).await?;
            let entries = match bytes.is_empty() {
                true => Ok(Vec::new()),
                false => place
                    .verify(&bytes)
                    .and_then(|()| table.entries_of(at, &bytes)),
            };
            let entries = entries.map_err(|damage| Error::damaged(name, damage))?;
            let of_page = |key: u64| table.page_of(key) == at;
            if let Some(key) = missing(entries, &mut wanted, of_page) {
                return Ok(Some(key));
            }
        }
        Ok(wanted.next())
    }
}

/// Takes the wanted keys of a page, which are sorted; the first of them that is not among its entries.
/// Entries of one key need not be in the order of their blocks: keys that were longer once were cut.
fn missing(
    mut entries: Vec<(u64, u64)>,
    wanted: &mut Peekable<impl Iterator<Item = (u64, u64)>>,
    of_page: impl Fn(u64) -> bool,
) -> Option<(u64, u64)> {
    entries.sort_unstable();
    let mut found = entries.into_iter().peekable();
    while let Some(key) = wanted.next_if(|(key, _)| of_page(*key)) {
        while found.next_if(|entry| *entry < key).is_some() {}
        if found.peek() != Some(&key) {
            return Some(key);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_one_key_are_found_in_any_order() {
        let page = vec![(4, 9), (7, 50), (7, 3), (8, 1)];
        let look = |wanted: &[(u64, u64)]| {
            let mut wanted = wanted.iter().copied().peekable();
            let missing = missing(page.clone(), &mut wanted, |key| key < 10);
            (missing, wanted.next())
        };
        assert_eq!(look(&[(4, 9), (7, 3), (7, 50)]), (None, None));
        assert_eq!(look(&[(7, 50), (8, 1), (11, 2)]), (None, Some((11, 2))));
        assert_eq!(
            look(&[(7, 3), (7, 4), (7, 50)]),
            (Some((7, 4)), Some((7, 50)))
        );
        assert_eq!(look(&[(9, 1)]), (Some((9, 1)), None));
    }
}
