//! Ranges of a chain's history as JSON, and the names of their phases.

use std::collections::BTreeMap;

use chronolith_archive::{FailedPhase, LedgerPhase, RangeReport, TxCounts, TxHashPhase};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::times::utc;

/// A range of a chain's history.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Range {
    /// Its number.
    id: u64,
    /// Its first block.
    from: u64,
    /// Its last block.
    to: u64,
    #[schemars(extend("enum" = ["PENDING", "INGESTING", "TRANSITIONING", "COMPLETE", "FAILED"]))]
    state: &'static str,
    /// INGESTING, WRITING_LFS or IMMUTABLE.
    ledger_phase: Option<&'static str>,
    /// INGESTING, COMPACTING, BUILDING_RECSPLIT, VERIFYING_RECSPLIT or COMPLETE.
    txhash_phase: Option<&'static str>,
    /// The last block up to which none is missing in the range.
    last_committed: Option<u64>,
    /// Blocks that are archived.
    blocks: u64,
    /// Transactions; null where some are not counted yet.
    transactions: Option<u64>,
    /// Transactions by the first digit of their hash.
    #[schemars(with = "Option<BTreeMap<String, u64>>")]
    cf_counts: Option<Value>,
    /// When its first block was archived, in seconds since 1970; null where it is unknown.
    created_timestamp: Option<u64>,
    /// When it was complete, in seconds since 1970.
    completed_timestamp: Option<u64>,
    /// When its transition began, in seconds since 1970; null unless one runs.
    transition_started_timestamp: Option<u64>,
    /// `createdTimestamp` as text; removed in the next release.
    #[schemars(extend("format" = "date-time", "deprecated" = true))]
    created_at: Option<String>,
    /// `completedTimestamp` as text; removed in the next release.
    #[schemars(extend("format" = "date-time", "deprecated" = true))]
    completed_at: Option<String>,
    /// `transitionStartedTimestamp` as text; removed in the next release.
    #[schemars(extend("format" = "date-time", "deprecated" = true))]
    transition_started_at: Option<String>,
    /// While a transition runs: pending, in_progress or complete.
    ledger_status: Option<&'static str>,
    /// While a transition runs: pending, in_progress or complete.
    txhash_status: Option<&'static str>,
    /// Hashes that were looked up when it was verified.
    verified_keys: Option<u64>,
    /// Why it is FAILED.
    failure: Option<RangeFailure>,
}

/// Why a range failed.
#[derive(Serialize, JsonSchema)]
struct RangeFailure {
    /// The phase that failed.
    phase: &'static str,
    /// The object that it read or wrote.
    object: String,
    /// The error.
    cause: String,
    /// When it failed, in seconds since 1970.
    timestamp: Option<u64>,
    /// `timestamp` as text; removed in the next release.
    #[schemars(extend("format" = "date-time", "deprecated" = true))]
    at: Option<String>,
}

impl From<&RangeReport> for Range {
    fn from(range: &RangeReport) -> Self {
        let failure = range.failure.as_ref().map(|failure| RangeFailure {
            phase: failed_phase_name(failure.phase),
            object: failure.object.clone(),
            cause: failure.cause.clone(),
            timestamp: failure.at,
            at: failure.at.and_then(utc),
        });
        Self {
            id: range.id,
            from: range.first,
            to: range.last,
            state: range.state.name(),
            ledger_phase: range.ledger.map(ledger_phase_name),
            txhash_phase: range.txhash.map(txhash_phase_name),
            last_committed: range.last_committed,
            blocks: range.blocks,
            transactions: range.keys.map(|keys| keys.total()),
            cf_counts: range.keys.as_ref().map(counts_json),
            created_timestamp: range.created_at,
            completed_timestamp: range.completed_at,
            transition_started_timestamp: range.transition_started_at,
            created_at: range.created_at.and_then(utc),
            completed_at: range.completed_at.and_then(utc),
            transition_started_at: range.transition_started_at.and_then(utc),
            ledger_status: range.ledger_status.map(|status| status.name()),
            txhash_status: range.txhash_status.map(|status| status.name()),
            verified_keys: range.verified_keys,
            failure,
        }
    }
}

/// A range as JSON.
#[must_use]
pub fn range_json(range: &RangeReport) -> Value {
    json!(Range::from(range))
}

/// Counts by the first digit of a hash, under that digit.
#[must_use]
pub fn counts_json(counts: &TxCounts) -> Value {
    let pairs = counts.0.iter().enumerate();
    let pairs = pairs.map(|(digit, &count)| (format!("{digit:x}"), json!(count)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// The phase of a range's blocks, by the name that operators of Stellar history know.
#[must_use]
pub fn ledger_phase_name(phase: LedgerPhase) -> &'static str {
    match phase {
        LedgerPhase::Ingesting => "INGESTING",
        LedgerPhase::Merging => "WRITING_LFS",
        LedgerPhase::Immutable => "IMMUTABLE",
    }
}

/// The phase of a range's hashes, by the name that operators of Stellar history know.
#[must_use]
pub fn txhash_phase_name(phase: TxHashPhase) -> &'static str {
    match phase {
        TxHashPhase::Ingesting => "INGESTING",
        TxHashPhase::Compacting => "COMPACTING",
        TxHashPhase::BuildingIndex => "BUILDING_RECSPLIT",
        TxHashPhase::VerifyingIndex => "VERIFYING_RECSPLIT",
        TxHashPhase::Complete => "COMPLETE",
    }
}

/// The phase in which a range failed, by the name that operators of Stellar history know.
#[must_use]
pub fn failed_phase_name(phase: FailedPhase) -> &'static str {
    match phase {
        FailedPhase::Merging => ledger_phase_name(LedgerPhase::Merging),
        FailedPhase::Compacting => txhash_phase_name(TxHashPhase::Compacting),
        FailedPhase::BuildingIndex => txhash_phase_name(TxHashPhase::BuildingIndex),
        FailedPhase::VerifyingIndex => txhash_phase_name(TxHashPhase::VerifyingIndex),
    }
}
