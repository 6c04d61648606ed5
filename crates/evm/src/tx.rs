//! A transaction as a node shows it, and the bytes that it is.

mod beside;
mod encode;
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
    pub(crate) const UNSIGNED: u8 = 0x65;
    pub(crate) const CONTRACT: u8 = 0x66;
    pub(crate) const RETRY: u8 = 0x68;
    pub(crate) const SUBMIT_RETRYABLE: u8 = 0x69;
    pub(crate) const INTERNAL: u8 = 0x6a;
}

/// The fields of a transaction as they came. None is believed: the hash of the bytes that they make
/// tells whether they are right.
#[derive(Debug, Default)]
pub struct TxFields<'a> {
    /// What the node calls it.
    pub hash: B256,
    /// Who sent it, as the node says. It is in the bytes of some types only.
    pub from: Option<Address>,
    /// Whom it calls; none where it creates a contract.
    pub to: Option<Address>,
    pub(crate) kind: u64,
    pub(crate) chain_id: Option<U256>,
    pub(crate) nonce: Option<U256>,
    pub(crate) gas: Option<U256>,
    pub(crate) gas_price: Option<U256>,
    pub(crate) max_fee: Option<U256>,
    pub(crate) max_priority_fee: Option<U256>,
    pub(crate) max_blob_fee: Option<U256>,
    pub(crate) value: Option<U256>,
    pub(crate) input: Option<Bytes>,
    pub(crate) v: Option<U256>,
    pub(crate) r: Option<U256>,
    pub(crate) s: Option<U256>,
    pub(crate) y_parity: Option<U256>,
    pub(crate) access_list: Vec<AccessItem>,
    pub(crate) blob_hashes: Vec<B256>,
    pub(crate) authorizations: Vec<Authorization>,
    pub(crate) source_hash: Option<B256>,
    pub(crate) mint: Option<U256>,
    pub(crate) is_system: Option<bool>,
    pub(crate) queue_index: Option<U256>,
    pub(crate) sender: Option<Address>,
    pub(crate) celo: CeloFields,
    pub(crate) arbitrum: ArbitrumFields,
    /// Whether the time of the block was told with it.
    pub(crate) has_block_time: bool,
    /// Fields that no type of transaction has in its bytes, as they came.
    pub(crate) others: Vec<(String, &'a RawValue)>,
}

#[derive(Debug, Default)]
pub(crate) struct CeloFields {
    pub(crate) fee_currency: Option<Address>,
    pub(crate) gateway_recipient: Option<Address>,
    /// Named even where it is zero, which tells the old form from Ethereum's.
    pub(crate) gateway_fee: Option<U256>,
    pub(crate) is_ethereum: Option<bool>,
}

#[derive(Debug, Default)]
pub(crate) struct ArbitrumFields {
    pub(crate) request_id: Option<B256>,
    pub(crate) ticket_id: Option<B256>,
    pub(crate) refund_to: Option<Address>,
    pub(crate) max_refund: Option<U256>,
    pub(crate) submission_fee_refund: Option<U256>,
    pub(crate) l1_base_fee: Option<U256>,
    pub(crate) deposit_value: Option<U256>,
    pub(crate) retry_to: Option<Address>,
    pub(crate) retry_value: Option<U256>,
    pub(crate) retry_data: Option<Bytes>,
    pub(crate) beneficiary: Option<Address>,
    pub(crate) max_submission_fee: Option<U256>,
}

/// One entry of an access list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccessItem {
    pub(crate) address: Address,
    #[serde(default)]
    pub(crate) storage_keys: Vec<B256>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Authorization {
    pub(crate) chain_id: Wide,
    pub(crate) address: Address,
    pub(crate) nonce: Wide,
    #[serde(default, deserialize_with = "maybe_quantity")]
    pub(crate) y_parity: Option<u64>,
    #[serde(default, deserialize_with = "maybe_quantity")]
    pub(crate) v: Option<u64>,
    pub(crate) r: Wide,
    pub(crate) s: Wide,
}
