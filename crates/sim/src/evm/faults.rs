//! The faults of a simulated node.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::fault_registry::{FaultRegistry, InjectedFault};

/// One thing that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RpcFault {
    /// A call is answered with -32000.
    RpcError,
    /// A request is answered with HTTP status 500.
    Http500,
    /// A request is answered with HTTP status 429 and says when to come back.
    Http429RetryAfter,
    /// A request is answered with HTTP status 429 and nothing else.
    Http429Bare,
    /// `eth_getLogs` finds nothing although there is something.
    EmptyLogs,
    /// An existing block is answered with null.
    NullBlock,
    /// Existing receipts are answered with null.
    NullReceipts,
    /// The newest block is an older one.
    HeadRegression,
    /// A block asked by number is another block on the same parent.
    HashChange,
    /// The body ends early and the connection with it.
    TruncatedBody,
    /// The body is padded to a great length.
    HugeBody,
    /// A WebSocket connection ends without a close frame.
    WsDrop,
    /// A new head is sent twice.
    DuplicateHeads,
    /// The answers of a batch come in another order.
    BatchOutOfOrder,
    /// The chain id is another one.
    WrongChainId,
    /// Logs and receipts name another block.
    WrongBlockHashInLogs,
    /// A log is left out.
    MissingLog,
    /// The bloom of a header is all zero although there are logs.
    BloomZero,
    /// Logs do not say when they were.
    MissingBlockTimestamp,
    /// `eth_getLogs` over several blocks is refused as too much, in one of many spellings.
    RangeError,
    /// An answer takes its time.
    SlowAnswer,
    /// The node says that it is syncing.
    Syncing,
    /// `eth_getLogs` is answered by a node that does not have the blocks yet: nothing for a range,
    /// an error for a block by its hash.
    LogsBehind,
    /// `eth_getBlockReceipts` is refused as unknown, although the node has it.
    NoReceipts,
    /// The hashes of all transactions are others, in blocks, receipts and logs alike.
    ForeignTxHashes,
    /// Whole transactions have another sender and other input under the same hash.
    ChangedBodies,
    /// The last log of a block has other data: no bloom shows it.
    ChangedData,
    /// The last log of a block comes from another contract.
    MovedLog,
    /// The receipt of the block itself is left out, as old nodes of Celo do.
    NoBlockReceipt,
}

impl RpcFault {
    /// All of them, with their names in reports and settings.
    pub const NAMED: [(Self, &'static str); 29] = [
        (Self::RpcError, "rpc_error"),
        (Self::Http500, "http_500"),
        (Self::Http429RetryAfter, "http_429_retry_after"),
        (Self::Http429Bare, "http_429_bare"),
        (Self::EmptyLogs, "empty_logs"),
        (Self::NullBlock, "null_block"),
        (Self::NullReceipts, "null_receipts"),
        (Self::HeadRegression, "head_regression"),
        (Self::HashChange, "hash_change"),
        (Self::TruncatedBody, "truncated_body"),
        (Self::HugeBody, "huge_body"),
        (Self::WsDrop, "ws_drop"),
        (Self::DuplicateHeads, "duplicate_heads"),
        (Self::BatchOutOfOrder, "batch_out_of_order"),
        (Self::WrongChainId, "wrong_chain_id"),
        (Self::WrongBlockHashInLogs, "wrong_block_hash_in_logs"),
        (Self::MissingLog, "missing_log"),
        (Self::BloomZero, "bloom_zero"),
        (Self::MissingBlockTimestamp, "missing_block_timestamp"),
        (Self::RangeError, "range_error"),
        (Self::SlowAnswer, "slow_answer"),
        (Self::Syncing, "syncing"),
        (Self::LogsBehind, "logs_behind"),
        (Self::NoReceipts, "no_receipts"),
        (Self::ForeignTxHashes, "foreign_tx_hashes"),
        (Self::ChangedBodies, "changed_bodies"),
        (Self::ChangedData, "changed_data"),
        (Self::MovedLog, "moved_log"),
        (Self::NoBlockReceipt, "no_block_receipt"),
    ];

    /// Its name in reports and settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        let named = Self::NAMED.into_iter().find(|(fault, _)| *fault == self);
        named.expect("the table has every fault").1
    }
}

/// How bad the faults are that have a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultSizes {
    /// Length of a huge body.
    pub huge_body_bytes: u64,
    /// How long a slow answer takes.
    pub slow_answer: Duration,
    /// How far the head goes back.
    pub regression_blocks: u64,
    /// How long a refused client must wait.
    pub retry_after_seconds: u64,
}

impl Default for FaultSizes {
    fn default() -> Self {
        Self {
            huge_body_bytes: 150_000_000,
            slow_answer: Duration::from_secs(5),
            regression_blocks: 3,
            retry_after_seconds: 1,
        }
    }
}

impl InjectedFault for RpcFault {
    type Sizes = FaultSizes;

    fn named(name: &str) -> Option<Self> {
        let found = Self::NAMED.into_iter().find(|(_, known)| *known == name);
        found.map(|(fault, _)| fault)
    }

    fn stream(self) -> Option<u64> {
        Some(self as u64)
    }
}

/// The faults of a simulated node.
pub type Faults = FaultRegistry<RpcFault>;

impl Faults {
    /// How often each fault was injected, by name; those that never were are there with 0.
    #[must_use]
    pub fn injected(&self) -> BTreeMap<&'static str, u64> {
        let counts = self.all_counts();
        let named = RpcFault::NAMED.into_iter();
        named
            .map(|(fault, name)| (name, counts.get(&fault).copied().unwrap_or(0)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_kept_and_counted() {
        let faults = Faults::new(1);
        assert!(!faults.hits(RpcFault::Http500));
        faults
            .load_json(r#"{"http_500": 0.1, "rpc_error": 1}"#)
            .unwrap();
        let hits = (0..10_000)
            .filter(|_| faults.hits(RpcFault::Http500))
            .count();
        assert!((900..1_100).contains(&hits), "{hits}");
        assert!(faults.hits(RpcFault::RpcError));
        assert_eq!(faults.injected()["http_500"], hits as u64);
        assert_eq!(faults.injected().len(), RpcFault::NAMED.len());
        faults.clear();
        assert!(!faults.hits(RpcFault::RpcError));
    }

    #[test]
    fn bad_texts_change_nothing() {
        let faults = Faults::new(1);
        let texts = [
            "[]",
            "{",
            r#"{"http_500": 1, "no_such": 1}"#,
            r#"{"http_500": 2}"#,
            r#"{"http_500": "1"}"#,
        ];
        for text in texts {
            assert!(faults.load_json(text).is_err(), "{text}");
        }
        assert!(!faults.hits(RpcFault::Http500));
    }
}
