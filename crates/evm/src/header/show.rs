//! A header written as JSON.

use alloy_primitives::B256;

use super::HeaderFields;
use crate::json::{Object, escaped};

impl HeaderFields {
    /// The header as JSON, with what came and nothing else, without the transactions.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        self.to_json_with(&[])
    }

    /// The same, and the names of the fields that the block's hash does not cover. They are computed here
    /// and not archived, so that headers archived earlier show them too.
    #[must_use]
    pub fn shown_json(&self, tx_hashes: &[B256]) -> Vec<u8> {
        self.to_json_with(&self.unproven(tx_hashes))
    }

    fn to_json_with(&self, unproven: &[&str]) -> Vec<u8> {
        let header = &self.header;
        let mut out = Vec::with_capacity(1_500);
        let mut object = Object::begin(&mut out);
        object.data("hash", self.hash.as_slice());
        let missing: Vec<&str> = self.missing().collect();
        let mut data = |name: &str, bytes: &[u8]| {
            if !missing.contains(&name) {
                object.data(name, bytes);
            }
        };
        data("parentHash", header.parent_hash.as_slice());
        data("sha3Uncles", header.ommers_hash.as_slice());
        data("miner", header.beneficiary.as_slice());
        data("stateRoot", header.state_root.as_slice());
        data("transactionsRoot", header.transactions_root.as_slice());
        data("receiptsRoot", header.receipts_root.as_slice());
        data("logsBloom", header.logs_bloom.as_slice());
        data("extraData", &header.extra_data);
        data("mixHash", header.mix_hash.as_slice());
        data("nonce", header.nonce.as_slice());
        let mut number = |name: &str, bytes: &[u8]| {
            if !missing.contains(&name) {
                object.wide(name, bytes);
            }
        };
        number("number", &header.number.to_be_bytes());
        number("timestamp", &header.timestamp.to_be_bytes());
        number("gasLimit", &header.gas_limit.to_be_bytes());
        number("gasUsed", &header.gas_used.to_be_bytes());
        number("difficulty", &header.difficulty.to_be_bytes::<32>());
        for (name, value) in self.later_numbers() {
            value.iter().for_each(|value| object.quantity(name, *value));
        }
        for (name, value) in self.later_hashes() {
            value
                .iter()
                .for_each(|value| object.data(name, value.as_slice()));
        }
        for (name, raw) in &self.extra.0 {
            object.raw(&escaped(name), raw.get());
        }
        object.unproven(unproven);
        object.end();
        out
    }
}
