//! How a chain's blocks become final, and what is seen of the chain from outside.
//!
//! Plain data, and the check that rule and settings fit each other.

use chronolith_model::{BlockRef, Hash32};

/// How a chain's blocks become final.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// This many blocks are above it.
    Depth { confirmations: u64 },
    /// The chain's own tag covers it: [`Observation::finalized`] is the tag that the caller chose,
    /// `finalized` or `safe`.
    Tag,
    /// The source reports it as final: [`Observation::finalized`] is its finalized head.
    Source,
    /// It is deep enough here, and its inclusion on L1 is deep enough there.
    DualSource {
        /// How many blocks of this chain are above it.
        l2_depth: u64,
        /// For how many blocks of L1 the safe tag has covered it.
        l1_confirmations: u64,
        /// Without an observation of both chains younger than this, finality is stalled.
        max_l1_delay_seconds: u64,
    },
}

/// A block that an endpoint named: its height, and its hash where it is known.
///
/// With the hash, a reported block on another fork is noticed before anything becomes final by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportedBlock {
    pub number: u64,
    /// Hash, where known.
    pub hash: Option<Hash32>,
}

impl From<u64> for ReportedBlock {
    fn from(number: u64) -> Self {
        Self { number, hash: None }
    }
}

impl From<BlockRef> for ReportedBlock {
    fn from(block: BlockRef) -> Self {
        Self {
            number: block.number,
            hash: Some(block.hash),
        }
    }
}

/// What was seen of the chain from outside at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Observation {
    /// The finalized block by tag or source.
    pub finalized: Option<ReportedBlock>,
    /// The block that the safe tag names.
    pub safe: Option<ReportedBlock>,
    /// Height of L1. It counts only together with `safe`, and is to be read after it:
    /// read before, an inclusion would be dated too early.
    pub l1_head: Option<u64>,
    /// When, in seconds.
    pub now: u64,
}

impl Observation {
    /// Nothing but the time: enough for depth, and for a tag that was reported before.
    #[must_use]
    pub fn at(now: u64) -> Self {
        Self {
            now,
            ..Self::default()
        }
    }
}

/// What bounds a tracker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Most blocks between the finalized head and the head.
    pub window_blocks_max: usize,
    /// Most inclusions remembered under [`Rule::DualSource`].
    pub inclusions_max: usize,
    /// A reorg of more blocks than this needs an endpoint that is ahead of us and not syncing.
    pub reorg_blocks_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window_blocks_max: 16_384,
            inclusions_max: 1_024,
            reorg_blocks_max: 64,
        }
    }
}

impl Settings {
    /// Refuses limits under which the rule could never make anything final: finality would stall
    /// some hours after the start, far from the cause.
    pub(crate) fn check(&self, rule: &Rule) -> Result<(), Invalid> {
        let (depth, l1_confirmations) = match *rule {
            Rule::Depth { confirmations } => (confirmations, 0),
            Rule::Tag | Rule::Source => (0, 0),
            Rule::DualSource {
                l2_depth,
                l1_confirmations,
                ..
            } => (l2_depth, l1_confirmations),
        };
        if too_small(depth, self.window_blocks_max) {
            return Err(Invalid::Window {
                depth,
                window_blocks_max: self.window_blocks_max,
            });
        }
        // One inclusion a height of L1: with more of them than confirmations, the
        // oldest one kept is always old enough.
        if too_small(l1_confirmations, self.inclusions_max) {
            return Err(Invalid::Inclusions {
                l1_confirmations,
                inclusions_max: self.inclusions_max,
            });
        }
        Ok(())
    }
}

fn too_small(wanted: u64, max: usize) -> bool {
    usize::try_from(wanted).map_or(true, |wanted| wanted >= max)
}

/// Why rule and settings do not fit each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Invalid {
    /// The window is full before its first block is deep enough.
    #[error(
        "window too small for the rule's depth (depth={depth}, window_blocks_max={window_blocks_max})"
    )]
    Window {
        /// Blocks that must be above a final one.
        depth: u64,
        window_blocks_max: usize,
    },
    /// Inclusions are forgotten before they are confirmed.
    #[error(
        "too few inclusions kept for the rule (l1_confirmations={l1_confirmations}, inclusions_max={inclusions_max})"
    )]
    Inclusions {
        /// Blocks of L1 that must pass.
        l1_confirmations: u64,
        inclusions_max: usize,
    },
}
