//! Whether a rule that a block does not follow is wrong, or the endpoint that showed the block.
//!
//! A rule that fails for the same block in the same way on every endpoint is evidence against the rule.
//! One endpoint alone is asked several times, over a while: it may have been a bad moment.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chronolith_model::Hash32;
use tokio::time::Instant;

use super::rules::Rule;
use super::source::EvmSource;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::meters;
use crate::source::DroppedRule;

/// How often, and over how long, a lone endpoint must show the same before its chain is believed to
/// have another rule.
const LONE_TRIES: u32 = 3;
const LONE_WHILE: Duration = Duration::from_secs(20);

/// Blocks whose failures are remembered.
const BLOCKS_MAX: usize = 64;

/// What failed on one endpoint.
#[derive(Debug)]
struct Shown {
    computed: Hash32,
    tries: u32,
    since: Instant,
}

/// Failures of one block.
#[derive(Debug)]
struct Failures {
    failed: (u64, Rule),
    by_endpoint: HashMap<Arc<str>, Shown>,
}

/// Collects failures of rules, and what came of them.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Of the blocks that failed last: many ranges are fetched at once, and their failures mix.
    failures: Mutex<VecDeque<Failures>>,
    dropped: Mutex<Vec<DroppedRule>>,
}

impl Evidence {
    /// Rules that were dropped, the first one first.
    pub(crate) fn dropped(&self) -> Vec<DroppedRule> {
        let dropped = self.dropped.lock();
        dropped.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_dropped(&self, (block, rule): (u64, Rule), what: &str) {
        let dropped = self.dropped.lock();
        let mut dropped = dropped.unwrap_or_else(PoisonError::into_inner);
        dropped.push(DroppedRule {
            rule: rule.name(),
            block,
            what: what.to_owned(),
        });
    }

    /// Notes that a block failed a rule at an endpoint, one of so many that may be asked. Whether the
    /// rule is to be dropped.
    pub(crate) fn note(
        &self,
        endpoint: &Arc<str>,
        (number, rule): (u64, Rule),
        computed: Hash32,
        endpoints: usize,
    ) -> bool {
        let mut blocks = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = (number, rule);
        let at = blocks.iter().position(|known| known.failed == failed);
        let mut failures = at.and_then(|at| blocks.remove(at)).unwrap_or(Failures {
            failed,
            by_endpoint: HashMap::new(),
        });
        let shown = failures.by_endpoint.entry(endpoint.clone());
        let shown = shown.or_insert_with(|| Shown {
            computed,
            tries: 0,
            since: Instant::now(),
        });
        if shown.computed != computed {
            *shown = Shown {
                computed,
                tries: 0,
                since: Instant::now(),
            };
        }
        shown.tries += 1;
        let lasts = shown.tries >= LONE_TRIES && shown.since.elapsed() >= LONE_WHILE;
        let alike = failures
            .by_endpoint
            .values()
            .all(|shown| shown.computed == computed);
        let is_wrong = alike && failures.by_endpoint.len() >= endpoints && (endpoints > 1 || lasts);
        blocks.push_back(failures);
        if blocks.len() > BLOCKS_MAX {
            blocks.pop_front();
        }
        is_wrong
    }
}

impl EvmSource {
    /// A block does not follow a rule. If every endpoint shows the same, the rule is wrong here: the
    /// chain goes on one level lower. Else the endpoint is.
    pub(super) fn rule_failed(&self, endpoint: &Endpoint, error: &Error) {
        let Error::RuleFailed {
            number,
            rule,
            what,
            computed,
            ..
        } = error
        else {
            return;
        };
        let (chain, endpoints) = (self.settings.chain_id, self.pool.endpoints());
        let failed = (*number, *rule);
        let name = &endpoint.name;
        if self.evidence.note(name, failed, *computed, endpoints.len()) {
            if self.verifier.drop_rule(*rule) {
                self.evidence.note_dropped(failed, what);
                let (block, rule) = (number, rule.name());
                tracing::error!(
                    chain,
                    block,
                    rule,
                    what,
                    "verification rule dropped: it fails on every endpoint, blocks get a lower level"
                );
                meters::rule_dropped(chain, rule).set(1.0);
            }
            endpoints.iter().for_each(|endpoint| endpoint.forgive());
        } else if endpoints.len() == 1 {
            // It is asked again soon: nothing else can tell whether the rule or the answer is wrong.
            endpoint.failed(error);
        } else {
            endpoint.lied(&error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILED: (u64, Rule) = (7, Rule::ReceiptsRoot);
    const A: Hash32 = Hash32([0xa; 32]);
    const C: Hash32 = Hash32([0xc; 32]);

    fn names() -> [Arc<str>; 2] {
        ["one".into(), "two".into()]
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_that_fail_alike_speak_against_the_rule() {
        let [one, two] = names();
        let evidence = Evidence::default();
        assert!(!evidence.note(&one, FAILED, A, 2));
        assert!(!evidence.note(&one, FAILED, A, 2));
        assert!(evidence.note(&two, FAILED, A, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn endpoints_that_fail_differently_speak_against_one_of_them() {
        let [one, two] = names();
        let evidence = Evidence::default();
        assert!(!evidence.note(&one, FAILED, A, 2));
        assert!(!evidence.note(&two, FAILED, C, 2));
        assert!(!evidence.note(&one, FAILED, A, 2));
        // Another block is another question.
        assert!(!evidence.note(&one, (8, Rule::ReceiptsRoot), A, 2));
        assert!(evidence.note(&two, (8, Rule::ReceiptsRoot), A, 2));
    }

    /// Ranges are fetched at the same time. The failures of one took those of another away, so that no rule
    /// was ever seen to fail on both endpoints.
    #[tokio::test(start_paused = true)]
    async fn failures_of_several_blocks_are_kept_apart() {
        let [one, two] = names();
        let evidence = Evidence::default();
        for number in 0..BLOCKS_MAX as u64 {
            assert!(!evidence.note(&one, (number, Rule::ReceiptsRoot), A, 2));
        }
        for number in (0..BLOCKS_MAX as u64).rev() {
            assert!(evidence.note(&two, (number, Rule::ReceiptsRoot), A, 2));
        }
        assert!(!evidence.note(&one, (0, Rule::Bloom), A, 2));
        assert_eq!(evidence.failures.lock().unwrap().len(), BLOCKS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lone_endpoint_is_asked_again_for_a_while() {
        let [one, _] = names();
        let evidence = Evidence::default();
        for _ in 0..5 {
            assert!(!evidence.note(&one, FAILED, A, 1));
        }
        tokio::time::advance(LONE_WHILE).await;
        assert!(evidence.note(&one, FAILED, A, 1));
        // What changes from answer to answer is the endpoint's fault.
        let evidence = Evidence::default();
        for answer in 0..9 {
            tokio::time::advance(LONE_WHILE).await;
            assert!(!evidence.note(&one, FAILED, Hash32([answer; 32]), 1));
        }
    }
}
