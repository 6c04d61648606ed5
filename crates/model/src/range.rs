//! Chain ids and half-open block ranges.

use std::fmt;

/// A chain's numeric id; 64 bits everywhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChainId(pub u64);

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Blocks `start..end`, the end excluded. Inclusive ranges exist only at the RPC edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockRange {
    /// First block inside.
    pub start: u64,
    /// First block after.
    pub end: u64,
}

impl BlockRange {
    /// The range `start..end`; an end before the start gives the empty range at `start`.
    #[must_use]
    pub const fn new(start: u64, end: u64) -> Self {
        Self {
            start,
            end: if end < start { start } else { end },
        }
    }

    /// The range that holds one block.
    #[must_use]
    pub const fn one(number: u64) -> Self {
        Self {
            start: number,
            end: number.saturating_add(1),
        }
    }

    /// How many blocks it holds.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it holds none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// Whether the block is inside.
    #[must_use]
    pub const fn contains(&self, number: u64) -> bool {
        self.start <= number && number < self.end
    }

    /// Whether every block of `other` is inside.
    #[must_use]
    pub const fn covers(&self, other: &Self) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
    }

    /// The blocks in both, if any.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let start = self.start.max(other.start);
        let end = self.end.min(other.end);
        (start < end).then_some(Self { start, end })
    }
}

impl fmt::Display for BlockRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl fmt::Debug for BlockRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open() {
        let range = BlockRange::new(10, 20);
        assert_eq!(
            (range.len(), range.contains(10), range.contains(20)),
            (10, true, false)
        );
        assert!(BlockRange::new(7, 3).is_empty());
        assert_eq!(
            range.intersect(&BlockRange::new(19, 30)),
            Some(BlockRange::one(19))
        );
        assert_eq!(range.intersect(&BlockRange::new(20, 30)), None);
        assert!(range.covers(&BlockRange::new(10, 20)) && !range.covers(&BlockRange::new(9, 11)));
        assert!(
            range.covers(&BlockRange::new(99, 99)),
            "an empty range is inside anything"
        );
    }
}
