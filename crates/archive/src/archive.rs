//! The archive's face: open it, feed it finalized blocks, ask it.

use std::sync::Arc;

use chronolith_model::{Block, BlockClock, Hash32, LogFilter};
use chronolith_store::{BlobStore, MetaStore, TakeOver};

use crate::error::{Error, Result};
use crate::read::lookup::{self, TimeSide, TxPlace};
use crate::read::objects::Objects;
use crate::read::query::{self, LogPage};
use crate::read::snapshot::Snapshot;
use crate::settings::Settings;
use crate::view::View;
use crate::write::append::{IngestOutcome, Provenance};
use crate::write::writer::Writer;

/// One chain's finalized history.
#[derive(Clone, Debug)]
pub struct Archive {
    view: Arc<View>,
    settings: Arc<Settings>,
    writer: Option<Arc<Writer>>,
}

impl Archive {
    /// Opens an archive for reading. It may not exist yet.
    ///
    /// # Errors
    /// When the store fails or what it holds is damaged or of a newer version.
    pub async fn open_reader(
        meta: Arc<dyn MetaStore>,
        blobs: Arc<dyn BlobStore>,
        settings: Settings,
    ) -> Result<Self> {
        let view = Arc::new(View::new(meta, Objects::new(blobs, settings.cache_bytes)));
        view.refresh().await?;
        Ok(Self {
            view,
            settings: Arc::new(settings),
            writer: None,
        })
    }

    /// Opens an archive for writing, creating it where there is none. Everything the state names
    /// is there again; nothing is scanned.
    ///
    /// # Errors
    /// When another instance holds the lease and `take_over` says not to wait, or the store fails.
    pub async fn open_writer(
        meta: Arc<dyn MetaStore>,
        blobs: Arc<dyn BlobStore>,
        settings: Settings,
        take_over: TakeOver,
    ) -> Result<Self> {
        let settings = Arc::new(settings);
        let view = Arc::new(View::new(meta, Objects::new(blobs, settings.cache_bytes)));
        let writer = Writer::open(view.clone(), settings.clone(), take_over).await?;
        Ok(Self {
            view,
            settings,
            writer: Some(Arc::new(writer)),
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
        block: Block,
        provenance: &Provenance,
    ) -> Result<IngestOutcome> {
        self.ingest_finalized_blocks(vec![block], provenance).await
    }

    /// Appends finalized blocks at the end of the live run. A batch that overlaps the head is
    /// compared first and the rest appended; it is taken whole or not at all.
    ///
    /// # Errors
    /// `Gap`, `BadParent` and `BadBlock` for what does not fit, `FinalityViolation` (which halts
    /// the archive) for a replaced block, `Halted`, `Throttled`, `Fenced`, `Corrupt`, or `Store`.
    pub async fn ingest_finalized_blocks(
        &self,
        blocks: Vec<Block>,
        provenance: &Provenance,
    ) -> Result<IngestOutcome> {
        self.writer()?.append(blocks, provenance).await
    }

    /// Does one step of maintenance: merges segments or runs, or joins packs. Returns whether there
    /// was something to do. Safe beside ingest.
    ///
    /// # Errors
    /// `Fenced`, `Corrupt` or `Store`; nothing is lost and the step can be tried again.
    pub async fn maintain(&self) -> Result<bool> {
        self.writer()?.maintain().await
    }

    /// The logs that a filter wants, from one consistent state.
    ///
    /// # Errors
    /// `NotCovered` where any block of the range is missing, `TooLarge` with a range that works
    /// where a budget ran out, `Invalid`, `TooBroad`, `UnknownBlock`, `CursorConflict`, `Corrupt`
    /// or `Store`.
    pub async fn query_finalized(&self, filter: &LogFilter) -> Result<LogPage> {
        let arity = self.settings.profile.topic_arity;
        self.reading(async |objects, snapshot| {
            query::query(objects, snapshot, filter, arity, &self.settings.limits).await
        })
        .await
    }

    /// The last block of the covered prefix; none while the archive is empty.
    #[must_use]
    pub fn indexed_finalized_head(&self) -> Option<u64> {
        self.view.current()?.head().map(|head| head.number)
    }

    /// A block's clock.
    ///
    /// # Errors
    /// `NotCovered`, `Corrupt` or `Store`.
    pub async fn block_by_number(&self, number: u64) -> Result<BlockClock> {
        self.reading(async |objects, snapshot| {
            lookup::block_by_number(objects, snapshot, number).await
        })
        .await
    }

    /// The block with a hash.
    ///
    /// # Errors
    /// `Corrupt` or `Store`.
    pub async fn block_by_hash(&self, hash: &Hash32) -> Result<Option<BlockClock>> {
        self.reading(async |objects, snapshot| lookup::block_by_hash(objects, snapshot, hash).await)
            .await
    }

    /// The block at a time: `None` only where the chain's own first block is later.
    ///
    /// # Errors
    /// `NotCovered` where the block across the time is not archived; `Corrupt` or `Store`.
    pub async fn block_at(&self, time: u64, side: TimeSide) -> Result<Option<BlockClock>> {
        self.reading(async |objects, snapshot| {
            lookup::block_at(objects, snapshot, time, side).await
        })
        .await
    }

    /// Where the transaction with a hash is.
    ///
    /// # Errors
    /// `Corrupt` or `Store`.
    pub async fn transaction_by_hash(&self, hash: &Hash32) -> Result<Option<TxPlace>> {
        self.reading(async |objects, snapshot| lookup::tx_by_hash(objects, snapshot, hash).await)
            .await
    }

    /// Looks for a newer state.
    ///
    /// # Errors
    /// When the store fails or the state is damaged.
    pub async fn refresh(&self) -> Result<()> {
        self.view.refresh().await.map(|_| ())
    }

    /// Answers from the snapshot that is current now. Where an object is damaged or gone, the
    /// newest state is taken and all is tried once more: a reader's snapshot may have been collected.
    async fn reading<T>(
        &self,
        answer: impl AsyncFn(&Objects, &Snapshot) -> Result<T>,
    ) -> Result<T> {
        let empty = || Error::NotCovered {
            missing: chronolith_model::BlockRange::one(0),
            covered: chronolith_model::BlockRange::new(0, 0),
        };
        let snapshot = self.view.current().ok_or_else(empty)?;
        match answer(&self.view.objects, &snapshot).await {
            Err(Error::Corrupt { object, reason }) => {
                tracing::warn!(
                    object,
                    reason,
                    "a stored object did not read; trying once more"
                );
                let newest = self.view.refresh().await?.ok_or_else(empty)?;
                answer(&self.view.objects, &newest).await
            }
            other => other,
        }
    }
}
