//! What a node answers, as far as it is looked at.

use std::borrow::Cow;
use std::sync::OnceLock;

use alloy_consensus::Header;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U256};
use alloy_rlp::Encodable as _;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A block as it is looked at: its header, its hash, and its transactions.
#[derive(Debug)]
pub(crate) struct WireBlock {
    /// What the node calls it; to be checked against the header.
    pub(crate) hash: B256,
    pub(crate) header: Header,
    pub(crate) tx_hashes: Vec<B256>,
    /// Transactions as they came, where whole ones were asked for.
    pub(crate) bodies: Option<Vec<Box<RawValue>>>,
    /// The header as it is hashed and kept: made once, where anybody wants it.
    encoded: OnceLock<Bytes>,
}

impl WireBlock {
    pub(crate) fn encoded(&self) -> &Bytes {
        let encode = || {
            let mut out = Vec::with_capacity(self.header.length());
            self.header.encode(&mut out);
            out.into()
        };
        self.encoded.get_or_init(encode)
    }
}

impl<'de> Deserialize<'de> for WireBlock {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields: BlockFields<TxHash> = BlockFields::deserialize(from)?;
        let (mut block, hashes) = fields.split();
        block.tx_hashes = hashes.into_iter().map(|TxHash(hash)| hash).collect();
        Ok(block)
    }
}

/// A block whose transactions are kept as they came.
#[derive(Debug)]
pub(crate) struct WholeBlock(pub(crate) WireBlock);

impl<'de> Deserialize<'de> for WholeBlock {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields: BlockFields<Box<RawValue>> = BlockFields::deserialize(from)?;
        let (mut block, bodies) = fields.split();
        for body in &bodies {
            let hash: TxHash = serde_json::from_str(body.get()).map_err(D::Error::custom)?;
            block.tx_hashes.push(hash.0);
        }
        block.bodies = Some(bodies);
        Ok(Self(block))
    }
}

impl From<WholeBlock> for WireBlock {
    fn from(WholeBlock(block): WholeBlock) -> Self {
        block
    }
}

/// A block's fields on the wire. Those that a chain leaves out count as zero: the hash tells.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockFields<T> {
    hash: B256,
    parent_hash: B256,
    #[serde(default)]
    sha3_uncles: B256,
    #[serde(default)]
    miner: Address,
    #[serde(default)]
    state_root: B256,
    #[serde(default)]
    transactions_root: B256,
    #[serde(default)]
    receipts_root: B256,
    #[serde(default)]
    logs_bloom: Bloom,
    #[serde(default)]
    difficulty: U256,
    #[serde(deserialize_with = "quantity")]
    number: u64,
    #[serde(default, deserialize_with = "quantity")]
    gas_limit: u64,
    #[serde(default, deserialize_with = "quantity")]
    gas_used: u64,
    #[serde(deserialize_with = "quantity")]
    timestamp: u64,
    #[serde(default)]
    extra_data: Bytes,
    #[serde(default)]
    mix_hash: Option<B256>,
    #[serde(default)]
    nonce: Option<B64>,
    #[serde(default, deserialize_with = "maybe_quantity")]
    base_fee_per_gas: Option<u64>,
    #[serde(default)]
    withdrawals_root: Option<B256>,
    #[serde(default, deserialize_with = "maybe_quantity")]
    blob_gas_used: Option<u64>,
    #[serde(default, deserialize_with = "maybe_quantity")]
    excess_blob_gas: Option<u64>,
    #[serde(default)]
    parent_beacon_block_root: Option<B256>,
    #[serde(default)]
    requests_hash: Option<B256>,
    #[serde(default = "Vec::new")]
    transactions: Vec<T>,
}

impl<T> BlockFields<T> {
    /// The block without its transactions, and these.
    fn split(self) -> (WireBlock, Vec<T>) {
        let header = Header {
            parent_hash: self.parent_hash,
            ommers_hash: self.sha3_uncles,
            beneficiary: self.miner,
            state_root: self.state_root,
            transactions_root: self.transactions_root,
            receipts_root: self.receipts_root,
            logs_bloom: self.logs_bloom,
            difficulty: self.difficulty,
            number: self.number,
            gas_limit: self.gas_limit,
            gas_used: self.gas_used,
            timestamp: self.timestamp,
            extra_data: self.extra_data,
            mix_hash: self.mix_hash.unwrap_or_default(),
            nonce: self.nonce.unwrap_or_default(),
            base_fee_per_gas: self.base_fee_per_gas,
            withdrawals_root: self.withdrawals_root,
            blob_gas_used: self.blob_gas_used,
            excess_blob_gas: self.excess_blob_gas,
            parent_beacon_block_root: self.parent_beacon_block_root,
            requests_hash: self.requests_hash,
            ..Header::default()
        };
        let block = WireBlock {
            hash: self.hash,
            header,
            tx_hashes: Vec::new(),
            bodies: None,
            encoded: OnceLock::new(),
        };
        (block, self.transactions)
    }
}

/// The hash of a transaction, whether it came alone or whole.
struct TxHash(B256);

impl<'de> Deserialize<'de> for TxHash {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(TxHashVisitor)
    }
}

struct TxHashVisitor;

impl<'de> Visitor<'de> for TxHashVisitor {
    type Value = TxHash;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a transaction or its hash")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<TxHash, E> {
        text.parse().map(TxHash).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<TxHash, A::Error> {
        let mut hash = None;
        while let Some(key) = fields.next_key::<Cow<'de, str>>()? {
            if key == "hash" {
                hash = Some(fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        let none = || A::Error::custom("a transaction has no hash");
        hash.map(TxHash).ok_or_else(none)
    }
}

/// A receipt.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireReceipt {
    pub(crate) transaction_hash: B256,
    #[serde(deserialize_with = "quantity")]
    pub(crate) transaction_index: u64,
    #[serde(default)]
    pub(crate) block_hash: Option<B256>,
    #[serde(rename = "type", default, deserialize_with = "maybe_quantity")]
    pub(crate) kind: Option<u64>,
    /// Since Byzantium; before, there is a root.
    #[serde(default, deserialize_with = "maybe_quantity")]
    pub(crate) status: Option<u64>,
    #[serde(default)]
    pub(crate) root: Option<B256>,
    #[serde(deserialize_with = "quantity")]
    pub(crate) cumulative_gas_used: u64,
    #[serde(default)]
    pub(crate) logs: Vec<WireLog>,
    /// Of deposits on OP chains.
    #[serde(default, deserialize_with = "maybe_quantity")]
    pub(crate) deposit_nonce: Option<u64>,
    #[serde(default, deserialize_with = "maybe_quantity")]
    pub(crate) deposit_receipt_version: Option<u64>,
}

impl WireReceipt {
    /// About how long it was on the wire.
    pub(crate) fn about_bytes(&self) -> usize {
        let log = |log: &WireLog| 450 + 69 * log.topics.len() + 2 * log.data.len();
        1_000 + self.logs.iter().map(log).sum::<usize>()
    }
}

/// A log.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireLog {
    pub(crate) address: Address,
    pub(crate) topics: Vec<B256>,
    pub(crate) data: Bytes,
    #[serde(deserialize_with = "quantity")]
    pub(crate) block_number: u64,
    pub(crate) block_hash: B256,
    pub(crate) transaction_hash: B256,
    #[serde(deserialize_with = "quantity")]
    pub(crate) transaction_index: u64,
    #[serde(deserialize_with = "quantity")]
    pub(crate) log_index: u64,
    #[serde(default)]
    pub(crate) removed: bool,
}

/// A quantity: hexadecimal with `0x`. Some nodes write plain numbers.
fn quantity<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    maybe_quantity(from)?.ok_or_else(|| D::Error::custom("quantity is null"))
}

fn maybe_quantity<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    from.deserialize_any(QuantityVisitor)
}

/// Takes a quantity as it comes, without a copy: there are five in each log.
struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a quantity such as 0x1f, or null")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        match parse_quantity(text) {
            Some(number) => Ok(Some(number)),
            None => Err(E::custom(format!("no quantity: {text}"))),
        }
    }
}

/// Parses a quantity; none if it is none or too large.
pub(crate) fn parse_quantity(text: &str) -> Option<u64> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))?;
    if digits.is_empty() {
        return Some(0);
    }
    u64::from_str_radix(digits, 16).ok()
}

/// A number as a quantity.
pub(crate) fn hex(number: u64) -> String {
    format!("0x{number:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_all_their_forms() {
        for (text, expected) in [
            ("0x0", Some(0)),
            ("0x", Some(0)),
            ("0x01", Some(1)),
            ("0xffffffffffffffff", Some(u64::MAX)),
            ("0x10000000000000000", None),
            ("12", None),
            ("0xzz", None),
            ("", None),
        ] {
            assert_eq!(parse_quantity(text), expected, "{text}");
        }
        #[derive(Deserialize)]
        struct One {
            #[serde(deserialize_with = "maybe_quantity")]
            at: Option<u64>,
        }
        let read = |text: &str| serde_json::from_str(text).map(|one: One| one.at);
        assert_eq!(read(r#"{"at":"0x10"}"#).unwrap(), Some(16));
        assert_eq!(read(r#"{"at":16}"#).unwrap(), Some(16));
        assert_eq!(read(r#"{"at":null}"#).unwrap(), None);
        assert!(read(r#"{"at":"16"}"#).is_err());
        assert!(read(r#"{"at":-1}"#).is_err());
    }
}
