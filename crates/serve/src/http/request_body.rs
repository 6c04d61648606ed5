//! Bodies of requests. What counts are bytes that came, not bytes that were announced: announcing costs a
//! client nothing.
//!
//! Tiny bodies are never counted, so no client can keep others from a call. All others count from the bytes that come
//! until they are answered, and must come fast enough: one that stalls gives its memory back soon.

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
/// How long the next bytes of a body may take after it waited for memory: those of an honest client have come meanwhile.
const AFTER_WAITING: Duration = Duration::from_millis(500);
/// The rate at which a body that is neither tiny nor large must come.
pub(super) const MEDIUM_BYTES_A_SECOND: usize = 32 << 10;
/// Up to this many times the limit is read and discarded.
const DISCARDED_TIMES: usize = 8;
/// Of a body that nobody needs, this much is read, for this long.
const UNUSED_BYTES_MAX: usize = 16 << 20;
const UNUSED_TIMEOUT: Duration = Duration::from_secs(10);
/// Memory is counted in these.
const UNIT: usize = 1 << 10;

/// The memory for bodies.
#[derive(Clone)]
pub(crate) struct BodyMemory {
    /// For bodies that are neither tiny nor large.
    medium: Pool,
    large: Pool,
    bytes_max: usize,
    timeout: Duration,
}

/// Memory that bodies share while they grow. One at a time may grow beyond it, so that no two wait for each other.
#[derive(Clone)]
struct Pool {
    shared: Arc<Semaphore>,
    alone: Arc<Semaphore>,
}

/// The memory of one body.
#[derive(Default)]
struct HeldBody {
    shared: Option<OwnedSemaphorePermit>,
    alone: Option<OwnedSemaphorePermit>,
}

/// The body of a request. It counts until it is dropped: parsed calls borrow from it.
pub(crate) struct ReadBody {
    pub(crate) bytes: Bytes,
    _held: HeldBody,
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
    held: HeldBody,
    is_large: bool,
    begin: Instant,
    /// What it has more time for, because it waited for memory.
    more: Duration,
}

/// Reads a body that nobody needs, within reason: a client that is still sending when its connection closes never
/// sees the answer.
pub(crate) async fn discard(body: Body) {
    let mut chunks = body.into_data_stream();
    let all = async {
        let mut seen = 0;
        while let Some(Ok(chunk)) = chunks.next().await {
            seen += chunk.len();
            if seen > UNUSED_BYTES_MAX {
                break;
            }
        }
    };
    // What comes later than that is lost with the answer.
    let _ = tokio::time::timeout(UNUSED_TIMEOUT, all).await;
}

impl Pool {
    fn of_bytes(bytes: usize) -> Self {
        Self {
            shared: Arc::new(Semaphore::new((bytes / UNIT).max(1))),
            alone: Arc::new(Semaphore::new(1)),
        }
    }

    /// Holds memory for this many bytes in total; waits until there is some.
    async fn grow(&self, held: &mut HeldBody, bytes: usize) {
        if held.alone.is_some() {
            return;
        }
        let units = held.shared.as_ref();
        let units = units.map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(UNIT).saturating_sub(units);
        let Ok(missing @ 1..) = u32::try_from(missing) else {
            return;
        };
        tokio::select! {
            biased;
            more = self.shared.clone().acquire_many_owned(missing) => match (&mut held.shared, more.ok()) {
                (Some(held), Some(more)) => held.merge(more),
                (held, more) => *held = held.take().or(more),
            },
            alone = self.alone.clone().acquire_owned() => held.alone = alone.ok(),
        }
    }
}

impl BodyMemory {
    pub(crate) fn new(limits: &Limits) -> Self {
        let medium = limits.bodies_bytes / 4;
        Self {
            medium: Pool::of_bytes(medium),
            large: Pool::of_bytes(limits.bodies_bytes - medium),
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
            held: HeldBody::default(),
            is_large: false,
            begin: Instant::now(),
            more: Duration::ZERO,
        };
        match self.all(body, &mut received).await {
            Ok(()) => Ok(ReadBody {
                bytes: received.bytes.into(),
                _held: received.held,
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
                    "the body came too slowly: send more than {TINY_BYTES} bytes at a rate of at least {MEDIUM_BYTES_A_SECOND} bytes a second, more than {LARGE_BYTES} at {}",
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
                (received.bytes, received.held) = (Vec::new(), HeldBody::default());
                continue;
            }
            let waits = Instant::now();
            let counted = timeout_at(received.begin + self.timeout, self.count(received));
            counted.await.map_err(|_| Failure::Late)?;
            let now = Instant::now();
            if now > waits {
                // The client is not slow while its body waits for memory.
                let late = (now + AFTER_WAITING).saturating_duration_since(self.deadline(received));
                received.more += late;
            }
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
        let takes = match received.seen {
            // The rest of a body that is too large is only read so that the client sees why.
            seen if seen <= TINY_BYTES || seen > self.bytes_max => return whole,
            seen if seen <= LARGE_BYTES => {
                Duration::from_secs_f64(seen as f64 / MEDIUM_BYTES_A_SECOND as f64)
            }
            seen => self
                .timeout
                .mul_f64(seen as f64 / self.bytes_max.max(1) as f64),
        };
        (received.begin + received.more + SLOW_START + takes).min(whole)
    }

    /// Counts what came; waits until there is memory for it.
    async fn count(&self, received: &mut Receiving) {
        if received.seen <= TINY_BYTES {
            return;
        }
        if received.seen <= LARGE_BYTES {
            return self.medium.grow(&mut received.held, received.seen).await;
        }
        if !received.is_large {
            // It moves: a body that became large holds no memory of others.
            let mut held = HeldBody::default();
            self.large.grow(&mut held, received.seen).await;
            (received.held, received.is_large) = (held, true);
            return;
        }
        self.large.grow(&mut received.held, received.seen).await;
    }
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
    async fn bodies_count_until_they_are_answered_and_smaller_ones_pass_larger_ones() {
        let memory = memory();
        let mut held = Vec::new();
        for kib in [100, 50] {
            let first = memory.receive(body(kib)).await.ok().unwrap();
            let beyond = memory.receive(body(kib)).await.ok().unwrap();
            let refused = memory.receive(body(kib)).await;
            assert_eq!(status(refused), StatusCode::REQUEST_TIMEOUT, "{kib}");
            assert_eq!(first.bytes.len(), kib << 10);
            drop(beyond);
            let again = memory.receive(body(kib)).now_or_never();
            assert!(again.is_some_and(|read| read.is_ok()), "{kib}");
            held.push(first);
        }
        assert!(memory.receive(body(4)).now_or_never().is_some());
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

    /// Bodies of a middle size that stalled used to hold their memory until the timeout: a batch of calls waited for ten
    /// seconds.
    #[tokio::test(start_paused = true)]
    async fn bodies_that_stall_give_way_to_a_batch_of_calls() {
        let memory = memory();
        let stalling: Vec<_> = (0..8).map(|_| memory.receive(stalled(48))).collect();
        let stalling = futures::future::join_all(stalling);
        let began = Instant::now();
        let honest = async {
            tokio::task::yield_now().await;
            let read = memory.receive(body(20)).await;
            (read.is_ok(), began.elapsed())
        };
        let (stalled, (received, waited)) = tokio::join!(stalling, honest);
        // Two at a time: the first for two and a half seconds, the others for half of one.
        assert!(received && waited <= Duration::from_secs(4), "{waited:?}");
        assert!(stalled.into_iter().all(|read| read.is_err()));
    }

    /// A client whose body waited for memory used to be called slow.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_waits_for_memory_is_not_slow() {
        let memory = memory();
        let held = [
            memory.receive(body(100)).await.ok().unwrap(),
            memory.receive(body(100)).await.ok().unwrap(),
        ];
        let parts = [
            Bytes::from(vec![b' '; 70 << 10]),
            Bytes::from(vec![b' '; 10 << 10]),
        ];
        let parts = stream::iter(parts.map(Ok::<_, std::io::Error>));
        let waits = memory.receive(Body::from_stream(parts));
        let freed = async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            drop(held);
        };
        let (read, ()) = tokio::join!(waits, freed);
        assert_eq!(read.ok().unwrap().bytes.len(), 80 << 10);
    }

    /// A client must not keep a refusal for ever by what it sends, or does not send.
    #[tokio::test(start_paused = true)]
    async fn a_body_that_nobody_needs_is_read_within_bounds() {
        let endless =
            stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[0; 1024])));
        let begin = Instant::now();
        discard(body(1_000)).await;
        discard(Body::from_stream(endless)).await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        discard(stalled(4)).await;
        assert_eq!(begin.elapsed().as_secs(), UNUSED_TIMEOUT.as_secs());
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
