//! Connections: a bounded number, and none forever.
//!
//! A client that sends its headers slowly, or does not read the response, is disconnected: its
//! connection would hold memory without limit.

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

/// How long a client may take to send headers, and how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client may read nothing of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// What a slow client must at least read in that time.
const BYTES_MIN: usize = 1 << 20;
/// How long to wait after a connection could not be accepted: the process may be out of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections may be open.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// In total; others wait.
    pub connections: usize,
    /// From one address; others are closed at once. None where they are not counted.
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
        let Ok(permit) = limits.clone().acquire_owned().await else {
            return Ok(());
        };
        let (stream, from) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            // Only drops the tasks of connections that ended.
            Some(_) = open.join_next() => continue,
        };
        let Some(peer_permit) = peers.admit(from.ip()) else {
            continue;
        };
        // Without it, a small response waits for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let service = TowerToHyperService::new(router.clone());
        open.spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT);
            let io = TokioIo::new(Timed {
                stream,
                deadline: None,
                slow: None,
            });
            if let Err(error) = http.serve_connection(io, service).await {
                tracing::debug!(%error, "connection failed");
            }
            drop((permit, peer_permit));
        });
    }
}

/// A connection that fails when the client does not read, or reads too slowly.
struct Timed {
    stream: TcpStream,
    /// Set while bytes wait to be written.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Since when the client is slow, and what it read since.
    slow: Option<(Instant, usize)>,
}

impl Timed {
    fn timed(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.deadline = None;
            if self.is_too_slow(bytes) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            return written;
        }
        if written.is_ready() {
            return written;
        }
        let now = Instant::now();
        self.slow.get_or_insert((now, 0));
        let begin = || Box::pin(tokio::time::sleep_until(now + WRITE_TIMEOUT));
        let deadline = self.deadline.get_or_insert_with(begin);
        let timed_out = |()| Err(io::ErrorKind::TimedOut.into());
        deadline.as_mut().poll(context).map(timed_out)
    }

    /// Whether the client read too little since it became slow.
    fn is_too_slow(&mut self, bytes: usize) -> bool {
        let Some((since, read)) = &mut self.slow else {
            return false;
        };
        *read += bytes;
        if since.elapsed() < WRITE_TIMEOUT {
            return false;
        }
        let is_slow = *read < BYTES_MIN;
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
