//! The chain below an L2. Its head is followed, and dates what the L2's safe tag covers.
//!
//! An observation is a safe block with a head of L1 that was requested after it, so that no inclusion
//! is dated too early. Only a head that is higher than the one before counts: an L1 that does not advance
//! or lags is as silent as one that is down. A head that is higher than the elapsed time allows is
//! ignored: it would confirm everything at once. All of this runs beside the L2, which never waits for it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use chronolith_finality::{Observation, ReportedBlock};
use chronolith_model::BlockRef;
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, RangeSettings, Strategy, Tags};
use chronolith_source::{Error as SourceError, Source};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::now;
use crate::error::{FollowError, of_source};
use crate::settings::{FollowSettings, L1Settings};

/// Blocks of L1 that a second may bring at most, and how many more are forgiven.
const BLOCKS_A_SECOND: u64 = 8;
const BLOCKS_MORE: u64 = 64;

/// How long the first round waits for a first observation: history may be final by it at once.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// The chain below.
pub struct L1 {
    pub chain_id: u64,
    source: Arc<dyn Source>,
    /// The same, where its endpoints are its own and nothing else checks them.
    own: Option<Arc<EvmSource>>,
    /// Between two looks at its head.
    pause: Duration,
    state: Mutex<State>,
    /// The safe block is known for the first time, or an observation is there.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// The L2's safe block as it was last read.
    safe: Option<BlockRef>,
    /// How often the safe tag went back: what was requested before that dates nothing.
    retreats: u64,
    /// The highest head that counts, and when it was seen.
    head: Option<(u64, Instant)>,
    /// A first head, until another one confirms it.
    unconfirmed: Option<(u64, Instant)>,
    observed: Option<Observed>,
    waited: bool,
}

/// The L2's safe block, and the head of L1 that was seen after it.
#[derive(Clone, Copy, Debug)]
pub struct Observed {
    safe: BlockRef,
    pub head: u64,
    pub at: u64,
    /// The same by the monotonic clock: how long ago that was.
    seen: Instant,
}

impl L1 {
    pub fn new(chain_id: u64, source: Arc<dyn Source>, pause: Duration) -> Self {
        Self {
            chain_id,
            source,
            own: None,
            pause,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Over endpoints of its own. No request is sent yet.
    pub fn open(chain: &FollowSettings, l1: &L1Settings) -> Result<Self> {
        let source = EvmSource::new(EvmSettings {
            chain_id: l1.chain_id,
            endpoints: l1.endpoints.clone(),
            heads: Vec::new(),
            tags: Tags::NONE,
            strategy: Strategy::Receipts,
            // Which header fields it has is not known, and a height is all that is taken.
            checks: Checks::NONE,
            ranges: RangeSettings::default(),
        })?;
        let source = Arc::new(source);
        Ok(Self {
            own: Some(source.clone()),
            ..Self::new(l1.chain_id, source, chain.poll)
        })
    }

    /// Refuses an L1 that is another chain. One that is down is not refused: it holds up finality, and
    /// nothing else. An endpoint's chain id is checked before its head counts, also without this.
    pub async fn check(&self, chain: &str) -> Result<(), FollowError> {
        let Some(own) = &self.own else {
            return Ok(());
        };
        match own.check_chain().await {
            Ok(()) => Ok(()),
            Err(error @ SourceError::WrongChain { .. }) => {
                Err(FollowError::Refused(format!("finality.l1RpcHttp: {error}")))
            }
            Err(error) => {
                tracing::warn!(%chain, %error, "L1 does not answer, no block becomes final until it does");
                Ok(())
            }
        }
    }

    /// Follows the head forever.
    pub async fn follow(&self) -> Infallible {
        loop {
            let changed = self.changed.notified();
            let (safe, retreats) = {
                let state = self.state.lock();
                (state.safe, state.retreats)
            };
            let Some(safe) = safe else {
                changed.await;
                continue;
            };
            // Errors are kept with the endpoint, and reported when finality stalls by them.
            if let Ok(heads) = self.source.heads().await {
                self.take(safe, retreats, heads.head.number);
            }
            tokio::time::sleep(self.pause).await;
        }
    }

    /// Takes note of the L2's safe block. One that went back takes with it what was seen of it.
    pub fn note_safe(&self, safe: Option<BlockRef>) {
        let Some(safe) = safe else { return };
        let mut state = self.state.lock();
        let before = state.safe.replace(safe);
        let back = before.is_some_and(|before| {
            safe.number < before.number || (safe.number == before.number && safe != before)
        });
        if back {
            state.retreats += 1;
            state.observed = None;
        }
        if before.is_none() {
            self.changed.notify_waiters();
        }
    }

    /// Waits a moment for a first observation, once.
    pub async fn wait_once(&self) {
        let first = || {
            let mut state = self.state.lock();
            let waited = std::mem::replace(&mut state.waited, true);
            !waited && state.observed.is_none()
        };
        if first() {
            let observed = async {
                loop {
                    let changed = self.changed.notified();
                    if self.observed().is_some() {
                        return;
                    }
                    changed.await;
                }
            };
            // None in time is no failure: the tail is followed without it.
            let _ = tokio::time::timeout(FIRST_WAIT, observed).await;
        }
    }

    /// The newest observation.
    pub fn observed(&self) -> Option<Observed> {
        self.state.lock().observed
    }

    /// What it means to the tracker; it carries the time of the observation.
    pub fn seen(&self) -> Observation {
        let state = self.state.lock();
        match (state.observed, state.safe) {
            (Some(observed), _) => Observation {
                safe: Some(ReportedBlock::from(observed.safe)),
                l1_head: Some(observed.head),
                ..Observation::at(observed.at)
            },
            // Without L1 it covers nothing new, but a tag that went back takes its word back.
            (None, safe) => Observation {
                safe: safe.map(ReportedBlock::from),
                ..Observation::at(now())
            },
        }
    }

    /// Whether there was an observation in the last this many seconds.
    pub fn is_fresh(&self, seconds: u64) -> bool {
        let seen = self.observed().map(|observed| observed.seen);
        seen.is_some_and(|seen| seen.elapsed() <= Duration::from_secs(seconds))
    }

    /// Why it is silent, as far as that is known, and what everybody may read of it.
    pub fn reason(&self) -> (String, String) {
        let endpoints = self.source.endpoints();
        let down = endpoints.iter().find(|endpoint| endpoint.backing_off);
        let error = down.and_then(|endpoint| {
            let public = endpoint.last_failure.map(of_source).unwrap_or_default();
            Some((endpoint.last_error.clone()?, public))
        });
        let (id, head) = (self.chain_id, self.state.lock().head.map(|(head, _)| head));
        let both = |text: String| (text.clone(), text);
        match (error, head) {
            (Some((error, public)), _) => (
                format!("chain {id}: {error}"),
                format!("chain {id}: {public}"),
            ),
            (None, Some(head)) => both(format!("chain {id}: its head stands at {head}")),
            (None, None) => both(format!("chain {id}: it has not answered yet")),
        }
    }

    fn take(&self, safe: BlockRef, retreats: u64, head: u64) {
        let mut state = self.state.lock();
        let seen = Instant::now();
        match (state.head, state.unconfirmed) {
            (Some((before, _)), _) if head <= before => return,
            (Some(before), _) if !follows(head, before, seen) => {
                let (id, before) = (self.chain_id, before.0);
                tracing::warn!(l1 = id, head, before, "implausible head of L1 ignored");
                return;
            }
            (None, Some(first)) if head >= first.0 && follows(head, first, seen) => {}
            (None, _) => {
                state.unconfirmed = Some((head, seen));
                return;
            }
            (Some(_), _) => {}
        }
        state.head = Some((head, seen));
        if state.retreats == retreats {
            state.observed = Some(Observed {
                safe,
                head,
                at: now(),
                seen,
            });
            self.changed.notify_waiters();
        }
    }
}

/// Whether a head may have come after one of a while ago.
fn follows(head: u64, (before, at): (u64, Instant), now: Instant) -> bool {
    let seconds = now.saturating_duration_since(at).as_secs();
    let most = seconds.saturating_mul(BLOCKS_A_SECOND) + BLOCKS_MORE;
    head.saturating_sub(before) <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_time_does_not_allow_is_none() {
        let at = Instant::now();
        let hour = at + Duration::from_secs(3_600);
        assert!(follows(112, (100, at), at));
        assert!(follows(100 + 8 * 3_600, (100, at), hour));
        assert!(!follows(1_000_000_000, (100, at), hour));
        assert!(!follows(u64::MAX, (0, at), at + Duration::from_secs(1)));
    }
}
