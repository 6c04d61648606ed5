//! What can be wrong with the bytes of a ledger.

use chronolith_model::Hash32;

/// Why bytes are not a ledger, or not the one they say they are.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The bytes do not follow the wire format.
    #[error("not a ledger: {what} (at byte {at})")]
    Malformed {
        /// Where, counted from the first byte.
        at: usize,
        what: &'static str,
    },
    /// A hash in the ledger is not that of the bytes it stands for.
    #[error("ledger {sequence}: the {what} hash does not fit its content")]
    Hash {
        sequence: u32,
        /// Which hash: `header`, `transaction set` or `result set`.
        what: &'static str,
    },
    /// A transaction's result names no envelope of the set: another network's, or not this ledger's.
    #[error(
        "ledger {sequence}: no envelope of its set has the hash of transaction {position}: is this the \
         network with the passphrase {passphrase:?}?"
    )]
    Unpaired {
        sequence: u32,
        /// The transaction's position in apply order.
        position: u32,
        /// The passphrase that was tried.
        passphrase: String,
    },
    /// A contract call's events are not those that its result has the hash of.
    #[error("ledger {sequence}, transaction {tx} (position {position}): {what}")]
    Events {
        sequence: u32,
        /// The transaction's position in apply order.
        position: u32,
        /// The transaction's hash. Boxed: faults lie on the stack of every level of nested values.
        tx: Box<Hash32>,
        /// What is wrong with them.
        what: &'static str,
    },
    /// As many envelopes as results are due.
    #[error("ledger {sequence}: {envelopes} envelopes and {results} results")]
    Count {
        sequence: u32,
        envelopes: usize,
        results: usize,
    },
    /// Parts that were kept of a ledger do not make one.
    #[error("parts of a ledger do not fit: {0}")]
    Parts(&'static str),
}
