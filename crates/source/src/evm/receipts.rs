//! Receipts as chains hash them.

use alloy_primitives::{B256, Bloom};
use alloy_rlp::{BufMut, Encodable, Header as ListHeader};

use super::wire::{WireLog, WireReceipt};

/// Type of deposits on OP chains, whose receipts have two more fields.
const DEPOSIT: u64 = 0x7e;
/// Type of Celo's transactions that pay their fee in a token, whose receipts have one more.
const CELO: u64 = 0x7b;

/// What the outcome of a transaction is, where an answer has both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// Since Byzantium.
    Status,
    /// Before; some nodes make up a status beside it.
    StateRoot,
}

/// Whether these receipts give this root.
pub(crate) fn has_root(
    receipts: &[&WireReceipt],
    blooms: &[Bloom],
    root: B256,
) -> Result<(), B256> {
    let computed = receipts_root(receipts, blooms, Outcome::Status);
    let both = |receipt: &&WireReceipt| receipt.root.is_some() && receipt.status.is_some();
    if computed == root
        || receipts.iter().any(both) && receipts_root(receipts, blooms, Outcome::StateRoot) == root
    {
        return Ok(());
    }
    Err(computed)
}

fn receipts_root(receipts: &[&WireReceipt], blooms: &[Bloom], outcome: Outcome) -> B256 {
    let both: Vec<(&&WireReceipt, &Bloom)> = receipts.iter().zip(blooms).collect();
    alloy_trie::root::ordered_trie_root_with_encoder(&both, |(receipt, bloom), out| {
        encode_receipt(receipt, bloom, outcome, out);
    })
}

/// A receipt as it is hashed: its type, then its fields as a list.
fn encode_receipt(receipt: &WireReceipt, bloom: &Bloom, outcome: Outcome, out: &mut dyn BufMut) {
    let kind = receipt.kind.unwrap_or(0);
    if kind != 0 {
        out.put_u8(kind as u8);
    }
    let by_root = outcome == Outcome::StateRoot || receipt.status.is_none();
    let root = receipt.root.filter(|_| by_root);
    let succeeded = receipt.status == Some(1);
    let logs: usize = receipt.logs.iter().map(log_length).sum();
    // The nonce is hashed only since there is a version, though nodes serve it for older ones too.
    let version = receipt.deposit_receipt_version;
    let deposit = version
        .filter(|_| kind == DEPOSIT)
        .map(|version| (receipt.deposit_nonce.unwrap_or(0), version));
    let outcome = root.map_or(succeeded.length(), |root| root.length());
    let base_fee = receipt.base_fee.filter(|_| kind == CELO);
    let base_fee_length = base_fee.map_or(0, |fee| fee.length());
    let deposit_length = deposit.map_or(0, |(nonce, version)| nonce.length() + version.length());
    let gas = receipt.cumulative_gas_used;
    list(
        outcome + gas.length() + bloom.length() + listed(logs) + deposit_length + base_fee_length,
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
    if let Some(fee) = base_fee {
        fee.encode(out);
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
