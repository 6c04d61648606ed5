//! What only the process that follows a chain knows.

use chronolith_finality::TailSnapshot;
use chronolith_model::{BlockRef, Hash32, Proof};

/// The newest blocks of a chain, and where its source is. No method waits.
pub trait Live: Send + Sync {
    /// The blocks above the archive.
    fn tail(&self) -> TailSnapshot;
    /// The number of the source's newest block; none where it is unknown.
    fn source_head(&self) -> Option<u64>;
    /// Whether this block was the source's newest at the last check, and that check is recent.
    fn is_source_head(&self, block: BlockRef) -> bool;
    /// Whether this block was the source's newest at the last check, however old that is: then blocks
    /// above it are on no chain.
    fn was_source_head(&self, block: BlockRef) -> bool;
    /// How far a block of the tail was proven; none once it left the tail.
    fn proof(&self, block: &Hash32) -> Option<Proof>;
}
