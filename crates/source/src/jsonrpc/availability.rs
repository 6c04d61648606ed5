//! When an endpoint may be used: at once, after it has backed off, or when its suspension ends.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::http::RETRY_AFTER_MAX;

pub(super) const BACKOFF_FIRST: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Availability {
    backoff: Backoff,
    /// After failures; a success ends it.
    backing_off_until: Option<Instant>,
    /// The endpoint requested it, or contradicted itself; no success ends it.
    suspended_until: Option<Instant>,
}

impl Availability {
    pub(super) fn new() -> Self {
        Self {
            backoff: Backoff::new(BACKOFF_FIRST, BACKOFF_MAX).with_jitter(),
            backing_off_until: None,
            suspended_until: None,
        }
    }

    pub(super) fn succeeded(&mut self) {
        self.backoff.reset();
        self.backing_off_until = None;
    }

    pub(super) fn failed(&mut self, retry_after: Option<Duration>) {
        if let Some(retry_after) = retry_after {
            self.suspend(retry_after.min(RETRY_AFTER_MAX));
        }
        let now = Instant::now();
        // Requests that were in flight together fail together: that is one failure.
        if self.backing_off_until.is_none_or(|until| until <= now) {
            self.backing_off_until = Some(now + self.backoff.next());
        }
    }

    pub(super) fn suspend(&mut self, pause: Duration) {
        self.suspended_until = self.suspended_until.max(Some(Instant::now() + pause));
    }

    pub(super) fn end_suspension(&mut self) {
        self.suspended_until = None;
    }

    /// When the endpoint may be used again; none for at once.
    pub(super) fn usable_at(&self) -> Option<Instant> {
        let until = self.backing_off_until.max(self.suspended_until);
        until.filter(|until| *until > Instant::now())
    }
}
