//! A cursor names the chain's own coordinates: it outlives every seal, merge, collection and
//! restart, and conflicts where its block was replaced.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::time::Duration;

use chronolith_archive::{Archive, AuditEntry, Error, GcMode};
use chronolith_model::{BlockRange, BlockRef, Clause, Cursor, Hash32, LogFilter, Order, Select};
use chronolith_sim::SimChain;
use support::{Stores, ingest, oracle_of, tiny_chain, tiny_settings};

/// The blocks that queries ask for; more are appended meanwhile.
const ASKED: BlockRange = BlockRange::new(0, 60);

fn audit() -> AuditEntry {
    AuditEntry {
        at: 1,
        act: "rewind".to_owned(),
    }
}

fn filter(order: Order, limit: usize) -> LogFilter {
    let mut filter = LogFilter::over(ASKED);
    filter.emitters = Clause::OneOf([0_u8, 0x12].map(|fill| vec![fill; 20].into()).to_vec());
    (filter.order, filter.limit) = (order, Some(limit));
    filter
}

/// Takes the archive a step further: more blocks, every merge, and a new process now and then.
async fn move_on(stores: &Stores, archive: &mut Archive, chain: &SimChain, step: u64) {
    let head = archive.indexed_finalized_head().unwrap();
    ingest(archive, chain, BlockRange::new(head + 1, head + 6), &[2]).await;
    if step.is_multiple_of(3) {
        archive.collect_garbage(GcMode::Remove).await.unwrap();
    }
    if step.is_multiple_of(2) {
        let mut settings = tiny_settings();
        settings.garbage.grace = Duration::ZERO;
        *archive = stores.writer(&settings).await;
    }
}

#[tokio::test]
async fn pages_meet_across_seals_merges_collections_and_restarts() {
    let chain = tiny_chain(71);
    let oracle = oracle_of(&chain, ASKED);
    for (order, limit) in [
        (Order::Ascending, 1),
        (Order::Ascending, 7),
        (Order::Descending, 1),
        (Order::Descending, 7),
    ] {
        let stores = Stores::memory();
        let mut archive = stores.writer(&tiny_settings()).await;
        ingest(&archive, &chain, ASKED, &[1]).await;
        let before = archive.health().segments.0;
        let mut filter = filter(order, limit);
        let mut found = Vec::new();
        let mut pages = 0;
        loop {
            let page = archive.query_finalized(&filter).await.unwrap();
            found.extend(
                page.logs
                    .into_iter()
                    .map(|record| (record.block.number, record.log)),
            );
            assert_eq!(page.has_more, page.next.is_some());
            let Some(next) = page.next else { break };
            filter.cursor = Some(next);
            pages += 1;
            if pages <= 25 {
                move_on(&stores, &mut archive, &chain, pages).await;
            }
        }
        (filter.cursor, filter.limit) = (None, None);
        assert_eq!(found, oracle.query(&filter).0, "{order:?} by {limit}");
        assert!(pages > 5, "{pages} pages of {limit}");
        assert_ne!(
            archive.health().segments.0,
            before,
            "segments changed meanwhile"
        );
    }
}

#[tokio::test]
async fn a_cursor_on_a_replaced_block_conflicts_and_one_below_continues() {
    let chain = tiny_chain(72);
    let fork = chain.fork(30, 1);
    for order in [Order::Ascending, Order::Descending] {
        let archive = Stores::memory().writer(&tiny_settings()).await;
        ingest(&archive, &chain, ASKED, &[4]).await;
        let mut filter = filter(order, 2);
        let mut cursors = Vec::new();
        while let Some(next) = archive.query_finalized(&filter).await.unwrap().next {
            cursors.push(next);
            filter.cursor = Some(next);
        }
        archive.rewind(29, audit()).await.unwrap();
        let shorter = archive.query_finalized(&filter).await;
        assert!(
            matches!(shorter, Err(Error::NotCovered { .. })),
            "{shorter:?}"
        );
        ingest(&archive, &fork, BlockRange::new(30, 60), &[4]).await;
        let oracle = oracle_of(&fork, ASKED);
        let (mut conflicts, mut went_on) = (0, 0);
        for cursor in cursors {
            filter.cursor = Some(cursor);
            let number = cursor.block.number;
            match archive.query_finalized(&filter).await {
                Ok(page) if number < 30 => {
                    support::assert_answers(&page, &oracle, &filter);
                    went_on += 1;
                }
                Err(Error::CursorConflict {
                    cursor: named,
                    archived,
                }) if number >= 30 => {
                    assert_eq!((named, archived), (cursor.block, fork.block_hash(number)));
                    conflicts += 1;
                }
                other => panic!("{cursor:?}: {other:?}"),
            }
        }
        assert!(conflicts > 2 && went_on > 2, "{conflicts} {went_on}");
    }
}

#[tokio::test]
async fn a_cursor_outside_its_range_is_invalid_and_a_foreign_one_conflicts() {
    let chain = tiny_chain(73);
    let archive = Stores::memory().writer(&tiny_settings()).await;
    ingest(&archive, &chain, BlockRange::new(0, 100), &[4]).await;
    let at = |number: u64, hash: Hash32, log_index: u32| Cursor {
        block: BlockRef { number, hash },
        log_index,
    };
    for order in [Order::Ascending, Order::Descending] {
        let mut filter = filter(order, 5);
        filter.select = Select::Range(BlockRange::new(20, 40));
        for outside in [19, 40, 99, u64::MAX] {
            filter.cursor = Some(at(outside, chain.block_hash(outside), 0));
            let answer = archive.query_finalized(&filter).await;
            assert!(
                matches!(answer, Err(Error::Invalid(_))),
                "{outside}: {answer:?}"
            );
        }
        filter.cursor = Some(at(25, Hash32([3; 32]), 0));
        let answer = archive.query_finalized(&filter).await;
        assert!(
            matches!(answer, Err(Error::CursorConflict { .. })),
            "{answer:?}"
        );
        // A place where there is no log is still a place.
        let oracle = oracle_of(&chain, BlockRange::new(20, 40));
        for (number, index) in [
            (20, u32::MAX),
            (39, u32::MAX),
            (30, 1_000),
            (20, 0),
            (39, 0),
        ] {
            filter.cursor = Some(at(number, chain.block_hash(number), index));
            let page = archive.query_finalized(&filter).await.unwrap();
            support::assert_answers(&page, &oracle, &filter);
        }
    }
}
