//! Bodies of requests. What counts are bytes that came, not bytes that were announced: announcing costs a
//! client nothing.
//!
//! Tiny bodies are never counted, so no client can keep others from a call. A large one reserves memory for
//! all of it as soon as it is known to be large, and must come fast enough to be complete in time.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::limits::Limits;
use crate::error::{ApiError, ErrorCode};

/// Bodies up to this are tiny: all connections together may hold this much of each.
pub(super) const TINY_BYTES: usize = 4 << 10;
/// Bodies above this are large.
pub(super) const LARGE_BYTES: usize = 64 << 10;
/// A client may begin a body slowly.
const SLOW_START: Duration = Duration::from_secs(1);
/// Up to this many times the limit is read and discarded.
const DISCARDED_TIMES: usize = 8;
/// Memory is counted in these.
const UNIT: usize = 1 << 10;

/// The memory for bodies.
#[derive(Clone)]
pub(crate) struct BodyMemory {
    /// For bodies that are neither tiny nor large, while they are received.
    medium: Arc<Semaphore>,
    /// For large ones, until they are answered: parsed calls borrow from them.
    large: Arc<Semaphore>,
    bytes_max: usize,
    timeout: Duration,
}

/// The body of a request. A large one counts until it is dropped.
pub(crate) struct ReadBody {
    pub(crate) bytes: Bytes,
    _large: Option<OwnedSemaphorePermit>,
}

/// Why there is no body.
enum Failure {
    Large,
    /// It was not complete in time.
    Late,
    /// It is large, and came at a rate at which it would not be complete in time.
    Slow,
}

/// A body that is being received.
struct Receiving {
    bytes: Vec<u8>,
    /// Bytes that came, also those that were discarded.
    seen: usize,
    announced: usize,
    medium: Option<OwnedSemaphorePermit>,
    large: Option<OwnedSemaphorePermit>,
    begin: Instant,
}

impl BodyMemory {
    pub(crate) fn new(limits: &Limits) -> Self {
        let part = |bytes: usize| Arc::new(Semaphore::new((bytes / UNIT).max(1)));
        let medium = limits.bodies_bytes / 4;
        Self {
            medium: part(medium),
            large: part(limits.bodies_bytes - medium),
            bytes_max: limits.body_bytes,
            timeout: limits.timeout,
        }
    }

    /// Receives the body of a request.
    pub(crate) async fn receive(&self, body: Body) -> Result<ReadBody, ApiError> {
        // A body without a length may be as long as the longest.
        let announced = body.size_hint().upper().unwrap_or(u64::MAX);
        let announced = announced.min(self.bytes_max as u64) as usize;
        let mut received = Receiving {
            bytes: Vec::with_capacity(announced.min(TINY_BYTES)),
            seen: 0,
            announced,
            medium: None,
            large: None,
            begin: Instant::now(),
        };
        match self.all(body, &mut received).await {
            Ok(()) => Ok(ReadBody {
                bytes: received.bytes.into(),
                _large: received.large,
            }),
            Err(Failure::Large) => Err(ApiError::new(
                ErrorCode::TooLarge,
                format!(
                    "the body is incomplete or has more than {} bytes",
                    self.bytes_max
                ),
            )),
            Err(Failure::Late) => Err(ApiError::new(
                ErrorCode::BodyTimeout,
                format!("the body took longer than {} s", self.timeout.as_secs()),
            )),
            Err(Failure::Slow) => Err(ApiError::new(
                ErrorCode::BodyTimeout,
                format!(
                    "the body came too slowly: send more than {LARGE_BYTES} bytes at a rate of at least {} bytes a second",
                    self.bytes_max as u64 / self.timeout.as_secs().max(1)
                ),
            )),
        }
    }

    /// A body of at most `bytes_max`. A longer one is read to its end too, within reason: a client that is
    /// still sending when its connection closes never sees the error.
    async fn all(&self, body: Body, received: &mut Receiving) -> Result<(), Failure> {
        let max = self.bytes_max;
        let mut chunks = body.into_data_stream();
        loop {
            let deadline = self.deadline(received);
            let next = timeout_at(deadline, chunks.next()).await;
            let is_paced = deadline < received.begin + self.timeout;
            let late = if is_paced {
                Failure::Slow
            } else {
                Failure::Late
            };
            let Some(chunk) = next.map_err(|_| late)? else {
                break;
            };
            let chunk = chunk.map_err(|_| Failure::Large)?;
            received.seen = received.seen.saturating_add(chunk.len());
            if received.seen > max.saturating_mul(DISCARDED_TIMES) {
                return Err(Failure::Large);
            }
            if received.seen > max {
                (received.bytes, received.large) = (Vec::new(), None);
                continue;
            }
            let counted = timeout_at(received.begin + self.timeout, self.count(received));
            counted.await.map_err(|_| Failure::Late)?;
            received.bytes.extend_from_slice(&chunk);
        }
        if received.seen > max {
            return Err(Failure::Large);
        }
        Ok(())
    }

    /// When the next bytes must have come.
    fn deadline(&self, received: &Receiving) -> Instant {
        let whole = received.begin + self.timeout;
        if received.seen <= LARGE_BYTES {
            return whole;
        }
        let part = received.seen as f64 / self.bytes_max.max(1) as f64;
        let paced = received.begin + SLOW_START + self.timeout.mul_f64(part);
        // The rest of a body that is too large is only read so that the client sees why.
        if received.seen > self.bytes_max {
            whole
        } else {
            paced.min(whole)
        }
    }

    /// Counts what came; waits until there is memory for it.
    async fn count(&self, received: &mut Receiving) {
        if received.seen <= TINY_BYTES || received.large.is_some() {
            return;
        }
        if received.seen > LARGE_BYTES {
            let units = (received.announced.max(received.seen) / UNIT).max(1);
            received.large = acquire(&self.large, units).await;
            received.medium = None;
            return;
        }
        let held = received.medium.as_ref();
        let held = held.map_or(0, OwnedSemaphorePermit::num_permits);
        let more = acquire(&self.medium, (received.seen / UNIT).saturating_sub(held)).await;
        match (&mut received.medium, more) {
            (Some(held), Some(more)) => held.merge(more),
            (held, more) => *held = held.take().or(more),
        }
    }
}

async fn acquire(memory: &Arc<Semaphore>, units: usize) -> Option<OwnedSemaphorePermit> {
    let units = u32::try_from(units).unwrap_or(u32::MAX);
    memory.clone().acquire_many_owned(units).await.ok()
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use futures::{FutureExt as _, stream};

    use super::*;

    fn memory() -> BodyMemory {
        BodyMemory::new(&Limits {
            body_bytes: 100 << 10,
            bodies_bytes: 200 << 10,
            timeout: Duration::from_secs(10),
            ..Limits::default()
        })
    }

    fn body(kib: usize) -> Body {
        Body::from(vec![b' '; kib << 10])
    }

    /// A body of which this much came, and no more does.
    fn stalled(kib: usize) -> Body {
        let chunk = Ok::<_, std::io::Error>(Bytes::from(vec![b' '; kib << 10]));
        Body::from_stream(stream::iter([chunk]).chain(stream::pending()))
    }

    #[track_caller]
    fn status(read: Result<ReadBody, ApiError>) -> StatusCode {
        read.err().expect("it is refused").status()
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_count_until_they_are_answered_and_small_ones_pass_them() {
        let memory = memory();
        let answered = memory.receive(body(100)).await.ok().unwrap();
        let refused = memory.receive(body(100)).await;
        assert_eq!(status(refused), StatusCode::REQUEST_TIMEOUT);
        let mut small = Vec::new();
        for _ in 0..10 {
            small.push(memory.receive(body(50)).await.ok().unwrap());
        }
        assert_eq!(answered.bytes.len(), 100 << 10);
        drop(answered);
        assert!(memory.receive(body(100)).await.is_ok());
        assert!(memory.receive(body(101)).await.is_err(), "above the limit");
    }

    /// Connections that announce large bodies and send one byte used to hold all memory: every other call
    /// waited until they timed out.
    #[tokio::test(start_paused = true)]
    async fn clients_that_send_nothing_more_hold_up_no_calls() {
        let memory = memory();
        let mut waiting = Vec::new();
        for kib in [1, 4, 50, 50, 50, 80, 80, 80] {
            for _ in 0..4 {
                let mut receiving = Box::pin(memory.receive(stalled(kib)));
                assert!(receiving.as_mut().now_or_never().is_none());
                waiting.push(receiving);
            }
        }
        let call = memory.receive(body(1)).now_or_never();
        assert!(call.is_some_and(|read| read.is_ok()));
        for receiving in waiting {
            assert_eq!(status(receiving.await), StatusCode::REQUEST_TIMEOUT);
        }
        assert!(memory.receive(body(100)).await.is_ok());
    }

    /// A large body must come at a rate at which it can be complete in time.
    #[tokio::test(start_paused = true)]
    async fn a_large_body_that_stalls_frees_its_memory_before_the_timeout() {
        let memory = memory();
        let begin = Instant::now();
        assert_eq!(
            status(memory.receive(stalled(70)).await),
            StatusCode::REQUEST_TIMEOUT
        );
        assert_eq!(begin.elapsed().as_secs(), 8);
    }
}
