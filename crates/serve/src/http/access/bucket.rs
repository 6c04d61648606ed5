//! A token bucket: so much in a second, and so much at once. The time is an argument.

use std::time::Duration;

use tokio::time::Instant;

/// So much in a second, and so much at once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    pub per_second: f64,
    pub burst: f64,
}

impl Rate {
    /// Seconds until an empty bucket is full.
    pub(super) fn window(self) -> u64 {
        (self.burst / self.per_second).ceil().max(1.0) as u64
    }
}

/// What is left of a rate.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// Below zero after more was used than was there.
    level: f64,
    at: Instant,
}

/// Why there is not enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Short {
    /// There is enough after this time.
    For(Duration),
    /// There is never so much at once.
    Forever,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(rate: Rate, now: Instant) -> Self {
        Self {
            rate,
            level: rate.burst,
            at: now,
        }
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// Takes this much, or nothing where there is less.
    pub(super) fn take(&mut self, amount: f64, now: Instant) -> Result<(), Short> {
        if amount > self.rate.burst {
            return Err(Short::Forever);
        }
        self.fill(now);
        if self.level < amount {
            return Err(Short::For(self.time_for(amount - self.level)));
        }
        self.level -= amount;
        Ok(())
    }

    /// Takes what was used already, also where less is there.
    pub(super) fn owe(&mut self, amount: f64, now: Instant) {
        self.fill(now);
        self.level -= amount;
    }

    /// Whether anything is left: what a request will use is not known before.
    pub(super) fn any_left(&mut self, now: Instant) -> Result<(), Short> {
        self.fill(now);
        if self.level > 0.0 {
            return Ok(());
        }
        // One unit, or the smallest part of the burst that counts.
        Err(Short::For(self.time_for(1.0 - self.level)))
    }

    /// The time until at least this much is there; none where it is. At its end there is a little more: no rounding
    /// brings the next wait.
    pub(super) fn time_until(&mut self, level: f64, now: Instant) -> Option<Duration> {
        self.fill(now);
        let missing = level - self.level;
        (missing > 0.0).then(|| self.time_for(missing + 1.0))
    }

    /// What is left, and the time until it is full.
    pub(super) fn left(&mut self, now: Instant) -> (u64, Duration) {
        self.fill(now);
        let full = self.time_for(self.rate.burst - self.level);
        (self.level.max(0.0) as u64, full)
    }

    fn fill(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level + seconds * self.rate.per_second).min(self.rate.burst);
        self.at = now.max(self.at);
    }

    fn time_for(&self, amount: f64) -> Duration {
        let seconds = amount.max(0.0) / self.rate.per_second;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let begin = Instant::now();
        let rate = Rate {
            per_second: 2.0,
            burst: 10.0,
        };
        let mut bucket = Bucket::new(rate, begin);
        assert_eq!(rate.window(), 5);
        for _ in 0..10 {
            assert_eq!(bucket.take(1.0, begin), Ok(()));
        }
        assert_eq!(bucket.take(1.0, begin), Err(Short::For(secs(0.5))));
        assert_eq!(bucket.take(4.0, begin), Err(Short::For(secs(2.0))));
        assert_eq!(bucket.take(11.0, begin), Err(Short::Forever));
        let later = begin + secs(2.0);
        assert_eq!(bucket.left(later), (4, secs(3.0)));
        assert_eq!(bucket.take(4.0, later), Ok(()));
        // A clock that reads an earlier time gives nothing twice.
        assert!(bucket.take(1.0, begin).is_err());
        assert!(bucket.take(1.0, later).is_err());
        let much_later = begin + secs(1_000.0);
        assert_eq!(bucket.left(much_later), (10, Duration::ZERO));
    }

    #[test]
    fn what_was_used_is_owed() {
        let begin = Instant::now();
        let mut bucket = Bucket::new(
            Rate {
                per_second: 100.0,
                burst: 1_000.0,
            },
            begin,
        );
        assert_eq!(bucket.any_left(begin), Ok(()));
        bucket.owe(1_499.0, begin);
        assert_eq!(bucket.left(begin).0, 0);
        assert_eq!(bucket.any_left(begin), Err(Short::For(secs(5.0))));
        assert_eq!(bucket.any_left(begin + secs(5.0)), Ok(()));
        let later = begin + secs(5.0);
        assert_eq!(bucket.time_until(1.0, later), None);
        assert_eq!(bucket.time_until(100.0, later), Some(secs(1.0)));
        assert_eq!(bucket.time_until(100.0, later + secs(1.0)), None);
    }
}
