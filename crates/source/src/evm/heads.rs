//! New heads over WebSocket: only hints that it is worth looking.
//!
//! A subscription drops, repeats and reorders heads, and a node that rolls back says nothing at all.
//! So nothing is taken from a message but that there was one; the walk over HTTP finds the truth.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use metrics::Counter;
use parking_lot::Mutex;
use reqwest::Url;
use reqwest::header::AUTHORIZATION;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Request as ClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{WebSocketStream, connect_async_with_config};

use crate::backoff::Backoff;
use crate::jsonrpc::reply::RpcFault;
use crate::jsonrpc::secrets::{Secrets, basic_header, name_of};
use crate::meters;
use crate::source::Subscription;

const SUBSCRIBE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}"#;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an endpoint may take to answer the subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// After this much silence a ping is sent, after twice as much we connect again.
const SILENCE: Duration = Duration::from_secs(30);
const RECONNECT: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
/// A head is a few kilobytes.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Between two hints: each costs requests over HTTP. A head that comes sooner is told when this time is over.
const HINT_EVERY: Duration = Duration::from_millis(200);

/// Listens for heads at one of several URLs.
pub(crate) struct HeadListener {
    urls: Vec<String>,
    heads: watch::Sender<u64>,
    /// Since when heads are not announced; none while they are.
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
        match *self.down_since.lock() {
            _ if self.urls.is_empty() => Subscription::Off,
            Some(since) => Subscription::Connecting(since.elapsed()),
            None => Subscription::Connected,
        }
    }

    /// Notes that a connection ended; returns whether it had announced heads.
    fn lost(&self) -> bool {
        let mut since = self.down_since.lock();
        let was_there = since.is_none();
        // One that never began changes nothing: it continues being down.
        since.get_or_insert_with(Instant::now);
        was_there
    }

    /// Listens forever. After a connection that ended or never announced a head comes the next endpoint.
    pub(crate) async fn listen(&self) {
        let mut backoff = RECONNECT;
        for url in self.urls.iter().cycle() {
            let ended = self.one_connection(url).await;
            self.reconnects.increment(1);
            if self.lost() {
                backoff.reset();
            }
            let endpoint = Url::parse(url).map_or_else(|_| "?".to_owned(), |url| name_of(&url));
            match ended {
                Ended::Refused(reason) => {
                    tracing::warn!(%endpoint, %reason, "head subscription refused, trying the next endpoint");
                }
                // The error's text may hold the URL with its key: only its kind is logged.
                Ended::Lost(error) => {
                    let closed =
                        matches!(error, WsError::ConnectionClosed | WsError::AlreadyClosed);
                    tracing::debug!(%endpoint, closed, "head subscription lost, connecting again");
                }
            }
            tokio::time::sleep(backoff.next()).await;
        }
        std::future::pending().await
    }

    async fn one_connection(&self, url: &str) -> Ended {
        let Some(request) = request_of(url) else {
            return Ended::Refused("the URL is not valid".to_owned());
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        let connecting = connect_async_with_config(request, Some(config), false);
        let mut socket = match timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(Ok((socket, _))) => socket,
            Ok(Err(error)) => return Ended::Lost(error),
            Err(_) => return Ended::Lost(WsError::ConnectionClosed),
        };
        if let Err(error) = socket.send(Message::text(SUBSCRIBE)).await {
            return Ended::Lost(error);
        }
        match timeout(SUBSCRIBE_TIMEOUT, subscribed(&mut socket)).await {
            Ok(Ok(())) => self.wake(),
            Ok(Err(Ended::Refused(reason))) => {
                let secrets = Url::parse(url).map(|url| Secrets::of(&url));
                return Ended::Refused(secrets.map(|all| all.hide(&reason)).unwrap_or_default());
            }
            Ok(Err(ended)) => return ended,
            // Pings may be answered all the while: that is not a subscription.
            Err(_) => return Ended::Refused("no answer to eth_subscribe".to_owned()),
        }
        self.hear(&mut socket).await
    }

    /// Hears of heads until the connection ends.
    async fn hear<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        socket: &mut WebSocketStream<S>,
    ) -> Ended {
        let mut silent = false;
        let mut pace = Pace::new(Instant::now());
        loop {
            let message = tokio::select! {
                () = tokio::time::sleep_until(pace.next), if pace.waits => {
                    pace.told(Instant::now());
                    self.wake();
                    continue;
                }
                message = timeout(SILENCE, socket.next()) => message,
            };
            match message {
                Ok(None) => return Ended::Lost(WsError::ConnectionClosed),
                Ok(Some(Err(error))) => return Ended::Lost(error),
                Ok(Some(Ok(message))) => {
                    silent = false;
                    let is_head = matches!(parse(&message), Some(Notice::Head));
                    if is_head && pace.allows(Instant::now()) {
                        self.wake();
                    }
                }
                Err(_) if silent => return Ended::Lost(WsError::ConnectionClosed),
                Err(_) => {
                    silent = true;
                    if let Err(error) = socket.send(Message::Ping(Vec::new().into())).await {
                        return Ended::Lost(error);
                    }
                }
            }
        }
    }

    /// The answer to the subscription and every head after it wake the reader: heads may have come
    /// while there was no connection.
    fn wake(&self) {
        *self.down_since.lock() = None;
        self.heads.send_modify(|count| *count += 1);
    }
}

/// When the next hint may be given. A flood of heads made the node ask as often as they came.
struct Pace {
    next: Instant,
    /// Whether a head waits to be told.
    waits: bool,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self {
            next: now,
            waits: false,
        }
    }

    /// Whether a head is told now; else it waits.
    fn allows(&mut self, now: Instant) -> bool {
        if now < self.next {
            self.waits = true;
            return false;
        }
        self.told(now);
        true
    }

    fn told(&mut self, now: Instant) {
        (self.next, self.waits) = (now + HINT_EVERY, false);
    }
}

/// The request for a URL: user and password go into a header, as over HTTP.
fn request_of(url: &str) -> Option<ClientRequest> {
    let mut url = Url::parse(url).ok()?;
    let header = basic_header(&url);
    let _ = (url.set_username(""), url.set_password(None));
    let mut request = url.as_str().into_client_request().ok()?;
    if let Some(header) = header {
        request.headers_mut().insert(AUTHORIZATION, header);
    }
    Some(request)
}

enum Ended {
    /// The endpoint does not announce heads.
    Refused(String),
    Lost(WsError),
}

/// Waits until the endpoint takes the subscription.
async fn subscribed<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
) -> Result<(), Ended> {
    loop {
        let message = match socket.next().await {
            None => return Err(Ended::Lost(WsError::ConnectionClosed)),
            Some(message) => message.map_err(Ended::Lost)?,
        };
        match parse(&message) {
            Some(Notice::Subscribed | Notice::Head) => return Ok(()),
            Some(Notice::Refused(reason)) => return Err(Ended::Refused(reason)),
            None => {}
        }
    }
}

/// What a message is about, where it is about heads.
#[derive(PartialEq, Eq, Debug)]
enum Notice {
    Subscribed,
    Refused(String),
    Head,
}

fn parse(message: &Message) -> Option<Notice> {
    #[derive(Deserialize)]
    struct Reply {
        id: Option<IgnoredAny>,
        method: Option<String>,
        result: Option<IgnoredAny>,
        error: Option<RpcFault>,
    }
    let Message::Text(text) = message else {
        return None;
    };
    let reply: Reply = serde_json::from_str(text).ok()?;
    if let Some(fault) = reply.error {
        return Some(Notice::Refused(fault.message));
    }
    if reply.method.as_deref() == Some("eth_subscription") {
        return Some(Notice::Head);
    }
    reply.id.and(reply.result).map(|_| Notice::Subscribed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use metrics::CounterFn;
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    struct Times(Mutex<Vec<Instant>>);

    impl CounterFn for Times {
        fn increment(&self, _: u64) {
            self.0.lock().push(Instant::now());
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
        let times = times.0.lock();
        let pauses = times.windows(2).map(|two| (two[1] - two[0]).as_millis());
        let expected = [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
        assert_eq!(pauses.collect::<Vec<_>>(), expected);
        let down = Subscription::Connecting(Duration::from_secs(100));
        assert_eq!(listener.state(), down);
    }

    #[tokio::test(start_paused = true)]
    async fn down_is_counted_from_the_last_head_and_not_from_the_last_attempt() {
        let listener = HeadListener::new(1, vec!["ws:///".to_owned()]);
        listener.wake();
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

    /// An endpoint that floods its subscribers made the node send it dozens of requests a second.
    #[tokio::test(start_paused = true)]
    async fn a_flood_of_heads_is_a_few_hints_and_the_last_is_not_lost() {
        let head = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{}}"#;
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let listener = HeadListener::new(1, Vec::new());
        let hints = listener.hints();
        let mut socket = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
        let mut server = WebSocketStream::from_raw_socket(theirs, Role::Server, None).await;
        let flood = async {
            for _ in 0..1_000 {
                server.send(Message::text(head)).await.unwrap();
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            tokio::time::sleep(HINT_EVERY * 2).await;
            let flooded = *hints.borrow();
            // One at once, and one when it may be told.
            server.send(Message::text(head)).await.unwrap();
            server.send(Message::text(head)).await.unwrap();
            tokio::time::sleep(HINT_EVERY * 2).await;
            let last = *hints.borrow() - flooded;
            server.close(None).await.unwrap();
            (flooded, last)
        };
        let (_, (flooded, last)) = tokio::join!(listener.hear(&mut socket), flood);
        // In two seconds.
        assert!((9..=12).contains(&flooded), "{flooded}");
        assert_eq!(last, 2);
    }

    /// They were left out without a word, and the endpoint refused the subscription.
    #[test]
    fn user_and_password_are_sent_as_over_http() {
        let request = request_of("wss://us%2Fer:pass@node.example:8546/v2/key?x=1").unwrap();
        assert_eq!(request.uri(), "wss://node.example:8546/v2/key?x=1");
        assert_eq!(request.headers()[AUTHORIZATION], "Basic dXMvZXI6cGFzcw==");
        let request = request_of("ws://node.example").unwrap();
        assert!(!request.headers().contains_key(AUTHORIZATION));
        assert!(request_of("ws://").is_none());
    }

    #[test]
    fn an_error_is_a_refusal_and_never_a_head() {
        let check = |text: &str, expected: Option<Notice>| {
            assert_eq!(parse(&Message::text(text)), expected, "{text}");
        };
        let geth = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no \"newHeads\" subscription in eth namespace"}}"#;
        let reason = r#"no "newHeads" subscription in eth namespace"#.to_owned();
        check(geth, Some(Notice::Refused(reason)));
        let nameless = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}"#;
        check(nameless, Some(Notice::Refused("no".to_owned())));
        let taken = r#"{"jsonrpc":"2.0","id":1,"result":"0x1"}"#;
        check(taken, Some(Notice::Subscribed));
        let head = r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x1","result":{}}}"#;
        check(head, Some(Notice::Head));
        check("\"result\"", None);
        check("{}", None);
    }
}
