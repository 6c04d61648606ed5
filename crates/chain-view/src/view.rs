//! The view itself: how it is taken, and which block is where.

use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{Archive, Pinned, Result};
use chronolith_finality::{TailSnapshot, joins};
use chronolith_model::{Block, BlockMeta, BlockRange, BlockRef, Hash32};

use crate::live::Live;

/// Tail and archive may change between the two reads; then both are read again.
const TAKES_MAX: u32 = 100;
const TAKE_PAUSE: Duration = Duration::from_millis(5);

/// Tail and archive did not join into one chain within a hundred attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("archive and newest blocks do not join")]
pub struct Unsettled;

/// A chain at one moment.
#[derive(Clone)]
pub struct ChainView {
    /// One published state; none before the first.
    pub archive: Option<Pinned>,
    /// The tail. It may still hold blocks that the archive has by now.
    pub tail: TailSnapshot,
    pub live: Arc<dyn Live>,
    /// Whether the head was the source's newest block when the view was taken.
    pub ends_at_source_head: bool,
}

/// Where a block is.
pub enum Location<'a> {
    Tail(&'a Arc<Block>),
    Archive(&'a Pinned),
}

impl ChainView {
    /// Reads the tail, then the archive's state, until both are one chain.
    ///
    /// # Errors
    /// They do not join for half a second.
    pub async fn take(
        archive: &Archive,
        live: Arc<dyn Live>,
    ) -> std::result::Result<Self, Unsettled> {
        for _ in 0..TAKES_MAX {
            let tail = live.tail();
            let archive = archive.pin();
            if joins(archive.as_ref().and_then(Pinned::head), &tail) {
                let mut view = Self {
                    archive,
                    tail,
                    live,
                    ends_at_source_head: false,
                };
                let head = view.head();
                view.ends_at_source_head = head.is_some_and(|head| view.live.was_source_head(head));
                return Ok(view);
            }
            tokio::time::sleep(TAKE_PAUSE).await;
        }
        Err(Unsettled)
    }

    /// The newest block.
    #[must_use]
    pub fn head(&self) -> Option<BlockRef> {
        match self.tail_range().is_empty() {
            true => self.finalized_head(),
            false => self.tail.head(),
        }
    }

    /// The newest final block.
    #[must_use]
    pub fn finalized_head(&self) -> Option<BlockRef> {
        self.archive.as_ref().and_then(Pinned::head)
    }

    /// Whether the block with this number is final.
    #[must_use]
    pub fn is_final(&self, number: u64) -> bool {
        self.finalized_head()
            .is_some_and(|head| number <= head.number)
    }

    /// The first block that only the tail has.
    #[must_use]
    pub fn tail_start(&self) -> u64 {
        let first = self.tail.range().start;
        self.finalized_head()
            .map_or(first, |head| head.number.saturating_add(1))
    }

    /// The blocks that only the tail has.
    #[must_use]
    pub fn tail_range(&self) -> BlockRange {
        let start = self.tail_start();
        BlockRange::new(start, self.tail.range().end.max(start))
    }

    /// The time of the newest block.
    #[must_use]
    pub fn head_timestamp(&self) -> Option<u64> {
        match self.tail_range().is_empty() {
            true => self.archive.as_ref().and_then(Pinned::head_timestamp),
            false => {
                let head = self.tail.head()?;
                Some(self.tail.get(head.number)?.clock.timestamp)
            }
        }
    }

    /// The oldest block.
    #[must_use]
    pub fn first(&self) -> Option<u64> {
        let archived = self.archive.as_ref().and_then(Pinned::covered_prefix);
        let tail = || Some(self.tail.range()).filter(|range| !range.is_empty());
        archived.or_else(tail).map(|range| range.start)
    }

    /// Whether the source has no newer block, by a recent check.
    #[must_use]
    pub fn is_at_source_head(&self) -> bool {
        self.head()
            .is_some_and(|head| self.live.is_source_head(head))
    }

    /// Where a block is to be looked up; none above the head, and below the tail where there is no
    /// archive. The archive may have gaps: a location is not yet a block.
    #[must_use]
    pub fn locate(&self, number: u64) -> Option<Location<'_>> {
        match number >= self.tail_start() {
            true => self.tail.get(number).map(Location::Tail),
            false => self.archive.as_ref().map(Location::Archive),
        }
    }

    /// The hash of a block; none where archive and tail do not reach it.
    ///
    /// # Errors
    /// The archive cannot be read.
    pub async fn hash_at(&self, number: u64) -> Result<Option<Hash32>> {
        match &self.archive {
            Some(archive) if self.is_final(number) => {
                Ok(Some(archive.block_by_number(number).await?.hash))
            }
            _ => Ok(self.tail.get(number).map(|block| block.clock.hash)),
        }
    }

    /// The block of the tail with a hash; none where the archive has its number.
    #[must_use]
    pub fn find_in_tail(&self, hash: &Hash32) -> Option<BlockMeta> {
        let block = self.tail.find_block(hash)?;
        Some(block.clock).filter(|clock| clock.number >= self.tail_start())
    }
}
