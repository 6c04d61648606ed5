//! `/v1/chains` and `/v1/indexing-status`.

use axum::Json;
use axum::extract::{Path, State};
use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use super::{RestError, chain};
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
    Path(id): Path<String>,
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
        let head = View::take(chain).await.ok().and_then(|view| view.head());
        let (indexed, source) = (head.map(|head| head.number), chain.live.source_head());
        let since = chain.live.health().last_good_round_seconds;
        let updated = since.map(|since| (context.clock)().saturating_sub(since));
        chains.push(json!({
            "name": chain.name,
            "chainId": chain.id,
            "lastIndexedBlock": indexed,
            "latestKnownBlock": source,
            "progress": source.map(|source| progress(chain, indexed, source)),
            "updatedAt": updated.and_then(utc),
        }));
    }
    Json(chains.into())
}

/// Percent of the wanted blocks up to the source's head that are there, from 0 to 100.
fn progress(chain: &ServedChain, indexed: Option<u64>, source: u64) -> f64 {
    let count = |last: u64| last.saturating_add(1).saturating_sub(chain.start_block);
    let wanted = count(source);
    let there = indexed.map_or(0, count).min(wanted);
    match wanted {
        0 => 100.0,
        _ => (there as f64 / wanted as f64 * 10_000.0).floor() / 100.0,
    }
}

/// Seconds since 1970 as people write them.
pub(crate) fn utc(seconds: u64) -> Option<String> {
    let time = DateTime::from_timestamp(i64::try_from(seconds).ok()?, 0)?;
    Some(time.to_rfc3339_opts(SecondsFormat::Secs, true))
}
