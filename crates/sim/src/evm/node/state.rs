//! The canonical chain of a node, compactly, behind its lock.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use alloy_consensus::Header;
use chronolith_model::{BlockMeta, BlockRange, BlockRef, Hash32, Log};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use crate::evm::EvmBlock;
use crate::evm::adfs::AdfsEvent;
use crate::evm::block::{Content, Seal};
use crate::evm::chain::{EvmChain, EvmSpec};
use crate::evm::fees::{FeeLog, FeeRow, Place};

/// How many blocks are prepared at once. More would hold more of them in memory for nothing.
const BATCH: u64 = 4_096;
/// What a new node takes as the finalized depth.
const FINALIZED_DEPTH: u64 = 64;
/// The fork of siblings: no reorg ever has this id.
const SIBLING: u64 = u64::MAX;

/// A header and its hash.
#[derive(Clone, Debug)]
pub(in crate::evm) struct Head {
    pub(in crate::evm) header: Header,
    pub(in crate::evm) hash: Hash32,
}

struct Record {
    hash: Hash32,
    seal: Seal,
    chain: Arc<EvmChain>,
}

/// All canonical blocks of a node.
pub(in crate::evm) struct State {
    chain: Arc<EvmChain>,
    /// By number; never empty.
    records: Vec<Record>,
    numbers: HashMap<Hash32, u64>,
    forks: u64,
    pub(in crate::evm) finalized_depth: u64,
}

impl State {
    /// The contracts that have code.
    pub(in crate::evm) fn contracts(&self) -> Vec<[u8; 20]> {
        self.chain.contracts()
    }

    pub(super) fn new(spec: EvmSpec) -> Self {
        let mut state = Self {
            chain: Arc::new(EvmChain::new(spec)),
            records: Vec::new(),
            numbers: HashMap::new(),
            forks: 0,
            finalized_depth: FINALIZED_DEPTH,
        };
        state.extend(1);
        state
    }

    pub(in crate::evm) fn spec(&self) -> EvmSpec {
        *self.chain.spec()
    }

    pub(in crate::evm) fn chain_id(&self) -> u64 {
        self.chain.spec().chain_id
    }

    pub(in crate::evm) fn head(&self) -> BlockRef {
        self.behind_head(0)
    }

    /// The block this many blocks below the head, or block 0.
    pub(in crate::evm) fn behind_head(&self, blocks: u64) -> BlockRef {
        let head = self.records.len() as u64 - 1;
        let number = head.saturating_sub(blocks);
        BlockRef {
            number,
            hash: self.hash_at(number).unwrap_or_default(),
        }
    }

    pub(in crate::evm) fn hash_at(&self, number: u64) -> Option<Hash32> {
        self.record(number).map(|record| record.hash)
    }

    pub(in crate::evm) fn number_of(&self, hash: Hash32) -> Option<u64> {
        self.numbers.get(&hash).copied()
    }

    /// What the header says about the content.
    pub(in crate::evm) fn seal_at(&self, number: u64) -> Option<&Seal> {
        self.record(number).map(|record| &record.seal)
    }

    /// Header and hash, without making the content.
    pub(in crate::evm) fn head_at(&self, number: u64) -> Option<Head> {
        let record = self.record(number)?;
        let parent = self.parent_of(number);
        Some(Head {
            header: record.chain.header(number, parent, &record.seal),
            hash: record.hash,
        })
    }

    /// The numbers of a range that there are blocks of.
    pub(super) fn known(&self, range: BlockRange) -> Range<u64> {
        range.start..range.end.min(self.records.len() as u64)
    }

    /// Number, hash, parent and time, without making the header.
    pub(in crate::evm) fn clock_at(&self, number: u64) -> Option<BlockMeta> {
        let record = self.record(number)?;
        Some(BlockMeta {
            number,
            hash: record.hash,
            parent_hash: self.parent_of(number),
            timestamp: record.chain.timestamp(number),
        })
    }

    /// The hashes of a block's transactions; none where there is no such block.
    pub(in crate::evm) fn tx_hashes(&self, number: u64) -> impl Iterator<Item = Hash32> {
        let record = self.record(number);
        record
            .into_iter()
            .flat_map(move |record| record.chain.tx_hashes(number, record.seal.tx_count))
    }

    /// A whole block.
    pub(in crate::evm) fn block(&self, number: u64) -> Option<EvmBlock> {
        let Head { header, hash } = self.head_at(number)?;
        let Content { txs, logs } = self.record(number)?.chain.content(number);
        Some(EvmBlock {
            header,
            hash,
            txs,
            logs,
        })
    }

    /// The rows of the fees that were collected in a block; none where there is no such block.
    pub(in crate::evm) fn fees(&self, number: u64) -> Vec<FeeRow> {
        let Some((record, clock)) = self.record(number).zip(self.clock_at(number)) else {
            return Vec::new();
        };
        let made = record.chain.fee_logs(number);
        // What comes before them is made only where there are any.
        if made.is_empty() {
            return Vec::new();
        }
        let content = record.chain.content(number);
        let after = record.chain.adfs_txs(number).len() + content.own_logs();
        let before = content.logs.len().saturating_sub(made.len() + after);
        let logs = content.logs.iter().skip(before);
        let row = |(made, log): (&FeeLog, &Log)| {
            let tx_hash = record.chain.tx_hash(number, log.tx_index());
            let log_index = log.log_index();
            let at = Place { tx_hash, log_index };
            Some(made.collected()?.row(self.chain_id(), &clock, at))
        };
        made.iter().zip(logs).filter_map(row).collect()
    }

    /// The events of the oracle of feeds in a block; none where there is no such block.
    pub(in crate::evm) fn adfs(&self, number: u64) -> Vec<AdfsEvent> {
        let Some((record, clock)) = self.record(number).zip(self.clock_at(number)) else {
            return Vec::new();
        };
        let made = record.chain.adfs_txs(number);
        if made.is_empty() {
            return Vec::new();
        }
        let content = record.chain.content(number);
        let logs = content.logs.len() - content.own_logs() - made.len();
        let places = made.iter().zip(logs as u32..);
        places.map(|(tx, at)| tx.event(&clock, at)).collect()
    }

    /// Another valid block on the same parent: what a node on a stale fork shows.
    pub(in crate::evm) fn sibling(&self, number: u64) -> Option<EvmBlock> {
        let chain = self.record(number)?.chain.fork(number, SIBLING);
        let content = chain.content(number);
        let seal = Seal::of(&content, chain.spec().chain_id);
        let header = chain.header(number, self.parent_of(number), &seal);
        Some(EvmBlock {
            hash: Hash32(header.hash_slow().0),
            header,
            txs: content.txs,
            logs: content.logs,
        })
    }

    /// Adds blocks. Content is made in parallel; only the hashes need their order.
    pub(super) fn extend(&mut self, blocks: u64) {
        let mut first = self.records.len() as u64;
        let end = first + blocks;
        while first < end {
            let batch_end = end.min(first + BATCH);
            let chain = &self.chain;
            let seal = |number| Seal::of(&chain.content(number), chain.spec().chain_id);
            let seals: Vec<Seal> = (first..batch_end).into_par_iter().map(seal).collect();
            seals.into_iter().for_each(|seal| self.push(seal));
            first = batch_end;
        }
    }

    /// Removes the last blocks and forks from there.
    pub(super) fn fork(&mut self, depth: u64) {
        let at = self.records.len() as u64 - depth;
        self.truncate(at);
        self.forks += 1;
        self.chain = Arc::new(self.chain.fork(at, self.forks));
    }

    /// Keeps this many blocks, at least one.
    pub(super) fn truncate(&mut self, blocks: u64) {
        let keep = blocks.max(1) as usize;
        for record in self.records.drain(keep.min(self.records.len())..) {
            self.numbers.remove(&record.hash);
        }
    }

    fn push(&mut self, seal: Seal) {
        let number = self.records.len() as u64;
        let header = self.chain.header(number, self.parent_of(number), &seal);
        let hash = Hash32(header.hash_slow().0);
        self.numbers.insert(hash, number);
        self.records.push(Record {
            hash,
            seal,
            chain: Arc::clone(&self.chain),
        });
    }

    fn parent_of(&self, number: u64) -> Hash32 {
        let parent = number.checked_sub(1);
        parent
            .and_then(|parent| self.hash_at(parent))
            .unwrap_or_default()
    }

    fn record(&self, number: u64) -> Option<&Record> {
        self.records.get(usize::try_from(number).ok()?)
    }
}
