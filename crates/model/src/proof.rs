//! How sure we are of a block: levels of verification, and what was proven of its logs and transactions.

use crate::{Dataset, DatasetSet};

/// How far something was proven before it was archived. Higher is surer. One spelling in settings,
/// API, CLI, metrics and documents: [`Verification::as_str`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Verification {
    /// One source's word: the header was not hashed.
    Claimed = 0,
    /// The header hashes to the block's hash, and the parent link holds.
    Linked = 1,
    /// The logs fit the bloom of a header that was itself hashed.
    Bloom = 2,
    /// The receipts root (or the hash of the result set) was recomputed: logs, status, gas.
    Receipts = 3,
    /// Receipts root and transactions root were recomputed: every transaction hash was computed from
    /// the transaction's own bytes.
    Roots = 4,
}

impl Verification {
    /// All of them, lowest first.
    pub const ALL: [Self; 5] = [
        Self::Claimed,
        Self::Linked,
        Self::Bloom,
        Self::Receipts,
        Self::Roots,
    ];

    /// Its one spelling.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Linked => "linked",
            Self::Bloom => "bloom",
            Self::Receipts => "receipts",
            Self::Roots => "roots",
        }
    }

    /// The level of this spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

impl std::fmt::Display for Verification {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What was proven of a block. Logs and transactions are proven by different roots, so each has a
/// level of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Proof {
    logs: Verification,
    txs: Verification,
}

/// Marks bytes that hold both levels. Those without it were written when there was one level a block.
const BOTH_LEVELS: u8 = 0x10;
const TXS_PROVEN: u8 = 0x08;

impl Proof {
    /// Nothing was proven.
    pub const CLAIMED: Self = Self::of_logs(Verification::Claimed);
    /// The header was hashed and its parent link holds.
    pub const LINKED: Self = Self::of_logs(Verification::Linked);
    /// Both roots were recomputed.
    pub const ROOTS: Self = Self {
        logs: Verification::Roots,
        txs: Verification::Roots,
    };

    /// Logs proven this far, transactions not at all. Logs at `roots` name proven transactions, so
    /// without them they are at `receipts`.
    #[must_use]
    pub const fn of_logs(logs: Verification) -> Self {
        let logs = match logs {
            Verification::Roots => Verification::Receipts,
            lower => lower,
        };
        Self {
            logs,
            txs: Verification::Claimed,
        }
    }

    /// The same with its transactions root recomputed. Without a hashed header that proves nothing.
    #[must_use]
    pub const fn with_transactions(self) -> Self {
        match self.logs {
            Verification::Claimed => self,
            Verification::Receipts | Verification::Roots => Self::ROOTS,
            Verification::Linked | Verification::Bloom => Self {
                logs: self.logs,
                txs: Verification::Roots,
            },
        }
    }

    /// The lowest proof that meets a demand for this level.
    #[must_use]
    pub const fn demanded(level: Verification) -> Self {
        match level {
            Verification::Roots => Self::ROOTS,
            lower => Self::of_logs(lower),
        }
    }

    /// How far its logs are proven.
    #[must_use]
    pub const fn logs(self) -> Verification {
        self.logs
    }

    /// How far its transactions are proven: `roots` or `claimed`.
    #[must_use]
    pub const fn txs(self) -> Verification {
        self.txs
    }

    /// How far one dataset is proven.
    #[must_use]
    pub fn of(self, dataset: Dataset) -> Verification {
        match dataset {
            Dataset::Clock | Dataset::Headers => self.logs.min(Verification::Linked),
            Dataset::Logs | Dataset::Payload => self.logs,
            Dataset::TxHashes | Dataset::Transactions => self.txs,
        }
    }

    /// How far the least proven of these datasets is proven. A header cannot be proven beyond
    /// `linked`, so it counts only where nothing else is kept.
    #[must_use]
    pub fn of_all(self, datasets: DatasetSet) -> Verification {
        let beyond = |dataset: &Dataset| !matches!(dataset, Dataset::Clock | Dataset::Headers);
        let levels = datasets.iter().filter(beyond);
        let lowest = levels.map(|dataset| self.of(dataset)).min();
        lowest.unwrap_or_else(|| self.of(Dataset::Clock))
    }

    /// What both hold.
    #[must_use]
    pub fn lower(self, other: Self) -> Self {
        Self {
            logs: self.logs.min(other.logs),
            txs: self.txs.min(other.txs),
        }
    }

    /// What either holds.
    #[must_use]
    pub fn higher(self, other: Self) -> Self {
        Self {
            logs: self.logs.max(other.logs),
            txs: self.txs.max(other.txs),
        }
    }

    /// Whether this is proven at least as far as the other, in everything.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.logs >= other.logs && self.txs >= other.txs
    }

    /// Whether this is proven further than the other in something, and less far in nothing.
    #[must_use]
    pub fn exceeds(self, other: Self) -> bool {
        self != other && self.covers(other)
    }

    /// As one byte on disk.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        let txs = match self.txs {
            Verification::Roots => TXS_PROVEN,
            _ => 0,
        };
        BOTH_LEVELS | txs | self.logs as u8
    }

    /// From one byte on disk. One level a block was written once, when neither a Portal's bloom nor a
    /// header that could not be hashed was distinguished: what is not beyond doubt is `claimed`.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 | 1 => return Some(Self::CLAIMED),
            2 => return Some(Self::of_logs(Verification::Receipts)),
            _ => {}
        }
        let logs = Verification::ALL
            .into_iter()
            .find(|level| *level as u8 == byte & 0x07)?;
        let plain = Self::of_logs(logs);
        let proof = if byte & TXS_PROVEN == 0 {
            plain
        } else {
            plain.with_transactions()
        };
        (proof.to_byte() == byte).then_some(proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Verification; 5] = Verification::ALL;

    #[test]
    fn levels_have_one_spelling() {
        for level in ALL {
            assert_eq!(Verification::parse(level.as_str()), Some(level));
            assert_eq!(level.to_string(), level.as_str());
        }
        assert_eq!(Verification::parse("links"), None);
        assert!(ALL.is_sorted());
    }

    #[test]
    fn every_proof_round_trips_and_every_other_byte_is_refused() {
        let mut known = 0;
        for logs in ALL {
            for proof in [
                Proof::of_logs(logs),
                Proof::of_logs(logs).with_transactions(),
            ] {
                assert_eq!(Proof::from_byte(proof.to_byte()), Some(proof), "{proof:?}");
            }
        }
        for byte in 0..=u8::MAX {
            if let Some(proof) = Proof::from_byte(byte) {
                assert!(byte < 3 || proof.to_byte() == byte, "{byte:#x}");
                known += 1;
            }
        }
        // Three old ones; claimed, linked, bloom, receipts; linked, bloom and receipts with transactions.
        assert_eq!(known, 3 + 4 + 3);
    }

    /// Old archives called a Portal's own bloom `bloom`, and a header that was never hashed `linked`.
    #[test]
    fn old_bytes_claim_no_more_than_was_proven() {
        assert_eq!(Proof::from_byte(0), Some(Proof::CLAIMED));
        assert_eq!(Proof::from_byte(1), Some(Proof::CLAIMED));
        let receipts = Proof::from_byte(2).unwrap();
        assert_eq!(
            (receipts.logs(), receipts.txs()),
            (Verification::Receipts, Verification::Claimed)
        );
    }

    #[test]
    fn each_dataset_has_its_own_level() {
        let with = |datasets: &[Dataset]| DatasetSet::of(datasets);
        let narrow = Proof::LINKED.with_transactions();
        assert_eq!(narrow.of(Dataset::Logs), Verification::Linked);
        assert_eq!(narrow.of(Dataset::TxHashes), Verification::Roots);
        let receipts = Proof::of_logs(Verification::Receipts);
        assert_eq!(receipts.of(Dataset::Transactions), Verification::Claimed);
        assert_eq!(receipts.of(Dataset::Headers), Verification::Linked);
        assert_eq!(
            receipts.of_all(with(&[Dataset::Headers])),
            Verification::Linked
        );
        assert_eq!(
            receipts.of_all(with(&[Dataset::Headers, Dataset::Logs])),
            Verification::Receipts
        );
        assert_eq!(
            receipts.of_all(with(&[Dataset::Logs, Dataset::TxHashes])),
            Verification::Claimed
        );
        assert_eq!(
            Proof::ROOTS.of_all(with(&[Dataset::Logs, Dataset::TxHashes])),
            Verification::Roots
        );
        assert_eq!(receipts.with_transactions(), Proof::ROOTS);
        assert_eq!(Proof::CLAIMED.with_transactions(), Proof::CLAIMED);
        assert_eq!(Proof::of_logs(Verification::Roots), receipts);
    }

    #[test]
    fn more_in_one_and_less_in_the_other_is_no_more() {
        let receipts = Proof::of_logs(Verification::Receipts);
        let narrow = Proof::LINKED.with_transactions();
        assert!(!receipts.covers(narrow) && !narrow.covers(receipts));
        assert!(!receipts.exceeds(narrow) && !narrow.exceeds(receipts));
        assert_eq!(receipts.lower(narrow), Proof::LINKED);
        assert!(Proof::ROOTS.exceeds(receipts) && Proof::ROOTS.exceeds(narrow));
        assert!(!receipts.exceeds(receipts) && receipts.covers(receipts));
    }
}
