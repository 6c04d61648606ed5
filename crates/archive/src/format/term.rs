//! Terms: what logs can be found by. A term is a field, its position and its bytes, hashed to
//! [`TERM_BITS`] bits. Two terms may share a hash: whoever uses postings checks the log itself.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bits of a term's hash that are stored. With five million terms in a segment an absent term
/// meets a stored one in one lookup of fourteen thousand, which costs a read and no wrong answer.
pub(crate) const TERM_BITS: u32 = 36;

/// A term's hash, [`TERM_BITS`] wide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Term(pub(crate) u64);

impl Term {
    pub(crate) fn emitter(value: &[u8]) -> Self {
        Self::hashed(0, value)
    }

    pub(crate) fn topic(position: usize, value: &[u8]) -> Self {
        Self::hashed(1 + position as u64, value)
    }

    pub(crate) fn topic_count(count: usize) -> Self {
        Self::hashed(16, &[count as u8])
    }

    fn hashed(field: u64, value: &[u8]) -> Self {
        Self(xxh3_64_with_seed(value, field) >> (64 - TERM_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hash is part of the format: these values may never change.
    #[test]
    fn golden_hashes() {
        let value = [7; 20];
        assert_eq!(Term::emitter(&value), Term(9_562_295_574));
        assert_ne!(Term::topic(0, &value), Term::emitter(&value));
        assert_ne!(Term::topic(0, &value), Term::topic(1, &value));
        assert_ne!(Term::topic_count(0), Term::topic_count(1));
    }
}
