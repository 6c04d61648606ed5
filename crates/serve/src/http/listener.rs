//! Connections: as many as are allowed, none of them for ever.
//!
//! A client that sends its head slowly, or does not take what it asked for, is cut off: its connection
//! would hold memory as long as it likes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

use crate::http::peers::Peers;

/// How long a client may take to send a head, and how long a connection may lie idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client may take nothing of what is sent.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// What a client that cannot keep up must take in that time at the least.
const BYTES_AT_LEAST: usize = 1 << 20;
/// How long to wait when the process has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections may be open at the same time.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// All together; others wait.
    pub connections: usize,
    /// Of one address; others are closed at once. None where they are not counted.
    pub per_peer: Option<usize>,
}

/// Serves until it is dropped.
///
/// # Errors
/// None so far: a connection that cannot be accepted is left to the next one.
pub async fn listen(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
) -> io::Result<()> {
    let peers = Peers::new(limits.per_peer);
    let limits = Arc::new(Semaphore::new(limits.connections));
    let mut open = JoinSet::new();
    loop {
        let Ok(place) = limits.clone().acquire_owned().await else {
            return Ok(());
        };
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            // Only takes away what is left of those that have ended.
            Some(_) = open.join_next() => continue,
        };
        let Some(permit) = peers.admit(from.ip()) else {
            continue;
        };
        // Without it, a small answer waits for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        open.spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT);
            let io = TokioIo::new(Timed::new(stream));
            if let Err(error) = http.serve_connection(io, service).await {
                tracing::debug!(%error, "a connection broke");
            }
            drop((place, permit));
        });
    }
}

/// A connection that fails when what is sent is not taken, or taken too slowly.
struct Timed {
    stream: TcpStream,
    /// Runs while something waits to be written.
    deadline: Option<Pin<Box<Sleep>>>,
    /// What was taken since when, while the client could not keep up.
    slow: Option<(Instant, usize)>,
}

impl Timed {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            deadline: None,
            slow: None,
        }
    }

    fn timed(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.deadline = None;
            return match self.is_too_slow(bytes) {
                true => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                false => written,
            };
        }
        if written.is_ready() {
            return written;
        }
        let now = Instant::now();
        self.slow.get_or_insert((now, 0));
        let begin = || Box::pin(tokio::time::sleep_until(now + WRITE_TIMEOUT));
        let deadline = self.deadline.get_or_insert_with(begin);
        match deadline.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Whether too little was taken in a stretch that began when the client could not keep up.
    fn is_too_slow(&mut self, bytes: usize) -> bool {
        let Some((since, taken)) = &mut self.slow else {
            return false;
        };
        *taken += bytes;
        if since.elapsed() < WRITE_TIMEOUT {
            return false;
        }
        let is_slow = *taken < BYTES_AT_LEAST;
        self.slow = None;
        is_slow
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Timed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timed(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.timed(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
