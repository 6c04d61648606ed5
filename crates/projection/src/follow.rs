//! Following the newest blocks: their rows are pending as soon as the blocks are known.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronolith_chain_view::ChainView;
use chronolith_model::{Block, BlockMeta, BlockRange, ErrorKind, Hash32};
use tracing::Instrument as _;

use crate::copying;
use crate::error::{Result, Tried as _};
use crate::leases::{LEASE_TTL, Lease, LeaseKind};
use crate::meters::{self, Counts};
use crate::months::TIME_MAX;
use crate::projector::Projector;
use crate::rows::Rows;
use crate::settle::{Done, Known, Settled};

/// How often leases are renewed.
const RENEW_EVERY: Duration = Duration::from_secs(4);

/// What a follower of a chain remembers from one round to the next.
#[derive(Debug, Default)]
pub struct Following {
    held: Option<Held>,
    /// What each projection is done with of the tail.
    done: Vec<Done>,
    /// Blocks in doubt, as the database has them.
    pending: BTreeMap<u64, Hash32>,
    /// Through which block everything is confirmed; none where it was not looked at.
    safe: Option<i64>,
    /// The newest block whose number was written down.
    seen: Option<u64>,
}

impl Following {
    /// Whether a projection is done with a block.
    fn is_done(&self, at: usize, meta: &BlockMeta) -> bool {
        let done = self.done.get(at).and_then(|done| done.get(&meta.number));
        done.is_some_and(|(hash, _)| *hash == meta.hash)
    }

    /// Takes over what settling found.
    fn note(&mut self, settled: &Settled) {
        self.pending.clone_from(&settled.pending);
        self.safe = Some(settled.safe);
        let kept = u64::try_from(settled.safe).unwrap_or(0);
        let gone = settled.dropped.iter().min();
        for done in &mut self.done {
            *done = done.split_off(&kept);
            // A block that was dropped and comes back is projected again, and so is pending again.
            if let Some(gone) = gone {
                drop(done.split_off(gone));
            }
            if settled.forgot {
                done.clear();
            }
        }
    }
}

#[derive(Debug)]
struct Held {
    writer: Lease,
    finality: Lease,
    renewed: Instant,
}

/// What a round did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Round {
    /// Whether another process writes this chain, or knows more of it.
    pub waiting: bool,
    /// The block through which everything is confirmed, where it is above everything known here.
    pub behind: Option<i64>,
    pub rows: u64,
    /// Blocks with rows that were confirmed.
    pub confirmed: usize,
    /// Blocks with rows that were dropped.
    pub dropped: usize,
}

impl Projector {
    /// Brings the tables to where the chain is now.
    ///
    /// # Errors
    /// The database does not answer, or another process took over. What was committed before stays.
    pub async fn follow(&self, following: &mut Following) -> Result<Round> {
        let done = self.follow_once(following).await;
        if let Err(error) = &done {
            // Whatever was committed without our knowing it, or was not: the database is read again.
            self.partitions.forget();
            // What is projected is written down again: it may have been reset, or the database may be
            // another one by now, rebuilt under the same address.
            self.forget_registered();
            self.database.reconnect();
            let held = following.held.take();
            *following = Following::default();
            match error.kind() {
                // It may answer again before the leases run out.
                ErrorKind::Unavailable => following.held = held,
                // Another process may succeed. The leases that are still ours are released.
                _ => {
                    let released = self.release_all().await;
                    released.unwrap_or_else(|error| tracing::debug!(%error, "not released"));
                }
            }
        }
        done
    }

    /// Gives the leases back.
    ///
    /// # Errors
    /// The database does not answer: they run out by themselves.
    pub async fn release(&self, following: &mut Following) -> Result<()> {
        let Some(held) = following.held.take() else {
            return Ok(());
        };
        held.finality.release(&self.database).await?;
        held.writer.release(&self.database).await
    }

    /// Gives back every lease that this holder has on the chain.
    ///
    /// # Errors
    /// The database does not answer: they run out by themselves.
    pub async fn release_all(&self) -> Result<()> {
        const RELEASE: &str = "UPDATE leases SET holder = NULL WHERE chain_id = $1 AND holder = $2";
        let client = self.database.client().await?;
        let released = client.execute(RELEASE, &[&self.chain, &self.holder]).await;
        released.tried("release leases").map(|_| ())
    }

    async fn follow_once(&self, following: &mut Following) -> Result<Round> {
        let view = self.feed.view().await?;
        let waiting = Round {
            waiting: true,
            ..Round::default()
        };
        if let Some(safe) = self.behind(following, &view).await? {
            self.release(following).await?;
            return Ok(Round {
                behind: Some(safe),
                ..waiting
            });
        }
        let held_before = following.held.is_some();
        let Some((writer, finality)) = self.hold(following).await? else {
            self.check_standby(&view).await?;
            return Ok(waiting);
        };
        // What was seen before the leases were ours may have been taken back under others.
        let view = match held_before {
            true => view,
            false => self.feed.view().await?,
        };
        let projections = self.projections.len();
        following.done.resize_with(projections, Done::new);
        let mut round = Round::default();
        if is_unsettled(following, &view) {
            let known = Known {
                done: &following.done,
                pending: &following.pending,
                safe: following.safe,
            };
            let settled = self.settle(&finality, &view, known).await?;
            following.note(&settled);
            self.settled.send_if_modified(|safe| {
                let before = std::mem::replace(safe, settled.safe);
                before != settled.safe
            });
            (round.confirmed, round.dropped) = (settled.confirmed, settled.dropped.len());
        }
        // A pending block above everything known may be of a fork that is gone: what it holds may be in
        // another block by now, and must not be there twice.
        let head = view.head().map_or(0, |head| head.number);
        if following.pending.keys().any(|number| *number > head) {
            return Ok(round);
        }
        let mut running = self.running(&view).await?;
        let start = view.finalized_head();
        let start = start.map_or(0, |head| head.number.saturating_add(1));
        let blocks = view.tail.blocks_in(BlockRange::new(start, u64::MAX));
        for block in blocks {
            self.hold(following).await?;
            let due = (block, &mut running);
            round.rows += self.project(&writer, following, &view, due).await?;
        }
        self.note_seen(&writer, following, &view).await?;
        Ok(round)
    }

    /// What is final in the database, where it is above everything known here: another process knows
    /// more, or the archive was rewound.
    async fn behind(&self, following: &Following, view: &ChainView) -> Result<Option<i64>> {
        let head = view.head().map_or(-1, |head| head.number as i64);
        if let (Some(_), Some(safe)) = (&following.held, following.safe) {
            return Ok((head < safe).then_some(safe));
        }
        const SAFE: &str = "SELECT last_safe_block FROM processing_state WHERE chain_id = $1";
        let client = self.database.client().await?;
        let safe = client.query_one(SAFE, &[&self.chain]).await;
        let safe: i64 = safe.tried("read the last safe block")?.get(0);
        Ok((head < safe).then_some(safe))
    }

    /// A process that waits for the leases must be on the same chain as the holder: otherwise it could
    /// never take over, and nothing would show that before.
    async fn check_standby(&self, view: &ChainView) -> Result<()> {
        match self.check_chain(view).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => Ok(()),
            checked => checked,
        }
    }

    /// Takes the leases, or renews them. None where another process holds them.
    async fn hold(&self, following: &mut Following) -> Result<Option<(Lease, Lease)>> {
        if let Some(held) = &mut following.held {
            if held.renewed.elapsed() >= RENEW_EVERY {
                held.writer.renew(&self.database).await?;
                held.finality.renew(&self.database).await?;
                held.renewed = Instant::now();
            }
            return Ok(Some((held.writer, held.finality)));
        }
        let take = |kind| Lease::take(&self.database, self.chain, kind, &self.holder);
        let names = || self.projections.iter().map(|one| one.name());
        let Some(writer) = take(LeaseKind::Writer).await? else {
            meters::contention(self.chain, names());
            return Ok(None);
        };
        let Some(finality) = take(LeaseKind::Finality).await? else {
            meters::contention(self.chain, names());
            writer.release(&self.database).await?;
            return Ok(None);
        };
        // What was known under other leases may be out of date.
        *following = Following {
            held: Some(Held {
                writer,
                finality,
                renewed: Instant::now(),
            }),
            ..Following::default()
        };
        tracing::info!(
            chain = self.chain,
            epoch = writer.epoch,
            ttl = ?LEASE_TTL,
            "writing projections"
        );
        Ok(Some((writer, finality)))
    }

    /// Writes the rows of one block of the tail; one transaction for all projections.
    async fn project(
        &self,
        writer: &Lease,
        following: &mut Following,
        view: &ChainView,
        (block, running): (&Arc<Block>, &mut Vec<usize>),
    ) -> Result<u64> {
        let meta = &block.clock;
        let mut all = Rows::default();
        let mut counts = Counts::new();
        let mut due = Vec::new();
        for at in running.clone() {
            let Some(projection) = self.projections.get(at) else {
                continue;
            };
            if following.is_done(at, meta) || meta.number < projection.start_block() {
                continue;
            }
            let found = projection.selection().of_block(block)?;
            if !found.is_empty() {
                let span = meters::decoding(self.chain, projection.name(), &found);
                let projected = projection.rows(view, &found).instrument(span).await?;
                if projected.not_yet {
                    continue;
                }
                if let Some(pause) = projected.pause {
                    self.pause(projection.name(), &pause).await?;
                    running.retain(|one| *one != at);
                    continue;
                }
                let events = projection.events(&projected.rows);
                counts.insert(projection.name().to_owned(), events);
                all.extend(projected.rows);
            }
            due.push(at);
        }
        let mut written = 0;
        if !all.is_empty() {
            let names: Vec<String> = counts.keys().cloned().collect();
            let write = self.write_pending(writer, block, (all, &counts));
            let names = names.iter().map(String::as_str);
            let Some(count) = meters::timed(self.chain, names, "insert", write).await? else {
                return Ok(0);
            };
            written = count;
            meters::events(self.chain, "pending", &counts);
            if let Some(clock) = self.clock {
                meters::arrived(self.chain, &counts, clock());
                let age = clock() - block.clock.timestamp as f64;
                meters::delay(self.chain, &counts, age);
            }
            following.pending.insert(meta.number, meta.hash);
        }
        for at in due {
            if let Some(done) = following.done.get_mut(at) {
                // What stood on another block of this height is on another fork.
                done.split_off(&meta.number);
                done.insert(meta.number, (meta.hash, meta.parent_hash));
            }
        }
        Ok(written)
    }

    /// Writes rows as pending; none where the block is final in the database by now, since a job projects
    /// it from the archive then.
    async fn write_pending(
        &self,
        writer: &Lease,
        block: &Block,
        (rows, counts): (Rows, &Counts),
    ) -> Result<Option<u64>> {
        let meta = &block.clock;
        self.ensure_partitions(&rows.months).await?;
        let mut client = self.database.client().await?;
        let tx = client.transaction().await.tried("begin")?;
        let count = rows.count() as u64;
        let staged = copying::stage(&tx, self.database.kinds(), rows).await?;
        writer.check(&tx).await?;
        self.check_registered(&tx, counts).await?;
        let safe = "SELECT last_safe_block FROM processing_state WHERE chain_id = $1 FOR SHARE";
        let safe = tx.query_one(safe, &[&self.chain]).await;
        let safe: i64 = safe.tried("read the last safe block")?.get(0);
        let number = meta.number as i64;
        if number <= safe {
            return Ok(None);
        }
        let hash = meta.hash.as_bytes().as_slice();
        // A block that comes back is not dropped any more. One of its height that is still pending is
        // an error here: it must be settled first.
        let revive = "DELETE FROM dropped_blocks WHERE chain_id = $1 AND block_hash = $2";
        let revive = tx.execute(revive, &[&self.chain, &hash]).await;
        revive.tried("take a block back")?;
        let pending = "INSERT INTO pending_blocks \
            (chain_id, block_number, block_hash, block_timestamp, counts) \
            VALUES ($1, $2, $3, to_timestamp($4::bigint), $5) ON CONFLICT (chain_id, block_hash) \
            DO UPDATE SET counts = pending_blocks.counts || excluded.counts";
        let seconds = meta.timestamp.min(TIME_MAX) as i64;
        let counts = serde_json::json!(counts);
        let pending = tx
            .execute(pending, &[&self.chain, &number, &hash, &seconds, &counts])
            .await;
        pending.tried("write down a pending block")?;
        copying::insert(&tx, &staged).await?;
        tx.commit().await.tried("write the rows of a block")?;
        Ok(Some(count))
    }

    /// Writes down how far the chain was seen.
    async fn note_seen(
        &self,
        writer: &Lease,
        following: &mut Following,
        view: &ChainView,
    ) -> Result<()> {
        let Some(head) = view.tail.head() else {
            return Ok(());
        };
        if following.seen == Some(head.number) {
            return Ok(());
        }
        const SEEN: &str = "UPDATE processing_state SET last_seen_block = $2 WHERE chain_id = $1 \
            AND EXISTS (SELECT FROM leases WHERE chain_id = $1 AND kind = 'writer' AND epoch = $3 \
                AND holder IS NOT NULL FOR SHARE)";
        let client = self.database.client().await?;
        let newest = head.number as i64;
        let seen = client
            .execute(SEEN, &[&self.chain, &newest, &writer.epoch])
            .await;
        seen.tried("write down the newest block")?;
        following.seen = Some(head.number);
        Ok(())
    }
}

/// Whether something can be confirmed or dropped.
fn is_unsettled(following: &Following, view: &ChainView) -> bool {
    let Some(safe) = following.safe else {
        return true;
    };
    let head = view.finalized_head();
    if head.is_some_and(|head| head.number as i64 > safe) {
        return true;
    }
    let other = |(number, hash): (&u64, &Hash32)| {
        let block = view.tail.get(*number);
        block.is_none_or(|block| block.clock.hash != *hash)
    };
    following.pending.iter().any(other)
}
