//! The tail at one moment, as readers see it, and the seam between it and the archive.
//!
//! A query takes the tail's snapshot first and the archive's state second. Blocks leave the tail
//! only after a published state holds them, so together they miss nothing; [`joins`] says whether
//! they are the same chain.

use std::sync::Arc;

use chronolith_model::{Block, BlockRange, BlockRef, Hash32, Proof, Tx};

/// A block that waits for finality, with all that is known of it: what is archived of it later.
#[derive(Clone, Debug)]
pub struct TailBlock {
    pub block: Arc<Block>,
    /// How far it was proven.
    pub proof: Proof,
    /// The endpoint that delivered it.
    pub endpoint: Arc<str>,
}

/// A block that one unnamed source claims.
impl<B: Into<Arc<Block>>> From<B> for TailBlock {
    fn from(block: B) -> Self {
        Self {
            block: block.into(),
            proof: Proof::CLAIMED,
            endpoint: "unnamed".into(),
        }
    }
}

/// A block of the tail with what is needed to find things in it.
#[derive(Debug)]
pub(crate) struct Entry {
    of: TailBlock,
    /// First bytes of each transaction's hash and its place in `block.txs`, sorted.
    txs: Box<[(u64, u32)]>,
    /// What it counts against the budget.
    pub(crate) bytes: usize,
}

impl Entry {
    pub(crate) fn new(of: TailBlock, bytes: usize) -> Self {
        let keys = of.block.txs.iter().map(|tx| tx.hash.prefix64());
        let mut txs: Box<[_]> = keys.zip(0..).collect();
        txs.sort_unstable();
        Self { of, txs, bytes }
    }

    fn find_tx(&self, hash: &Hash32) -> Option<u32> {
        let key = hash.prefix64();
        let first = self.txs.partition_point(|&(other, _)| other < key);
        let same = self
            .txs
            .iter()
            .skip(first)
            .take_while(|&&(other, _)| other == key);
        same.filter_map(|&(_, place)| self.of.block.txs.get(place as usize))
            .find(|tx| tx.hash == *hash)
            .map(Tx::position)
    }
}

/// An entry, with its block's hash where a scan finds it without following the pointer.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    key: u64,
    pub(crate) entry: Arc<Entry>,
}

impl Slot {
    pub(crate) fn new(entry: Entry) -> Self {
        Self {
            key: entry.of.block.clock.hash.prefix64(),
            entry: Arc::new(entry),
        }
    }

    pub(crate) fn block(&self) -> &Arc<Block> {
        &self.entry.of.block
    }

    pub(crate) fn number(&self) -> u64 {
        self.entry.of.block.clock.number
    }
}

/// The tail at one moment. It never changes; clones share it.
#[derive(Clone, Debug)]
pub struct TailSnapshot {
    slots: Arc<[Slot]>,
}

impl TailSnapshot {
    pub(crate) fn new(slots: Arc<[Slot]>) -> Self {
        Self { slots }
    }

    /// The oldest block.
    #[must_use]
    pub fn first(&self) -> Option<BlockRef> {
        self.slots
            .first()
            .map(|slot| slot.block().clock.block_ref())
    }

    /// The newest block.
    #[must_use]
    pub fn head(&self) -> Option<BlockRef> {
        self.slots.last().map(|slot| slot.block().clock.block_ref())
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

    /// The blocks that it holds.
    #[must_use]
    pub fn range(&self) -> BlockRange {
        let start = self.slots.first().map_or(0, Slot::number);
        let end = self
            .slots
            .last()
            .map_or(0, |slot| slot.number().saturating_add(1));
        BlockRange::new(start, end)
    }

    /// The block at a number.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&Arc<Block>> {
        let offset = number.checked_sub(self.slots.first()?.number())?;
        self.slots
            .get(usize::try_from(offset).ok()?)
            .map(Slot::block)
    }

    /// The block with a hash.
    #[must_use]
    pub fn find_block(&self, hash: &Hash32) -> Option<&Arc<Block>> {
        let key = hash.prefix64();
        let mut same = self.slots.iter().filter(|slot| slot.key == key);
        same.find(|slot| slot.block().clock.hash == *hash)
            .map(Slot::block)
    }

    /// The block that holds a transaction, and the transaction's position in it, by any of its hashes. Newest blocks are
    /// looked at first: they are requested most.
    #[must_use]
    pub fn find_tx(&self, hash: &Hash32) -> Option<(&Arc<Block>, u32)> {
        let newest_first = self.slots.iter().rev();
        let mut found = newest_first.filter_map(|slot| Some((slot, slot.entry.find_tx(hash)?)));
        found.next().map(|(slot, index)| (slot.block(), index))
    }

    /// Those blocks of a range that are here, oldest first.
    pub fn blocks_in(
        &self,
        range: BlockRange,
    ) -> impl DoubleEndedIterator<Item = &Arc<Block>> + ExactSizeIterator {
        self.slots_in(range).iter().map(Slot::block)
    }

    /// The same with how far each was proven and who delivered it.
    pub fn proven_in(&self, range: BlockRange) -> impl Iterator<Item = &TailBlock> {
        self.slots_in(range).iter().map(|slot| &slot.entry.of)
    }

    /// What is proven of every block of a range that is here; none where none is.
    #[must_use]
    pub fn proof_of(&self, range: BlockRange) -> Option<Proof> {
        let proofs = self.proven_in(range).map(|one| one.proof);
        proofs.reduce(Proof::lower)
    }

    fn slots_in(&self, range: BlockRange) -> &[Slot] {
        let start = self
            .slots
            .partition_point(|slot| slot.number() < range.start);
        let end = self.slots.partition_point(|slot| slot.number() < range.end);
        let slots = self.slots.get(start..end);
        slots.expect("numbers rise, and a range does not end before it starts")
    }
}

/// Whether the archive through its head and the tail above it are one chain without a gap. Where
/// they are not, both are to be taken again.
///
/// Tail blocks at or below the archive's head are not looked at, but for the one at its height,
/// which must be the same.
#[must_use]
pub fn joins(archive_head: Option<BlockRef>, tail: &TailSnapshot) -> bool {
    let (Some(archive), Some(first)) = (archive_head, tail.slots.first()) else {
        return true;
    };
    if archive.number.checked_add(1) == Some(first.number()) {
        return first.block().clock.parent_hash == archive.hash;
    }
    match tail.get(archive.number) {
        Some(same_height) => same_height.clock.hash == archive.hash,
        // Either the archive is past the whole tail, or blocks are missing between the two.
        None => first.number() <= archive.number,
    }
}
