//! `/v1/chains` and `/v1/indexing-status`.

use axum::Json;
use axum::extract::State;
use chronolith_archive::Error as ArchiveError;
use chronolith_model::{BlockRange, DatasetSet};
use serde_json::{Value, json};

use super::{PathParams, chain};
use crate::chain::ServedChain;
use crate::error::ApiError;
use crate::fault::Fault;
use crate::http::context::Context;
use crate::names::{dataset_names, scope_text};
use crate::times::utc;
use crate::view::View;

/// A chain that cannot be read has an error beside what is known of it; the others are complete.
pub(crate) async fn list(State(context): State<Context>) -> Json<Value> {
    let mut chains = Vec::new();
    for chain in context.served.iter() {
        chains.push(match genesis(chain).await {
            Ok(genesis) => about(chain, genesis),
            Err(error) => error.beside(about(chain, None)),
        });
    }
    Json(chains.into())
}

pub(crate) async fn one(
    State(context): State<Context>,
    PathParams(id): PathParams<String>,
) -> Result<Json<Value>, ApiError> {
    let chain = chain(&context, &id)?;
    Ok(Json(about(chain, genesis(chain).await?)))
}

fn about(chain: &ServedChain, genesis: Option<u64>) -> Value {
    json!({
        "chainId": chain.id,
        "name": chain.name,
        "genesisTimestamp": genesis,
        "startBlock": chain.start_block,
        "datasets": dataset_names(chain.datasets),
        "scope": scope_text(&chain.scope),
        "finality": chain.finality,
    })
}

/// The time of block 0; none where it is not indexed, and an error where it cannot be read.
async fn genesis(chain: &ServedChain) -> Result<Option<u64>, ApiError> {
    match genesis_of(&View::take(chain).await?).await {
        Err(error) => genesis_of(&View::retry(chain, error).await?).await,
        answered => answered,
    }
}

async fn genesis_of(view: &View<'_>) -> Result<Option<u64>, ApiError> {
    match view.clock(0).await {
        Ok(clock) => Ok(clock.map(|clock| clock.timestamp)),
        Err(Fault::Empty | Fault::Archive(ArchiveError::NotCovered { .. })) => Ok(None),
        Err(fault) => Err(fault.into()),
    }
}

/// The progress of each chain.
pub(crate) async fn status(State(context): State<Context>) -> Json<Value> {
    let mut chains = Vec::new();
    for chain in context.served.iter() {
        let view = View::take(chain).await;
        let head = view.as_ref().ok().and_then(|view| view.head());
        let (indexed, source) = (head.map(|head| head.number), chain.live.source_head());
        let since = chain.live.health().last_success_seconds;
        let updated = since.map(|since| (context.clock)().saturating_sub(since));
        // Without a view the progress is unknown, which is not zero.
        let known = source.zip(view.as_ref().ok());
        let status = json!({
            "name": chain.name,
            "chainId": chain.id,
            "lastIndexedBlock": indexed,
            "latestKnownBlock": source,
            "progress": known.map(|(source, view)| progress(chain, indexed_blocks(view), source)),
            "updatedAt": updated.and_then(utc),
        });
        chains.push(match view {
            Ok(_) => status,
            Err(fault) => ApiError::from(fault).beside(status),
        });
    }
    Json(chains.into())
}

/// How many of the configured blocks are indexed, without those in gaps.
fn indexed_blocks(view: &View<'_>) -> u64 {
    let configured = BlockRange::new(view.chain.start_block, u64::MAX);
    let archive = view.archive.iter();
    let covered = archive.flat_map(|archive| archive.coverage(DatasetSet::CLOCK, None));
    let ranges = covered.map(|(range, _)| range).chain([view.tail_range()]);
    let indexed = ranges.filter_map(|range| range.intersect(&configured));
    indexed.map(|range| range.len()).sum()
}

/// Percent of the configured blocks up to the source's head that are indexed, from 0 to 100.
fn progress(chain: &ServedChain, indexed: u64, source: u64) -> f64 {
    let configured = source.saturating_add(1).saturating_sub(chain.start_block);
    match configured {
        0 => 100.0,
        _ => (indexed.min(configured) as f64 / configured as f64 * 10_000.0).floor() / 100.0,
    }
}
