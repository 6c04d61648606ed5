//! A block as it is ingested: its clock, its transactions, its logs and what else is kept of it.

use bytes::Bytes;

use crate::{Hash32, Log};

/// A block's number and hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockRef {
    pub number: u64,
    pub hash: Hash32,
}

/// What is always kept of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockMeta {
    pub number: u64,
    pub hash: Hash32,
    /// Hash of the block before.
    pub parent_hash: Hash32,
    /// The chain's own time of the block, in its own unit (seconds on every chain known so far).
    pub timestamp: u64,
}

impl BlockMeta {
    /// Number and hash.
    #[must_use]
    pub fn block_ref(&self) -> BlockRef {
        BlockRef {
            number: self.number,
            hash: self.hash,
        }
    }
}

/// A transaction's place in its block. One that is known by a second hash is listed a second time,
/// after all others, under its position and [`Tx::ALIAS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tx {
    /// Position in the block.
    pub index: u32,
    pub hash: Hash32,
}

impl Tx {
    /// Marks the position of a transaction that is listed under a second hash: the inner hash of a fee
    /// bump on Stellar.
    pub const ALIAS: u32 = 1 << 31;

    /// The transaction's position in its block, under whichever hash it is listed.
    #[must_use]
    pub fn position(&self) -> u32 {
        self.index & !Self::ALIAS
    }

    /// Whether this stands for the block itself. Logs that belong to no transaction name the block's hash
    /// instead of one (the system calls of Celo's old chain): the block is listed once after the last
    /// transaction, and has no body.
    #[must_use]
    pub fn is_block(&self, clock: &BlockMeta) -> bool {
        self.hash == clock.hash
    }

    /// Whether this is a second hash of a transaction.
    #[must_use]
    pub fn is_alias(&self) -> bool {
        self.index & Self::ALIAS != 0
    }
}

/// Payload that filters never look at. Each part comes back byte for byte as it went in.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Payload {
    /// The whole header in the chain's own encoding, where the dataset `headers` is kept.
    pub header: Option<Bytes>,
    /// One body for each entry of [`Block::txs`] but the aliases and the entry of the block itself, where
    /// `transactions` is kept: of all transactions with `tx_hashes`, else of those that kept logs name.
    pub bodies: Option<Vec<Bytes>>,
    /// The whole block as it came (a Stellar ledger frame), where `payload` is kept.
    pub raw: Option<Bytes>,
}

/// A finalized block on its way into the archive, or on its way out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Number, hash, parent and time.
    pub clock: BlockMeta,
    /// Transactions in order: all of them where `tx_hashes` is kept, else those that logs name. After
    /// them the block itself, where it has logs of its own.
    pub txs: Vec<Tx>,
    /// Logs in order.
    pub logs: Vec<Log>,
    /// Headers, bodies and whole blocks.
    pub payload: Payload,
}

impl Block {
    /// The hash of the transaction at a position of the block.
    #[must_use]
    pub fn tx_hash(&self, index: u32) -> Option<Hash32> {
        let found = self.txs.binary_search_by_key(&index, |tx| tx.index).ok()?;
        self.txs.get(found).map(|tx| tx.hash)
    }
}
