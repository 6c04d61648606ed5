//! Limits of one endpoint: requests in flight and requests a second.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Lets requests through one by one.
#[derive(Debug)]
pub(crate) struct Throttle {
    in_flight: Semaphore,
    /// Time between two requests, and when the next may start.
    interval: Duration,
    next: Mutex<Option<Instant>>,
}

impl Throttle {
    /// No limit on the rate where `per_second` is zero.
    pub(crate) fn new(in_flight: usize, per_second: f64) -> Self {
        let interval = if per_second > 0.0 {
            Duration::from_secs_f64(1.0 / per_second)
        } else {
            Duration::ZERO
        };
        Self {
            in_flight: Semaphore::new(in_flight.max(1)),
            interval,
            next: Mutex::new(None),
        }
    }

    /// Waits for a turn. The request is in flight until the permit is dropped.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let permit = self.in_flight.acquire().await.ok();
        if !self.interval.is_zero() {
            let start = self.slot();
            tokio::time::sleep_until(start).await;
        }
        permit
    }

    fn slot(&self) -> Instant {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let start = next.unwrap_or_else(Instant::now).max(Instant::now());
        *next = Some(start + self.interval);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_keep_their_distance_and_their_number() {
        let throttle = Throttle::new(2, 10.0);
        let began = Instant::now();
        for _ in 0..11 {
            drop(throttle.turn().await);
        }
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        let (_one, _two) = (throttle.turn().await, throttle.turn().await);
        let third = tokio::time::timeout(Duration::from_secs(60), throttle.turn());
        assert!(third.await.is_err(), "a third request was let through");
    }
}
