//! The oracle's semantics, row by row.

use bytes::Bytes;
use chronolith_model::{BlockRange, BlockRef, Clause, LogParts, Payload, TopicArity};

use super::*;

const HASHES: u8 = 100;

/// Block `number` at `timestamp`, with one log for each list of topics, each in its own
/// transaction, emitted by `e`.
fn block(number: u8, timestamp: u64, logs: &[&[&[u8]]]) -> Block {
    let log = |(index, topics): (u32, &&[&[u8]])| {
        Log::new(&LogParts {
            tx_index: index,
            log_index: index,
            emitter: b"e",
            topics,
            ..LogParts::default()
        })
        .unwrap()
    };
    let tx = |index: u32| Tx {
        index,
        hash: Hash32([number * 10 + index as u8; 32]),
    };
    Block {
        clock: BlockMeta {
            number: number.into(),
            hash: Hash32([HASHES + number; 32]),
            parent_hash: Hash32::ZERO,
            timestamp,
        },
        txs: (0..logs.len() as u32).map(tx).collect(),
        logs: (0..).zip(logs).map(log).collect(),
        payload: Payload::default(),
    }
}

/// Logs (block, index): 1.0 [a b], 1.1 [a], 2 is empty, 3.0 [], 3.1 [b a], 3.2 [a].
fn oracle() -> Oracle {
    let mut oracle = Oracle::new();
    oracle.push(block(3, 30, &[&[], &[b"b", b"a"], &[b"a"]]));
    oracle.push(block(1, 20, &[&[b"a", b"b"], &[b"a"]]));
    oracle.push(block(2, 20, &[]));
    oracle
}

fn one(value: &'static [u8]) -> Clause {
    Clause::OneOf(vec![Bytes::from_static(value)])
}

fn all() -> LogFilter {
    LogFilter::over(BlockRange::new(0, 10))
}

fn cursor(number: u64, log_index: u32) -> Option<Cursor> {
    Some(Cursor {
        block: BlockRef {
            number,
            hash: Hash32::ZERO,
        },
        log_index,
    })
}

#[track_caller]
fn check(filter: &LogFilter, expected: &[(u64, u32)], more: bool) {
    let (logs, has_more) = oracle().query(filter);
    let places = logs.iter().map(|(number, log)| (*number, log.log_index()));
    assert_eq!(places.collect::<Vec<_>>(), expected, "{filter:?}");
    assert_eq!(has_more, more, "{filter:?}");
}

#[test]
fn select_and_topics() {
    let everything = [(1, 0), (1, 1), (3, 0), (3, 1), (3, 2)];
    check(&all(), &everything, false);
    let narrow = LogFilter::over(BlockRange::new(1, 3));
    check(&narrow, &[(1, 0), (1, 1)], false);
    let by_hash = |hash| LogFilter {
        select: Select::Block(Hash32([hash; 32])),
        ..all()
    };
    check(&by_hash(HASHES + 1), &[(1, 0), (1, 1)], false);
    check(&by_hash(HASHES + 9), &[], false);
    let topics = |topics: &[Clause]| LogFilter {
        topics: topics.to_vec(),
        ..all()
    };
    let exactly = |wanted: &[Clause]| LogFilter {
        arity: TopicArity::Exact,
        ..topics(wanted)
    };
    let a = [one(b"a")];
    check(&topics(&a), &[(1, 0), (1, 1), (3, 2)], false);
    check(&exactly(&a), &[(1, 1), (3, 2)], false);
    let any_two = [Clause::Any, Clause::Any];
    check(&topics(&any_two), &[(1, 0), (3, 1)], false);
    check(&exactly(&[Clause::Any]), &[(1, 1), (3, 2)], false);
    check(&topics(&[Clause::OneOf(vec![])]), &[], false);
    let unknown = LogFilter {
        emitters: one(b"f"),
        ..all()
    };
    check(&unknown, &[], false);
}

#[test]
fn limit_order_and_cursor() {
    let page = |order, limit, cursor| LogFilter {
        order,
        limit: Some(limit),
        cursor,
        ..all()
    };
    let check = |filter, expected: &[(u64, u32)], more| {
        check(&filter, expected, more);
    };
    let (up, down) = (Order::Ascending, Order::Descending);
    check(page(up, 0, None), &[], true);
    check(page(up, 2, None), &[(1, 0), (1, 1)], true);
    check(page(up, 3, cursor(1, 1)), &[(3, 0), (3, 1), (3, 2)], false);
    check(page(up, 9, cursor(3, 2)), &[], false);
    check(page(up, 1, cursor(2, 0)), &[(3, 0)], true);
    check(page(down, 2, None), &[(3, 2), (3, 1)], true);
    check(
        page(down, 9, cursor(3, 1)),
        &[(3, 0), (1, 1), (1, 0)],
        false,
    );
    check(page(down, 1, cursor(1, 0)), &[], false);
}

#[test]
fn blocks_and_transactions() {
    let oracle = oracle();
    let number = |block: Option<&Block>| block.map(|block| block.clock.number);
    assert_eq!(number(oracle.block(2)), Some(2));
    assert_eq!(number(oracle.block(4)), None);
    assert_eq!(
        number(oracle.block_by_hash(Hash32([HASHES + 3; 32]))),
        Some(3)
    );
    assert_eq!(number(oracle.block_by_hash(Hash32::ZERO)), None);
    for (time, before, after) in [
        (19, None, Some(1)),
        (20, Some(2), Some(1)),
        (21, Some(2), Some(3)),
        (30, Some(3), Some(3)),
        (31, Some(3), None),
    ] {
        assert_eq!(number(oracle.block_at_or_before(time)), before, "{time}");
        assert_eq!(number(oracle.block_at_or_after(time)), after, "{time}");
    }
    let (block, tx) = oracle.transaction(Hash32([31; 32])).unwrap();
    assert_eq!((block.clock.number, tx.index), (3, 1));
    assert!(oracle.transaction(Hash32([99; 32])).is_none());
    assert_eq!(oracle.head().unwrap().number, 3);
}

#[test]
fn truncation_forgets_from_a_number_on() {
    let mut oracle = oracle();
    oracle.truncate(3);
    assert_eq!(oracle.head().unwrap().number, 2);
    assert_eq!(oracle.blocks().count(), 2);
}
