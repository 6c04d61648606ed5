//! Whether a rule that a block does not follow is wrong, or the endpoint that showed the block.
//!
//! A rule that fails for the same block in the same way on every endpoint is evidence against the rule.
//! A single endpoint is tried several times, over a while: it may have been a bad moment. Heads move on
//! before they are requested again, so several blocks that fail while none follows the rule count as well.
//! Endpoints that cannot show the block are not waited for, and those that do not answer only for a while.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chronolith_model::Hash32;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::fetch::GET_RECEIPTS;
use super::rules::Rule;
use super::source::EvmSource;
use crate::error::Error;
use crate::jsonrpc::endpoint::Endpoint;
use crate::meters;
use crate::source::DroppedRule;

/// How often, and over how long, a lone endpoint must show the same before its chain is believed to
/// have another rule. As many blocks count where each fails once.
const LONE_TRIES: u32 = 3;
const LONE_WHILE: Duration = Duration::from_secs(20);

/// How long endpoints that show nothing of a block are waited for: one may just be starting again.
const SILENT_WHILE: Duration = Duration::from_secs(300);

/// Blocks of which failures are kept. Parts of history that run at once are far fewer.
const BLOCKS_MAX: usize = 256;

/// What failed on one endpoint.
#[derive(Debug)]
struct Seen {
    computed: Hash32,
    tries: u32,
    since: Instant,
}

/// Failures of one block by one rule.
#[derive(Debug)]
struct Failures {
    by_endpoint: HashMap<Arc<str>, Seen>,
    last: Instant,
}

/// Failures of one rule in a row, whatever the block.
#[derive(Debug)]
struct Run {
    /// How many blocks had followed the rule when it began.
    held: u64,
    since: Instant,
    blocks: BTreeSet<u64>,
    endpoints: HashSet<Arc<str>>,
}

#[derive(Debug, Default)]
struct Known {
    blocks: HashMap<(u64, Rule), Failures>,
    runs: HashMap<Rule, Run>,
}

/// A block that failed a rule at an endpoint.
#[derive(Debug)]
pub(crate) struct Failure<'a> {
    pub(crate) endpoint: &'a Arc<str>,
    pub(crate) number: u64,
    pub(crate) rule: Rule,
    pub(crate) computed: Hash32,
    /// How many blocks have followed the rule so far.
    pub(crate) held: u64,
}

/// How many blocks followed each rule, without those where nothing could fail.
#[derive(Debug, Default)]
pub(crate) struct Held([AtomicU64; Rule::ALL.len()]);

impl Held {
    pub(crate) fn note(&self, rule: Rule) {
        self.counter(rule).fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self, rule: Rule) -> u64 {
        self.counter(rule).load(Ordering::Relaxed)
    }

    #[expect(clippy::indexing_slicing, reason = "there is a counter for each rule")]
    fn counter(&self, rule: Rule) -> &AtomicU64 {
        &self.0[rule as usize]
    }
}

/// Collects failures of rules, and what came of them.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    known: Mutex<Known>,
    dropped: Mutex<Vec<DroppedRule>>,
}

impl Evidence {
    /// Rules that were dropped, the first one first.
    pub(crate) fn dropped(&self) -> Vec<DroppedRule> {
        self.dropped.lock().clone()
    }

    fn note_dropped(&self, block: u64, rule: Rule, what: &str) {
        let mut dropped = self.dropped.lock();
        dropped.push(DroppedRule {
            rule: rule.name(),
            block,
            what: what.to_owned(),
        });
    }

    /// Notes a failure. Whether the rule is to be dropped, where these endpoints can show its failures.
    pub(crate) fn note(&self, failure: &Failure<'_>, endpoints: &[Arc<str>]) -> bool {
        let of_run = self.known.lock().note_run(failure, endpoints);
        self.known.lock().note_block(failure);
        of_run || self.speaks_against((failure.number, failure.rule), endpoints)
    }

    /// Whether what these endpoints showed of one block speaks against the rule: all that showed it
    /// failed alike, and none is left that may yet show another one.
    pub(crate) fn speaks_against(&self, block: (u64, Rule), endpoints: &[Arc<str>]) -> bool {
        let known = self.known.lock();
        let Some(Failures { by_endpoint, .. }) = known.blocks.get(&block) else {
            return false;
        };
        let mut seen = by_endpoint.values();
        let Some(first) = seen.next() else {
            return false;
        };
        let alike = seen.all(|one| one.computed == first.computed);
        let silent = endpoints.iter().any(|name| !by_endpoint.contains_key(name));
        let lasts = |time: Duration| {
            let mut seen = by_endpoint.values();
            seen.any(|one| one.tries >= LONE_TRIES && one.since.elapsed() >= time)
        };
        alike
            && match (silent, by_endpoint.len()) {
                (true, _) => lasts(SILENT_WHILE),
                (false, 1) => lasts(LONE_WHILE),
                (false, _) => true,
            }
    }
}

impl Known {
    fn note_block(&mut self, failure: &Failure<'_>) {
        let now = Instant::now();
        let block = (failure.number, failure.rule);
        if self.blocks.len() >= BLOCKS_MAX && !self.blocks.contains_key(&block) {
            let oldest = self.blocks.iter().min_by_key(|(_, one)| one.last);
            if let Some(oldest) = oldest.map(|(block, _)| *block) {
                self.blocks.remove(&oldest);
            }
        }
        let failures = self.blocks.entry(block).or_insert_with(|| Failures {
            by_endpoint: HashMap::new(),
            last: now,
        });
        failures.last = now;
        let first = || Seen {
            computed: failure.computed,
            tries: 0,
            since: now,
        };
        let seen = failures.by_endpoint.entry(failure.endpoint.clone());
        let seen = seen.or_insert_with(first);
        if seen.computed != failure.computed {
            *seen = first();
        }
        seen.tries += 1;
    }

    /// Whether enough blocks failed in a row, at every endpoint that may show them, that it does not
    /// matter that no block was seen twice.
    fn note_run(&mut self, failure: &Failure<'_>, endpoints: &[Arc<str>]) -> bool {
        let begin = || Run {
            held: failure.held,
            since: Instant::now(),
            blocks: BTreeSet::new(),
            endpoints: HashSet::new(),
        };
        let run = self.runs.entry(failure.rule).or_insert_with(begin);
        if run.held != failure.held {
            *run = begin();
        }
        if run.blocks.len() < LONE_TRIES as usize {
            run.blocks.insert(failure.number);
        }
        run.endpoints.insert(failure.endpoint.clone());
        let silent = endpoints.iter().any(|name| !run.endpoints.contains(name));
        let time = if silent { SILENT_WHILE } else { LONE_WHILE };
        run.blocks.len() >= LONE_TRIES as usize && run.since.elapsed() >= time
    }
}

impl EvmSource {
    /// A block does not follow a rule. If every endpoint shows the same, the rule is wrong here: the
    /// chain continues one level lower. Else the endpoint is.
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
        let endpoints = self.endpoints_for(*rule);
        let failure = Failure {
            endpoint: &endpoint.name,
            number: *number,
            rule: *rule,
            computed: *computed,
            held: self.verifier.held().count(*rule),
        };
        if self.evidence.note(&failure, &endpoints) {
            if self.verifier.drop_rule(*rule) {
                self.evidence.note_dropped(*number, *rule, what);
                let (chain, block, rule) = (self.settings.chain_id, number, rule.name());
                tracing::error!(
                    chain,
                    block,
                    rule,
                    what,
                    "verification rule dropped: it fails on every endpoint, blocks get a lower level"
                );
                meters::rule_dropped(chain, rule).set(1.0);
            }
            for endpoint in self.pool.endpoints() {
                endpoint.end_suspension();
            }
        } else if endpoints.len() == 1 {
            // It gets another request soon: nothing else can show whether the rule or the answer is wrong.
            endpoint.failed(error);
        } else {
            endpoint.report_bad(&error.to_string());
        }
    }

    /// Endpoints that can show failures of a rule: without receipts none can fail their root.
    fn endpoints_for(&self, rule: Rule) -> Vec<Arc<str>> {
        let can =
            |endpoint: &&Arc<Endpoint>| rule != Rule::ReceiptsRoot || endpoint.has(GET_RECEIPTS);
        let endpoints = self.pool.endpoints().iter().filter(can);
        endpoints.map(|endpoint| endpoint.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
