//! `/v1/chains/{id}/block/{direction}/{time}` and `/v1/blocks/by-time`.

use std::borrow::Cow;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::{Extension, Json};
use futures::future::join_all;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{PathParams, chain, parameters};
use crate::chain::ServedChain;
use crate::error::{ApiError, ErrorCode, excerpt};
use crate::http::access::Visit;
use crate::http::context::Context;
use crate::names::Hash;
use crate::problem::FailedItem;
use crate::rpc::Object;
use crate::times::{BlockAtTime, Direction, TimeLookupError, Timestamp, parse_time};
use crate::view::View;

/// Each lookup may read the hash of its block, which is slow with a remote store.
const LOOKUPS_AT_ONCE: usize = 16;

/// The block that was found.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [{
    "number": 41, "timestamp": 1_600_000_492, "indexedUpTo": 1000, "finalized": true, "settled": true,
    "hash": "0xd8646ad0f47d049083eb3fc134ca989d09821bceb4ebb8908348647941a73c62",
}]))]
pub(crate) struct FoundBlock {
    /// Its number.
    number: u64,
    /// Its time, in seconds since 1970.
    timestamp: u64,
    hash: Hash,
    /// Whether it is archived, so that no reorg can replace it.
    finalized: bool,
    /// Whether a block on the other side of the time is known. If not, a later block may be the answer.
    settled: bool,
    /// The newest block that is served.
    indexed_up_to: Option<u64>,
}

impl FoundBlock {
    pub(crate) fn new(view: &View<'_>, found: &BlockAtTime) -> Self {
        let clock = found.clock;
        Self {
            number: clock.number,
            timestamp: clock.timestamp,
            hash: clock.hash.into(),
            finalized: clock.number < view.tail_start(),
            settled: found.settled,
            indexed_up_to: view.head().map(|head| head.number),
        }
    }
}

/// A time as the caller wrote it.
#[derive(Clone, Debug)]
struct WrittenTime {
    /// Its beginning where it is long.
    text: String,
    /// None where it is not a time.
    time: Option<Timestamp>,
}

impl WrittenTime {
    fn new(text: &str) -> Self {
        Self {
            text: excerpt(text),
            time: parse_time(text),
        }
    }
}

impl<'de> Deserialize<'de> for WrittenTime {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Not as a value: that of a list takes many times the memory of its text.
        let raw = <&RawValue>::deserialize(from)?.get();
        // What is not a text is written as it is.
        let text = serde_json::from_str::<String>(raw);
        Ok(text.map_or_else(|_| Self::new(raw), |text| Self::new(&text)))
    }
}

/// The parameters of a lookup, parsed before any chain is read.
pub(super) struct TimeLookup {
    pub(super) direction: Direction,
    pub(super) time: Timestamp,
    /// The time as the caller wrote it.
    pub(super) written: String,
    pub(super) inclusive: bool,
}

impl TimeLookup {
    fn new(direction: &str, time: WrittenTime, inclusive: bool) -> Result<Self, ApiError> {
        let bad_direction = || {
            let message = format!("invalid direction: {}", excerpt(direction));
            ApiError::new(ErrorCode::InvalidDirection, message)
        };
        let bad_time = || {
            let message = format!("invalid timestamp: {}", time.text);
            ApiError::new(ErrorCode::InvalidTimestamp, message)
        };
        Ok(Self {
            direction: Direction::parse(direction).ok_or_else(bad_direction)?,
            time: time.time.ok_or_else(bad_time)?,
            written: time.text,
            inclusive,
        })
    }

    /// The time as the caller wrote it, with the seconds that it means where that is another text.
    fn name(&self) -> String {
        let Timestamp { seconds, nanos } = self.time;
        let fraction = format!(".{nanos:09}");
        let fraction = match nanos {
            0 => "",
            _ => fraction.trim_end_matches('0'),
        };
        let meant = format!("{seconds}{fraction}");
        match self.written == meant {
            true => meant,
            false => format!("{} ({meant} s)", self.written),
        }
    }
}

pub(crate) async fn one(
    State(context): State<Context>,
    PathParams((id, direction, time)): PathParams<(String, String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Json<FoundBlock>, ApiError> {
    let mut lookup = TimeLookup::new(&direction, WrittenTime::new(&time), false)?;
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

/// Many lookups.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TimeLookups")]
pub(crate) struct Many {
    /// At most 1,000.
    #[schemars(with = "Vec<Item>", length(max = 1_000))]
    items: Vec<Object<Item>>,
}

/// One lookup.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "TimeLookup")]
struct Item {
    /// Which chain: its id, or the name of a Stellar chain.
    chain_id: ChainName,
    /// Seconds, milliseconds (from 100,000,000,000 on) or ISO 8601, not before 1970; what has no zone is UTC.
    /// Something else fails this item alone.
    #[schemars(with = "Value", extend("examples" = [1_600_000_500, "2020-09-13"]))]
    time: WrittenTime,
    /// `before`, `after` or `closest`, as a `Direction`. Another word fails this item alone.
    #[schemars(example = &"before")]
    direction: String,
    /// Whether a block at exactly this time counts; `closest` always counts it.
    #[serde(default)]
    inclusive: bool,
}

// Ids of Stellar chains are too large for clients whose numbers are floating point.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
enum ChainName {
    Id(#[schemars(range(max = u64::MAX))] u64),
    Name(String),
}

impl<'de> Deserialize<'de> for ChainName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // Unparsed, as a time.
        let raw = <&RawValue>::deserialize(from)?.get();
        let name = match raw.starts_with('"') {
            true => serde_json::from_str(raw).map(Self::Name),
            false => serde_json::from_str(raw).map(Self::Id),
        };
        name.map_err(|error| D::Error::custom(format_args!("chainId: {error}")))
    }
}

/// Blocks, or why there is none.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TimeResults {
    /// One for each item, in the same order.
    results: Vec<TimeResult>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum TimeResult {
    Found(FoundBlock),
    Failed(FailedItem),
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
    visit: Option<Extension<Visit>>,
    body: Body,
) -> Result<Json<TimeResults>, ApiError> {
    let body = context.read(body).await?;
    let many: Object<Many> = serde_json::from_slice(&body.bytes)
        .map_err(|error| ApiError::new(ErrorCode::InvalidBody, format!("invalid body: {error}")))?;
    let Object(many) = many;
    let max = context.limits.times;
    if many.items.len() > max {
        let message = format!("{} items, at most {max} are allowed", many.items.len());
        return Err(ApiError::new(ErrorCode::TooManyItems, message));
    }
    if let Some(Extension(visit)) = visit {
        visit.count_calls(many.items.len())?;
    }
    let mut results = Vec::with_capacity(many.items.len());
    for items in many.items.chunks(LOOKUPS_AT_ONCE) {
        let looked_up = items.iter().map(|Object(item)| lookup_item(&context, item));
        results.extend(join_all(looked_up).await);
    }
    Ok(Json(TimeResults { results }))
}

/// The result of one of several lookups: a block or an error.
async fn lookup_item(context: &Context, item: &Item) -> TimeResult {
    // A value that is not a time is the error of this item alone.
    let looked_up = async {
        let lookup = TimeLookup::new(&item.direction, item.time.clone(), item.inclusive)?;
        look_up(chain(context, &item.chain_id.text())?, &lookup).await
    };
    match looked_up.await {
        Ok(found) => TimeResult::Found(found),
        Err(error) => TimeResult::Failed(error.into()),
    }
}

async fn look_up(chain: &ServedChain, lookup: &TimeLookup) -> Result<FoundBlock, ApiError> {
    let (view, answer) = match look_once(chain, lookup).await? {
        // An object of this state may be removed by now: retry with a newer one.
        (_, Err(TimeLookupError::Fault(_))) => {
            chain.archive.refresh().await?;
            look_once(chain, lookup).await?
        }
        answered => answered,
    };
    answer
        .map(|found| FoundBlock::new(&view, &found))
        .map_err(|missing| refusal(&view, lookup, missing))
}

/// The block at a time, in a view.
pub(super) async fn at(view: &View<'_>, lookup: &TimeLookup) -> Result<BlockAtTime, ApiError> {
    let found = view
        .at(lookup.time, lookup.direction, lookup.inclusive)
        .await;
    found.map_err(|missing| refusal(view, lookup, missing))
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
    let (id, time, direction) = (view.chain.id, lookup.name(), lookup.direction.name());
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
            ErrorCode::NotCovered,
            format!("blocks around timestamp {time} are missing on chain {id}: {reason}"),
        ),
        TimeLookupError::Fault(fault) => fault.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(time: &str) -> TimeLookup {
        let item = format!(r#"{{"chainId":1,"direction":"before","time":{time}}}"#);
        let Object(item) = serde_json::from_str::<Object<Item>>(&item).unwrap();
        TimeLookup::new(&item.direction, item.time, item.inclusive).unwrap()
    }

    #[test]
    fn a_time_is_named_as_it_is_written_and_as_it_is_meant() {
        for (time, expected) in [
            ("1600000500", "1600000500"),
            (r#""1600000500""#, "1600000500"),
            ("1600000500120", "1600000500120 (1600000500.12 s)"),
            (r#""1600000500000""#, "1600000500000 (1600000500 s)"),
            (r#""2020-09-13""#, "2020-09-13 (1599955200 s)"),
            (
                r#""2020\u002d09-13T00:00:00+01:00""#,
                "2020-09-13T00:00:00+01:00 (1599951600 s)",
            ),
        ] {
            assert_eq!(lookup(time).name(), expected, "{time}");
        }
    }

    /// A million numbers as a time were a value of 32 MiB while the lookups waited.
    #[test]
    fn what_is_kept_of_a_time_is_short() {
        let numbers = format!("[0{}]", ",0".repeat(1_000_000));
        let text = format!("\"{}\"", "9".repeat(1_000_000));
        let long = format!("\"2020-09-13T12:26:40.{}Z\"", "0".repeat(64));
        for (time, start) in [
            (&*numbers, "[0,0"),
            (&text, "9999"),
            (&long, "2020-09-13T12:26:40.0"),
            ("-1", "-1"),
            ("1.5", "1.5"),
            ("null", "null"),
            ("true", "true"),
            (r#"{"a":[]}"#, r#"{"a":[]}"#),
        ] {
            let kept: WrittenTime = serde_json::from_str(time).unwrap();
            assert_eq!(kept.time, None, "{start}");
            assert!(kept.text.starts_with(start), "{start}: {}", kept.text);
            assert!(kept.text.capacity() < 1_024, "{start}");
        }
    }

    #[test]
    fn a_chain_is_a_number_or_a_name() {
        let parse = |text: &str| serde_json::from_str::<ChainName>(text);
        for (text, expected) in [
            ("18446744073709551615", "18446744073709551615"),
            (r#""18446744073709551615""#, "18446744073709551615"),
            (r#""pub\u006eet""#, "pubnet"),
        ] {
            assert_eq!(parse(text).unwrap().text(), expected);
        }
        for text in [
            "-1",
            "1.0",
            "18446744073709551616",
            "null",
            "[1]",
            "{}",
            "true",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
