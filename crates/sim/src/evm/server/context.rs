//! What all connections of a server share: the node, the options, the counters.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use super::RpcOptions;
use super::limiter::Limiter;
use crate::evm::faults::Faults;
use crate::evm::node::EvmNode;

/// What a server was asked and what it sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RpcStats {
    /// Calls by method; those of batches one by one, unknown methods as `other`.
    pub calls: BTreeMap<&'static str, u64>,
    /// HTTP requests: a batch is one, a refused one counts.
    pub http_requests: u64,
    /// The most of them that were under way at the same time.
    pub http_at_once_max: u64,
    /// Bytes of bodies and WebSocket messages sent.
    pub bytes_out: u64,
    /// `eth_getLogs` that asked for more blocks than are allowed.
    pub refused_for_blocks: u64,
    /// `eth_getLogs` that found more logs than are allowed.
    pub refused_for_results: u64,
}

/// What all connections share.
#[derive(Debug)]
pub(in crate::evm) struct Context {
    pub(in crate::evm) node: EvmNode,
    pub(in crate::evm) options: RpcOptions,
    pub(super) stats: Mutex<RpcStats>,
    pub(super) requests: Mutex<Vec<Bytes>>,
    under_way: AtomicU64,
    pub(super) limiter: Limiter,
}

/// A request that is not answered yet, or whose client is gone.
#[derive(Debug)]
pub(super) struct UnderWay<'a>(&'a AtomicU64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Context {
    pub(super) fn new(node: EvmNode, options: RpcOptions) -> Self {
        Self {
            limiter: Limiter::new(options.rate_limit),
            node,
            options,
            stats: Mutex::default(),
            requests: Mutex::default(),
            under_way: AtomicU64::default(),
        }
    }

    pub(in crate::evm) fn faults(&self) -> &Faults {
        &self.options.faults
    }

    /// Changes the counters.
    pub(in crate::evm) fn count(&self, count: impl FnOnce(&mut RpcStats)) {
        count(&mut self.stats.lock());
    }

    /// Counts a request, and keeps it where that is wanted. It is under way until the returned value is dropped.
    pub(super) fn count_http(&self, body: &Bytes) -> UnderWay<'_> {
        let under_way = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.count(|stats| {
            stats.http_requests += 1;
            stats.http_at_once_max = stats.http_at_once_max.max(under_way);
        });
        if self.options.keeps_requests {
            self.requests.lock().push(body.clone());
        }
        UnderWay(&self.under_way)
    }

    pub(super) fn count_bytes(&self, bytes: u64) {
        self.count(|stats| stats.bytes_out += bytes);
    }
}
