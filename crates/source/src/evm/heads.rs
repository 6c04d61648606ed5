//! New heads over WebSocket: only hints that it is worth looking.
//!
//! A subscription drops, repeats and reorders heads, and a node that rolls back says nothing at all.
//! So nothing is taken from a message but that there was one; the walk over HTTP finds the truth.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use metrics::Counter;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_tungstenite::connect_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use crate::meters;

const SUBSCRIBE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After this much silence we ask whether anybody is there, after twice as much we connect anew.
const SILENCE: Duration = Duration::from_secs(30);
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A head is a few kilobytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// How the subscription is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subscription {
    /// None is set up.
    Off,
    /// It is being set up, or again.
    Connecting,
    /// It is there.
    Connected,
}

/// Listens for heads at one of several URLs.
pub(crate) struct HeadListener {
    urls: Vec<String>,
    heads: watch::Sender<u64>,
    state: AtomicU8,
    reconnects: Counter,
}

impl std::fmt::Debug for HeadListener {
    /// Without the URLs, which may carry keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HeadListener({:?})", self.state())
    }
}

impl HeadListener {
    pub(crate) fn new(chain_id: u64, urls: Vec<String>) -> Self {
        Self {
            reconnects: meters::reconnects(chain_id),
            urls,
            heads: watch::Sender::new(0),
            state: AtomicU8::new(0),
        }
    }

    /// Changes whenever there may be a new head.
    pub(crate) fn hints(&self) -> watch::Receiver<u64> {
        self.heads.subscribe()
    }

    pub(crate) fn state(&self) -> Subscription {
        match self.state.load(Ordering::Relaxed) {
            _ if self.urls.is_empty() => Subscription::Off,
            0 => Subscription::Connecting,
            _ => Subscription::Connected,
        }
    }

    /// Listens for ever, connecting anew as often as it takes.
    pub(crate) async fn listen(&self) {
        let mut pause = PAUSE_FIRST;
        for url in self.urls.iter().cycle() {
            let lasted = self.one_connection(url).await;
            self.reconnects.increment(1);
            if self.state.swap(0, Ordering::Relaxed) == 1 {
                pause = PAUSE_FIRST;
            }
            // The error's text may hold the URL with its key: only its kind is told.
            let ended = matches!(
                lasted,
                Err(WsError::ConnectionClosed | WsError::AlreadyClosed)
            );
            tracing::debug!(ended, "head subscription lost, connecting again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        std::future::pending().await
    }

    async fn one_connection(&self, url: &str) -> Result<(), WsError> {
        let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES_MAX));
        let connecting = connect_async_with_config(url, Some(config), false);
        let connected = timeout(CONNECT_TIMEOUT, connecting).await;
        let (mut socket, _) = connected.map_err(|_| WsError::ConnectionClosed)??;
        socket.send(Message::text(SUBSCRIBE)).await?;
        let mut silent = false;
        loop {
            match timeout(SILENCE, socket.next()).await {
                Ok(None) => return Err(WsError::ConnectionClosed),
                Ok(Some(message)) => {
                    let message = message?;
                    silent = false;
                    self.take(&message);
                }
                Err(_) if silent => return Err(WsError::ConnectionClosed),
                Err(_) => {
                    silent = true;
                    socket.send(Message::Ping(Vec::new().into())).await?;
                }
            }
        }
    }

    /// The answer to the subscription and every head after it wake whoever waits: heads may have
    /// come while nobody listened.
    fn take(&self, message: &Message) {
        let Message::Text(text) = message else { return };
        let subscribed = text.contains("\"result\"") || text.contains("eth_subscription");
        if subscribed {
            self.state.store(1, Ordering::Relaxed);
            self.heads.send_modify(|count| *count += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use metrics::CounterFn;
    use tokio::time::Instant;

    use super::*;

    /// Notes when it counts.
    struct Times(Mutex<Vec<Instant>>);

    impl CounterFn for Times {
        fn increment(&self, _: u64) {
            self.0.lock().unwrap().push(Instant::now());
        }

        fn absolute(&self, _: u64) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_socket_is_tried_again_after_pauses_that_grow() {
        // Fails before anything is sent: a paused clock jumps while a real connection is waited for.
        let dead = vec!["ws:///".to_owned()];
        let times = Arc::new(Times(Mutex::default()));
        let listener = HeadListener {
            reconnects: Counter::from_arc(times.clone()),
            ..HeadListener::new(1, dead)
        };
        let listening = timeout(Duration::from_secs(100), listener.listen());
        assert!(listening.await.is_err());
        let times = times.0.lock().unwrap();
        let pauses = times.windows(2).map(|two| (two[1] - two[0]).as_millis());
        let expected = [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
        assert_eq!(pauses.collect::<Vec<_>>(), expected);
        assert_eq!(listener.state(), Subscription::Connecting);
    }
}
