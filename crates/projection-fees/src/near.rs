//! Events of one token, in order. Often the first ones are near where it is looked for them, and else
//! they may be anywhere: all rows of a chain in order would be read for a rare token.
//!
//! So a bounded part is read in order, and only if that is not enough the index of tokens is requested
//! the rest. That one knows small stretches of the table that may have a token: it costs nothing to keep,
//! and it has no order.

use chronolith_model::Order;
use chronolith_projection::{Result, Tried as _, chain_id};
use deadpool_postgres::Transaction;

use crate::coverage::FeeCoverage;
use crate::filter::{Conditions, FeeFilter, number};
use crate::query::direction;

/// Events that are read in order at most: as many as take about as long as a search of the other index.
const NEAR_EVENTS: i64 = 100_000;

/// Which rows of a chain are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    All,
    /// Those through this block, in the order that is requested.
    Near(i64),
    /// Those after it.
    Far(i64),
}

impl Part {
    /// The parts that are read one after the other, from a block on.
    pub(crate) async fn of(
        tx: &Transaction<'_>,
        filter: &FeeFilter,
        chain: &FeeCoverage,
        (order, from): (Order, Option<u64>),
    ) -> Result<Vec<Self>> {
        // The index of integrators has the order as well.
        if filter.token.is_none() || filter.integrator.is_some() {
            return Ok(vec![Self::All]);
        }
        let (from, compared) = match order {
            Order::Ascending => (from.unwrap_or(0), ">="),
            Order::Descending => (from.unwrap_or(u64::MAX), "<="),
        };
        let (direction, _) = direction(order);
        let bound = format!(
            "SELECT block_number FROM fee_event_rows WHERE chain_id = $1 AND event = 'FeesCollected' \
             AND block_number {compared} $2 ORDER BY block_number {direction} OFFSET $3 LIMIT 1"
        );
        let chain_id = chain_id(chain.chain)?;
        let bound = tx
            .query_opt(&bound, &[&chain_id, &number(from), &NEAR_EVENTS])
            .await;
        let bound = bound.tried("look how far to read")?;
        Ok(match bound.map(|row| row.get(0)) {
            Some(block) => vec![Self::Near(block), Self::Far(block)],
            None => vec![Self::All],
        })
    }

    /// Narrows conditions to this part, and sets for the planner, until the transaction ends, what it cannot
    /// know: rows of the far part are not worth reading in order.
    pub(crate) async fn narrow(
        self,
        tx: &Transaction<'_>,
        conditions: &mut Conditions,
        order: Order,
    ) -> Result<()> {
        let (near, far) = match order {
            Order::Ascending => ("block_number <= ", "block_number > "),
            Order::Descending => ("block_number >= ", "block_number < "),
        };
        let ordered = match self {
            Self::All => return Ok(()),
            Self::Near(block) => {
                conditions.and(near, block, "");
                "on"
            }
            Self::Far(block) => {
                conditions.and(far, block, "");
                "off"
            }
        };
        let choice =
            format!("SET LOCAL enable_indexscan = {ordered}; SET LOCAL enable_seqscan = {ordered}");
        tx.batch_execute(&choice).await.tried("choose an index")
    }
}
