//! The health of the node, its network and its version.

use chronolith_archive::RangeReport;
use serde_json::{Value, json};

use super::bounds::Bounds;
use super::ledgers::protocol;
use crate::chain::StellarChain;
use crate::error::{ApiError, ErrorCode};
use crate::http::context::Context;
use crate::ranges::{ledger_phase_name, txhash_phase_name};
use crate::rpc::Answer;
use crate::view::View;

/// With a newest ledger that is older than this, the node is unhealthy.
const LATENCY_SECONDS_MAX: u64 = 30;

pub(super) async fn health(context: &Context, view: &View<'_>) -> Result<Answer, ApiError> {
    if view.head().is_none() {
        let message = "data stores are not initialized: no ledger is indexed yet";
        return Err(ApiError::new(ErrorCode::Internal, message));
    }
    let bounds = Bounds::of(view).await?;
    let latency = (context.clock)().saturating_sub(bounds.latest_time);
    if latency > LATENCY_SECONDS_MAX {
        let latency = duration(latency);
        let message = format!(
            "latency ({latency}) since last known ledger closed is too high (>{LATENCY_SECONDS_MAX}s)"
        );
        return Err(ApiError::new(ErrorCode::Internal, message));
    }
    Ok(Answer::json(&json!({
        "status": "healthy",
        "latestLedger": bounds.latest,
        // A string, as clients in Go require.
        "latestLedgerCloseTime": bounds.latest_time.to_string(),
        "oldestLedger": bounds.oldest,
        "oldestLedgerCloseTime": bounds.oldest_time.to_string(),
        "ledgerRetentionWindow": bounds.latest - bounds.oldest + 1,
    })))
}

/// Seconds as Go writes a duration: `45s`, `3m0s`, `19316h23m25s`.
fn duration(seconds: u64) -> String {
    let (hours, minutes, rest) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

pub(super) async fn network(view: &View<'_>) -> Result<Answer, ApiError> {
    let stellar = of(view)?;
    let mut network = json!({
        "passphrase": stellar.network.passphrase(),
        "protocolVersion": protocol(view).await?,
    });
    if let (Some(url), Some(fields)) = (&stellar.friendbot_url, network.as_object_mut()) {
        fields.insert("friendbotUrl".to_owned(), url.clone().into());
    }
    Ok(Answer::json(&network))
}

pub(super) async fn version(view: &View<'_>) -> Result<Answer, ApiError> {
    let protocol = match view.head() {
        Some(_) => protocol(view).await?,
        None => 0,
    };
    // The ledgers do not name the core that wrote them.
    Ok(Answer::json(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commitHash": "",
        "buildTimestamp": "",
        "captiveCoreVersion": "",
        "protocolVersion": protocol,
    })))
}

pub(super) async fn status(view: &View<'_>) -> Result<Answer, ApiError> {
    let mut mode = &*of(view)?.mode;
    // The process that follows the chain also knows ranges that are planned.
    let ranges = match (view.chain.live.ranges(), &view.archive) {
        (Some(live), _) => {
            mode = live.mode;
            live.ranges
        }
        (None, Some(archive)) => archive.ranges().await,
        (None, None) => Vec::new(),
    };
    Ok(Answer::json(&json!({
        "mode": mode,
        "last_ledger": view.head().map(|head| head.number),
        "ranges": ranges.iter().map(range).collect::<Vec<_>>(),
    })))
}

/// A range with the names of its document, without the paths of objects.
fn range(range: &RangeReport) -> Value {
    json!({
        "range_id": range.id,
        "state": range.state.name(),
        "start_ledger": range.first,
        "end_ledger": range.last,
        "last_committed_ledger": range.last_committed,
        "count": range.blocks,
        "ledger_phase": range.ledger.map(ledger_phase_name),
        "txhash_phase": range.txhash.map(txhash_phase_name),
        "created_at": range.created_at,
        "completed_at": range.completed_at,
        "error": range.failure.as_ref().map(|failure| &failure.cause),
    })
}

fn of<'a>(view: &'a View<'_>) -> Result<&'a StellarChain, ApiError> {
    let other = || {
        ApiError::new(
            ErrorCode::Internal,
            "not a Stellar network: please report it",
        )
    };
    view.chain.stellar().ok_or_else(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_go() {
        for (seconds, expected) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m0s"),
            (3_600, "1h0m0s"),
            (69_539_005, "19316h23m25s"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }
}
