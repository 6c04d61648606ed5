//! Hex that must have its prefix: `const-hex` also takes digits without it.

use bytes::Bytes;

/// Bytes from `0x` and an even number of digits.
pub(crate) fn parse_hex(text: &str) -> Option<Bytes> {
    let bytes = text.starts_with("0x").then(|| const_hex::decode(text))?;
    bytes.ok().map(Bytes::from)
}

/// This many bytes from `0x` and their digits.
pub(crate) fn parse_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    let bytes = text
        .starts_with("0x")
        .then(|| const_hex::decode_to_array(text))?;
    bytes.ok()
}
