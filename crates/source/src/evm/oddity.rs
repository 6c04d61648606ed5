//! What blocks of some chains hold that is not a plain transaction.
//!
//! Bor commits state-sync events at the first block of a sprint. Before Madhugiri their transaction is
//! under no root and in no bloom, so a block that shows none proves no more than one that does.

use alloy_primitives::{B256, keccak256};

/// Blocks of a sprint. It was 64 before the Delhi fork: a multiple, so no state sync is missed.
const SPRINT_BLOCKS: u64 = 16;

/// What blocks of some chains hold that is not a plain transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Oddity {
    None,
    /// Polygon's state-sync transaction: last in the block, under no root and in no bloom before the
    /// Madhugiri fork.
    StateSync {
        /// The block of that fork; the largest number where it is not known.
        rooted_from: u64,
    },
    /// Celo's block receipt: logs of system calls under the block's own hash, after the last
    /// transaction.
    BlockReceipt,
}

impl Oddity {
    /// Whether a block may hold a transaction that is under no root and in no bloom. That none is
    /// served proves nothing: headers of such a block do not cover it.
    pub(crate) fn may_hide(self, number: u64) -> bool {
        match self {
            Self::StateSync { rooted_from } => {
                number > 0 && number < rooted_from && number.is_multiple_of(SPRINT_BLOCKS)
            }
            Self::None | Self::BlockReceipt => false,
        }
    }

    /// The hash of the transaction that is under no root, where the block may hold one.
    pub(crate) fn hidden(self, number: u64, block: B256) -> Option<B256> {
        let named = || {
            let number = number.to_be_bytes();
            keccak256([b"matic-bor-receipt-", &number[..], block.as_slice()].concat())
        };
        self.may_hide(number).then(named)
    }

    /// The transaction that logs of the block itself name, after this many transactions.
    pub(crate) fn of_block(self, transactions: usize, block: B256) -> Option<(u32, B256)> {
        let index = u32::try_from(transactions).ok()?;
        (self == Self::BlockReceipt).then_some((index, block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_sync_is_hidden_at_sprints_before_the_fork() {
        let bor = Oddity::StateSync { rooted_from: 160 };
        for (number, hides) in [
            (0, false),
            (1, false),
            (16, true),
            (63, false),
            (64, true),
            (144, true),
            (160, false),
            (176, false),
        ] {
            assert_eq!(bor.may_hide(number), hides, "{number}");
            assert_eq!(bor.hidden(number, B256::ZERO).is_some(), hides, "{number}");
            assert!(!Oddity::None.may_hide(number));
            assert!(!Oddity::BlockReceipt.may_hide(number));
        }
    }
}
