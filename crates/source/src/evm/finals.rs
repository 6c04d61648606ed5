//! Which blocks are final by every healthy endpoint.
//!
//! A tag is the claim of one endpoint. A proxy that answers `finalized` with its newest block would have the
//! tip archived, and the next reorg would halt the chain. So the tags of the others are requested too, and
//! the lowest of each counts. An endpoint that knows no tag, is down or is far behind does not count.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chronolith_model::BlockRef;
use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::reader::Tags;
use super::source::EvmSource;
use crate::error::Result;
use crate::jsonrpc::endpoint::Endpoint;
use crate::source::Heads;

/// An endpoint whose newest block is further below another's is behind.
const BEHIND_BLOCKS: u64 = 100;
/// How long the tags of an endpoint that does not answer count: longer than any pause after a failure,
/// so that no other one need only wait for it.
const SILENT_WHILE: Duration = Duration::from_secs(60);
/// When it is logged that endpoints call different blocks final. Some chains finalize once in minutes.
const WARN_AFTER: Duration = Duration::from_secs(3_600);

#[derive(Debug, Default)]
pub(super) struct Finals(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The tags that no endpoint had lower ones for.
    confirmed: Option<[Option<BlockRef>; 2]>,
    /// The last tags of each endpoint, and when they came.
    answers: HashMap<Arc<str>, (Heads, Instant)>,
    since: Option<Instant>,
    has_warned: bool,
}

impl Known {
    /// These heads with the lowest tags of all that count.
    fn lowered(&mut self, heads: Heads, answers: Vec<(Arc<str>, Heads)>, now: Instant) -> Heads {
        let answers = answers.into_iter();
        self.answers
            .extend(answers.map(|(name, heads)| (name, (heads, now))));
        let counts = |at: Instant| now.duration_since(at) < SILENT_WHILE;
        self.answers.retain(|_, (_, at)| counts(*at));
        let is_near = |one: &&Heads| one.head.number + BEHIND_BLOCKS >= heads.head.number;
        let others = self.answers.values().map(|(one, _)| one).filter(is_near);
        let others: Vec<&Heads> = others.collect();
        let lowest = |tag: fn(&Heads) -> Option<BlockRef>| {
            let own = tag(&heads)?;
            let all = others.iter().filter_map(|one| tag(one)).chain([own]);
            all.min_by_key(|block| block.number)
        };
        let lowered = Heads {
            finalized: lowest(|one| one.finalized),
            safe: lowest(|one| one.safe),
            ..heads
        };
        if lowered == heads {
            self.confirmed = Some([heads.finalized, heads.safe]);
            (self.since, self.has_warned) = (None, false);
        } else {
            self.since.get_or_insert(now);
        }
        lowered
    }

    /// Whether it is time to warn that endpoints differ; once.
    fn is_to_warn(&mut self, now: Instant) -> bool {
        let lasts = |since: Instant| now.duration_since(since) >= WARN_AFTER;
        let is_due = !self.has_warned && self.since.is_some_and(lasts);
        self.has_warned |= is_due;
        is_due
    }
}

impl EvmSource {
    /// The newest block of one endpoint, and what all call final.
    ///
    /// # Errors
    /// `Exhausted` where no endpoint answers.
    pub(super) async fn agreed_heads(&self) -> Result<Heads> {
        let first = self.first_answer(None, |source, endpoint| {
            let heads = source.heads_of(endpoint);
            async move { Ok((endpoint.name.clone(), heads.await?)) }.boxed()
        });
        let (name, mut heads) = first.await?;
        let archived = self.archived.load(Ordering::Relaxed);
        if heads.head.number < archived {
            // It was set back or is syncing: another one may not be.
            heads = self.heads_from(archived).await.unwrap_or(heads);
        }
        Ok(self.with_lowest_tags(&name, heads).await)
    }

    async fn with_lowest_tags(&self, from: &Arc<str>, heads: Heads) -> Heads {
        let endpoints = self.pool.endpoints();
        if endpoints.len() < 2 || self.settings.tags == Tags::NONE {
            return heads;
        }
        let tags = [heads.finalized, heads.safe];
        if self.finals.0.lock().confirmed == Some(tags) {
            return heads;
        }
        let others = endpoints.iter();
        let others = others.filter(|one| one.name != *from && one.is_healthy());
        let requests = others.map(|endpoint| self.heads_in_time(endpoint));
        let answers = futures::future::join_all(requests).await.into_iter();
        let answers = answers.flatten().chain([(from.clone(), heads)]).collect();
        let now = Instant::now();
        let mut finals = self.finals.0.lock();
        let lowered = finals.lowered(heads, answers, now);
        if finals.is_to_warn(now) {
            let number = |block: Option<BlockRef>| block.map(|block| block.number);
            tracing::warn!(
                chain = self.settings.chain_id,
                endpoint = %from,
                finalized = number(heads.finalized),
                safe = number(heads.safe),
                lowest_finalized = number(lowered.finalized),
                lowest_safe = number(lowered.safe),
                "endpoints call different blocks final: the lowest counts"
            );
        }
        lowered
    }

    /// The heads of another endpoint; none where it does not answer in time.
    async fn heads_in_time(&self, endpoint: &Arc<Endpoint>) -> Option<(Arc<str>, Heads)> {
        let request = async {
            self.admit(endpoint, None).await?;
            self.reader(endpoint).heads(self.settings.tags).await
        };
        let (heads, _) = self.in_time(endpoint, request).await?;
        Some((endpoint.name.clone(), heads))
    }
}

#[cfg(test)]
mod tests {
    use chronolith_model::Hash32;

    use super::*;

    fn block(number: u64) -> BlockRef {
        BlockRef {
            number,
            hash: Hash32([number as u8; 32]),
        }
    }

    fn heads(head: u64, finalized: Option<u64>) -> Heads {
        Heads {
            head: block(head),
            finalized: finalized.map(block),
            safe: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_lowest_tag_of_those_that_have_a_say_counts() {
        for (other, expected) in [
            (heads(1_000, Some(936)), 936),
            // One block below the tip it still counts.
            (heads(999, Some(936)), 936),
            (heads(1_001, Some(1_001)), 1_000),
            // It knows no such tag.
            (heads(1_000, None), 1_000),
            // It is syncing.
            (heads(800, Some(736)), 1_000),
        ] {
            let mut known = Known::default();
            let tip = heads(1_000, Some(1_000));
            let lowered = known.lowered(tip, vec![("two".into(), other)], Instant::now());
            assert_eq!(lowered, heads(1_000, Some(expected)), "{other:?}");
            assert_eq!(known.confirmed.is_some(), expected == 1_000);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_counts_for_a_while_and_differences_are_reported() {
        let mut known = Known::default();
        let tip = heads(1_000, Some(1_000));
        let two = vec![("two".into(), heads(1_000, Some(936)))];
        known.lowered(tip, two, Instant::now());
        tokio::time::advance(SILENT_WHILE / 2).await;
        let lowered = known.lowered(tip, Vec::new(), Instant::now());
        assert_eq!(lowered.finalized, Some(block(936)), "silent for a moment");
        assert!(!known.is_to_warn(Instant::now()));
        let later = Instant::now() + WARN_AFTER;
        assert!(known.is_to_warn(later) && !known.is_to_warn(later));
        tokio::time::advance(SILENT_WHILE).await;
        let lowered = known.lowered(tip, Vec::new(), Instant::now());
        assert_eq!(lowered, tip, "it is down and holds nothing up");
        assert!(!known.is_to_warn(later));
    }
}
