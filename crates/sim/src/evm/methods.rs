//! The methods of a simulated node, each a pure function of the node's state and the faults.
//!
//! A method takes the state once: all that one answer says is of one chain.

mod logs;

use alloy_primitives::{Bloom, hex};
use chronolith_model::{Hash32, Log};
use serde_json::Value;

use super::block::EvmBlock;
use super::byzantine::{altered, foreign};
use super::faults::{Faults, RpcFault};
use super::filter::{parse_hash, parse_quantity};
use super::json::{self, LogFaults, LogPlace, Txs};
use super::node::{Head, State};
use super::refusals::RpcError;
use super::server::Context;
use crate::json_writer::{self, quantity};

/// All methods there are.
const METHODS: [&str; 13] = [
    "eth_blockNumber",
    "eth_chainId",
    "eth_getBlockByHash",
    "eth_getBlockByNumber",
    "eth_getBlockReceipts",
    "eth_getCode",
    "eth_getLogs",
    "eth_getTransactionReceipt",
    "eth_subscribe",
    "eth_syncing",
    "eth_unsubscribe",
    "net_version",
    "web3_clientVersion",
];

/// How a caller wants the transactions of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShownTxs {
    Hashes,
    Full,
}

type Answer = Result<Vec<u8>, RpcError>;

/// The method of this name.
pub(super) fn known(name: &str) -> Option<&'static str> {
    METHODS.into_iter().find(|known| *known == name)
}

/// Calls a method. Subscriptions belong to a connection and are not among them.
pub(super) fn call(context: &Context, method: &str, params: &[Value]) -> Answer {
    let faults = context.faults();
    let state = context.node.read();
    match method {
        "eth_chainId" => Ok(quantity(chain_id(&state, faults))),
        "net_version" => Ok(format!("\"{}\"", chain_id(&state, faults)).into_bytes()),
        "web3_clientVersion" => Ok(b"\"chronolith-sim/v0.1.0\"".to_vec()),
        "eth_blockNumber" => Ok(quantity(head_number(&state, faults))),
        "eth_syncing" => Ok(syncing(&state, faults)),
        "eth_getBlockByNumber" => {
            let tag = param(params, 0)?;
            if context.options.no_tags && matches!(tag.as_str(), Some("finalized" | "safe")) {
                let message = "invalid argument 0: hex string without 0x prefix";
                return Err(RpcError::params(message));
            }
            let number = resolve(&state, faults, tag)?;
            Ok(block_by_number(&state, faults, number, shown(params)))
        }
        "eth_getBlockByHash" => {
            let hash = parse_hash(param(params, 0)?)?;
            Ok(block_by_hash(&state, faults, hash, shown(params)))
        }
        "eth_getBlockReceipts" if faults.hits(RpcFault::NoReceipts) => {
            let message = "the method eth_getBlockReceipts does not exist/is not available";
            Err(RpcError::new(-32601, message))
        }
        "eth_getBlockReceipts" => {
            let number = block_of(&state, faults, param(params, 0)?)?;
            Ok(block_receipts(&state, faults, number))
        }
        "eth_getTransactionReceipt" => {
            let hash = parse_hash(param(params, 0)?)?;
            let place = context.node.find_tx(&state, hash);
            Ok(tx_receipt(&state, faults, place))
        }
        "eth_getLogs" => logs::get_logs(context, &state, params),
        "eth_getCode" => Ok(code(&state, param(params, 0)?)),
        _ => Err(RpcError::new(-32601, "method not found")),
    }
}

/// Some code where the fee collector is, and none anywhere else.
fn code(state: &State, address: &Value) -> Vec<u8> {
    let address = address.as_str().map(str::to_lowercase);
    let mut contracts = state.contracts().into_iter().map(hex::encode_prefixed);
    match contracts.any(|contract| Some(contract) == address) {
        true => b"\"0x60806040\"".to_vec(),
        false => b"\"0x\"".to_vec(),
    }
}

/// The block that a number or a tag names; it need not exist.
fn resolve(state: &State, faults: &Faults, tag: &Value) -> Result<u64, RpcError> {
    let no_text = || RpcError::params("invalid argument 0: no block number or tag");
    match tag.as_str().ok_or_else(no_text)? {
        "latest" | "pending" => Ok(head_number(state, faults)),
        "finalized" => Ok(state.behind_head(state.finalized_depth).number),
        "safe" => Ok(state.behind_head(state.finalized_depth / 2).number),
        "earliest" => Ok(0),
        number => parse_quantity(number),
    }
}

/// The block that a number, a tag, a hash or an object with one of them names.
fn block_of(state: &State, faults: &Faults, value: &Value) -> Result<Option<u64>, RpcError> {
    let value = match value {
        Value::Object(object) => (object.get("blockHash"))
            .or_else(|| object.get("blockNumber"))
            .unwrap_or(&Value::Null),
        plain => plain,
    };
    match value.as_str() {
        Some(text) if text.len() == 66 => Ok(state.number_of(parse_hash(value)?)),
        _ => resolve(state, faults, value).map(Some),
    }
}

fn head_number(state: &State, faults: &Faults) -> u64 {
    let head = state.head().number;
    if head > 0 && faults.hits(RpcFault::HeadRegression) {
        return head.saturating_sub(faults.sizes().regression_blocks.max(1));
    }
    head
}

/// False, or the progress: a node that is syncing has some blocks and knows of more.
fn syncing(state: &State, faults: &Faults) -> Vec<u8> {
    if !faults.hits(RpcFault::Syncing) {
        return b"false".to_vec();
    }
    let head = state.head().number;
    let mut out = Vec::new();
    let mut object = json_writer::Object::begin(&mut out);
    object.quantity("startingBlock", 0);
    object.quantity("currentBlock", head);
    object.quantity("highestBlock", head + 1_000);
    object.end();
    out
}

fn chain_id(state: &State, faults: &Faults) -> u64 {
    state.chain_id() + u64::from(faults.hits(RpcFault::WrongChainId))
}

fn block_by_number(state: &State, faults: &Faults, number: u64, shown: ShownTxs) -> Vec<u8> {
    if state.hash_at(number).is_none() || faults.hits(RpcFault::NullBlock) {
        return null();
    }
    // Block 0 has no siblings: all nodes agree on it.
    if number > 0 && faults.hits(RpcFault::HashChange) {
        let sibling = state.sibling(number);
        return sibling.map_or_else(null, |block| whole_block(state, faults, block, shown));
    }
    known_block(state, faults, number, shown)
}

fn block_by_hash(state: &State, faults: &Faults, hash: Hash32, shown: ShownTxs) -> Vec<u8> {
    match state.number_of(hash) {
        Some(number) if !faults.hits(RpcFault::NullBlock) => {
            known_block(state, faults, number, shown)
        }
        _ => null(),
    }
}

/// A canonical block; its content is made only where it is shown.
fn known_block(state: &State, faults: &Faults, number: u64, shown: ShownTxs) -> Vec<u8> {
    if shown == ShownTxs::Full {
        let block = state.block(number);
        return block.map_or_else(null, |block| whole_block(state, faults, block, shown));
    }
    let Some(head) = state.head_at(number) else {
        return null();
    };
    let mut hashes: Vec<Hash32> = state.tx_hashes(number).collect();
    if !hashes.is_empty() && faults.hits(RpcFault::ForeignTxHashes) {
        hashes.iter_mut().for_each(|hash| *hash = foreign(*hash));
    }
    put_block(faults, &head, &Txs::Hashes(&hashes))
}

fn whole_block(state: &State, faults: &Faults, block: EvmBlock, shown: ShownTxs) -> Vec<u8> {
    let EvmBlock {
        header, hash, txs, ..
    } = altered(faults, block);
    let head = Head { header, hash };
    if shown == ShownTxs::Full {
        return put_block(faults, &head, &Txs::Full(&txs, state.chain_id()));
    }
    let hashes: Vec<Hash32> = txs.iter().map(|tx| tx.hash).collect();
    put_block(faults, &head, &Txs::Hashes(&hashes))
}

fn put_block(faults: &Faults, head: &Head, txs: &Txs<'_>) -> Vec<u8> {
    let bloom = head.header.logs_bloom;
    let zeroed = !bloom.is_zero() && faults.hits(RpcFault::BloomZero);
    let bloom = if zeroed { Bloom::ZERO } else { bloom };
    let mut out = Vec::with_capacity(2_048);
    json::put_block(&mut out, head, txs, &bloom);
    out
}

fn block_receipts(state: &State, faults: &Faults, number: Option<u64>) -> Vec<u8> {
    let block = number.and_then(|number| state.block(number));
    let Some(block) = block.filter(|_| !faults.hits(RpcFault::NullReceipts)) else {
        return null();
    };
    let block = altered(faults, block);
    let log_faults = log_faults(faults, block.logs.iter());
    let place = LogPlace::new(&block, log_faults);
    let mut out = Vec::with_capacity(1_100 * block.txs.len() + 1_000 * block.logs.len());
    let own = block.own_receipt();
    let own = own.filter(|_| !faults.hits(RpcFault::NoBlockReceipt));
    json_writer::put_list(&mut out, block.txs.iter().chain(&own), |out, tx| {
        place.put_receipt(out, &block, tx);
    });
    out
}

fn tx_receipt(state: &State, faults: &Faults, place: Option<(u64, u32)>) -> Vec<u8> {
    let block = place.and_then(|(number, index)| Some((state.block(number)?, index)));
    let Some((block, index)) = block else {
        return null();
    };
    let tx = block.txs.get(index as usize);
    let Some(tx) = tx.filter(|_| !faults.hits(RpcFault::NullReceipts)) else {
        return null();
    };
    let log_faults = log_faults(faults, block.logs_of(tx).iter());
    let mut out = Vec::new();
    LogPlace::new(&block, log_faults).put_receipt(&mut out, &block, tx);
    out
}

/// The faults of these logs of one block.
fn log_faults<'a>(faults: &Faults, mut logs: impl Iterator<Item = &'a Log> + Clone) -> LogFaults {
    let count = logs.clone().count() as u64;
    if count == 0 {
        return LogFaults::default();
    }
    let missing = faults.draw(RpcFault::MissingLog);
    let missing = missing.and_then(|dice| logs.nth((dice % count) as usize));
    LogFaults {
        wrong_hash: faults.hits(RpcFault::WrongBlockHashInLogs),
        no_timestamp: faults.hits(RpcFault::MissingBlockTimestamp),
        missing_log: missing.map(Log::log_index),
    }
}

fn param(params: &[Value], at: usize) -> Result<&Value, RpcError> {
    let missing = || RpcError::params(format!("missing value for required argument {at}"));
    params.get(at).ok_or_else(missing)
}

fn shown(params: &[Value]) -> ShownTxs {
    match params.get(1).and_then(Value::as_bool) {
        Some(true) => ShownTxs::Full,
        Some(false) | None => ShownTxs::Hashes,
    }
}

fn null() -> Vec<u8> {
    b"null".to_vec()
}
