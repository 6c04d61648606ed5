//! Sums of fees by chain, integrator, token, event and day of UTC.
//!
//! Days are summed in windows, from the newest or the oldest event on, until an answer is full: a part
//! of the totals costs what its own days hold and not the whole history.

use chronolith_model::Order;
use chronolith_projection::{Database, Result, Tried as _};
use deadpool_postgres::Transaction;
use tokio_postgres::Row;

use crate::coverage::FeeCoverage;
use crate::filter::{Address, Conditions, event_named, number};
use crate::near::Part;
use crate::query::{FeeList, FeeRequest, address, chain_by_chain, direction};

const DAY_SECONDS: u64 = 86_400;
/// Whole days, so that none is cut.
const WINDOW_SECONDS: u64 = 30 * DAY_SECONDS;

/// What the sums of a day are of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TotalPosition {
    pub chain: u64,
    /// Days since 1970-01-01, in UTC.
    pub day: u64,
    /// Whose fees; none for events that name none.
    pub integrator: Option<Address>,
    pub token: Address,
    /// The name of the event: what was collected and what was withdrawn are not one sum.
    pub event: &'static str,
}

/// The sums of one day.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeeTotal {
    pub of: TotalPosition,
    pub events: u64,
    /// What the integrator gets, in decimal.
    pub integrator_fee: Option<String>,
    /// What LI.FI gets, in decimal.
    pub lifi_fee: Option<String>,
    /// What was received, in decimal.
    pub amount: Option<String>,
}

type Request = FeeRequest<TotalPosition>;

/// Seconds since 1970 that are left to look at, the end not among them.
#[derive(Clone, Copy)]
struct Left {
    from: u64,
    until: u64,
}

/// Sums by filter: by day in the order that is requested, in each chain.
///
/// # Errors
/// The database does not answer, or the chain's id is larger than it can hold.
pub async fn totals(
    database: &Database,
    request: &Request,
) -> Result<FeeList<FeeTotal, TotalPosition>> {
    let first = request.after.map_or(0, |after| after.chain);
    chain_by_chain(database, request, first, of_chain, |total| total.of).await
}

/// Window by window, until there are as many as wanted or no more events.
async fn of_chain(
    tx: &Transaction<'_>,
    request: &Request,
    chain: &FeeCoverage,
    wanted: usize,
) -> Result<Vec<FeeTotal>> {
    let mut left = Left {
        from: 0,
        until: u64::MAX,
    };
    if let Some(after) = request.after.filter(|after| after.chain == chain.chain) {
        let day = after.day.saturating_mul(DAY_SECONDS);
        match request.order {
            Order::Ascending => left.from = day,
            Order::Descending => left.until = day.saturating_add(DAY_SECONDS),
        }
    }
    let mut all = Vec::new();
    while all.len() < wanted {
        let Some(time) = next_event(tx, request, chain, left).await? else {
            break;
        };
        let start = time - time % WINDOW_SECONDS;
        let mut window = left;
        match request.order {
            Order::Ascending => {
                window.until = start + WINDOW_SECONDS;
                left.from = window.until;
            }
            Order::Descending => {
                window.from = start;
                left.until = start;
            }
        }
        all.extend(of_window(tx, request, chain, (window, wanted - all.len())).await?);
    }
    Ok(all)
}

/// The time of the next event that counts. Events by block are events by time but at a fork; what a
/// fork has out of order is in the window all the same, which ends where the last one began.
async fn next_event(
    tx: &Transaction<'_>,
    request: &Request,
    chain: &FeeCoverage,
    left: Left,
) -> Result<Option<u64>> {
    let (direction, _) = direction(request.order);
    for part in Part::of(tx, &request.filter, chain, (request.order, None)).await? {
        let mut conditions = Conditions::of(&request.filter, chain)?;
        conditions.since_time(left.from);
        conditions.until_time(left.until);
        part.narrow(tx, &mut conditions, request.order).await?;
        let read = format!(
            "SELECT floor(extract(epoch FROM block_timestamp))::bigint FROM fee_events WHERE {} \
             ORDER BY block_number {direction}, log_index {direction} LIMIT 1",
            conditions.sql()
        );
        let row = tx.query_opt(&read, &conditions.values()).await;
        if let Some(row) = row.tried("look for fees")? {
            return Ok(u64::try_from(row.get::<_, i64>(0)).ok());
        }
    }
    Ok(None)
}

async fn of_window(
    tx: &Transaction<'_>,
    request: &Request,
    chain: &FeeCoverage,
    (window, wanted): (Left, usize),
) -> Result<Vec<FeeTotal>> {
    let mut conditions = Conditions::of(&request.filter, chain)?;
    conditions.since_time(window.from);
    conditions.until_time(window.until);
    let (direction, beyond) = direction(request.order);
    let mut after_position = String::new();
    if let Some(after) = request.after.filter(|after| after.chain == chain.chain) {
        let who = after.integrator.map_or(Vec::new(), |who| who.to_vec());
        let place = [
            conditions.bind(number(after.day)),
            conditions.bind(who),
            conditions.bind(after.token.to_vec()),
            conditions.bind(after.event),
        ];
        after_position = format!(
            "WHERE (day, who, token, event) {beyond} ({}) ",
            place.join(", ")
        );
    }
    let limit = conditions.bind(wanted as i64);
    let read = format!(
        "SELECT * FROM (SELECT floor(extract(epoch FROM block_timestamp) / 86400)::bigint AS day, \
            coalesce(integrator, ''::bytea) AS who, token, event::text COLLATE \"C\" AS event, \
            count(*), sum(integrator_fee)::text, sum(lifi_fee)::text, sum(amount)::text \
            FROM fee_events WHERE {} GROUP BY 1, 2, 3, 4) AS sums {after_position}\
         ORDER BY day {direction}, who {direction}, token {direction}, event {direction} LIMIT {limit}",
        conditions.sql()
    );
    let rows = tx.query(&read, &conditions.values()).await;
    let rows = rows.tried("sum fees")?;
    Ok(rows.iter().map(|row| total_of(row, chain.chain)).collect())
}

fn total_of(row: &Row, chain: u64) -> FeeTotal {
    let int8 = |at: usize| u64::try_from(row.get::<_, i64>(at)).unwrap_or(0);
    FeeTotal {
        of: TotalPosition {
            chain,
            day: int8(0),
            integrator: address(row, 1),
            token: address(row, 2).unwrap_or_default(),
            event: event_named(row.get(3)).unwrap_or_default(),
        },
        events: int8(4),
        integrator_fee: row.get(5),
        lifi_fee: row.get(6),
        amount: row.get(7),
    }
}
