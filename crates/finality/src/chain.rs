//! The hash-linked clocks above the finalized head.
//!
//! It always holds: clocks are consecutive, each names the one before as its parent, and the first
//! names the finalized block where there is one. The chain decides where a block belongs; when a
//! block becomes final is decided elsewhere.

use std::collections::VecDeque;

use chronolith_model::{BlockMeta, BlockRef, Hash32};

use crate::Fault;

/// Where an offered block belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Known,
    /// On the head, or it is the first of all.
    Next,
    /// On this older block; what is above that goes.
    After(BlockRef),
}

/// The finalized block and the clocks above it.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    finalized: Option<BlockRef>,
    window: VecDeque<BlockMeta>,
}

impl Chain {
    pub(crate) fn new(finalized: Option<BlockRef>) -> Self {
        Self {
            finalized,
            window: VecDeque::new(),
        }
    }

    pub(crate) fn finalized(&self) -> Option<BlockRef> {
        self.finalized
    }

    pub(crate) fn head(&self) -> Option<BlockRef> {
        let newest = self.window.back().map(BlockMeta::block_ref);
        newest.or(self.finalized)
    }

    /// How many blocks wait for finality.
    pub(crate) fn len(&self) -> usize {
        self.window.len()
    }

    pub(crate) fn hash_at(&self, number: u64) -> Option<Hash32> {
        match self.finalized {
            Some(finalized) if finalized.number == number => Some(finalized.hash),
            _ => self.get(number).map(|clock| clock.hash),
        }
    }

    /// Where a block belongs.
    pub(crate) fn place(&self, clock: &BlockMeta) -> Result<Place, Fault> {
        let (Some(head), Some(lowest)) = (self.head(), self.lowest()) else {
            return Ok(Place::Next);
        };
        let offered = clock.block_ref();
        if let Some(missing) = head.number.checked_add(1)
            && clock.number > missing
        {
            return Err(Fault::Gap {
                expected: missing,
                got: clock.number,
            });
        }
        match self.hash_at(clock.number) {
            Some(ours) if ours == clock.hash => Ok(Place::Known),
            Some(ours) if self.is_final(clock.number) => Err(violation(ours, offered)),
            None if clock.number < lowest => Err(Fault::Below { lowest, offered }),
            _ => self.place_by_parent(clock, head),
        }
    }

    fn place_by_parent(&self, clock: &BlockMeta, head: BlockRef) -> Result<Place, Fault> {
        let Some(number) = clock.number.checked_sub(1) else {
            // Another genesis is another chain, even where nothing is final yet.
            let ours = self.hash_at(clock.number).unwrap_or_default();
            return Err(violation(ours, clock.block_ref()));
        };
        let parent = BlockRef {
            number,
            hash: clock.parent_hash,
        };
        match self.hash_at(number) {
            Some(_) if parent == head => Ok(Place::Next),
            Some(ours) if ours == parent.hash => Ok(Place::After(parent)),
            Some(ours) if self.is_final(number) => Err(violation(ours, parent)),
            Some(_) => Err(Fault::ParentUnknown {
                wanted: number,
                hash: parent.hash,
            }),
            // It replaces our first block. Nothing is final, so nothing speaks against it.
            None => Ok(Place::After(parent)),
        }
    }

    /// Puts a block on the head; the caller has looked up its place.
    pub(crate) fn push(&mut self, clock: BlockMeta) {
        self.window.push_back(clock);
    }

    /// Drops every block above a number.
    pub(crate) fn truncate(&mut self, number: u64) {
        while self.window.back().is_some_and(|last| last.number > number) {
            self.window.pop_back();
        }
    }

    /// Makes everything through a number final; none where that adds nothing.
    pub(crate) fn finalize(&mut self, number: u64) -> Option<BlockRef> {
        let block = self.get(number)?.block_ref();
        while self
            .window
            .front()
            .is_some_and(|first| first.number <= number)
        {
            self.window.pop_front();
        }
        self.finalized = Some(block);
        Some(block)
    }

    /// The lowest block whose hash is known.
    fn lowest(&self) -> Option<u64> {
        let first = self.window.front().map(|clock| clock.number);
        self.finalized.map(|finalized| finalized.number).or(first)
    }

    fn is_final(&self, number: u64) -> bool {
        self.finalized
            .is_some_and(|finalized| number <= finalized.number)
    }

    /// The block of the window at a number.
    fn get(&self, number: u64) -> Option<&BlockMeta> {
        let offset = number.checked_sub(self.window.front()?.number)?;
        self.window.get(usize::try_from(offset).ok()?)
    }
}

fn violation(ours: Hash32, offered: BlockRef) -> Fault {
    Fault::FinalityViolation {
        ours: BlockRef {
            number: offered.number,
            hash: ours,
        },
        offered,
    }
}
