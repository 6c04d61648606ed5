//! Lists of RLP: written field by field, and taken apart without a copy.

use alloy_rlp::Header;

/// A list whose fields `put` writes.
pub(crate) fn list(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut fields = Vec::with_capacity(256);
    put(&mut fields);
    let mut out = Vec::with_capacity(fields.len() + 9);
    put_list(&fields, &mut out);
    out
}

/// Appends a list of these encoded fields.
pub(crate) fn put_list(fields: &[u8], out: &mut Vec<u8>) {
    let header = Header {
        list: true,
        payload_length: fields.len(),
    };
    header.encode(out);
    out.extend_from_slice(fields);
}

/// One item of a list: a string of bytes, or a list again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) is_list: bool,
    pub(crate) payload: &'a [u8],
    /// With what stands before it.
    pub(crate) whole: &'a [u8],
}

impl<'a> Item<'a> {
    /// The next item of these bytes.
    pub(crate) fn next(bytes: &mut &'a [u8]) -> Option<Self> {
        let start = *bytes;
        let header = Header::decode(bytes).ok()?;
        let payload = bytes.get(..header.payload_length)?;
        *bytes = bytes.get(header.payload_length..)?;
        let whole = start.get(..start.len() - bytes.len())?;
        Some(Self {
            is_list: header.list,
            payload,
            whole,
        })
    }

    /// The items of a list; none where it is not one.
    pub(crate) fn items(&self) -> Option<Vec<Item<'a>>> {
        if !self.is_list {
            return None;
        }
        let mut rest = self.payload;
        let mut items = Vec::new();
        while !rest.is_empty() {
            items.push(Item::next(&mut rest)?);
        }
        Some(items)
    }

    /// The items of bytes that are exactly one list.
    pub(crate) fn list_of(mut bytes: &'a [u8]) -> Option<Vec<Item<'a>>> {
        let list = Item::next(&mut bytes)?;
        bytes.is_empty().then(|| list.items())?
    }

    /// Its bytes as a number of 64 bits.
    pub(crate) fn number(&self) -> Option<u64> {
        if self.is_list || self.payload.len() > 8 {
            return None;
        }
        let digits = self.payload.iter();
        Some(digits.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}
