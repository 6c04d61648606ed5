//! Queries against a naive scan, with tiers so small that every boundary is crossed.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use bytes::Bytes;
use chronolith_archive::Error;
use chronolith_model::{BlockRange, Clause, LogFilter, Order, Select, TopicArity};
use chronolith_sim::{Oracle, SimChain};
use proptest::prelude::*;
use support::{Stores, assert_answers, ingest, oracle_of, tiny_chain, tiny_settings};

const BLOCKS: u64 = 220;

/// A filter drawn from what the chain holds, so that most of them match something.
fn filters(chain: &SimChain, range: BlockRange) -> impl Strategy<Value = LogFilter> + use<> {
    let logs: Vec<_> = chain.blocks(range).flat_map(|block| block.logs).collect();
    let mut emitters: Vec<Bytes> = logs
        .iter()
        .map(|log| Bytes::copy_from_slice(log.emitter()))
        .collect();
    emitters.sort();
    emitters.dedup();
    emitters.push(Bytes::from_static(b"absent"));
    let topic = |position: usize| {
        let mut topics: Vec<Bytes> = logs
            .iter()
            .filter_map(|log| log.topic(position).map(Bytes::copy_from_slice))
            .collect();
        topics.sort();
        topics.dedup();
        topics.truncate(40);
        topics.push(Bytes::from_static(b"absent"));
        clause(topics)
    };
    let topics =
        (topic(0), topic(1), topic(2), topic(3), 0usize..=4).prop_map(|(a, b, c, d, positions)| {
            let mut topics = vec![a, b, c, d];
            topics.truncate(positions);
            topics
        });
    let hashes: Vec<_> = (range.start..range.end)
        .map(|number| chain.block_hash(number))
        .collect();
    let bounds = (range.start..=range.end, range.start..=range.end);
    let ranges = bounds.prop_map(|(a, b)| Select::Range(BlockRange::new(a.min(b), a.max(b))));
    let select = prop_oneof![
        3 => Just(Select::Range(range)),
        6 => ranges,
        1 => proptest::sample::select(hashes).prop_map(Select::Block),
    ];
    let limit = prop_oneof![Just(None), (1usize..40).prop_map(Some), Just(Some(100_000))];
    let order = prop_oneof![Just(Order::Ascending), Just(Order::Descending)];
    let arity = prop_oneof![4 => Just(TopicArity::AtLeast), 1 => Just(TopicArity::Exact)];
    (select, clause(emitters), topics, arity, limit, order).prop_map(
        |(select, emitters, topics, arity, limit, order)| LogFilter {
            select,
            emitters,
            topics,
            arity,
            limit,
            cursor: None,
            order,
        },
    )
}

fn clause(values: Vec<Bytes>) -> impl Strategy<Value = Clause> {
    let some = proptest::collection::vec(proptest::sample::select(values), 0..4);
    prop_oneof![2 => Just(Clause::Any), 3 => some.prop_map(Clause::OneOf)]
}

async fn pages(archive: &chronolith_archive::Archive, filter: &LogFilter) -> usize {
    let mut whole = filter.clone();
    whole.limit = Some(1_000_000);
    let expected = archive.query_finalized(&whole).await.unwrap().logs;
    let mut filter = filter.clone();
    let mut got = Vec::new();
    let mut count = 0;
    loop {
        let page = archive.query_finalized(&filter).await.unwrap();
        count += 1;
        got.extend(page.logs);
        match page.next {
            Some(next) => filter.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(got, expected, "pages of {filter:?}");
    count
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

#[test]
fn every_filter_shape_equals_the_naive_scan() {
    for (seed, start) in [(1, 0), (2, 5_000)] {
        let chain = tiny_chain(seed);
        let range = BlockRange::new(start, start + BLOCKS);
        let oracle: Oracle = oracle_of(&chain, range);
        let mut settings = tiny_settings();
        settings.limits.results_max = 1_000_000;
        let runtime = runtime();
        let archive = runtime.block_on(async {
            let archive = Stores::memory().writer(&settings).await;
            ingest(&archive, &chain, range, &[1, 7, 2, 30]).await;
            archive
        });
        let tiers = archive.health().tiers;
        assert!(
            tiers.len() > 3 && tiers[3] > 0 && tiers[..3].iter().sum::<usize>() > 0,
            "{tiers:?}"
        );
        let mut hits = 0;
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(400));
        let hits_cell = std::cell::RefCell::new(&mut hits);
        runner
            .run(&filters(&chain, range), |filter| {
                runtime.block_on(async {
                    let page = archive.query_finalized(&filter).await.unwrap();
                    assert_answers(&page, &oracle, &filter);
                    **hits_cell.borrow_mut() += page.logs.len();
                    if filter.limit.is_some_and(|limit| limit < 1000) {
                        pages(&archive, &filter).await;
                    }
                });
                Ok(())
            })
            .unwrap();
        assert!(hits > 10_000, "the filters hit too little: {hits}");
    }
}

#[tokio::test]
async fn uncovered_blocks_are_an_error_and_never_a_shorter_answer() {
    let chain = tiny_chain(3);
    let archive = Stores::memory().writer(&tiny_settings()).await;
    let empty = archive
        .query_finalized(&LogFilter::over(BlockRange::new(0, 1)))
        .await;
    assert!(matches!(empty, Err(Error::NotCovered { .. })), "{empty:?}");
    ingest(&archive, &chain, BlockRange::new(10, 60), &[9]).await;
    for (start, end, missing) in [(9, 12, (9, 10)), (55, 61, (60, 61)), (70, 90, (70, 90))] {
        let answer = archive
            .query_finalized(&LogFilter::over(BlockRange::new(start, end)))
            .await;
        let Err(Error::NotCovered {
            missing: got,
            covered,
        }) = answer
        else {
            panic!("{start}..{end}: {answer:?}");
        };
        assert_eq!(got, BlockRange::new(missing.0, missing.1));
        assert_eq!(covered, BlockRange::new(10, 60));
    }
    let inside = archive
        .query_finalized(&LogFilter::over(BlockRange::new(10, 60)))
        .await;
    assert!(inside.is_ok());
}
