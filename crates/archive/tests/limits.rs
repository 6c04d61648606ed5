//! The budgets that end a query: each error names its budget and the largest range that fits.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/hooks.rs"]
mod hooks;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chronolith_archive::{Budget, Cache, Error, OrPolicy};
use chronolith_model::{BlockRange, Clause, ErrorKind, Log, LogFilter, Order, Select};
use chronolith_sim::Oracle;
use support::{Stores, assert_answers, ingest, oracle_of, tiny_chain, tiny_settings};

fn one_of(value: &[u8]) -> Clause {
    Clause::OneOf(vec![Bytes::copy_from_slice(value)])
}

/// The largest whole-block prefix, seen in the query's order, whose logs `fit`.
fn largest_prefix(
    oracle: &Oracle,
    filter: &LogFilter,
    range: BlockRange,
    fits: impl Fn(&[(u64, Log)]) -> bool,
) -> BlockRange {
    let prefix = |len: u64| match filter.order {
        Order::Ascending => BlockRange::new(range.start, range.start + len),
        Order::Descending => BlockRange::new(range.end - len, range.end),
    };
    let holds = |len: &u64| {
        let mut part = filter.clone();
        part.select = Select::Range(prefix(*len));
        fits(&oracle.query(&part).0)
    };
    // A single block is always servable.
    let most = (2..=range.len()).take_while(holds).last().unwrap_or(1);
    prefix(most)
}

/// Filters of several widths, in both orders.
fn filters(range: BlockRange) -> Vec<LogFilter> {
    let mut filters = Vec::new();
    let topics: [Vec<Clause>; 3] = [
        vec![],
        vec![one_of(&[0; 32])],
        vec![Clause::Any, one_of(&[0xff; 32])],
    ];
    for order in [Order::Ascending, Order::Descending] {
        for topics in &topics {
            let mut filter = LogFilter::over(range);
            (filter.order, filter.topics) = (order, topics.clone());
            filters.push(filter);
        }
    }
    filters
}

fn bytes_of(logs: &[(u64, Log)]) -> u64 {
    logs.iter().map(|(_, log)| log.byte_len() as u64).sum()
}

#[tokio::test]
async fn results_and_bytes_over_budget_name_the_largest_prefix_that_fits() {
    let whole = BlockRange::new(0, 150);
    let chain = tiny_chain(62);
    let oracle = oracle_of(&chain, whole);
    let stores = Stores::memory();
    ingest(&stores.writer(&tiny_settings()).await, &chain, whole, &[4]).await;
    let mut ended = 0;
    for (budget, limit) in [
        (Budget::Results, 1_u64),
        (Budget::Results, 40),
        (Budget::Results, 320),
        (Budget::Bytes, 100),
        (Budget::Bytes, 5_000),
        (Budget::Bytes, 60_000),
    ] {
        let mut settings = tiny_settings();
        match budget {
            Budget::Results => settings.limits.results_max = limit as usize,
            _ => settings.limits.bytes_max = limit,
        }
        let reader = stores.reader(&settings).await;
        let within = |logs: &[(u64, Log)]| match budget {
            Budget::Results => logs.len() as u64 <= limit,
            // A log that is larger than the budget by itself is still an answer.
            _ => bytes_of(logs) <= limit || logs.len() == 1,
        };
        for range in [whole, BlockRange::new(31, 97), BlockRange::new(60, 62)] {
            for filter in filters(range) {
                let expected = largest_prefix(&oracle, &filter, range, within);
                let answer = reader.query_finalized(&filter).await;
                if expected == range {
                    assert_answers(&answer.unwrap(), &oracle, &filter);
                    continue;
                }
                let error = answer.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TooLarge);
                let named = format!("query exceeds {budget} ({limit}); retry with blocks ");
                assert!(error.to_string().starts_with(&named), "{error}");
                let Error::TooLarge {
                    budget: which,
                    fits,
                    ..
                } = error
                else {
                    panic!("{error}");
                };
                assert_eq!(
                    (which, fits),
                    (budget, Some(expected)),
                    "{filter:?}, {limit}"
                );
                let mut retried = filter.clone();
                retried.select = Select::Range(expected);
                let page = reader.query_finalized(&retried).await.unwrap();
                assert_answers(&page, &oracle, &retried);
                ended += 1;
            }
        }
        for number in whole.start..whole.end {
            let one = LogFilter::over(BlockRange::one(number));
            let page = reader.query_finalized(&one).await.unwrap();
            assert_answers(&page, &oracle, &one);
        }
    }
    assert!(ended > 40, "the budgets ended only {ended} queries");
}

#[tokio::test]
async fn a_single_block_is_served_whatever_it_costs() {
    let chain = tiny_chain(62);
    let whole = BlockRange::new(0, 150);
    let oracle = oracle_of(&chain, whole);
    let stores = Stores::memory();
    ingest(&stores.writer(&tiny_settings()).await, &chain, whole, &[4]).await;
    let mut settings = tiny_settings();
    settings.limits.results_max = 1;
    settings.limits.bytes_max = 1;
    settings.limits.candidates_max = 1;
    let reader = stores.reader(&settings).await;
    for number in whole.start..whole.end {
        let one = LogFilter::over(BlockRange::one(number));
        let page = reader.query_finalized(&one).await.unwrap();
        assert_answers(&page, &oracle, &one);
    }
}

#[tokio::test]
async fn candidates_over_budget_name_a_smaller_range_that_works() {
    let chain = tiny_chain(63);
    let whole = BlockRange::new(0, 150);
    let oracle = oracle_of(&chain, whole);
    let stores = Stores::memory();
    ingest(&stores.writer(&tiny_settings()).await, &chain, whole, &[4]).await;
    let mut ended = 0;
    for limit in [1, 25, 400] {
        let mut settings = tiny_settings();
        settings.limits.candidates_max = limit;
        let reader = stores.reader(&settings).await;
        for filter in filters(whole) {
            let answer = reader.query_finalized(&filter).await;
            let Err(Error::TooLarge {
                budget,
                fits: Some(fits),
                ..
            }) = answer
            else {
                let page = answer.unwrap();
                assert!(page.cost.candidates <= limit, "{:?}", page.cost);
                continue;
            };
            assert_eq!(budget, Budget::Candidates);
            assert!(fits.len() < whole.len() && whole.covers(&fits), "{fits}");
            let mut retried = filter.clone();
            retried.select = Select::Range(fits);
            let page = reader.query_finalized(&retried).await;
            let page = page.unwrap_or_else(|error| panic!("{fits} was promised: {error}"));
            assert_answers(&page, &oracle, &retried);
            ended += 1;
        }
    }
    assert!(ended > 5, "the budget ended only {ended} queries");
}

#[tokio::test]
async fn a_deadline_is_named_and_the_range_it_names_is_smaller() {
    let chain = tiny_chain(64);
    let whole = BlockRange::new(0, 80);
    let stores = Stores::memory();
    ingest(&stores.writer(&tiny_settings()).await, &chain, whole, &[4]).await;
    let mut settings = tiny_settings();
    settings.limits.timeout = Duration::ZERO;
    let hasty = stores.reader(&settings).await;
    let patient = stores.reader(&tiny_settings()).await;
    for filter in filters(whole) {
        let error = hasty.query_finalized(&filter).await.unwrap_err();
        let Error::TooLarge {
            budget,
            limit,
            fits: Some(fits),
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((budget, limit), (Budget::Deadline, 0));
        assert!(fits.len() < whole.len() && whole.covers(&fits), "{fits}");
        let mut retried = filter.clone();
        retried.select = Select::Range(fits);
        patient.query_finalized(&retried).await.unwrap();
    }
}

#[tokio::test]
async fn too_many_alternatives_are_refused_or_scanned_and_never_cut() {
    let chain = tiny_chain(65);
    let whole = BlockRange::new(0, 100);
    let oracle = oracle_of(&chain, whole);
    let stores = Stores::memory();
    ingest(&stores.writer(&tiny_settings()).await, &chain, whole, &[4]).await;
    let mut settings = tiny_settings();
    settings.limits.or_terms_max = 2;
    let refusing = stores.reader(&settings).await;
    settings.limits.or_policy = OrPolicy::BlockScan;
    let scanning = stores.reader(&settings).await;
    let topics = |fills: &[u8]| {
        let topics = fills.iter().map(|&fill| Bytes::from(vec![fill; 32]));
        Clause::OneOf(topics.collect())
    };
    let mut found = 0;
    for wide in [
        vec![topics(&[0, 0xff, 0x12])],
        vec![Clause::Any, topics(&[0x12, 0x13, 0x14, 0x77])],
        vec![topics(&[0]), topics(&[0, 0xff, 0x13])],
        vec![topics(&[0, 1, 2]), topics(&[0, 0xff, 0x13]), Clause::Any],
    ] {
        let mut filter = LogFilter::over(whole);
        filter.topics = wide;
        let answer = refusing.query_finalized(&filter).await;
        assert!(
            matches!(
                answer,
                Err(Error::TooBroad {
                    actual: 3..,
                    max: 2
                })
            ),
            "{answer:?}"
        );
        let page = scanning.query_finalized(&filter).await.unwrap();
        assert_answers(&page, &oracle, &filter);
        found += page.logs.len();
    }
    assert!(found > 20, "{found}");
    let mut narrow = LogFilter::over(whole);
    narrow.topics = vec![topics(&[0, 0xff, 0, 0xff])];
    let page = refusing.query_finalized(&narrow).await.unwrap();
    assert_answers(&page, &oracle, &narrow);
}

/// A scan of logs that are all in memory has nothing to wait for: it must let others in by itself.
#[tokio::test]
async fn a_scan_lets_others_in() {
    let (chain, stores) = (tiny_chain(65), Stores::memory());
    let mut settings = tiny_settings();
    settings.seal.weight = 20_000;
    settings.seal.grid_blocks = 100_000;
    settings.seal.range_blocks = 100_000;
    settings.cache = Cache::of_bytes(256 << 20);
    settings.limits.or_terms_max = 1;
    settings.limits.or_policy = OrPolicy::BlockScan;
    let archive = stores.writer(&settings).await;
    let whole = BlockRange::new(0, 12_000);
    ingest(&archive, &chain, whole, &[4_000]).await;
    let mut filter = LogFilter::over(whole);
    let absent = [0x98, 0x99].map(|fill| Bytes::from(vec![fill; 32]));
    filter.topics = vec![Clause::OneOf(absent.to_vec())];
    let cold = archive.query_finalized(&filter).await.unwrap();
    assert!(cold.cost.candidates > 20_000, "{:?}", cold.cost);
    // With a limit, few rows are looked at in one go.
    for limit in [None, Some(3)] {
        filter.limit = limit;
        let turns = AtomicU64::new(0);
        let other = async {
            loop {
                turns.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            page = archive.query_finalized(&filter) => assert!(page.unwrap().logs.is_empty()),
            () = other => {}
        }
        let turns = turns.into_inner();
        assert!(turns >= 10, "{turns} turns, {:?}", cold.cost);
    }
}

/// Segments without candidates take time, too.
#[tokio::test(start_paused = true)]
async fn a_slow_store_does_not_outlast_the_deadline() {
    let chain = tiny_chain(64);
    let whole = BlockRange::new(0, 150);
    let stores = Stores::memory();
    ingest(&stores.writer(&tiny_settings()).await, &chain, whole, &[4]).await;
    let slow: hooks::Hook =
        Arc::new(|_, _, _| Box::pin(tokio::time::sleep(Duration::from_secs(2))));
    let mut settings = tiny_settings();
    settings.limits.timeout = Duration::from_secs(5);
    settings.limits.concurrency = 1;
    let reader = hooks::hooked(&stores, slow).reader(&settings).await;
    let started = tokio::time::Instant::now();
    let mut absent = LogFilter::over(whole);
    absent.emitters = one_of(b"absent");
    let answer = reader.query_finalized(&absent).await;
    let took = started.elapsed();
    assert!(
        matches!(
            answer,
            Err(Error::TooLarge {
                budget: Budget::Deadline,
                ..
            })
        ),
        "after {took:?}: {answer:?}"
    );
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test]
async fn the_largest_limit_is_a_limit() {
    let chain = tiny_chain(62);
    let whole = BlockRange::new(0, 20);
    let oracle = oracle_of(&chain, whole);
    let stores = Stores::memory();
    ingest(&stores.writer(&tiny_settings()).await, &chain, whole, &[4]).await;
    let reader = stores.reader(&tiny_settings()).await;
    let mut filter = LogFilter::over(whole);
    filter.limit = Some(usize::MAX);
    let page = reader.query_finalized(&filter).await.unwrap();
    assert_answers(&page, &oracle, &filter);
}
