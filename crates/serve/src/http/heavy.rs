//! Work that takes long, away from the threads of the connections: long queries, and compression. Every other
//! request waits while such a thread computes.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::poll;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::holders::Owner;

/// Runs long work on the threads of a runtime of its own.
#[derive(Clone, Debug)]
pub struct HeavyWork {
    threads: Handle,
    /// Computations at the same time: one for each core.
    cores: Arc<Semaphore>,
}

impl HeavyWork {
    /// On the threads of this runtime.
    #[must_use]
    pub fn on(threads: Handle) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            threads,
            cores: Arc::new(Semaphore::new(cores)),
        }
    }

    /// On the threads of the caller's runtime, for tests.
    #[must_use]
    pub fn here() -> Self {
        Self::on(Handle::current())
    }

    /// Begins work here, and continues it on the other threads if it is not done within one step. Most queries
    /// find everything in memory and are: a change of threads would take a tenth of their time. Work whose
    /// caller is gone ends.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let mut work = Box::pin(work);
        if let std::task::Poll::Ready(done) = poll!(work.as_mut()) {
            return Some(done);
        }
        let mut task = JoinSet::new();
        // Its memory belongs to the same connection there.
        match Owner::current() {
            Some(owner) => task.spawn_on(owner.run(work), &self.threads),
            None => task.spawn_on(work, &self.threads),
        };
        task.join_next().await?.ok()
    }

    /// Computes on the other threads, as many at a time as there are cores. None where it panicked.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let core = self.cores.clone().acquire_owned().await.ok()?;
        let work = move || {
            let done = work();
            // Not before: it goes on where the caller is gone.
            drop(core);
            done
        };
        self.threads.spawn_blocking(work).await.ok()
    }
}

/// Runs what keeps a thread busy for a moment, and borrows: meanwhile another thread serves its connections.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn only_work_that_waits_changes_threads() {
        let other = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let heavy = HeavyWork::on(other.handle().clone());
        let here = thread::current().id();
        let short = heavy.run(async { thread::current().id() }).await;
        assert_eq!(short, Some(here));
        let long = heavy.run(async {
            tokio::task::yield_now().await;
            thread::current().id()
        });
        assert_ne!(long.await, Some(here));
        assert_ne!(heavy.compute(|| thread::current().id()).await, Some(here));
        assert_eq!(heavy.compute(|| panic!("a bug")).await, None::<()>);
        other.shutdown_background();
    }

    /// A client that goes away must not leave its query running.
    #[tokio::test]
    async fn work_ends_with_its_caller() {
        let heavy = HeavyWork::here();
        let (alive, mut ended) = tokio::sync::mpsc::channel::<()>(1);
        let work = heavy.run(async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        assert!(futures::FutureExt::now_or_never(work).is_none());
        assert_eq!(ended.recv().await, None);
    }

    /// Clients that came and went used to start more computations than there are cores.
    #[tokio::test]
    async fn a_computation_keeps_its_core_where_its_caller_is_gone() {
        let heavy = HeavyWork::here();
        let cores = heavy.cores.available_permits();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let work = heavy.compute(move || ended.recv());
        assert!(futures::FutureExt::now_or_never(work).is_none());
        assert_eq!(heavy.cores.available_permits(), cores - 1);
        drop(end);
        let all = u32::try_from(cores).unwrap();
        drop(heavy.cores.acquire_many(all).await.unwrap());
    }
}
