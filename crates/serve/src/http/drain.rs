//! How listeners end without cutting an answer: they accept no more connections, finish what they answer, and
//! close what is idle.

use std::time::Duration;

use tokio::sync::watch;

/// Begins the end of all listeners that have its [`Drain`].
#[derive(Debug)]
pub struct Drainer(watch::Sender<Option<Duration>>);

/// Tells a listener when to end, and how long it may take.
#[derive(Clone, Debug)]
pub struct Drain(watch::Receiver<Option<Duration>>);

/// A new pair.
#[must_use]
pub fn drain() -> (Drainer, Drain) {
    let (begin, begun) = watch::channel(None);
    (Drainer(begin), Drain(begun))
}

impl Drainer {
    /// Connections that are still open after this time are cut.
    pub fn begin(&self, within: Duration) {
        self.0.send_replace(Some(within));
    }
}

impl Drain {
    /// For a listener that serves until it is dropped.
    #[must_use]
    pub fn never() -> Self {
        drain().1
    }

    /// Whether the listener is ending.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits for the beginning; returns how long it may take. For ever where the other half is gone.
    pub(crate) async fn begun(&mut self) -> Duration {
        loop {
            if let Some(within) = *self.0.borrow_and_update() {
                return within;
            }
            if self.0.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
