//! The bytes of a header in each form, and which fields they hold.
//!
//! Headers grew by fields at their end, each with those before it. A field whose predecessor is absent
//! would stand in the predecessor's place: such a header has no bytes, or one field could pass for another.

use alloy_primitives::{B256, Bytes, U256, hex, keccak256};
use alloy_rlp::{Encodable, decode_exact};

use super::{HeaderFields, HeaderForm};
use crate::rlp::{Item, list, put_list};

/// Length of a signature in a seal.
const SEAL_BYTES: usize = 65;
/// Length of a key of a proposer on Berachain.
const PROPOSER_BYTES: usize = 48;

/// The bytes of a header, and the names of the fields that they hold.
pub(super) struct Encoded {
    pub(super) bytes: Vec<u8>,
    pub(super) covers: Vec<&'static str>,
}

/// The fields of a header one after the other.
#[derive(Default)]
struct Fields {
    out: Vec<u8>,
    covers: Vec<&'static str>,
    /// Whether a field that may be absent was absent.
    ended: bool,
    /// Whether one came after it.
    torn: bool,
}

impl Fields {
    fn put(&mut self, name: &'static str, value: &impl Encodable) {
        self.torn |= self.ended;
        value.encode(&mut self.out);
        self.covers.push(name);
    }

    /// A field that headers got later.
    fn later(&mut self, name: &'static str, value: Option<impl Encodable>) {
        match value {
            Some(value) => self.put(name, &value),
            None => self.ended = true,
        }
    }

    fn end(self) -> Option<Encoded> {
        let mut bytes = Vec::with_capacity(self.out.len() + 4);
        put_list(&self.out, &mut bytes);
        let covers = self.covers;
        (!self.torn).then_some(Encoded { bytes, covers })
    }
}

impl HeaderFields {
    /// The bytes in one form; none where fields that it needs did not come.
    #[must_use]
    pub fn encode(&self, form: HeaderForm, tx_hashes: &[B256]) -> Option<Bytes> {
        Some(self.encoded(form, tx_hashes)?.bytes.into())
    }

    pub(super) fn encoded(&self, form: HeaderForm, tx_hashes: &[B256]) -> Option<Encoded> {
        match form {
            HeaderForm::Ethereum => self.ethereum().end(),
            HeaderForm::Berachain => self.berachain(),
            HeaderForm::Aura => self.aura(),
            HeaderForm::Avalanche => self.avalanche(),
            HeaderForm::CeloTen => self.celo_ten(),
            HeaderForm::Celo => {
                let sealless = without_seal(&self.header.extra_data)?;
                self.ethereum_with(&sealless).end()
            }
            HeaderForm::ZkSync => Some(self.zksync(tx_hashes)),
        }
    }

    fn ethereum(&self) -> Fields {
        self.ethereum_with(&self.header.extra_data)
    }

    fn ethereum_with(&self, extra_data: &Bytes) -> Fields {
        let header = &self.header;
        let mut out = self.thirteen(extra_data);
        out.put("mixHash", &header.mix_hash);
        out.put("nonce", &header.nonce);
        out.later("baseFeePerGas", header.base_fee_per_gas);
        out.later("withdrawalsRoot", header.withdrawals_root);
        out.later("blobGasUsed", header.blob_gas_used);
        out.later("excessBlobGas", header.excess_blob_gas);
        out.later("parentBeaconBlockRoot", header.parent_beacon_block_root);
        out.later("requestsHash", header.requests_hash);
        out.later("blockAccessListHash", header.block_access_list_hash);
        out.later("slotNumber", header.slot_number);
        out
    }

    /// The fields before mix hash and nonce.
    fn thirteen(&self, extra_data: &Bytes) -> Fields {
        let header = &self.header;
        let mut out = Fields::default();
        out.put("parentHash", &header.parent_hash);
        out.put("sha3Uncles", &header.ommers_hash);
        out.put("miner", &header.beneficiary);
        out.put("stateRoot", &header.state_root);
        out.put("transactionsRoot", &header.transactions_root);
        out.put("receiptsRoot", &header.receipts_root);
        out.put("logsBloom", &header.logs_bloom);
        out.put("difficulty", &header.difficulty);
        out.put("number", &header.number);
        out.put("gasLimit", &header.gas_limit);
        out.put("gasUsed", &header.gas_used);
        out.put("timestamp", &header.timestamp);
        self.put_extra_data(extra_data, &mut out);
        out
    }

    /// A seal that was taken out of the extra data is under no hash, and the field is not without it.
    fn put_extra_data(&self, extra_data: &Bytes, out: &mut Fields) {
        out.put("extraData", extra_data);
        if *extra_data != self.header.extra_data {
            out.covers.pop();
        }
    }

    /// The key comes after the last field, whichever that is. Its length keeps it apart from all others.
    fn berachain(&self) -> Option<Encoded> {
        let key: Bytes = self.extra.get("parentProposerPubkey")?;
        let mut out = self.ethereum();
        if out.torn || key.len() != PROPOSER_BYTES {
            return None;
        }
        out.ended = false;
        out.put("parentProposerPubkey", &key);
        out.end()
    }

    fn aura(&self) -> Option<Encoded> {
        let extra = &self.extra;
        let mut out = self.thirteen(&self.header.extra_data);
        if let Some(fields) = extra.get::<Vec<Bytes>>("sealFields") {
            let [step, seal] = fields.as_slice() else {
                return None;
            };
            // Other bytes could hold any fields of another form.
            let (step, seal) = (
                decode_exact::<u64>(step).ok()?,
                seal_of(string_of(seal)?.to_vec().into())?,
            );
            out.put("sealFields", &step);
            out.put("sealFields", &seal);
            // Some clients show the same again under the names of another.
            let again = self.aura_step().filter(|(_, again)| *again == step);
            out.covers.extend(again.map(|(name, _)| name));
            let again = self.aura_seal().filter(|(_, again)| *again == seal);
            out.covers.extend(again.map(|(name, _)| name));
        } else {
            let (name, step) = self.aura_step()?;
            out.put(name, &step);
            let (name, seal) = self.aura_seal()?;
            out.put(name, &seal_of(seal)?);
        }
        out.later("baseFeePerGas", self.header.base_fee_per_gas);
        out.end()
    }

    fn aura_step(&self) -> Option<(&'static str, u64)> {
        let extra = &self.extra;
        let wide = |name| extra.wide(name).map(|step| (name, step));
        let step = wide("auraStep").or_else(|| wide("step"));
        // One client writes the step as a plain decimal number in quotes.
        let plain = || Some(("step", extra.get::<String>("step")?.parse().ok()?));
        let (name, step) = step.or_else(plain)?;
        Some((name, u64::try_from(step).ok()?))
    }

    fn aura_seal(&self) -> Option<(&'static str, Bytes)> {
        let extra = &self.extra;
        let bytes = |name| extra.get::<Bytes>(name).map(|seal| (name, seal));
        // One client writes it without `0x`.
        let bare = || {
            let digits = extra.get::<String>("signature")?;
            Some(("signature", hex::decode(digits).ok()?.into()))
        };
        let seal = bytes("auraSeal").or_else(|| bytes("signature"));
        seal.or_else(bare)
    }

    fn avalanche(&self) -> Option<Encoded> {
        let extra = &self.extra;
        let data_hash: B256 = extra.get("extDataHash")?;
        let header = &self.header;
        let mut out = self.thirteen(&header.extra_data);
        out.put("mixHash", &header.mix_hash);
        out.put("nonce", &header.nonce);
        out.put("extDataHash", &data_hash);
        out.later("baseFeePerGas", header.base_fee_per_gas);
        out.later("extDataGasUsed", extra.wide("extDataGasUsed"));
        out.later("blockGasCost", extra.wide("blockGasCost"));
        out.later("blobGasUsed", header.blob_gas_used);
        out.later("excessBlobGas", header.excess_blob_gas);
        out.later("parentBeaconBlockRoot", header.parent_beacon_block_root);
        for name in ["timestampMilliseconds", "minDelayExcess"] {
            out.later(name, extra.wide(name));
        }
        out.end()
    }

    fn celo_ten(&self) -> Option<Encoded> {
        let header = &self.header;
        let sealless = without_seal(&header.extra_data)?;
        let mut out = Fields::default();
        out.put("parentHash", &header.parent_hash);
        out.put("miner", &header.beneficiary);
        out.put("stateRoot", &header.state_root);
        out.put("transactionsRoot", &header.transactions_root);
        out.put("receiptsRoot", &header.receipts_root);
        out.put("logsBloom", &header.logs_bloom);
        out.put("number", &header.number);
        out.put("gasUsed", &header.gas_used);
        out.put("timestamp", &header.timestamp);
        self.put_extra_data(&sealless, &mut out);
        out.end()
    }

    fn zksync(&self, tx_hashes: &[B256]) -> Encoded {
        let header = &self.header;
        let rolling = tx_hashes.iter().fold(B256::ZERO, |rolling, hash| {
            keccak256([rolling.0, hash.0].concat())
        });
        let mut bytes = Vec::with_capacity(128);
        bytes.extend_from_slice(&U256::from(header.number).to_be_bytes::<32>());
        bytes.extend_from_slice(&U256::from(header.timestamp).to_be_bytes::<32>());
        bytes.extend_from_slice(header.parent_hash.as_slice());
        bytes.extend_from_slice(rolling.as_slice());
        let covers = vec!["number", "timestamp", "parentHash"];
        Encoded { bytes, covers }
    }
}

/// The payload of bytes that are exactly one string of RLP.
fn string_of(mut bytes: &[u8]) -> Option<&[u8]> {
    let item = Item::next(&mut bytes)?;
    (bytes.is_empty() && !item.is_list).then_some(item.payload)
}

fn seal_of(seal: Bytes) -> Option<Bytes> {
    (seal.len() == SEAL_BYTES).then_some(seal)
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
    let mut fields = [first.whole, second.whole, third.whole, fourth.whole].concat();
    fields.extend_from_slice(&empty_seal);
    fields.extend_from_slice(sixth.whole);
    put_list(&fields, &mut out);
    Some(out.into())
}
