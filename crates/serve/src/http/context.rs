//! What every handler needs: the chains, the limits, and the gates that keep memory bounded.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use chronolith_archive::Error as ArchiveError;
use chronolith_model::{BlockRange, LogFilter};
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::chain::ServedChains;
use crate::error::{ApiError, ErrorCode};
use crate::fault::Fault;
use crate::logs::{AnswerLimits, Page};
use crate::metrics::Meters;
use crate::rest::projections::ProjectionsCache;
use crate::view::View;

/// What requests may cost. Every limit is told in the error that it causes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Logs and their bytes in one answer.
    pub answers: AnswerLimits,
    /// Bytes of all answers of a batch.
    pub answer_bytes: usize,
    /// Bytes of a request.
    pub body_bytes: usize,
    /// Calls in a batch.
    pub batch: usize,
    /// Items of a lookup of many times.
    pub times: usize,
    /// Blocks that `eth_getLogs` may look at; none where there is no such limit.
    pub block_range: Option<u64>,
    /// Ledgers that a page of Stellar's transactions or events looks at, two or more: the first ones of a
    /// network hold next to nothing. It is no error: the page's cursor says how far it is whole.
    pub page_ledgers: u64,
    /// Alternatives at one place of a filter; none where only the size of a request bounds them.
    pub alternatives: Option<usize>,
    /// How long a call may take, and how long a body may.
    pub timeout: Duration,
    /// Log queries and pages of ledgers that are made at the same time; others wait.
    pub queries_at_once: usize,
    /// Bytes of logs that wait to be read by whoever asked; queries wait beyond it.
    pub unread_bytes: usize,
    /// Bytes of requests that are on their way in, and of large ones until they are answered.
    pub bodies_bytes: usize,
    /// Connections that are open at the same time.
    pub connections: usize,
    /// Those of one address; none where they are not counted.
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
            unread_bytes: 256 << 20,
            bodies_bytes: 64 << 20,
            connections: 4_096,
            // Behind a proxy everybody comes from one address.
            connections_per_peer: None,
        }
    }
}

/// Reads the wall clock, in seconds since 1970: only whoever runs the process may.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What every handler needs.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) served: ServedChains,
    pub(crate) limits: Limits,
    pub(crate) meters: Meters,
    pub(crate) clock: Clock,
    pub(crate) projections: Arc<ProjectionsCache>,
    pub(crate) started: u64,
    /// Name and version of the program.
    pub(crate) version: Arc<str>,
    queries: Arc<Semaphore>,
    unread: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    large_bodies: Arc<Semaphore>,
}

/// A body that was read. A large one counts until it is dropped: calls look into it.
pub(crate) struct ReadBody {
    pub(crate) bytes: Bytes,
    _large: Option<OwnedSemaphorePermit>,
}

/// The right to take memory and threads for an answer; clones are the same turn.
#[derive(Clone, Debug)]
pub(crate) struct QuerySlot {
    _running: Arc<OwnedSemaphorePermit>,
}

/// Memory of an answer that grows while it is made, and then waits to be read.
#[derive(Debug, Default)]
pub(crate) struct MemoryReservation(Option<OwnedSemaphorePermit>);

/// How long a query may wait for others, and for memory that slow readers hold.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);
const HOLD_TIMEOUT: Duration = Duration::from_secs(1);

/// Bodies above this are large. Smaller ones never wait for them.
const LARGE_BODY: u64 = 64 << 10;

/// Memory is counted in these.
const UNIT: usize = 1 << 10;

impl Context {
    pub(crate) fn new(served: ServedChains, limits: Limits, clock: Clock) -> Self {
        Self {
            limits,
            meters: Meters::new(served.iter().map(|chain| &**chain)),
            projections: Arc::new(ProjectionsCache::new(served.projections().cloned())),
            served,
            started: clock(),
            clock,
            version: concat!("chronolith/v", env!("CARGO_PKG_VERSION")).into(),
            queries: Arc::new(Semaphore::new(limits.queries_at_once)),
            unread: Arc::new(Semaphore::new(limits.unread_bytes / UNIT)),
            bodies: Arc::new(Semaphore::new(limits.bodies_bytes / UNIT)),
            large_bodies: Arc::new(Semaphore::new(limits.bodies_bytes / UNIT)),
        }
    }

    /// Reads a body, or says why not.
    pub(crate) async fn read(&self, body: Body) -> Result<ReadBody, ApiError> {
        let max = self.limits.body_bytes;
        // Bodies that do not say how long they are count as the longest.
        let bytes = body.size_hint().upper().unwrap_or(u64::MAX).min(max as u64);
        let units = (bytes as usize / UNIT).max(1) as u32;
        let read = async {
            let large = match bytes > LARGE_BODY {
                true => self
                    .large_bodies
                    .clone()
                    .acquire_many_owned(units)
                    .await
                    .ok(),
                false => None,
            };
            let _held = self.bodies.acquire_many(units).await;
            let bytes = collect(body, max).await?;
            Some(ReadBody {
                // One that did not say how long it is may be small after all.
                _large: large.filter(|_| bytes.len() as u64 > LARGE_BODY),
                bytes,
            })
        };
        match tokio::time::timeout(self.limits.timeout, read).await {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(ApiError::new(
                ErrorCode::TooLarge,
                format!("the body did not come whole, or has more than {max} bytes"),
            )),
            Err(_) => Err(ApiError::new(
                ErrorCode::BodyTimeout,
                format!(
                    "the body took longer than {} s",
                    self.limits.timeout.as_secs()
                ),
            )),
        }
    }

    /// Asks a view for logs. What is returned beside them is to be held while they are.
    pub(crate) async fn query(
        &self,
        view: &View<'_>,
        range: BlockRange,
        filter: &LogFilter,
    ) -> Result<(Page, Option<OwnedSemaphorePermit>), Fault> {
        let page = {
            let _turn = self.query_slot().await?;
            view.logs(range, filter, self.limits.answers).await?
        };
        let bytes = page.logs.iter().map(|one| one.log.byte_len()).sum();
        let held = self.hold(bytes).await?;
        Ok((page, held))
    }

    /// Waits until few enough others are at work.
    pub(crate) async fn query_slot(&self) -> Result<QuerySlot, Fault> {
        let query_slot = self.queries.clone().acquire_owned();
        match tokio::time::timeout(QUEUE_TIMEOUT, query_slot).await {
            Ok(Ok(query_slot)) => Ok(QuerySlot {
                _running: Arc::new(query_slot),
            }),
            _ => Err(Fault::Busy),
        }
    }

    /// Makes room for so many bytes in all, also for more than there ever are.
    pub(crate) async fn grow(
        &self,
        reservation: &mut MemoryReservation,
        bytes: usize,
    ) -> Result<(), Fault> {
        let max = self.limits.unread_bytes / UNIT;
        let more = (bytes / UNIT).min(max).saturating_sub(reservation.units());
        reservation.add(self.hold(more * UNIT).await?);
        Ok(())
    }

    /// Makes room for so many bytes in all, where there is some right now: whoever has a part of an answer
    /// can hand it on instead of waiting.
    pub(crate) fn try_grow(&self, reservation: &mut MemoryReservation, bytes: usize) -> bool {
        let more = (bytes / UNIT).saturating_sub(reservation.units());
        let Ok(more) = u32::try_from(more) else {
            return false;
        };
        if more == 0 {
            return true;
        }
        let held = self.unread.clone().try_acquire_many_owned(more).ok();
        let is_there = held.is_some();
        reservation.add(held);
        is_there
    }

    /// Memory for an answer that waits to be read. Whoever waits for it may hold some already, so nobody
    /// waits for long.
    pub(crate) async fn hold(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Fault> {
        let units = (bytes / UNIT).min(self.limits.unread_bytes / UNIT);
        if units == 0 {
            return Ok(None);
        }
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let held = self.unread.clone().acquire_many_owned(units);
        match tokio::time::timeout(HOLD_TIMEOUT, held).await {
            Ok(Ok(held)) => Ok(Some(held)),
            _ => Err(Fault::Busy),
        }
    }
}

impl MemoryReservation {
    fn units(&self) -> usize {
        self.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }

    fn add(&mut self, more: Option<OwnedSemaphorePermit>) {
        match (&mut self.0, more) {
            (Some(held), Some(more)) => held.merge(more),
            (held @ None, more) => *held = more,
            (Some(_), None) => {}
        }
    }
}

impl QuerySlot {
    /// Does what keeps a thread busy where nobody else waits for that thread. The turn lasts until it is
    /// done, also where nobody wants the result any more: so there is never more of it than turns.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let query_slot = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(query_slot);
            done
        });
        let failed = |error: tokio::task::JoinError| ArchiveError::Internal(error.to_string());
        Ok(done.await.map_err(failed)?)
    }
}

/// Up to this many times the limit is read and thrown away.
const DISCARDED_TIMES: usize = 8;

/// A body of at most so many bytes. What is beyond is read too, as long as it is not absurd: a client
/// that is still sending when its connection ends never sees why.
async fn collect(body: Body, max: usize) -> Option<Bytes> {
    let mut chunks = body.into_data_stream();
    let (mut all, mut seen) = (Vec::new(), 0_usize);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.ok()?;
        seen = seen.saturating_add(chunk.len());
        match seen <= max {
            true => all.extend_from_slice(&chunk),
            false if seen > max.saturating_mul(DISCARDED_TIMES) => return None,
            false => all = Vec::new(),
        }
    }
    (seen <= max).then(|| all.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use futures::FutureExt as _;

    fn context() -> Context {
        let limits = Limits {
            body_bytes: 100 << 10,
            bodies_bytes: 150 << 10,
            timeout: Duration::from_millis(200),
            ..Limits::default()
        };
        Context::new(ServedChains::new(Vec::new()), limits, Arc::new(|| 0))
    }

    /// An answer takes what there is and no more; the first piece of one that is too large alone is made.
    #[tokio::test(start_paused = true)]
    async fn answers_grow_as_long_as_there_is_room() {
        let limits = Limits {
            unread_bytes: 100 << 10,
            queries_at_once: 1,
            ..Limits::default()
        };
        let context = Context::new(ServedChains::new(Vec::new()), limits, Arc::new(|| 0));
        let (mut one, mut other) = (MemoryReservation::default(), MemoryReservation::default());
        context.grow(&mut one, 60 << 10).await.unwrap();
        assert!(context.try_grow(&mut one, 70 << 10));
        assert!(context.try_grow(&mut one, 10 << 10), "it has more");
        assert!(context.try_grow(&mut other, 30 << 10));
        assert!(!context.try_grow(&mut other, 31 << 10));
        assert_eq!((one.units(), other.units()), (70, 30));
        assert!(context.grow(&mut other, 40 << 10).await.is_err());
        drop(one);
        context.grow(&mut other, 500 << 10).await.unwrap();
        assert_eq!(other.units(), 100);
        assert!(!context.try_grow(&mut other, 501 << 10));

        let query_slot = context.query_slot().await.unwrap();
        assert!(context.query_slot().await.is_err());
        // Work outlives whoever asked for it, and keeps the turn.
        let (end, ended) = std::sync::mpsc::channel::<()>();
        assert!(
            query_slot
                .run_blocking(move || ended.recv())
                .now_or_never()
                .is_none()
        );
        drop(query_slot);
        assert_eq!(context.queries.available_permits(), 0);
        drop(end);
        assert!(context.query_slot().await.is_ok());
    }

    fn body(kib: usize) -> Body {
        Body::from(vec![b' '; kib << 10])
    }

    #[tokio::test]
    async fn large_bodies_count_until_they_are_answered_and_small_ones_pass_them() {
        let context = context();
        let answered = context.read(body(100)).await.ok().unwrap();
        let refused = context.read(body(100)).await.err().unwrap();
        assert_eq!(refused.status(), StatusCode::REQUEST_TIMEOUT);
        let mut small = Vec::new();
        for _ in 0..10 {
            small.push(context.read(body(60)).await.ok().unwrap());
        }
        assert_eq!(answered.bytes.len(), 100 << 10);
        drop(answered);
        assert!(context.read(body(100)).await.is_ok());
        assert!(context.read(body(101)).await.is_err(), "above the limit");
    }
}
