//! A made-up chain: any block of it, generated on its own, from a seed.
//!
//! A block is a pure function of the seed, the fork and its number: the parent's hash is computed
//! by formula, never by generating the parent, so that tests and benches can start anywhere and
//! work in parallel. Hashes are pseudo-random and commit to nothing but their place.

mod mainnet;
mod templates;
mod tiny;
mod writer;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{
    Block, BlockMeta, BlockRange, BlockRef, Dataset, DatasetSet, Hash32, Payload, Tx,
};

use crate::rng::{self, Rng};
use mainnet::Mainnet;
use tiny::Tiny;
use writer::LogWriter;

/// Numbers that keep apart what is derived from one seed.
mod domain {
    pub(super) const FORK: u64 = 1;
    pub(super) const BLOCK: u64 = 2;
    pub(super) const TX: u64 = 3;
    pub(super) const LOGS: u64 = 4;
    pub(super) const PAYLOAD: u64 = 5;
    pub(super) const TIME: u64 = 6;
    pub(super) const EMITTER: u64 = 7;
    pub(super) const SIGNATURE: u64 = 8;
    pub(super) const ACCOUNT: u64 = 9;
}

/// Time of block 0, a round number so that times are easy to read.
pub(crate) const GENESIS_TIME: u64 = 1_600_000_000;
pub(crate) const BLOCK_SECONDS: u64 = 12;

/// A word of the EVM: these bytes after zeros.
pub(crate) fn word<const N: usize>(low: [u8; N]) -> [u8; 32] {
    let mut word = [0; 32];
    if let Some(end) = word.last_chunk_mut() {
        *end = low;
    }
    word
}

/// What the blocks look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Term skew, lengths and words modelled on real Ethereum and Base logs; for benches.
    Mainnet,
    /// A handful of terms, so that every filter hits something, and every odd case that an EVM
    /// chain allows; for property tests.
    Tiny,
    /// Like `Tiny`, with emitters, topics and suffixes of any length and several kinds: what only
    /// a Stellar chain allows.
    TinyVaried,
}

/// Which chain to make up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainSpec {
    pub seed: u64,
    /// Mean number of logs in a block of `Mainnet`; most logs of an ordinary block of the others.
    pub logs_per_block: u32,
    /// By how much, in percent, a block of `Mainnet` may hold more or fewer logs than the mean.
    pub jitter_percent: u32,
    /// How many of all transactions of `Mainnet`, in percent, have no logs.
    pub silent_txs_percent: u32,
    /// What the blocks look like.
    pub shape: Shape,
    /// Which payload is made up: headers, bodies, whole blocks. Transactions and logs always are.
    pub datasets: DatasetSet,
}

impl ChainSpec {
    /// The workload of the benches: 250 logs a block, as on Ethereum.
    #[must_use]
    pub fn mainnet(seed: u64) -> Self {
        Self {
            seed,
            logs_per_block: 250,
            jitter_percent: 40,
            silent_txs_percent: 27,
            shape: Shape::Mainnet,
            datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
        }
    }

    /// The workload of the property tests, with every payload.
    #[must_use]
    pub fn tiny(seed: u64) -> Self {
        Self {
            logs_per_block: 6,
            shape: Shape::Tiny,
            datasets: DatasetSet::of(&Dataset::ALL),
            ..Self::mainnet(seed)
        }
    }
}

/// From `at` on the chain goes another way.
#[derive(Clone, Copy, Debug)]
struct Fork {
    at: u64,
    key: u64,
}

#[derive(Clone, Debug)]
enum Generator {
    Mainnet(Arc<Mainnet>),
    Tiny(Tiny),
}

/// A made-up chain. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SimChain {
    spec: ChainSpec,
    /// Never empty; rising in `at`.
    forks: Vec<Fork>,
    generator: Generator,
}

impl SimChain {
    /// The chain of this spec.
    #[must_use]
    pub fn new(spec: ChainSpec) -> Self {
        let generator = match spec.shape {
            Shape::Mainnet => Generator::Mainnet(Arc::new(Mainnet::new(&spec))),
            Shape::Tiny | Shape::TinyVaried => Generator::Tiny(Tiny::new(&spec)),
        };
        let trunk = Fork {
            at: 0,
            key: rng::key(&[domain::FORK, spec.seed]),
        };
        Self {
            spec,
            forks: vec![trunk],
            generator,
        }
    }

    /// The same chain below `at`, another one from there on. Different ids give different chains;
    /// a fork can be forked again.
    #[must_use]
    pub fn fork(&self, at: u64, id: u64) -> Self {
        // The key grows from the parent's, so that two forks never share a block above different
        // ancestors.
        let key = rng::key(&[domain::FORK, self.fork_key(at), at, id]);
        let mut forked = self.clone();
        forked.forks.retain(|fork| fork.at < at);
        forked.forks.push(Fork { at, key });
        forked
    }

    /// What the chain was made from.
    #[must_use]
    pub fn spec(&self) -> &ChainSpec {
        &self.spec
    }

    /// The hash of a block.
    #[must_use]
    pub fn block_hash(&self, number: u64) -> Hash32 {
        rng::hash(&[domain::BLOCK, self.fork_key(number), number])
    }

    /// Number and hash of a block.
    #[must_use]
    pub fn block_ref(&self, number: u64) -> BlockRef {
        BlockRef {
            number,
            hash: self.block_hash(number),
        }
    }

    /// Number, hash, parent and time of a block.
    #[must_use]
    pub fn clock(&self, number: u64) -> BlockMeta {
        let parent = number.checked_sub(1);
        BlockMeta {
            number,
            hash: self.block_hash(number),
            parent_hash: parent.map_or(Hash32::ZERO, |parent| self.block_hash(parent)),
            timestamp: self.timestamp(number),
        }
    }

    /// The hash of a transaction, whether or not the block has that many.
    #[must_use]
    pub fn tx_hash(&self, number: u64, index: u32) -> Hash32 {
        let parts = [domain::TX, self.fork_key(number), number, index.into()];
        rng::hash(&parts)
    }

    /// A whole block.
    #[must_use]
    pub fn block(&self, number: u64) -> Block {
        let mut rng = Rng::of(&[domain::LOGS, self.fork_key(number), number]);
        let mut writer = LogWriter::default();
        let tx_count = match &self.generator {
            Generator::Mainnet(mainnet) => mainnet.write(&mut rng, &mut writer),
            Generator::Tiny(tiny) => tiny.write(&mut rng, &mut writer),
        };
        let tx = |index| Tx {
            index,
            hash: self.tx_hash(number, index),
        };
        let txs: Vec<Tx> = (0..tx_count).map(tx).collect();
        Block {
            clock: self.clock(number),
            logs: writer.finish(),
            payload: self.payload(number, txs.len()),
            txs,
        }
    }

    /// The blocks of a range, in order.
    pub fn blocks(&self, range: BlockRange) -> impl Iterator<Item = Block> + '_ {
        (range.start..range.end).map(|number| self.block(number))
    }

    fn fork_key(&self, number: u64) -> u64 {
        let fork = self.forks.iter().rfind(|fork| fork.at <= number);
        fork.map_or(self.spec.seed, |fork| fork.key)
    }

    fn timestamp(&self, number: u64) -> u64 {
        // Tiny chains round times down inside windows of 16 blocks: some windows have pairs or
        // fours of equal times, and no time ever falls.
        let step = match self.spec.shape {
            Shape::Mainnet => 1,
            Shape::Tiny | Shape::TinyVaried => {
                let mut window = Rng::of(&[domain::TIME, self.spec.seed, number / 16]);
                window.pick(&[1, 1, 2, 4]).copied().unwrap_or(1)
            }
        };
        let shown = number - number % step;
        GENESIS_TIME.saturating_add(shown.saturating_mul(BLOCK_SECONDS))
    }

    fn payload(&self, number: u64, tx_count: usize) -> Payload {
        let kept = self.spec.datasets;
        let mut rng = Rng::of(&[domain::PAYLOAD, self.fork_key(number), number]);
        // Tiny payloads are often empty: an empty part is not a missing part.
        let (least, most) = match self.spec.shape {
            Shape::Mainnet => (110, 600),
            Shape::Tiny | Shape::TinyVaried => (0, 40),
        };
        let mut part = || {
            let len = least + rng.below(most - least);
            Bytes::from(rng.vec(len))
        };
        // Each part is drawn whether or not it is kept, so that it does not depend on the others.
        let (header, raw) = (part(), part());
        Payload {
            header: kept.contains(Dataset::Headers).then_some(header),
            bodies: kept
                .contains(Dataset::Transactions)
                .then(|| (0..tx_count).map(|_| part()).collect()),
            raw: kept.contains(Dataset::Payload).then_some(raw),
        }
    }
}
