//! What every handler needs: the chains, the limits, and the semaphores that bound memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use chronolith_archive::Error as ArchiveError;
use chronolith_model::{BlockRange, LogFilter};
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::Limits;
use crate::chain::ServedChains;
use crate::error::{ApiError, ErrorCode};
use crate::fault::Fault;
use crate::logs::Page;
use crate::metrics::Meters;
use crate::rest::projections::ProjectionsCache;
use crate::view::View;

/// Reads the wall clock, in seconds since 1970: the process passes it in.
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

/// The body of a request. A large one counts until it is dropped: parsed calls borrow from it.
pub(crate) struct ReadBody {
    pub(crate) bytes: Bytes,
    _large: Option<OwnedSemaphorePermit>,
}

/// The permit to use memory and threads for an answer; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct QuerySlot {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// Memory of an answer: it grows while the answer is made, and is held until the client has read it.
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
        let memory = |bytes: usize| Arc::new(Semaphore::new(bytes / UNIT));
        Self {
            limits,
            meters: Meters::new(served.iter().map(|chain| &**chain)),
            projections: Arc::new(ProjectionsCache::new(served.projections.clone())),
            served,
            started: clock(),
            clock,
            version: concat!("chronolith/v", env!("CARGO_PKG_VERSION")).into(),
            queries: Arc::new(Semaphore::new(limits.queries_at_once)),
            unread: memory(limits.unread_bytes),
            bodies: memory(limits.bodies_bytes),
            large_bodies: memory(limits.bodies_bytes),
        }
    }

    /// Reads the body of a request.
    pub(crate) async fn read(&self, body: Body) -> Result<ReadBody, ApiError> {
        let max = self.limits.body_bytes;
        // A body without a length counts as the longest.
        let length = body.size_hint().upper().unwrap_or(u64::MAX);
        let bytes = length.min(max as u64);
        let units = (bytes as usize / UNIT).max(1) as u32;
        let read = async {
            let mut large = None;
            if bytes > LARGE_BODY {
                large = self
                    .large_bodies
                    .clone()
                    .acquire_many_owned(units)
                    .await
                    .ok();
            }
            let _held = self.bodies.acquire_many(units).await;
            let bytes = collect(body, max).await?;
            Some(ReadBody {
                // A body without a length may be small after all.
                _large: large.filter(|_| bytes.len() as u64 > LARGE_BODY),
                bytes,
            })
        };
        match tokio::time::timeout(self.limits.timeout, read).await {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(ApiError::new(
                ErrorCode::TooLarge,
                format!("the body is incomplete or has more than {max} bytes"),
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

    /// Queries a view for logs. The permit is to be held as long as the logs are.
    pub(crate) async fn query(
        &self,
        view: &View<'_>,
        range: BlockRange,
        filter: &LogFilter,
    ) -> Result<(Page, Option<OwnedSemaphorePermit>), Fault> {
        let page = {
            let _slot = self.query_slot().await?;
            view.logs(range, filter, self.limits.answers).await?
        };
        let bytes = page.logs.iter().map(|one| one.log.byte_len()).sum();
        let held = self.hold(bytes).await?;
        Ok((page, held))
    }

    /// Waits until few enough other queries run.
    pub(crate) async fn query_slot(&self) -> Result<QuerySlot, Fault> {
        let permit = self.queries.clone().acquire_owned();
        match tokio::time::timeout(QUEUE_TIMEOUT, permit).await {
            Ok(Ok(permit)) => Ok(QuerySlot {
                _permit: Arc::new(permit),
            }),
            _ => Err(Fault::Busy),
        }
    }

    /// Grows a reservation to this many bytes in total, or to all memory where it is less.
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

    /// Grows a reservation to this many bytes in total where that much is free right now: a handler that
    /// has a part of an answer can send it instead of waiting.
    pub(crate) fn try_grow(&self, reservation: &mut MemoryReservation, bytes: usize) -> bool {
        let more = (bytes / UNIT).saturating_sub(reservation.units());
        let Ok(more) = u32::try_from(more) else {
            return false;
        };
        if more == 0 {
            return true;
        }
        let held = self.unread.clone().try_acquire_many_owned(more).ok();
        let is_free = held.is_some();
        reservation.add(held);
        is_free
    }

    /// Memory for an answer until the client has read it. The wait is short: the request that waits may
    /// hold memory already.
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
    /// Runs what keeps a thread busy on a thread for blocking work. The slot is held until it ends, also
    /// where the client is gone by then: so there are never more of them than slots.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let slot = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(slot);
            done
        });
        let failed = |error: tokio::task::JoinError| ArchiveError::Internal(error.to_string());
        Ok(done.await.map_err(failed)?)
    }
}

/// Up to this many times the limit is read and discarded.
const DISCARDED_TIMES: usize = 8;

/// A body of at most `max` bytes. A longer one is read to its end too, within reason: a client that is
/// still sending when its connection closes never sees the error.
async fn collect(body: Body, max: usize) -> Option<Bytes> {
    let mut chunks = body.into_data_stream();
    let (mut all, mut seen) = (Vec::new(), 0_usize);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.ok()?;
        seen = seen.saturating_add(chunk.len());
        if seen <= max {
            all.extend_from_slice(&chunk);
        } else if seen > max.saturating_mul(DISCARDED_TIMES) {
            return None;
        } else {
            all = Vec::new();
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

    /// An answer takes free memory and no more; the first part of one that is too large alone is made.
    #[tokio::test(start_paused = true)]
    async fn answers_grow_while_memory_is_free() {
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

        let slot = context.query_slot().await.unwrap();
        assert!(context.query_slot().await.is_err());
        // Work outlives its request, and keeps the slot.
        let (end, ended) = std::sync::mpsc::channel::<()>();
        assert!(
            slot.run_blocking(move || ended.recv())
                .now_or_never()
                .is_none()
        );
        drop(slot);
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
