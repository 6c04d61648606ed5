//! Taking back what was called final, after an archive was rewound.
//!
//! Rows stay. Their blocks are dropped, and whichever of them the chain has again when it gets there is
//! taken back as any other block is. Nothing of it happens by itself: somebody decided it, and is named.

use chronolith_model::BlockRef;
use deadpool_postgres::Transaction;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::adfs;
use crate::chain_id;
use crate::database::Database;
use crate::error::{Result, Tried as _};
use crate::leases::audit;

/// Tables that say which blocks have rows: others have rows of the same blocks.
const WITH_BLOCKS: [&str; 4] = [
    "fee_event_rows",
    "adfs_event_rows",
    "proxy_version_rows",
    "quarantine",
];

/// Who wants it, and why.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// Who.
    pub operator: &'a str,
    /// Why.
    pub reason: &'a str,
}

/// What was taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TakenBack {
    /// The last block that was called final before; -1 where there was none.
    pub safe_before: i64,
    /// Blocks with rows that are dropped now.
    pub dropped_blocks: u64,
}

/// Takes back everything above a block, which is the last final one from now on. Nothing changes where
/// nothing above it was final. Recorded.
///
/// # Errors
/// The database does not answer, or somebody works on it for long.
pub async fn rewind(
    database: &Database,
    chain: u64,
    to: BlockRef,
    order: Order<'_>,
) -> Result<TakenBack> {
    const SAFE: &str =
        "SELECT last_safe_block FROM processing_state WHERE chain_id = $1 FOR UPDATE";
    let chain = chain_id(chain)?;
    let number = to.number as i64;
    let mut client = database.client().await?;
    let tx = client.transaction().await.tried("begin")?;
    let patience = "SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '10min'";
    tx.batch_execute(patience).await.tried("take back")?;
    let safe = tx.query_opt(SAFE, &[&chain]).await.tried("take back")?;
    let safe_before = safe.map_or(-1, |row| row.get(0));
    if safe_before <= number {
        return Ok(TakenBack {
            safe_before,
            dropped_blocks: 0,
        });
    }
    cut_jobs(&tx, chain, number).await?;
    // Whoever wants a range from here on waits, and then sees what is final by now.
    let lock = tx.batch_execute("LOCK TABLE projections IN EXCLUSIVE MODE");
    lock.await.tried("take back")?;
    cut_jobs(&tx, chain, number).await?;
    cut_ranges(&tx, chain, number).await?;
    let dropped_blocks = drop_blocks(&tx, chain, (number, safe_before)).await?;
    adfs::latest::take_back(&tx, chain, number).await?;
    const BACK: &str = "UPDATE processing_state SET last_safe_block = $2, last_safe_hash = $3, \
        last_seen_block = $2, last_backfill_block = least(last_backfill_block, $2) WHERE chain_id = $1";
    let hash = to.hash.as_bytes().as_slice();
    let back = tx.execute(BACK, &[&chain, &number, &hash]).await;
    back.tried("take back")?;
    let detail = json!({ "to": number, "hash": to.hash.to_string(), "safeBefore": safe_before,
        "droppedBlocks": dropped_blocks, "reason": order.reason });
    audit(&tx, Some(chain), "rewind", order.operator, &detail).await?;
    tx.commit().await.tried("take back")?;
    Ok(TakenBack {
        safe_before,
        dropped_blocks,
    })
}

/// Jobs end at the block. A new token each: whoever works on one writes nothing more.
async fn cut_jobs(tx: &Transaction<'_>, chain: i64, to: i64) -> Result<()> {
    const GONE: &str = "DELETE FROM jobs WHERE chain_id = $1 AND from_block > $2";
    const SHORTER: &str = "UPDATE jobs SET to_block = $2, next_block = least(next_block, $2), \
        status = 'pending', attempts = 0, token = nextval('job_tokens'), locked_by = NULL, \
        locked_until = NULL, error = NULL, retry_at = now(), updated_at = now() \
        WHERE chain_id = $1 AND to_block > $2";
    for statement in [GONE, SHORTER] {
        let done = tx.execute(statement, &[&chain, &to]).await;
        done.tried("cut jobs")?;
    }
    Ok(())
}

async fn cut_ranges(tx: &Transaction<'_>, chain: i64, to: i64) -> Result<()> {
    const CUT: [&str; 3] = [
        "DELETE FROM projected_ranges WHERE chain_id = $1 AND from_block > $2",
        "UPDATE projected_ranges SET to_block = $2 WHERE chain_id = $1 AND to_block > $2",
        "UPDATE projections SET next_block = greatest(start_block, $2::bigint + 1) \
            WHERE chain_id = $1 AND next_block > $2::bigint + 1",
    ];
    for statement in CUT {
        let done = tx.execute(statement, &[&chain, &to]).await;
        done.tried("cut ranges")?;
    }
    Ok(())
}

/// Drops blocks that were final; returns how many.
async fn drop_blocks(tx: &Transaction<'_>, chain: i64, (to, safe): (i64, i64)) -> Result<u64> {
    let mut dropped = 0;
    for table in WITH_BLOCKS {
        let drop = format!(
            "INSERT INTO dropped_blocks (chain_id, block_hash, block_number, block_timestamp) \
             SELECT DISTINCT chain_id, block_hash, block_number, block_timestamp FROM {table} \
             WHERE chain_id = $1 AND block_number > $2 AND block_number <= $3 ON CONFLICT DO NOTHING"
        );
        let done = tx.execute(&drop, &[&chain, &to, &safe]).await;
        dropped += done.tried("drop blocks")?;
    }
    Ok(dropped)
}
