//! What came with a transaction and does not follow from its bytes.

use alloy_primitives::U256;

use super::{
    ADDRESSES, AccessItem, Authorization, DATA, Decoded, FLAGS, HASHES, NUMBERS, TxFields,
};
use crate::json::{Object, put_data, put_wide};

/// A field and its value as JSON.
type Field<'a> = (&'a str, Vec<u8>);

impl TxFields<'_> {
    /// Fields that came and do not follow from its bytes, in a block with this base fee. A name that some types
    /// have in their bytes is not in those of others.
    pub(crate) fn beside(&self, decoded: &Decoded<'_>, base_fee: Option<u64>) -> Vec<Field<'_>> {
        let mut came: Vec<Field<'_>> = Vec::new();
        let numbers = NUMBERS.into_iter().zip(&self.numbers);
        came.extend(numbers.filter_map(|(name, one)| Some((name, number_json((*one)?)))));
        let addresses = ADDRESSES.into_iter().zip(&self.addresses);
        came.extend(addresses.filter_map(|(name, one)| Some((name, data_json(&(*one)?.0.0)))));
        let hashes = HASHES.into_iter().zip(&self.hashes);
        came.extend(hashes.filter_map(|(name, one)| Some((name, data_json(&(*one)?.0)))));
        let data = DATA.into_iter().zip(&self.data);
        came.extend(data.filter_map(|(name, one)| Some((name, data_json(one.as_ref()?)))));
        let flags = FLAGS.into_iter().zip(&self.flags);
        came.extend(flags.filter_map(|(name, one)| Some((name, (*one)?.to_string().into_bytes()))));
        self.put_lists(&mut came);
        came.retain(|(name, value)| {
            !decoded.derives(name, base_fee)
                && decoded.usual(name, base_fee).as_deref() != Some(value.as_slice())
        });
        let others = self.others.iter();
        came.extend(others.map(|(name, value)| (name.as_str(), value.get().as_bytes().to_vec())));
        came
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
