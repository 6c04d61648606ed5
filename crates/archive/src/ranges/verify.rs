//! Verifying a range: every hash of its segments is in its run.
//!
//! Nearly always the run holds these and nothing else, which is seen by reading both once. Otherwise the
//! hashes are taken a slice at a time, small enough to be sorted in memory, and looked up: that names the
//! block.

use std::sync::Arc;

use chronolith_model::BlockRange;

use super::report::{count_segment, keys_of};
use super::tx_counts::TxCounts;
use crate::blocking;
use crate::error::{Error, Result};
use crate::maintenance::hash_check::{Slice, collect, keep_missing, sorted};
use crate::maintenance::verify_run::holds_exactly;
use crate::read::objects::{Objects, OpenRun, OpenSegment};
use crate::state::catalog::{RunEntry, SegmentEntry};
use crate::state::snapshot::Snapshot;
use crate::write::writer::Writer;

impl Writer {
    /// Looks up every hash of these blocks in a run, and compares how many there are with the counts
    /// in the catalog. Returns how many transactions these are.
    ///
    /// # Errors
    /// `Corrupt`, with the object that is incomplete or damaged; `Store`.
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
        (open, run): (&OpenRun, &RunEntry),
    ) -> Result<()> {
        let objects = &self.view.objects;
        let hashes = segments.iter().map(|entry| &entry.facts);
        let hashes: u64 = hashes.map(|facts| facts.txs + facts.range.len()).sum();
        for slice in Slice::all(hashes, self.settings.seal.verify_keys) {
            let mut wanted = Vec::new();
            for entry in segments {
                let blocks = entry.facts.range;
                collect(objects, (entry, blocks), slice, &mut wanted).await?;
            }
            let mut missing = blocking::run(move || Ok(sorted(wanted))).await?;
            keep_missing(objects, (open, run.range.start), &mut missing).await?;
            if let Some((_, number)) = missing.first() {
                let reason = format!("it lacks a hash of block {number}");
                return Err(Error::damaged(&run.object.name, reason));
            }
        }
        Ok(())
    }
}

/// Counts the transactions of a segment and compares with the counts in the catalog.
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
