//! A simulated node on the wire: JSON-RPC over HTTP and WebSocket on one local port.
//!
//! It answers as real nodes and providers do, limits included, and goes wrong as its
//! [`Faults`] say. Faults of the connection live here, those of single calls in `methods`.

mod context;
mod http;
mod limiter;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::DefaultBodyLimit;
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;

use super::faults::Faults;
use super::node::EvmNode;
use crate::http_server::{ANY_LOCAL_PORT, HttpServer};

pub(super) use context::Context;
pub use context::RpcStats;
pub(crate) use limiter::Limiter;

/// Longest request.
const REQUEST_BYTES_MAX: usize = 16 << 20;

/// How often a server may be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateLimit {
    /// Calls over HTTP in each second since the start; each call of a batch counts.
    pub calls_per_second: u64,
    /// How long refused clients must wait; none leaves the header out.
    pub retry_after_seconds: Option<u64>,
}

/// A method that the server does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingMethod {
    pub name: String,
    /// The code it is refused with; nodes say -32601 or -32004.
    pub code: i32,
}

/// How a server behaves.
#[derive(Clone, Debug, Default)]
pub struct RpcOptions {
    /// How long every answer takes at least.
    pub delay: Duration,
    /// Most blocks of an `eth_getLogs`.
    pub max_block_range: Option<u64>,
    /// Most logs of an `eth_getLogs`. A single block is always served.
    pub max_results: Option<u64>,
    /// Most calls of a batch; 1,000 by default.
    pub max_batch: Option<usize>,
    /// Whether every request is kept, to be sent again by another process.
    pub keeps_requests: bool,
    /// Methods that it does not have.
    pub missing_methods: Vec<MissingMethod>,
    /// Refuses several calls in one request.
    pub no_batches: bool,
    /// Does not take the hash of a block in `eth_getLogs`.
    pub no_block_hashes: bool,
    /// Knows no `finalized` and no `safe` block.
    pub no_tags: bool,
    /// How often it may be asked.
    pub rate_limit: Option<RateLimit>,
    pub faults: Faults,
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct RpcServer {
    http: HttpServer,
    context: Arc<Context>,
}

impl RpcServer {
    /// Serves this node on a free local port. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When no port can be opened.
    pub async fn start(node: EvmNode, options: RpcOptions) -> io::Result<Self> {
        Self::start_at(ANY_LOCAL_PORT, node, options).await
    }

    /// Serves this node at this address; port 0 is a free one. Must be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// When the address cannot be opened.
    pub async fn start_at(at: SocketAddr, node: EvmNode, options: RpcOptions) -> io::Result<Self> {
        let context = Arc::new(Context::new(node, options));
        let router = |stopped| {
            Router::new()
                .route("/", get(socket::upgrade).post(http::answer))
                .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
                .layer(Extension(stopped))
                .with_state(Arc::clone(&context))
        };
        let http = HttpServer::start(at, router).await?;
        Ok(Self { http, context })
    }

    /// Where it answers HTTP.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/", self.http.address)
    }

    /// Where it answers WebSocket.
    #[must_use]
    pub fn ws_url(&self) -> String {
        format!("ws://{}/", self.http.address)
    }

    /// What it was asked and what it sent, so far.
    #[must_use]
    pub fn stats(&self) -> RpcStats {
        self.context.stats.lock().clone()
    }

    /// The bodies of all requests so far, in the order of their coming, where they are kept.
    #[must_use]
    pub fn requests(&self) -> Vec<Bytes> {
        self.context.requests.lock().clone()
    }

    /// Stops taking requests and waits until those under way are answered.
    ///
    /// # Errors
    /// When serving had failed before.
    pub async fn shutdown(self) -> io::Result<()> {
        self.http.shutdown().await
    }
}
