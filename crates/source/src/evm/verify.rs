//! What can be proven about a block from what a node says of it.
//!
//! The header's hash is computed from its fields, the bloom from the logs, the receipts root from the
//! receipts, the transactions root from the transactions. What holds proves its part on any chain. A
//! check that a chain does not allow, because its headers or receipts follow rules that are not known,
//! is left out by its profile, or dropped once every endpoint agrees that it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use alloy_primitives::{B256, Bloom, keccak256};
use chronolith_model::{Hash32, Proof, Scope, Verification};

use super::bloom;
use super::evidence::Held;
use super::oddity::Oddity;
use super::receipts::has_root;
use super::rules::{Checks, Refusal, Rule};
use super::wire::{EncodedTx, WireBlock, WireLog, WireReceipt};

/// Checks blocks of one chain.
#[derive(Debug)]
pub(crate) struct Verifier {
    checks: Checks,
    learned: Arc<Learned>,
    /// Rules that blocks failed and were not refused by, because they are dropped.
    excused: AtomicU8,
}

/// What was learned of a chain while its blocks were checked.
#[derive(Debug)]
struct Learned {
    /// Rules that were seen to fail on every endpoint: what fails them is proven less, not refused.
    dropped: AtomicU8,
    /// The lowest block that was seen with a bloom that is that of its logs, and has bits.
    filled_from: AtomicU64,
    held: Held,
}

impl Verifier {
    pub(crate) fn new(checks: Checks) -> Self {
        Self {
            checks,
            learned: Arc::new(Learned {
                dropped: AtomicU8::new(0),
                filled_from: AtomicU64::new(u64::MAX),
                held: Held::default(),
            }),
            excused: AtomicU8::new(0),
        }
    }

    /// The same, for blocks that are requested together: it has the rules that they failed.
    pub(crate) fn of_one_fetch(&self) -> Self {
        Self {
            checks: self.checks,
            learned: self.learned.clone(),
            excused: AtomicU8::new(0),
        }
    }

    /// How many blocks followed each rule.
    pub(crate) fn held(&self) -> &Held {
        &self.learned.held
    }

    /// Whether a block failed a rule that is dropped.
    pub(crate) fn has_excused(&self) -> bool {
        self.excused.load(Ordering::Relaxed) != 0
    }

    /// Refuses nothing by this rule any more; returns whether that is news.
    pub(crate) fn drop_rule(&self, rule: Rule) -> bool {
        let bit = 1 << rule as u8;
        self.learned.dropped.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Whether nothing is refused by this rule any more.
    pub(crate) fn is_dropped(&self, rule: Rule) -> bool {
        self.learned.dropped.load(Ordering::Relaxed) & (1 << rule as u8) != 0
    }

    /// Whether transactions are to be fetched whole, because their root can be recomputed.
    pub(crate) fn proves_transactions(&self) -> bool {
        self.checks.transactions_root && self.checks.header_hash
    }

    /// What a rule that fails leads to: a refusal, or nothing proven by it.
    fn fails(&self, rule: Rule, what: String, computed: &[B256]) -> Result<bool, Refusal> {
        if self.is_dropped(rule) {
            self.excused.fetch_or(1 << rule as u8, Ordering::Relaxed);
            return Ok(false);
        }
        let computed: Vec<u8> = computed.iter().flat_map(|one| one.0).collect();
        Err(Refusal {
            rule: Some(rule),
            what,
            computed: Hash32(keccak256(computed).0),
        })
    }

    /// Whether the header hashes to what it is called. False where the chain does not allow to check that.
    pub(crate) fn header(&self, block: &WireBlock) -> Result<bool, Refusal> {
        if !self.checks.header_hash {
            return Ok(false);
        }
        if block.hashed().is_some() {
            self.held().note(Rule::HeaderHash);
            return Ok(true);
        }
        let computed = block
            .fields
            .encode(chronolith_evm::HeaderForm::Ethereum, &[]);
        let computed = computed.map_or(B256::ZERO, keccak256);
        let mut what = format!("header hashes to {computed}, not to {}", block.hash);
        let mut unknown: Vec<&str> = block.fields.extra.names().collect();
        // Clients write them in different orders.
        unknown.sort_unstable();
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            what = format!("{what}; it has fields that are not Ethereum's: {unknown}");
        }
        self.fails(Rule::HeaderHash, what, &[computed, block.hash])
    }

    /// Whether bloom and roots are under the block's hash.
    pub(crate) fn commits(&self, block: &WireBlock) -> Result<bool, Refusal> {
        let hashed = self.header(block)?.then(|| block.hashed()).flatten();
        Ok(hashed.is_some_and(|(form, _)| form.covers_content()))
    }

    /// Checks a block with its receipts; returns how far it is proven.
    pub(crate) fn receipts(
        &self,
        block: &WireBlock,
        receipts: &[WireReceipt],
    ) -> Result<Proof, Refusal> {
        let commits = self.commits(block)?;
        self.check_positions(block, receipts)?;
        let level = if commits {
            self.receipts_level(block, receipts)?
        } else {
            self.header_level(block)
        };
        self.with_transactions(block, commits, Proof::of_logs(level))
    }

    fn header_level(&self, block: &WireBlock) -> Verification {
        if self.checks.header_hash && block.hashed().is_some() {
            Verification::Linked
        } else {
            Verification::Claimed
        }
    }

    fn check_positions(&self, block: &WireBlock, receipts: &[WireReceipt]) -> Result<(), Refusal> {
        let hashes = &block.tx_hashes;
        let own = self.block_receipt(block, receipts);
        if hashes.len() + usize::from(own) != receipts.len() {
            let (txs, found) = (hashes.len(), receipts.len());
            return Err(format!("{txs} transactions, {found} receipts").into());
        }
        let mut index = 0;
        let hashes = hashes.iter().chain(own.then_some(&block.hash));
        for (at, (receipt, hash)) in receipts.iter().zip(hashes).enumerate() {
            let place = receipt.transaction_index as usize == at;
            let named = receipt.transaction_hash == *hash;
            let here = receipt.block_hash.is_none_or(|named| named == block.hash);
            if !place || !named || !here {
                return Err(format!("receipt {at} is of another transaction or block").into());
            }
            for log in &receipt.logs {
                check_log(block, log, at as u64, hash)?;
                if log.log_index != index {
                    return Err(format!("log {} where {index} is due", log.log_index).into());
                }
                index += 1;
            }
        }
        Ok(())
    }

    /// Whether the last receipt is the block's own.
    fn block_receipt(&self, block: &WireBlock, receipts: &[WireReceipt]) -> bool {
        let last = receipts.last();
        self.checks.oddity == Oddity::BlockReceipt
            && last.is_some_and(|last| last.transaction_hash == block.hash)
    }

    /// Whether blocks have receipts of their own, which some nodes leave out.
    pub(crate) fn may_lack_block_receipts(&self) -> bool {
        self.checks.oddity == Oddity::BlockReceipt && self.checks.bloom
    }

    /// The hash of the transaction that is under no root, where the block shows one.
    fn unrooted(&self, block: &WireBlock) -> Option<B256> {
        let hidden = self.checks.oddity.hidden(block.number(), block.hash)?;
        (block.tx_hashes.last() == Some(&hidden)).then_some(hidden)
    }

    /// Whether the block may hold logs that no root and no bloom covers. One whose endpoint leaves them
    /// out looks like one that has none.
    fn may_hide(&self, block: &WireBlock) -> bool {
        self.checks.oddity.may_hide(block.number())
    }

    /// The receipts that are under the root, and the bloom of each.
    fn rooted<'a>(
        &self,
        block: &WireBlock,
        receipts: &'a [WireReceipt],
    ) -> (Vec<&'a WireReceipt>, Vec<Bloom>) {
        let unrooted = self.unrooted(block);
        let rooted = receipts.iter();
        let rooted = rooted.filter(|one| Some(one.transaction_hash) != unrooted);
        rooted.map(|one| (one, bloom_of(&one.logs))).unzip()
    }

    fn receipts_level(
        &self,
        block: &WireBlock,
        receipts: &[WireReceipt],
    ) -> Result<Verification, Refusal> {
        let (rooted, blooms) = self.rooted(block, receipts);
        let mut level = Verification::Linked;
        if self.checks.bloom && self.check_bloom(block, &all_of(&blooms))? {
            level = Verification::Bloom;
        }
        if self.checks.receipts_root && self.check_root(block, &rooted, &blooms)? {
            level = Verification::Receipts;
        }
        if self.may_hide(block) {
            Ok(level.min(Verification::Linked))
        } else {
            Ok(level)
        }
    }

    fn check_root(
        &self,
        block: &WireBlock,
        receipts: &[&WireReceipt],
        blooms: &[Bloom],
    ) -> Result<bool, Refusal> {
        let root = block.header().receipts_root;
        match has_root(receipts, blooms, root) {
            Ok(()) => {
                if !receipts.is_empty() {
                    self.held().note(Rule::ReceiptsRoot);
                }
                Ok(true)
            }
            Err(computed) => self.fails(
                Rule::ReceiptsRoot,
                format!("receipts hash to {computed}, the header says {root}"),
                &[computed, root],
            ),
        }
    }

    /// Whether one rule holds, whatever the others say.
    pub(crate) fn holds(&self, rule: Rule, block: &WireBlock, receipts: &[WireReceipt]) -> bool {
        let (rooted, blooms) = self.rooted(block, receipts);
        match rule {
            Rule::HeaderHash => block.hashed().is_some(),
            Rule::Bloom => all_of(&blooms) == block.header().logs_bloom,
            Rule::ReceiptsRoot => has_root(&rooted, &blooms, block.header().receipts_root).is_ok(),
            Rule::TransactionsRoot => self.transactions(block).unwrap_or(false),
        }
    }

    /// The same proof, with transactions where their root holds.
    fn with_transactions(
        &self,
        block: &WireBlock,
        commits: bool,
        proof: Proof,
    ) -> Result<Proof, Refusal> {
        if !commits || !self.checks.transactions_root {
            return Ok(proof);
        }
        let empty = block.tx_hashes.is_empty();
        let empty = empty && block.header().transactions_root == alloy_trie::EMPTY_ROOT_HASH;
        // What is under no root is not proven, served or not, however well the others are.
        if (empty || self.transactions(block)?) && !self.may_hide(block) {
            Ok(proof.with_transactions())
        } else {
            Ok(proof)
        }
    }

    /// Whether every transaction's hash and the root over them follow from the transactions, without the
    /// one that is under no root.
    fn transactions(&self, block: &WireBlock) -> Result<bool, Refusal> {
        let Some(txs) = block.encoded_txs() else {
            return Ok(false);
        };
        let unrooted = self.unrooted(block);
        let mut encoded = Vec::with_capacity(txs.len());
        for (tx, named) in txs.iter().zip(&block.tx_hashes) {
            if Some(*named) == unrooted {
                continue;
            }
            match tx {
                EncodedTx::Bytes { bytes, hash, .. } if hash == named => encoded.push(bytes),
                EncodedTx::Bytes { hash, .. } => {
                    let what = format!("transaction hashes to {hash}, not to {named}");
                    return self.fails(Rule::TransactionsRoot, what, &[*hash, *named]);
                }
                EncodedTx::Unknown(why) => {
                    // Why it cannot be read may contain its position in the answer.
                    let computed = [B256::ZERO, *named];
                    return self.fails(Rule::TransactionsRoot, why.clone(), &computed);
                }
            }
        }
        let computed = chronolith_evm::ordered_root(&encoded);
        let root = block.header().transactions_root;
        if computed == root {
            if !encoded.is_empty() {
                self.held().note(Rule::TransactionsRoot);
            }
            return Ok(true);
        }
        let what = format!("transactions hash to {computed}, the header says {root}");
        self.fails(Rule::TransactionsRoot, what, &[computed, root])
    }

    /// Checks a block with the logs that were found for it. Only where all logs of the block were
    /// requested can the bloom show whether one is missing.
    pub(crate) fn logs(
        &self,
        block: &WireBlock,
        logs: &[&WireLog],
        all: bool,
    ) -> Result<Proof, Refusal> {
        let commits = self.commits(block)?;
        self.check_order(block, logs, all)?;
        let mut level = self.header_level(block);
        if commits && self.checks.bloom {
            let unrooted = self.unrooted(block);
            let is_rooted = |log: &&&WireLog| Some(log.transaction_hash) != unrooted;
            let found = bloom_of(logs.iter().filter(is_rooted).copied());
            if all {
                if self.check_bloom(block, &found)? && !self.may_hide(block) {
                    level = Verification::Bloom;
                }
            } else if block.header().logs_bloom & found != found {
                let what = "a log that the header's bloom rules out".to_owned();
                self.fails(Rule::Bloom, what, &[keccak256(found)])?;
            }
        }
        self.with_transactions(block, commits, Proof::of_logs(level))
    }

    fn check_order(&self, block: &WireBlock, logs: &[&WireLog], all: bool) -> Result<(), Refusal> {
        let hashes = &block.tx_hashes;
        let own = self.checks.oddity == Oddity::BlockReceipt;
        let mut before: Option<u64> = None;
        for log in logs {
            u32::try_from(log.log_index).map_err(|_| "a log index beyond reason")?;
            let at = usize::try_from(log.transaction_index).ok();
            let of_block = own && at == Some(hashes.len()) && log.transaction_hash == block.hash;
            let hash = at.and_then(|at| hashes.get(at));
            let hash = hash.or(of_block.then_some(&block.hash));
            let hash = hash.ok_or("a log of no transaction")?;
            check_log(block, log, log.transaction_index, hash)?;
            let due = before.map_or(0, |before| before.saturating_add(1));
            let ordered = if all {
                log.log_index == due
            } else {
                log.log_index >= due
            };
            if !ordered {
                return Err(format!("log {} where {due} is due", log.log_index).into());
            }
            before = Some(log.log_index);
        }
        Ok(())
    }

    /// Whether the header's bloom proves that a block without logs of this scope has none: all logs
    /// are compared with it, or it allows for none. One without bits may be one that was never filled.
    pub(crate) fn settles(&self, block: &WireBlock, scope: &Scope) -> bool {
        self.checks.bloom
            && !self.may_hide(block)
            && (*scope == Scope::All || !self.may_hold(block, scope))
            && (!block.header().logs_bloom.is_zero() || self.proves_no_logs(block))
    }

    /// Whether a bloom without bits proves that the block has no logs: the chain is known to fill its
    /// blooms, or was seen to at this height. A block without transactions and receipts has none in any
    /// case. That is proof by a root, and still called `bloom`: every block of a range by its logs is, and
    /// ranges are archived in stretches of one level.
    fn proves_no_logs(&self, block: &WireBlock) -> bool {
        if is_empty(block) {
            return true;
        }
        let filled_from = self.learned.filled_from.load(Ordering::Relaxed);
        let filled = self.checks.blooms_filled || filled_from <= block.number();
        filled && !self.is_dropped(Rule::Bloom)
    }

    /// Whether the block may have a log of this scope: its bloom allows it, or logs are in no bloom. False
    /// proves that it has none, where blooms can be trusted.
    pub(crate) fn may_hold(&self, block: &WireBlock, scope: &Scope) -> bool {
        *scope == Scope::All
            || self.may_hide(block)
            || self.checks.bloom && bloom::may_hold(&block.header().logs_bloom, scope)
    }

    /// Whether the header's bloom proves that these are the logs.
    fn check_bloom(&self, block: &WireBlock, computed: &Bloom) -> Result<bool, Refusal> {
        let theirs = block.header().logs_bloom;
        if theirs == *computed && computed.is_zero() {
            return Ok(self.proves_no_logs(block));
        }
        if theirs == *computed {
            let filled_from = &self.learned.filled_from;
            filled_from.fetch_min(block.number(), Ordering::Relaxed);
            self.held().note(Rule::Bloom);
            return Ok(true);
        }
        let missing = !(theirs & !*computed).is_zero();
        let what = if missing { "missing" } else { "made up" };
        let what = format!("bloom does not fit the logs: a log is {what}");
        self.fails(Rule::Bloom, what, &[keccak256(computed)])
    }
}

/// Whether a log is of this block and of its transaction with this index and hash.
fn check_log(block: &WireBlock, log: &WireLog, index: u64, hash: &B256) -> Result<(), Refusal> {
    let here = log.block_hash == block.hash && log.block_number == block.number();
    let of_tx = log.transaction_index == index && log.transaction_hash == *hash;
    if log.removed || !here || !of_tx {
        let what = format!("log {} is of another block or transaction", log.log_index);
        return Err(what.into());
    }
    Ok(())
}

/// Whether a block has neither transactions nor receipts, by the roots of its header.
pub(crate) fn is_empty(block: &WireBlock) -> bool {
    let header = block.header();
    let roots = [header.receipts_root, header.transactions_root];
    block.tx_hashes.is_empty() && roots == [alloy_trie::EMPTY_ROOT_HASH; 2]
}

fn all_of(blooms: &[Bloom]) -> Bloom {
    blooms.iter().fold(Bloom::ZERO, |all, bloom| all | *bloom)
}

fn bloom_of<'a>(logs: impl IntoIterator<Item = &'a WireLog>) -> Bloom {
    let mut bloom = Bloom::ZERO;
    for log in logs {
        bloom::add(&mut bloom, log.address.as_slice());
        let topics = log.topics.iter();
        topics.for_each(|topic| bloom::add(&mut bloom, topic.as_slice()));
    }
    bloom
}

#[cfg(test)]
mod tests;
