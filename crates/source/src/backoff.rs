//! Pauses between attempts: each is twice as long as the last, up to a limit.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// The pauses of one loop that tries again after failures.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    /// The factor of a pause: endpoints that fail together must not be tried again together.
    jitter: fn() -> f64,
    attempts: u32,
}

impl Backoff {
    /// Exact pauses: `first`, then twice as long each time, at most `max`.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self {
            first,
            max,
            jitter: || 1.0,
            attempts: 0,
        }
    }

    /// The same with jitter: each pause is between half of the exact one and all of it.
    #[must_use]
    pub const fn with_jitter(self) -> Self {
        Self {
            jitter: || StdRng::from_os_rng().random_range(0.5..1.0),
            ..self
        }
    }

    /// The pause before the next attempt.
    #[expect(
        clippy::should_implement_trait,
        reason = "pauses do not end, so an iterator's `Option` would only be unwrapped"
    )]
    pub fn next(&mut self) -> Duration {
        let factor = 1_u32.checked_shl(self.attempts).unwrap_or(u32::MAX);
        self.attempts = self.attempts.saturating_add(1);
        let exact = self.first.saturating_mul(factor).min(self.max);
        exact.mul_f64((self.jitter)())
    }

    /// Pauses since the last success.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// After a success the next pause is the first one again.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_begin_again_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(1));
        for _ in 0..2 {
            for expected_ms in [250, 500, 1_000, 1_000] {
                assert_eq!(backoff.next().as_millis(), expected_ms);
            }
            assert_eq!(backoff.attempts(), 4);
            backoff.reset();
        }
        let many = (0..100).map(|_| backoff.next());
        assert_eq!(many.last(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn jitter_takes_up_to_half_of_a_pause() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, second).with_jitter();
        let pauses: Vec<Duration> = (0..100).map(|_| backoff.next()).collect();
        assert!(
            pauses
                .iter()
                .all(|pause| (second / 2..=second).contains(pause))
        );
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}
