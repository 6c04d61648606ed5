//! Reads the fields of a transaction from JSON.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{ADDRESSES, DATA, FLAGS, HASHES, NUMBERS, TxFields, named};
use crate::extra::Room;
use crate::json::UNPROVEN;
use crate::quantity::Wide;

impl<'de: 'a, 'a> Deserialize<'de> for TxFields<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(TxVisitor)
    }
}

struct TxVisitor;

impl<'de> Visitor<'de> for TxVisitor {
    type Value = TxFields<'de>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a whole transaction")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut tx = TxFields::default();
        let mut hash = None;
        let mut room = Room::default();
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            if key == "hash" {
                hash = Some(map.next_value()?);
            } else if !known_field(&mut tx, &key, &mut map)? {
                let value: &'de RawValue = map.next_value()?;
                room.take(&key, value.get())
                    .map_err(serde::de::Error::custom)?;
                // An absent field says nothing, and this name is ours. The last one of a name counts, as for
                // readers of JSON.
                if value.get() != "null" && key != UNPROVEN {
                    tx.others.retain(|(other, _)| *other != key);
                    tx.others.push((key.into_owned(), value));
                }
            }
        }
        tx.hash = hash.ok_or_else(|| serde::de::Error::missing_field("hash"))?;
        Ok(tx)
    }
}

fn wide<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<alloy_primitives::U256>, A::Error> {
    let value: Option<Wide> = map.next_value()?;
    Ok(value.map(|Wide(number)| number))
}

/// A field that has a place of its own; false where there is none for this name.
fn known_field<'de, A: MapAccess<'de>>(
    tx: &mut TxFields<'de>,
    key: &str,
    map: &mut A,
) -> Result<bool, A::Error> {
    if let Some(place) = named(&NUMBERS, &mut tx.numbers, key) {
        *place = wide(map)?;
    } else if let Some(place) = named(&ADDRESSES, &mut tx.addresses, key) {
        *place = map.next_value()?;
    } else if let Some(place) = named(&HASHES, &mut tx.hashes, key) {
        *place = map.next_value()?;
    } else if let Some(place) = named(&DATA, &mut tx.data, key) {
        *place = map.next_value()?;
    } else if let Some(place) = named(&FLAGS, &mut tx.flags, key) {
        *place = map.next_value()?;
    } else {
        return other_field(tx, key, map);
    }
    Ok(true)
}

/// The type, lists, and what follows from the transaction's place in its block.
fn other_field<'de, A: MapAccess<'de>>(
    tx: &mut TxFields<'de>,
    key: &str,
    map: &mut A,
) -> Result<bool, A::Error> {
    let [input, _] = &mut tx.data;
    match key {
        "type" => tx.kind = wide(map)?.map_or(0, |kind| kind.saturating_to()),
        // The same bytes under another name, where a node shows both.
        "data" if input.as_ref().is_none_or(|input| input.is_empty()) => {
            *input = map.next_value::<Option<_>>()?.or(input.take());
        }
        "accessList" => tx.access_list = map.next_value::<Option<_>>()?.unwrap_or_default(),
        "blobVersionedHashes" => {
            tx.blob_hashes = map.next_value::<Option<_>>()?.unwrap_or_default();
        }
        "authorizationList" => {
            tx.authorizations = map.next_value::<Option<_>>()?.unwrap_or_default();
        }
        "blockTimestamp" => {
            tx.has_block_time = map.next_value::<Option<IgnoredAny>>()?.is_some();
        }
        "data" | "blockHash" | "blockNumber" | "transactionIndex" => {
            map.next_value::<IgnoredAny>()?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A key, borrowed where it has no escapes.
struct Key<'a>(std::borrow::Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(Key(key.into()))
            }
            fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
                Ok(Key(key.to_owned().into()))
            }
        }
        from.deserialize_str(KeyVisitor)
    }
}
