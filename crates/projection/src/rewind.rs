//! Taking back what was called final, after an archive was rewound.
//!
//! Rows stay. Their blocks are dropped, and whichever of them the chain has again when it gets there is
//! taken back as any other block is. Nothing of it happens by itself: an operator decides it, and is named.

use chronolith_archive::{Archive, Pinned};
use chronolith_model::{BlockRef, Hash32};
use deadpool_postgres::Transaction;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::chain_id;
use crate::database::Database;
use crate::error::{Error, Result, Tried as _};
use crate::kind::{Kinds, block_tables};
use crate::leases::{audit, fence};

/// Blocks that are looked at together.
const PAGE_BLOCKS: i64 = 100;
/// How often it is tried where other transactions hold locks.
const ATTEMPTS_MAX: u32 = 5;

/// Who wants it, and why.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    pub operator: &'a str,
    pub reason: &'a str,
}

/// What was taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TakenBack {
    /// The last block that was called final before; -1 where there was none.
    pub safe_before: i64,
    /// The last one now: the newest with rows that is in the archive.
    pub safe_now: i64,
    /// Blocks with rows that are dropped now.
    pub dropped_blocks: u64,
}

/// Takes back whatever is called final and is not in the archive. Nothing changes where all of it is.
/// Recorded.
///
/// # Errors
/// The database does not answer, or another process holds locks for long.
pub async fn rewind(
    database: &Database,
    chain: u64,
    archive: &Archive,
    order: Order<'_>,
) -> Result<TakenBack> {
    let chain = chain_id(chain)?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        match rewind_once(database, chain, archive, order).await {
            // Another transaction locked the same in another order, and the server aborted this one.
            Err(Error::Unavailable { reason, .. })
                if reason.contains("40P01") && attempts < ATTEMPTS_MAX => {}
            done => return done,
        }
    }
}

async fn rewind_once(
    database: &Database,
    chain: i64,
    archive: &Archive,
    order: Order<'_>,
) -> Result<TakenBack> {
    const SAFE: &str = "SELECT last_safe_block, last_safe_hash FROM processing_state \
        WHERE chain_id = $1 FOR UPDATE";
    let mut client = database.client().await?;
    let tx = client.transaction().await.tried("begin")?;
    // The archive may be far away, and is read while the transaction is open.
    let patience = "SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '10min'; \
        SET LOCAL idle_in_transaction_session_timeout = '5min'";
    tx.batch_execute(patience).await.tried("take back")?;
    // A process that saw the archive as it was before settles nothing more.
    fence(&tx, chain).await?;
    let safe = tx.query_opt(SAFE, &[&chain]).await.tried("take back")?;
    let (safe_before, safe_hash): (i64, Option<Vec<u8>>) =
        safe.map_or((-1, None), |row| (row.get(0), row.get(1)));
    // As it is now: no more blocks are settled until this ends.
    archive.refresh().await?;
    let none = || Error::Conflict("there is no archive".to_owned());
    let archive = &archive.pin().ok_or_else(none)?;
    let is_there = match safe_hash {
        Some(hash) => is_at(archive, safe_before, &hash).await?,
        None => true,
    };
    if is_there {
        // No holder loses its lease for nothing.
        tx.rollback().await.tried("take back")?;
        return Ok(TakenBack {
            safe_before,
            safe_now: safe_before,
            dropped_blocks: 0,
        });
    }
    let rewinding = Rewinding {
        tx: &tx,
        chain,
        kinds: database.kinds(),
    };
    let to = rewinding.last_common(archive, safe_before).await?;
    let number = to.map_or(-1, |to| to.number as i64);
    rewinding.cut_jobs(number).await?;
    let mut dropped_blocks = rewinding.drop_blocks(number, safe_before).await?;
    // A worker that wants a range from here on waits, and then sees what is final by now. What came since is
    // taken back as well; there is little of it, since all chains wait.
    let lock = tx.batch_execute("LOCK TABLE projections IN EXCLUSIVE MODE");
    lock.await.tried("take back")?;
    rewinding.cut_jobs(number).await?;
    rewinding.cut_ranges(number).await?;
    dropped_blocks += rewinding.drop_blocks(number, safe_before).await?;
    const BACK: &str = "UPDATE processing_state SET last_safe_block = $2, last_safe_hash = $3, \
        last_seen_block = $2, last_backfill_block = least(last_backfill_block, $2) WHERE chain_id = $1";
    let hash = to.map(|to| to.hash.as_bytes().to_vec());
    let back = tx.execute(BACK, &[&chain, &number, &hash]).await;
    back.tried("take back")?;
    let detail = json!({ "safeBefore": safe_before, "safeNow": number,
        "droppedBlocks": dropped_blocks, "reason": order.reason });
    audit(&tx, Some(chain), "rewind", order.operator, &detail).await?;
    tx.commit().await.tried("take back")?;
    Ok(TakenBack {
        safe_before,
        safe_now: number,
        dropped_blocks,
    })
}

/// Whether the archive has this very block.
async fn is_at(archive: &Pinned, number: i64, hash: &[u8]) -> Result<bool> {
    let head = archive.head().map_or(-1, |head| head.number as i64);
    if number < 0 || number > head {
        return Ok(false);
    }
    let found = archive.block_by_number(number as u64).await?.hash;
    Ok(found.as_bytes().as_slice() == hash)
}

/// The transaction in which the tables of a chain are taken back.
struct Rewinding<'a> {
    tx: &'a Transaction<'a>,
    chain: i64,
    kinds: Kinds,
}

impl Rewinding<'_> {
    /// The newest block with rows that the archive has as well: both have everything below it. Blocks
    /// between it and where they part are looked at again, since it is not known which they are.
    async fn last_common(&self, archive: &Pinned, safe: i64) -> Result<Option<BlockRef>> {
        let head = archive.head().map_or(-1, |head| head.number as i64);
        let mut below = safe.min(head).saturating_add(1);
        loop {
            let page = self.blocks_below(below).await?;
            for (number, hash) in &page {
                if is_at(archive, *number, hash).await?
                    && let Some(hash) = Hash32::from_slice(hash)
                {
                    let number = *number as u64;
                    return Ok(Some(BlockRef { number, hash }));
                }
            }
            match page.last() {
                Some((number, _)) => below = *number,
                None => return Ok(None),
            }
        }
    }

    /// The newest blocks below a number that have rows and are not dropped, the newest first.
    async fn blocks_below(&self, below: i64) -> Result<Vec<(i64, Vec<u8>)>> {
        let of = |table: &str| {
            format!(
                "(SELECT DISTINCT r.block_number, r.block_hash FROM {table} r \
                 WHERE r.chain_id = $1 AND r.block_number < $2 AND NOT EXISTS (SELECT FROM dropped_blocks d \
                    WHERE d.chain_id = r.chain_id AND d.block_hash = r.block_hash) \
                 ORDER BY r.block_number DESC LIMIT {PAGE_BLOCKS})"
            )
        };
        let all: Vec<String> = block_tables(self.kinds).map(of).collect();
        let read = format!(
            "{} ORDER BY 1 DESC LIMIT {PAGE_BLOCKS}",
            all.join(" UNION ")
        );
        let rows = self.tx.query(&read, &[&self.chain, &below]).await;
        let rows = rows.tried("look for blocks with rows")?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Jobs end at the block. A new token each: a worker of one writes nothing more.
    async fn cut_jobs(&self, to: i64) -> Result<()> {
        const GONE: &str = "DELETE FROM jobs WHERE chain_id = $1 AND from_block > $2";
        const SHORTER: &str = "UPDATE jobs SET to_block = $2, next_block = least(next_block, $2), \
            status = 'pending', attempts = 0, token = nextval('job_tokens'), locked_by = NULL, \
            locked_until = NULL, error = NULL, retry_at = now(), updated_at = now() \
            WHERE chain_id = $1 AND to_block > $2";
        for statement in [GONE, SHORTER] {
            let done = self.tx.execute(statement, &[&self.chain, &to]).await;
            done.tried("cut jobs")?;
        }
        Ok(())
    }

    async fn cut_ranges(&self, to: i64) -> Result<()> {
        const CUT: [&str; 3] = [
            "DELETE FROM projected_ranges WHERE chain_id = $1 AND from_block > $2",
            "UPDATE projected_ranges SET to_block = $2 WHERE chain_id = $1 AND to_block > $2",
            "UPDATE projections SET next_block = greatest(start_block, $2::bigint + 1) \
                WHERE chain_id = $1 AND next_block > $2::bigint + 1",
        ];
        for statement in CUT {
            let done = self.tx.execute(statement, &[&self.chain, &to]).await;
            done.tried("cut ranges")?;
        }
        Ok(())
    }

    /// Drops blocks that were final and takes back what follows from their rows; returns how many blocks.
    async fn drop_blocks(&self, to: i64, safe: i64) -> Result<u64> {
        let mut dropped = 0;
        for table in block_tables(self.kinds) {
            let drop = format!(
                "INSERT INTO dropped_blocks (chain_id, block_hash, block_number, block_timestamp) \
                 SELECT DISTINCT chain_id, block_hash, block_number, block_timestamp FROM {table} \
                 WHERE chain_id = $1 AND block_number > $2 AND block_number <= $3 ON CONFLICT DO NOTHING"
            );
            let done = self.tx.execute(&drop, &[&self.chain, &to, &safe]).await;
            dropped += done.tried("drop blocks")?;
        }
        for kind in self.kinds {
            kind.rewind(self.tx, self.chain, to).await?;
        }
        Ok(dropped)
    }
}
