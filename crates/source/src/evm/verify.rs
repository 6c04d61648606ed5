//! What can be proven about a block from what a node says of it.
//!
//! The header's hash is computed from its fields, the bloom from the logs, the receipts root from the
//! receipts. Whoever gets all three right has the logs that the chain has. A check that a chain does
//! not allow, because its headers or receipts are not Ethereum's, is left out by its profile.

use alloy_primitives::{B256, Bloom, keccak256};
use alloy_rlp::{BufMut, Encodable, Header as ListHeader};
use bytes::Bytes;
use chronolith_model::{Scope, Verification};

use super::bloom;
use super::wire::{WireBlock, WireLog, WireReceipt};

/// Type of deposits on OP chains, whose receipts have two more fields.
const DEPOSIT: u64 = 0x7e;

/// Which checks a chain allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checks {
    /// The hash of a header follows from its fields.
    pub header_hash: bool,
    /// The bloom follows from the logs.
    pub bloom: bool,
    /// The receipts root follows from the receipts.
    pub receipts_root: bool,
}

impl Checks {
    /// Ethereum and whoever keeps to its rules.
    pub const ALL: Self = Self {
        header_hash: true,
        bloom: true,
        receipts_root: true,
    };
    /// Nothing but the links between blocks.
    pub const NONE: Self = Self {
        header_hash: false,
        bloom: false,
        receipts_root: false,
    };
}

/// Why a block is refused.
pub(crate) type Refusal = String;

/// Checks blocks of one chain.
#[derive(Debug)]
pub(crate) struct Verifier {
    checks: Checks,
}

impl Verifier {
    pub(crate) fn new(checks: Checks) -> Self {
        Self { checks }
    }

    /// Whether the header hashes to what it is called.
    pub(crate) fn header(&self, block: &WireBlock) -> Result<(), Refusal> {
        if !self.checks.header_hash {
            return Ok(());
        }
        let computed = keccak256(block.encoded());
        if computed == block.hash {
            return Ok(());
        }
        Err(format!(
            "header hashes to {computed}, not to {}",
            block.hash
        ))
    }

    /// Checks a block with its receipts; returns how far it is proven.
    pub(crate) fn receipts(
        &self,
        block: &WireBlock,
        receipts: &[WireReceipt],
    ) -> Result<Verification, Refusal> {
        self.header(block)?;
        let hashes = &block.tx_hashes;
        if hashes.len() != receipts.len() {
            let (txs, found) = (hashes.len(), receipts.len());
            return Err(format!("{txs} transactions, {found} receipts"));
        }
        let mut index = 0;
        for (at, (receipt, hash)) in receipts.iter().zip(hashes).enumerate() {
            let place = receipt.transaction_index as usize == at;
            let named = receipt.transaction_hash == *hash;
            let here = receipt.block_hash.is_none_or(|named| named == block.hash);
            if !place || !named || !here {
                return Err(format!("receipt {at} is of another transaction or block"));
            }
            for log in &receipt.logs {
                self.log(block, log, (at as u64, hash))?;
                if log.log_index != index {
                    return Err(format!("log {} where {index} is due", log.log_index));
                }
                index += 1;
            }
        }
        let blooms: Vec<Bloom> = receipts
            .iter()
            .map(|receipt| bloom_of(&receipt.logs))
            .collect();
        let mut level = Verification::Linked;
        if self.checks.bloom {
            let mut whole = Bloom::ZERO;
            blooms.iter().for_each(|bloom| whole |= *bloom);
            check_bloom(block, &whole)?;
            level = Verification::Bloom;
        }
        if self.checks.receipts_root {
            let root = receipts_root(receipts, &blooms);
            if root != block.header.receipts_root {
                let theirs = block.header.receipts_root;
                return Err(format!("receipts hash to {root}, the header says {theirs}"));
            }
            level = Verification::Receipts;
        }
        Ok(level)
    }

    /// Checks a block with the logs that were found for it. Only where all logs of the block were
    /// asked for can the bloom tell whether one is missing.
    pub(crate) fn logs(
        &self,
        block: &WireBlock,
        logs: &[&WireLog],
        all: bool,
    ) -> Result<Verification, Refusal> {
        self.header(block)?;
        let hashes = &block.tx_hashes;
        let mut before: Option<u64> = None;
        for log in logs {
            u32::try_from(log.log_index).map_err(|_| "a log index beyond reason")?;
            let hash = usize::try_from(log.transaction_index)
                .ok()
                .and_then(|at| hashes.get(at))
                .ok_or("a log of no transaction")?;
            self.log(block, log, (log.transaction_index, hash))?;
            let due = before.map_or(0, |before| before.saturating_add(1));
            let ordered = if all {
                log.log_index == due
            } else {
                log.log_index >= due
            };
            if !ordered {
                return Err(format!("log {} where {due} is due", log.log_index));
            }
            before = Some(log.log_index);
        }
        if !self.checks.bloom {
            return Ok(Verification::Linked);
        }
        let mut found = Bloom::ZERO;
        logs.iter().for_each(|log| add_log(&mut found, log));
        if all {
            check_bloom(block, &found)?;
            return Ok(Verification::Bloom);
        }
        if block.header.logs_bloom & found != found {
            return Err("a log that the header's bloom rules out".to_owned());
        }
        Ok(Verification::Linked)
    }

    /// Whether the header's bloom tells that a block without logs of this scope has none: all logs
    /// are compared with it, or it allows for none.
    pub(crate) fn settles(&self, block: &WireBlock, scope: &Scope) -> bool {
        self.checks.bloom && (*scope == Scope::All || !self.may_hold(block, scope))
    }

    /// Whether the header's bloom allows that the block has a log of this scope. False proves that it
    /// has none, where blooms can be trusted.
    pub(crate) fn may_hold(&self, block: &WireBlock, scope: &Scope) -> bool {
        let Scope::Only(entries) = scope else {
            return true;
        };
        let admits = |value: &Option<Bytes>| {
            value.as_ref().is_none_or(|value| {
                let mut bits = Bloom::ZERO;
                bloom::add(&mut bits, value);
                block.header.logs_bloom & bits == bits
            })
        };
        self.checks.bloom
            && entries
                .iter()
                .any(|entry| admits(&entry.emitter) && admits(&entry.topic0))
    }

    fn log(
        &self,
        block: &WireBlock,
        log: &WireLog,
        (index, hash): (u64, &B256),
    ) -> Result<(), Refusal> {
        let here = log.block_hash == block.hash && log.block_number == block.header.number;
        let of_tx = log.transaction_index == index && log.transaction_hash == *hash;
        if log.removed || !here || !of_tx {
            return Err(format!(
                "log {} is of another block or transaction",
                log.log_index
            ));
        }
        Ok(())
    }
}

fn bloom_of(logs: &[WireLog]) -> Bloom {
    let mut bloom = Bloom::ZERO;
    logs.iter().for_each(|log| add_log(&mut bloom, log));
    bloom
}

fn add_log(bloom: &mut Bloom, log: &WireLog) {
    bloom::add(bloom, log.address.as_slice());
    let topics = log.topics.iter();
    topics.for_each(|topic| bloom::add(bloom, topic.as_slice()));
}

fn check_bloom(block: &WireBlock, computed: &Bloom) -> Result<(), Refusal> {
    if block.header.logs_bloom == *computed {
        return Ok(());
    }
    let missing = (block.header.logs_bloom & !*computed) != Bloom::ZERO;
    let what = if missing {
        "a log is missing"
    } else {
        "a log is made up"
    };
    Err(format!("bloom does not fit the logs: {what}"))
}

fn receipts_root(receipts: &[WireReceipt], blooms: &[Bloom]) -> B256 {
    let both: Vec<(&WireReceipt, &Bloom)> = receipts.iter().zip(blooms).collect();
    alloy_trie::root::ordered_trie_root_with_encoder(&both, |(receipt, bloom), out| {
        encode_receipt(receipt, bloom, out);
    })
}

/// A receipt as it is hashed: its type, then its fields as a list.
fn encode_receipt(receipt: &WireReceipt, bloom: &Bloom, out: &mut dyn BufMut) {
    let kind = receipt.kind.unwrap_or(0);
    if kind != 0 {
        out.put_u8(kind as u8);
    }
    let root = receipt.root.filter(|_| receipt.status.is_none());
    let succeeded = receipt.status == Some(1);
    let logs: usize = receipt.logs.iter().map(log_length).sum();
    // The nonce is hashed only since there is a version, though nodes tell it for older ones too.
    let version = receipt.deposit_receipt_version;
    let deposit = version
        .filter(|_| kind == DEPOSIT)
        .map(|version| (receipt.deposit_nonce.unwrap_or(0), version));
    let outcome = root.map_or(succeeded.length(), |root| root.length());
    let deposit_length = deposit.map_or(0, |(nonce, version)| nonce.length() + version.length());
    let gas = receipt.cumulative_gas_used;
    list(
        outcome + gas.length() + bloom.length() + listed(logs) + deposit_length,
        out,
    );
    match root {
        Some(root) => root.encode(out),
        None => succeeded.encode(out),
    }
    gas.encode(out);
    bloom.encode(out);
    list(logs, out);
    receipt.logs.iter().for_each(|log| encode_log(log, out));
    if let Some((nonce, version)) = deposit {
        nonce.encode(out);
        version.encode(out);
    }
}

/// Lengths come first in this encoding: computed, so that nothing is written twice.
fn log_fields_length(log: &WireLog) -> usize {
    log.address.length() + log.topics.length() + log.data.length()
}

fn log_length(log: &WireLog) -> usize {
    listed(log_fields_length(log))
}

fn encode_log(log: &WireLog, out: &mut dyn BufMut) {
    list(log_fields_length(log), out);
    log.address.encode(out);
    log.topics.encode(out);
    log.data.encode(out);
}

/// The length of a list of this many bytes, with what stands before it.
fn listed(payload: usize) -> usize {
    payload + alloy_rlp::length_of_length(payload)
}

fn list(payload_length: usize, out: &mut dyn BufMut) {
    let header = ListHeader {
        list: true,
        payload_length,
    };
    header.encode(out);
}
