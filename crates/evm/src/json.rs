//! JSON objects written by hand into one buffer, as nodes write them.

use alloy_primitives::hex;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Names the fields that nothing proves.
pub(crate) const UNPROVEN: &str = "unprovenFields";

/// An object being written. It begins in the buffer and is ended by [`Object::end`].
pub(crate) struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> Object<'a> {
    pub(crate) fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self {
            out,
            is_empty: true,
        }
    }

    /// Writes a key and hands out the buffer for its value.
    pub(crate) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(crate) fn data(&mut self, key: &str, bytes: &[u8]) {
        put_data(self.key(key), bytes);
    }

    /// A number of any width, from its bytes.
    pub(crate) fn wide(&mut self, key: &str, bytes: &[u8]) {
        put_wide(self.key(key), bytes);
    }

    pub(crate) fn quantity(&mut self, key: &str, value: u64) {
        put_wide(self.key(key), &value.to_be_bytes());
    }

    /// A value that is JSON already.
    pub(crate) fn raw(&mut self, key: &str, json: &str) {
        self.key(key).extend_from_slice(json.as_bytes());
    }

    /// The names of fields that nothing proves; nothing where there are none.
    pub(crate) fn unproven(&mut self, names: &[&str]) {
        if !names.is_empty() {
            let names = serde_json::to_string(names).expect("names are text");
            self.raw(UNPROVEN, &names);
        }
    }

    pub(crate) fn end(self) {
        self.out.push(b'}');
    }
}

/// The members of an object, in order. The last one of a name counts, as for readers of JSON.
pub(crate) struct Members<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(String, &RawValue)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, _>()? {
                    members.retain(|(other, _)| *other != name);
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(MembersVisitor)
    }
}

/// A key as it stands between quotes.
pub(crate) fn escaped(name: &str) -> String {
    let quoted = serde_json::to_string(name).expect("a name is text");
    let inner = quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inner.expect("JSON text is quoted").to_owned()
}

/// Bytes: `"0x"` and two digits each.
pub(crate) fn put_data(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"\"0x");
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    let (_, digits) = out.split_at_mut(start);
    hex::encode_to_slice(bytes, digits).expect("there are two digits for each byte");
    out.push(b'"');
}

/// A number: `"0x"` and no leading zero.
pub(crate) fn put_wide(out: &mut Vec<u8>, bytes: &[u8]) {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let (_, significant) = bytes.split_at(zeros);
    let digits = hex::encode(significant);
    let digits = digits.strip_prefix('0').unwrap_or(&digits);
    out.extend_from_slice(b"\"0x");
    out.extend_from_slice(if digits.is_empty() {
        b"0"
    } else {
        digits.as_bytes()
    });
    out.push(b'"');
}
