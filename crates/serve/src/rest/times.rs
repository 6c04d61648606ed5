//! `/v1/chains/{id}/block/{direction}/{time}` and `/v1/blocks/by-time`.

use std::borrow::Cow;

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{PathParams, chain, parameters};
use crate::chain::ServedChain;
use crate::error::{ApiError, ErrorCode, excerpt};
use crate::http::context::Context;
use crate::rpc::Object;
use crate::times::{BlockAtTime, Direction, TimeLookupError, Timestamp, parse_time};
use crate::view::View;

/// Each lookup may read the hash of its block, which is slow with a remote store.
const LOOKUPS_AT_ONCE: usize = 16;

/// The parameters of a lookup, parsed before any chain is read.
struct TimeLookup {
    direction: Direction,
    time: Timestamp,
    inclusive: bool,
}

impl TimeLookup {
    fn new(direction: &str, time: &str, inclusive: bool) -> Result<Self, ApiError> {
        let bad_direction = || {
            let message = format!("invalid direction: {}", excerpt(direction));
            ApiError::new(ErrorCode::InvalidDirection, message)
        };
        let bad_time = || {
            let message = format!("invalid timestamp: {}", excerpt(time));
            ApiError::new(ErrorCode::InvalidTimestamp, message)
        };
        Ok(Self {
            direction: Direction::parse(direction).ok_or_else(bad_direction)?,
            time: parse_time(time).ok_or_else(bad_time)?,
            inclusive,
        })
    }
}

pub(crate) async fn one(
    State(context): State<Context>,
    PathParams((id, direction, time)): PathParams<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut lookup = TimeLookup::new(&direction, &time, false)?;
    for (_, value) in parameters(
        query.as_deref(),
        &["inclusive"],
        &[],
        ErrorCode::InvalidParameter,
    )? {
        lookup.inclusive = match value.as_str() {
            "true" => true,
            "false" => false,
            _ => {
                let message = "inclusive is neither true nor false";
                return Err(ApiError::new(ErrorCode::InvalidParameter, message));
            }
        };
    }
    look_up(chain(&context, &id)?, &lookup).await.map(Json)
}

/// Several lookups in one request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Many {
    items: Vec<Object<Item>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Item {
    chain_id: ChainName,
    time: Value,
    direction: String,
    #[serde(default)]
    inclusive: bool,
}

/// A chain's id. Stellar chains have names too: their ids are too large for clients whose numbers are
/// floating point.
#[derive(Deserialize)]
#[serde(untagged)]
enum ChainName {
    Id(u64),
    Name(String),
}

impl ChainName {
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Id(id) => id.to_string().into(),
            Self::Name(name) => name.into(),
        }
    }
}

pub(crate) async fn many(
    State(context): State<Context>,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let body = context.read(body).await?;
    let many: Object<Many> = serde_json::from_slice(&body.bytes)
        .map_err(|error| ApiError::new(ErrorCode::InvalidBody, format!("invalid body: {error}")))?;
    let Object(many) = many;
    let max = context.limits.times;
    if many.items.len() > max {
        let message = format!("{} items, at most {max} are allowed", many.items.len());
        return Err(ApiError::new(ErrorCode::TooManyItems, message));
    }
    let mut results = Vec::with_capacity(many.items.len());
    for items in many.items.chunks(LOOKUPS_AT_ONCE) {
        let looked_up = items.iter().map(|Object(item)| lookup_item(&context, item));
        results.extend(join_all(looked_up).await);
    }
    Ok(Json(json!({ "results": results })))
}

/// The result of one of several lookups: a block or an error.
async fn lookup_item(context: &Context, item: &Item) -> Value {
    // Any other value is an invalid time, which is the error of this item alone.
    let time = match &item.time {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let looked_up = async {
        let lookup = TimeLookup::new(&item.direction, &time, item.inclusive)?;
        look_up(chain(context, &item.chain_id.text())?, &lookup).await
    };
    looked_up.await.unwrap_or_else(|error| error.rest_json())
}

async fn look_up(chain: &ServedChain, lookup: &TimeLookup) -> Result<Value, ApiError> {
    let (view, answer) = match look_once(chain, lookup).await? {
        // An object of this state may be removed by now: retry with a newer one.
        (_, Err(TimeLookupError::Fault(_))) => {
            chain.archive.refresh().await?;
            look_once(chain, lookup).await?
        }
        answered => answered,
    };
    answer
        .map(|found| found_json(&view, &found))
        .map_err(|missing| refusal(&view, lookup, missing))
}

/// One lookup, and the view of its answer.
async fn look_once<'a>(
    chain: &'a ServedChain,
    lookup: &TimeLookup,
) -> Result<(View<'a>, Result<BlockAtTime, TimeLookupError>), ApiError> {
    let view = View::take(chain).await?;
    let answer = view
        .at(lookup.time, lookup.direction, lookup.inclusive)
        .await;
    Ok((view, answer))
}

fn refusal(view: &View<'_>, lookup: &TimeLookup, missing: TimeLookupError) -> ApiError {
    let (id, time, direction) = (view.chain.id, lookup.time.seconds, lookup.direction.name());
    let not_yet = |code, message: String| {
        ApiError::new(code, message).with(json!({
            "indexedUpTo": view.head().map(|head| head.number),
            "sourceHead": view.chain.live.source_head(),
        }))
    };
    match missing {
        TimeLookupError::NotFound => ApiError::new(
            ErrorCode::BlockNotFound,
            format!("no block found {direction} timestamp {time} on chain {id}"),
        ),
        TimeLookupError::NotIndexedYet => not_yet(
            ErrorCode::NotIndexedYet,
            format!("blocks {direction} timestamp {time} may not be indexed yet on chain {id}"),
        ),
        TimeLookupError::NotCovered(reason) => not_yet(
            ErrorCode::TimeNotCovered,
            format!("blocks around timestamp {time} are missing on chain {id}: {reason}"),
        ),
        TimeLookupError::Fault(fault) => fault.into(),
    }
}

/// A block by time, as JSON.
pub(crate) fn found_json(view: &View<'_>, found: &BlockAtTime) -> Value {
    let clock = found.clock;
    json!({
        "number": clock.number,
        "timestamp": clock.timestamp,
        "indexedUpTo": view.head().map(|head| head.number),
        "hash": clock.hash.to_string(),
        "finalized": clock.number < view.tail_start(),
        "settled": found.settled,
    })
}
