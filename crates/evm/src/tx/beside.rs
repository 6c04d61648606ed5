//! What came with a transaction and does not follow from its bytes.

use alloy_primitives::{Address, B256, Bytes, U256};

use super::{AccessItem, Authorization, Decoded, TxFields};
use crate::json::{Object, put_data, put_wide};

/// A field and its value as JSON.
type Field<'a> = (&'a str, Vec<u8>);

impl TxFields<'_> {
    /// Fields that came and that its bytes do not tell, in a block with this base fee. A name that some types
    /// have in their bytes is not in those of others.
    pub(crate) fn beside(&self, decoded: &Decoded<'_>, base_fee: Option<u64>) -> Vec<Field<'_>> {
        let mut came = Vec::new();
        self.put_numbers(&mut came);
        self.put_strings(&mut came);
        self.put_lists(&mut came);
        let derived = |(name, value): &Field<'_>| {
            decoded.derives(name, base_fee)
                || decoded.usual(name, base_fee).as_deref() == Some(value.as_slice())
        };
        came.retain(|field| !derived(field));
        let others = self.others.iter();
        came.extend(others.map(|(name, value)| (name.as_str(), value.get().as_bytes().to_vec())));
        came
    }

    fn put_numbers<'a>(&'a self, came: &mut Vec<Field<'a>>) {
        let more = &self.arbitrum;
        let numbers = [
            ("chainId", self.chain_id),
            ("nonce", self.nonce),
            ("gas", self.gas),
            ("gasPrice", self.gas_price),
            ("maxFeePerGas", self.max_fee),
            ("maxPriorityFeePerGas", self.max_priority_fee),
            ("maxFeePerBlobGas", self.max_blob_fee),
            ("value", self.value),
            ("v", self.v),
            ("r", self.r),
            ("s", self.s),
            ("yParity", self.y_parity),
            ("mint", self.mint),
            ("queueIndex", self.queue_index),
            ("gatewayFee", self.celo.gateway_fee),
            ("maxRefund", more.max_refund),
            ("submissionFeeRefund", more.submission_fee_refund),
            ("l1BaseFee", more.l1_base_fee),
            ("depositValue", more.deposit_value),
            ("retryValue", more.retry_value),
            ("maxSubmissionFee", more.max_submission_fee),
        ];
        for (name, number) in numbers {
            came.extend(number.map(|number| (name, number_json(number))));
        }
    }

    fn put_strings<'a>(&'a self, came: &mut Vec<Field<'a>>) {
        let more = &self.arbitrum;
        let address = |address: &Option<Address>| address.map(|address| address.to_vec());
        let hash = |hash: &Option<B256>| hash.map(|hash| hash.to_vec());
        let bytes = |bytes: &Option<Bytes>| bytes.as_ref().map(|bytes| bytes.to_vec());
        let strings = [
            ("from", address(&self.from)),
            ("to", address(&self.to)),
            ("sender", address(&self.sender)),
            ("feeCurrency", address(&self.celo.fee_currency)),
            ("gatewayFeeRecipient", address(&self.celo.gateway_recipient)),
            ("refundTo", address(&more.refund_to)),
            ("retryTo", address(&more.retry_to)),
            ("beneficiary", address(&more.beneficiary)),
            ("sourceHash", hash(&self.source_hash)),
            ("requestId", hash(&more.request_id)),
            ("ticketId", hash(&more.ticket_id)),
            ("input", bytes(&self.input)),
            ("retryData", bytes(&more.retry_data)),
        ];
        for (name, bytes) in strings {
            came.extend(bytes.map(|bytes| (name, data_json(&bytes))));
        }
        let flags = [
            ("isSystemTx", self.is_system),
            ("ethCompatible", self.celo.is_ethereum),
        ];
        for (name, flag) in flags {
            came.extend(flag.map(|flag| (name, flag.to_string().into_bytes())));
        }
    }

    /// An empty list says nothing.
    fn put_lists<'a>(&'a self, came: &mut Vec<Field<'a>>) {
        let lists = [
            ("accessList", list_json(&self.access_list, put_access_item)),
            (
                "blobVersionedHashes",
                list_json(&self.blob_hashes, |out, hash| {
                    put_data(out, hash.as_slice())
                }),
            ),
            (
                "authorizationList",
                list_json(&self.authorizations, put_authorization),
            ),
        ];
        let some = lists.into_iter().filter(|(_, json)| json != b"[]");
        came.extend(some);
    }
}

fn number_json(number: U256) -> Vec<u8> {
    let mut out = Vec::new();
    put_wide(&mut out, &number.to_be_bytes::<32>());
    out
}

fn data_json(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_data(&mut out, bytes);
    out
}

fn list_json<T>(items: &[T], put: impl Fn(&mut Vec<u8>, &T)) -> Vec<u8> {
    let mut out = vec![b'['];
    for (at, item) in items.iter().enumerate() {
        out.extend_from_slice(if at > 0 { b"," } else { b"" });
        put(&mut out, item);
    }
    out.push(b']');
    out
}

fn put_access_item(out: &mut Vec<u8>, item: &AccessItem) {
    let mut object = Object::begin(out);
    object.data("address", item.address.as_slice());
    let keys = list_json(&item.storage_keys, |out, key| put_data(out, key.as_slice()));
    object.key("storageKeys").extend_from_slice(&keys);
    object.end();
}

fn put_authorization(out: &mut Vec<u8>, one: &Authorization) {
    let mut object = Object::begin(out);
    let wide = |number: U256| number.to_be_bytes::<32>();
    object.wide("chainId", &wide(one.chain_id.0));
    object.data("address", one.address.as_slice());
    object.wide("nonce", &wide(one.nonce.0));
    let parity = one.y_parity.or(one.v);
    object.quantity("yParity", parity.unwrap_or_default());
    object.wide("r", &wide(one.r.0));
    object.wide("s", &wide(one.s.0));
    object.end();
}
