//! The newest of what was projected, a little of it.

use deadpool_postgres::Transaction;
use serde::Serialize;

use crate::error::{Result, Tried as _};

/// Rows of each kind that are shown.
const SHOWN: i64 = 8;

/// A fee event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecentFee {
    pub block_number: i64,
    /// Seconds since 1970 of that.
    pub timestamp: i64,
    pub tx_hash: String,
    /// Its place in the block.
    pub log_index: i32,
    /// Its place among the events of one log.
    pub position: i32,
    pub event: String,
    /// The token; zeros are the chain's own coin.
    pub token: String,
    /// Whose fees were collected, or who received them.
    pub party: Option<String>,
    /// What the party gets, in decimal.
    pub amount: Option<String>,
    /// `pending`, `confirmed` or `dropped`.
    pub status: String,
}

/// The newest confirmed value of a feed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedLatest {
    pub feed_id: String,
    pub stride: i16,
    /// The block of the value.
    pub block_number: i64,
    /// Seconds since 1970 of that.
    pub timestamp: i64,
    /// Its place in the ring.
    pub rb_index: i16,
    /// The value; its first bytes where it is long.
    pub data: String,
    pub version: i32,
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

/// The feeds of a chain that were confirmed last.
pub(crate) async fn latest_feeds(tx: &Transaction<'_>, chain: i64) -> Result<Vec<FeedLatest>> {
    const FEEDS: &str = "\
        SELECT bytea16_to_hex(feed_id), stride, block_number, \
            extract(epoch FROM block_timestamp)::bigint, rb_index, \
            '0x' || encode(substring(data FROM 1 FOR 32), 'hex'), version \
        FROM feed_latest WHERE chain_id = $1 \
        ORDER BY block_number DESC, log_index DESC, position DESC LIMIT $2";
    let rows = tx.query(FEEDS, &[&chain, &SHOWN]).await;
    let rows = rows.tried("read the newest feeds")?;
    let feeds = rows.iter().map(|row| FeedLatest {
        feed_id: row.get(0),
        stride: row.get(1),
        block_number: row.get(2),
        timestamp: row.get(3),
        rb_index: row.get(4),
        data: row.get(5),
        version: row.get(6),
    });
    Ok(feeds.collect())
}
