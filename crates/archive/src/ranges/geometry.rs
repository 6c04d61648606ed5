//! Ranges: where they begin and end, and what an operator sees of them.
//!
//! A range is a fixed number of consecutive blocks with a lifecycle. Nothing here is stored: states
//! and phases follow from what the catalog names, times and counts from its journal.

use chronolith_model::BlockRange;

use super::tx_counts::TxCounts;

/// Where ranges begin and how long they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The first block of range 0. What lies below is in no range.
    pub first: u64,
    pub size: u64,
}

impl Geometry {
    /// The range of a block; none below the first block of all.
    #[must_use]
    pub fn id_of(&self, block: u64) -> Option<u64> {
        Some(block.checked_sub(self.first)? / self.size.max(1))
    }

    /// The first block of a range.
    #[must_use]
    pub fn first_of(&self, id: u64) -> u64 {
        id.saturating_mul(self.size).saturating_add(self.first)
    }

    /// The last block of a range.
    #[must_use]
    pub fn last_of(&self, id: u64) -> u64 {
        let behind = self.first_of(id).saturating_add(self.size.max(1));
        behind.saturating_sub(1)
    }

    /// Whether a range ends with this block, so that its transition is due.
    #[must_use]
    pub fn ends_at(&self, block: u64) -> bool {
        self.id_of(block)
            .is_some_and(|id| self.last_of(id) == block)
    }

    /// The blocks of a range.
    #[must_use]
    pub fn blocks_of(&self, id: u64) -> BlockRange {
        let first = self.first_of(id);
        BlockRange::new(first, first.saturating_add(self.size.max(1)))
    }
}

/// Where a range is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum RangeState {
    /// Nothing of it is archived.
    #[default]
    Pending,
    /// Some of its blocks are archived, and some are missing.
    Ingesting,
    /// All blocks are there; it is brought into its last form.
    Transitioning,
    /// In its last form, and verified.
    Complete,
    /// Its transition met something that will not go away by itself.
    Failed,
}

impl RangeState {
    /// The word that operators know.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Ingesting => "INGESTING",
            Self::Transitioning => "TRANSITIONING",
            Self::Complete => "COMPLETE",
            Self::Failed => "FAILED",
        }
    }
}

/// How far the blocks of a range are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LedgerPhase {
    #[default]
    Ingesting,
    /// Segments are sealed and merged for the last time, packs are finished.
    Merging,
    /// No segment and no pack of it will change any more.
    Immutable,
}

/// How far the hashes of a range are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum TxHashPhase {
    #[default]
    Ingesting,
    /// The tables of its segments become runs.
    Compacting,
    /// Its runs become one.
    BuildingIndex,
    /// Every hash is looked up in that run.
    VerifyingIndex,
    Complete,
}

/// The phase in which a transition failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FailedPhase {
    /// While segments were merged or packs finished.
    Merging = 1,
    /// While hashes were counted or put into runs.
    Compacting = 2,
    /// While the range's run was made.
    BuildingIndex = 3,
    /// While it was verified.
    VerifyingIndex = 4,
}

impl FailedPhase {
    pub(crate) fn from_u8(value: u8) -> Option<Self> {
        let all = [
            Self::Merging,
            Self::Compacting,
            Self::BuildingIndex,
            Self::VerifyingIndex,
        ];
        all.into_iter().find(|&phase| phase as u8 == value)
    }

    /// The name in log lines.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Merging => "merging",
            Self::Compacting => "compacting",
            Self::BuildingIndex => "building_index",
            Self::VerifyingIndex => "verifying_index",
        }
    }
}

/// Why a transition is stalled until an operator acts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeFailure {
    pub phase: FailedPhase,
    /// The object that is damaged or incomplete.
    pub object: String,
    /// In words.
    pub cause: String,
    /// When, in seconds since 1970, as the caller reported; none where it is unknown.
    pub at: Option<u64>,
}

/// How far one of the two parts of a transition is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartStatus {
    /// Nothing is done about it.
    Pending,
    InProgress,
    Complete,
}

impl PartStatus {
    /// The word that operators know.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Complete => "complete",
        }
    }
}

/// What is known of one range.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RangeReport {
    pub id: u64,
    /// Its first block.
    pub first: u64,
    /// Its last block.
    pub last: u64,
    /// Where it is in its life.
    pub state: RangeState,
    /// How far its blocks are; none while nothing is archived.
    pub ledger: Option<LedgerPhase>,
    /// How far its hashes are; none while nothing is archived.
    pub txhash: Option<TxHashPhase>,
    /// The last block up to which none is missing, from the first block of the range or of the
    /// archive on.
    pub last_committed: Option<u64>,
    /// How many of its blocks are archived.
    pub blocks: u64,
    /// Transaction hashes by their first hex digit; none where some are not counted yet.
    pub keys: Option<TxCounts>,
    /// When its first block came, in seconds since 1970; none where it is unknown.
    pub created_at: Option<u64>,
    /// When it was complete.
    pub completed_at: Option<u64>,
    /// When its transition began; none unless one is under way.
    pub transition_started_at: Option<u64>,
    /// How far blocks are in the transition; none unless one is under way.
    pub ledger_status: Option<PartStatus>,
    /// How far hashes are in the transition; none unless one is under way.
    pub txhash_status: Option<PartStatus>,
    /// Hashes that were looked up when it was verified.
    pub verified_keys: Option<u64>,
    /// Names of its segments, batches among them.
    pub segments: Vec<String>,
    pub packs: Vec<String>,
    /// Names of its runs: one when it is complete.
    pub runs: Vec<String>,
    /// Why it is `Failed`.
    pub failure: Option<RangeFailure>,
}

impl RangeReport {
    /// A range of which nothing is archived.
    #[must_use]
    pub fn pending(geometry: Geometry, id: u64) -> Self {
        Self {
            id,
            first: geometry.first_of(id),
            last: geometry.last_of(id),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STELLAR: Geometry = Geometry {
        first: 2,
        size: 10_000_000,
    };

    #[test]
    fn ranges_are_counted_as_the_requirement_prints_them() {
        let rows = [
            (2, 0, false),
            (10_000_001, 0, true),
            (10_000_002, 1, false),
            (20_000_001, 1, true),
            (25_000_000, 2, false),
            (30_000_001, 2, true),
            (40_000_000, 3, false),
            (40_000_001, 3, true),
            (40_000_002, 4, false),
        ];
        for (block, id, ends) in rows {
            assert_eq!(STELLAR.id_of(block), Some(id), "block {block}");
            assert_eq!(STELLAR.ends_at(block), ends, "block {block}");
        }
        let borders = [
            (0, 2, 10_000_001),
            (1, 10_000_002, 20_000_001),
            (2, 20_000_002, 30_000_001),
            (3, 30_000_002, 40_000_001),
            (4, 40_000_002, 50_000_001),
        ];
        for (id, first, last) in borders {
            assert_eq!((STELLAR.first_of(id), STELLAR.last_of(id)), (first, last));
            assert_eq!(STELLAR.blocks_of(id), BlockRange::new(first, last + 1));
        }
    }

    #[test]
    fn what_lies_below_the_first_block_is_in_no_range() {
        assert_eq!((STELLAR.id_of(0), STELLAR.id_of(1)), (None, None));
        assert!(!STELLAR.ends_at(0) && !STELLAR.ends_at(1));
        let evm = Geometry {
            first: 0,
            ..STELLAR
        };
        assert_eq!((evm.id_of(0), evm.id_of(9_999_999)), (Some(0), Some(0)));
        assert!(evm.ends_at(9_999_999) && !evm.ends_at(10_000_000));
    }

    proptest! {
        #[test]
        fn every_block_lies_in_its_range(first: u64, size in 1_u64.., block: u64) {
            let geometry = Geometry { first, size };
            if let Some(id) = geometry.id_of(block) {
                prop_assert!(geometry.first_of(id) <= block && block <= geometry.last_of(id));
                prop_assert!(geometry.blocks_of(id).contains(block) || block == u64::MAX);
                prop_assert_eq!(geometry.ends_at(block), block == geometry.last_of(id));
            } else {
                prop_assert!(block < first);
            }
        }
    }
}
