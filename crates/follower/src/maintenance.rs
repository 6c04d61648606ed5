//! Maintenance beside ingest: merges, the transition of ranges that are full, and the removal of what they
//! leave. It takes long where a range is long, and new blocks must not wait for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronolith_archive::GcMode;
use chronolith_model::ErrorKind;
use parking_lot::Mutex;

use crate::BACKOFF;
use crate::chain::Chain;
use crate::clock::now;
use crate::error::FollowError;
use crate::ranges::Ranges;

/// How often what is known of ranges is brought up to date while a transition runs.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often what nothing names any more is removed. It goes when it was seen twice with the archive's
/// grace period between, so it is looked for more often than that.
const COLLECT_EVERY: Duration = Duration::from_secs(120);

/// How maintenance does, and what it knows of ranges.
#[derive(Default)]
pub struct MaintenanceStatus {
    error: Mutex<Option<(ErrorKind, String)>>,
    seen: Mutex<Option<Arc<Ranges>>>,
}

impl MaintenanceStatus {
    /// The error of the last step, while it failed.
    pub fn check(&self) -> Result<(), FollowError> {
        match self.error.lock().clone() {
            Some((kind, message)) => Err(FollowError::Maintenance { kind, message }),
            None => Ok(()),
        }
    }

    fn note(&self, error: Option<&FollowError>) {
        *self.error.lock() = error.map(|error| (error.kind(), error.to_string()));
    }

    /// Ranges as they were when they were last looked at.
    pub fn ranges(&self) -> Option<Arc<Ranges>> {
        self.seen.lock().clone()
    }
}

/// Works while maintenance runs beside it.
pub async fn beside<T>(chain: &Chain, work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        never = run(chain) => match never {},
        never = collect(chain) => match never {},
    }
}

/// Removes what merges left, also while a round lasts for days. A failure is logged and left to the next
/// time.
async fn collect(chain: &Chain) -> Infallible {
    let name = &chain.settings.name;
    loop {
        tokio::time::sleep(COLLECT_EVERY).await;
        match chain.archive.collect_garbage(GcMode::Remove).await {
            Ok(report) => tracing::debug!(chain = %name, ?report, "collected"),
            Err(error) => tracing::warn!(chain = %name, %error, "garbage was not collected"),
        }
    }
}

async fn run(chain: &Chain) -> Infallible {
    let mut moves = chain.moves();
    let mut backoff = BACKOFF;
    loop {
        moves.mark_unchanged();
        let done = settle(chain).await;
        chain.maintenance.note(done.as_ref().err());
        match done {
            Ok(()) => {
                backoff.reset();
                // The sender lives as long as the chain.
                let _ = moves.changed().await;
            }
            Err(_) => tokio::time::sleep(backoff.next()).await,
        }
    }
}

/// Does all that is due.
pub async fn settle(chain: &Chain) -> Result<(), FollowError> {
    let mut looked = Instant::now();
    while chain.archive.maintain_at(now()).await? {
        if looked.elapsed() >= LOOK_EVERY {
            look(chain).await;
            looked = Instant::now();
        }
    }
    look(chain).await;
    Ok(())
}

/// Brings what is known of ranges up to date.
pub async fn look(chain: &Chain) {
    let ranges = Ranges::of(&chain.archive, &chain.ran).await;
    let mut seen = chain.maintenance.seen.lock();
    log_changes(chain, seen.as_deref(), &ranges);
    *seen = Some(Arc::new(ranges));
}

/// Logs ranges whose state has changed.
fn log_changes(chain: &Chain, before: Option<&Ranges>, after: &Ranges) {
    let name = &chain.settings.name;
    let state_before = |id: u64| {
        let mut all = before.into_iter().flat_map(|before| &before.all);
        all.find(|range| range.id == id).map(|range| range.state)
    };
    for range in &after.all {
        let known = state_before(range.id);
        // What was so before the program began is no news.
        if before.is_none() || known == Some(range.state) {
            continue;
        }
        let (id, state) = (range.id, range.state.name());
        match &range.failure {
            Some(failure) => {
                let cause = &failure.cause;
                tracing::error!(chain = %name, range = id, %cause, "range failed");
            }
            None => tracing::info!(chain = %name, range = id, state, "range"),
        }
    }
}
