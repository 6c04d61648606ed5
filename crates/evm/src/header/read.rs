//! Reads the fields of a block from JSON.

use alloy_primitives::{Address, B64, Bloom, Bytes, U256};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{BESIDE, BlockFields, CORE, HeaderFields};
use crate::json::UNPROVEN;
use crate::quantity::Wide;

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
        let mut transactions: Option<Vec<T>> = None;
        let mut hash = None;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "hash" => hash = map.next_value()?,
                "transactions" => transactions = map.next_value()?,
                beside if BESIDE.contains(&beside) => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => fields.take(key, &mut map)?,
            }
        }
        fields.hash = hash.ok_or_else(|| A::Error::missing_field("hash"))?;
        for needed in ["parentHash", "number", "timestamp"] {
            if fields.missing().any(|name| name == needed) {
                return Err(A::Error::custom(format!("a block without {needed}")));
            }
        }
        Ok(BlockFields {
            header: fields,
            has_transactions: transactions.is_some(),
            transactions: transactions.unwrap_or_default(),
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
                self.room.take(&key, raw.get()).map_err(A::Error::custom)?;
                // This name is ours.
                if raw.get() != "null" && key != UNPROVEN {
                    self.extra.put(key, raw);
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
    Ok(put(place, map.next_value()?))
}

fn put<T>(place: &mut T, value: Option<T>) -> bool {
    let came = value.is_some();
    if let Some(value) = value {
        *place = value;
    }
    came
}

fn set_wide<'de, A: MapAccess<'de>>(place: &mut U256, map: &mut A) -> Result<bool, A::Error> {
    let value: Option<Wide> = map.next_value()?;
    Ok(put(place, value.map(|Wide(value)| value)))
}

fn number<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<u64>, A::Error> {
    let value: Option<Wide> = map.next_value()?;
    let narrow = value.map(|Wide(value)| u64::try_from(value)).transpose();
    narrow.map_err(|_| A::Error::custom("a number beyond 64 bits"))
}

fn set_number<'de, A: MapAccess<'de>>(place: &mut u64, map: &mut A) -> Result<bool, A::Error> {
    Ok(put(place, number(map)?))
}
