//! Limits of one endpoint: requests in flight, and requests in a window of time.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Lets requests through one by one.
#[derive(Debug)]
pub(crate) struct Throttle {
    in_flight: Semaphore,
    /// No more than `most` requests start in any window of this length; no limit where it is
    /// zero.
    window: Duration,
    most: usize,
    /// When the last of them started or will start, the oldest first.
    starts: Mutex<VecDeque<Instant>>,
}

impl Throttle {
    /// No limit on the rate where `per_second` is zero.
    pub(crate) fn new(in_flight: usize, per_second: f64) -> Self {
        let interval = if per_second > 0.0 {
            Duration::from_secs_f64(1.0 / per_second)
        } else {
            Duration::ZERO
        };
        Self::windowed(in_flight, 1, interval)
    }

    /// At most this many requests in any window of this length, in a burst or spread out.
    pub(crate) fn windowed(in_flight: usize, most: usize, window: Duration) -> Self {
        Self {
            in_flight: Semaphore::new(in_flight.max(1)),
            window,
            most: most.max(1),
            starts: Mutex::default(),
        }
    }

    /// Waits for a turn. The request is in flight until the permit is dropped.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        let permit = self.in_flight.acquire().await.ok();
        if !self.window.is_zero() {
            let start = self.slot();
            tokio::time::sleep_until(start).await;
        }
        permit
    }

    fn slot(&self) -> Instant {
        let mut starts = self.starts.lock();
        let now = Instant::now();
        let full = starts.len() >= self.most;
        let oldest = if full { starts.pop_front() } else { None };
        let start = oldest.map_or(now, |oldest| now.max(oldest + self.window));
        starts.push_back(start);
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

    #[tokio::test(start_paused = true)]
    async fn a_window_lets_a_burst_through_and_then_waits() {
        let throttle = Throttle::windowed(1, 20, Duration::from_secs(10));
        let began = Instant::now();
        for (requests, seconds) in [(20, 0), (1, 10), (19, 10), (1, 20)] {
            for _ in 0..requests {
                drop(throttle.turn().await);
            }
            assert_eq!(began.elapsed(), Duration::from_secs(seconds));
        }
    }
}
