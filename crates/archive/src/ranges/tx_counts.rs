//! How many transaction hashes begin with each hex digit: what a range's index is checked against.

use chronolith_model::Hash32;

use crate::format::Decoded;
use crate::format::wire::{Put, Reader};

/// Transaction hashes by their first hex digit. A second hash of a transaction counts as well, the
/// hashes of blocks do not.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TxCounts(pub [u64; 16]);

impl TxCounts {
    /// How many there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Counts one hash.
    #[expect(
        clippy::indexing_slicing,
        reason = "four bits are below 16, the length"
    )]
    pub fn count(&mut self, hash: &Hash32) {
        let [first, ..] = hash.0;
        self.0[usize::from(first >> 4)] += 1;
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        let pairs = self.0.iter_mut().zip(&other.0);
        pairs.for_each(|(sum, more)| *sum += more);
    }

    /// Of hashes that lie end to end.
    pub(crate) fn count_all(&mut self, hashes: &[u8]) {
        let (hashes, _) = hashes.as_chunks::<32>();
        hashes.iter().for_each(|hash| self.count(&Hash32(*hash)));
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|&count| out.put_varint(count));
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let mut counts = Self::default();
        for count in &mut counts.0 {
            *count = reader.varint()?;
        }
        Ok(counts)
    }
}
