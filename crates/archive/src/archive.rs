//! The archive's public API: open it, append finalized blocks, query it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use chronolith_model::{
    Block, BlockMeta, BlockRange, Dataset, DatasetSet, Hash32, LogFilter, Payload, Proof, Scope,
};
use chronolith_store::{BlobInfo, BlobStore, MetaStore, TakeOver};

use crate::error::{Error, Result};
use crate::health::HealthReport;
use crate::maintenance::gc::{self, GarbageReport, GcMode};
use crate::maintenance::repair::Purpose;
use crate::pinned::Pinned;
use crate::ranges::geometry::{Geometry, RangeReport};
use crate::read::compare::Difference;
use crate::read::hashes::TxLocation;
use crate::read::lookup::TimeSide;
use crate::read::query::LogPage;
use crate::settings::Settings;
use crate::state::head::View;
use crate::state::record::AuditEntry;
use crate::state::snapshot::Snapshot;
use crate::tools::inspect::{self, DamagedObject, Inspected, StoredObject};
use crate::write::append::{IngestOutcome, Provenance};
use crate::write::fill::Fill;
use crate::write::seal::Kept;
use crate::write::writer::Writer;

/// One chain's finalized history.
#[derive(Clone, Debug)]
pub struct Archive {
    view: Arc<View>,
    settings: Arc<Settings>,
    writer: Option<Arc<Writer>>,
    /// Numbers queries, so that traces of one can be distinguished from those of another.
    queries: Arc<AtomicU64>,
}

impl Archive {
    /// Opens an archive for reading. It may not exist yet.
    ///
    /// # Errors
    /// `StateLost` where there are objects and no state. When the store fails or what it holds is
    /// damaged or of a newer version.
    pub async fn open_reader(
        meta: Arc<dyn MetaStore>,
        blobs: Arc<dyn BlobStore>,
        settings: Settings,
    ) -> Result<Self> {
        let (cache, chain) = (settings.cache.clone(), settings.chain);
        let view = Arc::new(View::new(meta, blobs, cache, chain));
        view.begin().await?;
        Ok(Self {
            view,
            settings: Arc::new(settings),
            writer: None,
            queries: Arc::default(),
        })
    }

    /// Opens an archive for writing, creating it where there is none. Everything the state names
    /// is there again; nothing is scanned.
    ///
    /// # Errors
    /// `StateLost` where there are objects and no state. When another instance holds the lease and
    /// `take_over` says not to wait, or the store fails.
    pub async fn open_writer(
        meta: Arc<dyn MetaStore>,
        blobs: Arc<dyn BlobStore>,
        settings: Settings,
        take_over: TakeOver,
    ) -> Result<Self> {
        let settings = Arc::new(settings);
        let (cache, chain) = (settings.cache.clone(), settings.chain);
        let view = Arc::new(View::new(meta, blobs, cache, chain));
        let writer = Writer::open(view.clone(), settings.clone(), take_over).await?;
        Ok(Self {
            view,
            settings,
            writer: Some(Arc::new(writer)),
            queries: Arc::default(),
        })
    }

    fn writer(&self) -> Result<&Arc<Writer>> {
        self.writer.as_ref().ok_or(Error::ReadOnly)
    }

    /// Appends one finalized block.
    ///
    /// # Errors
    /// As [`Self::ingest_finalized_blocks`].
    pub async fn ingest_finalized_block(
        &self,
        block: impl Into<Arc<Block>>,
        provenance: &Provenance,
    ) -> Result<IngestOutcome> {
        self.ingest_finalized_blocks(vec![block.into()], provenance)
            .await
    }

    /// Appends finalized blocks at the end of the live run. A batch that overlaps the head is
    /// compared first and the rest appended; it is taken whole or not at all. Blocks that are shared
    /// are copied only where they hold more than is kept.
    ///
    /// # Errors
    /// `Gap`, `BadParent` and `BadBlock` for what does not fit, `FinalityViolation` (which halts
    /// the archive) for a replaced block, `Halted`, `Throttled`, `Fenced`, `Corrupt`, or `Store`.
    pub async fn ingest_finalized_blocks(
        &self,
        blocks: Vec<impl Into<Arc<Block>>>,
        provenance: &Provenance,
    ) -> Result<IngestOutcome> {
        let blocks = blocks.into_iter().map(Into::into).collect();
        self.writer()?.append(blocks, provenance).await
    }

    /// Does one step of maintenance: merges segments or runs, joins packs, or takes a range whose
    /// blocks are all there a step further. Returns whether there was something to do. Safe beside
    /// ingest. When ranges began and ended is not recorded: see [`Self::maintain_at`].
    ///
    /// # Errors
    /// `Throttled` while there is too much garbage, `Fenced`, `Corrupt` or `Store`; nothing is lost and the step can be tried again. What is
    /// corrupt in a range whose blocks are all there is recorded as its failure, and is no error.
    pub async fn maintain(&self) -> Result<bool> {
        self.maintain_at(0).await
    }

    /// The same at a time, in seconds since 1970, that is recorded where a range changes.
    ///
    /// # Errors
    /// As [`Self::maintain`].
    pub async fn maintain_at(&self, now: u64) -> Result<bool> {
        self.writer()?.maintain(now).await
    }

    /// Every range from the first to the last that has archived blocks, in order; those between them
    /// that have none are `Pending`. Of more than 1,024 such in a row the first 1,024 are listed.
    pub async fn ranges(&self) -> Vec<RangeReport> {
        match self.pin() {
            Some(pinned) => pinned.ranges().await,
            None => Vec::new(),
        }
    }

    /// Where ranges begin and how long they are: as the archive has them, or as the settings say
    /// while it has none.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        let pinned = self.pin();
        pinned.map_or_else(|| self.settings.seal.geometry(), |pinned| pinned.geometry())
    }

    /// Lets the transition of a range that failed run again. A run that is damaged or
    /// incomplete is rebuilt from its segments first. Recorded.
    ///
    /// # Errors
    /// `Invalid` where the range did not fail, `Corrupt` where a segment that a run is made from is
    /// damaged (repair that first), `ReadOnly`, `Fenced` or `Store`.
    pub async fn retry_range(&self, id: u64, audit: AuditEntry) -> Result<()> {
        self.writer()?.retry_range(id, audit).await
    }

    /// The logs that a filter wants, from one consistent state.
    ///
    /// # Errors
    /// `NotCovered` where any block of the range is missing, `TooLarge` with a range that works
    /// where a budget ran out, `Invalid`, `TooBroad`, `UnknownBlock`, `CursorConflict`, `Corrupt`
    /// or `Store`.
    pub async fn query_finalized(&self, filter: &LogFilter) -> Result<LogPage> {
        self.reading(async |pinned| pinned.query(filter).await)
            .await
    }

    /// Begins to fill a range of old blocks with what the settings keep. Several fills may run at
    /// the same time.
    ///
    /// # Errors
    /// `ReadOnly`, or `Invalid` for an empty range.
    pub fn fill(&self, range: BlockRange) -> Result<Fill> {
        let writer = self.writer()?;
        Fill::new(writer.clone(), range, writer.kept(), Purpose::Fill, None)
    }

    /// Begins to fill a range with other datasets or another scope, beside what is there.
    ///
    /// # Errors
    /// `ReadOnly`, or `Invalid` for an empty range.
    pub fn fill_with(&self, range: BlockRange, datasets: DatasetSet, scope: Scope) -> Result<Fill> {
        let kept = Kept { datasets, scope };
        Fill::new(self.writer()?.clone(), range, kept, Purpose::Fill, None)
    }

    /// Begins to rebuild a segment or a pack from its blocks, which are to be pushed. It replaces
    /// what is there when it is finished, if it has the same blocks and is proven no less, and its
    /// content is the same or proven further. Works on a halted archive too. Recorded.
    ///
    /// # Errors
    /// `ReadOnly`, or `Invalid` for a run: that one needs no blocks, see [`Self::rebuild_run`].
    pub fn repair(&self, object: &StoredObject, audit: AuditEntry) -> Result<Fill> {
        let kept = Kept {
            datasets: object.datasets,
            scope: object.scope.clone(),
        };
        let (writer, purpose) = (self.writer()?.clone(), Purpose::to_repair(object)?);
        Fill::new(writer, object.range, kept, purpose, Some(audit))
    }

    /// Begins to replace the segments and packs that hold blocks of an object, together, for where repairing
    /// it alone is refused since its content changes ([`Error::OtherContent`]). Every block of
    /// [`Fill::range`] is to be pushed: it holds those of all damaged objects that it meets. Recorded.
    ///
    /// # Errors
    /// `ReadOnly`, or `Invalid` for a run, and for a pack of segments with several scopes.
    pub fn repair_together(
        &self,
        object: &StoredObject,
        damaged: &[StoredObject],
        audit: AuditEntry,
    ) -> Result<Fill> {
        let writer = self.writer()?.clone();
        Fill::repairing_together(writer, self.view.current(), (object, damaged), audit)
    }

    /// Rebuilds a run from the segments that it is about. Recorded.
    ///
    /// # Errors
    /// `Invalid` where it is no longer there, `Corrupt` where one of its segments is damaged, `Fenced`
    /// or `Store`.
    pub async fn rebuild_run(&self, object: &StoredObject, audit: AuditEntry) -> Result<()> {
        self.writer()?.rebuild_run(&object.name, audit).await
    }

    /// Reads every object that holds blocks of the range, past the cache, and checks all of it.
    /// Returns those that are damaged or gone.
    ///
    /// # Errors
    /// `Corrupt` where the state or its catalog is damaged, or `Store`.
    pub async fn inspect(
        &self,
        range: BlockRange,
        progress: &mut (dyn FnMut(Inspected) + Send),
    ) -> Result<Vec<DamagedObject>> {
        inspect::inspect(&self.view, &range, progress).await
    }

    /// Whether the newest state known here still names an object.
    #[must_use]
    pub fn names(&self, object: &StoredObject) -> bool {
        self.view.current().is_some_and(|snapshot| {
            let mut named = snapshot.names();
            named.any(|name| name == object.name)
        })
    }

    /// The most that was proven of blocks of an object: what replaces it must reach as far.
    #[must_use]
    pub fn highest_level(&self, object: &StoredObject) -> Option<Proof> {
        let snapshot = self.view.current()?;
        let highest = snapshot.highest_level(&object.range, object.datasets);
        highest.map(|proof| self.settings.profile.reads(proof))
    }

    /// How far a segment records a block as proven.
    #[must_use]
    pub fn level_of(&self, segment: &StoredObject, number: u64) -> Option<Proof> {
        let snapshot = self.view.current()?;
        let mut holding = snapshot.holding(number);
        let entry = holding.find(|entry| entry.object.name == segment.name)?;
        let proof = entry.facts.level_within(&BlockRange::one(number))?;
        Some(self.settings.profile.reads(proof))
    }

    /// The segments that hold a block.
    #[must_use]
    pub fn segments_of(&self, number: u64) -> Vec<StoredObject> {
        let snapshot = self.view.current();
        let holding = snapshot
            .iter()
            .flat_map(|snapshot| snapshot.holding(number));
        holding.map(|entry| entry.described()).collect()
    }

    /// The packs that hold payload of a block.
    #[must_use]
    pub fn packs_of(&self, number: u64) -> Vec<StoredObject> {
        let snapshot = self.view.current();
        let packs = snapshot.iter().flat_map(|snapshot| snapshot.packs());
        packs
            .filter(|pack| pack.range.contains(number))
            .map(|pack| pack.described())
            .collect()
    }

    /// Ends a halt and keeps what is archived. Recorded with the given time and words.
    ///
    /// # Errors
    /// `ReadOnly`, `Fenced` or `Store`.
    pub async fn resume(&self, audit: AuditEntry) -> Result<()> {
        self.writer()?.resume(audit).await
    }

    /// Lets go of the objects that a rebuild of the state left undecided: from now on they are garbage
    /// like any other object that nothing names. Recorded.
    ///
    /// # Errors
    /// `ReadOnly`, `Fenced` or `Store`.
    pub async fn drop_undecided(&self, audit: AuditEntry) -> Result<()> {
        self.writer()?.drop_undecided(audit).await
    }

    /// Takes back every block after `to` in one swap, and ends a halt. Recorded.
    ///
    /// # Errors
    /// `Invalid` where `to` is not below the head of the live run; `Fenced`, `Corrupt` or `Store`.
    pub async fn rewind(&self, to: u64, audit: AuditEntry) -> Result<()> {
        self.writer()?.rewind(to, audit).await
    }

    /// Shows that this writer lives, where the store cannot tell: call it about three times in a
    /// lease's time to live while nothing is ingested.
    ///
    /// # Errors
    /// `Fenced` where another writer took over, or `Store`.
    pub async fn renew_lease(&self) -> Result<()> {
        self.writer()?.renew().await
    }

    /// Gives the lease back, so that the next writer need not wait.
    ///
    /// # Errors
    /// `ReadOnly`, `Fenced` or `Store`.
    pub async fn release(&self) -> Result<()> {
        self.writer()?.release().await
    }

    /// Lets go of whole segments below a block; returns how many. Recorded.
    ///
    /// # Errors
    /// `Invalid` where the block is after the head; `Fenced` or `Store`.
    pub async fn prune(&self, below: u64, audit: AuditEntry) -> Result<u64> {
        self.writer()?.prune(below, audit).await
    }

    /// Finds objects that nothing names and removes those that have outlived the grace period. A dry
    /// run works on an archive that is open for reading as well, and then writes nothing.
    ///
    /// # Errors
    /// `ReadOnly`, `Fenced` or `Store`.
    pub async fn collect_garbage(&self, how: GcMode) -> Result<GarbageReport> {
        match (&self.writer, how) {
            (None, GcMode::DryRun) => gc::look(&self.view).await,
            _ => self.writer()?.collect(how, &|_| None).await,
        }
    }

    /// The same for a process that has just begun and will not wait: what `ages` says of an object that
    /// nothing names counts as well as how long this process has seen it so.
    ///
    /// # Errors
    /// `ReadOnly`, `Fenced` or `Store`.
    pub async fn collect_garbage_by_age(
        &self,
        how: GcMode,
        ages: &(dyn Fn(&BlobInfo) -> Option<Duration> + Send + Sync),
    ) -> Result<GarbageReport> {
        self.writer()?.collect(how, ages).await
    }

    /// The last block of the covered prefix; none while the archive is empty.
    #[must_use]
    pub fn indexed_finalized_head(&self) -> Option<u64> {
        self.view
            .current()?
            .covered_prefix()
            .map(|range| range.end - 1)
    }

    /// Which blocks are covered for a set of datasets (and a filter's logs), with the level to which
    /// they were proven.
    #[must_use]
    pub fn coverage(
        &self,
        datasets: DatasetSet,
        filter: Option<&LogFilter>,
    ) -> Vec<(BlockRange, Proof)> {
        let pinned = self.pin();
        pinned
            .map(|pinned| pinned.coverage(datasets, filter))
            .unwrap_or_default()
    }

    /// Which blocks are archived with these datasets and this scope, with the level to which they were
    /// proven. The counterpart of [`Self::missing`].
    #[must_use]
    pub fn kept(&self, datasets: DatasetSet, scope: &Scope) -> Vec<(BlockRange, Proof)> {
        let pinned = self.pin();
        pinned
            .map(|pinned| pinned.kept(datasets, scope))
            .unwrap_or_default()
    }

    /// The blocks of a range of which these datasets and this scope are not archived, in order.
    #[must_use]
    pub fn missing(
        &self,
        range: BlockRange,
        datasets: DatasetSet,
        scope: &Scope,
    ) -> Vec<BlockRange> {
        match self.view.current() {
            Some(snapshot) => snapshot.missing(range, datasets, scope),
            None => vec![range],
        }
    }

    /// Hash over the content of the archived blocks of a range: equal content, equal root, however
    /// it was batched, filled, sealed and merged.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn content_root(&self, range: BlockRange) -> Result<Hash32> {
        self.reading(async |pinned| pinned.content_root(range).await)
            .await
    }

    /// How the archive is.
    #[must_use]
    pub fn health(&self) -> HealthReport {
        let snapshot = self.view.current();
        let rails = self.writer.as_ref().map(|writer| writer.guardrails.check());
        HealthReport::new(snapshot.as_deref(), rails)
    }

    /// A block with its transactions and logs, as it went in, without its payload.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn block(&self, number: u64) -> Result<Block> {
        self.reading(async |pinned| pinned.block(number).await)
            .await
    }

    /// Where a block from elsewhere differs from the archived one, in all that these datasets and this
    /// scope keep of it.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn difference(
        &self,
        theirs: &Block,
        datasets: DatasetSet,
        scope: &Scope,
    ) -> Result<Option<Difference>> {
        let kept = Kept {
            datasets,
            scope: scope.clone(),
        };
        self.reading(async |pinned| pinned.difference(theirs, &kept).await)
            .await
    }

    /// A pack that holds other payload of a block than its segment was made with, if there is one: what the
    /// segment says of the block, its level too, is not about that payload.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn misfit(&self, number: u64) -> Result<Option<StoredObject>> {
        self.reading(async |pinned| pinned.misfit(number).await)
            .await
    }

    /// A block's headers, bodies and raw bytes. `wanted` must be kept for it.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn payload(&self, number: u64, wanted: Dataset) -> Result<Payload> {
        self.reading(async |pinned| pinned.payload(number, wanted).await)
            .await
    }

    /// A block's header, as it came. Only the frames that hold it are read.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn header(&self, number: u64) -> Result<Bytes> {
        self.reading(async |pinned| pinned.header(number).await)
            .await
    }

    /// The body of one transaction, as it came. Only the frames that hold it are read: one, unless
    /// it is larger than one. The ordinal is its place in [`Block::txs`].
    ///
    /// # Errors
    /// `Invalid` where the block has no such transaction; `NotCovered`, `Corrupt` or `Store`.
    pub async fn body(&self, number: u64, ordinal: u32) -> Result<Bytes> {
        self.reading(async |pinned| pinned.body(number, ordinal).await)
            .await
    }

    /// A block's clock.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn block_by_number(&self, number: u64) -> Result<BlockMeta> {
        self.reading(async |pinned| pinned.block_by_number(number).await)
            .await
    }

    /// The block with a hash.
    ///
    /// # Errors
    /// `Corrupt` or `Store`.
    pub async fn block_by_hash(&self, hash: &Hash32) -> Result<Option<BlockMeta>> {
        self.reading(async |pinned| pinned.block_by_hash(hash).await)
            .await
    }

    /// The block at a time: `None` only where the chain's own first block is later.
    ///
    /// # Errors
    /// `NotCovered` where the block across the time is not archived; `Corrupt` or `Store`.
    pub async fn block_at(&self, time: u64, side: TimeSide) -> Result<Option<BlockMeta>> {
        self.reading(async |pinned| pinned.block_at(time, side).await)
            .await
    }

    /// Where the transaction with a hash is.
    ///
    /// # Errors
    /// `Corrupt` or `Store`.
    pub async fn transaction_by_hash(&self, hash: &Hash32) -> Result<Option<TxLocation>> {
        self.reading(async |pinned| pinned.transaction_by_hash(hash).await)
            .await
    }

    /// Looks for a newer state.
    ///
    /// # Errors
    /// When the store fails or the state is damaged.
    pub async fn refresh(&self) -> Result<()> {
        self.view.refresh().await.map(|_| ())
    }

    /// The archive as it is now: every call is answered from one published state. None
    /// while there is no state at all.
    #[must_use]
    pub fn pin(&self) -> Option<Pinned> {
        let snapshot = self.view.current()?;
        Some(self.pinned(snapshot))
    }

    fn pinned(&self, snapshot: Arc<Snapshot>) -> Pinned {
        Pinned {
            view: self.view.clone(),
            settings: self.settings.clone(),
            queries: self.queries.clone(),
            snapshot,
        }
    }

    /// Answers from the snapshot that is current now. Where an object is damaged or gone, the
    /// newest state is taken and all is tried once more: a reader's snapshot may have been collected.
    async fn reading<T>(&self, answer: impl AsyncFn(&Pinned) -> Result<T>) -> Result<T> {
        let empty = || Error::NotCovered {
            missing: BlockRange::one(0),
            covered: BlockRange::new(0, 0),
        };
        let pinned = self.pin().ok_or_else(empty)?;
        match answer(&pinned).await {
            Err(Error::Corrupt { object, reason }) => {
                tracing::warn!(
                    object,
                    reason,
                    "a stored object did not read; trying once more"
                );
                let newest = self.view.refresh().await?.ok_or_else(empty)?;
                answer(&self.pinned(newest)).await
            }
            other => other,
        }
    }
}
