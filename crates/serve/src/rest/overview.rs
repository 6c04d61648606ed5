//! `/v1/overview`: what the console shows.

use axum::Json;
use axum::extract::State;
use chronolith_archive::Pinned;
use chronolith_model::{BlockRef, DatasetSet};
use schemars::JsonSchema;
use serde::Serialize;

use super::chains::{Configured, name_of};
use crate::chain::{EndpointHealth, Ingested, Reorg, ServedChain};
use crate::error::ApiError;
use crate::http::context::Context;
use crate::names::{ChainId, Hash, Interval};
use crate::view::View;

/// Intervals of coverage in the answer.
const INTERVALS_MAX: usize = 500;

/// Everything that the console shows.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    /// The program's version.
    version: &'static str,
    /// The server's clock, in seconds since 1970.
    now: u64,
    /// Seconds since its start.
    uptime_seconds: u64,
    /// All chains, by id.
    chains: Vec<OverviewChain>,
}

/// A chain as the console shows it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OverviewChain {
    chain_id: ChainId,
    /// What people call it; of a chain that is not known its name in the settings.
    #[schemars(example = "Arbitrum One")]
    name: String,
    /// Its name in the settings.
    configured_name: String,
    #[serde(flatten)]
    configured: Configured,
    /// The newest block that is served.
    head: Option<TimedBlock>,
    /// The newest archived block.
    finalized: Option<TimedBlock>,
    /// The source's newest block.
    source_head: Option<u64>,
    /// Blocks between the source's head and ours.
    lag_blocks: Option<u64>,
    /// Blocks that wait for finality.
    tail_blocks: usize,
    /// Whether answers are recent.
    ready: bool,
    /// Why it is not ready.
    not_ready_reason: Option<String>,
    /// Whether ingest or a projection waits for an operator.
    paused: bool,
    /// Why it is paused.
    paused_reason: Option<String>,
    /// The current error.
    error: Option<String>,
    /// The old name of `error`; removed in the next release.
    #[schemars(extend("deprecated" = true))]
    trouble: Option<String>,
    /// What is archived.
    #[schemars(length(max = INTERVALS_MAX))]
    coverage: Vec<Interval>,
    storage: Storage,
    /// What was ingested since the start of the process.
    ingested: Ingested,
    /// The health of its endpoints.
    endpoints: Vec<EndpointHealth>,
    /// The last ones, newest first.
    reorgs: Vec<Reorg>,
}

/// A block with its time.
#[derive(Serialize, JsonSchema)]
struct TimedBlock {
    /// Its number.
    number: u64,
    hash: Hash,
    /// Its time, in seconds since 1970.
    timestamp: u64,
}

/// What the archive holds.
#[derive(Serialize, JsonSchema)]
struct Storage {
    /// Segments.
    segments: usize,
    /// Batches among them.
    batches: usize,
    /// Segments by tier, smallest first.
    tiers: Vec<usize>,
    /// Runs of the index.
    runs: usize,
    /// Packs of the index.
    packs: usize,
    /// Logs.
    logs: u64,
    /// Bytes stored.
    bytes: u64,
}

pub(crate) async fn get_overview(State(context): State<Context>) -> Json<Overview> {
    let now = (context.clock)();
    let mut chains = Vec::new();
    for chain in context.served.iter() {
        chains.push(about(&context, chain).await);
    }
    Json(Overview {
        version: env!("CARGO_PKG_VERSION"),
        now,
        uptime_seconds: now.saturating_sub(context.started),
        chains,
    })
}

async fn about(context: &Context, chain: &ServedChain) -> OverviewChain {
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
    let view_error = view.err().map(|fault| ApiError::from(fault).message);
    let ready = health.is_ready();
    let error = health.error.or(view_error);
    let ((segments, batches), (runs, packs)) = (report.segments, report.runs_and_packs);
    OverviewChain {
        chain_id: ChainId(chain.id),
        name: name_of(context, chain),
        configured_name: chain.name.clone(),
        configured: chain.into(),
        head: head.map(timed),
        finalized: finalized.map(timed),
        source_head: chain.live.source_head(),
        lag_blocks: health.lag_blocks,
        tail_blocks: health.queue_depth,
        ready,
        not_ready_reason: health.not_ready_reason,
        paused: health.paused,
        paused_reason: health.paused_reason,
        trouble: error.clone(),
        error,
        coverage,
        storage: Storage {
            segments,
            batches,
            tiers: report.tiers,
            runs,
            packs,
            logs: report.logs,
            bytes: report.stored_bytes,
        },
        ingested: chain.live.ingested(),
        endpoints: numbered(chain.live.endpoints()),
        reorgs: chain.live.reorgs(),
    }
}

/// Endpoints by their place in the settings: their hosts, and what they answered, are for operators.
fn numbered(endpoints: Vec<EndpointHealth>) -> Vec<EndpointHealth> {
    let numbered = |(at, endpoint): (usize, EndpointHealth)| EndpointHealth {
        name: format!("endpoint {}", at + 1),
        last_error: endpoint.last_failure.clone(),
        ..endpoint
    };
    endpoints.into_iter().enumerate().map(numbered).collect()
}

fn timed((block, timestamp): (BlockRef, u64)) -> TimedBlock {
    TimedBlock {
        number: block.number,
        hash: block.hash.into(),
        timestamp,
    }
}

/// The archived intervals with their verification levels.
fn intervals(view: &View<'_>) -> Vec<Interval> {
    let archive = view.archive.iter();
    let covered = archive.flat_map(|archive: &Pinned| archive.coverage(DatasetSet::CLOCK, None));
    let intervals = covered.map(|(range, proof)| Interval::new(range, proof.logs()));
    intervals.take(INTERVALS_MAX).collect()
}
