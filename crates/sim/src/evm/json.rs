//! Blocks, receipts and logs as JSON, the way nodes write them.

use alloy_consensus::Header;
use alloy_primitives::Bloom;
use chronolith_model::{Hash32, Log};

use super::block::{EvmBlock, EvmTx, LEGACY_V, TxType};
use super::bloom::bloom_of;
use super::node::Head;
use crate::json_writer::{Object, put_data, put_list};

/// The faults of a block's logs in one answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogFaults {
    pub(super) wrong_hash: bool,
    /// No time.
    pub(super) no_timestamp: bool,
    /// The log that is left out, by its index in the block.
    pub(super) missing_log: Option<u32>,
}

/// What all logs of a block have in common, written once.
pub(super) struct LogPlace {
    fixed: Vec<u8>,
    hash: Hash32,
    missing_log: Option<u32>,
}

impl LogPlace {
    pub(super) fn new(block: &EvmBlock, log_faults: LogFaults) -> Self {
        let mut hash = block.hash;
        if log_faults.wrong_hash {
            hash.0 = hash.0.map(|byte| !byte);
        }
        let mut fixed = Vec::with_capacity(200);
        let mut object = Object::begin(&mut fixed);
        object.quantity("blockNumber", block.header.number);
        object.data("blockHash", &hash.0);
        if !log_faults.no_timestamp {
            object.quantity("blockTimestamp", block.header.timestamp);
        }
        // No end: the log's own fields follow.
        Self {
            fixed,
            hash,
            missing_log: log_faults.missing_log,
        }
    }

    /// Whether a log is not left out.
    pub(super) fn shows(&self, log: &Log) -> bool {
        self.missing_log != Some(log.log_index())
    }

    pub(super) fn put_log(&self, out: &mut Vec<u8>, tx: &EvmTx, log: &Log) {
        out.extend_from_slice(&self.fixed);
        let mut object = Object::resume(out);
        object.data("address", log.emitter());
        put_list(object.key("topics"), log.topics(), put_data);
        object.data("data", log.data());
        object.data("transactionHash", &tx.hash.0);
        object.quantity("transactionIndex", tx.index.into());
        object.quantity("logIndex", log.log_index().into());
        object.raw("removed", "false");
        object.end();
    }

    /// One receipt of the block.
    pub(super) fn put_receipt(&self, out: &mut Vec<u8>, block: &EvmBlock, tx: &EvmTx) {
        let logs = block.logs_of(tx);
        let mut object = Object::begin(out);
        object.data("transactionHash", &tx.hash.0);
        object.quantity("transactionIndex", tx.index.into());
        object.data("blockHash", &self.hash.0);
        object.quantity("blockNumber", block.header.number);
        object.data("from", tx.from.as_slice());
        match &tx.to {
            Some(to) => {
                object.data("to", to.as_slice());
                object.raw("contractAddress", "null");
            }
            None => {
                object.raw("to", "null");
                // Made up like the sender: the real one follows from its nonce.
                let address = tx.hash.0.first_chunk::<20>();
                object.data("contractAddress", address.map_or(&[], |address| address));
            }
        }
        object.quantity("cumulativeGasUsed", tx.cumulative_gas_used);
        object.quantity("gasUsed", tx.gas_used);
        object.quantity("effectiveGasPrice", tx.gas_price);
        let shown = logs.iter().filter(|log| self.shows(log));
        put_list(object.key("logs"), shown, |out, log| {
            self.put_log(out, tx, log);
        });
        object.data("logsBloom", bloom_of(logs).as_slice());
        object.quantity("type", tx.tx_type.number().into());
        object.quantity("status", tx.succeeded.into());
        object.end();
    }
}

/// A header as `newHeads` has it.
pub(super) fn put_head(out: &mut Vec<u8>, head: &Head) {
    let mut object = Object::begin(out);
    put_header_fields(&mut object, head, &head.header.logs_bloom);
    object.end();
}

/// How the transactions of a block are shown.
pub(super) enum Txs<'a> {
    /// Their hashes only.
    Hashes(&'a [Hash32]),
    Full(&'a [EvmTx], u64),
}

/// A block as `eth_getBlockByNumber` has it, with this bloom.
pub(super) fn put_block(out: &mut Vec<u8>, head: &Head, txs: &Txs<'_>, bloom: &Bloom) {
    let mut object = Object::begin(out);
    put_header_fields(&mut object, head, bloom);
    let count = match txs {
        Txs::Hashes(hashes) => hashes.len(),
        Txs::Full(txs, _) => txs.len(),
    };
    // No bodies, so no true size: a plausible one.
    object.quantity("size", 600 + 180 * count as u64);
    object.raw("uncles", "[]");
    if head.header.withdrawals_root.is_some() {
        object.raw("withdrawals", "[]");
    }
    let list = object.key("transactions");
    match txs {
        Txs::Hashes(hashes) => put_list(list, *hashes, |out, hash| put_data(out, &hash.0)),
        Txs::Full(txs, chain_id) => put_list(list, *txs, |out, tx| {
            put_tx(out, head, tx, *chain_id);
        }),
    }
    object.end();
}

fn put_header_fields(object: &mut Object<'_>, head: &Head, bloom: &Bloom) {
    let header: &Header = &head.header;
    object.data("hash", &head.hash.0);
    object.quantity("number", header.number);
    object.data("parentHash", header.parent_hash.as_slice());
    object.data("sha3Uncles", header.ommers_hash.as_slice());
    object.data("miner", header.beneficiary.as_slice());
    object.data("stateRoot", header.state_root.as_slice());
    object.data("transactionsRoot", header.transactions_root.as_slice());
    object.data("receiptsRoot", header.receipts_root.as_slice());
    object.data("logsBloom", bloom.as_slice());
    // Always zero since the merge.
    object.quantity("difficulty", 0);
    object.quantity("gasLimit", header.gas_limit);
    object.quantity("gasUsed", header.gas_used);
    object.quantity("timestamp", header.timestamp);
    object.data("extraData", &header.extra_data);
    object.data("mixHash", header.mix_hash.as_slice());
    object.data("nonce", header.nonce.as_slice());
    let quantities = [
        ("baseFeePerGas", header.base_fee_per_gas),
        ("blobGasUsed", header.blob_gas_used),
        ("excessBlobGas", header.excess_blob_gas),
    ];
    for (key, value) in quantities {
        if let Some(value) = value {
            object.quantity(key, value);
        }
    }
    let hashes = [
        ("withdrawalsRoot", header.withdrawals_root),
        ("parentBeaconBlockRoot", header.parent_beacon_block_root),
        ("requestsHash", header.requests_hash),
    ];
    for (key, value) in hashes {
        if let Some(value) = value {
            object.data(key, value.as_slice());
        }
    }
}

fn put_tx(out: &mut Vec<u8>, head: &Head, tx: &EvmTx, chain_id: u64) {
    let mut object = Object::begin(out);
    object.data("blockHash", &head.hash.0);
    object.quantity("blockNumber", head.header.number);
    object.data("hash", &tx.hash.0);
    object.quantity("transactionIndex", tx.index.into());
    object.quantity("type", tx.tx_type.number().into());
    object.data("from", tx.from.as_slice());
    match &tx.to {
        Some(to) => object.data("to", to.as_slice()),
        None => object.raw("to", "null"),
    }
    if tx.tx_type == TxType::DynamicFee {
        object.quantity("chainId", chain_id);
    }
    object.quantity("nonce", tx.nonce);
    object.quantity("value", 0);
    object.quantity("gas", tx.gas_limit);
    object.quantity("gasPrice", tx.gas_price);
    if tx.tx_type == TxType::DynamicFee {
        object.quantity("maxFeePerGas", tx.gas_price);
        object.quantity("maxPriorityFeePerGas", tx.gas_price);
        object.raw("accessList", "[]");
        object.quantity("yParity", 0);
    }
    object.data("input", &tx.input);
    let v = match tx.tx_type {
        TxType::Legacy => LEGACY_V,
        TxType::DynamicFee => 0,
    };
    object.quantity("v", v);
    // Nothing is signed.
    object.quantity("r", 0);
    object.quantity("s", 0);
    object.end();
}
