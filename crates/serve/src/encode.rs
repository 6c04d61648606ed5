//! JSON written by hand: quantities, data and logs, straight into a buffer. A general serializer spends
//! most of its time on what is known here: names, order, and that nothing needs escaping.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chronolith_archive::LogRecord;
use chronolith_model::{Hash32, TOPICS_MAX};
use chronolith_stellar::EventPlace;
use serde::Serialize;

/// Appends `"0x…"`.
pub(crate) fn data(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"\"0x");
    let target = extend(out, bytes.len() * 2);
    const_hex::encode_to_slice(bytes, target).expect("the target is twice as long as the bytes");
    out.push(b'"');
}

/// Appends base64, without quotes.
pub(crate) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let target = extend(out, base64_len(bytes));
    let written = STANDARD.encode_slice(bytes, target);
    written.expect("the target has four characters for every three bytes");
}

/// The length as base64.
pub(crate) fn base64_len(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(3) * 4
}

/// Appends zeros, to be overwritten.
#[expect(
    clippy::indexing_slicing,
    reason = "the buffer just grew from this length"
)]
fn extend(out: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    let start = out.len();
    out.resize(start + bytes, 0);
    &mut out[start..]
}

/// Appends `0x…`.
fn plain(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"0x");
    out.extend_from_slice(const_hex::encode(bytes).as_bytes());
}

/// Appends `"0x1f"`: a number without leading zeros.
pub(crate) fn quantity(out: &mut Vec<u8>, number: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\"0x");
    let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        let value = (number >> (digit * 4)) & 0xf;
        #[expect(clippy::indexing_slicing, reason = "masked to sixteen digits")]
        out.push(DIGITS[value as usize]);
    }
    out.push(b'"');
}

/// Appends `,"name":` and the value as JSON.
pub(crate) fn field(out: &mut Vec<u8>, name: &str, value: &impl Serialize) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    serde_json::to_writer(out, value).expect("a JSON value serializes, and memory takes it");
}

/// Writes logs one after the other. What logs of one block or one transaction share is encoded once.
pub(crate) struct LogWriter {
    block: Option<(u64, Hash32)>,
    of_block: Vec<u8>,
    tx: Option<Hash32>,
    of_tx: Vec<u8>,
    /// Whether a log carries a level of its own where a hash covers it: those of Stellar.
    pub(crate) own_levels: bool,
}

/// More than the fields of a block or of a transaction ever take.
const SHARED_BYTES: usize = 192;

impl Default for LogWriter {
    fn default() -> Self {
        Self {
            block: None,
            of_block: Vec::with_capacity(SHARED_BYTES),
            tx: None,
            of_tx: Vec::with_capacity(SHARED_BYTES),
            own_levels: false,
        }
    }
}

impl LogWriter {
    /// Appends a log as `eth_getLogs` answers it.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>, record: &LogRecord) {
        let log = &record.log;
        out.extend_from_slice(b"{\"address\":");
        data(out, log.emitter());
        out.extend_from_slice(b",\"topics\":[");
        for (at, topic) in log.topics().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            data(out, topic);
        }
        out.extend_from_slice(b"],\"data\":");
        data(out, log.data());
        out.extend_from_slice(self.of_block(record));
        out.extend_from_slice(self.of_tx(record));
        quantity(out, u64::from(log.log_index()));
        out.extend_from_slice(b",\"removed\":false");
        if self.own_levels && EventPlace::is_proven(log) {
            out.extend_from_slice(b",\"level\":\"roots\"");
        }
        out.push(b'}');
    }

    /// The first row of CSV.
    pub(crate) const CSV_NAMES: &'static [u8] = b"blockNumber,blockTimestamp,blockHash,transactionIndex,transactionHash,logIndex,address,topic0,topic1,topic2,topic3,data\n";

    /// Appends a log as a row of CSV, with decimal numbers.
    pub(crate) fn write_csv(&mut self, out: &mut Vec<u8>, record: &LogRecord) {
        let (log, block) = (&record.log, record.block);
        let position = format!(
            "{},{},{},{},{},{},",
            block.number,
            record.timestamp,
            block.hash,
            log.tx_index(),
            record.tx_hash,
            log.log_index()
        );
        out.extend_from_slice(position.as_bytes());
        plain(out, log.emitter());
        for at in 0..TOPICS_MAX {
            out.push(b',');
            if let Some(topic) = log.topic(at) {
                plain(out, topic);
            }
        }
        out.push(b',');
        plain(out, log.data());
        out.push(b'\n');
    }

    fn of_block(&mut self, record: &LogRecord) -> &[u8] {
        let key = Some((record.block.number, record.block.hash));
        if self.block != key {
            self.block = key;
            let out = &mut self.of_block;
            out.clear();
            out.extend_from_slice(b",\"blockHash\":");
            data(out, record.block.hash.as_bytes());
            out.extend_from_slice(b",\"blockNumber\":");
            quantity(out, record.block.number);
            out.extend_from_slice(b",\"blockTimestamp\":");
            quantity(out, record.timestamp);
            self.tx = None;
        }
        &self.of_block
    }

    fn of_tx(&mut self, record: &LogRecord) -> &[u8] {
        if self.tx != Some(record.tx_hash) {
            self.tx = Some(record.tx_hash);
            let out = &mut self.of_tx;
            out.clear();
            out.extend_from_slice(b",\"transactionHash\":");
            data(out, record.tx_hash.as_bytes());
            out.extend_from_slice(b",\"transactionIndex\":");
            quantity(out, u64::from(record.log.tx_index()));
            out.extend_from_slice(b",\"logIndex\":");
        }
        &self.of_tx
    }
}

/// Logs as `eth_getLogs` answers them.
#[must_use]
pub fn logs_as_json(logs: &[LogRecord]) -> Vec<u8> {
    let mut out = Vec::with_capacity(logs.iter().map(size_of_log).sum::<usize>() + 2);
    let mut writer = LogWriter::default();
    out.push(b'[');
    for (at, record) in logs.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        writer.write(&mut out, record);
    }
    out.push(b']');
    out
}

/// About how many bytes a log takes as JSON.
pub(crate) fn size_of_log(record: &LogRecord) -> usize {
    const NAMES_AND_NUMBERS: usize = 480;
    NAMES_AND_NUMBERS + record.log.byte_len() * 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use chronolith_model::{BlockRef, Log, LogParts};
    use serde_json::{Value, json};

    #[test]
    fn quantities_have_no_leading_zeros() {
        for (number, text) in [
            (0, "\"0x0\""),
            (1, "\"0x1\""),
            (16, "\"0x10\""),
            (0xdead_beef, "\"0xdeadbeef\""),
            (u64::MAX, "\"0xffffffffffffffff\""),
        ] {
            let mut out = Vec::new();
            quantity(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    fn record(number: u64, tx: u8, index: u32, topics: &[&[u8]]) -> LogRecord {
        let parts = LogParts {
            tx_index: u32::from(tx),
            log_index: index,
            emitter: &[0xab; 20],
            topics,
            data: &[1, 2, 3],
            ..LogParts::default()
        };
        LogRecord {
            block: BlockRef {
                number,
                hash: Hash32([number as u8; 32]),
            },
            timestamp: 1_700_000_000 + number,
            tx_hash: Hash32([tx; 32]),
            log: Log::new(&parts).unwrap(),
        }
    }

    #[test]
    fn logs_that_share_a_block_or_a_transaction_are_written_whole() {
        let records = [
            record(1, 0, 0, &[]),
            record(1, 0, 1, &[&[7; 32]]),
            record(1, 1, 2, &[&[7; 32], &[8; 32]]),
            // Another block with a transaction that has the same hash: nothing may be carried over.
            record(2, 1, 0, &[]),
        ];
        let mut writer = LogWriter::default();
        for record in &records {
            let mut out = Vec::new();
            writer.write(&mut out, record);
            assert!(out.len() <= size_of_log(record), "{}", out.len());
            let hash = |byte: u8| format!("0x{}", format!("{byte:02x}").repeat(32));
            let value: Value = serde_json::from_slice(&out).unwrap();
            let topics: Vec<String> = record.log.topics().map(|topic| hash(topic[0])).collect();
            assert_eq!(
                value,
                json!({
                    "address": format!("0x{}", "ab".repeat(20)),
                    "topics": topics,
                    "data": "0x010203",
                    "blockHash": hash(record.block.number as u8),
                    "blockNumber": format!("0x{:x}", record.block.number),
                    "blockTimestamp": format!("0x{:x}", record.timestamp),
                    "transactionHash": hash(record.tx_hash.0[0]),
                    "transactionIndex": format!("0x{:x}", record.log.tx_index()),
                    "logIndex": format!("0x{:x}", record.log.log_index()),
                    "removed": false,
                })
            );
        }
    }
}
