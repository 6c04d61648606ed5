//! What is confirmed and what is dropped.
//!
//! Everything through one block is confirmed, and that block moves with the archive's head. Before it
//! does, every pending block below it is compared with the archive, in the same transaction.

use std::collections::BTreeMap;

use chronolith_chain_view::ChainView;
use chronolith_model::{BlockRef, Hash32};
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;

use crate::error::{Error, Result, Tried as _};
use crate::jobs;
use crate::leases::Lease;
use crate::meters::{self, Counts};
use crate::projector::Projector;

/// Blocks of the tail that a projection is done with: number, hash and parent of each.
pub(crate) type Done = BTreeMap<u64, (Hash32, Hash32)>;

/// Blocks with rows, by their numbers.
type Blocks = Vec<(i64, Vec<u8>)>;

/// The block is no longer pending: its rows are dropped.
const DROP: &str = "\
    WITH gone AS (DELETE FROM pending_blocks WHERE chain_id = $1 AND block_hash = ANY($2) \
        RETURNING chain_id, block_hash, block_number, block_timestamp, counts), \
    kept AS (INSERT INTO dropped_blocks (chain_id, block_hash, block_number, block_timestamp) \
        SELECT chain_id, block_hash, block_number, block_timestamp FROM gone \
        ON CONFLICT DO NOTHING) \
    SELECT counts FROM gone";
/// The block is no longer pending: its rows are confirmed.
const CONFIRM: &str =
    "DELETE FROM pending_blocks WHERE chain_id = $1 AND block_hash = ANY($2) RETURNING counts";

/// What became of pending blocks.
#[derive(Debug, Default)]
struct Verdict {
    confirmed: Blocks,
    dropped: Blocks,
    left: Blocks,
}

/// What is known before anything is settled.
pub(crate) struct Known<'a> {
    /// What each projection is done with of the tail.
    pub(crate) done: &'a [Done],
    /// Pending blocks that were written.
    pub(crate) pending: &'a BTreeMap<u64, Hash32>,
    /// Through which block everything was confirmed; none where it was not looked at.
    pub(crate) safe: Option<i64>,
}

/// Who notes what is complete.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noting {
    Settles,
    Works,
}

/// What settling found.
#[derive(Debug)]
pub(crate) struct Settled {
    /// The last block through which everything is confirmed.
    pub(crate) safe: i64,
    pub(crate) confirmed: usize,
    pub(crate) dropped: Vec<u64>,
    /// Blocks that are still in doubt.
    pub(crate) pending: BTreeMap<u64, Hash32>,
    /// Whether the database does not have what was written to it: it is another one, or an older one.
    pub(crate) forgot: bool,
}

impl Projector {
    /// Confirms what the archive holds by now, and drops what is on no chain any more.
    pub(crate) async fn settle(
        &self,
        lease: &Lease,
        view: &ChainView,
        known: Known<'_>,
    ) -> Result<Settled> {
        let names = self.projections.iter().map(|one| one.name());
        let settled = self.settle_once(lease, view, known);
        let (settled, confirmed, dropped) =
            meters::timed(self.chain, names, "confirm", settled).await?;
        meters::events(self.chain, "confirmed", &confirmed);
        meters::events(self.chain, "dropped", &dropped);
        Ok(settled)
    }

    async fn settle_once(
        &self,
        lease: &Lease,
        view: &ChainView,
        known: Known<'_>,
    ) -> Result<(Settled, Counts, Counts)> {
        let mut client = self.database.client().await?;
        // The archive may be far away: it is read before anything is locked.
        let mut hashes = Hashes::default();
        let tx = client.transaction().await.tried("begin")?;
        let (safe, _) = self.safe(&tx, "").await?;
        let in_doubt = self.in_doubt(&tx, view, safe).await?;
        tx.rollback().await.tried("look at pending blocks")?;
        for (number, _) in in_doubt {
            hashes.of(view, number).await?;
        }
        hashes.of(view, safe).await?;

        let tx = client.transaction().await.tried("begin")?;
        lease.check(&tx).await?;
        let (safe, safe_hash) = self.safe(&tx, "FOR UPDATE").await?;
        let last_safe = (safe, safe_hash.as_deref());
        self.check_safe(view, &mut hashes, last_safe).await?;
        let pending = self.pending(&tx).await?;
        let has = |number: u64, hash: &Hash32| {
            let mut pending = pending.iter();
            pending.any(|(at, found)| *at == number as i64 && *found == hash.as_bytes())
        };
        let mut written = known.pending.iter();
        let forgot = written.any(|(number, hash)| !has(*number, hash))
            || known.safe.is_some_and(|before| before > safe);
        let verdict = self.judge(view, &mut hashes, pending).await?;
        let dropped_rows = self.end_pending(&tx, DROP, &verdict.dropped).await?;
        let mut confirmed = verdict.confirmed.clone();
        let confirmed_rows = self.end_pending(&tx, CONFIRM, &confirmed).await?;
        let rises = view.finalized_head();
        let rises = rises.filter(|head| head.number as i64 > safe);
        if rises.is_some() {
            confirmed.extend(self.take_back(&tx, view, &mut hashes, safe).await?);
        }
        // Before the cursors are locked: jobs lock in this order too.
        if !confirmed.is_empty() {
            for projection in &self.projections {
                projection.confirmed(&tx, Some(&confirmed)).await?;
            }
        }
        if let Some(head) = rises {
            self.move_safe(&tx, head).await?;
            if !forgot {
                self.skip_done(&tx, head, known.done).await?;
            }
            self.note_complete(&tx, Noting::Settles).await?;
        }
        tx.commit().await.tried("settle blocks")?;
        let left = verdict.left.iter();
        let left =
            left.filter_map(|(number, hash)| Some((*number as u64, Hash32::from_slice(hash)?)));
        let dropped = verdict.dropped.iter().map(|(number, _)| *number as u64);
        let settled = Settled {
            safe: rises.map_or(safe, |head| head.number as i64),
            confirmed: confirmed.len(),
            dropped: dropped.collect(),
            pending: left.collect(),
            forgot,
        };
        Ok((settled, confirmed_rows, dropped_rows))
    }

    /// The last safe block. With a lock, nothing else moves or stands on it until the transaction ends.
    async fn safe(&self, tx: &Transaction<'_>, lock: &str) -> Result<(i64, Option<Vec<u8>>)> {
        let safe = format!(
            "SELECT last_safe_block, last_safe_hash FROM processing_state WHERE chain_id = $1 {lock}"
        );
        let row = tx.query_one(&safe, &[&self.chain]).await;
        let row = row.tried("read the last safe block")?;
        Ok((row.get(0), row.get(1)))
    }

    async fn pending(&self, tx: &Transaction<'_>) -> Result<Blocks> {
        const PENDING: &str = "SELECT block_number, block_hash FROM pending_blocks \
            WHERE chain_id = $1 ORDER BY block_number";
        let rows = tx.query(PENDING, &[&self.chain]).await;
        let rows = rows.tried("read pending blocks")?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }

    /// Pending blocks, and dropped ones that may have become final after all.
    async fn in_doubt(&self, tx: &Transaction<'_>, view: &ChainView, safe: i64) -> Result<Blocks> {
        // Those above the archive's head are looked at when it gets there: after a rewind they are many.
        const DROPPED: &str = "SELECT block_number, block_hash FROM dropped_blocks \
            WHERE chain_id = $1 AND block_number > $2 AND block_number <= $3";
        let head = view.finalized_head().map_or(-1, |head| head.number as i64);
        let mut all = self.pending(tx).await?;
        let rows = tx.query(DROPPED, &[&self.chain, &safe, &head]).await;
        let rows = rows.tried("read dropped blocks")?;
        all.extend(rows.iter().map(|row| (row.get(0), row.get(1))));
        Ok(all)
    }

    /// What the database calls final must be what the chain has here.
    async fn check_safe(
        &self,
        view: &ChainView,
        hashes: &mut Hashes,
        (number, hash): (i64, Option<&[u8]>),
    ) -> Result<()> {
        let (Some(hash), Some(found)) = (hash, hashes.of(view, number).await?) else {
            return Ok(());
        };
        if found.as_bytes().as_slice() == hash {
            return Ok(());
        }
        let (chain, theirs) = (self.chain, const_hex::encode_prefixed(hash));
        Err(Error::Conflict(format!(
            "block {number} of chain {chain} is final and {theirs} in the database, and {found} here: \
             nothing more is written. Either this node follows another chain, or its archive was rewound: \
             then take the database back as well, with `chronolith projection rewind`"
        )))
    }

    /// Compares pending blocks with the chain.
    async fn judge(
        &self,
        view: &ChainView,
        hashes: &mut Hashes,
        pending: Blocks,
    ) -> Result<Verdict> {
        let mut verdict = Verdict::default();
        let is_final = |number: i64| view.is_final(number as u64);
        for (number, hash) in pending {
            let to = match hashes.of(view, number).await? {
                Some(found) if found.as_bytes().as_slice() != hash => &mut verdict.dropped,
                Some(_) if is_final(number) => &mut verdict.confirmed,
                Some(_) => &mut verdict.left,
                // Above the newest block, or on a fork of which a lower block is gone.
                None if view.ends_at_source_head || !verdict.dropped.is_empty() => {
                    &mut verdict.dropped
                }
                None => &mut verdict.left,
            };
            to.push((number, hash));
        }
        Ok(verdict)
    }

    /// Removes pending blocks by one of the statements above; returns how many rows of each projection they
    /// have.
    async fn end_pending(
        &self,
        tx: &Transaction<'_>,
        statement: &str,
        blocks: &Blocks,
    ) -> Result<Counts> {
        if blocks.is_empty() {
            return Ok(Counts::new());
        }
        let hashes: Vec<&[u8]> = blocks.iter().map(|(_, hash)| hash.as_slice()).collect();
        let rows = tx.query(statement, &[&self.chain, &hashes]).await;
        Ok(added_up(&rows.tried("settle pending blocks")?))
    }

    /// A block that was dropped and became final after all, while no process ran, is not dropped.
    async fn take_back(
        &self,
        tx: &Transaction<'_>,
        view: &ChainView,
        hashes: &mut Hashes,
        safe: i64,
    ) -> Result<Blocks> {
        const BACK: &str =
            "DELETE FROM dropped_blocks WHERE chain_id = $1 AND block_hash = ANY($2)";
        let head = view.finalized_head().map_or(-1, |head| head.number as i64);
        let mut back = Vec::new();
        for (number, hash) in self.in_doubt(tx, view, safe).await? {
            let found = hashes.of(view, number).await?;
            if number <= head && found.is_some_and(|found| found.as_bytes().as_slice() == hash) {
                back.push((number, hash));
            }
        }
        if !back.is_empty() {
            let hashes: Vec<&[u8]> = back.iter().map(|(_, hash)| hash.as_slice()).collect();
            let taken = tx.execute(BACK, &[&self.chain, &hashes]).await;
            taken.tried("take blocks back")?;
        }
        Ok(back)
    }

    async fn move_safe(&self, tx: &Transaction<'_>, head: BlockRef) -> Result<()> {
        const MOVE: &str = "UPDATE processing_state SET last_safe_block = $2, last_safe_hash = $3, \
            last_seen_block = greatest(last_seen_block, $2) WHERE chain_id = $1";
        let (number, hash) = (head.number as i64, head.hash.as_bytes().as_slice());
        let moved = tx.execute(MOVE, &[&self.chain, &number, &hash]).await;
        moved.tried("move the last safe block").map(|_| ())
    }

    /// Writes down through which block every projection is complete. A job that ends does so after its
    /// transaction, since settling locks in the other order: two may then come in any order, and the
    /// higher one stays. Settling may set it back, where more is projected than before.
    pub(crate) async fn note_complete(
        &self,
        client: &impl GenericClient,
        by: Noting,
    ) -> Result<()> {
        const NOTE: &str = "UPDATE processing_state SET last_backfill_block = c.through FROM ( \
            SELECT coalesce(min(coalesce(complete_through, start_block - 1)), -1) AS through \
            FROM complete_through WHERE chain_id = $1) c \
            WHERE chain_id = $1 AND c.through <= last_safe_block AND (last_backfill_block < c.through \
                OR ($2 AND last_backfill_block > c.through))";
        let settles = by == Noting::Settles;
        let noted = client.execute(NOTE, &[&self.chain, &settles]).await;
        noted.tried("note what is complete").map(|_| ())
    }

    /// Blocks that were projected from the tail and are final now need no job.
    async fn skip_done(&self, tx: &Transaction<'_>, head: BlockRef, done: &[Done]) -> Result<()> {
        for (projection, done) in self.projections.iter().zip(done) {
            let Some(first) = linked_from(done, head) else {
                continue;
            };
            let (first, last) = (first as i64, head.number as i64);
            let of = (self.chain, projection.name());
            jobs::skip(tx, of, &projection.settings(), (first, last)).await?;
        }
        Ok(())
    }
}

/// Hashes of the chain's blocks, each looked up once.
#[derive(Default)]
struct Hashes(BTreeMap<i64, Option<Hash32>>);

impl Hashes {
    /// The hash of a block; none where archive and tail do not have it.
    async fn of(&mut self, view: &ChainView, number: i64) -> Result<Option<Hash32>> {
        if let Some(known) = self.0.get(&number) {
            return Ok(*known);
        }
        let found = match u64::try_from(number) {
            Ok(number) => view.hash_at(number).await?,
            Err(_) => None,
        };
        self.0.insert(number, found);
        Ok(found)
    }
}

/// Rows of several blocks, by projection.
fn added_up(rows: &[Row]) -> Counts {
    let mut all = Counts::new();
    for row in rows {
        let counts: serde_json::Value = row.get(0);
        for (projection, count) in counts.as_object().into_iter().flatten() {
            *all.entry(projection.clone()).or_default() += count.as_u64().unwrap_or(0);
        }
    }
    all
}

/// The first of the blocks that lead to this one without a gap.
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
