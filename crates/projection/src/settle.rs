//! What is confirmed and what is dropped.
//!
//! Everything through one block is confirmed, and that block moves with the archive's head. Before it
//! does, every pending block below it is compared with the archive, in the same transaction.

use std::collections::BTreeMap;

use chronolith_model::{BlockRef, Hash32};
use deadpool_postgres::Transaction;

use crate::error::{Error, Result, Tried as _};
use crate::feed::Moment;
use crate::jobs;
use crate::leases::Lease;
use crate::projector::Projector;

/// Blocks of the tail that a projection is done with: number, hash and parent of each.
pub(crate) type Done = BTreeMap<u64, (Hash32, Hash32)>;

/// What became of pending blocks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) confirmed: Vec<(i64, Vec<u8>)>,
    pub(crate) dropped: Vec<(i64, Vec<u8>)>,
    pub(crate) left: Vec<(i64, Vec<u8>)>,
}

/// What settling found.
#[derive(Debug)]
pub(crate) struct Settled {
    /// The last block through which everything is confirmed.
    pub(crate) safe: i64,
    pub(crate) confirmed: usize,
    pub(crate) dropped: usize,
    /// Blocks that are still in doubt.
    pub(crate) pending: BTreeMap<u64, Hash32>,
}

impl Projector {
    /// Confirms what the archive holds by now, and drops what is on no chain any more.
    pub(crate) async fn settle(
        &self,
        lease: &Lease,
        moment: &Moment,
        done: &[Done],
    ) -> Result<Settled> {
        let mut client = self.database.client().await?;
        let tx = client.transaction().await.tried("begin")?;
        lease.check(&tx).await?;
        let (safe, safe_hash) = self.safe_for_update(&tx).await?;
        let pending = "SELECT block_number, block_hash FROM pending_blocks \
            WHERE chain_id = $1 ORDER BY block_number";
        let pending = tx.query(pending, &[&self.chain]).await;
        let pending = pending.tried("read pending blocks")?;
        let pending = pending.iter().map(|row| (row.get(0), row.get(1))).collect();
        let head = moment.head();
        self.check_safe(moment, safe, safe_hash.as_deref()).await?;
        let verdict = self.judge(moment, pending, done).await?;
        self.drop_blocks(&tx, &verdict.dropped).await?;
        let hashes: Vec<Vec<u8>> = verdict
            .confirmed
            .iter()
            .map(|(_, hash)| hash.clone())
            .collect();
        if !hashes.is_empty() {
            let settled = "DELETE FROM pending_blocks WHERE chain_id = $1 AND block_hash = ANY($2)";
            let settled = tx.execute(settled, &[&self.chain, &hashes]).await;
            settled.tried("confirm blocks")?;
            for projection in &self.projections {
                projection.confirmed(&tx, Some(&hashes)).await?;
            }
        }
        let rises = head.filter(|head| head.number as i64 > safe);
        if let Some(head) = rises {
            self.take_back(&tx, moment, safe).await?;
            let moved = "UPDATE processing_state SET last_safe_block = $2, last_safe_hash = $3, \
                last_seen_block = greatest(last_seen_block, $2) WHERE chain_id = $1";
            let (number, hash) = (head.number as i64, head.hash.as_bytes().as_slice());
            let moved = tx.execute(moved, &[&self.chain, &number, &hash]).await;
            moved.tried("move the last safe block")?;
            self.skip_done(&tx, head, done).await?;
        }
        tx.commit().await.tried("settle blocks")?;
        let safe = rises.map_or(safe, |head| head.number as i64);
        let left = verdict.left.iter();
        let left =
            left.filter_map(|(number, hash)| Some((*number as u64, Hash32::from_slice(hash)?)));
        Ok(Settled {
            safe,
            confirmed: verdict.confirmed.len(),
            dropped: verdict.dropped.len(),
            pending: left.collect(),
        })
    }

    /// The last safe block, which nobody else moves or stands on until the transaction ends.
    async fn safe_for_update(&self, tx: &Transaction<'_>) -> Result<(i64, Option<Vec<u8>>)> {
        let safe = "SELECT last_safe_block, last_safe_hash FROM processing_state \
            WHERE chain_id = $1 FOR UPDATE";
        let row = tx.query_one(safe, &[&self.chain]).await;
        let row = row.tried("read the last safe block")?;
        Ok((row.get(0), row.get(1)))
    }

    /// What the database calls final must be what the archive has.
    async fn check_safe(&self, moment: &Moment, safe: i64, hash: Option<&[u8]>) -> Result<()> {
        let (Some(archive), Some(hash), Ok(number)) = (&moment.archive, hash, u64::try_from(safe))
        else {
            return Ok(());
        };
        if archive.head().is_none_or(|head| head.number < number) {
            return Ok(());
        }
        let archived = archive.block_by_number(number).await?.hash;
        if archived.as_bytes() == hash {
            return Ok(());
        }
        let (chain, theirs) = (self.chain, const_hex::encode_prefixed(hash));
        Err(Error::Conflict(format!(
            "block {number} of chain {chain} is {theirs} in the database and {archived} in the archive, and \
             both call it final: nothing more is written. If the archive was rewound, run `chronolith \
             projection rewind --chain {chain} --to BLOCK`"
        )))
    }

    /// Compares pending blocks with the chain.
    async fn judge(
        &self,
        moment: &Moment,
        pending: Vec<(i64, Vec<u8>)>,
        done: &[Done],
    ) -> Result<Verdict> {
        let head = moment.head();
        let tip = moment.tail.head().or(head);
        // Whoever was done with another block at the head's height was on another fork: what it wrote
        // above that height is on none.
        let forked = tip.is_some_and(|tip| {
            let other = |one: &Done| {
                one.get(&tip.number)
                    .is_some_and(|(hash, _)| *hash != tip.hash)
            };
            done.iter().any(other)
        });
        let mut verdict = Verdict::default();
        for (number, hash) in pending {
            let at = number as u64;
            let canonical = match (&moment.archive, head) {
                (Some(archive), Some(head)) if at <= head.number => {
                    Some(archive.block_by_number(at).await?.hash)
                }
                _ => moment.tail.get(at).map(|block| block.clock.hash),
            };
            let is_final = head.is_some_and(|head| at <= head.number);
            let above_tip = tip.is_some_and(|tip| at > tip.number);
            match canonical {
                Some(found) if found.as_bytes().as_slice() != hash => {
                    verdict.dropped.push((number, hash))
                }
                Some(_) if is_final => verdict.confirmed.push((number, hash)),
                Some(_) => verdict.left.push((number, hash)),
                // On a fork of which a lower block is gone.
                None if !verdict.dropped.is_empty() || (above_tip && forked) => {
                    verdict.dropped.push((number, hash));
                }
                None => verdict.left.push((number, hash)),
            }
        }
        Ok(verdict)
    }

    async fn drop_blocks(&self, tx: &Transaction<'_>, dropped: &[(i64, Vec<u8>)]) -> Result<()> {
        if dropped.is_empty() {
            return Ok(());
        }
        const DROP: &str = "\
            WITH gone AS (DELETE FROM pending_blocks WHERE chain_id = $1 AND block_hash = ANY($2) \
                RETURNING chain_id, block_hash, block_number, block_timestamp) \
            INSERT INTO dropped_blocks (chain_id, block_hash, block_number, block_timestamp) \
            SELECT * FROM gone ON CONFLICT DO NOTHING";
        let hashes: Vec<&[u8]> = dropped.iter().map(|(_, hash)| hash.as_slice()).collect();
        let done = tx.execute(DROP, &[&self.chain, &hashes]).await;
        done.tried("drop blocks").map(|_| ())
    }

    /// A block that was dropped and became final after all, while nobody looked, is not dropped.
    async fn take_back(&self, tx: &Transaction<'_>, moment: &Moment, safe: i64) -> Result<()> {
        const DROPPED: &str = "SELECT block_number, block_hash FROM dropped_blocks \
            WHERE chain_id = $1 AND block_number > $2";
        const BACK: &str =
            "DELETE FROM dropped_blocks WHERE chain_id = $1 AND block_hash = ANY($2)";
        let (Some(archive), Some(head)) = (&moment.archive, moment.head()) else {
            return Ok(());
        };
        let dropped = tx.query(DROPPED, &[&self.chain, &safe]).await;
        let mut back: Vec<Vec<u8>> = Vec::new();
        for row in dropped.tried("read dropped blocks")? {
            let (number, hash): (i64, Vec<u8>) = (row.get(0), row.get(1));
            let is_final = number as u64 <= head.number;
            if is_final
                && archive
                    .block_by_number(number as u64)
                    .await?
                    .hash
                    .as_bytes()
                    == hash.as_slice()
            {
                back.push(hash);
            }
        }
        if back.is_empty() {
            return Ok(());
        }
        let taken = tx.execute(BACK, &[&self.chain, &back]).await;
        taken.tried("take blocks back").map(|_| ())
    }

    /// Blocks that were projected from the tail and are final now need no job.
    async fn skip_done(&self, tx: &Transaction<'_>, head: BlockRef, done: &[Done]) -> Result<()> {
        for (projection, done) in self.projections.iter().zip(done) {
            let Some(first) = linked_from(done, head) else {
                continue;
            };
            let (first, last) = (first as i64, head.number as i64);
            jobs::skip(tx, (self.chain, projection.name()), first, last).await?;
        }
        Ok(())
    }
}

/// The first of the blocks that lead to this one without a hole.
fn linked_from(done: &Done, head: BlockRef) -> Option<u64> {
    let mut wanted = head.hash;
    let mut first = None;
    for (number, (hash, parent)) in done.range(..=head.number).rev() {
        let expected = first.map_or(head.number, |first: u64| first.saturating_sub(1));
        if *number != expected || *hash != wanted {
            break;
        }
        first = Some(*number);
        wanted = *parent;
    }
    first
}
