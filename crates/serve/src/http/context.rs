//! What every handler needs: the chains, the limits, and the semaphores that bound memory.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use chronolith_archive::Error as ArchiveError;
use chronolith_model::{BlockRange, LogFilter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::answer_memory::{AnswerMemory, MemoryReservation};
use super::heavy::HeavyWork;
use super::limits::Limits;
use super::request_body::{BodyMemory, ReadBody};
use crate::chain::ServedChains;
use crate::error::ApiError;
use crate::fault::Fault;
use crate::logs::{Missed, Page, PageMemory};
use crate::metrics::{Meters, RequestMeters};
use crate::rest::projections::ProjectionsCache;
use crate::view::View;

/// Reads the wall clock, in seconds since 1970: the process passes it in.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// What every handler needs. Each request clones it several times.
#[derive(Clone)]
pub(crate) struct Context(Arc<Parts>);

/// See [`Context`].
pub(crate) struct Parts {
    pub(crate) served: ServedChains,
    pub(crate) limits: Limits,
    pub(crate) meters: Meters,
    pub(crate) requests: RequestMeters,
    pub(crate) clock: Clock,
    pub(crate) projections: Arc<ProjectionsCache>,
    pub(crate) started: u64,
    /// Name and version of the program.
    pub(crate) version: Arc<str>,
    pub(crate) heavy: HeavyWork,
    queries: Arc<Semaphore>,
    unread: AnswerMemory,
    bodies: BodyMemory,
}

/// The permit to use memory and threads for an answer; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct QuerySlot {
    heavy: HeavyWork,
    _permit: Arc<OwnedSemaphorePermit>,
}

/// How often a query begins because there was no memory for its page.
const MEMORY_TRIES: usize = 3;
/// How long a query may wait for others.
pub(super) const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

impl Deref for Context {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Context {
    pub(crate) fn new(
        served: ServedChains,
        limits: Limits,
        clock: Clock,
        heavy: HeavyWork,
    ) -> Self {
        Self(Arc::new(Parts {
            limits,
            meters: Meters::new(served.iter().map(|chain| &**chain)),
            requests: RequestMeters::default(),
            projections: Arc::new(ProjectionsCache::new(served.projections.clone())),
            served,
            started: clock(),
            clock,
            version: concat!("chronolith/v", env!("CARGO_PKG_VERSION")).into(),
            queries: Arc::new(Semaphore::new(limits.queries_at_once)),
            unread: AnswerMemory::of_bytes(limits.unread_bytes),
            bodies: BodyMemory::new(&limits),
            heavy,
        }))
    }

    /// Reads the body of a request.
    pub(crate) async fn read(&self, body: Body) -> Result<ReadBody, ApiError> {
        self.bodies.receive(body).await
    }

    /// Queries a view for logs. The memory is to be held as long as the logs are.
    ///
    /// A query waits for memory without its slot, and begins anew: slow readers of large pages hold the memory, and
    /// queries that wait for them must not keep small ones from the slots.
    pub(crate) async fn query(
        &self,
        view: &View<'_>,
        range: BlockRange,
        filter: &LogFilter,
    ) -> Result<(Page, MemoryReservation), Fault> {
        let mut held = MemoryReservation::default();
        let small = self.unread.small_bytes();
        let results = self.limits.answers.results;
        let limit = filter.limit.map_or(results, |limit| limit.min(results));
        for _ in 1..MEMORY_TRIES {
            let page = self.query_with(view, range, filter, std::mem::take(&mut held));
            let needed = match page.await? {
                Ok(found) => return Ok(found),
                // A small page must not wait for the memory of large ones.
                Err(missed) if missed.bytes <= small => missed.bytes.saturating_mul(4).min(small),
                // All of it: pages that each hold a part of what they need would keep each other waiting.
                Err(missed) => missed.page_bytes(limit, self.limits.answers.bytes),
            };
            self.grow(&mut held, needed).await?;
        }
        let page = self.query_with(view, range, filter, held).await?;
        page.map_err(|_| Fault::Busy)
    }

    /// One try; where there was no memory, what there was none for.
    async fn query_with(
        &self,
        view: &View<'_>,
        range: BlockRange,
        filter: &LogFilter,
        held: MemoryReservation,
    ) -> Result<Result<(Page, MemoryReservation), Missed>, Fault> {
        // The query holds all that it reads: it may be continued on another thread.
        let slot = self.query_slot().await?;
        let chain = self.served.find(view.chain.id).ok_or(Fault::Empty)?.clone();
        let (at, filter) = (view.at.clone(), filter.clone());
        let mut memory = PageMemory::new(self.unread.clone(), held);
        let answers = self.limits.answers;
        let work = async move {
            let view = View { chain: &chain, at };
            let page = view.logs(range, &filter, answers, &mut memory).await;
            let page = page.and_then(|page| memory.hold_page(&page).map(|()| page));
            drop(slot);
            match page {
                Ok(page) => Ok(Ok((page, memory.held))),
                Err(Fault::Archive(ArchiveError::NoMemory)) => Ok(Err(memory.missed)),
                Err(fault) => Err(fault),
            }
        };
        let ended = || ArchiveError::Internal("a query ended without an answer".to_owned());
        self.heavy.run(work).await.ok_or_else(ended)?
    }

    /// Waits until few enough other queries run.
    pub(crate) async fn query_slot(&self) -> Result<QuerySlot, Fault> {
        let permit = self.queries.clone().acquire_owned();
        match tokio::time::timeout(QUEUE_TIMEOUT, permit).await {
            Ok(Ok(permit)) => Ok(QuerySlot {
                heavy: self.heavy.clone(),
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
        self.unread.grow(reservation, bytes).await
    }

    /// As [`Self::grow`], for an answer that is there already.
    pub(crate) async fn grow_for(
        &self,
        reservation: &mut MemoryReservation,
        bytes: usize,
    ) -> Result<(), Fault> {
        self.unread.grow_for(reservation, bytes).await
    }

    /// Grows a reservation to this many bytes in total where that much is free right now: a handler that
    /// has a part of an answer can send it instead of waiting.
    pub(crate) fn try_grow(&self, reservation: &mut MemoryReservation, bytes: usize) -> bool {
        self.unread.try_grow(reservation, bytes)
    }
}

impl QuerySlot {
    /// Runs what keeps a thread busy, on the threads of queries. The slot is held until it ends, also
    /// where the client is gone by then: so there are never more of them than slots.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let slot = self.clone();
        let done = self.heavy.compute(move || {
            let done = work();
            drop(slot);
            done
        });
        let failed = || ArchiveError::Internal("a query ended without an answer".to_owned());
        Ok(done.await.ok_or_else(failed)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    /// Work outlives its request, and keeps the slot.
    #[tokio::test(start_paused = true)]
    async fn a_slot_is_held_until_its_work_ends() {
        let limits = Limits {
            queries_at_once: 1,
            ..Limits::default()
        };
        let heavy = HeavyWork::here();
        let served = ServedChains::new(Vec::new());
        let context = Context::new(served, limits, Arc::new(|| 0), heavy);
        let slot = context.query_slot().await.unwrap();
        assert!(context.query_slot().await.is_err());
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
}
