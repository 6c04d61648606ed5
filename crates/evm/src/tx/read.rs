//! Reads the fields of a transaction from JSON.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::TxFields;
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
            } else if !fee_field(&mut tx, &key, &mut map)?
                && !body_field(&mut tx, &key, &mut map)?
                && !family_field(&mut tx, &key, &mut map)?
            {
                let value: &'de RawValue = map.next_value()?;
                room.take(&key, value.get())
                    .map_err(serde::de::Error::custom)?;
                // An absent field says nothing, and readers see under this name what we say. The last one
                // of a name counts, as for readers of JSON.
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

/// Numbers that say who pays what, and the signature.
fn fee_field<'de, A: MapAccess<'de>>(
    tx: &mut TxFields<'de>,
    key: &str,
    map: &mut A,
) -> Result<bool, A::Error> {
    let place = match key {
        "chainId" => &mut tx.chain_id,
        "nonce" => &mut tx.nonce,
        "gas" => &mut tx.gas,
        "gasPrice" => &mut tx.gas_price,
        "maxFeePerGas" => &mut tx.max_fee,
        "maxPriorityFeePerGas" => &mut tx.max_priority_fee,
        "maxFeePerBlobGas" => &mut tx.max_blob_fee,
        "value" => &mut tx.value,
        "v" => &mut tx.v,
        "r" => &mut tx.r,
        "s" => &mut tx.s,
        "yParity" => &mut tx.y_parity,
        "mint" => &mut tx.mint,
        "queueIndex" => &mut tx.queue_index,
        "gatewayFee" => &mut tx.celo.gateway_fee,
        "maxRefund" => &mut tx.arbitrum.max_refund,
        "submissionFeeRefund" => &mut tx.arbitrum.submission_fee_refund,
        "l1BaseFee" => &mut tx.arbitrum.l1_base_fee,
        "depositValue" => &mut tx.arbitrum.deposit_value,
        "retryValue" => &mut tx.arbitrum.retry_value,
        "maxSubmissionFee" => &mut tx.arbitrum.max_submission_fee,
        "type" => {
            tx.kind = wide(map)?.map_or(0, |kind| kind.saturating_to());
            return Ok(true);
        }
        _ => return Ok(false),
    };
    *place = wide(map)?;
    Ok(true)
}

/// Who is called with what, and what follows from the transaction's place in its block.
fn body_field<'de, A: MapAccess<'de>>(
    tx: &mut TxFields<'de>,
    key: &str,
    map: &mut A,
) -> Result<bool, A::Error> {
    match key {
        "from" => tx.from = map.next_value()?,
        "to" => tx.to = map.next_value()?,
        "input" => tx.input = map.next_value()?,
        // The same bytes under another name, where a node shows both.
        "data" if tx.input.as_ref().is_none_or(|input| input.is_empty()) => {
            tx.input = map.next_value::<Option<_>>()?.or(tx.input.take());
        }
        "accessList" => tx.access_list = map.next_value::<Option<_>>()?.unwrap_or_default(),
        "blobVersionedHashes" => {
            tx.blob_hashes = map.next_value::<Option<_>>()?.unwrap_or_default()
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

/// What families of chains add.
fn family_field<'de, A: MapAccess<'de>>(
    tx: &mut TxFields<'de>,
    key: &str,
    map: &mut A,
) -> Result<bool, A::Error> {
    let address = match key {
        "sender" => Some(&mut tx.sender),
        "feeCurrency" => Some(&mut tx.celo.fee_currency),
        "gatewayFeeRecipient" => Some(&mut tx.celo.gateway_recipient),
        "refundTo" => Some(&mut tx.arbitrum.refund_to),
        "retryTo" => Some(&mut tx.arbitrum.retry_to),
        "beneficiary" => Some(&mut tx.arbitrum.beneficiary),
        _ => None,
    };
    if let Some(place) = address {
        *place = map.next_value()?;
        return Ok(true);
    }
    match key {
        "sourceHash" => tx.source_hash = map.next_value()?,
        "isSystemTx" => tx.is_system = map.next_value()?,
        "ethCompatible" => tx.celo.is_ethereum = map.next_value()?,
        "requestId" => tx.arbitrum.request_id = map.next_value()?,
        "ticketId" => tx.arbitrum.ticket_id = map.next_value()?,
        "retryData" => tx.arbitrum.retry_data = map.next_value()?,
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
