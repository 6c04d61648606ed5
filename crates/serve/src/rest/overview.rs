//! `/v1/overview`: what the console shows.

use axum::Json;
use axum::extract::State;
use chronolith_archive::Pinned;
use chronolith_model::{BlockRef, DatasetSet, Proof};
use serde_json::{Value, json};

use crate::chain::{Reorg, ServedChain};
use crate::http::context::Context;
use crate::names::{block_json, dataset_names, interval_json, scope_text};
use crate::view::View;

/// Intervals of coverage in the answer.
const INTERVALS_MAX: usize = 500;

pub(crate) async fn get_overview(State(context): State<Context>) -> Json<Value> {
    let now = (context.clock)();
    let mut chains = Vec::new();
    for chain in context.served.iter() {
        chains.push(about(chain).await);
    }
    Json(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "now": now,
        "uptimeSeconds": now.saturating_sub(context.started),
        "chains": chains,
    }))
}

async fn about(chain: &ServedChain) -> Value {
    let (health, report) = (chain.live.health().redacted(), chain.archive.health());
    let view = View::take(chain).await;
    let (mut head, mut finalized, mut coverage) = (None, None, Vec::new());
    if let Ok(view) = &view {
        // They need no read of the archive: one that cannot be read does not seem empty.
        head = view.head().zip(view.head_timestamp());
        let archived = view.archive.as_ref().and_then(Pinned::head_timestamp);
        finalized = view.finalized_head().zip(archived);
        coverage = intervals(view);
    }
    // Without a view the chain seems empty: the error explains it.
    let view_error = view.err().map(|fault| fault.to_string());
    let error = health.error.clone().or(view_error);
    json!({
        "chainId": chain.id,
        "name": chain.name,
        "head": head.map(block),
        "finalized": finalized.map(block),
        "sourceHead": chain.live.source_head(),
        "lagBlocks": health.lag_blocks,
        "tailBlocks": health.queue_depth,
        "ready": health.is_ready(),
        "notReadyReason": health.not_ready_reason,
        "paused": health.paused,
        "pausedReason": health.paused_reason,
        "error": error,
        // Its name before.
        "trouble": error,
        "finality": chain.finality,
        "datasets": dataset_names(chain.datasets),
        "scope": scope_text(&chain.scope),
        "startBlock": chain.start_block,
        "coverage": coverage,
        "storage": {
            "segments": report.segments.0,
            "batches": report.segments.1,
            "tiers": report.tiers,
            "runs": report.runs_and_packs.0,
            "packs": report.runs_and_packs.1,
            "logs": report.logs,
            "bytes": report.stored_bytes,
        },
        "ingested": chain.live.ingested(),
        "endpoints": chain.live.endpoints(),
        "reorgs": chain.live.reorgs().into_iter().map(reorg).collect::<Vec<_>>(),
    })
}

fn block((block, timestamp): (BlockRef, u64)) -> Value {
    json!({ "number": block.number, "hash": block.hash.to_string(), "timestamp": timestamp })
}

fn reorg(reorg: Reorg) -> Value {
    json!({
        "at": reorg.at,
        "depth": reorg.depth,
        "from": block_json(reorg.from),
        "to": block_json(reorg.to),
    })
}

/// The archived intervals with their verification levels.
fn intervals(view: &View<'_>) -> Vec<Value> {
    let archive = view.archive.iter();
    let covered = archive.flat_map(|archive: &Pinned| archive.coverage(DatasetSet::CLOCK, None));
    let json = |(range, proof): (_, Proof)| interval_json(range, proof.logs());
    covered.take(INTERVALS_MAX).map(json).collect()
}
