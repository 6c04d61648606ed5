//! A transaction as a node shows it, and the bytes that it is.

mod beside;
mod encode;
mod layout;
mod read;
mod show;

pub use encode::Unencodable;
pub(crate) use show::{ARBOS, Decoded, Shown};

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::quantity::{Wide, maybe_quantity};

/// Type of deposits on OP chains, of messages on Scroll and of rewards on Berachain.
pub const DEPOSIT: u8 = 0x7e;
/// Celo's transaction that pays its fee in a token, and the one before it.
pub(crate) const CELO: u8 = 0x7b;
pub(crate) const CELO_OLD: u8 = 0x7c;

/// Types of Arbitrum's own transactions.
pub(crate) mod arbitrum {
    pub(crate) const DEPOSIT: u8 = 0x64;
    pub(crate) const INTERNAL: u8 = 0x6a;
}

/// Numbers that the bytes of some type hold.
const NUMBERS: [&str; 21] = [
    "chainId",
    "nonce",
    "gas",
    "gasPrice",
    "maxFeePerGas",
    "maxPriorityFeePerGas",
    "maxFeePerBlobGas",
    "value",
    "v",
    "r",
    "s",
    "yParity",
    "mint",
    "queueIndex",
    // Named even where it is zero, which distinguishes the old form of Celo from Ethereum's.
    "gatewayFee",
    "maxRefund",
    "submissionFeeRefund",
    "l1BaseFee",
    "depositValue",
    "retryValue",
    "maxSubmissionFee",
];
const ADDRESSES: [&str; 8] = [
    "from",
    "to",
    "sender",
    "feeCurrency",
    "gatewayFeeRecipient",
    "refundTo",
    "retryTo",
    "beneficiary",
];
const HASHES: [&str; 3] = ["sourceHash", "requestId", "ticketId"];
const DATA: [&str; 2] = ["input", "retryData"];
const FLAGS: [&str; 2] = ["isSystemTx", "ethCompatible"];

/// The fields of a transaction as they came. None is believed: the hash of the bytes that they make
/// shows whether they are right.
#[derive(Debug, Default)]
pub struct TxFields<'a> {
    /// What the node calls it.
    pub hash: B256,
    kind: u64,
    /// Values in the order of the names above.
    numbers: [Option<U256>; NUMBERS.len()],
    addresses: [Option<Address>; ADDRESSES.len()],
    hashes: [Option<B256>; HASHES.len()],
    data: [Option<Bytes>; DATA.len()],
    flags: [Option<bool>; FLAGS.len()],
    access_list: Vec<AccessItem>,
    blob_hashes: Vec<B256>,
    authorizations: Vec<Authorization>,
    /// Whether the time of the block came with it.
    pub(crate) has_block_time: bool,
    /// Fields that no type of transaction has in its bytes, as they came.
    others: Vec<(String, &'a RawValue)>,
}

impl TxFields<'_> {
    fn number(&self, name: &str) -> Option<U256> {
        *named(&NUMBERS, &self.numbers, name)?
    }

    fn address(&self, name: &str) -> Option<Address> {
        *named(&ADDRESSES, &self.addresses, name)?
    }

    fn hash_of(&self, name: &str) -> Option<B256> {
        *named(&HASHES, &self.hashes, name)?
    }

    fn data(&self, name: &str) -> Option<&Bytes> {
        named(&DATA, &self.data, name)?.as_ref()
    }

    fn flag(&self, name: &str) -> Option<bool> {
        *named(&FLAGS, &self.flags, name)?
    }
}

/// The value of a name among values in the order of their names.
fn named<V>(names: &[&str], values: impl IntoIterator<Item = V>, name: &str) -> Option<V> {
    let mut both = names.iter().zip(values);
    both.find(|(other, _)| **other == name)
        .map(|(_, value)| value)
}

/// One entry of an access list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccessItem {
    address: Address,
    #[serde(default)]
    storage_keys: Vec<B256>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Authorization {
    chain_id: Wide,
    address: Address,
    nonce: Wide,
    #[serde(default, deserialize_with = "maybe_quantity")]
    y_parity: Option<u64>,
    #[serde(default, deserialize_with = "maybe_quantity")]
    v: Option<u64>,
    r: Wide,
    s: Wide,
}
