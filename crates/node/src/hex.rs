//! Bytes as people write them.

use bytes::Bytes;

/// Bytes from `0x` and an even number of digits.
pub(crate) fn parse_hex(text: &str) -> Option<Bytes> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |sign: u8| (sign as char).to_digit(16).map(|value| value as u8);
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    pairs
        .iter()
        .map(byte)
        .collect::<Option<Vec<u8>>>()
        .map(Bytes::from)
}

/// `0x` and the digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + bytes.len() * 2);
    text.push_str("0x");
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    text.extend(digits);
    text
}
