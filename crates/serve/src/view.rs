//! A chain at one moment: the tail as it was first, the archive's state as it was second, and proof
//! that they are one chain. Every answer is made from one of these.

use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{Error as ArchiveError, Pinned};
use chronolith_finality::{TailSnapshot, joins};
use chronolith_model::{Block, BlockMeta, BlockRange, BlockRef, DatasetSet, Hash32};

use crate::fault::{Again, Fault};
use crate::served::ServedChain;

/// Tail and archive may be caught in the middle of a change; then both are taken again.
const TAKES_MAX: u32 = 100;
const TAKE_PAUSE: Duration = Duration::from_millis(5);

/// A block that was just seen is indexed within a second, or something is wrong.
const LOOKS_MAX: u32 = 50;
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// A chain at one moment.
pub(crate) struct View<'a> {
    pub(crate) chain: &'a ServedChain,
    pub(crate) archive: Option<Pinned>,
    pub(crate) tail: TailSnapshot,
}

/// Where a block is.
pub(crate) enum Place<'a> {
    Tail(&'a Arc<Block>),
    Archive(&'a Pinned),
}

impl<'a> View<'a> {
    pub(crate) async fn take(chain: &'a ServedChain) -> Result<View<'a>, Fault> {
        for _ in 0..TAKES_MAX {
            let tail = chain.live.tail();
            let archive = chain.archive.pin();
            let head = archive.as_ref().and_then(Pinned::head);
            if joins(head, &tail) {
                return Ok(Self {
                    chain,
                    archive,
                    tail,
                });
            }
            tokio::time::sleep(TAKE_PAUSE).await;
        }
        Err(Fault::Unsettled)
    }

    /// A newer one, for where the answer of one may be another in a moment.
    pub(crate) async fn newer(
        chain: &'a ServedChain,
        again: Again,
    ) -> Result<Option<View<'a>>, Fault> {
        match again {
            Again::NewerState => {
                chain.archive.refresh().await?;
                View::take(chain).await.map(Some)
            }
            Again::Indexed => View::at_source_head(chain).await,
            Again::No | Again::LessBusy => Ok(None),
        }
    }

    /// One that has the source's newest block, if that is indexed soon.
    async fn at_source_head(chain: &'a ServedChain) -> Result<Option<View<'a>>, Fault> {
        for _ in 0..LOOKS_MAX {
            tokio::time::sleep(LOOK_PAUSE).await;
            let view = View::take(chain).await?;
            if view.is_at_source_head() {
                return Ok(Some(view));
            }
        }
        Ok(None)
    }

    /// The newest final block.
    pub(crate) fn finalized(&self) -> Option<BlockRef> {
        self.archive.as_ref().and_then(Pinned::head)
    }

    /// The first block that only the tail has.
    pub(crate) fn tail_start(&self) -> u64 {
        let first = self.tail.range().start;
        self.finalized()
            .map_or(first, |head| head.number.saturating_add(1))
    }

    /// The blocks that only the tail has.
    pub(crate) fn tail_range(&self) -> BlockRange {
        let start = self.tail_start();
        BlockRange::new(start, self.tail.range().end.max(start))
    }

    /// The newest block.
    pub(crate) fn head(&self) -> Option<BlockRef> {
        match self.tail_range().is_empty() {
            true => self.finalized(),
            false => self.tail.head(),
        }
    }

    /// The newest block's time.
    pub(crate) fn head_timestamp(&self) -> Option<u64> {
        match self.tail_range().is_empty() {
            true => self.archive.as_ref().and_then(Pinned::head_timestamp),
            false => {
                let head = self.tail.head()?;
                Some(self.tail.get(head.number)?.clock.timestamp)
            }
        }
    }

    /// The oldest block.
    pub(crate) fn first(&self) -> Option<u64> {
        let archived = self.archive.as_ref().and_then(Pinned::covered_prefix);
        let tail = || Some(self.tail.range()).filter(|range| !range.is_empty());
        archived.or_else(tail).map(|range| range.start)
    }

    /// The newest block, or why there is none.
    pub(crate) fn known_head(&self) -> Result<BlockRef, Fault> {
        self.head().ok_or(Fault::Empty)
    }

    /// Whether the source had no newer block when it was last looked at.
    pub(crate) fn is_at_source_head(&self) -> bool {
        let head = self.head();
        head.is_some_and(|head| self.chain.live.is_source_head(head))
    }

    /// Where a block is; none above the head.
    pub(crate) fn place(&self, number: u64) -> Result<Option<Place<'_>>, Fault> {
        let start = self.tail_start();
        self.known_head()?;
        if number >= start {
            return Ok(self.tail.get(number).map(Place::Tail));
        }
        let lacking = || ArchiveError::NotCovered {
            missing: BlockRange::new(0, start),
            covered: BlockRange::new(start, start),
        };
        let archive = self.archive.as_ref().ok_or_else(lacking)?;
        Ok(Some(Place::Archive(archive)))
    }

    /// A block's clock; none above the head.
    pub(crate) async fn clock(&self, number: u64) -> Result<Option<BlockMeta>, Fault> {
        match self.place(number)? {
            None => Ok(None),
            Some(Place::Tail(block)) => Ok(Some(block.clock)),
            Some(Place::Archive(archive)) => Ok(Some(archive.block_by_number(number).await?)),
        }
    }

    /// The block with a hash. None is said only where every block through the head is known: else it
    /// may be one of the others.
    pub(crate) async fn find_block(&self, hash: &Hash32) -> Result<Option<BlockMeta>, Fault> {
        let in_tail = self.tail.find_block(hash);
        if let Some(block) = in_tail.filter(|block| block.clock.number >= self.tail_start()) {
            return Ok(Some(block.clock));
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

    /// Whether what no block has exists nowhere, for what only a hash names: a number shows by itself
    /// that it lies above the head, a hash does not. Without a source nobody here can know.
    pub(crate) fn known_newest(&self) -> Result<(), Fault> {
        let indexed = self.known_head()?.number;
        let source_head = self.chain.live.source_head();
        match self.is_at_source_head() {
            true => Ok(()),
            false => Err(Fault::NotYet {
                indexed,
                source_head,
            }),
        }
    }

    /// Whether every block through the head is there with these datasets: only then what is not found
    /// is in none of them.
    pub(crate) fn known_whole(&self, datasets: DatasetSet) -> Result<(), Fault> {
        self.known_head()?;
        let first = self.chain.first_block();
        let mut next = first;
        let mut end = self.tail_start();
        let coverage = self.archive.iter();
        for (range, _) in coverage.flat_map(|archive| archive.coverage(datasets, None)) {
            if range.start > next {
                // What is covered again behind the gap is not lacking.
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
