//! Blocks as lines of JSON: the fields that were asked for, and no list that would be empty.

use std::io::Write as _;

use alloy_primitives::hex;
use chronolith_model::{BlockMeta, Log};

use super::query::{Fields, LogFields, Query};
use crate::evm::{EvmBlock, EvmTx};

/// A line with nothing but a header.
pub(super) fn write_clock(out: &mut Vec<u8>, clock: &BlockMeta, fields: &Fields) {
    out.extend_from_slice(br#"{"header":"#);
    write_header(out, clock, fields, None);
    out.push(b'}');
}

/// A line with what was asked for; whether there was anything but the header.
pub(super) fn write_block(out: &mut Vec<u8>, block: &EvmBlock, query: &Query) -> bool {
    let clock = BlockMeta {
        number: block.header.number,
        hash: block.hash,
        parent_hash: block.header.parent_hash.0.into(),
        timestamp: block.header.timestamp,
    };
    out.extend_from_slice(br#"{"header":"#);
    let bloom = block.header.logs_bloom.as_slice();
    write_header(out, &clock, &query.fields, Some(bloom));
    let logs: Vec<&Log> = block.logs.iter().filter(|log| query.matches(log)).collect();
    let all = !query.transactions.is_empty();
    let txs: &[EvmTx] = if all { &block.txs } else { &[] };
    if !logs.is_empty() {
        out.extend_from_slice(br#","logs":["#);
        for (at, log) in logs.iter().enumerate() {
            out.extend_from_slice(if at == 0 { b"" } else { b"," });
            write_log(out, log, block, query.fields.log);
        }
        out.push(b']');
    }
    if !txs.is_empty() {
        out.extend_from_slice(br#","transactions":["#);
        for (at, tx) in txs.iter().enumerate() {
            out.extend_from_slice(if at == 0 { b"" } else { b"," });
            let mut object = Object::new(out);
            let fields = query.fields.transaction;
            object.number(
                "transactionIndex",
                fields.transaction_index.then_some(tx.index.into()),
            );
            object.bytes("hash", fields.hash.then_some(&tx.hash.0));
            object.end();
        }
        out.push(b']');
    }
    out.push(b'}');
    !logs.is_empty() || !txs.is_empty()
}

fn write_header(out: &mut Vec<u8>, clock: &BlockMeta, fields: &Fields, bloom: Option<&[u8]>) {
    let fields = fields.block;
    let mut object = Object::new(out);
    object.number("number", fields.number.then_some(clock.number));
    object.bytes("hash", fields.hash.then_some(&clock.hash.0));
    object.bytes(
        "parentHash",
        fields.parent_hash.then_some(&clock.parent_hash.0),
    );
    object.number("timestamp", fields.timestamp.then_some(clock.timestamp));
    object.bytes(
        "logsBloom",
        fields.logs_bloom.then_some(bloom.unwrap_or_default()),
    );
    object.end();
}

fn write_log(out: &mut Vec<u8>, log: &Log, block: &EvmBlock, fields: LogFields) {
    let tx = block.txs.get(log.tx_index() as usize);
    let hash = tx.map(|tx| tx.hash).unwrap_or_default();
    let mut object = Object::new(out);
    object.number(
        "logIndex",
        fields.log_index.then_some(log.log_index().into()),
    );
    object.number(
        "transactionIndex",
        fields.transaction_index.then_some(log.tx_index().into()),
    );
    object.bytes(
        "transactionHash",
        fields.transaction_hash.then_some(&hash.0),
    );
    object.bytes("address", fields.address.then_some(log.emitter()));
    object.bytes("data", fields.data.then_some(log.data()));
    if fields.topics {
        object.key("topics");
        object.out.push(b'[');
        for (at, topic) in log.topics().enumerate() {
            let quote: &[u8] = if at == 0 { b"\"" } else { b",\"" };
            object.out.extend_from_slice(quote);
            object.hex(topic);
            object.out.push(b'"');
        }
        object.out.push(b']');
    }
    object.end();
}

/// Writes an object, key by key; a key without a value is left out. Nothing here needs escapes.
struct Object<'a> {
    out: &'a mut Vec<u8>,
    opened: bool,
}

impl<'a> Object<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        let opened = false;
        Self { out, opened }
    }

    fn key(&mut self, key: &str) {
        self.out.push(if self.opened { b',' } else { b'{' });
        self.opened = true;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn number(&mut self, key: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.key(key);
            write!(self.out, "{value}").expect("memory takes what is written to it");
        }
    }

    fn bytes<B: AsRef<[u8]>>(&mut self, key: &str, value: Option<B>) {
        if let Some(value) = value {
            self.key(key);
            self.out.push(b'"');
            self.hex(value.as_ref());
            self.out.push(b'"');
        }
    }

    fn hex(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(b"0x");
        let at = self.out.len();
        self.out.resize(at + 2 * bytes.len(), 0);
        let room = self.out.get_mut(at..).unwrap_or_default();
        hex::encode_to_slice(bytes, room).expect("there is room for two digits a byte");
    }

    fn end(self) {
        self.out
            .extend_from_slice(if self.opened { b"}" } else { b"{}" });
    }
}
