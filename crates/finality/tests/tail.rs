//! The tail against a plain list, its budget, its snapshots, and the seam with the archive.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use chronolith_finality::{Tail, TailError, TailSnapshot, joins};
use chronolith_model::{
    Block, BlockRange, BlockRef, ErrorKind, Hash32, Log, LogParts, Payload, Tx,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::{at, block, clock, hash};

/// A tail over blocks `start..end` of fork 0, without a limit worth the name.
fn tail(start: u64, end: u64) -> Tail {
    let mut tail = Tail::new(usize::MAX, start.checked_sub(1).map(|base| at(base, 0)));
    for number in start..end {
        tail.push(block(clock(number, 0, 0))).unwrap();
    }
    tail
}

/// A block with two transactions, whose hashes share their first eight bytes.
fn with_txs(number: u64) -> Block {
    let tx = |index: u32| Tx {
        index: 3 * index,
        hash: hash(7, 100 * number + u64::from(index)),
    };
    let alias = Tx {
        index: tx(1).index | Tx::ALIAS,
        ..tx(2)
    };
    Block {
        // The last is another hash of the second.
        txs: vec![tx(0), tx(1), alias],
        ..block(clock(number, 0, 0))
    }
}

fn numbers(snapshot: &TailSnapshot, range: BlockRange) -> Vec<u64> {
    let blocks = snapshot.blocks_in(range);
    blocks.map(|block| block.clock.number).collect()
}

#[test]
fn only_the_next_block_of_the_chain_is_taken() {
    let check = |tail: &Tail, offered: Block, taken: bool| {
        let mut after = tail.clone();
        let expected = TailError::NotLinked {
            head: tail.head(),
            offered: offered.clock.block_ref(),
        };
        let got = after.push(offered);
        assert_eq!(got, if taken { Ok(()) } else { Err(expected) });
        assert_eq!(after.len(), tail.len() + usize::from(taken));
    };
    let grown = tail(6, 9);
    check(&grown, block(clock(9, 0, 0)), true);
    check(&grown, block(clock(9, 1, 0)), true);
    check(&grown, block(clock(9, 0, 1)), false);
    check(&grown, block(clock(10, 0, 0)), false);
    check(&grown, block(clock(8, 0, 0)), false);
    let empty = tail(6, 6);
    check(&empty, block(clock(6, 0, 0)), true);
    check(&empty, block(clock(6, 0, 1)), false);
    check(&empty, block(clock(7, 0, 0)), false);
    let free = Tail::new(usize::MAX, None);
    check(&free, block(clock(7, 3, 2)), true);
    assert_eq!(free.head(), None);
}

#[test]
fn rollback_gives_back_what_it_removes() {
    let check = |to: BlockRef, expected: Option<&[u64]>| {
        let mut tail = tail(6, 10);
        let before = tail.head();
        let removed = tail.rollback(to).ok().map(|removed| {
            let numbers = removed.iter().map(|block| block.clock.number);
            numbers.collect::<Vec<_>>()
        });
        assert_eq!(removed.as_deref(), expected, "{to:?}");
        assert_eq!(
            tail.head(),
            if expected.is_some() { Some(to) } else { before }
        );
    };
    check(at(9, 0), Some(&[]));
    check(at(7, 0), Some(&[8, 9]));
    check(at(5, 0), Some(&[6, 7, 8, 9]));
    check(at(7, 1), None);
    check(at(5, 1), None);
    check(at(4, 0), None);
    check(at(10, 0), None);

    // Without a base nothing is known below the first block.
    let mut free = Tail::new(usize::MAX, None);
    assert!(free.rollback(at(6, 1)).is_err());
    free.push(block(clock(7, 0, 0))).unwrap();
    assert!(free.rollback(at(5, 0)).is_err());
    assert_eq!(free.rollback(at(6, 1)).unwrap().len(), 1);
    assert!(free.is_empty());
}

#[test]
fn dropped_blocks_leave_their_last_one_as_the_base() {
    let mut tail = tail(6, 10);
    tail.drop_through(5);
    assert_eq!(tail.len(), 4);
    tail.drop_through(7);
    assert_eq!(tail.snapshot().first(), Some(at(8, 0)));
    assert!(tail.rollback(at(6, 0)).is_err());
    assert_eq!(tail.rollback(at(7, 0)).unwrap().len(), 2);
    assert_eq!((tail.head(), tail.bytes()), (Some(at(7, 0)), 0));
    assert!(tail.push(block(clock(8, 0, 1))).is_err());
    tail.push(block(clock(8, 1, 0))).unwrap();
    tail.drop_through(99);
    assert_eq!((tail.head(), tail.is_empty()), (Some(at(8, 1)), true));
}

#[test]
fn the_budget_counts_everything_a_block_holds() {
    let empty = block(clock(6, 0, 0));
    let base = Tail::bytes_of(&empty);
    let check = |change: &dyn Fn(&mut Block), bytes_min: usize| {
        let mut fat = empty.clone();
        change(&mut fat);
        let grown = Tail::bytes_of(&fat) - base;
        assert!((bytes_min..bytes_min + 200).contains(&grown), "{grown}");
    };
    let payload = |len| Some(Bytes::from(vec![0; len]));
    check(&|block| block.payload.header = payload(500), 500);
    check(&|block| block.payload.raw = payload(900), 900);
    check(
        &|block| block.payload.bodies = Some(vec![Bytes::from(vec![0; 300]); 2]),
        600,
    );
    check(&|block| block.txs = with_txs(6).txs, 3 * 36);
    let parts = LogParts {
        data: &[0; 700],
        ..LogParts::default()
    };
    check(&|block| block.logs = vec![Log::new(&parts).unwrap()], 700);
}

#[test]
fn a_full_tail_takes_nothing_until_it_is_emptied() {
    let fat = |number| Block {
        payload: Payload {
            raw: Some(Bytes::from(vec![0; 10_000])),
            ..Payload::default()
        },
        ..block(clock(number, 0, 0))
    };
    let each = Tail::bytes_of(&fat(6));
    let mut tail = Tail::new(2 * each, Some(at(5, 0)));
    tail.push(fat(6)).unwrap();
    assert!(tail.has_room(&fat(7)));
    tail.push(fat(7)).unwrap();
    assert!(!tail.has_room(&fat(8)));
    let full = TailError::Full {
        bytes: 3 * each,
        bytes_max: 2 * each,
    };
    assert_eq!(tail.push(fat(8)), Err(full));
    assert_eq!((tail.bytes(), tail.len()), (2 * each, 2));
    assert_eq!(full.kind(), ErrorKind::TooLarge);
    tail.drop_through(6);
    tail.push(fat(8)).unwrap();
    tail.rollback(at(7, 0)).unwrap();
    assert_eq!(tail.bytes(), each);
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let mut tail = tail(6, 10);
    let before = tail.snapshot();
    let all = BlockRange::new(0, u64::MAX);
    tail.rollback(at(7, 0)).unwrap();
    tail.push(block(clock(8, 1, 0))).unwrap();
    let between = tail.snapshot();
    tail.drop_through(8);
    assert_eq!(numbers(&before, all), [6, 7, 8, 9]);
    assert_eq!(before.get(8).unwrap().clock.hash, hash(8, 0));
    assert_eq!(numbers(&between, all), [6, 7, 8]);
    assert_eq!(between.get(8).unwrap().clock.hash, hash(8, 1));
    let after = tail.snapshot();
    assert!(after.is_empty() && after.range().is_empty());
    assert_eq!((after.first(), after.head()), (None, None));
    // Blocks are shared, not copied.
    assert!(Arc::ptr_eq(before.get(6).unwrap(), between.get(6).unwrap()));
}

#[test]
fn snapshots_find_blocks_and_transactions() {
    let mut tail = Tail::new(usize::MAX, None);
    for number in 6..10 {
        tail.push(with_txs(number)).unwrap();
    }
    let snapshot = tail.snapshot();
    assert_eq!(
        (snapshot.first(), snapshot.head()),
        (Some(at(6, 0)), Some(at(9, 0)))
    );
    assert_eq!(
        (snapshot.len(), snapshot.range()),
        (4, BlockRange::new(6, 10))
    );
    for number in 6..10 {
        let found = snapshot.find_block(&hash(number, 0)).unwrap();
        assert_eq!(found.clock.number, number);
        for tx in with_txs(number).txs {
            let (block, index) = snapshot.find_tx(&tx.hash).unwrap();
            assert_eq!((block.clock.number, index), (number, tx.position()));
        }
    }
    for missing in [hash(9, 1), Hash32::ZERO, hash(7, 699)] {
        assert!(snapshot.find_block(&missing).is_none());
        assert!(snapshot.find_tx(&missing).is_none());
    }
    let check = |start, end, expected: &[u64]| {
        let range = BlockRange::new(start, end);
        assert_eq!(numbers(&snapshot, range), expected, "{range}");
    };
    check(0, 6, &[]);
    check(0, 8, &[6, 7]);
    check(7, 9, &[7, 8]);
    check(9, u64::MAX, &[9]);
    check(10, 20, &[]);
    check(8, 8, &[]);
    assert!(snapshot.get(5).is_none() && snapshot.get(10).is_none());
}

#[test]
fn archive_and_tail_join_where_they_are_one_chain() {
    let snapshot = tail(6, 10).snapshot();
    let check = |archive: Option<BlockRef>, expected| {
        assert_eq!(joins(archive, &snapshot), expected, "{archive:?}");
    };
    check(None, true);
    check(Some(at(5, 0)), true);
    check(Some(at(5, 1)), false);
    check(Some(at(4, 0)), false);
    check(Some(at(6, 0)), true);
    check(Some(at(6, 1)), false);
    check(Some(at(9, 0)), true);
    check(Some(at(9, 1)), false);
    // The archive continued while the snapshot was held: the tail adds nothing.
    check(Some(at(12, 0)), true);
    check(Some(at(u64::MAX, 0)), true);
    let empty = tail(6, 6).snapshot();
    assert!(joins(None, &empty) && joins(Some(at(3, 1)), &empty));
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Push { fork: u64, bytes: usize },
    PushStray { number: u64 },
    Rollback { depth: usize },
    DropThrough { count: usize },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3u64, 0..4_000usize).prop_map(|(fork, bytes)| Op::Push { fork, bytes }),
        1 => (0..40u64).prop_map(|number| Op::PushStray { number }),
        2 => (0..9usize).prop_map(|depth| Op::Rollback { depth }),
        1 => (0..9usize).prop_map(|count| Op::DropThrough { count }),
    ]
}

/// Applies one operation to the tail and to a list; says whether the budget refused it.
fn apply(op: Op, tail: &mut Tail, model: &mut Vec<Block>, base: &mut BlockRef) -> bool {
    let head = model.last().map_or(*base, |block| block.clock.block_ref());
    match op {
        Op::Push { fork, bytes } => {
            let mut next = block(clock(head.number + 1, fork, 0));
            next.clock.parent_hash = head.hash;
            next.payload.raw = Some(Bytes::from(vec![0; bytes]));
            let weight: usize = model.iter().map(Tail::bytes_of).sum();
            let fits = weight + Tail::bytes_of(&next) <= BUDGET;
            assert_eq!(tail.push(next.clone()).is_ok(), fits);
            model.extend(fits.then_some(next));
            return !fits;
        }
        Op::PushStray { number } => {
            let stray = block(clock(number, 9, 9));
            assert!(matches!(tail.push(stray), Err(TailError::NotLinked { .. })));
        }
        Op::Rollback { depth } => {
            let keep = model.len().saturating_sub(depth);
            let to = keep
                .checked_sub(1)
                .map_or(*base, |at| model[at].clock.block_ref());
            let removed = tail.rollback(to).unwrap();
            let expected: Vec<_> = model.drain(keep..).collect();
            assert!(removed.iter().map(|block| &**block).eq(&expected));
        }
        Op::DropThrough { count } => {
            let count = count.min(model.len());
            let last = count.checked_sub(1).map(|at| model[at].clock.block_ref());
            *base = last.unwrap_or(*base);
            tail.drop_through(base.number);
            model.drain(..count);
        }
    }
    false
}

const BUDGET: usize = 20_000;

#[test]
fn the_tail_is_a_list_with_a_budget() {
    let full = Cell::new(0);
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::default()
    });
    let ops = prop::collection::vec(op(), 1..60);
    let result = runner.run(&ops, |ops| {
        let mut base = at(5, 0);
        let (mut tail, mut model) = (Tail::new(BUDGET, Some(base)), Vec::new());
        let mut held: Vec<(TailSnapshot, Vec<Block>)> = Vec::new();
        for op in ops {
            let refused = apply(op, &mut tail, &mut model, &mut base);
            full.set(full.get() + usize::from(refused));
            let weight: usize = model.iter().map(Tail::bytes_of).sum();
            assert_eq!((tail.len(), tail.bytes()), (model.len(), weight));
            assert!(tail.bytes() <= BUDGET);
            assert!(joins(Some(base), &tail.snapshot()));
            held.push((tail.snapshot(), model.clone()));
        }
        // Every snapshot is still what the list was when it was taken.
        for (snapshot, model) in held {
            let blocks = snapshot.blocks_in(BlockRange::new(0, u64::MAX));
            assert!(blocks.map(|block| &**block).eq(&model));
            for block in &model {
                let clock = block.clock;
                assert_eq!(snapshot.get(clock.number).unwrap().clock, clock);
                assert_eq!(snapshot.find_block(&clock.hash).unwrap().clock, clock);
            }
        }
        Ok(())
    });
    result.unwrap();
    assert!(full.get() > 0, "the budget was never hit");
}
