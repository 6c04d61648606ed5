//! Numbers that no two handles share, in this process or another.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of numbers: 64 bits drawn from the operating system, then a counter.
#[derive(Debug)]
pub(crate) struct Nonces {
    handle: u64,
    next: AtomicU64,
}

impl Nonces {
    /// A source that no other handle has.
    pub(crate) fn new() -> Self {
        // The keys of the standard library's hasher come from the operating system's randomness.
        // Only uniqueness is needed here, never secrecy.
        Self {
            handle: RandomState::new().build_hasher().finish(),
            next: AtomicU64::new(0),
        }
    }

    /// The next number.
    pub(crate) fn next(&self) -> u128 {
        let counter = self.next.fetch_add(1, Ordering::Relaxed);
        u128::from(self.handle) << 64 | u128::from(counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differ_within_and_between_handles() {
        let (a, b) = (Nonces::new(), Nonces::new());
        let mut all = vec![a.next(), a.next(), b.next(), b.next()];
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4);
    }
}
