//! A transaction from its bytes: taken apart by a table of fields, and shown as JSON.

use alloy_primitives::{Address, U256, keccak256};

use super::layout::{As, Field, layout};
use super::{CELO, CELO_OLD, arbitrum};
use crate::json::{Object, put_data, put_wide};
use crate::rlp::{Item, list};
use crate::sender::recover;

pub(crate) struct Decoded<'a> {
    pub(crate) kind: u8,
    layout: &'static [Field],
    items: Vec<Item<'a>>,
}

/// What is shown of a transaction beside its own fields.
pub(crate) struct Shown<'a> {
    pub(crate) hash: &'a [u8; 32],
    pub(crate) block_hash: &'a [u8; 32],
    pub(crate) block_number: u64,
    /// None where it was not shown with the transaction.
    pub(crate) block_time: Option<u64>,
    pub(crate) index: u64,
    pub(crate) base_fee: Option<u64>,
}

impl<'a> Decoded<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        let first = *bytes.first()?;
        let (kind, fields) = match first {
            0xc0.. => (0, bytes),
            kind => (kind, bytes.get(1..)?),
        };
        let items = Item::list_of(fields)?;
        let layout = layout(kind, items.len())?;
        let mut typed = layout.iter().zip(&items);
        let is_valid =
            layout.len() == items.len() && typed.all(|(field, item)| is_shaped(field.form, item));
        is_valid.then_some(Self {
            kind,
            layout,
            items,
        })
    }

    fn get(&self, name: &str) -> Option<&Item<'a>> {
        let at = self.layout.iter().position(|field| field.name == name)?;
        self.items.get(at)
    }

    /// The bytes of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&'a [u8]> {
        self.get(name).map(|item| item.payload)
    }

    /// Who sent it: as its bytes say, or by its signature.
    pub(crate) fn sender(&self) -> Option<Address> {
        if let Some(from) = self.field("from") {
            return (from.len() == 20).then(|| Address::from_slice(from));
        }
        if self.kind == arbitrum::INTERNAL {
            return Some(ARBOS);
        }
        let (r, s) = (self.field("r")?, self.field("s")?);
        let unsigned = self.items.get(..self.items.len().checked_sub(3)?)?;
        // Whole slices: inputs may have many kilobytes.
        let put = |out: &mut Vec<u8>| {
            for item in unsigned {
                out.extend_from_slice(item.whole);
            }
        };
        if self.kind != 0 {
            let mut signed = vec![self.kind];
            signed.extend(list(put));
            let odd = self.get("yParity")?.number()? == 1;
            return recover(keccak256(signed).0, r, s, odd);
        }
        let v = self.get("v")?.number()?;
        let signed = list(|out| {
            put(out);
            if let Some(chain_id) = protected(v) {
                use alloy_rlp::Encodable as _;
                chain_id.encode(out);
                out.extend_from_slice(&[alloy_rlp::EMPTY_STRING_CODE; 2]);
            }
        });
        recover(keccak256(signed).0, r, s, v % 2 == 0)
    }

    /// What a unit of gas cost it in a block with this base fee. One that pays in a token has a base fee in
    /// that token, which no header says.
    fn effective_price(&self, base_fee: Option<u64>) -> Option<U256> {
        let token = self.field("feeCurrency");
        if token.is_some_and(|token| !token.is_empty()) {
            return None;
        }
        let number = |name| self.field(name).and_then(U256::try_from_be_slice);
        let cap = number("maxFeePerGas")?;
        let tip = number("maxPriorityFeePerGas").unwrap_or_default();
        let wanted = U256::from(base_fee?).checked_add(tip)?;
        Some(cap.min(wanted))
    }

    /// The price by a base fee that nothing proves, as JSON: none where another is shown anyway.
    pub(crate) fn claimed_price(
        &self,
        proven: Option<u64>,
        claimed: Option<u64>,
    ) -> Option<String> {
        let is_shown = self.derives("gasPrice", proven) || self.usual("gasPrice", proven).is_some();
        let price = self.effective_price(claimed.filter(|_| !is_shown))?;
        Some(format!("\"{price:#x}\""))
    }

    fn is_signed(&self) -> bool {
        matches!(self.kind, 0..=4 | CELO | CELO_OLD)
    }

    /// Whether a field follows from the bytes, in a block with this base fee. What an endpoint says of it
    /// besides counts for nothing.
    pub(crate) fn derives(&self, name: &str, base_fee: Option<u64>) -> bool {
        let signed = |name| {
            let mut bytes = self.field(name).into_iter().flatten();
            bytes.any(|byte| *byte != 0)
        };
        match name {
            _ if self.get(name).is_some() => true,
            "blockHash" | "blockNumber" | "blockTimestamp" | "hash" => true,
            "transactionIndex" | "type" => true,
            "from" => self.kind == arbitrum::INTERNAL || (signed("r") && signed("s")),
            "sender" => self.is_message(),
            "gasPrice" => self.is_signed() && self.effective_price(base_fee).is_some(),
            "v" => self.get("yParity").is_some(),
            "chainId" => self.chain_of_signature().is_some(),
            _ => false,
        }
    }

    /// What nodes show under a name that follows from no bytes, unless one shows something else.
    pub(crate) fn usual(&self, name: &str, base_fee: Option<u64>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let unsigned = !self.is_signed();
        let has = |name: &str| self.get(name).is_some();
        let internal = self.kind == arbitrum::INTERNAL;
        match name {
            "v" | "r" | "s" if unsigned => put_wide(&mut out, &[]),
            "gasPrice" if unsigned && !has("gasPrice") && !has("maxFeePerGas") => {
                put_wide(&mut out, &[]);
            }
            "gasPrice" if unsigned && !has("gasPrice") => {
                let price = self.effective_price(base_fee)?;
                put_wide(&mut out, &price.to_be_bytes::<32>());
            }
            "to" if internal => put_data(&mut out, ARBOS.as_slice()),
            "gas" | "nonce" | "value" if internal => put_wide(&mut out, &[]),
            _ => return None,
        }
        Some(out)
    }

    /// Whether it is a message of Scroll.
    fn is_message(&self) -> bool {
        self.get("queueIndex").is_some()
    }

    /// The chain that the signature is for, where the bytes do not name it otherwise.
    fn chain_of_signature(&self) -> Option<u64> {
        protected(self.get("v")?.number()?)
    }

    /// Writes it as nodes show it, without the closing brace. `from` is left out where it does not follow
    /// from the bytes, and what follows from no bytes where it is among the `claimed_names`.
    pub(crate) fn write<'o>(
        &self,
        shown: &Shown<'_>,
        claimed_names: &[&str],
        out: &'o mut Vec<u8>,
    ) -> Object<'o> {
        let mut object = Object::begin(out);
        object.data("blockHash", shown.block_hash);
        object.quantity("blockNumber", shown.block_number);
        if let Some(time) = shown.block_time {
            object.quantity("blockTimestamp", time);
        }
        object.data("hash", shown.hash);
        object.quantity("transactionIndex", shown.index);
        object.quantity("type", self.kind.into());
        for (field, item) in self.layout.iter().zip(&self.items) {
            put_field(&mut object, field, item);
        }
        if self.field("from").is_none()
            && !claimed_names.contains(&"from")
            && let Some(from) = self.sender()
        {
            object.data("from", from.as_slice());
        }
        if let Some(from) = self.field("from").filter(|_| self.is_message()) {
            object.data("sender", from);
        }
        if self.field("gasPrice").is_none()
            && self.is_signed()
            && let Some(price) = self.effective_price(shown.base_fee)
        {
            object.wide("gasPrice", &price.to_be_bytes::<32>());
        }
        if let Some(parity) = self.field("yParity") {
            object.wide("v", parity);
        }
        if let Some(chain_id) = self.chain_of_signature() {
            object.quantity("chainId", chain_id);
        }
        for name in ["v", "r", "s", "gasPrice", "to", "gas", "nonce", "value"] {
            let usual = self.usual(name, shown.base_fee);
            if let Some(value) = usual.filter(|_| !claimed_names.contains(&name)) {
                object.key(name).extend_from_slice(&value);
            }
        }
        object
    }
}

/// Who sends Arbitrum's internal transactions, to itself.
pub(crate) const ARBOS: Address = Address::new([
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0a, 0x4b, 0x05,
]);

/// The chain that a legacy signature is for (EIP-155).
fn protected(v: u64) -> Option<u64> {
    v.checked_sub(35).map(|twice| twice / 2)
}

fn put_field(object: &mut Object<'_>, field: &Field, item: &Item<'_>) {
    let name = field.name;
    match field.form {
        As::Number => object.wide(name, item.payload),
        As::Data => object.data(name, item.payload),
        As::Address if item.payload.is_empty() => object.raw(name, "null"),
        As::Address => object.data(name, item.payload),
        As::Flag if item.payload.is_empty() => object.raw(name, "false"),
        As::Flag => object.raw(name, "true"),
        As::Hashes => put_all(object.key(name), item, put_hash),
        As::AccessList => put_all(object.key(name), item, put_access_item),
        As::Authorizations => put_all(object.key(name), item, put_authorization),
    }
}

/// Whether a field that is shown as a list is one, of items that can be shown.
fn is_shaped(shape: As, item: &Item<'_>) -> bool {
    let are_all = |is: fn(&Item<'_>) -> bool| item.items().is_some_and(|all| all.iter().all(is));
    match shape {
        As::Hashes => are_all(|one| !one.is_list),
        As::AccessList => are_all(|one| match one.items().as_deref() {
            Some([address, keys]) => !address.is_list && keys.items().is_some(),
            _ => false,
        }),
        As::Authorizations => are_all(|one| one.items().is_some_and(|parts| parts.len() == 6)),
        As::Number | As::Data | As::Address | As::Flag => !item.is_list,
    }
}

/// The items of a list whose shape was checked when the transaction was decoded.
fn checked<'a>(list: &Item<'a>) -> Vec<Item<'a>> {
    list.items().expect("the shape of a list was checked")
}

fn put_hash(out: &mut Vec<u8>, hash: &Item<'_>) {
    put_data(out, hash.payload);
}

fn put_all(out: &mut Vec<u8>, item: &Item<'_>, put: impl Fn(&mut Vec<u8>, &Item<'_>)) {
    out.push(b'[');
    for (at, one) in checked(item).iter().enumerate() {
        out.extend_from_slice(if at > 0 { b"," } else { b"" });
        put(out, one);
    }
    out.push(b']');
}

fn put_access_item(out: &mut Vec<u8>, item: &Item<'_>) {
    let mut object = Object::begin(out);
    if let [address, keys] = checked(item).as_slice() {
        object.data("address", address.payload);
        put_all(object.key("storageKeys"), keys, put_hash);
    }
    object.end();
}

fn put_authorization(out: &mut Vec<u8>, item: &Item<'_>) {
    let mut object = Object::begin(out);
    if let [chain_id, address, nonce, parity, r, s] = checked(item).as_slice() {
        put_wide(object.key("chainId"), chain_id.payload);
        object.data("address", address.payload);
        for (name, number) in [("nonce", nonce), ("yParity", parity), ("r", r), ("s", s)] {
            object.wide(name, number.payload);
        }
    }
    object.end();
}
