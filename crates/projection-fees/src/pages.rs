//! Pages of the fee document: numbered, so that what comes before one has to be counted.
//!
//! An index that holds nothing but the blocks of collected fees is counted instead of the rows. It does
//! not know which blocks are dropped; those are few, and are looked up.

use chronolith_model::Order;
use chronolith_projection::{Database, Result, Tried as _, snapshot};
use deadpool_postgres::Transaction;

use crate::filter::number;
use crate::query::{COLUMNS, FeeRow, direction, row_of};

/// A page of the fee document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeePage {
    /// The events, newest first.
    pub rows: Vec<FeeRow>,
    /// How many there are on all pages.
    pub total: u64,
}

/// So many rows are skipped by reading them: to look for a block first takes as long.
const READ_MAX: i64 = 2_000;
/// How far before the first row of a page it is looked for the beginning of its block. No real block has
/// more events.
const LOOK_BACK: i64 = 10_000;

/// The collected fees of a chain.
struct Collected {
    chain: i64,
    /// All rows, those of dropped blocks too.
    rows: i64,
    /// Rows of dropped blocks, by the number of the block.
    dropped: Vec<(i64, i64)>,
}

impl Collected {
    async fn read(tx: &Transaction<'_>, chain: i64) -> Result<Self> {
        const ROWS: &str =
            "SELECT count(*) FROM fee_event_rows WHERE chain_id = $1 AND event = 'FeesCollected'";
        // The time says which partition a block is in.
        const DROPPED: &str = "SELECT d.block_number, count(*) FROM dropped_blocks d \
            JOIN fee_event_rows r ON r.chain_id = d.chain_id AND r.block_number = d.block_number \
            AND r.block_hash = d.block_hash AND r.block_timestamp = d.block_timestamp \
            WHERE d.chain_id = $1 AND r.event = 'FeesCollected' GROUP BY d.block_number";
        let rows = tx.query_one(ROWS, &[&chain]).await.tried("count fees")?;
        let dropped = tx.query(DROPPED, &[&chain]).await;
        let dropped = dropped.tried("count fees of dropped blocks")?;
        Ok(Self {
            chain,
            rows: rows.get(0),
            dropped: dropped.iter().map(|row| (row.get(0), row.get(1))).collect(),
        })
    }

    /// How many are on all pages.
    fn total(&self) -> i64 {
        let dropped: i64 = self.dropped.iter().map(|(_, rows)| rows).sum();
        self.rows - dropped
    }

    /// Rows of dropped blocks that come before a block.
    fn dropped_before(&self, block: i64, order: Order) -> i64 {
        let is_before = |number: i64| match order {
            Order::Ascending => number < block,
            Order::Descending => number > block,
        };
        let before = self.dropped.iter().filter(|(at, _)| is_before(*at));
        before.map(|(_, rows)| rows).sum()
    }

    /// A block that no skipped row comes after, and how many rows from it on are skipped. With rows of
    /// dropped blocks counted as well, the block is at or before the one that is looked for.
    async fn start(
        &self,
        tx: &Transaction<'_>,
        order: Order,
        skipped: i64,
    ) -> Result<Option<(i64, i64)>> {
        let (direction, _) = direction(order);
        let read = format!(
            "SELECT block_number, count(*) FROM (SELECT block_number FROM fee_event_rows \
                WHERE chain_id = $1 AND event = 'FeesCollected' \
                ORDER BY block_number {direction} OFFSET $2 LIMIT $3) AS near \
             GROUP BY block_number ORDER BY block_number {direction}"
        );
        let mut back = LOOK_BACK.min(skipped);
        loop {
            let near = tx
                .query(&read, &[&self.chain, &(skipped - back), &(back + 1)])
                .await;
            let near = near.tried("look for a page of fees")?;
            let Some(last) = near.last() else {
                return Ok(None);
            };
            // The block's first row is among them where another block's is too, or where all are.
            if near.len() > 1 || back == skipped {
                let (block, rows): (i64, i64) = (last.get(0), last.get(1));
                let rest = rows - 1 + self.dropped_before(block, order);
                return Ok(Some((block, rest)));
            }
            back = back.saturating_mul(LOOK_BACK).min(skipped);
        }
    }

    /// The rows of a page. What is skipped is counted from the nearer end.
    async fn page(&self, tx: &Transaction<'_>, skipped: i64, limit: i64) -> Result<Vec<FeeRow>> {
        let left = self.total().saturating_sub(skipped);
        if left <= 0 {
            return Ok(Vec::new());
        }
        let is_near_end = left < skipped;
        let (order, mut skipped, limit) = match is_near_end {
            true => (Order::Ascending, (left - limit).max(0), left.min(limit)),
            false => (Order::Descending, skipped, limit),
        };
        let (mut first, beyond) = match order {
            Order::Ascending => (0, ">="),
            Order::Descending => (i64::MAX, "<="),
        };
        if skipped > READ_MAX
            && let Some(start) = self.start(tx, order, skipped).await?
        {
            (first, skipped) = start;
        }
        let (direction, _) = direction(order);
        let read = format!(
            "SELECT {COLUMNS} FROM fee_events WHERE chain_id = $1 AND event = 'FeesCollected' \
             AND status <> 'dropped' AND block_number {beyond} $4 ORDER BY block_number {direction}, \
             log_index {direction}, position {direction} LIMIT $2 OFFSET $3"
        );
        let rows = tx
            .query(&read, &[&self.chain, &limit, &skipped, &first])
            .await;
        let rows = rows.tried("read a page of fees")?;
        let mut rows: Vec<FeeRow> = rows.iter().map(row_of).collect();
        if is_near_end {
            rows.reverse();
        }
        Ok(rows)
    }
}

/// A page of collected fees as the fee document has it: pages are counted from 1, newest events first,
/// none of a dropped block.
///
/// # Errors
/// The database does not answer.
pub async fn page(database: &Database, chain: u64, page: u64, limit: u32) -> Result<FeePage> {
    let mut client = database.client().await?;
    let tx = snapshot(&mut client).await?;
    let collected = Collected::read(&tx, number(chain)).await?;
    let skipped = number(page.saturating_sub(1).saturating_mul(u64::from(limit)));
    let rows = collected.page(&tx, skipped, i64::from(limit)).await?;
    tx.commit().await.tried("read a page of fees")?;
    Ok(FeePage {
        rows,
        total: collected.total().try_into().unwrap_or(0),
    })
}
