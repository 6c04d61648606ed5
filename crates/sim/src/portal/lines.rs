//! Blocks as lines of JSON: the fields that were requested, and no list that would be empty.

use chronolith_model::{BlockMeta, Log};

use super::query::{Fields, LogFields, Query, TxFields};
use crate::evm::{EvmBlock, EvmTx};
use crate::json_writer::{Object, put_data, put_list};

/// A line with nothing but a header.
pub(super) fn write_clock(out: &mut Vec<u8>, clock: &BlockMeta, fields: &Fields) {
    let mut line = Object::begin(out);
    write_header(line.key("header"), clock, fields, None);
    line.end();
}

/// A line with the requested fields; whether there was anything but the header.
pub(super) fn write_block(out: &mut Vec<u8>, block: &EvmBlock, query: &Query) -> bool {
    let clock = BlockMeta {
        number: block.header.number,
        hash: block.hash,
        parent_hash: block.header.parent_hash.0.into(),
        timestamp: block.header.timestamp,
    };
    let bloom = block.header.logs_bloom.as_slice();
    let logs: Vec<&Log> = block.logs.iter().filter(|log| query.matches(log)).collect();
    let all = !query.transactions.is_empty();
    let txs: &[EvmTx] = if all { &block.txs } else { &[] };
    let mut line = Object::begin(out);
    write_header(line.key("header"), &clock, &query.fields, Some(bloom));
    if !logs.is_empty() {
        put_list(line.key("logs"), &logs, |out, log| {
            write_log(out, log, block, query.fields.log);
        });
    }
    if !txs.is_empty() {
        put_list(line.key("transactions"), txs, |out, tx| {
            write_transaction(out, tx, query.fields.transaction);
        });
    }
    line.end();
    !logs.is_empty() || !txs.is_empty()
}

fn write_header(out: &mut Vec<u8>, clock: &BlockMeta, fields: &Fields, bloom: Option<&[u8]>) {
    let fields = fields.block;
    let mut object = Object::begin(out);
    if fields.number {
        object.number("number", clock.number);
    }
    if fields.hash {
        object.data("hash", &clock.hash.0);
    }
    if fields.parent_hash {
        object.data("parentHash", &clock.parent_hash.0);
    }
    if fields.timestamp {
        object.number("timestamp", clock.timestamp);
    }
    if fields.logs_bloom {
        object.data("logsBloom", bloom.unwrap_or_default());
    }
    object.end();
}

fn write_transaction(out: &mut Vec<u8>, tx: &EvmTx, fields: TxFields) {
    let mut object = Object::begin(out);
    if fields.transaction_index {
        object.number("transactionIndex", tx.index.into());
    }
    if fields.hash {
        object.data("hash", &tx.hash.0);
    }
    object.end();
}

fn write_log(out: &mut Vec<u8>, log: &Log, block: &EvmBlock, fields: LogFields) {
    let tx = block.txs.get(log.tx_index() as usize);
    let hash = tx.map(|tx| tx.hash).unwrap_or_default();
    let mut object = Object::begin(out);
    if fields.log_index {
        object.number("logIndex", log.log_index().into());
    }
    if fields.transaction_index {
        object.number("transactionIndex", log.tx_index().into());
    }
    if fields.transaction_hash {
        object.data("transactionHash", &hash.0);
    }
    if fields.address {
        object.data("address", log.emitter());
    }
    if fields.data {
        object.data("data", log.data());
    }
    if fields.topics {
        put_list(object.key("topics"), log.topics(), put_data);
    }
    object.end();
}
