//! Blooms from logs. The bits of a term are remembered: hashing it costs more than archiving the
//! log it is in, and most terms come again and again.

use std::sync::LazyLock;

use alloy_primitives::{Bloom, keccak256};
use bytes::Bytes;
use chronolith_model::Scope;
use quick_cache::sync::Cache;

/// Terms whose bits are remembered.
const TERMS_MAX: usize = 1 << 17;

/// A term of at most 32 bytes with its length.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Term([u8; 32], u8);

/// A term sets the same bits on every chain: one memory for all of them. One for each chain took
/// 7 MB, a sixth of what thirty chains need.
static BITS: LazyLock<Cache<Term, [u16; 3]>> = LazyLock::new(|| Cache::new(TERMS_MAX));

/// Adds an emitter or a topic.
pub(crate) fn add(bloom: &mut Bloom, value: &[u8]) {
    let mut key = [0; 32];
    let len = value.len().min(32);
    key.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
    let key = Term(key, len as u8);
    let bits = BITS.get(&key).unwrap_or_else(|| {
        let bits = bits_of(value);
        BITS.insert(key, bits);
        bits
    });
    for bit in bits {
        set(bloom, bit);
    }
}

/// Whether a bloom allows a log of the scope.
pub(crate) fn may_hold(bloom: &Bloom, scope: &Scope) -> bool {
    let Scope::Only(entries) = scope else {
        return true;
    };
    let admits = |value: &Option<Bytes>| {
        value.as_ref().is_none_or(|value| {
            let mut bits = Bloom::ZERO;
            add(&mut bits, value);
            *bloom & bits == bits
        })
    };
    let mut entries = entries.iter();
    entries.any(|entry| admits(&entry.emitter) && admits(&entry.topic0))
}

#[expect(
    clippy::indexing_slicing,
    reason = "a bit is below 2048, eight of them to a byte"
)]
fn set(bloom: &mut Bloom, bit: u16) {
    bloom.0[255 - usize::from(bit / 8)] |= 1 << (bit % 8);
}

/// The three bits that a value sets: the low eleven bits of the first three pairs of its hash.
fn bits_of(value: &[u8]) -> [u16; 3] {
    let hash = keccak256(value);
    let (pairs, _) = hash.as_slice().as_chunks::<2>();
    let mut bits = [0; 3];
    for (bit, pair) in bits.iter_mut().zip(pairs) {
        *bit = u16::from_be_bytes(*pair) & 0x7ff;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::BloomInput;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_library(terms in proptest::collection::vec(
            prop_oneof![proptest::collection::vec(any::<u8>(), 20), proptest::collection::vec(any::<u8>(), 32)],
            0..20,
        )) {
            let (mut ours, mut theirs) = (Bloom::ZERO, Bloom::ZERO);
            // Twice: the second time from memory.
            for term in terms.iter().chain(&terms) {
                add(&mut ours, term);
                theirs.accrue(BloomInput::Raw(term));
            }
            prop_assert_eq!(ours, theirs);
        }
    }
}
