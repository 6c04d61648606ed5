//! How many rows a query looks at: the rarest clause decides, common clauses are left to the exact
//! check, and nothing is read behind the limit.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::collections::BTreeMap;

use bytes::Bytes;
use chronolith_archive::{Archive, Settings};
use chronolith_model::{BlockRange, ChainId, Clause, Log, LogFilter, Order};
use chronolith_sim::{ChainSpec, SimChain};
use support::{Stores, ingest};

/// The blocks that are asked for. More are written, so that all of these lie in sealed segments: in
/// a small batch every list is short, and short lists are intersected for nothing.
const RANGE: BlockRange = BlockRange { start: 0, end: 300 };
const WRITTEN: BlockRange = BlockRange { start: 0, end: 400 };

/// An archive of a few merged segments, and its logs.
struct Filled {
    archive: Archive,
    logs: Vec<Log>,
    /// The most frequent topic0.
    common: Bytes,
}

impl Filled {
    async fn new() -> Self {
        let chain = SimChain::new(ChainSpec {
            logs_per_block: 50,
            ..ChainSpec::mainnet(17)
        });
        let mut settings = Settings::evm(ChainId(1));
        settings.seal.weight = 2_000;
        settings.seal.fan_in = 4;
        let stores = Stores::memory();
        let writer = stores.writer(&settings).await;
        ingest(&writer, &chain, WRITTEN, &[20]).await;
        let logs: Vec<Log> = chain.blocks(RANGE).flat_map(|block| block.logs).collect();
        let counts = counts_of(&logs, 0);
        let common = counts.iter().max_by_key(|(_, count)| **count);
        let common = common.unwrap().0.clone();
        Self {
            archive: stores.reader(&settings).await,
            logs,
            common,
        }
    }

    /// Values at topic 1 that occur this often, in logs that all have the common topic0, or in logs
    /// of which none has it.
    fn rare(&self, occurs: usize, with_common: bool) -> Vec<Bytes> {
        let counts = counts_of(&self.logs, 1);
        let fits = |value: &Bytes| {
            let mut carrying = self.logs.iter().filter(|log| log.topic(1) == Some(value));
            carrying.all(|log| (log.topic(0) == Some(&self.common)) == with_common)
        };
        let rare = counts.into_iter().filter(|(_, count)| *count == occurs);
        rare.map(|(value, _)| value).filter(fits).take(20).collect()
    }

    async fn candidates(&self, filter: &LogFilter) -> (usize, u64) {
        let page = self.archive.query_finalized(filter).await.unwrap();
        (page.logs.len(), page.cost.candidates)
    }
}

fn counts_of(logs: &[Log], position: usize) -> BTreeMap<Bytes, usize> {
    let mut counts = BTreeMap::new();
    for topic in logs.iter().filter_map(|log| log.topic(position)) {
        *counts.entry(Bytes::copy_from_slice(topic)).or_default() += 1;
    }
    counts
}

fn filter(topics: &[Option<&Bytes>]) -> LogFilter {
    let clause = |value: &Option<&Bytes>| match value {
        Some(value) => Clause::OneOf(vec![(*value).clone()]),
        None => Clause::Any,
    };
    let mut filter = LogFilter::over(RANGE);
    filter.topics = topics.iter().map(clause).collect();
    filter
}

#[tokio::test]
async fn the_rarest_clause_decides_how_many_rows_are_looked_at() {
    let filled = Filled::new().await;
    let common = filled.logs.iter();
    let common = common.filter(|log| log.topic(0) == Some(&filled.common));
    assert!(common.count() > filled.logs.len() / 3, "not a common topic");
    let mut requested = 0;
    for occurs in 1..=6 {
        for value in filled.rare(occurs, true) {
            let both = filter(&[Some(&filled.common), Some(&value)]);
            assert_eq!(filled.candidates(&both).await, (occurs, occurs as u64));
            requested += 1;
        }
    }
    assert!(requested > 20, "only {requested} rare terms");
}

/// The index could rule these rows out, for a page of a third of all logs. Looking at the rows
/// costs less, and what it costs follows the rows that are left, not the blocks they lie in.
#[tokio::test]
async fn a_common_clause_is_left_to_the_check_of_the_rows_that_are_left() {
    let filled = Filled::new().await;
    let mut requested = 0;
    for occurs in 1..=2 {
        for value in filled.rare(occurs, false) {
            let both = filter(&[Some(&filled.common), Some(&value)]);
            assert_eq!(filled.candidates(&both).await, (0, occurs as u64));
            requested += 1;
        }
    }
    assert!(requested > 20, "only {requested} rare terms");
}

#[tokio::test]
async fn nothing_is_looked_at_behind_the_limit() {
    let filled = Filled::new().await;
    for order in [Order::Ascending, Order::Descending] {
        for limit in [1, 7, 100, 3_000] {
            for topics in [&[Some(&filled.common)] as &[_], &[]] {
                let mut few = filter(topics);
                (few.limit, few.order) = (Some(limit), order);
                let (logs, candidates) = filled.candidates(&few).await;
                assert_eq!(logs, limit);
                // One more tells whether there are more.
                assert_eq!(candidates, limit as u64 + 1, "{order:?} {topics:?}");
            }
        }
    }
}
