//! What a chain family lets its blocks look like. Checked before anything is archived.

use crate::{Block, Dataset, DatasetSet, Proof, TOPICS_MAX, Tx, Verification};

/// The limits and rules of a chain family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainProfile {
    /// Exact length of an emitter in bytes, or any up to 32.
    pub emitter_bytes: Option<usize>,
    /// Exact length of a topic in bytes, or any up to `topic_bytes_max`.
    pub topic_bytes: Option<usize>,
    pub topic_bytes_max: usize,
    /// Longest data and longest suffix: 32 logs with both must stay below a gigabyte, which is what
    /// a frame may hold.
    pub data_bytes_max: usize,
    /// Whether log indexes of a block are 0, 1, 2 … when all logs are kept.
    pub log_index_contiguous: bool,
    /// Whether the root over receipts covers every log. The result set of a Stellar ledger covers the events of
    /// contract calls alone.
    pub receipts_cover_logs: bool,
}

impl ChainProfile {
    /// Ethereum and its kin.
    pub const EVM: Self = Self {
        emitter_bytes: Some(20),
        topic_bytes: Some(32),
        topic_bytes_max: 32,
        data_bytes_max: 15 << 20,
        log_index_contiguous: true,
        receipts_cover_logs: true,
    };

    /// Stellar: contract events with XDR topics.
    pub const STELLAR: Self = Self {
        emitter_bytes: None,
        topic_bytes: None,
        topic_bytes_max: 64 << 10,
        data_bytes_max: 15 << 20,
        log_index_contiguous: true,
        receipts_cover_logs: false,
    };

    /// What a stored proof means in this family. Stellar ledgers were once stored with logs at `receipts`,
    /// though nothing had been compared with their events: that reads as `linked`.
    #[must_use]
    pub fn reads(&self, proof: Proof) -> Proof {
        if self.receipts_cover_logs || proof.logs() <= Verification::Linked {
            return proof;
        }
        match proof.txs() {
            Verification::Roots => Proof::LINKED.with_transactions(),
            _ => Proof::LINKED,
        }
    }

    /// Whether a proof leaves nothing open of these datasets that a block's hash can settle. Two blocks with one
    /// hash that are both proven so far differ in form or in fields that no hash covers, and in nothing else.
    #[must_use]
    pub fn settles(&self, proof: Proof, datasets: DatasetSet) -> bool {
        let of_header = |dataset| matches!(dataset, Dataset::Clock | Dataset::Headers);
        match datasets.iter().all(of_header) {
            true => proof.covers(Proof::LINKED),
            false => proof.covers(self.reads(Proof::ROOTS)),
        }
    }

    /// Checks one block's shape: lengths, orders, and that every log names a known transaction.
    /// `complete`: all logs of the block are there.
    ///
    /// # Errors
    /// The first fault found.
    pub fn check(&self, block: &Block, complete: bool) -> Result<(), BlockFault> {
        self.check_txs(block)?;
        let mut before: Option<(u32, u32)> = None;
        for (position, log) in block.logs.iter().enumerate() {
            let at = log.log_index();
            if let Some(len) = self.emitter_bytes.filter(|&len| len != log.emitter().len()) {
                return Err(BlockFault::EmitterLength {
                    log_index: at,
                    expected: len,
                });
            }
            if log.topic_count() > TOPICS_MAX || !log.topics().all(|topic| self.topic_fits(topic)) {
                return Err(BlockFault::Topics { log_index: at });
            }
            if log.data().len().max(log.suffix().len()) > self.data_bytes_max {
                return Err(BlockFault::DataLength { log_index: at });
            }
            let ordered = before.is_none_or(|(tx, index)| tx <= log.tx_index() && index < at);
            let contiguous = !(self.log_index_contiguous && complete) || at as usize == position;
            if !ordered || !contiguous {
                return Err(BlockFault::LogOrder { log_index: at });
            }
            if block.tx_hash(log.tx_index()).is_none() {
                return Err(BlockFault::UnknownTx {
                    log_index: at,
                    tx_index: log.tx_index(),
                });
            }
            before = Some((log.tx_index(), at));
        }
        Ok(())
    }

    fn check_txs(&self, block: &Block) -> Result<(), BlockFault> {
        if !block.txs.is_sorted_by(|a, b| a.index < b.index) {
            return Err(BlockFault::TxOrder);
        }
        let own = block.txs.partition_point(|tx| !tx.is_alias());
        let (txs, aliases) = block.txs.split_at(own);
        let listed = |alias: &Tx| {
            let position = alias.position();
            txs.binary_search_by_key(&position, |tx| tx.index).is_ok()
        };
        if !aliases.iter().all(listed) {
            return Err(BlockFault::UnknownAlias);
        }
        // Bodies are found by the places of their transactions, so the block itself comes last.
        let is_block = |tx: &Tx| tx.is_block(&block.clock);
        let own = txs.iter().rev().take_while(|tx| is_block(tx)).count();
        if own > 1 || txs.iter().rev().skip(own).any(is_block) {
            return Err(BlockFault::TxOrder);
        }
        match &block.payload.bodies {
            Some(bodies) if bodies.len() + own != txs.len() => Err(BlockFault::BodyCount),
            _ => Ok(()),
        }
    }

    fn topic_fits(&self, topic: &[u8]) -> bool {
        topic.len() <= self.topic_bytes_max && self.topic_bytes.is_none_or(|len| len == topic.len())
    }
}

/// What is wrong with a block's shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BlockFault {
    /// An emitter of the wrong length.
    #[error("emitter has the wrong length (log_index={log_index}, expected={expected})")]
    EmitterLength {
        log_index: u32,
        /// How many bytes the chain wants.
        expected: usize,
    },
    /// Too many topics, or one of the wrong length.
    #[error("topics break the chain's limits (log_index={log_index})")]
    Topics { log_index: u32 },
    /// Data or suffix too long.
    #[error("data too long (log_index={log_index})")]
    DataLength { log_index: u32 },
    /// Log indexes do not rise by one, or transaction indexes fall.
    #[error("logs out of order or incomplete (log_index={log_index})")]
    LogOrder { log_index: u32 },
    /// A log names a transaction that the block does not list.
    #[error("log of an unlisted transaction (log_index={log_index}, tx_index={tx_index})")]
    UnknownTx { log_index: u32, tx_index: u32 },
    /// Transaction indexes do not rise.
    #[error("transactions out of order")]
    TxOrder,
    /// A second hash of a transaction that the block does not list.
    #[error("second hash of an unlisted transaction")]
    UnknownAlias,
    /// Not one body for each transaction.
    #[error("bodies and transactions differ in number")]
    BodyCount,
    /// A header, the bodies or the raw block are to be kept and are not there.
    #[error("payload that is to be kept is missing")]
    MissingPayload,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_settles_what_its_family_puts_under_it() {
        let of_header = DatasetSet::of(&[Dataset::Clock, Dataset::Headers]);
        let with_logs = DatasetSet::of(&[Dataset::Clock, Dataset::Logs]);
        let ledger = Proof::LINKED.with_transactions();
        let receipts = Proof::of_logs(Verification::Receipts);
        let cases = [
            (Proof::CLAIMED, of_header, [false, false]),
            (Proof::LINKED, of_header, [true, true]),
            (Proof::LINKED, with_logs, [false, false]),
            (receipts, with_logs, [false, false]),
            (ledger, with_logs, [false, true]),
            (Proof::ROOTS, with_logs, [true, true]),
        ];
        for (proof, datasets, expected) in cases {
            let families = [ChainProfile::EVM, ChainProfile::STELLAR];
            let settled = families.map(|family| family.settles(proof, datasets));
            assert_eq!(settled, expected, "{proof:?} of {datasets:?}");
        }
    }
}
