//! JSON written into one buffer: a tree of values for each log would make the simulated servers slower than
//! the clients that are measured with them. Nothing that is written here needs escapes.

use alloy_primitives::hex;

/// An object being written.
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

    /// Continues with an object that has fields already and no end.
    pub(crate) fn resume(out: &'a mut Vec<u8>) -> Self {
        let is_empty = false;
        Self { out, is_empty }
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

    pub(crate) fn quantity(&mut self, key: &str, value: u64) {
        put_quantity(self.key(key), value);
    }

    pub(crate) fn number(&mut self, key: &str, value: u64) {
        let out = self.key(key);
        out.extend_from_slice(value.to_string().as_bytes());
    }

    /// A value that is JSON already.
    pub(crate) fn raw(&mut self, key: &str, json: &str) {
        self.key(key).extend_from_slice(json.as_bytes());
    }

    pub(crate) fn end(self) {
        self.out.push(b'}');
    }
}

/// Bytes: `"0x"` and two digits each.
pub(crate) fn put_data(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"\"0x");
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    if let Some(digits) = out.get_mut(start..) {
        hex::encode_to_slice(bytes, digits).expect("the room is twice the bytes");
    }
    out.push(b'"');
}

/// A number: `"0x"` and no leading zero.
pub(crate) fn put_quantity(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(format!("\"{value:#x}\"").as_bytes());
}

/// A number alone.
pub(crate) fn quantity(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put_quantity(&mut out, value);
    out
}

/// A list of what `put` writes.
pub(crate) fn put_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    let start = out.len();
    for item in items {
        if out.len() > start {
            out.push(b',');
        }
        put(out, item);
    }
    out.push(b']');
}
