//! Log lines that any client can cause: one a minute, with the number of those that were left out. Else outsiders
//! could fill a disk.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

const EVERY: Duration = Duration::from_secs(60);

/// When such a line was logged last.
pub(crate) struct Seldom(Mutex<Logged>);

struct Logged {
    last: Option<Instant>,
    /// Lines that were left out since then.
    unlogged: u64,
}

impl Seldom {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Logged {
            last: None,
            unlogged: 0,
        }))
    }

    /// Whether to log a line now, and how many were left out before it.
    pub(crate) fn due(&self, now: Instant) -> Option<u64> {
        let mut logged = self.0.lock();
        let is_due = logged
            .last
            .is_none_or(|last| now.saturating_duration_since(last) >= EVERY);
        if !is_due {
            logged.unlogged += 1;
            return None;
        }
        logged.last = Some(now);
        Some(std::mem::take(&mut logged.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_minute_counts_the_others() {
        let (seldom, begin) = (Seldom::new(), Instant::now());
        assert_eq!(seldom.due(begin), Some(0));
        for _ in 0..1_000 {
            assert_eq!(seldom.due(begin + EVERY / 2), None);
        }
        assert_eq!(seldom.due(begin + EVERY), Some(1_000));
        assert_eq!(seldom.due(begin + EVERY), None);
        assert_eq!(seldom.due(begin + EVERY * 3), Some(1));
    }
}
