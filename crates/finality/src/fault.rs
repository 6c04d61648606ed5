//! Why a block is not accepted, and why finality is stalled.

use chronolith_model::{BlockRef, ErrorKind, Hash32};

/// Why a block was not accepted. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// It is on a fork that leaves our chain further down: the walk goes back one block.
    #[error("parent unknown, go further back (ask={wanted}, hash={hash})")]
    ParentUnknown {
        /// The block to fetch and offer next.
        wanted: u64,
        /// The hash that it must have.
        hash: Hash32,
    },
    /// Blocks are missing before it.
    #[error("blocks are missing (expected={expected}, got={got})")]
    Gap {
        /// The block to offer next.
        expected: u64,
        /// The block that was offered.
        got: u64,
    },
    /// It replaces a final block. A person must decide who is right.
    #[error(
        "a finalized block was replaced (block={}, ours={}, offered={})",
        ours.number, ours.hash, offered.hash
    )]
    FinalityViolation {
        /// The final block as it is here.
        ours: BlockRef,
        /// What was offered or named as a parent in its place.
        offered: BlockRef,
    },
    /// It lies below everything that is known here. Only the archive can say whether it is ours.
    #[error("block is below all known ones (block={}, lowest={lowest})", offered.number)]
    Below {
        /// The lowest block whose hash is known here.
        lowest: u64,
        /// The block that was offered.
        offered: BlockRef,
    },
    /// As many blocks wait for finality as may: the head is stalled.
    #[error("too many blocks wait for finality (window_blocks_max={window_blocks_max})")]
    WindowFull { window_blocks_max: usize },
}

impl Fault {
    /// What the caller must do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::ParentUnknown { .. } | Self::Below { .. } => ErrorKind::NotFound,
            Self::Gap { .. } => ErrorKind::Invalid,
            Self::FinalityViolation { .. } => ErrorKind::Disagreement,
            Self::WindowFull { .. } => ErrorKind::TooLarge,
        }
    }
}

/// Why finality is stalled, where waiting for the next block does not fix it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stall {
    /// The rule needs a report from outside, and there was none.
    #[error("no finalized block was reported so far")]
    NothingReported,
    /// Both chains were last seen together too long ago, or never; an L1 height below one that was
    /// seen before does not count.
    #[error(
        "no recent observation of L1 (last={last:?}, max_l1_delay_seconds={max_delay_seconds})"
    )]
    L1Silent {
        /// When they were last seen.
        last: Option<u64>,
        /// How old that may be.
        max_delay_seconds: u64,
    },
    /// What was reported as final or safe is not on our chain. It repairs itself when the walk has
    /// found the fork.
    #[error(
        "a reported block is not on our chain (block={}, ours={}, reported={reported})",
        ours.number, ours.hash
    )]
    Contradicted {
        /// Our block at that height.
        ours: BlockRef,
        /// The hash that was reported.
        reported: Hash32,
    },
}
