//! The bytes of a header in each form.

use alloy_primitives::{B256, Bytes, U256, keccak256};
use alloy_rlp::Encodable as _;

use super::{HeaderFields, HeaderForm};
use crate::rlp::{Item, list, put_list};

impl HeaderFields {
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
