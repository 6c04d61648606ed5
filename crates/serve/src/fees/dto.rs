//! Lists of fees as JSON.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use chrono::{Days, NaiveDate};
use chronolith_projection_fees::Address;
use chronolith_projection_fees::FeeCoverage;
use chronolith_projection_fees::FeeList;
use chronolith_projection_fees::FeeRequest;
use chronolith_projection_fees::FeeRow;
use chronolith_projection_fees::FeeTotal;
use serde::Serialize;

use super::FeesError;
use super::cursor::CursorText;

#[derive(Serialize)]
struct Answer<Item> {
    data: Vec<Item>,
    next: Option<String>,
    coverage: Vec<Coverage>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Coverage {
    chain_id: u64,
    from_block: u64,
    through_block: Option<u64>,
    safe_block: Option<u64>,
    seen_block: Option<u64>,
    quarantined: u64,
    paused: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    chain_id: u64,
    block_number: u64,
    block_hash: String,
    timestamp: u64,
    transaction_hash: String,
    log_index: u32,
    position: u32,
    event: String,
    status: &'static str,
    contract: String,
    token: String,
    integrator: Option<String>,
    integrator_fee: Option<String>,
    lifi_fee: Option<String>,
    recipient: Option<String>,
    amount: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Total {
    chain_id: u64,
    day: String,
    integrator: Option<String>,
    token: String,
    event: &'static str,
    events: u64,
    integrator_fee: Option<String>,
    lifi_fee: Option<String>,
    amount: Option<String>,
}

/// An error for a chain without a projection: an empty list would mean that it has no events.
pub(super) fn respond<Item, Position: CursorText, Dto: Serialize>(
    request: &FeeRequest<Position>,
    list: &FeeList<Item, Position>,
    show: impl Fn(&Item) -> Dto,
) -> Result<Response, FeesError> {
    if let (Some(chain), []) = (request.filter.chain, list.coverage.as_slice()) {
        let message = format!("fees of chain {chain} are not projected here");
        return Err(FeesError::new(StatusCode::NOT_FOUND, message));
    }
    let answer = Answer {
        data: list.items.iter().map(show).collect(),
        next: list.next.as_ref().map(CursorText::encode),
        coverage: list.coverage.iter().map(coverage).collect(),
    };
    Ok(Json(answer).into_response())
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
        block_hash: row.at.block_hash.to_string(),
        timestamp: row.timestamp,
        transaction_hash: row.tx_hash.to_string(),
        log_index: row.at.log_index,
        position: row.at.position,
        event: row.event.clone(),
        status: row.status.name(),
        contract: address(row.contract),
        token: address(row.token),
        integrator: row.integrator.map(address),
        integrator_fee: row.integrator_fee.clone(),
        lifi_fee: row.lifi_fee.clone(),
        recipient: row.recipient.map(address),
        amount: row.amount.clone(),
    }
}

pub(super) fn total(sums: &FeeTotal) -> Total {
    let day = NaiveDate::default().checked_add_days(Days::new(sums.of.day));
    Total {
        chain_id: sums.of.chain,
        day: day.unwrap_or(NaiveDate::MAX).to_string(),
        integrator: sums.of.integrator.map(address),
        token: address(sums.of.token),
        event: sums.of.event,
        events: sums.events,
        integrator_fee: sums.integrator_fee.clone(),
        lifi_fee: sums.lifi_fee.clone(),
        amount: sums.amount.clone(),
    }
}

/// With the checksum of EIP-55.
pub(super) fn address(bytes: Address) -> String {
    alloy_primitives::Address::from(bytes).to_checksum(None)
}
