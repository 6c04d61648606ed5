//! How many requests a Portal may get, over all of its datasets that this process reads.
//!
//! A Portal counts the requests of a client, whichever dataset they are for. Sources of one Portal
//! therefore share one limit, and the pause that the Portal asks for holds for all of them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::Url;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::jsonrpc::throttle::Throttle;

/// The window of time in which a Portal counts requests.
const RATE_WINDOW: Duration = Duration::from_secs(10);

/// Limits of Portals, by where they are and what they allow.
type Limits = HashMap<(String, u32), Weak<Limit>>;

/// Those of the Portals that are read now.
static SHARED: LazyLock<Mutex<Limits>> = LazyLock::new(Mutex::default);

/// The limit of one Portal.
#[derive(Debug)]
pub(super) struct Limit {
    starts: Throttle,
    pause_until: Mutex<Option<Instant>>,
}

impl Limit {
    /// The limit of the Portal at this address: this many requests in ten seconds, 0 for any number.
    pub(super) fn of(base: &Url, requests_per_10s: u32) -> Arc<Self> {
        let key = (base.origin().ascii_serialization(), requests_per_10s);
        let mut shared = SHARED.lock();
        shared.retain(|_, limit| limit.strong_count() > 0);
        if let Some(limit) = shared.get(&key).and_then(Weak::upgrade) {
            return limit;
        }
        let window = match requests_per_10s {
            0 => Duration::ZERO,
            _ => RATE_WINDOW,
        };
        let limit = Arc::new(Self {
            starts: Throttle::windowed(Semaphore::MAX_PERMITS, requests_per_10s as usize, window),
            pause_until: Mutex::default(),
        });
        shared.insert(key, Arc::downgrade(&limit));
        limit
    }

    /// Waits until a request may start.
    pub(super) async fn turn(&self) {
        loop {
            if let Some(until) = self.pause_until() {
                tokio::time::sleep_until(until).await;
            }
            self.starts.turn().await;
            // Another request may have begun a pause while this one waited.
            if self.pause_until().is_none() {
                return;
            }
        }
    }

    /// Starts no request before this time.
    pub(super) fn pause(&self, until: Instant) {
        let mut pause = self.pause_until.lock();
        *pause = pause.max(Some(until));
    }

    /// The end of the pause, where there is one now.
    pub(super) fn pause_until(&self) -> Option<Instant> {
        let until = *self.pause_until.lock();
        until.filter(|until| *until > Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(url: &str) -> Arc<Limit> {
        Limit::of(&Url::parse(url).unwrap(), 20)
    }

    /// Thirty chains that allowed themselves twenty requests each sent 270 in ten seconds.
    #[tokio::test(start_paused = true)]
    async fn datasets_of_one_portal_share_its_limit_and_its_pauses() {
        let one = limit("https://portal.one.example/datasets/a");
        let two = limit("https://portal.one.example/datasets/b");
        let other = limit("https://portal.two.example/datasets/a");
        let began = Instant::now();
        for _ in 0..10 {
            one.turn().await;
            two.turn().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        other.turn().await;
        assert_eq!(
            began.elapsed(),
            Duration::ZERO,
            "another Portal waits for nothing"
        );
        two.turn().await;
        assert_eq!(began.elapsed(), Duration::from_secs(10));
        one.pause(Instant::now() + Duration::from_secs(60));
        two.turn().await;
        assert_eq!(began.elapsed(), Duration::from_secs(70));
        drop((one, two));
        let again = limit("https://portal.one.example/datasets/a");
        again.turn().await;
        assert_eq!(began.elapsed(), Duration::from_secs(70));
    }
}
