//! Blocks that fail a rule which was dropped, from another endpoint that proves them by it.
//!
//! A rule is dropped because one block failed it everywhere. Later blocks may keep to it: where one does not,
//! it may be the endpoint's fault again.

use std::sync::Arc;
use std::time::Duration;

use chronolith_model::{BlockRange, BlockRef};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::choice::check_level;
use super::claims::Claims;
use super::source::EvmSource;
use crate::error::Result;
use crate::jsonrpc::endpoint::Endpoint;
use crate::source::{Fetched, Want};

/// How many other endpoints a range is requested from.
const OTHERS_MAX: usize = 3;
/// How many ranges in a row are requested in vain before nothing more is requested for a while: on a chain
/// with other rules no endpoint can prove more.
const IN_VAIN_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_secs(600);

/// Whether requests to other endpoints were of use.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere(Mutex<Uses>);

#[derive(Debug, Default)]
struct Uses {
    in_vain: u32,
    pause_until: Option<Instant>,
}

impl Elsewhere {
    fn is_paused(&self) -> bool {
        let until = self.0.lock().pause_until;
        until.is_some_and(|until| until > Instant::now())
    }

    fn note_found(&self) {
        *self.0.lock() = Uses::default();
    }

    fn note_in_vain(&self) {
        let mut uses = self.0.lock();
        // After a pause one more range in vain is enough.
        uses.in_vain = (uses.in_vain + 1).min(IN_VAIN_MAX);
        if uses.in_vain == IN_VAIN_MAX {
            uses.pause_until = Some(Instant::now() + PAUSE);
        }
    }
}

impl EvmSource {
    /// These blocks as another endpoint proves them further, or as they are.
    pub(super) async fn proven_elsewhere(
        &self,
        first: Vec<Fetched>,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Vec<Fetched> {
        let Some(one) = first.first().filter(|_| !self.elsewhere.is_paused()) else {
            return first;
        };
        let start = one.block.clock.number;
        let range = BlockRange::new(start, start + first.len() as u64);
        let endpoints = self.pool.endpoints().iter();
        let others = endpoints.filter(|other| other.name != one.endpoint && other.is_healthy());
        let others: Vec<&Arc<Endpoint>> = others.take(OTHERS_MAX).collect();
        if others.is_empty() {
            return first;
        }
        for endpoint in others {
            match self.at_endpoint(endpoint, range, want, anchor).await {
                Ok(other) if proves_more(&other, &first) => {
                    self.elsewhere.note_found();
                    self.report_first(&first, &other);
                    return other;
                }
                Ok(_) => {}
                Err(error) => self.note(endpoint, &error),
            }
        }
        self.elsewhere.note_in_vain();
        first
    }

    async fn at_endpoint(
        &self,
        endpoint: &Arc<Endpoint>,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        self.admit(endpoint, anchor).await?;
        let claims = Claims::default();
        let fetcher = self.fetcher(endpoint, want, anchor, &claims);
        let strategy = self.strategy(endpoint, want);
        let fetched = self.prefix(&fetcher, range, strategy).await?;
        check_level(&fetched, want)?;
        Ok(fetched)
    }

    /// What is under one hash is one content: where another endpoint proves its own, the first one's is
    /// something else.
    fn report_first(&self, first: &[Fetched], other: &[Fetched]) {
        let mut both = first.iter().zip(other);
        let Some((wrong, right)) = both.find(|(first, other)| other.proof.exceeds(first.proof))
        else {
            return;
        };
        if let Some(endpoint) = self.pool.by_name(&wrong.endpoint) {
            let number = wrong.block.clock.number;
            let what = format!("block {number}: {} proves another content", right.endpoint);
            endpoint.report_bad(&what);
        }
    }
}

/// Whether these are the same blocks, or the first of them, proven further in something and less far in
/// nothing.
fn proves_more(other: &[Fetched], first: &[Fetched]) -> bool {
    let both = || other.iter().zip(first);
    let same = |(other, first): (&Fetched, &Fetched)| {
        other.block.clock == first.block.clock && other.proof.covers(first.proof)
    };
    other.len() <= first.len()
        && both().all(same)
        && both().any(|(other, first)| other.proof.exceeds(first.proof))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a chain with other rules every block would be requested at every endpoint, forever.
    #[tokio::test(start_paused = true)]
    async fn asking_in_vain_ends_for_a_while() {
        let elsewhere = Elsewhere::default();
        for _ in 0..IN_VAIN_MAX {
            assert!(!elsewhere.is_paused());
            elsewhere.note_in_vain();
        }
        for _ in 0..3 {
            assert!(elsewhere.is_paused());
            tokio::time::advance(PAUSE).await;
            assert!(!elsewhere.is_paused());
            elsewhere.note_in_vain();
        }
        tokio::time::advance(PAUSE).await;
        elsewhere.note_found();
        elsewhere.note_in_vain();
        assert!(!elsewhere.is_paused(), "it was of use");
    }
}
