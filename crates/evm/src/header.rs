//! A block's header as a node shows it, and the forms in which chains hash it.
//!
//! Which form a chain uses need not be known: one that gives the block's hash is the right one.

mod forms;
mod read;
mod show;

use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes, U256, keccak256};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::extra::Room;
use crate::quantity::Wide;
use forms::Encoded;

/// How a header becomes the bytes that are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HeaderForm {
    /// Ethereum's fields, as far as the header has them.
    Ethereum,
    /// Ethereum's with the proposer's key after them.
    Berachain,
    /// A step and a seal in place of mix hash and nonce (Gnosis before the merge, POA).
    Aura,
    /// With the hash of the data that came from other chains of its network (also Flare).
    Avalanche,
    /// Ten fields, the aggregated seal left out (Celo before Gingerbread).
    CeloTen,
    /// Ethereum's fields, the aggregated seal left out (Celo before it became a rollup).
    Celo,
    /// Number, time, parent and the hashes of transactions, nothing else (zkSync Era).
    ZkSync,
}

impl HeaderForm {
    /// All of them, the common one first.
    pub const ALL: [Self; 7] = [
        Self::Ethereum,
        Self::Avalanche,
        Self::Aura,
        Self::Berachain,
        Self::CeloTen,
        Self::Celo,
        Self::ZkSync,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ethereum => "ethereum",
            Self::Berachain => "berachain",
            Self::Aura => "aura",
            Self::Avalanche => "avalanche",
            Self::CeloTen => "celo-ten-fields",
            Self::Celo => "celo",
            Self::ZkSync => "zksync",
        }
    }

    /// Whether the hash covers bloom and roots.
    #[must_use]
    pub const fn covers_content(self) -> bool {
        !matches!(self, Self::ZkSync)
    }

    const fn covers_base_fee(self) -> bool {
        !matches!(self, Self::ZkSync | Self::CeloTen)
    }

    /// The base fee of a header that hashes in this form, where its hash covers it.
    #[must_use]
    pub fn base_fee(self, header: &Header) -> Option<u64> {
        header.base_fee_per_gas.filter(|_| self.covers_base_fee())
    }
}

/// The fields of a header as they came, and what came beside them.
#[derive(Debug, Default)]
pub struct HeaderFields {
    /// What the node calls the block.
    pub hash: B256,
    /// Ethereum's fields. Those that did not come are at their default and not in `present`.
    pub header: Header,
    /// Fields that are not Ethereum's, as they came.
    pub extra: ExtraFields,
    /// One bit for each of [`CORE`].
    present: u32,
    room: Room,
}

/// Fields that are not Ethereum's, as they came.
#[derive(Debug, Default)]
pub struct ExtraFields(Vec<(String, Box<RawValue>)>);

impl ExtraFields {
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// The last one of a name counts, as for readers of JSON.
    fn put(&mut self, name: String, raw: Box<RawValue>) {
        self.0.retain(|(other, _)| *other != name);
        self.0.push((name, raw));
    }

    fn get<'a, T: Deserialize<'a>>(&'a self, name: &str) -> Option<T> {
        let (_, raw) = self.0.iter().find(|(other, _)| other == name)?;
        serde_json::from_str(raw.get()).ok()
    }

    fn wide(&self, name: &str) -> Option<U256> {
        self.get::<Wide>(name).map(|Wide(number)| number)
    }
}

/// Fields that every header of Ethereum has.
const CORE: [&str; 15] = [
    "sha3Uncles",
    "miner",
    "stateRoot",
    "transactionsRoot",
    "receiptsRoot",
    "logsBloom",
    "difficulty",
    "gasLimit",
    "gasUsed",
    "extraData",
    "mixHash",
    "nonce",
    "number",
    "timestamp",
    "parentHash",
];
/// What nodes show beside a header and no form of header holds. It is not kept.
const BESIDE: [&str; 5] = ["uncles", "size", "totalDifficulty", "withdrawals", "author"];

impl HeaderFields {
    /// Whether the header is Ethereum's, nothing more and nothing less: then its bytes are all of it.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.extra.0.is_empty() && self.missing().next().is_none()
    }

    /// Ethereum's fields that did not come.
    pub fn missing(&self) -> impl Iterator<Item = &'static str> {
        let at = CORE.iter().enumerate();
        at.filter(|(at, _)| self.present & (1 << at) == 0)
            .map(|(_, name)| *name)
    }

    /// The bytes that give the block's hash, and their form; none where no form does.
    #[must_use]
    pub fn hashed(&self, tx_hashes: &[B256]) -> Option<(HeaderForm, Bytes)> {
        let (form, encoded) = self.found(tx_hashes)?;
        Some((form, encoded.bytes.into()))
    }

    fn found(&self, tx_hashes: &[B256]) -> Option<(HeaderForm, Encoded)> {
        HeaderForm::ALL.into_iter().find_map(|form| {
            let encoded = self.encoded(form, tx_hashes)?;
            (keccak256(&encoded.bytes) == self.hash).then_some((form, encoded))
        })
    }

    /// Fields that came and that the block's hash does not cover: all of them where no form gives it.
    #[must_use]
    pub fn unproven(&self, tx_hashes: &[B256]) -> Vec<&str> {
        let found = self.found(tx_hashes);
        let covers = found.map_or_else(Vec::new, |(_, encoded)| encoded.covers);
        self.came().filter(|name| !covers.contains(name)).collect()
    }

    /// Names of all that came.
    fn came(&self) -> impl Iterator<Item = &str> {
        let numbers = self.later_numbers().into_iter();
        let hashes = self.later_hashes().into_iter();
        let core = CORE.iter().enumerate();
        let core = core.filter(|(at, _)| self.present & (1 << at) != 0);
        core.map(|(_, name)| *name)
            .chain(numbers.filter_map(|(name, value)| value.map(|_| name)))
            .chain(hashes.filter_map(|(name, value)| value.map(|_| name)))
            .chain(self.extra.names())
    }

    /// Numbers that headers got one after the other.
    fn later_numbers(&self) -> [(&'static str, Option<u64>); 4] {
        let header = &self.header;
        [
            ("baseFeePerGas", header.base_fee_per_gas),
            ("blobGasUsed", header.blob_gas_used),
            ("excessBlobGas", header.excess_blob_gas),
            ("slotNumber", header.slot_number),
        ]
    }

    /// Hashes that headers got one after the other.
    fn later_hashes(&self) -> [(&'static str, Option<B256>); 4] {
        let header = &self.header;
        [
            ("withdrawalsRoot", header.withdrawals_root),
            ("parentBeaconBlockRoot", header.parent_beacon_block_root),
            ("requestsHash", header.requests_hash),
            ("blockAccessListHash", header.block_access_list_hash),
        ]
    }
}

/// A block's header and its list of transactions, each read as `T`.
#[derive(Debug)]
pub struct BlockFields<T> {
    pub header: HeaderFields,
    pub transactions: Vec<T>,
    /// Whether a list of transactions came, which an archived header does not have.
    pub has_transactions: bool,
}
