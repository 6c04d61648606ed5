//! The object of one version of the record.
//!
//! ```text
//! | nonce u128 | xxh3 of number, nonce and bytes u64 | bytes … |      little-endian
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Error, Result};

const HEADER_BYTES: usize = 24;

/// What a version's object holds.
#[derive(Debug)]
pub(super) struct Stored {
    /// Tells the swap that wrote it from all others.
    pub(super) nonce: u128,
    pub(super) bytes: Bytes,
}

impl Stored {
    pub(super) fn encode(&self, number: u64) -> Bytes {
        let mut body = BytesMut::with_capacity(HEADER_BYTES + self.bytes.len());
        body.put_u128_le(self.nonce);
        body.put_u64_le(self.checksum(number));
        body.put_slice(&self.bytes);
        body.freeze()
    }

    pub(super) fn decode(number: u64, body: Bytes) -> Result<Self> {
        let corrupt = || Error::corrupt(format!("record fails its checksum (version={number})"));
        let (nonce, rest) = body.split_first_chunk().ok_or_else(corrupt)?;
        let (checksum, _) = rest.split_first_chunk().ok_or_else(corrupt)?;
        let stored = Self {
            nonce: u128::from_le_bytes(*nonce),
            bytes: body.slice(HEADER_BYTES..),
        };
        if stored.checksum(number) != u64::from_le_bytes(*checksum) {
            return Err(corrupt());
        }
        Ok(stored)
    }

    fn checksum(&self, number: u64) -> u64 {
        let salt = u128::from(number) ^ self.nonce;
        xxh3_64(&self.bytes) ^ xxh3_64(&salt.to_le_bytes())
    }
}
