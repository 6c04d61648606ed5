//! Ranges of a chain: how long they are, and how history is fetched into them.

use anyhow::{Result, ensure};
use chronolith_archive::SealSettings;

use super::raw::RawRanges;

const SIZE: u64 = 10_000_000;
const PARALLEL: usize = 2;
const PARALLEL_MAX: usize = 64;
const CHECKPOINT: u64 = 1_000;
/// Segments are cut on a grid of so many blocks. A longer range is a multiple of it.
const CELL: u64 = 1_000_000;
/// A block's place in its range has 24 bits.
const SIZE_MAX: u64 = 16 * CELL;

/// How history is cut into ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RangePlan {
    /// The first block of range 0.
    pub(crate) first: u64,
    /// Blocks of a range.
    pub(crate) size: u64,
    /// Ranges that are fetched at the same time, in mode backfill.
    pub(crate) parallel: usize,
    /// Blocks after which what was fetched is published, in mode backfill.
    pub(crate) checkpoint: u64,
}

impl RangePlan {
    /// What the file says, for a chain whose range 0 begins with this block.
    pub(super) fn new(raw: &RawRanges, first: u64) -> Result<Self> {
        let size = raw.size.unwrap_or(SIZE);
        ensure!(
            (1..=CELL).contains(&size)
                || (1..=SIZE_MAX).contains(&size) && size.is_multiple_of(CELL),
            "ranges.size: {size} is neither between 1 and {CELL} nor a multiple of {CELL} up to {SIZE_MAX}"
        );
        let parallel = raw.parallel.unwrap_or(PARALLEL);
        ensure!(
            (1..=PARALLEL_MAX).contains(&parallel),
            "ranges.parallel: {parallel} is not between 1 and {PARALLEL_MAX}"
        );
        let checkpoint = raw.checkpoint.unwrap_or(CHECKPOINT.min(size));
        ensure!(
            (1..=size).contains(&checkpoint),
            "ranges.checkpoint: {checkpoint} is not between 1 and ranges.size, {size}"
        );
        Ok(Self {
            first,
            size,
            parallel,
            checkpoint,
        })
    }

    /// Cuts an archive by it.
    pub(crate) fn cut(&self, seal: &mut SealSettings) {
        seal.first_block = self.first;
        seal.range_blocks = self.size;
        seal.grid_blocks = self.size.min(CELL);
    }
}
