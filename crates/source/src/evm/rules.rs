//! The rules by which blocks of a chain prove their content: which of them a chain keeps to, and why a
//! block is refused by one.

use chronolith_model::{Hash32, Verification};

use super::oddity::Oddity;
use crate::error::Error;

/// One thing that can be recomputed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// The hash of a header follows from its fields.
    HeaderHash = 0,
    /// The bloom follows from the logs.
    Bloom = 1,
    /// The receipts root follows from the receipts.
    ReceiptsRoot = 2,
    /// The transactions root follows from the transactions.
    TransactionsRoot = 3,
}

impl Rule {
    pub const ALL: [Self; 4] = [
        Self::HeaderHash,
        Self::Bloom,
        Self::ReceiptsRoot,
        Self::TransactionsRoot,
    ];

    /// Its name in messages and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeaderHash => "header hash",
            Self::Bloom => "logs bloom",
            Self::ReceiptsRoot => "receipts root",
            Self::TransactionsRoot => "transactions root",
        }
    }
}

/// Which checks a chain allows, and what its blocks hold that no root covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    /// The hash of a header follows from its fields.
    pub header_hash: bool,
    /// The bloom follows from the logs.
    pub bloom: bool,
    /// The chain is known to fill its blooms, so that one without a bit says that there are no logs. A chain
    /// that never fills them has such blooms too.
    pub blooms_filled: bool,
    /// The receipts root follows from the receipts.
    pub receipts_root: bool,
    /// The transactions root follows from the transactions.
    pub transactions_root: bool,
    /// What is not a plain transaction.
    pub oddity: Oddity,
}

impl Checks {
    /// Ethereum, and chains that keep to its rules.
    pub const ALL: Self = Self {
        header_hash: true,
        bloom: true,
        blooms_filled: true,
        receipts_root: true,
        transactions_root: true,
        oddity: Oddity::None,
    };
    /// Nothing but the links between blocks.
    pub const NONE: Self = Self {
        header_hash: false,
        bloom: false,
        blooms_filled: false,
        receipts_root: false,
        transactions_root: false,
        oddity: Oddity::None,
    };

    /// The same, with nothing checked that a lower level does not need.
    #[must_use]
    pub fn up_to(self, level: Verification) -> Self {
        Self {
            header_hash: self.header_hash && level >= Verification::Linked,
            bloom: self.bloom && level >= Verification::Bloom,
            receipts_root: self.receipts_root && level >= Verification::Receipts,
            transactions_root: self.transactions_root && level >= Verification::Roots,
            ..self
        }
    }

    /// The highest level that they prove.
    #[must_use]
    pub fn best(self) -> Verification {
        match self {
            Self {
                header_hash: false, ..
            } => Verification::Claimed,
            Self {
                receipts_root: true,
                transactions_root: true,
                ..
            } => Verification::Roots,
            Self {
                receipts_root: true,
                ..
            } => Verification::Receipts,
            Self { bloom: true, .. } => Verification::Bloom,
            _ => Verification::Linked,
        }
    }
}

/// Why a block is refused: by a rule, which may be wrong itself, or because it contradicts itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) rule: Option<Rule>,
    pub(crate) what: String,
    /// What was computed and what the block says, without the words: two endpoints that serve the same
    /// block fail alike, however their clients write it.
    pub(crate) computed: Hash32,
}

impl Refusal {
    /// The error that it is.
    pub(crate) fn of(self, endpoint: &str, number: u64) -> Error {
        let (endpoint, what, computed) = (endpoint.to_owned(), self.what, self.computed);
        match self.rule {
            None => Error::Inconsistent {
                endpoint,
                number,
                what,
            },
            Some(rule) => Error::RuleFailed {
                endpoint,
                number,
                rule,
                what,
                computed,
            },
        }
    }
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(what: T) -> Self {
        Self {
            rule: None,
            what: what.into(),
            computed: Hash32([0; 32]),
        }
    }
}
