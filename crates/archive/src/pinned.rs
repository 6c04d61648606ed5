//! The archive at one moment: every call is answered from one published state.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use chronolith_model::{
    Block, BlockMeta, BlockRange, BlockRef, Dataset, DatasetSet, Hash32, LogFilter, Payload, Proof,
    Scope, Tx, Verification,
};
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::ranges::geometry::{Geometry, RangeReport};
use crate::ranges::report;
use crate::read::compare::{self, Difference};
use crate::read::hashes::{self, TxLocation};
use crate::read::lookup::{self, BlockTime, TimeSide};
use crate::read::matcher::TermIds;
use crate::read::objects::Objects;
use crate::read::origin;
use crate::read::payload;
use crate::read::query::{self, AnswerMemory, LogPage, Uncounted};
use crate::settings::Settings;
use crate::state::head::View;
use crate::state::record::AuditEntry;
use crate::state::snapshot::{Need, Snapshot};
use crate::tools::inspect::StoredObject;
use crate::write::seal::Kept;

/// One published state of an archive. What it names is not collected by this process while this is
/// held; another process may collect it after the grace period, and then reads return `Corrupt`.
#[derive(Clone, Debug)]
pub struct Pinned {
    pub(crate) view: Arc<View>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// Numbers queries, so that traces of one can be distinguished from those of another.
    pub(crate) queries: Arc<AtomicU64>,
}

impl Pinned {
    fn objects(&self) -> &Objects {
        &self.view.objects
    }

    /// The newest block.
    #[must_use]
    pub fn head(&self) -> Option<BlockRef> {
        self.snapshot.head()
    }

    /// The newest block's time.
    #[must_use]
    pub fn head_timestamp(&self) -> Option<u64> {
        self.snapshot.state.live.map(|live| live.head_timestamp)
    }

    /// The latest time of any covered block. Where times do not fall it is that of the newest one.
    #[must_use]
    pub fn latest_timestamp(&self) -> Option<u64> {
        let last = self.snapshot.clock_runs().last()?;
        last.reached.last().copied()
    }

    /// The last acts of operators, the newest last. Beside them only fills change what is answered: see
    /// [`Self::origin`].
    #[must_use]
    pub fn audit(&self) -> &[AuditEntry] {
        &self.snapshot.state.audit
    }

    /// The blocks from the first one on, up to the first gap.
    #[must_use]
    pub fn covered_prefix(&self) -> Option<BlockRange> {
        self.snapshot.covered_prefix()
    }

    /// The covered blocks around one, as far as no block is missing.
    #[must_use]
    pub fn covered_around(&self, number: u64) -> Option<BlockRange> {
        let runs = self.snapshot.clock_runs();
        let after = runs.partition_point(|run| run.range.end <= number);
        let run = runs.get(after).map(|run| run.range);
        run.filter(|range| range.contains(number))
    }

    /// Which blocks are covered for a set of datasets (and a filter's logs), with the level to which
    /// they were proven. With a filter, `transactions` without `tx_hashes` are those that its logs name.
    #[must_use]
    pub fn coverage(
        &self,
        datasets: DatasetSet,
        filter: Option<&LogFilter>,
    ) -> Vec<(BlockRange, Proof)> {
        // Without a filter, all logs are meant, and all transactions.
        let every_log = LogFilter::over(BlockRange::new(0, 0));
        let datasets = match filter {
            None if datasets.bodies_by_logs() => datasets.with(Dataset::TxHashes),
            _ => datasets,
        };
        let filter = filter.or(Some(&every_log).filter(|_| datasets.contains(Dataset::Logs)));
        let covered = self
            .snapshot
            .coverage(&Need { datasets, filter })
            .into_iter();
        covered
            .map(|(range, proof)| (range, self.settings.profile.reads(proof)))
            .collect()
    }

    /// Which blocks are archived with these datasets and this scope, as
    /// [`Archive::kept`](crate::Archive::kept).
    #[must_use]
    pub fn kept(&self, datasets: DatasetSet, scope: &Scope) -> Vec<(BlockRange, Proof)> {
        let kept = self.snapshot.kept(datasets, scope).into_iter();
        kept.map(|(range, proof)| (range, self.settings.profile.reads(proof)))
            .collect()
    }

    /// How far a block is proven with these datasets and a filter's logs: the lowest level, where
    /// it is archived more than once. None where it is not archived with them.
    #[must_use]
    pub fn proof_of(&self, number: u64, datasets: DatasetSet, filter: &LogFilter) -> Option<Proof> {
        let filter = Some(filter);
        let proof = self.snapshot.proof_of(number, &Need { datasets, filter });
        proof.map(|proof| self.settings.profile.reads(proof))
    }

    /// Whether everything that holds a block holds all that sources deliver of it: its header, every log and every
    /// transaction. Nothing wider can be archived beside it then, so only an act of an operator changes what is read
    /// of it.
    #[must_use]
    pub fn is_whole(&self, number: u64) -> bool {
        use Dataset::{Headers, Logs, Transactions, TxHashes};
        let all = DatasetSet::of(&[Headers, Logs, TxHashes, Transactions]);
        let mut holding = self.snapshot.holding(number).peekable();
        holding.peek().is_some()
            && holding
                .all(|entry| entry.facts.datasets.covers(all) && entry.facts.scope == Scope::All)
    }

    /// How far the hashes of a block's transactions are proven: the lowest level, where they are archived more than
    /// once. None where they are not.
    #[must_use]
    pub fn level_of_tx_hashes(&self, number: u64) -> Option<Verification> {
        let listed = Need {
            datasets: DatasetSet::of(&[Dataset::TxHashes]),
            filter: None,
        };
        let proof = self.snapshot.proof_of(number, &listed)?;
        Some(self.settings.profile.reads(proof).txs())
    }

    /// Names the copies of a range's blocks from which a filter's logs are read. It changes with every fill that may change
    /// them, which [`Self::audit`] does not have, and with no merge. No object is read.
    ///
    /// # Errors
    /// `NotCovered` where any block of the range is missing.
    pub fn origin(&self, range: &BlockRange, filter: &LogFilter) -> Result<Hash32> {
        origin::origin(&self.snapshot, range, filter)
    }

    /// The logs that a filter wants.
    ///
    /// # Errors
    /// As [`Archive::query_finalized`](crate::Archive::query_finalized).
    pub async fn query(&self, filter: &LogFilter) -> Result<LogPage> {
        self.query_within(filter, &mut Uncounted).await
    }

    /// The same, while its logs are counted: of many large answers at once, those that find no memory fail.
    ///
    /// # Errors
    /// As [`Self::query`], and `NoMemory`.
    pub async fn query_within<M: AnswerMemory>(
        &self,
        filter: &LogFilter,
        memory: &mut M,
    ) -> Result<LogPage> {
        let started = Instant::now();
        let query_id = self.queries.fetch_add(1, Ordering::Relaxed);
        let (objects, snapshot) = (self.objects(), &self.snapshot);
        let answer = query::query(objects, snapshot, filter, &self.settings.limits, memory);
        let answer = answer.await;
        let profile = &self.settings.profile;
        let answer = answer.map(|page| LogPage {
            level: page.level.map(|proof| profile.reads(proof)),
            ..page
        });
        let (elapsed, meters) = (started.elapsed(), &objects.meters);
        meters.query_seconds.record(elapsed.as_secs_f64());
        match &answer {
            Ok(page) => {
                meters.query_candidates.record(page.cost.candidates as f64);
                let (logs, candidates) = (page.logs.len(), page.cost.candidates);
                let stream_id = TermIds(filter);
                tracing::debug!(query_id, range = %page.range, %stream_id, logs, candidates, ?elapsed, "query");
            }
            Err(error) => tracing::debug!(query_id, %error, ?elapsed, "query refused"),
        }
        answer
    }

    /// A block's clock.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn block_by_number(&self, number: u64) -> Result<BlockMeta> {
        lookup::block_by_number(self.objects(), &self.snapshot, number).await
    }

    /// The block with a hash.
    ///
    /// # Errors
    /// `Corrupt` or `Store`.
    pub async fn block_by_hash(&self, hash: &Hash32) -> Result<Option<BlockMeta>> {
        hashes::block_by_hash(self.objects(), &self.snapshot, hash).await
    }

    /// The block at a time: `None` only where the chain's own first block is later.
    ///
    /// # Errors
    /// `NotCovered` where the block across the time is not archived; `Corrupt` or `Store`.
    pub async fn block_at(&self, time: u64, side: TimeSide) -> Result<Option<BlockMeta>> {
        let first = self.settings.seal.first_block;
        lookup::block_at(self.objects(), &self.snapshot, first, (time, side)).await
    }

    /// Number and time of the block at a time, as [`Self::block_at`], which reads its hash besides:
    /// hashes take far more memory than times, so most of them have to be read.
    ///
    /// # Errors
    /// As [`Self::block_at`].
    pub async fn number_at(&self, time: u64, side: TimeSide) -> Result<Option<BlockTime>> {
        let first = self.settings.seal.first_block;
        lookup::number_at(self.objects(), &self.snapshot, first, (time, side)).await
    }

    /// Where the transaction with a hash is.
    ///
    /// # Errors
    /// `NotCovered` where it may be among blocks whose transactions are not listed; `Corrupt` or
    /// `Store`.
    pub async fn transaction_by_hash(&self, hash: &Hash32) -> Result<Option<TxLocation>> {
        hashes::tx_by_hash(self.objects(), &self.snapshot, hash).await
    }

    /// A block with its transactions and logs, as it went in, without its payload.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn block(&self, number: u64) -> Result<Block> {
        lookup::block(self.objects(), &self.snapshot, number).await
    }

    /// All transactions of a block, in order; second hashes of some of them come last. `tx_hashes` must be kept for it.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn transactions(&self, number: u64) -> Result<Vec<Tx>> {
        lookup::transactions(self.objects(), &self.snapshot, number).await
    }

    /// A block's headers, bodies and raw bytes. `wanted` must be kept for it, and of transactions the
    /// bodies of all.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn payload(&self, number: u64, wanted: Dataset) -> Result<Payload> {
        payload::payload(self.objects(), &self.snapshot, number, wanted).await
    }

    /// Every range from the first to the last that has archived blocks, in order; those between them
    /// that have none are `Pending`. Of more than 1,024 such in a row the first 1,024 are listed.
    pub async fn ranges(&self) -> Vec<RangeReport> {
        report::reports(self.objects(), &self.snapshot, &self.settings.seal).await
    }

    /// Where ranges begin and how long they are.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        report::geometry(&self.snapshot, &self.settings.seal)
    }

    /// A block's header, as it came. Only the frames that hold it are read.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn header(&self, number: u64) -> Result<Bytes> {
        payload::header(self.objects(), &self.snapshot, number).await
    }

    /// The body of one transaction, as it came. Only the frames that hold it are read: one, unless
    /// it is larger than one. The ordinal is its place in [`Block::txs`].
    ///
    /// # Errors
    /// `Invalid` where the block has no such transaction; `NotCovered`, `Corrupt` or `Store`.
    pub async fn body(&self, number: u64, ordinal: u32) -> Result<Bytes> {
        let wanted = ordinal..ordinal.saturating_add(1);
        let found = self.bodies(number, wanted).await?.into_iter().next();
        let missing = || format!("block {number} has no transaction {ordinal}");
        found.ok_or_else(|| Error::Invalid(missing()))
    }

    /// The bodies of some transactions of a block, by their places in [`Block::txs`]; fewer where it
    /// has fewer.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn bodies(&self, number: u64, ordinals: Range<u32>) -> Result<Vec<Bytes>> {
        payload::bodies(self.objects(), &self.snapshot, number, ordinals).await
    }

    /// The bodies of all transactions that logs of a filter name, in order. There may be others among
    /// them. The filter's range is not looked at.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn bodies_of_logs(&self, number: u64, filter: &LogFilter) -> Result<Vec<Bytes>> {
        payload::bodies_of_logs(self.objects(), &self.snapshot, number, filter).await
    }

    /// The body of the transaction at a position of a block, wherever it is kept.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn body_at(&self, number: u64, index: u32) -> Result<Bytes> {
        payload::body_at(self.objects(), &self.snapshot, number, index).await
    }

    pub(crate) async fn content_root(&self, range: BlockRange) -> Result<Hash32> {
        lookup::content_root(self.objects(), &self.snapshot, &range).await
    }

    pub(crate) async fn misfit(&self, number: u64) -> Result<Option<StoredObject>> {
        compare::misfit(self.objects(), &self.snapshot, number).await
    }

    pub(crate) async fn difference(
        &self,
        theirs: &Block,
        kept: &Kept,
    ) -> Result<Option<Difference>> {
        compare::difference(self.objects(), &self.snapshot, theirs, kept).await
    }
}
