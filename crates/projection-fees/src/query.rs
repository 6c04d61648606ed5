//! Reading fee events: lists with filters and a cursor.
//!
//! All statements of an answer see one moment, so that a page, its total and what it is whole of fit
//! together. A list goes chain by chain in the order of their ids: in each the rows come by block, log
//! and position, as the index has them. Rows of two forks may share all three, so the hash of the block
//! decides at last.

use chronolith_model::{Hash32, Order};
use chronolith_projection::{Database, Result, Tried as _, snapshot};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

use crate::coverage::{self, FeeCoverage};
use crate::filter::{Address, Conditions, FeeFilter, FeeStatus, number};
use crate::near::Part;

/// An event as it is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeeRow {
    /// Where it stands among all.
    pub at: FeePosition,
    /// Seconds since 1970 of its block.
    pub timestamp: u64,
    pub tx_hash: Hash32,
    pub event: String,
    pub contract: Address,
    /// The token; zeros are the chain's own coin.
    pub token: Address,
    pub integrator: Option<Address>,
    /// What the integrator gets, in decimal.
    pub integrator_fee: Option<String>,
    /// What LI.FI gets, in decimal.
    pub lifi_fee: Option<String>,
    /// Who received, where fees were withdrawn or forwarded.
    pub recipient: Option<Address>,
    /// What was received, in decimal.
    pub amount: Option<String>,
    /// When the row was written, in milliseconds since 1970.
    pub created_ms: i64,
    pub status: FeeStatus,
}

/// Where an event stands among all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeePosition {
    pub chain: u64,
    /// The number of its block.
    pub block: u64,
    pub log_index: u32,
    /// Its place among the events of one log.
    pub position: u32,
    /// The hash of its block.
    pub block_hash: Hash32,
}

/// What is requested of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeeRequest<Position> {
    pub filter: FeeFilter,
    /// By block, in each chain.
    pub order: Order,
    /// How many at most.
    pub limit: usize,
    /// Only what comes after this.
    pub after: Option<Position>,
}

/// A part of what was requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeeList<Item, Position> {
    /// In the order that was requested.
    pub items: Vec<Item>,
    /// Where the next part begins; none where there is none.
    pub next: Option<Position>,
    /// How far each requested chain is there.
    pub coverage: Vec<FeeCoverage>,
}

pub(crate) const COLUMNS: &str = "chain_id, block_number, log_index, position, block_hash, \
    floor(extract(epoch FROM block_timestamp))::bigint, tx_hash, event::text, contract, token, \
    integrator, integrator_fee::text, lifi_fee::text, recipient, amount::text, \
    floor(extract(epoch FROM created_at) * 1000)::bigint, status::text";

/// Events by filter, in parts that follow each other without skip or duplicate, whatever is written
/// meanwhile.
///
/// # Errors
/// The database does not answer, or the chain's id is larger than it can hold.
pub async fn list(
    database: &Database,
    request: &FeeRequest<FeePosition>,
) -> Result<FeeList<FeeRow, FeePosition>> {
    let first = request.after.map_or(0, |after| after.chain);
    chain_by_chain(database, request, first, of_chain, |row| row.at).await
}

/// Items of the chains from the first one on, until there are as many as requested.
pub(crate) async fn chain_by_chain<Item, Position>(
    database: &Database,
    request: &FeeRequest<Position>,
    first: u64,
    of_chain: impl AsyncFn(
        &Transaction<'_>,
        &FeeRequest<Position>,
        &FeeCoverage,
        usize,
    ) -> Result<Vec<Item>>,
    position: impl Fn(&Item) -> Position,
) -> Result<FeeList<Item, Position>> {
    let mut client = database.client().await?;
    let tx = snapshot(&mut client).await?;
    let coverage = coverage::read(&tx, request.filter.chain).await?;
    let mut items = Vec::new();
    for chain in coverage.iter().filter(|chain| chain.chain >= first) {
        // One more than is wanted says whether there is a next part.
        let wanted = request.limit + 1 - items.len();
        items.extend(of_chain(&tx, request, chain, wanted).await?);
        if items.len() > request.limit {
            break;
        }
    }
    tx.commit().await.tried("read fees")?;
    let has_more = items.len() > request.limit;
    items.truncate(request.limit);
    let last = items.last().filter(|_| has_more);
    Ok(FeeList {
        next: last.map(position),
        items,
        coverage,
    })
}

async fn of_chain(
    tx: &Transaction<'_>,
    request: &FeeRequest<FeePosition>,
    chain: &FeeCoverage,
    wanted: usize,
) -> Result<Vec<FeeRow>> {
    let after = request.after.filter(|after| after.chain == chain.chain);
    let from = (request.order, after.map(|after| after.block));
    let mut rows = Vec::new();
    for part in Part::of(tx, &request.filter, chain, from).await? {
        if rows.len() < wanted {
            rows.extend(of_part(tx, request, chain, (part, wanted - rows.len())).await?);
        }
    }
    Ok(rows)
}

async fn of_part(
    tx: &Transaction<'_>,
    request: &FeeRequest<FeePosition>,
    chain: &FeeCoverage,
    (part, wanted): (Part, usize),
) -> Result<Vec<FeeRow>> {
    let mut conditions = Conditions::of(&request.filter, chain)?;
    part.narrow(tx, &mut conditions, request.order).await?;
    let (direction, beyond) = direction(request.order);
    if let Some(after) = request.after.filter(|after| after.chain == chain.chain) {
        let place = [
            conditions.bind(number(after.block)),
            conditions.bind(i32::try_from(after.log_index).unwrap_or(i32::MAX)),
            conditions.bind(i32::try_from(after.position).unwrap_or(i32::MAX)),
        ];
        let before = format!(
            "(block_number, log_index, position, block_hash) {beyond} ({}, ",
            place.join(", ")
        );
        conditions.and(&before, after.block_hash.as_bytes().to_vec(), ")");
    }
    let limit = conditions.bind(wanted as i64);
    let read = format!(
        "SELECT {COLUMNS} FROM fee_events WHERE {} ORDER BY block_number {direction}, \
         log_index {direction}, position {direction}, block_hash {direction} LIMIT {limit}",
        conditions.sql()
    );
    let rows = tx.query(&read, &conditions.values()).await;
    Ok(rows.tried("read fees")?.iter().map(row_of).collect())
}

/// How an order is written, and how what comes after is compared.
pub(crate) fn direction(order: Order) -> (&'static str, &'static str) {
    match order {
        Order::Ascending => ("ASC", ">"),
        Order::Descending => ("DESC", "<"),
    }
}

/// Lengths and signs are what the table lets in.
pub(crate) fn row_of(row: &Row) -> FeeRow {
    let int8 = |at: usize| u64::try_from(row.get::<_, i64>(at)).unwrap_or(0);
    let int4 = |at: usize| u32::try_from(row.get::<_, i32>(at)).unwrap_or(0);
    let hash = |at: usize| Hash32::from_slice(row.get(at)).unwrap_or_default();
    FeeRow {
        at: FeePosition {
            chain: int8(0),
            block: int8(1),
            log_index: int4(2),
            position: int4(3),
            block_hash: hash(4),
        },
        timestamp: int8(5),
        tx_hash: hash(6),
        event: row.get(7),
        contract: address(row, 8).unwrap_or_default(),
        token: address(row, 9).unwrap_or_default(),
        integrator: address(row, 10),
        integrator_fee: row.get(11),
        lifi_fee: row.get(12),
        recipient: address(row, 13),
        amount: row.get(14),
        created_ms: row.get(15),
        status: FeeStatus::parse(row.get(16)).unwrap_or(FeeStatus::Pending),
    }
}

pub(crate) fn address(row: &Row, at: usize) -> Option<Address> {
    row.get::<_, Option<&[u8]>>(at)?.try_into().ok()
}
