//! Maintenance beside ingest: merges, the transition of ranges that are full, and the removal of what they
//! leave behind. It takes long where a range is long, and new blocks must not wait for it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chronolith_archive::GcMode;
use chronolith_model::ErrorKind;

use crate::chain::Chain;
use crate::clock::now;
use crate::ingest::Trouble;
use crate::ranges::Ranges;

/// The pause after a first failure; it doubles with each that follows.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often what is known of ranges is brought up to date while a transition runs.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often what nothing names any more is removed. It goes when it was seen twice with the archive's
/// grace period between, so it is looked for more often than that.
const COLLECT_EVERY: Duration = Duration::from_secs(120);

/// How maintenance does, and what it knows of ranges.
#[derive(Default)]
pub struct Upkeep {
    trouble: Mutex<Option<(ErrorKind, String)>>,
    seen: Mutex<Option<Arc<Ranges>>>,
}

impl Upkeep {
    /// The trouble that maintenance is in.
    pub fn check(&self) -> Result<(), Trouble> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match trouble.clone() {
            Some((kind, said)) => Err(Trouble::Upkeep { kind, said }),
            None => Ok(()),
        }
    }

    fn note(&self, trouble: Option<&Trouble>) {
        let said = trouble.map(|trouble| (trouble.kind(), trouble.to_string()));
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = said;
    }

    /// Ranges as they were when they were last looked at.
    pub fn ranges(&self) -> Option<Arc<Ranges>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }
}

/// Works while maintenance goes on beside it.
pub async fn beside<T>(chain: &Chain, work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        never = run(chain) => match never {},
        never = collect(chain) => match never {},
    }
}

/// Removes what merges left behind, also while a round lasts for days. A failure is told and left to the
/// next time.
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
    let mut pause = PAUSE_FIRST;
    loop {
        moves.mark_unchanged();
        let done = settle(chain).await;
        chain.upkeep.note(done.as_ref().err());
        match done {
            Ok(()) => {
                pause = PAUSE_FIRST;
                // Whoever tells of moves lives as long as the chain.
                let _ = moves.changed().await;
            }
            Err(_) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

/// Does all that is due.
pub async fn settle(chain: &Chain) -> Result<(), Trouble> {
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
    let mut seen = chain
        .upkeep
        .seen
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    tell(chain, seen.as_deref(), &ranges);
    *seen = Some(Arc::new(ranges));
}

/// Tells of ranges whose state has changed.
fn tell(chain: &Chain, before: Option<&Ranges>, after: &Ranges) {
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
