//! The newest feeds, for the overview.

use chronolith_projection::{Result, Tried as _};
use deadpool_postgres::Transaction;
use serde::Serialize;

/// Feeds that are shown.
const SHOWN: i64 = 8;

/// The newest confirmed value of a feed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FeedLatest {
    feed_id: String,
    stride: i16,
    /// The block of the value.
    block_number: i64,
    /// Seconds since 1970 of that.
    timestamp: i64,
    /// Its place in the ring.
    rb_index: i16,
    /// The value; its first bytes where it is long.
    data: String,
    version: i32,
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
