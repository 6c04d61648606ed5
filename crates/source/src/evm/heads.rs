//! New heads over WebSocket: only hints that it is worth looking.
//!
//! A subscription drops, repeats and reorders heads, and a node that rolls back says nothing at all.
//! So nothing is taken from a message but that there was one; the walk over HTTP finds the truth.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use metrics::Counter;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
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
    /// It is being set up, or again, and has not been there for this long.
    Connecting(Duration),
    /// It is there.
    Connected,
}

/// Listens for heads at one of several URLs.
pub(crate) struct HeadListener {
    urls: Vec<String>,
    heads: watch::Sender<u64>,
    /// Since when no head can be told; none while they are.
    down_since: Mutex<Option<Instant>>,
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
            down_since: Mutex::new(Some(Instant::now())),
        }
    }

    /// Changes whenever there may be a new head.
    pub(crate) fn hints(&self) -> watch::Receiver<u64> {
        self.heads.subscribe()
    }

    pub(crate) fn state(&self) -> Subscription {
        match *self.down_since() {
            _ if self.urls.is_empty() => Subscription::Off,
            Some(since) => Subscription::Connecting(since.elapsed()),
            None => Subscription::Connected,
        }
    }

    fn down_since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.down_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a connection ended, and tells whether heads were told over it.
    fn lost(&self) -> bool {
        let mut since = self.down_since();
        let was_there = since.is_none();
        // One that never began changes nothing: it goes on being down.
        since.get_or_insert_with(Instant::now);
        was_there
    }

    /// Listens for ever, connecting anew as often as it takes.
    pub(crate) async fn listen(&self) {
        let mut pause = PAUSE_FIRST;
        for url in self.urls.iter().cycle() {
            let lasted = self.one_connection(url).await;
            self.reconnects.increment(1);
            if self.lost() {
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
            *self.down_since() = None;
            self.heads.send_modify(|count| *count += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use metrics::CounterFn;

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
        let down = Subscription::Connecting(Duration::from_secs(100));
        assert_eq!(listener.state(), down);
    }

    #[tokio::test(start_paused = true)]
    async fn down_is_counted_from_the_last_head_and_not_from_the_last_attempt() {
        let listener = HeadListener::new(1, vec!["ws:///".to_owned()]);
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#;
        listener.take(&Message::text(answer));
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(listener.state(), Subscription::Connected);
        assert!(listener.lost());
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(!listener.lost());
        let down = Subscription::Connecting(Duration::from_secs(5));
        assert_eq!(listener.state(), down);
        let off = HeadListener::new(1, Vec::new());
        assert_eq!(off.state(), Subscription::Off);
    }
}
