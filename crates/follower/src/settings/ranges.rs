//! How history is cut into ranges.

use chronolith_archive::SealSettings;

/// Segments end at multiples of this many blocks. A longer range is a multiple of it.
pub const GRID_BLOCKS: u64 = 1_000_000;

/// How history is cut into ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangePlan {
    /// The first block of range 0.
    pub first: u64,
    /// Blocks of a range.
    pub size: u64,
    /// Ranges that are fetched at the same time, in mode backfill.
    pub parallel: usize,
    /// Blocks after which what was fetched is published, in mode backfill.
    pub checkpoint: u64,
}

/// Ranges of ten million blocks from block 0 on, published every thousand blocks of a backfill.
impl Default for RangePlan {
    fn default() -> Self {
        Self {
            first: 0,
            size: 10_000_000,
            parallel: 2,
            checkpoint: 1_000,
        }
    }
}

impl RangePlan {
    /// Cuts an archive by it.
    pub fn cut(&self, seal: &mut SealSettings) {
        seal.first_block = self.first;
        seal.range_blocks = self.size;
        seal.grid_blocks = self.size.min(GRID_BLOCKS);
    }
}
