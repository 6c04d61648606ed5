//! What all connections of a server share: the node, the options, the counters.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::watch;

use super::RpcOptions;
use crate::evm::faults::Faults;
use crate::evm::node::EvmNode;

/// What a server was asked and what it sent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RpcStats {
    /// Calls by method; those of batches one by one, unknown methods as `other`.
    pub calls: BTreeMap<&'static str, u64>,
    /// HTTP requests: a batch is one, a refused one counts.
    pub http_requests: u64,
    /// Bytes of bodies and WebSocket messages sent.
    pub bytes_out: u64,
}

/// Calls of the second under way.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    second: u64,
    calls: u64,
}

/// What all connections share.
#[derive(Debug)]
pub(in crate::evm) struct Context {
    pub(in crate::evm) node: EvmNode,
    pub(in crate::evm) options: RpcOptions,
    pub(super) stopped: watch::Receiver<bool>,
    stats: Mutex<RpcStats>,
    requests: Mutex<Vec<Bytes>>,
    window: Mutex<Window>,
    began: Instant,
}

impl Context {
    pub(super) fn new(node: EvmNode, options: RpcOptions, stopped: watch::Receiver<bool>) -> Self {
        Self {
            node,
            options,
            stopped,
            stats: Mutex::default(),
            requests: Mutex::default(),
            window: Mutex::default(),
            began: Instant::now(),
        }
    }

    pub(in crate::evm) fn faults(&self) -> &Faults {
        &self.options.faults
    }

    pub(super) fn stats(&self) -> RpcStats {
        self.counters().clone()
    }

    pub(in crate::evm) fn count_call(&self, method: &'static str) {
        *self.counters().calls.entry(method).or_default() += 1;
    }

    /// Counts a request, and keeps it where that is wanted.
    pub(super) fn count_http(&self, body: &Bytes) {
        self.counters().http_requests += 1;
        if self.options.keeps_requests {
            self.kept().push(body.clone());
        }
    }

    pub(super) fn requests(&self) -> Vec<Bytes> {
        self.kept().clone()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Bytes>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count_bytes(&self, bytes: u64) {
        self.counters().bytes_out += bytes;
    }

    /// Whether so many more calls are within the limit.
    pub(super) fn admits(&self, calls: u64) -> bool {
        let Some(limit) = self.options.rate_limit else {
            return true;
        };
        let second = self.began.elapsed().as_secs();
        let window = self.window.lock();
        let mut window = window.unwrap_or_else(PoisonError::into_inner);
        if window.second != second {
            *window = Window { second, calls: 0 };
        }
        // A batch that is larger than the limit could never be served: it has a second to itself.
        let fits = window.calls == 0 || window.calls + calls <= limit.calls_per_second;
        let admitted = fits && limit.calls_per_second > 0;
        window.calls += if admitted { calls } else { 0 };
        admitted
    }

    fn counters(&self) -> MutexGuard<'_, RpcStats> {
        // Counters are whole after every step.
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
