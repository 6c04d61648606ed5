//! The blocks above the archive, in memory.
//!
//! It always holds: blocks are consecutive and linked by hash, the first one names the base where
//! there is one, and together they weigh no more than the budget. The tail follows steps and decides
//! nothing; readers work on snapshots.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use chronolith_model::{Block, BlockRef, ErrorKind, Log, Tx};

use crate::snapshot::{Entry, Slot, TailBlock, TailSnapshot};

/// What a block costs beside its logs, transactions and payload: clock, vectors, counters, and
/// allocations, rounded up.
const BLOCK_BYTES: usize = 512;
/// What a separately allocated body costs beside its bytes.
const BODY_BYTES: usize = 64;
/// What a transaction costs: its hash, and its entry in the block's index.
const TX_BYTES: usize = size_of::<Tx>() + size_of::<(u64, u32)>();

/// The blocks above the archive, linked by hash, within a budget.
#[derive(Clone, Debug)]
pub struct Tail {
    slots: VecDeque<Slot>,
    /// The block below the first: the archive's head at the start, later the last one dropped.
    base: Option<BlockRef>,
    bytes: usize,
    bytes_max: usize,
    /// The last snapshot, until something changes: reads are far more frequent than blocks.
    cached: OnceLock<TailSnapshot>,
}

impl Tail {
    /// An empty tail above `base`; without one, any block may be the first.
    #[must_use]
    pub fn new(bytes_max: usize, base: Option<BlockRef>) -> Self {
        Self {
            slots: VecDeque::new(),
            base,
            bytes: 0,
            bytes_max,
            cached: OnceLock::new(),
        }
    }

    /// The newest block, or the base where there are none.
    #[must_use]
    pub fn head(&self) -> Option<BlockRef> {
        let newest = self.slots.back().map(|slot| slot.block().clock.block_ref());
        newest.or(self.base)
    }

    /// How many blocks there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// What the blocks weigh. Blocks that only snapshots still hold are not counted.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What the budget still holds.
    #[must_use]
    pub fn bytes_free(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes)
    }

    /// What a block weighs in a tail: the memory that it holds, nearly.
    #[must_use]
    pub fn bytes_of(block: &Block) -> usize {
        let logs = block
            .logs
            .iter()
            .map(|log| log.byte_len() + size_of::<Log>());
        let payload = &block.payload;
        let bodies = payload.bodies.iter().flatten();
        let parts = [&payload.header, &payload.raw].into_iter().flatten();
        BLOCK_BYTES
            + block.txs.len() * TX_BYTES
            + logs.sum::<usize>()
            + bodies.map(|body| body.len() + BODY_BYTES).sum::<usize>()
            + parts.map(|part| part.len()).sum::<usize>()
    }

    /// Whether the budget holds one more block. Ask before the tracker accepts it: a block that is
    /// on the tracker's chain must find room here.
    #[must_use]
    pub fn has_room(&self, block: &Block) -> bool {
        self.bytes.saturating_add(Self::bytes_of(block)) <= self.bytes_max
    }

    /// Puts a block on the head.
    ///
    /// # Errors
    /// The block does not link to the head, or the budget does not hold it. Nothing changed.
    pub fn push(&mut self, block: impl Into<TailBlock>) -> Result<(), TailError> {
        let proven = block.into();
        let clock = &proven.block.clock;
        if let Some(head) = self.head() {
            let follows = head.number.checked_add(1) == Some(clock.number);
            if !follows || head.hash != clock.parent_hash {
                return Err(TailError::NotLinked {
                    head: Some(head),
                    offered: clock.block_ref(),
                });
            }
        }
        let bytes = Self::bytes_of(&proven.block);
        let total = self.bytes.saturating_add(bytes);
        if total > self.bytes_max {
            return Err(TailError::Full {
                bytes: total,
                bytes_max: self.bytes_max,
            });
        }
        self.bytes = total;
        self.cached.take();
        self.slots.push_back(Slot::new(Entry::new(proven, bytes)));
        Ok(())
    }

    /// Takes every block above `to` away, and gives them back, oldest first.
    ///
    /// # Errors
    /// `to` is neither a block of the tail nor its base. Without a base it may be any block just
    /// below the first. Nothing changed.
    pub fn rollback(&mut self, to: BlockRef) -> Result<Vec<Arc<Block>>, TailError> {
        let keep = self.position_after(to).ok_or(TailError::NotLinked {
            head: self.head(),
            offered: to,
        })?;
        let removed: Vec<_> = self.slots.drain(keep..).collect();
        Ok(self.release(&removed))
    }

    /// Drops every block through a number, and gives them back, oldest first: a published state of the
    /// archive holds them.
    pub fn drop_through(&mut self, number: u64) -> Vec<Arc<Block>> {
        let count = self.slots.partition_point(|slot| slot.number() <= number);
        if count == 0 {
            return Vec::new();
        }
        let dropped: Vec<_> = self.slots.drain(..count).collect();
        let dropped = self.release(&dropped);
        if let Some(last) = dropped.last() {
            self.base = Some(last.clock.block_ref());
        }
        dropped
    }

    /// The blocks as they are now. It stays as it is while the tail changes, and keeps its blocks
    /// in memory; after a change it costs a pointer a block, else nothing.
    #[must_use]
    pub fn snapshot(&self) -> TailSnapshot {
        let make = || TailSnapshot::new(self.slots.iter().cloned().collect());
        self.cached.get_or_init(make).clone()
    }

    /// How many blocks there are through `to`.
    fn position_after(&self, to: BlockRef) -> Option<usize> {
        if self.base == Some(to) {
            return Some(0);
        }
        let first = self.slots.front()?.number();
        if self.base.is_none() && to.number.checked_add(1) == Some(first) {
            return Some(0);
        }
        let at = usize::try_from(to.number.checked_sub(first)?).ok()?;
        let block = self.slots.get(at)?.block();
        (block.clock.hash == to.hash).then_some(at + 1)
    }

    fn release(&mut self, slots: &[Slot]) -> Vec<Arc<Block>> {
        self.cached.take();
        let bytes: usize = slots.iter().map(|slot| slot.entry.bytes).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        slots.iter().map(|slot| Arc::clone(slot.block())).collect()
    }
}

/// Why the tail did not change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TailError {
    /// The budget is used up: the head is stalled until blocks are final and archived.
    #[error("the tail is full (bytes={bytes}, bytes_max={bytes_max})")]
    Full {
        /// What the tail would weigh with the block.
        bytes: usize,
        bytes_max: usize,
    },
    /// The block does not link to the tail, or the tail does not link to it.
    #[error("block does not link to the tail (block={}, hash={}, head={head:?})", offered.number, offered.hash)]
    NotLinked {
        /// The newest block of the tail.
        head: Option<BlockRef>,
        /// The block that was given.
        offered: BlockRef,
    },
}

impl TailError {
    /// What the caller must do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Full { .. } => ErrorKind::TooLarge,
            Self::NotLinked { .. } => ErrorKind::Invalid,
        }
    }
}
