//! `/v1/chains/{chainId}/ranges`: where the ranges of a chain's history are in their life.

use axum::Json;
use axum::extract::State;
use chronolith_archive::{RangeReport, TxCounts};
use serde_json::{Map, Value, json};

use super::chains::utc;
use super::{PathParams, chain};
use crate::error::{ApiError, ErrorCode};
use crate::http::context::Context;
use crate::names::{failed_phase_name, ledger_phase_name, txhash_phase_name};

pub(crate) async fn show(
    State(context): State<Context>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Value>, ApiError> {
    let chain = chain(&context, &id)?;
    let not_yet = || {
        let message = "ranges were not looked at yet; ask again in a moment";
        ApiError::new(ErrorCode::NotReady, message)
    };
    let shown = chain.live.ranges().ok_or_else(not_yet)?;
    Ok(Json(json!({
        "mode": shown.mode,
        "size": shown.size,
        "ranges": shown.ranges.iter().map(range_json).collect::<Vec<_>>(),
    })))
}

/// A range for programs.
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
