//! The limits of requests and answers.

use std::time::Duration;

use super::answer_memory::{HOLD_TIMEOUT, SMALL_BYTES_MAX};
use super::compress::STREAMS_MAX;
use super::connection::{BYTES_MIN, HEAD_BYTES, HEAD_TIMEOUT, IDLE_TIMEOUT, WRITE_TIMEOUT};
use super::context::QUEUE_TIMEOUT;
use super::finish::TIMEOUT;
use super::request_body::{LARGE_BYTES, MEDIUM_BYTES_A_SECOND, TINY_BYTES};

/// Limits of one answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLimits {
    pub results: usize,
    /// Bytes of logs.
    pub bytes: u64,
}

/// What requests may cost. An error that a limit causes names the limit.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Logs and their bytes in one answer.
    pub answers: AnswerLimits,
    /// Bytes of all answers of a batch, or of all pages of a query for several chains.
    pub answer_bytes: usize,
    /// Bytes of a request.
    pub body_bytes: usize,
    /// Calls in a batch.
    pub batch: usize,
    /// Items of a lookup of many times.
    pub times: usize,
    /// Blocks that `eth_getLogs` may search; none for no limit.
    pub block_range: Option<u64>,
    /// Ledgers that a page of Stellar transactions or events searches, at least two: the first ledgers of
    /// a network hold next to nothing. It causes no error: the page's cursor tells how far it is complete.
    pub page_ledgers: u64,
    /// Alternatives at one position of a filter; none where only the size of a request bounds them.
    pub alternatives: Option<usize>,
    /// How long a call may take, and how long its body may.
    pub timeout: Duration,
    /// Log queries, blocks with whole transactions and pages of ledgers that are made at the same time; others wait.
    pub queries_at_once: usize,
    /// Bytes of answers that clients have not read yet; above it, queries wait.
    pub unread_bytes: usize,
    /// Bytes of requests until they are answered, tiny ones excepted.
    pub bodies_bytes: usize,
    /// Open connections.
    pub connections: usize,
    /// Open connections of one address; none where they are not counted.
    pub connections_per_peer: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answers: AnswerLimits {
                results: 10_000,
                bytes: 64 << 20,
            },
            answer_bytes: 64 << 20,
            body_bytes: 2 << 20,
            batch: 100,
            times: 1_000,
            block_range: None,
            page_ledgers: 10_000,
            alternatives: Some(1_000),
            timeout: Duration::from_secs(10),
            queries_at_once: 16,
            unread_bytes: 128 << 20,
            bodies_bytes: 48 << 20,
            connections: 4_096,
            // Through a proxy, all clients have one address.
            connections_per_peer: Some(1_024),
        }
    }
}

/// Limits that no setting changes, for the description.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedLimits {
    /// Until an answer begins.
    pub(crate) answer: Duration,
    /// For which a query waits for others.
    pub(crate) queue: Duration,
    /// For which a query waits for the memory of its answer.
    pub(crate) hold: Duration,
    /// For the head of a request.
    pub(crate) head: Duration,
    /// Of an idle connection.
    pub(crate) idle: Duration,
    /// In which a client must read `read_bytes`.
    pub(crate) write: Duration,
    pub(crate) read_bytes: usize,
    /// The largest small answer.
    pub(crate) small_bytes: usize,
    /// The largest body that is not counted, and the largest that is not large.
    pub(crate) tiny_bytes: usize,
    pub(crate) large_bytes: usize,
    /// The rate at which a body between them must come.
    pub(crate) medium_bytes_a_second: usize,
    /// The longest head of a request.
    pub(crate) head_bytes: usize,
    /// Answers that are compressed at the same time.
    pub(crate) compressed: usize,
}

impl FixedLimits {
    pub(crate) const THESE: Self = Self {
        answer: TIMEOUT,
        queue: QUEUE_TIMEOUT,
        hold: HOLD_TIMEOUT,
        head: HEAD_TIMEOUT,
        idle: IDLE_TIMEOUT,
        write: WRITE_TIMEOUT,
        read_bytes: BYTES_MIN,
        small_bytes: SMALL_BYTES_MAX,
        tiny_bytes: TINY_BYTES,
        large_bytes: LARGE_BYTES,
        medium_bytes_a_second: MEDIUM_BYTES_A_SECOND,
        head_bytes: HEAD_BYTES,
        compressed: STREAMS_MAX,
    };
}
