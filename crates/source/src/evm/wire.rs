//! What a node answers, as far as it is looked at.

use std::borrow::Cow;
use std::sync::OnceLock;

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes as RlpBytes, U256, keccak256};
use bytes::Bytes;
pub(crate) use chronolith_evm::parse_quantity;
use chronolith_evm::{
    BlockFields, HeaderFields, HeaderForm, TxFields, maybe_quantity, quantity, store_body,
};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::health::cut;

/// A block as it is looked at: its header, its hash, and its transactions.
#[derive(Debug)]
pub(crate) struct WireBlock {
    /// What the node calls it; to be checked against the header.
    pub(crate) hash: B256,
    pub(crate) fields: HeaderFields,
    pub(crate) tx_hashes: Vec<B256>,
    /// Transactions as they came, where whole ones are kept.
    pub(crate) bodies: Option<Vec<Box<RawValue>>>,
    /// The bytes that hash to the block's hash, and their form: looked for once, where they are wanted.
    hashed: OnceLock<Option<(HeaderForm, RlpBytes)>>,
    encoded: Option<Vec<EncodedTx>>,
}

/// A transaction in its bytes.
#[derive(Debug)]
pub(crate) enum EncodedTx {
    /// Its bytes with their hash.
    Bytes {
        bytes: Vec<u8>,
        hash: B256,
        /// The form in which it is kept; none where the bytes are all there is to keep.
        kept: Option<Vec<u8>>,
    },
    /// It has no encoding that is known.
    Unknown(String),
}

impl EncodedTx {
    fn of(tx: &TxFields<'_>, stored: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Self {
        match tx.encode() {
            Ok(bytes) => Self::Bytes {
                hash: keccak256(&bytes),
                kept: stored(&bytes).filter(|stored| *stored != bytes),
                bytes,
            },
            Err(error) => Self::Unknown(error.to_string()),
        }
    }

    fn kept(&self, named: &B256) -> Option<Bytes> {
        match self {
            Self::Bytes { bytes, hash, kept } if hash == named => {
                Some(kept.as_ref().unwrap_or(bytes).clone().into())
            }
            Self::Bytes { .. } | Self::Unknown(_) => None,
        }
    }
}

impl WireBlock {
    fn new(fields: HeaderFields) -> Self {
        Self {
            hash: fields.hash,
            fields,
            tx_hashes: Vec::new(),
            bodies: None,
            hashed: OnceLock::new(),
            encoded: None,
        }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.fields.header
    }

    pub(crate) fn number(&self) -> u64 {
        self.fields.header.number
    }

    /// The bytes that hash to the block's hash, and their form; none where no known form does.
    pub(crate) fn hashed(&self) -> Option<&(HeaderForm, RlpBytes)> {
        let hashed = || self.fields.hashed(&self.tx_hashes);
        self.hashed.get_or_init(hashed).as_ref()
    }

    /// The base fee, where the block's hash covers it.
    fn base_fee(&self) -> Option<u64> {
        let (form, _) = self.hashed()?;
        form.base_fee(self.header())
    }

    /// Its transactions as they are encoded, where whole ones came.
    pub(crate) fn encoded_txs(&self) -> Option<&[EncodedTx]> {
        self.encoded.as_deref()
    }

    /// Transactions as they are kept: bytes that have the hash of each, else JSON as it came.
    pub(crate) fn kept_bodies(&self) -> Option<Vec<Bytes>> {
        let bodies = self.bodies.as_ref()?.iter().zip(&self.tx_hashes);
        let kept = bodies
            .zip(self.encoded_txs()?)
            .map(|((raw, hash), encoded)| {
                let as_it_came = || Bytes::copy_from_slice(raw.get().as_bytes());
                encoded.kept(hash).unwrap_or_else(as_it_came)
            });
        Some(kept.collect())
    }

    /// The header as it is kept: its bytes where they say all that came, else JSON.
    pub(crate) fn kept_header(&self) -> Vec<u8> {
        match self.hashed() {
            Some((HeaderForm::Ethereum, bytes)) if self.fields.is_plain() => bytes.to_vec(),
            _ => self.fields.to_json(),
        }
    }
}

impl<'de> Deserialize<'de> for WireBlock {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields: BlockFields<TxHash> = BlockFields::deserialize(from)?;
        check_list(&fields).map_err(D::Error::custom)?;
        let mut block = Self::new(fields.header);
        let hashes = fields.transactions.into_iter();
        block.tx_hashes = hashes.map(|TxHash(hash)| hash).collect();
        Ok(block)
    }
}

/// A list of transactions may be left out where the header says that it is empty.
fn check_list<T>(block: &BlockFields<T>) -> Result<(), &'static str> {
    let header = &block.header;
    let is_empty = header.header.transactions_root == alloy_trie::EMPTY_ROOT_HASH
        && header.missing().all(|name| name != "transactionsRoot");
    if block.has_transactions || is_empty {
        Ok(())
    } else {
        Err("a block without a list of transactions")
    }
}

/// A block with whole transactions, which are kept, or wanted for their root alone.
#[derive(Debug)]
pub(crate) struct WholeBlock<const KEPT: bool>(pub(crate) WireBlock);

impl<'de, const KEPT: bool> Deserialize<'de> for WholeBlock<KEPT> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let fields: BlockFields<Box<RawValue>> = BlockFields::deserialize(from)?;
        check_list(&fields).map_err(D::Error::custom)?;
        let mut block = WireBlock::new(fields.header);
        let mut txs = Vec::with_capacity(fields.transactions.len());
        for body in &fields.transactions {
            // Some endpoints show hashes whatever is requested. A hash is not a body: it could not be read again.
            if !body.get().starts_with('{') {
                return Err(D::Error::custom("a transaction is not whole"));
            }
            let (hash, tx) = match serde_json::from_str::<TxFields<'_>>(body.get()) {
                Ok(tx) => (tx.hash, Ok(tx)),
                Err(error) => {
                    let hash: TxHash =
                        serde_json::from_str(body.get()).map_err(D::Error::custom)?;
                    let what = cut(format!("malformed transaction: {error}"));
                    (hash.0, Err(what))
                }
            };
            block.tx_hashes.push(hash);
            txs.push(tx);
        }
        // One family of chains hashes a header with its transactions.
        let base_fee = KEPT.then(|| block.base_fee()).flatten();
        let encode = |tx: Result<TxFields<'_>, String>| match tx {
            Ok(tx) => EncodedTx::of(&tx, |bytes| KEPT.then(|| store_body(&tx, bytes, base_fee))),
            Err(what) => EncodedTx::Unknown(what),
        };
        block.encoded = Some(txs.into_iter().map(encode).collect());
        block.bodies = KEPT.then_some(fields.transactions);
        Ok(Self(block))
    }
}

impl<const KEPT: bool> From<WholeBlock<KEPT>> for WireBlock {
    fn from(WholeBlock(block): WholeBlock<KEPT>) -> Self {
        block
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
    /// Of Celo's transactions that pay their fee in a token.
    #[serde(default)]
    pub(crate) base_fee: Option<U256>,
}

impl WireReceipt {
    /// About how long it was on the wire.
    pub(crate) fn about_bytes(&self) -> usize {
        let log = |log: &WireLog| 450 + 69 * log.topics.len() + 2 * log.data.len();
        1_000 + self.logs.iter().map(log).sum::<usize>()
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireLog {
    pub(crate) address: Address,
    pub(crate) topics: Vec<B256>,
    pub(crate) data: RlpBytes,
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

/// A number as a quantity.
pub(crate) fn hex(number: u64) -> String {
    format!("0x{number:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(transactions: &str) -> String {
        let hash = B256::repeat_byte(1);
        format!(
            r#"{{"hash":"{hash}","parentHash":"{hash}","number":"0x1","timestamp":"0x1","transactions":[{transactions}]}}"#
        )
    }

    /// An endpoint that serves hashes where whole transactions are requested had them archived as bodies,
    /// and every question for one of them was an internal error.
    #[test]
    fn a_hash_is_no_whole_transaction() {
        let hash = B256::repeat_byte(2);
        let whole = |text: &str| serde_json::from_str::<WholeBlock<true>>(text);
        for listed in [
            format!("\"{hash}\""),
            format!("{{\"hash\":\"{hash}\"}},\"{hash}\""),
        ] {
            let error = whole(&block(&listed)).unwrap_err().to_string();
            assert!(error.contains("not whole"), "{error}");
            let hashes: WireBlock = serde_json::from_str(&block(&listed)).unwrap();
            assert_eq!(hashes.tx_hashes.first(), Some(&hash));
        }
        let read = whole(&block(&format!("{{\"hash\":\"{hash}\"}}"))).unwrap();
        assert_eq!(read.0.tx_hashes, [hash]);
        assert!(whole(&block("")).unwrap().0.tx_hashes.is_empty());
    }

    /// The price followed from a base fee that nothing proved, and the claimed price was dropped.
    #[test]
    fn a_price_is_kept_where_no_hash_covers_the_base_fee() {
        let word = B256::repeat_byte(3);
        let tx = |hash: B256| {
            format!(
                r#"{{"hash":"{hash}","type":"0x2","chainId":"0x1","nonce":"0x0","gas":"0x1","value":"0x0",
                "input":"0x","maxFeePerGas":"0x9","maxPriorityFeePerGas":"0x1","gasPrice":"0x7",
                "yParity":"0x0","r":"{word}","s":"{word}"}}"#
            )
        };
        let text = tx(B256::ZERO);
        let fields: TxFields<'_> = serde_json::from_str(&text).unwrap();
        let text = block(&tx(keccak256(fields.encode().unwrap())));
        let text = text.replacen('{', r#"{"baseFeePerGas":"0x2","#, 1);
        let read =
            |text: &str| WireBlock::from(serde_json::from_str::<WholeBlock<true>>(text).unwrap());
        let kept = |block: &WireBlock| block.kept_bodies().unwrap().concat();
        let claimed = read(&text);
        let says_price = |body: Vec<u8>| String::from_utf8_lossy(&body).contains("gasPrice");
        assert!(says_price(kept(&claimed)));
        let bytes = claimed.fields.encode(HeaderForm::Ethereum, &[]).unwrap();
        let proven = text.replacen(&claimed.hash.to_string(), &keccak256(bytes).to_string(), 1);
        assert!(!says_price(kept(&read(&proven))));
    }
}
