//! Lists of fees as JSON.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use chrono::{Days, NaiveDate};
use chronolith_projection_fees::{
    Address, FeeCoverage, FeeList, FeeRequest, FeeRow, FeeStatus, FeeTotal, event_names,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::cursor::CursorText;
use super::{FeesError, request};
use crate::names::Hash;
use crate::rest::put_next;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<Item> {
    data: Vec<Item>,
    next_cursor: Option<String>,
    /// The old name of `nextCursor`, for one release.
    next: Option<String>,
    coverage: Vec<Coverage>,
}

/// 20 bytes as 0x and 40 digits, with the capitals of EIP-55.
#[derive(Serialize, JsonSchema)]
#[schemars(example = "0xbD6C7B0d2f68c2b7805d88388319cfB6EcB50eA9")]
pub(super) struct Checksummed(#[schemars(regex(pattern = "^0x[0-9a-fA-F]{40}$"))] String);

/// A whole number in decimal, as text: it may be larger than 64 bits.
#[derive(Serialize, JsonSchema)]
pub(super) struct Decimal(#[schemars(regex(pattern = "^(0|[1-9][0-9]*)$"))] pub(super) String);

/// The name of an event.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("enum" = event_names().collect::<Vec<_>>()))]
struct FeeEventName(String);

/// `pending`: its block is not final yet. `confirmed`: it is. `dropped`: it is on no chain any more.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeeStatus", extend("enum" = FeeStatus::ALL.map(FeeStatus::name)))]
struct StatusName(&'static str);

/// How far the events of a chain are projected.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FeeCoverage")]
pub(super) struct Coverage {
    /// The chain.
    chain_id: u64,
    /// The first block whose events count.
    from_block: u64,
    /// The last block through which every event is there, without a gap from the first on; null where not
    /// even the first is.
    through_block: Option<u64>,
    /// The last block that is final.
    safe_block: Option<u64>,
    /// The newest block that was seen; events above `safeBlock` are pending.
    seen_block: Option<u64>,
    /// Logs that look like an event and could not be parsed as one.
    quarantined: u64,
    /// Why nothing is projected until an operator acts; null while it runs.
    paused: Option<String>,
}

/// An event, or one receiver of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Fee")]
pub(super) struct Event {
    chain_id: u64,
    block_number: u64,
    block_hash: Hash,
    /// Seconds since 1970 of its block.
    timestamp: u64,
    transaction_hash: Hash,
    log_index: u32,
    /// Which receiver of one `FeesForwarded`; else 0.
    position: u32,
    event: FeeEventName,
    status: StatusName,
    contract: Checksummed,
    token: Checksummed,
    integrator: Option<Checksummed>,
    integrator_fee: Option<Decimal>,
    lifi_fee: Option<Decimal>,
    recipient: Option<Checksummed>,
    amount: Option<Decimal>,
}

/// The sums of a day. Those of an event that does not have a number are null.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "FeeTotal")]
pub(super) struct Total {
    chain_id: u64,
    /// A day of UTC.
    #[schemars(extend("format" = "date"))]
    day: String,
    integrator: Option<Checksummed>,
    token: Checksummed,
    event: FeeEventName,
    /// How many.
    #[schemars(range(min = 1))]
    events: u64,
    integrator_fee: Option<Decimal>,
    lifi_fee: Option<Decimal>,
    amount: Option<Decimal>,
}

/// An error for a chain without a projection: an empty list would mean that it has no events.
pub(super) fn respond<Item, Position: CursorText, Dto: Serialize>(
    query: Option<&str>,
    request: &FeeRequest<Position>,
    list: &FeeList<Item, Position>,
    show: impl Fn(&Item) -> Dto,
) -> Result<Response, FeesError> {
    if let (Some(chain), []) = (request.filter.chain, list.coverage.as_slice()) {
        let message = format!("fees of chain {chain} are not projected here");
        return Err(FeesError::new(StatusCode::NOT_FOUND, message));
    }
    let cursor = list.next.as_ref().map(CursorText::encode);
    let answer = Answer {
        data: list.items.iter().map(show).collect(),
        next_cursor: cursor.clone(),
        next: cursor.clone(),
        coverage: list.coverage.iter().map(coverage).collect(),
    };
    let mut response = Json(answer).into_response();
    if let Some(cursor) = cursor {
        let next = request::next(query, &cursor);
        put_next(response.headers_mut(), &cursor, Some(&next));
    }
    Ok(response)
}

fn coverage(of: &FeeCoverage) -> Coverage {
    Coverage {
        chain_id: of.chain,
        from_block: of.from_block,
        through_block: of.through_block,
        safe_block: of.safe_block,
        seen_block: of.seen_block,
        quarantined: of.quarantined,
        paused: of.paused.clone(),
    }
}

pub(super) fn event(row: &FeeRow) -> Event {
    Event {
        chain_id: row.at.chain,
        block_number: row.at.block,
        block_hash: row.at.block_hash.into(),
        timestamp: row.timestamp,
        transaction_hash: row.tx_hash.into(),
        log_index: row.at.log_index,
        position: row.at.position,
        event: FeeEventName(row.event.clone()),
        status: StatusName(row.status.name()),
        contract: address(row.contract),
        token: address(row.token),
        integrator: row.integrator.map(address),
        integrator_fee: row.integrator_fee.clone().map(Decimal),
        lifi_fee: row.lifi_fee.clone().map(Decimal),
        recipient: row.recipient.map(address),
        amount: row.amount.clone().map(Decimal),
    }
}

pub(super) fn total(sums: &FeeTotal) -> Total {
    let day = NaiveDate::default().checked_add_days(Days::new(sums.of.day));
    Total {
        chain_id: sums.of.chain,
        day: day.unwrap_or(NaiveDate::MAX).to_string(),
        integrator: sums.of.integrator.map(address),
        token: address(sums.of.token),
        event: FeeEventName(sums.of.event.to_owned()),
        events: sums.events,
        integrator_fee: sums.integrator_fee.clone().map(Decimal),
        lifi_fee: sums.lifi_fee.clone().map(Decimal),
        amount: sums.amount.clone().map(Decimal),
    }
}

/// With the checksum of EIP-55.
pub(super) fn address(bytes: Address) -> Checksummed {
    Checksummed(alloy_primitives::Address::from(bytes).to_checksum(None))
}
