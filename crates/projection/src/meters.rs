//! What is counted while chains are projected. Handles are made when something is counted: install the
//! recorder before that.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant;

use metrics::{Counter, counter, gauge, histogram};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::error::Result;
use crate::feed::BlockLog;

/// Rows of a block by projection, as they are written down beside it.
pub(crate) type Counts = BTreeMap<String, u64>;

tokio::task_local! {
    /// What was counted in a transaction that is still open.
    static OPEN: RefCell<Vec<(Counter, u64)>>;
}

/// Counts what a transaction found, once the operation that it belongs to is done: one that is rolled
/// back finds the same when it is tried again.
pub fn once_committed(counter: Counter, found: u64) {
    let held = OPEN.try_with(|open| open.borrow_mut().push((counter.clone(), found)));
    if held.is_err() {
        counter.increment(found);
    }
}

/// Events whose rows were written, confirmed or dropped.
pub(crate) fn events(chain: i64, status: &'static str, counts: &Counts) {
    for (projection, rows) in counts {
        let (chain, projection) = (chain.to_string(), projection.clone());
        counter!("chronolith_projection_events_total", "chain" => chain, "projection" => projection, "status" => status)
            .increment(*rows);
    }
}

/// When events came that were not there before, in seconds since 1970. That an old one is confirmed or made
/// again is none.
pub(crate) fn arrived(chain: i64, counts: &Counts, now: f64) {
    for (projection, _) in counts.iter().filter(|(_, rows)| **rows > 0) {
        let (chain, projection) = (chain.to_string(), projection.clone());
        gauge!("chronolith_projection_last_event_timestamp_seconds", "chain" => chain, "projection" => projection)
            .set(now);
    }
}

/// How old a block was when its rows were there.
pub(crate) fn delay(chain: i64, counts: &Counts, seconds: f64) {
    for projection in counts.keys() {
        let (chain, projection) = (chain.to_string(), projection.clone());
        histogram!("chronolith_projection_pending_delay_seconds", "chain" => chain, "projection" => projection)
            .record(seconds.max(0.0));
    }
}

/// A log that could not be projected. Its projection may count it in a metric of its own as well.
pub(crate) fn refused(chain: i64, projection: String, reason: String, own: Option<&'static str>) {
    let chain = chain.to_string();
    if let Some(own) = own {
        once_committed(counter!(own, "chain" => chain.clone()), 1);
    }
    let refused = counter!("chronolith_projection_guard_dropped_total", "chain" => chain, "projection" => projection, "reason" => reason);
    once_committed(refused, 1);
}

/// Another process holds the lease.
pub(crate) fn contention<'a>(chain: i64, projections: impl Iterator<Item = &'a str>) {
    for projection in projections {
        let (chain, projection) = (chain.to_string(), projection.to_owned());
        counter!("chronolith_projection_lock_contention_total", "chain" => chain, "projection" => projection)
            .increment(1);
    }
}

/// The span in which logs become rows.
pub(crate) fn decoding(chain: i64, projection: &str, logs: &[BlockLog<'_>]) -> Span {
    let (first, last) = (logs.first(), logs.last());
    let number = |log: Option<&BlockLog<'_>>| log.map(|log| log.block.number);
    tracing::debug_span!(
        "decode",
        chain,
        projection,
        from = number(first),
        to = number(last),
        logs = logs.len()
    )
}

/// One operation of the database, and how it ended. It succeeds only with its commit.
pub(crate) async fn timed<'a, T>(
    chain: i64,
    projections: impl Iterator<Item = &'a str>,
    op: &'static str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let began = Instant::now();
    let span = tracing::debug_span!("database", chain, op, outcome = Empty);
    let (done, found) = OPEN
        .scope(RefCell::default(), async {
            let done = work.instrument(span.clone()).await;
            (done, OPEN.with(RefCell::take))
        })
        .await;
    for (counter, found) in found.iter().filter(|_| done.is_ok()) {
        counter.increment(*found);
    }
    let seconds = began.elapsed().as_secs_f64();
    let outcome = if done.is_ok() { "success" } else { "error" };
    span.record("outcome", outcome);
    for projection in projections {
        let (chain, projection) = (chain.to_string(), projection.to_owned());
        counter!("chronolith_database_ops_total", "chain" => chain.clone(), "projection" => projection.clone(), "op" => op, "outcome" => outcome)
            .increment(1);
        histogram!("chronolith_database_latency_seconds", "chain" => chain, "projection" => projection, "op" => op)
            .record(seconds);
    }
    done
}
