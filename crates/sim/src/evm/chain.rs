//! How the blocks of an EVM chain are made: content from a seed, headers that commit to it.
//!
//! Content is a pure function of the seed, the fork and the number. A header also needs its
//! parent's hash, so headers are made one after the other, by the caller that keeps the hashes.

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bloom, Bytes, U256, keccak256};
use alloy_trie::EMPTY_ROOT_HASH;
use chronolith_model::{Hash32, Log, LogParts, Tx};

use super::adfs::{Adfs, AdfsSpec, AdfsTx};
use super::block::{Content, EvmTx, Seal, TxType};
use super::fees::{self, FeeLog, FeesSpec};
use super::proxy::Proxy;
use crate::chain::{BLOCK_SECONDS, GENESIS_TIME};
use crate::rng::{self, Rng};
use crate::{ChainSpec, Shape, SimChain};

/// Numbers that keep apart what is derived from one seed.
pub(super) mod domain {
    pub(in crate::evm) const PROXY: u64 = 104;
    pub(in crate::evm) const FEES: u64 = 105;
    pub(in crate::evm) const ADFS: u64 = 106;
    pub(super) const OWN_LOGS: u64 = 107;
    pub(super) const BUSY: u64 = 101;
    pub(super) const TXS: u64 = 102;
    pub(super) const HEADER: u64 = 103;
}

const PERMILLE: u64 = 1_000;
/// The contract that logs on its own, called by no transaction.
const OWN_EMITTER: [u8; 20] = [0xce; 20];
/// What a transaction costs at least.
const TX_GAS: u64 = 21_000;
/// What a log costs here, at any length.
const LOG_GAS: u64 = 1_500;
/// Gas limits are whole multiples of it.
const GAS_LIMIT: u64 = 36_000_000;
/// Transactions of the old type, those that create a contract, and those that fail, in percent.
const LEGACY_PERCENT: u32 = 30;
const CREATE_PERCENT: u32 = 3;
const FAILED_PERCENT: u32 = 10;
/// The least base fee, and how far it goes up from there.
const BASE_FEE: u64 = 1_000_000_000;
const BASE_FEE_SPREAD: u64 = 50_000_000_000;

/// Which header fields a block has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Era {
    /// Up to the base fee.
    London,
    /// Withdrawals root, blob gas and the beacon root as well.
    Cancun,
    /// And the hash of the requests.
    Prague,
}

/// Which EVM chain to make up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EvmSpec {
    /// Decides gas, senders and the made-up parts of headers: with another seed the same content
    /// has other block hashes.
    pub seed: u64,
    /// What `eth_chainId` says.
    pub chain_id: u64,
    /// Logs and transactions. [`Shape::TinyVaried`] is taken as [`Shape::Tiny`], because an EVM
    /// chain cannot have its logs.
    pub content: ChainSpec,
    /// Seconds from block to block; 0 gives all blocks the same time.
    pub block_seconds: u64,
    /// How many of a thousand blocks have content at all. Makes sparse chains: a mean of 0.12 logs
    /// a block is one log a block in 120 of a thousand.
    pub busy_permille: u32,
    /// Words of 32 bytes that a call is sent with on the average; 0 for none.
    pub call_words: u32,
    /// Which header fields there are.
    pub era: Era,
    /// Headers have blooms without a bit, also of blocks with logs.
    pub blooms_unfilled: bool,
    /// One contract is a proxy that is upgraded every this many blocks; 0 for no such contract.
    pub upgrade_every: u64,
    /// Every this many blocks have logs of no transaction, under the block's own hash, as on Celo's old chain;
    /// 0 for none.
    pub own_logs_every: u64,
    /// One contract collects fees and emits an event for each.
    pub fees: Option<FeesSpec>,
    /// One contract is an oracle of feeds.
    pub adfs: Option<AdfsSpec>,
}

impl EvmSpec {
    /// Small blocks with every odd case: empty and crowded ones, equal times.
    #[must_use]
    pub fn tiny(seed: u64) -> Self {
        Self {
            seed,
            chain_id: 31_337,
            content: ChainSpec::tiny(seed),
            block_seconds: BLOCK_SECONDS,
            busy_permille: 1_000,
            call_words: 0,
            era: Era::Prague,
            blooms_unfilled: false,
            upgrade_every: 0,
            own_logs_every: 0,
            fees: None,
            adfs: None,
        }
    }

    /// Blocks with the statistics of Ethereum's.
    #[must_use]
    pub fn mainnet(seed: u64) -> Self {
        Self {
            content: ChainSpec::mainnet(seed),
            ..Self::tiny(seed)
        }
    }

    /// A quiet chain: one log in so many of a thousand blocks, nothing in the others.
    #[must_use]
    pub fn sparse(seed: u64, busy_permille: u32) -> Self {
        Self {
            content: ChainSpec {
                logs_per_block: 1,
                jitter_percent: 0,
                ..ChainSpec::mainnet(seed)
            },
            busy_permille,
            ..Self::tiny(seed)
        }
    }

    /// The same chain with a fee collector.
    #[must_use]
    pub fn with_fees(self, fees: FeesSpec) -> Self {
        Self {
            fees: Some(fees),
            ..self
        }
    }
}

/// Makes the blocks of an EVM chain. Block 0 is empty, as everywhere.
#[derive(Clone, Debug)]
pub struct EvmChain {
    spec: EvmSpec,
    content: SimChain,
}

impl EvmChain {
    /// The chain of this spec.
    #[must_use]
    pub fn new(spec: EvmSpec) -> Self {
        let mut content = spec.content;
        if content.shape == Shape::TinyVaried {
            content.shape = Shape::Tiny;
        }
        Self {
            spec,
            content: SimChain::new(content),
        }
    }

    /// The same chain below `at`, another one from there on; different ids give different chains.
    #[must_use]
    pub fn fork(&self, at: u64, id: u64) -> Self {
        Self {
            spec: self.spec,
            content: self.content.fork(at, id),
        }
    }

    /// What the chain was made from.
    #[must_use]
    pub fn spec(&self) -> &EvmSpec {
        &self.spec
    }

    /// The time of a block; the same on every fork.
    #[must_use]
    pub fn timestamp(&self, number: u64) -> u64 {
        let shown = self.content.clock(number).timestamp - GENESIS_TIME;
        GENESIS_TIME + shown / BLOCK_SECONDS * self.spec.block_seconds
    }

    /// The hash of a transaction, whether or not the block has that many. Those to the oracle of feeds
    /// have others.
    #[must_use]
    pub fn tx_hash(&self, number: u64, index: u32) -> Hash32 {
        let id = self.content.tx_hash(number, index);
        self.hash_of(&self.bare_tx(index, id))
    }

    fn hash_of(&self, tx: &EvmTx) -> Hash32 {
        Hash32(keccak256(tx.encoded(self.spec.chain_id)).0)
    }

    /// The transactions and logs of a block.
    pub(super) fn content(&self, number: u64) -> Content {
        let (mut txs, mut logs) = (Vec::new(), Vec::new());
        if self.is_busy(number) {
            let block = self.content.block(number);
            (txs, logs) = (block.txs, block.logs);
        }
        self.add_proxy(number, &mut txs, &mut logs);
        self.add_fees(number, &mut txs, &mut logs);
        let of_adfs = self.adfs_txs(number);
        for tx in &of_adfs {
            let (index, hash) = (txs.len() as u32, tx.id);
            logs.push(tx.log(index, logs.len() as u32));
            txs.push(Tx { index, hash });
        }
        let mut txs = self.txs(&txs, &logs);
        for (tx, made) in txs.iter_mut().rev().zip(of_adfs.iter().rev()) {
            (tx.to, tx.input, tx.hash) = (Some(made.to()), made.input(), made.hash);
        }
        self.add_own_logs(number, &txs, &mut logs);
        Content { txs, logs }
    }

    /// Puts logs of the block itself after those of the last transaction.
    fn add_own_logs(&self, number: u64, txs: &[EvmTx], logs: &mut Vec<Log>) {
        let every = self.spec.own_logs_every;
        if number == 0 || every == 0 || !number.is_multiple_of(every) {
            return;
        }
        let mut rng = Rng::of(&[domain::OWN_LOGS, self.spec.seed, self.place(number)]);
        for _ in 0..=rng.below(2) {
            let topic: [u8; 32] = rng.bytes();
            let made = Log::new(&LogParts {
                tx_index: txs.len() as u32,
                log_index: logs.len() as u32,
                emitter: &OWN_EMITTER,
                topics: &[&topic],
                data: &rng.bytes::<32>(),
                ..LogParts::default()
            });
            logs.push(made.expect("lengths are those of the EVM"));
        }
    }

    /// Transactions to the oracle of feeds in a block. These are its last ones, each with one log.
    pub(super) fn adfs_txs(&self, number: u64) -> Vec<AdfsTx> {
        let Some(spec) = self.spec.adfs else {
            return Vec::new();
        };
        let adfs = Adfs {
            seed: self.spec.seed,
            spec,
            place: &|number| self.place(number),
        };
        let mut txs = adfs.txs(number);
        for made in &mut txs {
            let mut tx = self.bare_tx(0, made.id);
            (tx.to, tx.input) = (Some(made.to()), made.input());
            made.hash = self.hash_of(&tx);
        }
        txs
    }

    /// The hashes of a block's transactions, of which it has this many.
    pub(super) fn tx_hashes(&self, number: u64, count: u32) -> impl Iterator<Item = Hash32> {
        let of_adfs = self.adfs_txs(number);
        let others = count.saturating_sub(of_adfs.len() as u32);
        let others = (0..others).map(move |index| self.tx_hash(number, index));
        others.chain(of_adfs.into_iter().map(|tx| tx.hash))
    }

    fn proxy(&self) -> Option<Proxy> {
        let (seed, every) = (self.spec.seed, self.spec.upgrade_every);
        (every > 0).then_some(Proxy { seed, every })
    }

    /// The contracts that have code: those that projections are given.
    pub(super) fn contracts(&self) -> Vec<[u8; 20]> {
        let proxy = self.proxy().map(|proxy| proxy.address());
        let fees = self.spec.fees.map(|fees| fees.contract);
        let oracle = self.spec.adfs.map(|_| AdfsSpec::PROXY);
        [proxy, fees, oracle].into_iter().flatten().collect()
    }

    /// Puts what the proxy emits into a transaction of its own after all others.
    fn add_proxy(&self, number: u64, txs: &mut Vec<Tx>, logs: &mut Vec<Log>) {
        let Some(proxy) = self.proxy() else {
            return;
        };
        let index = txs.len() as u32;
        for made in proxy.logs(number, self.place(number)) {
            logs.push(proxy.log(&made, index, logs.len() as u32));
        }
        if logs.last().is_some_and(|log| log.tx_index() == index) {
            let hash = self.content.tx_hash(number, index);
            txs.push(Tx { index, hash });
        }
    }

    /// What the fee collector emits in a block. Only the oracle of feeds comes after it.
    pub(super) fn fee_logs(&self, number: u64) -> Vec<FeeLog> {
        match &self.spec.fees {
            Some(spec) if number > 0 => fees::logs(spec, self.spec.seed, self.place(number)),
            _ => Vec::new(),
        }
    }

    /// Puts what the fee collector emits into transactions of its own after all others.
    fn add_fees(&self, number: u64, txs: &mut Vec<Tx>, logs: &mut Vec<Log>) {
        let contract = self.spec.fees.map_or([0; 20], |spec| spec.contract);
        let first = txs.len() as u32;
        for made in self.fee_logs(number) {
            let index = first + made.tx;
            logs.push(made.log(contract, index, logs.len() as u32));
            if index == txs.len() as u32 {
                let hash = self.content.tx_hash(number, index);
                txs.push(Tx { index, hash });
            }
        }
    }

    /// The header of a block with this content on top of this parent.
    pub(super) fn header(&self, number: u64, parent: Hash32, seal: &Seal) -> Header {
        let cancun = self.spec.era != Era::London;
        let prague = self.spec.era == Era::Prague;
        // What says nothing about the content.
        let mut rng = Rng::of(&[domain::HEADER, self.spec.seed, self.place(number)]);
        let beneficiary = Address::new(rng.bytes());
        let [state_root, mix_hash, beacon_root] = std::array::from_fn(|_| B256::new(rng.bytes()));
        let gas_limit = seal.gas_used.next_multiple_of(GAS_LIMIT).max(GAS_LIMIT);
        Header {
            parent_hash: B256::new(parent.0),
            receipts_root: seal.receipts_root,
            transactions_root: seal.transactions_root,
            logs_bloom: match self.spec.blooms_unfilled {
                true => Bloom::ZERO,
                false => seal.bloom.as_deref().copied().unwrap_or_default(),
            },
            number,
            gas_limit,
            gas_used: seal.gas_used,
            timestamp: self.timestamp(number),
            withdrawals_root: cancun.then_some(EMPTY_ROOT_HASH),
            blob_gas_used: cancun.then_some(0),
            excess_blob_gas: cancun.then_some(0),
            parent_beacon_block_root: cancun.then_some(beacon_root),
            requests_hash: prague.then_some(B256::ZERO),
            beneficiary,
            state_root,
            mix_hash,
            base_fee_per_gas: Some(BASE_FEE + rng.below(BASE_FEE_SPREAD)),
            difficulty: U256::ZERO,
            extra_data: Bytes::from_static(b"chronolith sim"),
            ..Header::default()
        }
    }

    fn is_busy(&self, number: u64) -> bool {
        let dice = rng::key(&[domain::BUSY, self.place(number)]) % PERMILLE;
        number > 0 && dice < u64::from(self.spec.busy_permille)
    }

    /// A number that stands for this block on this fork.
    fn place(&self, number: u64) -> u64 {
        self.content.block_hash(number).prefix64()
    }

    /// Transactions with their receipts, from ids that keep them apart.
    fn txs(&self, txs: &[Tx], logs: &[Log]) -> Vec<EvmTx> {
        let mut gas_before = 0;
        let mut next_log = 0;
        let make = |tx: &Tx| {
            let mine = |log: &&Log| log.tx_index() == tx.index;
            let count = logs.iter().skip(next_log).take_while(mine).count();
            let range = next_log..next_log + count;
            next_log = range.end;
            let mut made = self.bare_tx(tx.index, tx.hash);
            made.hash = self.hash_of(&made);
            // A failed transaction leaves no logs.
            made.succeeded |= !range.is_empty();
            made.gas_used += LOG_GAS * range.len() as u64;
            made.cumulative_gas_used = gas_before + made.gas_used;
            gas_before = made.cumulative_gas_used;
            made.logs = range;
            made
        };
        txs.iter().map(make).collect()
    }

    /// A transaction without logs. It follows from its id alone, so that its hash is known without
    /// the rest of its block.
    fn bare_tx(&self, index: u32, id: Hash32) -> EvmTx {
        let mut rng = Rng::of(&[domain::TXS, self.spec.seed, id.prefix64()]);
        let legacy = rng.percent(LEGACY_PERCENT);
        let creates = rng.percent(CREATE_PERCENT);
        let succeeded = !rng.percent(FAILED_PERCENT);
        let gas_used = TX_GAS + rng.below(180_000);
        let (to, from) = (Address::new(rng.bytes()), Address::new(rng.bytes()));
        let gas_price = BASE_FEE + BASE_FEE_SPREAD + rng.below(BASE_FEE);
        EvmTx {
            index,
            hash: id,
            tx_type: match legacy {
                true => TxType::Legacy,
                false => TxType::DynamicFee,
            },
            from,
            to: (!creates).then_some(to),
            succeeded,
            gas_used,
            cumulative_gas_used: gas_used,
            gas_price,
            gas_limit: GAS_LIMIT,
            nonce: id.prefix64() >> 1,
            logs: 0..0,
            input: self.call(&mut rng),
        }
    }

    /// What a transaction calls: a selector and words that hold an address each.
    fn call(&self, rng: &mut Rng) -> Vec<u8> {
        let words = match self.spec.call_words {
            0 => return Vec::new(),
            mean => rng.below(2 * u64::from(mean) + 1),
        };
        let mut input = rng.bytes::<4>().to_vec();
        for _ in 0..words {
            input.extend_from_slice(&[0; 12]);
            input.extend_from_slice(&rng.bytes::<20>());
        }
        input
    }
}
