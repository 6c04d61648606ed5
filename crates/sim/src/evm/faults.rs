//! What goes wrong at a simulated node, how often, and how often it did.
//!
//! A fault is drawn only where it can be seen: no log goes missing from an empty answer. Each fault
//! has a stream of its own, so that changing the rate of one leaves the others where they were.
//! Which request meets a fault depends on the order in which requests arrive.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::rng::Rng;

/// The rate that always hits.
const ALWAYS: u32 = 1_000_000;

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
    /// A new head is told twice.
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
    /// The last log of a block has other data: no bloom tells.
    ChangedData,
    /// The last log of a block comes from another contract.
    MovedLog,
    /// The receipt of the block itself is left out, as old nodes of Celo do.
    NoBlockReceipt,
}

impl RpcFault {
    /// All of them.
    pub const ALL: [Self; 29] = [
        Self::RpcError,
        Self::Http500,
        Self::Http429RetryAfter,
        Self::Http429Bare,
        Self::EmptyLogs,
        Self::NullBlock,
        Self::NullReceipts,
        Self::HeadRegression,
        Self::HashChange,
        Self::TruncatedBody,
        Self::HugeBody,
        Self::WsDrop,
        Self::DuplicateHeads,
        Self::BatchOutOfOrder,
        Self::WrongChainId,
        Self::WrongBlockHashInLogs,
        Self::MissingLog,
        Self::BloomZero,
        Self::MissingBlockTimestamp,
        Self::RangeError,
        Self::SlowAnswer,
        Self::Syncing,
        Self::LogsBehind,
        Self::NoReceipts,
        Self::ForeignTxHashes,
        Self::ChangedBodies,
        Self::ChangedData,
        Self::MovedLog,
        Self::NoBlockReceipt,
    ];

    /// Its name in reports and settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RpcError => "rpc_error",
            Self::Http500 => "http_500",
            Self::Http429RetryAfter => "http_429_retry_after",
            Self::Http429Bare => "http_429_bare",
            Self::EmptyLogs => "empty_logs",
            Self::NullBlock => "null_block",
            Self::NullReceipts => "null_receipts",
            Self::HeadRegression => "head_regression",
            Self::HashChange => "hash_change",
            Self::TruncatedBody => "truncated_body",
            Self::HugeBody => "huge_body",
            Self::WsDrop => "ws_drop",
            Self::DuplicateHeads => "duplicate_heads",
            Self::BatchOutOfOrder => "batch_out_of_order",
            Self::WrongChainId => "wrong_chain_id",
            Self::WrongBlockHashInLogs => "wrong_block_hash_in_logs",
            Self::MissingLog => "missing_log",
            Self::BloomZero => "bloom_zero",
            Self::MissingBlockTimestamp => "missing_block_timestamp",
            Self::RangeError => "range_error",
            Self::SlowAnswer => "slow_answer",
            Self::Syncing => "syncing",
            Self::LogsBehind => "logs_behind",
            Self::NoReceipts => "no_receipts",
            Self::ForeignTxHashes => "foreign_tx_hashes",
            Self::ChangedBodies => "changed_bodies",
            Self::ChangedData => "changed_data",
            Self::MovedLog => "moved_log",
            Self::NoBlockReceipt => "no_block_receipt",
        }
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
    /// What a refused request is told to wait.
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

/// A seeded plan of faults. A clone is another handle to the same plan; rates may change while the
/// node serves.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    plan: Arc<Mutex<Plan>>,
}

#[derive(Debug, Default)]
struct Plan {
    seed: u64,
    per_million: BTreeMap<RpcFault, u32>,
    sizes: FaultSizes,
    /// How often each could have happened since it has a rate.
    chances: BTreeMap<RpcFault, u64>,
    injected: BTreeMap<RpcFault, u64>,
}

impl Faults {
    /// A plan in which nothing goes wrong yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let plan = Plan {
            seed,
            ..Plan::default()
        };
        Self {
            plan: Arc::new(Mutex::new(plan)),
        }
    }

    /// Lets a fault happen in so many of a million cases; 0 ends it.
    pub fn set(&self, fault: RpcFault, per_million: u32) {
        self.plan().per_million.insert(fault, per_million);
    }

    /// Lets a fault happen every time.
    pub fn always(&self, fault: RpcFault) {
        self.set(fault, ALWAYS);
    }

    /// Ends all faults. What was counted stays.
    pub fn clear(&self) {
        self.plan().per_million.clear();
    }

    /// Changes how bad the faults are.
    pub fn set_sizes(&self, sizes: FaultSizes) {
        self.plan().sizes = sizes;
    }

    /// How bad the faults are.
    #[must_use]
    pub fn sizes(&self) -> FaultSizes {
        self.plan().sizes
    }

    /// Sets the rates of an object of names and probabilities, such as `{"http_500": 0.02}`. Names
    /// that are not in it keep their rate.
    ///
    /// # Errors
    /// Text that is no such object, an unknown name, or a probability outside 0 to 1; then nothing
    /// is changed.
    pub fn load_json(&self, text: &str) -> Result<(), FaultsError> {
        let named = |name: &str| RpcFault::ALL.into_iter().find(|fault| fault.name() == name);
        let rates = parse_rates(text, named)?;
        self.plan().per_million.extend(rates);
        Ok(())
    }

    /// How often each fault was injected, by name; those that never were are there with 0.
    #[must_use]
    pub fn injected(&self) -> BTreeMap<&'static str, u64> {
        let plan = self.plan();
        let count = |fault| plan.injected.get(&fault).copied().unwrap_or_default();
        let counts = RpcFault::ALL.map(|fault| (fault.name(), count(fault)));
        counts.into_iter().collect()
    }

    /// Whether the fault happens now. Whoever asks must then show it.
    pub(super) fn hits(&self, fault: RpcFault) -> bool {
        self.draw(fault).is_some()
    }

    /// Like [`Faults::hits`], with a number to choose by.
    pub(super) fn draw(&self, fault: RpcFault) -> Option<u64> {
        let mut plan = self.plan();
        let rate = plan.per_million.get(&fault).copied().unwrap_or_default();
        if rate == 0 {
            return None;
        }
        let chance = plan.chances.entry(fault).or_default();
        *chance += 1;
        let parts = [*chance, fault as u64];
        let mut rng = Rng::of(&[&[plan.seed], &parts[..]].concat());
        if rng.below(ALWAYS.into()) >= rate.into() {
            return None;
        }
        *plan.injected.entry(fault).or_default() += 1;
        Some(rng.next())
    }

    /// How often the fault was injected.
    pub(super) fn count(&self, fault: RpcFault) -> u64 {
        self.plan()
            .injected
            .get(&fault)
            .copied()
            .unwrap_or_default()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock()
    }
}

/// Why a text names no faults.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultsError(String);

impl fmt::Display for FaultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FaultsError {}

/// A fault and how often it happens, in cases of a million.
type FaultRate<F> = (F, u32);

/// Reads an object of names and probabilities.
pub(crate) fn parse_rates<F>(
    text: &str,
    named: impl Fn(&str) -> Option<F>,
) -> Result<Vec<FaultRate<F>>, FaultsError> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| FaultsError(format!("faults are no JSON: {error}")))?;
    let object = value.as_object();
    let object = object.ok_or_else(|| FaultsError("faults are no JSON object".to_owned()))?;
    let rate = |(name, value): (&String, &Value)| {
        let fault = named(name);
        let fault = fault.ok_or_else(|| FaultsError(format!("unknown fault (name={name})")))?;
        let share = value.as_f64().filter(|share| (0.0..=1.0).contains(share));
        let what = || FaultsError(format!("no probability from 0 to 1 (name={name})"));
        let share = share.ok_or_else(what)?;
        Ok((fault, (share * f64::from(ALWAYS)).round() as u32))
    };
    object.iter().map(rate).collect()
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
        assert_eq!(faults.injected().len(), RpcFault::ALL.len());
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
