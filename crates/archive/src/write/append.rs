//! Appending: finalized blocks at the end of the live run.

use std::sync::Arc;

use chronolith_model::{Block, BlockRange, BlockRef, Hash32, Proof};
use tokio::time::Instant;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::check::{check_links, check_parent, contiguous, normalise, prepare};
use super::dictionary::Learner;
use super::edit::{Edit, ExpectedHead};
use super::rows::Rows;
use super::seal::Kept;
use super::seal_task::{SealJob, Sealed};
use super::writer::Writer;
use crate::error::{Error, Result, outcome_name};
use crate::format::compress::Packer;
use crate::format::digest::digest_of;
use crate::read::lookup::missing;
use crate::state::catalog::SegmentEntry;
use crate::state::record::{Halt, LiveRun};
use crate::state::snapshot::{Need, Snapshot};

const HEAD_MOVED: &str = "the head moved under the appender";

/// Where blocks come from and how far they were proven.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// How far they were proven.
    pub proof: Proof,
    /// Who delivered them; named in a halt.
    pub source: String,
    /// Now, in seconds since 1970; recorded in a halt, and where a range begins or ends. 0 where it
    /// is not known.
    pub now: u64,
}

impl Default for Provenance {
    fn default() -> Self {
        Self {
            proof: Proof::CLAIMED,
            source: "unnamed".to_owned(),
            now: 0,
        }
    }
}

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IngestOutcome {
    /// New blocks are durable and visible; this is the head now.
    Appended {
        /// The newest block.
        head: BlockRef,
        /// How many blocks were new.
        blocks: u64,
    },
    /// Every block was there already, with the same content.
    AlreadyIndexed,
    /// A block is archived with the same hash and other content. Nothing of the batch was taken.
    ContentConflict {
        block: BlockRef,
        /// The digest of what is archived.
        archived: Hash32,
        /// The digest of what was offered.
        offered: Hash32,
    },
}

/// The unsealed blocks, as the appender keeps them between batches.
#[derive(Debug, Default)]
pub(crate) struct Appender {
    /// None after a failure: they are read back before the next batch.
    rows: Option<Rows>,
    packer: Option<Arc<Packer>>,
    seals_with_packer: u32,
    /// The dictionary of the newest pack.
    learner: Option<Learner>,
}

impl Appender {
    /// Forgets what is in memory: the state is the truth.
    pub(crate) fn forget(&mut self) {
        self.rows = None;
    }
}

/// What is known of the beginning of a batch.
enum Prefix {
    /// So many of its blocks are archived, with the same content.
    Known(usize),
    /// It is settled by them.
    Outcome(IngestOutcome),
}

impl Writer {
    /// Appends finalized blocks. Durable and visible when it returns `Appended`.
    pub(crate) async fn append(
        &self,
        blocks: Vec<Arc<Block>>,
        provenance: &Provenance,
    ) -> Result<IngestOutcome> {
        let started = Instant::now();
        let logs: usize = blocks.iter().map(|block| block.logs.len()).sum();
        let span = tracing::debug_span!(
            "archive.append",
            chain = self.settings.chain.0,
            blocks = blocks.len(),
            logs,
            outcome = Empty,
        );
        let appending = self.append_batch(blocks, provenance);
        let outcome = appending.instrument(span.clone()).await;
        span.record("outcome", outcome_name(&outcome));
        let meters = &self.view.objects.meters;
        if let Ok(IngestOutcome::Appended { blocks, .. }) = outcome {
            let seconds = started.elapsed().as_secs_f64();
            meters.ingest_seconds.record(seconds);
            meters
                .ingest_block_seconds
                .record(seconds / blocks.max(1) as f64);
        }
        if let Err(Error::Corrupt { object, reason }) = &outcome {
            match self.halt_for_damage(object, reason, provenance).await {
                // Another writer took over: what is gone here may be what it collected.
                Err(fenced @ Error::Fenced { .. }) => return Err(fenced),
                // Which object is damaged matters more than that the halt could not be stored.
                Err(error) => tracing::error!(%error, "the halt could not be published"),
                Ok(()) => {}
            }
        }
        outcome
    }

    /// Nothing is built on what is damaged: ingest stops until an operator has looked. Serving
    /// continues.
    async fn halt_for_damage(
        &self,
        object: &str,
        reason: &str,
        provenance: &Provenance,
    ) -> Result<()> {
        tracing::error!(object, reason, "ingest needs an object that is damaged");
        let halt = Halt {
            reason: format!("{object} is damaged: {reason}"),
            archived: None,
            offered: None,
            source: provenance.source.clone(),
            at: provenance.now,
        };
        self.publisher.halt(halt).await
    }

    async fn append_batch(
        &self,
        mut blocks: Vec<Arc<Block>>,
        provenance: &Provenance,
    ) -> Result<IngestOutcome> {
        let mut appender = self.appender.lock().await;
        let mut snapshot = self.publisher.settled().await?;
        self.check_may_ingest(&snapshot)?;
        let kept = self.kept();
        check_links(&blocks)?;
        let known = match self.known_prefix(&snapshot, &blocks, provenance).await? {
            Prefix::Known(known) => known,
            Prefix::Outcome(outcome) => return Ok(outcome),
        };
        blocks.drain(..known);
        let changed = |batch: &Arc<SegmentEntry>| !kept.is_of(&batch.facts);
        if snapshot.state.batches.iter().any(changed) || !contiguous(&snapshot) {
            self.seal_unsealed(&mut appender, &snapshot).await?;
            snapshot = self.publisher.settled().await?;
        }
        for block in &mut blocks {
            prepare(block, &kept, &self.settings.profile)?;
        }
        self.append_new(&mut appender, &snapshot, blocks, (kept, provenance))
            .await
    }

    /// How many of the blocks are archived already, or what becomes of the batch because of them.
    async fn known_prefix(
        &self,
        snapshot: &Snapshot,
        blocks: &[Arc<Block>],
        provenance: &Provenance,
    ) -> Result<Prefix> {
        let first = blocks.first().map(|block| block.clock);
        let first = first.ok_or_else(|| Error::Invalid("empty batch".to_owned()))?;
        let got = first.number;
        let Some(live) = snapshot.state.live else {
            if let Some(start) = self.settings.start_block
                && !self.may_begin(snapshot, start, got)
            {
                let filled = snapshot
                    .covered_prefix()
                    .filter(|range| range.start <= start);
                let expected = filled.map_or(start, |range| range.end.max(start));
                return Err(Error::Gap { expected, got });
            }
            self.check_fills_around(snapshot, blocks).await?;
            return Ok(Prefix::Known(0));
        };
        let expected = live.head.number + 1;
        if got > expected {
            return Err(Error::Gap { expected, got });
        }
        let conflict = self
            .compare_known(snapshot, blocks, &live, provenance)
            .await?;
        if let Some(conflict) = conflict {
            return Ok(Prefix::Outcome(conflict));
        }
        let known = usize::try_from(expected - got).unwrap_or(usize::MAX);
        if known >= blocks.len() {
            return Ok(Prefix::Outcome(IngestOutcome::AlreadyIndexed));
        }
        if known == 0 {
            check_parent(got, first.parent_hash, live.head.hash)?;
        }
        self.compare_with_fills(snapshot, blocks, provenance)
            .await?;
        Ok(Prefix::Known(known))
    }

    /// Whether the live run may begin with a block: with the one that the archive must begin with,
    /// right after what was filled, or with the first block of a later range.
    fn may_begin(&self, snapshot: &Snapshot, start: u64, got: u64) -> bool {
        let before = got.checked_sub(1);
        let behind_fill =
            before.is_some_and(|before| snapshot.best_at(before, &Need::CLOCK).is_some());
        let begins_range = got > start && self.settings.seal.range_begins(got);
        got == start || behind_fill || begins_range
    }

    /// New blocks must be those that fills have put after the head, where there are such.
    async fn compare_with_fills(
        &self,
        snapshot: &Snapshot,
        blocks: &[Arc<Block>],
        provenance: &Provenance,
    ) -> Result<()> {
        let reach = snapshot
            .segments
            .iter()
            .map(|entry| entry.facts.range.end)
            .max();
        let head = snapshot.head().map_or(0, |head| head.number);
        for block in blocks.iter().filter(|block| block.clock.number > head) {
            if reach.is_none_or(|reach| block.clock.number >= reach) {
                break;
            }
            let Some(entry) = snapshot.best_at(block.clock.number, &Need::CLOCK) else {
                continue;
            };
            let segment = self.view.objects.open(&entry.object).await?;
            let archived = self
                .view
                .objects
                .clock(&segment, block.clock.number)
                .await?;
            if let Some(archived) = archived.filter(|clock| clock.hash != block.clock.hash) {
                self.violated(archived.block_ref(), block.clock.hash, provenance)
                    .await?;
            }
        }
        Ok(())
    }

    /// The first batch of a live run must link to what fills have put before it, and must not run
    /// into what they have put there.
    async fn check_fills_around(&self, snapshot: &Snapshot, blocks: &[Arc<Block>]) -> Result<()> {
        for block in blocks {
            let number = block.clock.number;
            if let Some(entry) = snapshot.best_at(number, &Need::CLOCK) {
                return Err(Error::Gap {
                    expected: entry.facts.range.end,
                    got: number,
                });
            }
        }
        let Some(first) = blocks.first().map(|block| block.clock) else {
            return Ok(());
        };
        let before = first
            .number
            .checked_sub(1)
            .and_then(|number| snapshot.best_at(number, &Need::CLOCK));
        match before {
            Some(entry) => check_parent(first.number, first.parent_hash, entry.facts.last_hash),
            None => Ok(()),
        }
    }

    fn check_may_ingest(&self, snapshot: &Snapshot) -> Result<()> {
        match &snapshot.state.halt {
            Some(halt) => Err(Error::Halted {
                reason: halt.reason.clone(),
            }),
            None => self.guardrails.check(),
        }
    }

    /// Compares the blocks at or below the head with what is archived.
    async fn compare_known(
        &self,
        snapshot: &Snapshot,
        blocks: &[Arc<Block>],
        live: &LiveRun,
        provenance: &Provenance,
    ) -> Result<Option<IngestOutcome>> {
        let objects = &self.view.objects;
        for block in blocks
            .iter()
            .take_while(|block| block.clock.number <= live.head.number)
        {
            let number = block.clock.number;
            let pieces = snapshot.select(&BlockRange::one(number), &Need::CLOCK)?;
            for piece in pieces {
                let segment = objects.open(&piece.entry.object).await?;
                let archived = objects.clock(&segment, number).await?;
                let archived = archived.ok_or_else(|| missing(&segment, number))?;
                let archived = archived.block_ref();
                if archived.hash != block.clock.hash {
                    return self.violated(archived, block.clock.hash, provenance).await;
                }
                let mut same = Block::clone(block);
                normalise(&mut same, &Kept::of(&piece.entry.facts));
                let offered = digest_of(&same);
                let archived = objects.digest(&segment, number).await?;
                if offered != archived {
                    let block = block.clock.block_ref();
                    return Ok(Some(IngestOutcome::ContentConflict {
                        block,
                        archived,
                        offered,
                    }));
                }
            }
        }
        Ok(None)
    }

    /// A finalized block was replaced: halts the archive, then returns the error.
    async fn violated(
        &self,
        archived: BlockRef,
        offered: Hash32,
        provenance: &Provenance,
    ) -> Result<Option<IngestOutcome>> {
        let halt = Halt {
            reason: format!("finalized block {} was replaced", archived.number),
            archived: Some(archived),
            offered: Some(offered),
            source: provenance.source.clone(),
            at: provenance.now,
        };
        self.publisher.halt(halt).await?;
        Err(Error::FinalityViolation { archived, offered })
    }

    async fn append_new(
        &self,
        appender: &mut Appender,
        snapshot: &Snapshot,
        blocks: Vec<Arc<Block>>,
        (kept, provenance): (Kept, &Provenance),
    ) -> Result<IngestOutcome> {
        let rows = match appender.rows.take() {
            Some(rows) => rows,
            None => self.read_unsealed(snapshot).await?,
        };
        let count = blocks.len() as u64;
        // Those that are kept of blocks that are new: more may have been offered.
        let logs: usize = blocks.iter().map(|block| block.logs.len()).sum();
        let batches = &snapshot.state.batches;
        let job = SealJob {
            rows,
            blocks,
            level: provenance.proof,
            kept: kept.clone(),
            settings: self.settings.seal.clone(),
            packer: appender.packer.clone(),
            seals_with_packer: appender.seals_with_packer,
            learner: appender.learner.clone().unwrap_or_else(|| self.learner()),
            batches: batches
                .iter()
                .map(|batch| batch.facts.range.start)
                .collect(),
            weights: batches.iter().map(|batch| batch.facts.weight()).collect(),
        };
        let mut done = job.run_aside().await?;
        let last = done.rows.blocks.last().map(|block| block.clock);
        let last = last.ok_or_else(|| Error::Invalid("empty batch".to_owned()))?;
        let (head, head_timestamp) = (last.block_ref(), last.timestamp);
        let start = last.number + 1 - count;
        let start = snapshot.state.live.map_or(start, |live| live.start);
        let mut edit = Edit {
            expected_head: ExpectedHead::Exactly(snapshot.head()),
            live: Some(LiveRun {
                start,
                head,
                head_timestamp,
            }),
            kept: Some(kept),
            now: provenance.now,
            ..Edit::default()
        };
        let replaced = batches.iter().skip(done.first_replaced);
        edit.remove_all(replaced.map(|batch| &batch.object));
        self.upload_all(&mut done, &mut edit).await?;
        self.publisher.publish_or(edit, HEAD_MOVED).await?;
        done.rows.drop_front(done.sealed_blocks);
        appender.rows = Some(done.rows);
        appender.packer = done.packer;
        appender.seals_with_packer = done.seals_with_packer;
        appender.learner = Some(done.learner);
        let meters = &self.view.objects.meters;
        meters.ingested_blocks.increment(count);
        meters.ingested_logs.increment(logs as u64);
        Ok(IngestOutcome::Appended {
            head,
            blocks: count,
        })
    }

    /// Uploads what was built and adds it to the edit.
    async fn upload_all(&self, done: &mut Sealed, edit: &mut Edit) -> Result<()> {
        let mut uploads = Vec::new();
        for built in done.sealed.drain(..) {
            edit.segments.push(self.upload(built, 1, &mut uploads));
        }
        if let Some(built) = done.batch.take() {
            edit.batches.push(self.upload(built, 0, &mut uploads));
        }
        for pack in done.packs.drain(..) {
            edit.batch_packs.push(self.upload_pack(pack, &mut uploads));
        }
        edit.uploads.extend(self.put_all(uploads).await?);
        Ok(())
    }

    /// Seals what is unsealed as it is. Needed before blocks of which something else is kept can
    /// follow: a segment keeps the same of all of its blocks.
    async fn seal_unsealed(&self, appender: &mut Appender, snapshot: &Snapshot) -> Result<()> {
        appender.forget();
        let mut edit = Edit {
            expected_head: ExpectedHead::Exactly(snapshot.head()),
            ..Edit::default()
        };
        for batch in &snapshot.state.batches {
            self.seal_batch(batch, &mut edit).await;
        }
        self.publisher.publish_or(edit, HEAD_MOVED).await
    }

    /// Reads the unsealed blocks back from their batches.
    async fn read_unsealed(&self, snapshot: &Snapshot) -> Result<Rows> {
        let mut rows = Rows::new(self.term_key);
        for batch in &snapshot.state.batches {
            self.read_rows(batch, batch.facts.range, &mut rows).await?;
        }
        Ok(rows)
    }

    /// Reads blocks of a segment to the end of the rows.
    pub(crate) async fn read_rows(
        &self,
        entry: &SegmentEntry,
        range: BlockRange,
        rows: &mut Rows,
    ) -> Result<()> {
        let objects = &self.view.objects;
        let segment = objects.open(&entry.object).await?;
        for number in range.start..range.end {
            let block = objects.block(&segment, number).await?;
            let digest = objects.digest(&segment, number).await?;
            let level = entry.facts.level_within(&BlockRange::one(number));
            let level = level.expect("levels fill the range of their segment");
            rows.push_known(&block, level, digest);
        }
        Ok(())
    }
}
