//! The part that all simulated HTTP servers share: a listener, and a task that serves until it is stopped.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A free port that only this machine can reach.
pub(crate) const ANY_LOCAL_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct HttpServer {
    pub(crate) address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<io::Result<()>>,
}

impl HttpServer {
    /// Serves at this address; port 0 is a free one. The router gets the signal that the server stops.
    pub(crate) async fn start(
        at: SocketAddr,
        router: impl FnOnce(watch::Receiver<bool>) -> Router,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let serve = axum::serve(listener, router(stopped.clone()))
            .with_graceful_shutdown(until_stopped(stopped));
        #[expect(
            clippy::disallowed_methods,
            reason = "a simulated server lives beside the test that talks to it"
        )]
        let task = tokio::spawn(async move { serve.await });
        Ok(Self {
            address,
            stop,
            task,
        })
    }

    /// Stops taking requests and waits until those under way are answered.
    pub(crate) async fn shutdown(self) -> io::Result<()> {
        // An error means that the task has ended already.
        let _ = self.stop.send(true);
        self.task.await.map_err(io::Error::other)?
    }
}

/// Waits until the server is stopped or dropped.
pub(crate) async fn until_stopped(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone, and the server with it.
    let _ = stopped.wait_for(|stop| *stop).await;
}

/// Half of the bytes, and then the connection breaks.
pub(crate) fn cut_short(bytes: &Bytes) -> Body {
    let half = bytes.slice(..bytes.len() / 2);
    // The pause lets the half leave before the connection breaks.
    let end = async {
        tokio::task::yield_now().await;
        Err(io::Error::other("injected fault: body cut short"))
    };
    Body::from_stream(stream::iter([Ok(half)]).chain(stream::once(end)))
}
