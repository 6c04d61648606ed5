//! Ranges of a chain's history as JSON, and the names of their phases.

use chronolith_archive::{FailedPhase, LedgerPhase, RangeReport, TxCounts, TxHashPhase};
use serde_json::{Map, Value, json};

use crate::times::utc;

/// A range as JSON.
#[must_use]
pub fn range_json(range: &RangeReport) -> Value {
    let failure = range.failure.as_ref().map(|failure| {
        json!({
            "phase": failed_phase_name(failure.phase),
            "object": failure.object,
            "cause": failure.cause,
            "at": failure.at.and_then(utc),
        })
    });
    json!({
        "id": range.id,
        "from": range.first,
        "to": range.last,
        "state": range.state.name(),
        "ledgerPhase": range.ledger.map(ledger_phase_name),
        "txhashPhase": range.txhash.map(txhash_phase_name),
        "lastCommitted": range.last_committed,
        "blocks": range.blocks,
        "transactions": range.keys.map(|keys| keys.total()),
        "cfCounts": range.keys.as_ref().map(counts_json),
        "createdAt": range.created_at.and_then(utc),
        "completedAt": range.completed_at.and_then(utc),
        "transitionStartedAt": range.transition_started_at.and_then(utc),
        "ledgerStatus": range.ledger_status.map(|status| status.name()),
        "txhashStatus": range.txhash_status.map(|status| status.name()),
        "verifiedKeys": range.verified_keys,
        "failure": failure,
    })
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
