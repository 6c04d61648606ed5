//! A transaction from its bytes: taken apart by a table of fields, and shown as JSON.

use alloy_primitives::{Address, U256, keccak256};

use super::{CELO, CELO_OLD, DEPOSIT, arbitrum};
use crate::json::{Object, put_data, put_wide};
use crate::rlp::{Item, list};
use crate::sender::recover;

/// How a field is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum As {
    Number,
    Data,
    /// Empty is null.
    Address,
    Flag,
    AccessList,
    Hashes,
    Authorizations,
}

type Field = (&'static str, As);

const LEGACY: &[Field] = &[
    ("nonce", As::Number),
    ("gasPrice", As::Number),
    ("gas", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
    ("v", As::Number),
    ("r", As::Number),
    ("s", As::Number),
];
const CELO_LEGACY: &[Field] = &[
    ("nonce", As::Number),
    ("gasPrice", As::Number),
    ("gas", As::Number),
    ("feeCurrency", As::Address),
    ("gatewayFeeRecipient", As::Address),
    ("gatewayFee", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
    ("v", As::Number),
    ("r", As::Number),
    ("s", As::Number),
];
const ACCESS_LIST: &[Field] = &[
    ("chainId", As::Number),
    ("nonce", As::Number),
    ("gasPrice", As::Number),
    ("gas", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
    ("accessList", As::AccessList),
    ("yParity", As::Number),
    ("r", As::Number),
    ("s", As::Number),
];
const DYNAMIC_FEE: &[Field] = &[
    ("chainId", As::Number),
    ("nonce", As::Number),
    ("maxPriorityFeePerGas", As::Number),
    ("maxFeePerGas", As::Number),
    ("gas", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
    ("accessList", As::AccessList),
    ("yParity", As::Number),
    ("r", As::Number),
    ("s", As::Number),
];
const BLOB: &[Field] = &[
    ("chainId", As::Number),
    ("nonce", As::Number),
    ("maxPriorityFeePerGas", As::Number),
    ("maxFeePerGas", As::Number),
    ("gas", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
    ("accessList", As::AccessList),
    ("maxFeePerBlobGas", As::Number),
    ("blobVersionedHashes", As::Hashes),
    ("yParity", As::Number),
    ("r", As::Number),
    ("s", As::Number),
];
const SET_CODE: &[Field] = &[
    ("chainId", As::Number),
    ("nonce", As::Number),
    ("maxPriorityFeePerGas", As::Number),
    ("maxFeePerGas", As::Number),
    ("gas", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
    ("accessList", As::AccessList),
    ("authorizationList", As::Authorizations),
    ("yParity", As::Number),
    ("r", As::Number),
    ("s", As::Number),
];
const CELO_FEES: &[Field] = &[
    ("chainId", As::Number),
    ("nonce", As::Number),
    ("maxPriorityFeePerGas", As::Number),
    ("maxFeePerGas", As::Number),
    ("gas", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
    ("accessList", As::AccessList),
    ("feeCurrency", As::Address),
    ("yParity", As::Number),
    ("r", As::Number),
    ("s", As::Number),
];
const CELO_GATEWAY: &[Field] = &[
    ("chainId", As::Number),
    ("nonce", As::Number),
    ("maxPriorityFeePerGas", As::Number),
    ("maxFeePerGas", As::Number),
    ("gas", As::Number),
    ("feeCurrency", As::Address),
    ("gatewayFeeRecipient", As::Address),
    ("gatewayFee", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
    ("accessList", As::AccessList),
    ("yParity", As::Number),
    ("r", As::Number),
    ("s", As::Number),
];
const OP_DEPOSIT: &[Field] = &[
    ("sourceHash", As::Data),
    ("from", As::Address),
    ("to", As::Address),
    ("mint", As::Number),
    ("value", As::Number),
    ("gas", As::Number),
    ("isSystemTx", As::Flag),
    ("input", As::Data),
];
const SCROLL_MESSAGE: &[Field] = &[
    ("queueIndex", As::Number),
    ("gas", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
    ("from", As::Address),
];
const BERACHAIN_REWARD: &[Field] = &[
    ("chainId", As::Number),
    ("from", As::Address),
    ("to", As::Address),
    ("nonce", As::Number),
    ("gas", As::Number),
    ("gasPrice", As::Number),
    ("input", As::Data),
];
const ARBITRUM_DEPOSIT: &[Field] = &[
    ("chainId", As::Number),
    ("requestId", As::Data),
    ("from", As::Address),
    ("to", As::Address),
    ("value", As::Number),
];
const ARBITRUM_UNSIGNED: &[Field] = &[
    ("chainId", As::Number),
    ("from", As::Address),
    ("nonce", As::Number),
    ("maxFeePerGas", As::Number),
    ("gas", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
];
const ARBITRUM_CONTRACT: &[Field] = &[
    ("chainId", As::Number),
    ("requestId", As::Data),
    ("from", As::Address),
    ("maxFeePerGas", As::Number),
    ("gas", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
];
const ARBITRUM_RETRY: &[Field] = &[
    ("chainId", As::Number),
    ("nonce", As::Number),
    ("from", As::Address),
    ("maxFeePerGas", As::Number),
    ("gas", As::Number),
    ("to", As::Address),
    ("value", As::Number),
    ("input", As::Data),
    ("ticketId", As::Data),
    ("refundTo", As::Address),
    ("maxRefund", As::Number),
    ("submissionFeeRefund", As::Number),
];
const ARBITRUM_SUBMIT: &[Field] = &[
    ("chainId", As::Number),
    ("requestId", As::Data),
    ("from", As::Address),
    ("l1BaseFee", As::Number),
    ("depositValue", As::Number),
    ("maxFeePerGas", As::Number),
    ("gas", As::Number),
    ("retryTo", As::Address),
    ("retryValue", As::Number),
    ("beneficiary", As::Address),
    ("maxSubmissionFee", As::Number),
    ("refundTo", As::Address),
    ("retryData", As::Data),
];
const ARBITRUM_INTERNAL: &[Field] = &[("chainId", As::Number), ("input", As::Data)];

fn layout(kind: u8, fields: usize) -> Option<&'static [Field]> {
    let layout = match (kind, fields) {
        (0, 9) => LEGACY,
        (0, _) => CELO_LEGACY,
        (1, _) => ACCESS_LIST,
        (2, _) => DYNAMIC_FEE,
        (3, _) => BLOB,
        (4, _) => SET_CODE,
        (CELO, _) => CELO_FEES,
        (CELO_OLD, _) => CELO_GATEWAY,
        (DEPOSIT, 8) => OP_DEPOSIT,
        (DEPOSIT, 6) => SCROLL_MESSAGE,
        (DEPOSIT, _) => BERACHAIN_REWARD,
        (arbitrum::DEPOSIT, _) => ARBITRUM_DEPOSIT,
        (arbitrum::UNSIGNED, _) => ARBITRUM_UNSIGNED,
        (arbitrum::CONTRACT, _) => ARBITRUM_CONTRACT,
        (arbitrum::RETRY, _) => ARBITRUM_RETRY,
        (arbitrum::SUBMIT_RETRYABLE, _) => ARBITRUM_SUBMIT,
        (arbitrum::INTERNAL, _) => ARBITRUM_INTERNAL,
        _ => return None,
    };
    (layout.len() == fields).then_some(layout)
}

/// A transaction taken apart.
pub(crate) struct Decoded<'a> {
    kind: u8,
    layout: &'static [Field],
    items: Vec<Item<'a>>,
}

/// What is shown of a transaction beside its own fields.
pub(crate) struct Shown<'a> {
    pub(crate) hash: &'a [u8; 32],
    pub(crate) block_hash: &'a [u8; 32],
    pub(crate) block_number: u64,
    /// None where it was not told with the transaction.
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
        Some(Self {
            kind,
            layout,
            items,
        })
    }

    fn get(&self, name: &str) -> Option<&Item<'a>> {
        let at = self.layout.iter().position(|(field, _)| *field == name)?;
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
        let put = |out: &mut Vec<u8>| {
            unsigned
                .iter()
                .for_each(|item| out.extend_from_slice(item.whole));
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

    /// What a unit of gas cost it in a block with this base fee.
    fn effective_price(&self, base_fee: Option<u64>) -> Option<U256> {
        let number = |name| self.field(name).and_then(U256::try_from_be_slice);
        let cap = number("maxFeePerGas")?;
        let tip = number("maxPriorityFeePerGas").unwrap_or_default();
        let wanted = U256::from(base_fee?).checked_add(tip)?;
        Some(cap.min(wanted))
    }

    /// Writes it as nodes show it, without the closing brace. `from` is left out where it cannot be
    /// told from the bytes.
    pub(crate) fn write<'o>(&self, shown: &Shown<'_>, out: &'o mut Vec<u8>) -> Object<'o> {
        let mut object = Object::begin(out);
        object.data("blockHash", shown.block_hash);
        object.quantity("blockNumber", shown.block_number);
        if let Some(time) = shown.block_time {
            object.quantity("blockTimestamp", time);
        }
        object.data("hash", shown.hash);
        object.quantity("transactionIndex", shown.index);
        object.quantity("type", self.kind.into());
        for ((name, how), item) in self.layout.iter().zip(&self.items) {
            put_field(&mut object, name, *how, item);
        }
        if self.field("from").is_none()
            && let Some(from) = self.sender()
        {
            object.data("from", from.as_slice());
        }
        if self.field("gasPrice").is_none()
            && let Some(price) = self.effective_price(shown.base_fee)
        {
            object.wide("gasPrice", &price.to_be_bytes::<32>());
        }
        match (self.field("yParity"), self.field("v")) {
            (Some(parity), _) => object.wide("v", parity),
            (None, Some(_)) => {
                let v = self.get("v").and_then(Item::number);
                if let Some(chain_id) = v.and_then(protected) {
                    object.quantity("chainId", chain_id);
                }
            }
            (None, None) => self.put_unsigned(&mut object),
        }
        object
    }

    /// What nodes show of transactions without a signature.
    fn put_unsigned(&self, object: &mut Object<'_>) {
        ["v", "r", "s"]
            .iter()
            .for_each(|name| object.quantity(name, 0));
        if self.field("gasPrice").is_none() && self.field("maxFeePerGas").is_none() {
            object.quantity("gasPrice", 0);
        }
        if self.kind == arbitrum::INTERNAL {
            object.data("to", ARBOS.as_slice());
            ["gas", "nonce", "value"]
                .iter()
                .for_each(|name| object.quantity(name, 0));
        }
    }
}

/// Who sends Arbitrum's internal transactions, to itself.
const ARBOS: Address = Address::new([
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0a, 0x4b, 0x05,
]);

/// The chain that a legacy signature is for (EIP-155).
fn protected(v: u64) -> Option<u64> {
    v.checked_sub(35).map(|twice| twice / 2)
}

fn put_field(object: &mut Object<'_>, name: &str, how: As, item: &Item<'_>) {
    match how {
        As::Number => object.wide(name, item.payload),
        As::Data => object.data(name, item.payload),
        As::Address if item.payload.is_empty() => object.raw(name, "null"),
        As::Address => object.data(name, item.payload),
        As::Flag => object.raw(
            name,
            if item.payload.is_empty() {
                "false"
            } else {
                "true"
            },
        ),
        As::Hashes => put_all(object.key(name), item, |out, hash| {
            put_data(out, hash.payload)
        }),
        As::AccessList => put_all(object.key(name), item, put_access_item),
        As::Authorizations => put_all(object.key(name), item, put_authorization),
    }
}

fn put_all(out: &mut Vec<u8>, item: &Item<'_>, put: impl Fn(&mut Vec<u8>, &Item<'_>)) {
    out.push(b'[');
    for (at, one) in item.items().unwrap_or_default().iter().enumerate() {
        out.extend_from_slice(if at > 0 { b"," } else { b"" });
        put(out, one);
    }
    out.push(b']');
}

fn put_access_item(out: &mut Vec<u8>, item: &Item<'_>) {
    let fields = item.items().unwrap_or_default();
    let mut object = Object::begin(out);
    if let [address, keys] = fields.as_slice() {
        object.data("address", address.payload);
        put_all(object.key("storageKeys"), keys, |out, key| {
            put_data(out, key.payload)
        });
    }
    object.end();
}

fn put_authorization(out: &mut Vec<u8>, item: &Item<'_>) {
    let fields = item.items().unwrap_or_default();
    let mut object = Object::begin(out);
    if let [chain_id, address, nonce, parity, r, s] = fields.as_slice() {
        put_wide(object.key("chainId"), chain_id.payload);
        object.data("address", address.payload);
        for (name, number) in [("nonce", nonce), ("yParity", parity), ("r", r), ("s", s)] {
            object.wide(name, number.payload);
        }
    }
    object.end();
}
