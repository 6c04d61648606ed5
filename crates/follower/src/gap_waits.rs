//! Blocks that are known to be missing, and since when.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Blocks that are remembered. Beyond it waits are not measured, and nothing else changes.
const GAPS_MAX: usize = 8_192;

/// Blocks that are known to be missing.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    since: BTreeMap<u64, Instant>,
}

impl Gaps {
    /// A block is known to be missing. If that was known before, it stays so since then.
    pub(crate) fn missing(&mut self, number: u64, now: Instant) {
        if self.since.len() < GAPS_MAX {
            self.since.entry(number).or_insert(now);
        }
    }

    /// A block is there: how long it was known to be missing.
    pub(crate) fn there(&mut self, number: u64, now: Instant) -> Option<Duration> {
        let since = self.since.remove(&number)?;
        Some(now.saturating_duration_since(since))
    }

    /// All blocks up to this one are there: how long each was known to be missing.
    pub(crate) fn there_through(&mut self, number: u64, now: Instant) -> Vec<Duration> {
        let above = self.since.split_off(&number.saturating_add(1));
        let there = std::mem::replace(&mut self.since, above).into_values();
        there
            .map(|since| now.saturating_duration_since(since))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_from_the_first_notice_until_the_block_is_there() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut gaps = Gaps::default();
        assert_eq!(gaps.there(7, at(0)), None);
        gaps.missing(7, at(1));
        gaps.missing(7, at(3));
        assert_eq!(gaps.there(7, at(5)), Some(Duration::from_secs(4)));
        assert_eq!(gaps.there(7, at(6)), None, "measured once");
        for number in [8, 9, 12] {
            gaps.missing(number, at(10));
        }
        let waits = gaps.there_through(9, at(12));
        assert_eq!(waits, [Duration::from_secs(2); 2]);
        assert_eq!(gaps.there(12, at(20)), Some(Duration::from_secs(10)));
    }
}
