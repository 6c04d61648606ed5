//! The naive reference: keeps whole blocks and answers by looking at every one of them.
//!
//! It is what the archive is compared with, so it is written to be obviously right. No index, no
//! shortcut; where two ways exist, the duller one.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chronolith_model::{Block, BlockMeta, Cursor, Hash32, Log, LogFilter, Order, Select, Tx};

/// All blocks of a chain, in order.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    blocks: BTreeMap<u64, Block>,
}

impl Oracle {
    /// An oracle that knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns a block; it replaces one of the same number. Gaps are fine.
    pub fn push(&mut self, block: Block) {
        self.blocks.insert(block.clock.number, block);
    }

    /// Forgets the blocks from this number on.
    pub fn truncate(&mut self, number: u64) {
        self.blocks.retain(|&known, _| known < number);
    }

    /// All blocks, oldest first.
    pub fn blocks(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.blocks.values()
    }

    /// The newest block's clock.
    #[must_use]
    pub fn head(&self) -> Option<BlockMeta> {
        self.blocks().next_back().map(|block| block.clock)
    }

    /// The wanted logs, each with the number of its block, and whether there are more behind the
    /// limit. A cursor's hash is not checked: what a stale cursor deserves is the caller's affair.
    #[must_use]
    pub fn query(&self, filter: &LogFilter) -> (Vec<(u64, Log)>, bool) {
        let mut wanted = Vec::new();
        for block in self.blocks().filter(|block| selects(filter, block)) {
            for log in &block.logs {
                if filter.matches(log) {
                    wanted.push((block.clock.number, log.clone()));
                }
            }
        }
        if filter.order == Order::Descending {
            wanted.reverse();
        }
        if let Some(cursor) = filter.cursor {
            wanted.retain(|(number, log)| is_behind(&cursor, filter.order, *number, log));
        }
        let limit = filter.limit.unwrap_or(usize::MAX);
        let has_more = wanted.len() > limit;
        wanted.truncate(limit);
        (wanted, has_more)
    }

    /// The block of this number.
    #[must_use]
    pub fn block(&self, number: u64) -> Option<&Block> {
        self.blocks.get(&number)
    }

    /// The block with this hash.
    #[must_use]
    pub fn block_by_hash(&self, hash: Hash32) -> Option<&Block> {
        self.blocks().find(|block| block.clock.hash == hash)
    }

    /// The newest block whose time is not after `timestamp`; among equal times the highest.
    #[must_use]
    pub fn block_at_or_before(&self, timestamp: u64) -> Option<&Block> {
        self.blocks()
            .rfind(|block| block.clock.timestamp <= timestamp)
    }

    /// The oldest block whose time is not before `timestamp`; among equal times the lowest.
    #[must_use]
    pub fn block_at_or_after(&self, timestamp: u64) -> Option<&Block> {
        self.blocks()
            .find(|block| block.clock.timestamp >= timestamp)
    }

    /// The transaction with this hash, and its block.
    #[must_use]
    pub fn transaction(&self, hash: Hash32) -> Option<(&Block, Tx)> {
        self.blocks().find_map(|block| {
            let found = block.txs.iter().find(|tx| tx.hash == hash);
            found.map(|&tx| (block, tx))
        })
    }
}

fn selects(filter: &LogFilter, block: &Block) -> bool {
    match &filter.select {
        Select::Range(range) => range.contains(block.clock.number),
        Select::Block(hash) => block.clock.hash == *hash,
    }
}

fn is_behind(cursor: &Cursor, order: Order, number: u64, log: &Log) -> bool {
    let here = (number, log.log_index());
    let last = (cursor.block.number, cursor.log_index);
    match order {
        Order::Ascending => here > last,
        Order::Descending => here < last,
    }
}
