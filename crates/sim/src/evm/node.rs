//! What one node sees of an EVM chain: a canonical chain that grows, reorgs and rolls back.
//!
//! It keeps about a hundred bytes a block, and the bloom where one has bits; transactions and logs
//! are made again on request. Replaced blocks are forgotten: their hashes are unknown, as
//! they are to a real node.

mod state;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chronolith_model::{BlockMeta, BlockRange, BlockRef, Hash32};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use tokio::sync::broadcast;

use super::EvmBlock;
use super::adfs::AdfsEvent;
use super::chain::EvmSpec;
use super::fees::FeeRow;
use crate::Oracle;

pub(super) use state::{Head, State};

/// How many heads a slow listener may be behind before it misses some.
const HEADS_MAX: usize = 8_192;

/// A node's view of a chain. A clone is another handle to the same node.
#[derive(Clone)]
pub struct EvmNode {
    shared: Arc<Shared>,
}

struct Shared {
    state: RwLock<State>,
    heads: broadcast::Sender<Arc<Head>>,
    txs: Mutex<TxIndex>,
}

/// Where transactions are, by the first bytes of their hash. Built at the first request for
/// one: most users never make one.
#[derive(Default)]
struct TxIndex {
    places: HashMap<u64, (u64, u32)>,
    /// The hash of the last block that is in it, at each number: it decides which blocks to add again.
    hashes: Vec<Hash32>,
}

impl EvmNode {
    /// A node of this chain with block 0 and this many more.
    #[must_use]
    pub fn new(spec: EvmSpec, blocks: u64) -> Self {
        let node = Self {
            shared: Arc::new(Shared {
                state: RwLock::new(State::new(spec)),
                heads: broadcast::channel(HEADS_MAX).0,
                txs: Mutex::default(),
            }),
        };
        node.mine(blocks);
        node
    }

    /// Adds this many blocks and returns the new head.
    pub fn mine(&self, blocks: u64) -> BlockRef {
        let mut state = self.write();
        self.extend(&mut state, blocks)
    }

    /// Replaces the last `depth` blocks by others and adds one more, so that the new chain is
    /// longer; returns the new head. Block 0 is never replaced.
    pub fn reorg(&self, depth: u64) -> BlockRef {
        let mut state = self.write();
        let depth = depth.min(state.head().number);
        state.fork(depth);
        self.extend(&mut state, depth + 1)
    }

    /// Another node of the same chain that has another block at every height above block 0.
    #[must_use]
    pub fn another_fork(&self) -> Self {
        let (spec, head) = {
            let state = self.read();
            (state.spec(), state.head().number)
        };
        let other = Self::new(spec, head);
        other.reorg(head);
        other
    }

    /// Removes the last blocks without a notification; returns the new head. Mining gives the same
    /// blocks again.
    pub fn rollback(&self, blocks: u64) -> BlockRef {
        let mut state = self.write();
        let keep = state.head().number.saturating_sub(blocks);
        state.truncate(keep + 1);
        state.head()
    }

    /// Number and hash of the newest block.
    #[must_use]
    pub fn head(&self) -> BlockRef {
        self.read().head()
    }

    /// How many blocks the finalized one is behind the head; 64 at the start. The safe one is half
    /// as far behind. Both are plain arithmetic: a deep reorg goes below the finalized block.
    pub fn set_finalized_depth(&self, blocks: u64) {
        self.write().finalized_depth = blocks;
    }

    /// Number and hash of the finalized block.
    #[must_use]
    pub fn finalized(&self) -> BlockRef {
        let state = self.read();
        state.behind_head(state.finalized_depth)
    }

    /// Number and hash of the safe block.
    #[must_use]
    pub fn safe(&self) -> BlockRef {
        let state = self.read();
        state.behind_head(state.finalized_depth / 2)
    }

    /// The chain's id.
    #[must_use]
    pub fn chain_id(&self) -> u64 {
        self.read().chain_id()
    }

    /// The block of this number.
    #[must_use]
    pub fn block(&self, number: u64) -> Option<Arc<EvmBlock>> {
        self.read().block(number).map(Arc::new)
    }

    /// The canonical block with this hash.
    #[must_use]
    pub fn by_hash(&self, hash: Hash32) -> Option<Arc<EvmBlock>> {
        let state = self.read();
        let number = state.number_of(hash)?;
        state.block(number).map(Arc::new)
    }

    /// The canonical blocks of a range, as far as there are any, in the naive reference: what a
    /// client that made no mistake knows.
    #[must_use]
    pub fn oracle(&self, range: BlockRange) -> Oracle {
        let state = self.read();
        let mut oracle = Oracle::new();
        let blocks = state.known(range).filter_map(|number| state.block(number));
        blocks.for_each(|block| oracle.push(block.to_model()));
        oracle
    }

    /// Mines a block after every `block_time`, with a reorg of one to four blocks instead of every
    /// `reorg_every`-th of them; 0 for no reorgs. Never returns. A `block_time` of zero mines nothing.
    pub async fn grow(&self, block_time: Duration, reorg_every: u64) {
        if block_time.is_zero() {
            return std::future::pending().await;
        }
        for block in 1_u64.. {
            tokio::time::sleep(block_time).await;
            if reorg_every > 0 && block.is_multiple_of(reorg_every) {
                self.reorg(1 + block / reorg_every % 4);
            } else {
                self.mine(1);
            }
        }
    }

    /// The rows that the fee collector's logs in a range stand for, in order: what a projection of
    /// the canonical chain must hold, no more and no less.
    #[must_use]
    pub fn fees(&self, range: BlockRange) -> Vec<FeeRow> {
        let state = self.read();
        let blocks = state.known(range).into_par_iter();
        blocks.flat_map_iter(|number| state.fees(number)).collect()
    }

    /// The events of the oracle of feeds in a range, in order, with what they stand for.
    #[must_use]
    pub fn adfs(&self, range: BlockRange) -> Vec<AdfsEvent> {
        let state = self.read();
        let blocks = state.known(range).into_par_iter();
        blocks.flat_map_iter(|number| state.adfs(number)).collect()
    }

    /// The clocks of a range, as far as there are any, all of one chain. Content is not made.
    pub(crate) fn clocks(&self, range: BlockRange) -> Vec<BlockMeta> {
        let state = self.read();
        let numbers = state.known(range);
        numbers
            .filter_map(|number| state.clock_at(number))
            .collect()
    }

    /// The blocks of a range, as far as there are any, all of one chain.
    pub(crate) fn blocks(&self, range: BlockRange) -> Vec<EvmBlock> {
        let state = self.read();
        let numbers = state.known(range);
        numbers.filter_map(|number| state.block(number)).collect()
    }

    /// Everything under one lock, so that an answer never mixes two chains.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.shared.state.read()
    }

    /// New heads from now on, in order.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Arc<Head>> {
        self.shared.heads.subscribe()
    }

    /// Number of the block and position in it of the canonical transaction with this hash.
    pub(super) fn find_tx(&self, state: &State, hash: Hash32) -> Option<(u64, u32)> {
        let mut index = self.shared.txs.lock();
        index.update(state);
        let &(number, position) = index.places.get(&hash.prefix64())?;
        let found = state.tx_hashes(number).nth(position as usize);
        (found == Some(hash)).then_some((number, position))
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.shared.state.write()
    }

    fn extend(&self, state: &mut State, blocks: u64) -> BlockRef {
        let first = state.head().number + 1;
        state.extend(blocks);
        if self.shared.heads.receiver_count() > 0 {
            let heads = (first..first + blocks).filter_map(|number| state.head_at(number));
            for head in heads {
                // Under the lock, so that listeners see heads in the order of the chain. That the last
                // listener is gone is no fault.
                let _ = self.shared.heads.send(Arc::new(head));
            }
        }
        state.head()
    }
}

impl fmt::Debug for EvmNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvmNode")
            .field("head", &self.head())
            .finish_non_exhaustive()
    }
}

impl TxIndex {
    /// Adds the blocks that it does not know. Entries of replaced blocks stay and are harmless:
    /// a lookup compares the whole hash.
    fn update(&mut self, state: &State) {
        // A hash stands for all blocks below: the highest one that still holds is enough.
        while let Some(hash) = self.hashes.last() {
            if state.hash_at(self.hashes.len() as u64 - 1) == Some(*hash) {
                break;
            }
            self.hashes.pop();
        }
        for number in self.hashes.len() as u64..=state.head().number {
            let hashes = state.tx_hashes(number).zip(0..);
            let places = hashes.map(|(hash, index)| (hash.prefix64(), (number, index)));
            self.places.extend(places);
            self.hashes.extend(state.hash_at(number));
        }
    }
}
