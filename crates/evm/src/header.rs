//! A block's header as a node shows it, and the forms in which chains hash it.
//!
//! Which form a chain uses need not be known: one that gives the block's hash is the right one.

use alloy_consensus::Header;
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U256, keccak256};
use alloy_rlp::Encodable as _;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json::Object;
use crate::quantity::Wide;
use crate::rlp::{Item, list, put_list};

/// How a header becomes the bytes that are hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HeaderForm {
    /// Ethereum's fields, as far as the header has them.
    Ethereum,
    /// Ethereum's with the proposer's key behind them.
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

    /// Its name in messages.
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
}

/// Fields that are not Ethereum's, as they came.
#[derive(Debug, Default)]
pub struct ExtraFields(Vec<(String, Box<RawValue>)>);

impl ExtraFields {
    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
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
/// What nodes show beside a header, which follows from the block or from its ancestors.
const BESIDE: [&str; 5] = ["uncles", "size", "totalDifficulty", "withdrawals", "author"];

impl HeaderFields {
    /// Whether the header is Ethereum's, nothing more and nothing less: then its bytes are all of it.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.extra.0.is_empty() && self.lacking().next().is_none()
    }

    /// Ethereum's fields that did not come.
    pub fn lacking(&self) -> impl Iterator<Item = &'static str> {
        let at = CORE.iter().enumerate();
        at.filter(|(at, _)| self.present & (1 << at) == 0)
            .map(|(_, name)| *name)
    }

    /// The bytes that give the block's hash, and their form; none where no form does.
    #[must_use]
    pub fn hashed(&self, tx_hashes: &[B256]) -> Option<(HeaderForm, Bytes)> {
        HeaderForm::ALL.into_iter().find_map(|form| {
            let bytes = self.encode(form, tx_hashes)?;
            (keccak256(&bytes) == self.hash).then_some((form, bytes))
        })
    }

    /// The bytes in one form; none where fields that it needs did not come.
    #[must_use]
    pub fn encode(&self, form: HeaderForm, tx_hashes: &[B256]) -> Option<Bytes> {
        let header = &self.header;
        let extra = &self.extra;
        let bytes = match form {
            HeaderForm::Ethereum => {
                let mut out = Vec::with_capacity(header.length());
                header.encode(&mut out);
                out
            }
            HeaderForm::Berachain => {
                let key: Bytes = extra.get("parentProposerPubkey")?;
                let mut out = Vec::with_capacity(header.length() + 64);
                header.encode(&mut out);
                let inner = Item::list_of(&out)?;
                list(|fields| {
                    inner
                        .iter()
                        .for_each(|item| fields.extend_from_slice(item.whole));
                    key.encode(fields);
                })
            }
            HeaderForm::Aura => self.aura()?,
            HeaderForm::Avalanche => self.avalanche()?,
            HeaderForm::CeloTen => {
                let sealless = without_seal(&header.extra_data)?;
                list(|out| {
                    header.parent_hash.encode(out);
                    header.beneficiary.encode(out);
                    header.state_root.encode(out);
                    header.transactions_root.encode(out);
                    header.receipts_root.encode(out);
                    header.logs_bloom.encode(out);
                    header.number.encode(out);
                    header.gas_used.encode(out);
                    header.timestamp.encode(out);
                    sealless.encode(out);
                })
            }
            HeaderForm::Celo => {
                let mut plain = header.clone();
                plain.extra_data = without_seal(&header.extra_data)?;
                let mut out = Vec::with_capacity(plain.length());
                plain.encode(&mut out);
                out
            }
            HeaderForm::ZkSync => {
                let rolling = tx_hashes.iter().fold(B256::ZERO, |rolling, hash| {
                    keccak256([rolling.0, hash.0].concat())
                });
                let mut out = Vec::with_capacity(128);
                out.extend_from_slice(&U256::from(header.number).to_be_bytes::<32>());
                out.extend_from_slice(&U256::from(header.timestamp).to_be_bytes::<32>());
                out.extend_from_slice(header.parent_hash.as_slice());
                out.extend_from_slice(rolling.as_slice());
                out
            }
        };
        Some(bytes.into())
    }

    /// The fields before mix hash and nonce.
    fn put_thirteen(&self, out: &mut Vec<u8>) {
        let header = &self.header;
        header.parent_hash.encode(out);
        header.ommers_hash.encode(out);
        header.beneficiary.encode(out);
        header.state_root.encode(out);
        header.transactions_root.encode(out);
        header.receipts_root.encode(out);
        header.logs_bloom.encode(out);
        header.difficulty.encode(out);
        header.number.encode(out);
        header.gas_limit.encode(out);
        header.gas_used.encode(out);
        header.timestamp.encode(out);
        header.extra_data.encode(out);
    }

    fn aura(&self) -> Option<Vec<u8>> {
        let extra = &self.extra;
        if let Some(fields) = extra.get::<Vec<Bytes>>("sealFields") {
            return Some(list(|out| {
                self.put_thirteen(out);
                fields.iter().for_each(|field| out.extend_from_slice(field));
                self.put_since_london(out);
            }));
        }
        let step = extra.wide("auraStep").or_else(|| extra.wide("step"));
        // One client writes the step as a plain decimal number in quotes.
        let step = step.or_else(|| extra.get::<String>("step")?.parse().ok())?;
        let seal = extra.get::<Bytes>("auraSeal");
        let seal = seal.or_else(|| extra.get::<Bytes>("signature"));
        let seal = seal.or_else(|| bare_hex(&extra.get::<String>("signature")?))?;
        Some(list(|out| {
            self.put_thirteen(out);
            step.encode(out);
            seal.encode(out);
            self.put_since_london(out);
        }))
    }

    fn put_since_london(&self, out: &mut Vec<u8>) {
        self.header
            .base_fee_per_gas
            .iter()
            .for_each(|fee| fee.encode(out));
    }

    fn avalanche(&self) -> Option<Vec<u8>> {
        let extra = &self.extra;
        let data_hash: B256 = extra.get("extDataHash")?;
        let header = &self.header;
        Some(list(|out| {
            self.put_thirteen(out);
            header.mix_hash.encode(out);
            header.nonce.encode(out);
            data_hash.encode(out);
            self.put_since_london(out);
            for name in ["extDataGasUsed", "blockGasCost"] {
                extra
                    .wide(name)
                    .iter()
                    .for_each(|number| number.encode(out));
            }
            header.blob_gas_used.iter().for_each(|gas| gas.encode(out));
            header
                .excess_blob_gas
                .iter()
                .for_each(|gas| gas.encode(out));
            header
                .parent_beacon_block_root
                .iter()
                .for_each(|root| root.encode(out));
            for name in ["timestampMilliseconds", "minDelayExcess"] {
                extra
                    .wide(name)
                    .iter()
                    .for_each(|number| number.encode(out));
            }
        }))
    }

    /// The header as JSON, with what came and nothing else, without the transactions.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let header = &self.header;
        let mut out = Vec::with_capacity(1_500);
        let mut object = Object::begin(&mut out);
        object.data("hash", self.hash.as_slice());
        let lacking: Vec<&str> = self.lacking().collect();
        let mut data = |name: &str, bytes: &[u8]| {
            if !lacking.contains(&name) {
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
            if !lacking.contains(&name) {
                object.wide(name, bytes);
            }
        };
        number("number", &header.number.to_be_bytes());
        number("timestamp", &header.timestamp.to_be_bytes());
        number("gasLimit", &header.gas_limit.to_be_bytes());
        number("gasUsed", &header.gas_used.to_be_bytes());
        number("difficulty", &header.difficulty.to_be_bytes::<32>());
        self.put_later(&mut object);
        for (name, raw) in &self.extra.0 {
            let key = serde_json::to_string(name).expect("a name is text");
            let key = key.strip_prefix('"').and_then(|key| key.strip_suffix('"'));
            object.raw(key.unwrap_or_default(), raw.get());
        }
        object.end();
        out
    }

    /// Fields that headers got one after the other.
    fn put_later(&self, object: &mut Object<'_>) {
        let header = &self.header;
        let numbers = [
            ("baseFeePerGas", header.base_fee_per_gas),
            ("blobGasUsed", header.blob_gas_used),
            ("excessBlobGas", header.excess_blob_gas),
            ("slotNumber", header.slot_number),
        ];
        for (name, value) in numbers {
            value.iter().for_each(|value| object.quantity(name, *value));
        }
        let hashes = [
            ("withdrawalsRoot", header.withdrawals_root),
            ("parentBeaconBlockRoot", header.parent_beacon_block_root),
            ("requestsHash", header.requests_hash),
            ("blockAccessListHash", header.block_access_list_hash),
        ];
        for (name, value) in hashes {
            value
                .iter()
                .for_each(|value| object.data(name, value.as_slice()));
        }
    }
}

/// Celo's extra data with an empty aggregated seal: validators sign the block without it.
fn without_seal(extra_data: &[u8]) -> Option<Bytes> {
    let (vanity, istanbul) = extra_data.split_at_checked(32)?;
    let items = Item::list_of(istanbul)?;
    let [first, second, third, fourth, _, sixth] = items.as_slice() else {
        return None;
    };
    let mut out = vanity.to_vec();
    let empty_seal = list(|seal| seal.extend_from_slice(&[alloy_rlp::EMPTY_STRING_CODE; 3]));
    let mut fields = Vec::with_capacity(istanbul.len());
    [first, second, third, fourth]
        .iter()
        .for_each(|item| fields.extend_from_slice(item.whole));
    fields.extend_from_slice(&empty_seal);
    fields.extend_from_slice(sixth.whole);
    put_list(&fields, &mut out);
    Some(out.into())
}

/// Bytes in hexadecimal digits without `0x`.
fn bare_hex(text: &str) -> Option<Bytes> {
    alloy_primitives::hex::decode(text).ok().map(Bytes::from)
}

/// A block's header and its list of transactions, each read as `T`.
#[derive(Debug)]
pub struct BlockFields<T> {
    /// Its header.
    pub header: HeaderFields,
    /// Its transactions.
    pub transactions: Vec<T>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for BlockFields<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(BlockVisitor(std::marker::PhantomData))
    }
}

struct BlockVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for BlockVisitor<T> {
    type Value = BlockFields<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a block")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = HeaderFields::default();
        let mut transactions = Vec::new();
        let mut hash = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "hash" => hash = map.next_value()?,
                "transactions" => transactions = map.next_value::<Option<_>>()?.unwrap_or_default(),
                beside if BESIDE.contains(&beside) => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => fields.take(key, &mut map)?,
            }
        }
        fields.hash = hash.ok_or_else(|| A::Error::missing_field("hash"))?;
        for needed in ["parentHash", "number", "timestamp"] {
            if fields.lacking().any(|name| name == needed) {
                return Err(A::Error::custom(format!("a block without {needed}")));
            }
        }
        Ok(BlockFields {
            header: fields,
            transactions,
        })
    }
}

impl HeaderFields {
    fn take<'de, A: MapAccess<'de>>(&mut self, key: String, map: &mut A) -> Result<(), A::Error> {
        let header = &mut self.header;
        let came = match key.as_str() {
            "parentHash" => set(&mut header.parent_hash, map)?,
            "sha3Uncles" => set(&mut header.ommers_hash, map)?,
            "miner" => set::<Address, A>(&mut header.beneficiary, map)?,
            "stateRoot" => set(&mut header.state_root, map)?,
            "transactionsRoot" => set(&mut header.transactions_root, map)?,
            "receiptsRoot" => set(&mut header.receipts_root, map)?,
            "logsBloom" => set::<Bloom, A>(&mut header.logs_bloom, map)?,
            "extraData" => set::<Bytes, A>(&mut header.extra_data, map)?,
            "mixHash" => set(&mut header.mix_hash, map)?,
            "nonce" => set::<B64, A>(&mut header.nonce, map)?,
            "difficulty" => set_wide(&mut header.difficulty, map)?,
            "number" => set_number(&mut header.number, map)?,
            "gasLimit" => set_number(&mut header.gas_limit, map)?,
            "gasUsed" => set_number(&mut header.gas_used, map)?,
            "timestamp" => set_number(&mut header.timestamp, map)?,
            _ => return self.take_later(key, map),
        };
        if came && let Some(at) = CORE.iter().position(|name| *name == key) {
            self.present |= 1 << at;
        }
        Ok(())
    }

    fn take_later<'de, A: MapAccess<'de>>(
        &mut self,
        key: String,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let header = &mut self.header;
        match key.as_str() {
            "baseFeePerGas" => header.base_fee_per_gas = number(map)?,
            "blobGasUsed" => header.blob_gas_used = number(map)?,
            "excessBlobGas" => header.excess_blob_gas = number(map)?,
            "slotNumber" => header.slot_number = number(map)?,
            "withdrawalsRoot" => header.withdrawals_root = map.next_value()?,
            "parentBeaconBlockRoot" => header.parent_beacon_block_root = map.next_value()?,
            "requestsHash" => header.requests_hash = map.next_value()?,
            "blockAccessListHash" => header.block_access_list_hash = map.next_value()?,
            _ => {
                let raw: Box<RawValue> = map.next_value()?;
                if raw.get() != "null" {
                    self.extra.0.push((key, raw));
                }
            }
        }
        Ok(())
    }
}

/// Sets a field; whether it came.
fn set<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    place: &mut T,
    map: &mut A,
) -> Result<bool, A::Error> {
    let value: Option<T> = map.next_value()?;
    let came = value.is_some();
    value.into_iter().for_each(|value| *place = value);
    Ok(came)
}

fn set_wide<'de, A: MapAccess<'de>>(place: &mut U256, map: &mut A) -> Result<bool, A::Error> {
    let value: Option<Wide> = map.next_value()?;
    value.iter().for_each(|Wide(value)| *place = *value);
    Ok(value.is_some())
}

fn number<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<u64>, A::Error> {
    let value: Option<Wide> = map.next_value()?;
    let narrow = value.map(|Wide(value)| u64::try_from(value));
    narrow
        .transpose()
        .map_err(|_| A::Error::custom("a number beyond 64 bits"))
}

fn set_number<'de, A: MapAccess<'de>>(place: &mut u64, map: &mut A) -> Result<bool, A::Error> {
    let value = number(map)?;
    value.iter().for_each(|value| *place = *value);
    Ok(value.is_some())
}
