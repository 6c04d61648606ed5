//! How often a server may be asked, second by second since its start.

use std::time::Instant;

use parking_lot::Mutex;

use super::RateLimit;

/// Calls of the second under way.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    second: u64,
    calls: u64,
}

/// Counts calls against a limit.
#[derive(Debug)]
pub(crate) struct Limiter {
    limit: Option<RateLimit>,
    window: Mutex<Window>,
    began: Instant,
}

impl Limiter {
    pub(crate) fn new(limit: Option<RateLimit>) -> Self {
        Self {
            limit,
            window: Mutex::default(),
            began: Instant::now(),
        }
    }

    /// Whether so many more calls are within the limit.
    pub(crate) fn admits(&self, calls: u64) -> bool {
        let Some(limit) = self.limit else {
            return true;
        };
        let second = self.began.elapsed().as_secs();
        let mut window = self.window.lock();
        if window.second != second {
            *window = Window { second, calls: 0 };
        }
        // A batch that is larger than the limit could never be served: it has a second to itself.
        let fits = window.calls == 0 || window.calls + calls <= limit.calls_per_second;
        let admitted = fits && limit.calls_per_second > 0;
        window.calls += if admitted { calls } else { 0 };
        admitted
    }

    /// How long refused clients must wait.
    pub(crate) fn retry_after_seconds(&self) -> Option<u64> {
        self.limit.and_then(|limit| limit.retry_after_seconds)
    }
}
