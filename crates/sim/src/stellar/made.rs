//! A made ledger: its bytes, and what a server must find in them.

use std::fmt;

use bytes::Bytes;
use chronolith_model::Hash32;
use stellar_xdr::TransactionMeta;

use super::decoded;
use super::event::{MadeEvent, Numbering};

/// A transaction where it stands in its ledger, as the bytes of its parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MadeTx {
    pub hash: Hash32,
    /// The hash of the transaction inside of it, where it is a fee bump.
    pub inner_hash: Option<Hash32>,
    pub success: bool,
    /// XDR of its `TransactionEnvelope`.
    pub envelope: Bytes,
    /// XDR of its `TransactionResult`, without the hash before it.
    pub result: Bytes,
    /// XDR of the `LedgerEntryChanges` of its fee.
    pub fee_processing: Bytes,
    /// XDR of its `TransactionMeta`.
    pub meta: Bytes,
    /// XDR of the `LedgerEntryChanges` of what was paid back after all transactions. Empty, without
    /// even a length, in ledgers that have no such part.
    pub post_fee_processing: Bytes,
}

/// A ledger.
#[derive(Clone)]
pub struct Made {
    pub sequence: u32,
    /// The hash of its header.
    pub hash: Hash32,
    /// The hash of the header before it.
    pub previous_hash: Hash32,
    /// When it closed, in seconds since 1970.
    pub close_time: u64,
    /// XDR of its `LedgerHeader`.
    pub header: Bytes,
    /// XDR of the whole `LedgerCloseMeta`.
    pub raw: Bytes,
    /// Its transactions, in the order of applying. In the transaction set they have another.
    pub txs: Vec<MadeTx>,
}

impl Made {
    /// All its events except diagnostic ones, in the order of their ids. Each call decodes them by `stellar-xdr`.
    #[must_use]
    pub fn events(&self) -> Vec<MadeEvent> {
        let mut numbering = Numbering::new(self.sequence);
        let mut events = Vec::new();
        for (tx, position) in self.txs.iter().zip(0..) {
            let meta: TransactionMeta = decoded(&tx.meta);
            events.extend(numbering.events(position, tx.success, &meta));
        }
        events.sort_by_key(|event| event.id);
        events
    }
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made")
            .field("sequence", &self.sequence)
            .field("hash", &self.hash)
            .field("bytes", &self.raw.len())
            .field("txs", &self.txs.len())
            .finish_non_exhaustive()
    }
}
