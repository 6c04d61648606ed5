//! Spans of requests and of their verification: endpoint and methods, never parameters or a URL.

use tracing::Span;
use tracing::field::Empty;

/// A request to an endpoint, to be filled in.
pub(crate) fn rpc_span(chain: u64, endpoint: &str) -> Span {
    tracing::debug_span!(
        "rpc",
        chain,
        endpoint,
        methods = Empty,
        calls = Empty,
        outcome = Empty
    )
}

/// Decoding and proving what an endpoint answered.
pub(crate) fn verify_span(chain: u64, endpoint: &str) -> Span {
    tracing::debug_span!("verify", chain, endpoint, blocks = Empty, outcome = Empty)
}
