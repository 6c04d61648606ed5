//! `/v1/chains` and `/v1/indexing-status`.

use axum::Json;
use axum::extract::State;
use chrono::{DateTime, SecondsFormat};
use chronolith_model::{BlockRange, DatasetSet};
use serde_json::{Value, json};

use super::{At, RestError, chain};
use crate::context::Context;
use crate::names::{dataset_names, scope_words};
use crate::served::ServedChain;
use crate::view::View;

pub(crate) async fn list(State(context): State<Context>) -> Json<Value> {
    let mut chains = Vec::new();
    for chain in context.served.iter() {
        chains.push(about(chain).await);
    }
    Json(chains.into())
}

pub(crate) async fn one(
    State(context): State<Context>,
    At(id): At<String>,
) -> Result<Json<Value>, RestError> {
    Ok(Json(about(chain(&context, &id)?).await))
}

async fn about(chain: &ServedChain) -> Value {
    json!({
        "chainId": chain.id,
        "name": chain.name,
        "genesisTimestamp": genesis(chain).await,
        "startBlock": chain.start_block,
        "datasets": dataset_names(chain.datasets),
        "scope": scope_words(&chain.scope),
        "finality": chain.finality,
    })
}

/// The time of block 0, where it is there.
async fn genesis(chain: &ServedChain) -> Option<u64> {
    let view = View::take(chain).await.ok()?;
    let clock = view.clock(0).await.ok()?;
    clock.map(|clock| clock.timestamp)
}

/// How far each chain is, by chain id.
pub(crate) async fn status(State(context): State<Context>) -> Json<Value> {
    let mut chains = Vec::new();
    for chain in context.served.iter() {
        let view = View::take(chain).await.ok();
        let head = view.as_ref().and_then(View::head);
        let (indexed, source) = (head.map(|head| head.number), chain.live.source_head());
        let since = chain.live.health().last_good_round_seconds;
        let updated = since.map(|since| (context.clock)().saturating_sub(since));
        // Without a view nobody knows: that is not nothing.
        let known = source.zip(view.as_ref());
        chains.push(json!({
            "name": chain.name,
            "chainId": chain.id,
            "lastIndexedBlock": indexed,
            "latestKnownBlock": source,
            "progress": known.map(|(source, view)| progress(chain, there(view), source)),
            "updatedAt": updated.and_then(utc),
        }));
    }
    Json(chains.into())
}

/// How many of the wanted blocks are there: holes count as what they are.
fn there(view: &View<'_>) -> u64 {
    let wanted = BlockRange::new(view.chain.start_block, u64::MAX);
    let archive = view.archive.iter();
    let covered = archive.flat_map(|archive| archive.coverage(DatasetSet::CLOCK, None));
    let ranges = covered.map(|(range, _)| range).chain([view.tail_range()]);
    let there = ranges.filter_map(|range| range.intersect(&wanted));
    there.map(|range| range.len()).sum()
}

/// Percent of the wanted blocks up to the source's head that are there, from 0 to 100.
fn progress(chain: &ServedChain, there: u64, source: u64) -> f64 {
    let wanted = source.saturating_add(1).saturating_sub(chain.start_block);
    match wanted {
        0 => 100.0,
        _ => (there.min(wanted) as f64 / wanted as f64 * 10_000.0).floor() / 100.0,
    }
}

/// Seconds since 1970 as people write them.
pub(crate) fn utc(seconds: u64) -> Option<String> {
    let time = DateTime::from_timestamp(i64::try_from(seconds).ok()?, 0)?;
    Some(time.to_rfc3339_opts(SecondsFormat::Secs, true))
}
