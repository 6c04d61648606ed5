//! Ranges of a chain: how long they are, and how history is fetched into them.

use anyhow::{Result, ensure};
use chronolith_follower::settings::{GRID_BLOCKS, RangePlan};

use super::raw::RawRanges;
use super::reading::between;

const PARALLEL_MAX: usize = 64;
/// A block's place in its range has 24 bits.
const SIZE_MAX: u64 = 16 * GRID_BLOCKS;

/// What the file says, for a chain whose range 0 begins with this block.
pub(super) fn ranges(raw: &RawRanges, first: u64) -> Result<RangePlan> {
    let default = RangePlan::default();
    let size = raw.size.unwrap_or(default.size);
    ensure!(
        (1..=GRID_BLOCKS).contains(&size)
            || (1..=SIZE_MAX).contains(&size) && size.is_multiple_of(GRID_BLOCKS),
        "ranges.size: {size} is neither between 1 and {GRID_BLOCKS} nor a multiple of {GRID_BLOCKS} up to {SIZE_MAX}"
    );
    let checkpoint = raw.checkpoint.unwrap_or(default.checkpoint.min(size));
    ensure!(
        (1..=size).contains(&checkpoint),
        "ranges.checkpoint: {checkpoint} is not between 1 and ranges.size, {size}"
    );
    Ok(RangePlan {
        first,
        size,
        parallel: between(
            "ranges.parallel",
            raw.parallel,
            default.parallel,
            1..=PARALLEL_MAX,
        )?,
        checkpoint,
    })
}
