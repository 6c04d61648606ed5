//! One connection: who is slow is cut. Heads must be sent in time, and responses read in time, or a connection
//! would hold memory without limit.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Request, StatusCode, Version, header};
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, Sleep};

use super::activity::{Activity, ReceivedBody, Registered, TrackedBody};
use super::drain::Drain;
use super::holders::Owner;
use crate::error::{ApiError, ErrorCode};

/// How long a client may take to send the head of a request, from its first byte, and from the beginning of
/// the connection.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may be idle. Proxies keep them for a minute.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// How long a client may read nothing of a response.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// What a client must at least read while bytes wait for it for that long, at once or in several parts.
pub(super) const BYTES_MIN: usize = 1 << 20;
/// The longest head of a request, and what a connection keeps of what is to be written.
pub(super) const HEAD_BYTES: usize = 64 << 10;
/// A head that is longer than this takes a place among those that may be.
const USUAL_HEAD_BYTES: usize = 16 << 10;
const LONG_HEADS: usize = 256;
/// Bytes that are read at once: less than the buffer of a connection has at first, or it would grow and stay so. Only a
/// long head makes it larger.
const READ_BYTES: u64 = (8 << 10) - 1;
/// While a listener ends, a connection without a request stays for this long: a proxy may just be sending one.
/// Its answer tells the proxy not to send another.
const LAST_REQUEST: Duration = Duration::from_secs(1);

/// Connections of the process that had a long head. Their buffers may stay as large as it was.
static LONG: Semaphore = Semaphore::const_new(LONG_HEADS);

const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// The other end of the connection of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Serves a connection to its end.
pub(super) async fn serve(
    (stream, peer): (TcpStream, Peer),
    router: Router,
    registered: Registered,
    mut drain: Drain,
) {
    let activity = registered.activity.clone();
    let io = TokioIo::new(Timed::new(stream, activity.clone()));
    let router = TowerToHyperService::new(router);
    let ends = drain.clone();
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let (answering, ends) = (activity.begin(), ends.clone());
        let request = request.map(|body| ReceivedBody::new(body, activity.clone()));
        let answered = match has_one_host(&request) {
            true => router.call(request).left_future(),
            false => std::future::ready(Ok(without_host())).right_future(),
        };
        answered.map(move |answered: Result<Response, Infallible>| {
            answered.map(|mut response| {
                // The router sets that of the body, which is that of no other answer.
                if response.status() == StatusCode::NOT_MODIFIED {
                    response.headers_mut().remove(header::CONTENT_LENGTH);
                }
                // On every listener: what is no page must not be taken for one.
                let headers = response.headers_mut();
                headers
                    .entry(header::X_CONTENT_TYPE_OPTIONS)
                    .or_insert(NOSNIFF);
                if ends.has_begun() {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(header::CONNECTION, close);
                }
                response.map(|body| TrackedBody {
                    body,
                    _answering: answering,
                })
            })
        })
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(HEAD_BYTES);
    let mut connection = std::pin::pin!(http.serve_connection(io, service));
    let ending = async {
        let within = drain.begun().await;
        tokio::time::sleep(LAST_REQUEST.min(within / 2)).await;
    };
    let mut ending = std::pin::pin!(ending.fuse());
    let owner = Owner::new(peer.0.ip(), activity.clone());
    let done = loop {
        tokio::select! {
            // What came is read first: it may be a request.
            biased;
            done = owner.clone().run(connection.as_mut()) => break done,
            () = &mut ending => connection.as_mut().graceful_shutdown(),
            // Another connection gets its place.
            () = activity.closed() => {
                if activity.may_go_on() {
                    continue;
                }
                if activity.may_end() {
                    break Ok(());
                }
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = done {
        tracing::debug!(%error, "connection failed");
    }
}

/// Whether a request says once for which host it is, as HTTP/1.1 requires. Servers and proxies that take another
/// one of two could be made to disagree.
fn has_one_host<T>(request: &Request<T>) -> bool {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    hosts == 1 || (hosts == 0 && request.version() < Version::HTTP_11)
}

fn without_host() -> Response {
    let message = "a request of HTTP/1.1 has one `Host` header";
    let mut response = ApiError::new(ErrorCode::BadRequest, message).into_response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

/// A connection that fails when the client sends a head or reads too slowly.
struct Timed {
    stream: Take<TcpStream>,
    activity: Arc<Activity>,
    head: Head,
    /// Set while bytes wait for the client.
    pending: Option<PendingWrite>,
    pace: Pace,
}

/// A write that waits until the client reads.
struct PendingWrite {
    since: Instant,
    /// Ready where the client reads nothing for too long.
    deadline: Pin<Box<Sleep>>,
}

impl PendingWrite {
    fn begin() -> Self {
        let since = Instant::now();
        Self {
            since,
            deadline: Box::pin(tokio::time::sleep_until(since + WRITE_TIMEOUT)),
        }
    }
}

/// How fast a client reads while bytes wait for it. Other time does not count: the client has read everything
/// then, and is idle or waits for the server.
#[derive(Debug, Default)]
struct Pace {
    /// For how long bytes waited, in several parts.
    waited: Duration,
    /// What the client took since they first did.
    read: usize,
}

impl Pace {
    /// Bytes were written after they had waited for this long. Returns whether the client is too slow.
    fn is_too_slow(&mut self, waited: Duration, bytes: usize) -> bool {
        self.waited += waited;
        if self.waited.is_zero() {
            return false;
        }
        self.read = self.read.saturating_add(bytes);
        if self.waited < WRITE_TIMEOUT {
            return false;
        }
        std::mem::take(self).read < BYTES_MIN
    }
}

/// The head of a request that is being received.
struct Head {
    /// Since when; none between requests.
    since: Option<Instant>,
    /// How many requests had begun by then: one more, and the head is complete.
    started: usize,
    timer: Option<Pin<Box<Sleep>>>,
    bytes: usize,
    /// The place of a long one, until the connection ends.
    long: Option<SemaphorePermit<'static>>,
}

impl Head {
    /// Bytes came: those of a head, unless a request is being answered. Fails where there is no place for a long one.
    fn received(&mut self, bytes: usize, activity: &Activity) -> io::Result<()> {
        if activity.is_answering() {
            self.bytes = 0;
            return Ok(());
        }
        if self.since.is_none() || activity.started() != self.started {
            (self.since, self.timer) = (Some(Instant::now()), None);
            (self.started, self.bytes) = (activity.started(), 0);
        }
        self.bytes += bytes;
        if self.bytes > USUAL_HEAD_BYTES && self.long.is_none() {
            let none = |_| io::Error::from(io::ErrorKind::QuotaExceeded);
            self.long = Some(LONG.try_acquire().map_err(none)?);
        }
        Ok(())
    }

    /// No bytes came: ready when the head takes too long.
    fn poll_late(&mut self, context: &mut Context<'_>, activity: &Activity) -> Poll<()> {
        if activity.started() != self.started {
            (self.since, self.timer) = (None, None);
        }
        let Some(since) = self.since else {
            return Poll::Pending;
        };
        let begin = || Box::pin(tokio::time::sleep_until(since + HEAD_TIMEOUT));
        self.timer.get_or_insert_with(begin).as_mut().poll(context)
    }
}

impl Timed {
    fn new(stream: TcpStream, activity: Arc<Activity>) -> Self {
        Self {
            stream: stream.take(READ_BYTES),
            activity,
            head: Head {
                since: Some(Instant::now()),
                started: 0,
                timer: None,
                bytes: 0,
                long: None,
            },
            pending: None,
            pace: Pace::default(),
        }
    }

    fn timed(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let timed_out = |()| Err(io::ErrorKind::TimedOut.into());
        if let Poll::Ready(Ok(bytes)) = written {
            self.activity.moved();
            self.activity.has_read(bytes);
            let mut waited = Duration::ZERO;
            if let Some(pending) = self.pending.take() {
                self.activity.set_writing(false);
                waited = pending.since.elapsed();
            }
            if self.pace.is_too_slow(waited, bytes) {
                return Poll::Ready(timed_out(()));
            }
            return written;
        }
        if written.is_ready() {
            return written;
        }
        self.activity.set_writing(true);
        let pending = self.pending.get_or_insert_with(PendingWrite::begin);
        pending.deadline.as_mut().poll(context).map(timed_out)
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        this.stream.set_limit(READ_BYTES);
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        if read.is_ready() {
            let bytes = buffer.filled().len() - before;
            if bytes > 0 {
                this.activity.moved();
                this.head.received(bytes, &this.activity)?;
            }
            return read;
        }
        ready!(this.head.poll_late(context, &this.activity));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncWrite for Timed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.stream.get_mut()).poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(self.stream.get_mut()).poll_write_vectored(context, bytes);
        self.timed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use axum::routing::get;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use crate::http::activity::Connections;

    /// Both ends of a connection: the server's, and the client's.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (server, client)
    }

    /// Writes of an answer: each waits for the client, and nothing is sent for a while after it.
    struct Writes {
        count: usize,
        wait_ms: u64,
        bytes: usize,
        pause_seconds: u64,
    }

    impl Writes {
        /// Whether the connection is cut at one of them.
        async fn are_cut(&self) -> bool {
            let (server, _client) = pair().await;
            let registered = Connections::default().register();
            let mut timed = Timed::new(server, registered.activity.clone());
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..self.count {
                assert!(timed.timed(&mut context, Poll::Pending).is_pending());
                tokio::time::advance(Duration::from_millis(self.wait_ms)).await;
                let written = timed.timed(&mut context, Poll::Ready(Ok(self.bytes)));
                if matches!(written, Poll::Ready(Err(_))) {
                    return true;
                }
                tokio::time::advance(Duration::from_secs(self.pause_seconds)).await;
            }
            false
        }
    }

    /// Time in which nothing waited for the client used to count: a fast client whose connection was idle for half a
    /// minute was cut, and so was a download that the server sent slowly.
    #[tokio::test(start_paused = true)]
    async fn only_clients_that_let_bytes_wait_are_cut() {
        for (what, count, wait_ms, kib, pause_seconds, is_cut) in [
            ("a page at once, and idle", 10, 5, 400, 35, false),
            ("a download at the pace of the server", 100, 5, 1, 30, false),
            ("just fast enough", 60, 5_000, 200, 0, false),
            ("too slow", 6, 5_000, 100, 0, true),
            ("too slow, with pauses", 6, 5_000, 100, 60, true),
        ] {
            let writes = Writes {
                count,
                wait_ms,
                bytes: kib << 10,
                pause_seconds,
            };
            assert_eq!(writes.are_cut().await, is_cut, "{what}");
        }
    }

    /// What a client gets that sends this text just before its connection is chosen to make room.
    async fn make_room_after(text: &str) -> String {
        let (server, mut client) = pair().await;
        client.write_all(text.as_bytes()).await.unwrap();
        if !text.is_empty() {
            server.readable().await.unwrap();
        }
        let connections = Connections::default();
        let registered = connections.register();
        assert!(connections.close_opened_before(Duration::ZERO));
        let slow = || async {
            tokio::task::yield_now().await;
            "answered"
        };
        let router = Router::new().route("/", get(slow));
        let peer = Peer(client.local_addr().unwrap());
        let serving = serve((server, peer), router, registered, Drain::never());
        tokio::time::timeout(HEAD_TIMEOUT / 2, serving)
            .await
            .expect("it makes room before its head is late");
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// A request that came when its connection was chosen used to be cut.
    #[tokio::test]
    async fn a_connection_makes_room_after_the_request_that_began() {
        let answer = make_room_after("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nanswered"), "{answer}");
        for idle in ["", "GET / HT"] {
            assert_eq!(make_room_after(idle).await, "", "{idle}");
        }
    }

    /// Half a head of 60 KiB from each of 4,096 connections used to take 256 MiB.
    #[tokio::test]
    async fn long_heads_have_a_number_of_places() {
        let activity = Connections::default().register().activity.clone();
        let head = |long: &mut Head, bytes| long.received(bytes, &activity).is_ok();
        let mut all = Vec::new();
        for _ in 0..LONG_HEADS {
            let (server, _client) = pair().await;
            let mut timed = Timed::new(server, activity.clone());
            assert!(head(&mut timed.head, USUAL_HEAD_BYTES));
            assert!(head(&mut timed.head, 1));
            assert!(head(&mut timed.head, USUAL_HEAD_BYTES), "it has a place");
            all.push(timed);
        }
        let (server, _client) = pair().await;
        let mut timed = Timed::new(server, activity.clone());
        assert!(head(&mut timed.head, USUAL_HEAD_BYTES));
        // Another head begins with the next request.
        drop(activity.begin());
        assert!(head(&mut timed.head, USUAL_HEAD_BYTES));
        assert!(!head(&mut timed.head, 1), "no place is left");
        all.pop();
        assert!(head(&mut timed.head, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_cut() {
        let (server, _client) = pair().await;
        let registered = Connections::default().register();
        let mut timed = Timed::new(server, registered.activity.clone());
        let mut context = Context::from_waker(Waker::noop());
        for (seconds, is_cut) in [(0, false), (29, false), (2, true)] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            let written = timed.timed(&mut context, Poll::Pending);
            assert_eq!(written.is_ready(), is_cut, "after {seconds} s more");
        }
    }
}
