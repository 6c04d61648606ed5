//! A 32-byte hash, printed as `0x` and 64 lower-case digits.

use std::fmt;

/// A 32-byte hash of a block, a transaction or a ledger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash32(pub [u8; 32]);

impl Hash32 {
    /// The hash whose bytes are all zero: the parent that a genesis block names.
    pub const ZERO: Self = Self([0; 32]);

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Takes a slice of exactly 32 bytes.
    #[must_use]
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The first eight bytes as a big-endian number: hashes are uniform, so this is a good key.
    #[must_use]
    pub fn prefix64(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl From<[u8; 32]> for Hash32 {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Hash32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Byte by byte through the formatter takes many times as long.
        let digit = |half: u8| char::from_digit(half.into(), 16).expect("half a byte is a digit");
        let mut text = String::with_capacity(2 + 2 * self.0.len());
        text.push_str("0x");
        for byte in self.0 {
            text.push(digit(byte >> 4));
            text.push(digit(byte & 15));
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for Hash32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_hex_and_orders_by_bytes() {
        let mut bytes = [0; 32];
        bytes[0] = 0xab;
        bytes[31] = 1;
        let hash = Hash32(bytes);
        assert_eq!(hash.to_string(), format!("0xab{}01", "00".repeat(30)));
        assert_eq!(hash.prefix64(), 0xab00_0000_0000_0000);
        assert!(Hash32::ZERO < hash);
        assert_eq!(Hash32::from_slice(&bytes), Some(hash));
        assert_eq!(Hash32::from_slice(&bytes[1..]), None);
    }
}
