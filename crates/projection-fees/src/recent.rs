//! The newest fee events, for the overview.

use chronolith_projection::{Result, Tried as _};
use deadpool_postgres::Transaction;
use serde::Serialize;

/// Events that are shown.
const SHOWN: i64 = 8;

/// A fee event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecentFee {
    block_number: i64,
    /// Seconds since 1970 of that.
    timestamp: i64,
    tx_hash: String,
    /// Its place in the block.
    log_index: i32,
    /// Its place among the events of one log.
    position: i32,
    event: String,
    /// The token; zeros are the chain's own coin.
    token: String,
    /// Whose fees were collected, or who received them.
    party: Option<String>,
    /// What the party gets, in decimal.
    amount: Option<String>,
    /// `pending`, `confirmed` or `dropped`.
    status: String,
}

/// The newest fee events of a chain.
pub(crate) async fn recent_fees(tx: &Transaction<'_>, chain: i64) -> Result<Vec<RecentFee>> {
    const FEES: &str = "\
        SELECT block_number, extract(epoch FROM block_timestamp)::bigint, \
            '0x' || encode(tx_hash, 'hex'), log_index, position, event::text, \
            '0x' || encode(token, 'hex'), '0x' || encode(coalesce(integrator, recipient), 'hex'), \
            coalesce(integrator_fee, amount)::text, status::text \
        FROM fee_events WHERE chain_id = $1 \
        ORDER BY block_number DESC, log_index DESC, position DESC LIMIT $2";
    let rows = tx.query(FEES, &[&chain, &SHOWN]).await;
    let rows = rows.tried("read the newest fees")?;
    let fees = rows.iter().map(|row| RecentFee {
        block_number: row.get(0),
        timestamp: row.get(1),
        tx_hash: row.get(2),
        log_index: row.get(3),
        position: row.get(4),
        event: row.get(5),
        token: row.get(6),
        party: row.get(7),
        amount: row.get(8),
        status: row.get(9),
    });
    Ok(fees.collect())
}
