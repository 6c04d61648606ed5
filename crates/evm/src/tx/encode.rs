//! The bytes of a transaction from its fields.

use alloy_primitives::{B256, U256};
use alloy_rlp::{EMPTY_STRING_CODE, Encodable};

use super::layout::{
    As, BERACHAIN_REWARD_FIELDS, CELO_LEGACY_FIELDS, Field, LEGACY_FIELDS, OP_DEPOSIT_FIELDS,
    SCROLL_MESSAGE_FIELDS, layout,
};
use super::{Authorization, CELO_OLD, DEPOSIT, TxFields, arbitrum};
use crate::rlp::{list, put_list};

/// Why a transaction has no bytes here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unencodable {
    /// Its type is of no chain that is known.
    UnknownType(u64),
    /// A field that its type has did not come.
    Missing(&'static str),
}

impl std::fmt::Display for Unencodable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownType(kind) => write!(f, "unknown transaction type {kind:#x}"),
            Self::Missing(field) => write!(f, "a transaction without {field}"),
        }
    }
}

impl TxFields<'_> {
    /// Its bytes, as its hash and the transactions root are computed from them.
    ///
    /// # Errors
    /// Where its type is unknown or a field is missing.
    pub fn encode(&self) -> Result<Vec<u8>, Unencodable> {
        let unknown = Unencodable::UnknownType(self.kind);
        let kind = u8::try_from(self.kind).map_err(|_| unknown)?;
        let layout = layout(kind, self.form(kind)).ok_or(unknown)?;
        let mut fields = Vec::with_capacity(256);
        for field in layout {
            self.put(kind, field, &mut fields)?;
        }
        let mut out = Vec::with_capacity(fields.len() + 10);
        out.extend((kind != 0).then_some(kind));
        put_list(&fields, &mut out);
        Ok(out)
    }

    /// How many fields a type with several forms has. Three chains use one number for deposits: their
    /// fields distinguish them, and the root shows which form is right.
    fn form(&self, kind: u8) -> usize {
        let has_gateway = self.number("gatewayFee").is_some();
        let is_ethereum = self.flag("ethCompatible") == Some(true);
        match kind {
            0 if has_gateway && !is_ethereum => CELO_LEGACY_FIELDS,
            DEPOSIT if self.hash_of("sourceHash").is_some() => OP_DEPOSIT_FIELDS,
            DEPOSIT if self.number("queueIndex").is_some() => SCROLL_MESSAGE_FIELDS,
            DEPOSIT => BERACHAIN_REWARD_FIELDS,
            _ => LEGACY_FIELDS,
        }
    }

    /// Appends a field.
    fn put(&self, kind: u8, field: &Field, out: &mut Vec<u8>) -> Result<(), Unencodable> {
        let (name, at) = (field.name, field.at);
        let is_message = || kind == DEPOSIT && self.form(kind) == SCROLL_MESSAGE_FIELDS;
        let missing = || {
            Unencodable::Missing(match name {
                "chainId" if kind == DEPOSIT => "sourceHash, queueIndex or chainId",
                "from" if is_message() => "sender",
                name => name,
            })
        };
        match field.form {
            As::Number => {
                let number = self.numbers.get(at).copied().flatten();
                let number = number.or_else(|| self.default_of(kind, name));
                number.ok_or_else(missing)?.encode(out);
            }
            As::Address => {
                let sender = || self.address("sender");
                let sender = (name == "from" && is_message()).then(sender).flatten();
                match sender.or(self.addresses.get(at).copied().flatten()) {
                    Some(address) => address.encode(out),
                    None if is_needed(name) => return Err(missing()),
                    None => out.push(EMPTY_STRING_CODE),
                }
            }
            As::Data if matches!(name, "input" | "retryData") => match self.data(name) {
                Some(data) => data.encode(out),
                None => out.push(EMPTY_STRING_CODE),
            },
            As::Data => self.hash_of(name).ok_or_else(missing)?.encode(out),
            As::Flag => self.flag(name).unwrap_or_default().encode(out),
            As::AccessList => self.put_access_list(out),
            As::Hashes => put_hashes(&self.blob_hashes, out),
            As::Authorizations => put_authorizations(&self.authorizations, out),
        }
        Ok(())
    }

    /// A number that did not come: by the other name that a type has for it, or its default.
    fn default_of(&self, kind: u8, name: &str) -> Option<U256> {
        let of_arbitrum = (arbitrum::DEPOSIT..=arbitrum::INTERNAL).contains(&kind);
        match name {
            "yParity" => self.number("v"),
            "maxFeePerGas" if of_arbitrum => self.number("gasPrice"),
            "value" if of_arbitrum || kind == DEPOSIT => Some(U256::ZERO),
            "gatewayFee" if kind == CELO_OLD => Some(U256::ZERO),
            "mint" => Some(U256::ZERO),
            _ => None,
        }
    }

    fn put_access_list(&self, out: &mut Vec<u8>) {
        let mut items = Vec::new();
        for item in &self.access_list {
            items.extend(list(|fields| {
                item.address.encode(fields);
                put_hashes(&item.storage_keys, fields);
            }));
        }
        put_list(&items, out);
    }
}

/// Whether an address that is missing is not one that is empty.
fn is_needed(name: &str) -> bool {
    matches!(name, "from" | "refundTo" | "beneficiary")
}

fn put_hashes(hashes: &[B256], out: &mut Vec<u8>) {
    let mut items = Vec::with_capacity(hashes.len() * 33);
    hashes.iter().for_each(|hash| hash.encode(&mut items));
    put_list(&items, out);
}

fn put_authorizations(all: &[Authorization], out: &mut Vec<u8>) {
    let mut items = Vec::new();
    for one in all {
        items.extend(list(|fields| {
            one.chain_id.0.encode(fields);
            one.address.encode(fields);
            one.nonce.0.encode(fields);
            one.y_parity.or(one.v).unwrap_or_default().encode(fields);
            one.r.0.encode(fields);
            one.s.0.encode(fields);
        }));
    }
    put_list(&items, out);
}
