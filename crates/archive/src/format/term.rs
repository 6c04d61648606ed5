//! Terms: what logs can be found by. A term is a field, its position and its bytes, hashed to
//! [`TERM_BITS`] bits. Two terms may share a hash: a log that postings lead to is compared itself.
//!
//! The hash is keyed. Its leading bits choose a page of the term dictionary, and a contract that emits logs
//! chooses topics: with a hash that anyone can compute, a few thousand tries a topic are enough to
//! crowd all of them into the page of a topic that is requested often. SipHash with a key that only
//! the archive has is made against exactly this. Segments of format version 2 and before have no
//! key, and keep the hash they were written with.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bits of a term's hash that are stored. With five million terms in a segment an absent term
/// meets a stored one in one lookup of fourteen thousand, which costs a read and no wrong answer.
pub(crate) const TERM_BITS: u32 = 36;

/// What the terms of a segment are hashed with: a secret of the archive that wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TermKey(pub(crate) [u8; 16]);

impl TermKey {
    /// No key: segments of old versions, and those that keep no logs.
    pub(crate) const NONE: Self = Self([0; 16]);

    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// A secret is not for logs.
impl fmt::Debug for TermKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_none() { "none" } else { "secret" };
        write!(f, "TermKey({what})")
    }
}

/// Which part of a log a term is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    Emitter,
    /// The topic at a position.
    Topic(usize),
    TopicCount,
}

impl Field {
    fn number(self) -> u64 {
        match self {
            Self::Emitter => 0,
            Self::Topic(position) => 1 + position as u64,
            Self::TopicCount => 16,
        }
    }
}

/// A term's hash, [`TERM_BITS`] wide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Term(pub(crate) u64);

impl Term {
    pub(crate) fn new(key: TermKey, field: Field, value: &[u8]) -> Self {
        let hash = if key.is_none() {
            xxh3_64_with_seed(value, field.number())
        } else {
            siphash::<1, 3>(key, field.number(), value)
        };
        Self(hash >> (64 - TERM_BITS))
    }

    pub(crate) fn topic_count(key: TermKey, count: usize) -> Self {
        Self::new(key, Field::TopicCount, &[count as u8])
    }
}

/// SipHash-C-D of a number (eight bytes, little-endian) and the bytes after it.
#[inline]
fn siphash<const C: usize, const D: usize>(key: TermKey, first: u64, bytes: &[u8]) -> u64 {
    let key = u128::from_le_bytes(key.0);
    let (low, high) = (key as u64, (key >> 64) as u64);
    let mut state = Sip {
        a: low ^ 0x736f_6d65_7073_6575,
        b: high ^ 0x646f_7261_6e64_6f6d,
        c: low ^ 0x6c79_6765_6e65_7261,
        d: high ^ 0x7465_6462_7974_6573,
    };
    state.absorb::<C>(first);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state.absorb::<C>(u64::from_le_bytes(*word));
    }
    let mut last = (bytes.len() as u64 + 8) << 56;
    for (byte, place) in rest.iter().zip(0_u32..) {
        last |= u64::from(*byte) << (8 * place);
    }
    state.absorb::<C>(last);
    state.c ^= 0xff;
    for _ in 0..D {
        state.round();
    }
    state.a ^ state.b ^ state.c ^ state.d
}

struct Sip {
    a: u64,
    b: u64,
    c: u64,
    d: u64,
}

impl Sip {
    #[inline(always)]
    fn absorb<const C: usize>(&mut self, word: u64) {
        self.d ^= word;
        for _ in 0..C {
            self.round();
        }
        self.a ^= word;
    }

    #[inline(always)]
    fn round(&mut self) {
        self.a = self.a.wrapping_add(self.b);
        self.c = self.c.wrapping_add(self.d);
        self.b = self.b.rotate_left(13) ^ self.a;
        self.d = self.d.rotate_left(16) ^ self.c;
        self.a = self.a.rotate_left(32);
        self.c = self.c.wrapping_add(self.b);
        self.a = self.a.wrapping_add(self.d);
        self.b = self.b.rotate_left(17) ^ self.c;
        self.d = self.d.rotate_left(21) ^ self.a;
        self.c = self.c.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    /// The hashes are part of the format: these values may never change.
    #[test]
    fn golden_hashes() {
        let value = [7; 20];
        let (none, key) = (TermKey::NONE, TermKey(std::array::from_fn(|at| at as u8)));
        let emitter = |key| Term::new(key, Field::Emitter, &value);
        assert_eq!(emitter(none), Term(9_562_295_574));
        assert_eq!(emitter(key), Term(GOLDEN_KEYED));
        for key in [none, key] {
            let topic = |position| Term::new(key, Field::Topic(position), &value);
            assert_ne!(topic(0), emitter(key));
            assert_ne!(topic(0), topic(1));
            assert_ne!(Term::topic_count(key, 0), Term::topic_count(key, 1));
        }
    }

    const GOLDEN_KEYED: u64 = 9_972_718_347;

    /// SipHash-2-4 as its authors give it, for messages of 8 to 15 bytes that count up from 0, under a
    /// key that does too; and SipHash-1-3 as the standard library has it, with a key of zeros.
    #[test]
    fn it_is_siphash() {
        let key = TermKey(std::array::from_fn(|at| at as u8));
        let first = u64::from_le_bytes(std::array::from_fn(|at| at as u8));
        let rest: Vec<u8> = (8..15).collect();
        for (len, expected) in [
            (0, 0x93f5_f579_9a93_2462),
            (1, 0x9e00_82df_0ba9_e4b0),
            (7, 0xa129_ca61_49be_45e5),
        ] {
            assert_eq!(siphash::<2, 4>(key, first, &rest[..len]), expected);
        }
        for len in 0..70_u8 {
            let bytes: Vec<u8> = (0..len).collect();
            let mut known = std::hash::DefaultHasher::new();
            known.write(&9_u64.to_le_bytes());
            known.write(&bytes);
            assert_eq!(siphash::<1, 3>(TermKey::NONE, 9, &bytes), known.finish());
        }
    }
}
