//! Jobs that run between two rounds of a chain: a round writes to the archive, and what it knows above the
//! archive must not change under it.

use std::collections::VecDeque;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

type Job = BoxFuture<'static, ()>;

/// The chain's task has ended: no job of it will run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed;

/// Jobs that wait for the end of a round.
#[derive(Default)]
pub struct Control {
    queue: Mutex<Queue>,
    requested: Notify,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Control {
    /// Runs a job between two rounds, and waits until it is done.
    ///
    /// # Errors
    /// The chain is no longer followed.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Closed> {
        let (sender, receiver) = oneshot::channel();
        let job = async move {
            // The caller may have gone away.
            let _ = sender.send(job.await);
        };
        {
            let mut queue = self.queue.lock();
            if queue.is_closed {
                return Err(Closed);
            }
            queue.jobs.push_back(Box::pin(job));
        }
        self.requested.notify_one();
        receiver.await.map_err(|_| Closed)
    }

    /// Refuses all jobs from now on, and drops those that wait.
    pub fn close(&self) {
        *self.queue.lock() = Queue {
            jobs: VecDeque::new(),
            is_closed: true,
        };
    }

    /// Whether a job waits: a long round should come to an end.
    pub fn is_requested(&self) -> bool {
        !self.queue.lock().jobs.is_empty()
    }

    /// Waits until there is a job.
    pub async fn requested(&self) {
        while !self.is_requested() {
            self.requested.notified().await;
        }
    }

    /// Runs all jobs that wait.
    pub async fn run_waiting(&self) {
        while let Some(job) = self.next() {
            job.await;
        }
    }

    fn next(&self) -> Option<Job> {
        self.queue.lock().jobs.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The task of a chain whose backfill has ended is over, while others keep the program running.
    #[tokio::test(start_paused = true)]
    async fn no_caller_waits_for_a_chain_that_is_no_longer_followed() {
        let control = Control::default();
        let run = async || {
            let job = control.run(async { 1 });
            tokio::time::timeout(Duration::from_secs(60), job).await
        };
        let (before, ()) = tokio::join!(run(), async { control.close() });
        for answer in [before, run().await] {
            assert_eq!(answer.expect("it waits forever"), Err(Closed));
        }
    }
}
