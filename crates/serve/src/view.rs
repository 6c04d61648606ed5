//! A view of a served chain, from which every answer is made: a [`ChainView`], and what is known to be
//! missing from it.

use std::ops::Deref;
use std::time::Duration;

use chronolith_archive::{Error as ArchiveError, TxLocation};
use chronolith_chain_view::{ChainView, Location, Unsettled};
use chronolith_model::{BlockMeta, BlockRange, BlockRef, DatasetSet, Hash32};

use crate::chain::ServedChain;
use crate::error::ApiError;
use crate::fault::{Fault, Retry};

/// A block that the source just announced is indexed within a second, or something is wrong.
const RETRIES_MAX: u32 = 50;
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// A consistent view of a served chain.
pub(crate) struct View<'a> {
    pub(crate) chain: &'a ServedChain,
    pub(crate) at: ChainView,
}

impl Deref for View<'_> {
    type Target = ChainView;

    fn deref(&self) -> &ChainView {
        &self.at
    }
}

impl<'a> View<'a> {
    pub(crate) async fn take(chain: &'a ServedChain) -> Result<View<'a>, Fault> {
        let taken = ChainView::take(&chain.archive, chain.live.clone()).await;
        let at = taken.map_err(|Unsettled| Fault::Unsettled)?;
        Ok(Self { chain, at })
    }

    /// A newer view, where it may give another answer than this error.
    pub(crate) async fn retry(chain: &'a ServedChain, error: ApiError) -> Result<Self, ApiError> {
        match error.retry {
            Retry::NewerState => {
                chain.archive.refresh().await?;
                Ok(View::take(chain).await?)
            }
            Retry::Indexed => View::at_source_head(chain).await?.ok_or(error),
            Retry::No | Retry::LessBusy | Retry::Later => Err(error),
        }
    }

    /// A view with the source's newest block, if that is indexed soon.
    async fn at_source_head(chain: &'a ServedChain) -> Result<Option<View<'a>>, Fault> {
        for _ in 0..RETRIES_MAX {
            tokio::time::sleep(RETRY_PAUSE).await;
            let view = View::take(chain).await?;
            if view.is_at_source_head() {
                return Ok(Some(view));
            }
        }
        Ok(None)
    }

    /// The newest block, or an error where there is none.
    pub(crate) fn known_head(&self) -> Result<BlockRef, Fault> {
        self.head().ok_or(Fault::Empty)
    }

    /// Where a block is; none above the head.
    pub(crate) fn location(&self, number: u64) -> Result<Option<Location<'_>>, Fault> {
        self.known_head()?;
        let start = self.tail_start();
        match self.locate(number) {
            None if number < start => Err(ArchiveError::NotCovered {
                missing: BlockRange::new(0, start),
                covered: BlockRange::new(start, start),
            }
            .into()),
            found => Ok(found),
        }
    }

    /// A block's clock; none above the head.
    pub(crate) async fn clock(&self, number: u64) -> Result<Option<BlockMeta>, Fault> {
        match self.location(number)? {
            None => Ok(None),
            Some(Location::Tail(block)) => Ok(Some(block.clock)),
            Some(Location::Archive(archive)) => Ok(Some(archive.block_by_number(number).await?)),
        }
    }

    /// The block with a hash. None only where every block through the head is known: else it may be one of
    /// the others.
    pub(crate) async fn find_block(&self, hash: &Hash32) -> Result<Option<BlockMeta>, Fault> {
        if let Some(clock) = self.find_in_tail(hash) {
            return Ok(Some(clock));
        }
        let archived = match &self.archive {
            Some(archive) => archive.block_by_hash(hash).await?,
            None => None,
        };
        match archived {
            Some(clock) => Ok(Some(clock)),
            None => self.known_whole(DatasetSet::CLOCK).map(|()| None),
        }
    }

    /// The block of a transaction and its position there, by any of its hashes.
    pub(crate) async fn find_transaction(
        &self,
        hash: &Hash32,
    ) -> Result<Option<(BlockMeta, u32)>, Fault> {
        let in_tail = self.tail.find_tx(hash);
        match in_tail.filter(|(block, _)| block.clock.number >= self.tail_start()) {
            Some((block, index)) => Ok(Some((block.clock, index))),
            None => {
                let Some(archive) = &self.archive else {
                    return Ok(None);
                };
                let found = archive.transaction_by_hash(hash).await?;
                Ok(found.map(|TxLocation { block, index }| (block, index)))
            }
        }
    }

    /// An error where newer blocks may hold what no indexed block has. A number above the head is known to
    /// be new, a hash is not. Without a source, that is always unknown.
    pub(crate) fn known_newest(&self) -> Result<(), Fault> {
        let indexed = self.known_head()?.number;
        let source_head = self.chain.live.source_head();
        if self.is_at_source_head() {
            return Ok(());
        }
        Err(Fault::NotYet {
            indexed,
            source_head,
        })
    }

    /// An error where a block through the head is missing with these datasets: what is not found may be in
    /// it.
    pub(crate) fn known_whole(&self, datasets: DatasetSet) -> Result<(), Fault> {
        self.known_head()?;
        let first = self.chain.first_block();
        let mut next = first;
        let mut end = self.tail_start();
        let coverage = self.archive.iter();
        for (range, _) in coverage.flat_map(|archive| archive.coverage(datasets, None)) {
            if range.start > next {
                // Blocks after the gap are not missing.
                end = end.min(range.start);
                break;
            }
            next = next.max(range.end);
        }
        let tail_keeps = self.chain.datasets.covers(datasets) || self.tail_range().is_empty();
        if next >= end && tail_keeps {
            return Ok(());
        }
        let (missing, covered) = (
            BlockRange::new(next, end.max(next + 1)),
            BlockRange::new(first, next),
        );
        Err(ArchiveError::NotCovered { missing, covered }.into())
    }
}
