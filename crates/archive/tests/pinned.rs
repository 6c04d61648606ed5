//! Readers while garbage is collected with no grace. A query of the writer's own process is held
//! half way: its snapshot is pinned and it answers as if nothing had happened. A reader in another
//! process has no pin: what it began with may go, and then it answers from the newest state or
//! fails and names the object; it never mixes two states.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/crash.rs"]
mod crash;
#[path = "support/hooks.rs"]
mod hooks;
mod support;

use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{Archive, AuditEntry, Error, GcMode, LogPage, Provenance};
use chronolith_model::{BlockRange, LogFilter};
use chronolith_sim::{Operation, SimChain};
use crash::{Reference, batch, crash_settings};
use hooks::{Gate, hooked};
use support::{Stores, assert_answers, oracle_of, tiny_chain};
use tokio::time::timeout;

const RANGE: BlockRange = BlockRange { start: 0, end: 60 };
/// Reads of blocks from here on are held; everything behind the next is taken back.
const HELD_FROM: u64 = 45;
const REWOUND: u64 = 40;
/// Virtual: it passes at once where everybody waits for somebody else.
const STUCK: Duration = Duration::from_secs(3_600);

/// Holds the next read of rows at `HELD_FROM` or behind it.
fn hold_next_rows(gate: &Gate) {
    gate.hold_next(|operation, name| {
        let (folder, rest) = name.split_once('/').unwrap_or_default();
        let start = rest.split('-').next().and_then(|start| start.parse().ok());
        let rows = operation == Operation::BlobRanges && ["seg", "bat"].contains(&folder);
        rows && start >= Some(HELD_FROM)
    });
}

fn audit() -> AuditEntry {
    AuditEntry {
        at: 1,
        act: "a test".to_owned(),
    }
}

async fn append(archive: &Archive, chain: &SimChain, range: BlockRange) {
    for chunk in batch(chain, range).chunks(7) {
        let how = Provenance::default();
        let blocks = chunk.to_vec();
        archive.ingest_finalized_blocks(blocks, &how).await.unwrap();
    }
}

async fn merge_and_collect(archive: &Archive) -> u64 {
    while archive.maintain().await.unwrap() {}
    let report = archive.collect_garbage(GcMode::Remove).await.unwrap();
    report.removed
}

/// Takes the newest blocks back and continues with a fork, up to the same height.
async fn go_another_way(archive: &Archive, chain: &SimChain, id: u64) -> SimChain {
    archive.rewind(REWOUND, audit()).await.unwrap();
    let fork = chain.fork(REWOUND + 1, id);
    append(archive, &fork, BlockRange::new(REWOUND + 1, RANGE.end)).await;
    fork
}

async fn exists(stores: &Stores, name: &str) -> bool {
    stores.blobs.get(name).await.is_ok()
}

fn filter() -> LogFilter {
    let mut filter = LogFilter::over(RANGE);
    filter.limit = Some(1_000_000);
    filter
}

fn assert_chain(page: &LogPage, chain: &SimChain) {
    assert_answers(page, &oracle_of(chain, RANGE), &filter());
}

/// What is done while a query of the same process is held.
async fn everything_goes(archive: &Archive, chain: &SimChain) -> SimChain {
    assert!(merge_and_collect(archive).await > 0);
    let fork = go_another_way(archive, chain, 1).await;
    assert!(merge_and_collect(archive).await > 0);
    fork
}

#[tokio::test(start_paused = true)]
async fn a_held_query_answers_from_its_snapshot_while_all_of_it_is_collected() {
    for seed in 61..69 {
        println!("seed {seed}");
        let (inner, gate) = (Stores::memory(), Arc::new(Gate::default()));
        let chain = tiny_chain(seed);
        let archive = hooked(&inner, gate.hook()).writer(&crash_settings()).await;
        append(&archive, &chain, RANGE).await;
        for number in RANGE.start..RANGE.end {
            // Tables are in the cache then: what is held is a read of rows, which merges do not
            // wait for.
            archive.block_by_number(number).await.unwrap();
        }
        hold_next_rows(&gate);
        let filter = filter();
        let mut query = Box::pin(archive.query_finalized(&filter));
        let name = gate.hold(&mut query).await;
        let work = everything_goes(&archive, &chain);
        let fork = timeout(STUCK, work).await.unwrap();
        assert!(exists(&inner, &name).await, "{name} is pinned");
        gate.release();
        let page = query.await.unwrap();
        assert_chain(&page, &chain);
        let page = archive.query_finalized(&filter).await.unwrap();
        assert_chain(&page, &fork);
        assert!(merge_and_collect(&archive).await > 0, "the pin is gone");
        assert!(!exists(&inner, &name).await, "{name} is garbage");
        let expected = Reference::of(&fork, None, RANGE);
        expected.check(&archive, seed).await;
    }
}

/// A writer, and a reader in another process whose reads can be held.
async fn two_processes(seed: u64) -> (Stores, SimChain, Archive, Archive, Arc<Gate>) {
    let (inner, gate) = (Stores::memory(), Arc::new(Gate::default()));
    let chain = tiny_chain(seed);
    let writer = inner.writer(&crash_settings()).await;
    append(&writer, &chain, RANGE).await;
    let reader = hooked(&inner, gate.hook()).reader(&crash_settings()).await;
    (inner, chain, writer, reader, gate)
}

#[tokio::test(start_paused = true)]
async fn a_reader_elsewhere_answers_from_the_newest_state_when_its_own_is_collected() {
    for seed in 71..79 {
        println!("seed {seed}");
        let filter = filter();
        let (_, chain, writer, reader, _) = two_processes(seed).await;
        assert!(merge_and_collect(&writer).await > 0);
        assert_chain(&reader.query_finalized(&filter).await.unwrap(), &chain);

        let (inner, chain, writer, reader, gate) = two_processes(seed).await;
        hold_next_rows(&gate);
        let mut query = Box::pin(reader.query_finalized(&filter));
        let name = gate.hold(&mut query).await;
        let fork = go_another_way(&writer, &chain, 2).await;
        assert!(merge_and_collect(&writer).await > 0);
        assert!(!exists(&inner, &name).await);
        gate.release();
        assert_chain(&query.await.unwrap(), &fork);
        // What was taken back and not replaced is not covered: neither the old answer nor a
        // shorter one.
        writer.rewind(REWOUND, audit()).await.unwrap();
        merge_and_collect(&writer).await;
        reader.refresh().await.unwrap();
        let answer = reader.query_finalized(&filter).await;
        assert!(
            matches!(answer, Err(Error::NotCovered { .. })),
            "{answer:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_elsewhere_that_is_overtaken_twice_names_what_it_misses() {
    for seed in 81..89 {
        println!("seed {seed}");
        let filter = filter();
        let (inner, chain, writer, reader, gate) = two_processes(seed).await;
        hold_next_rows(&gate);
        let mut query = Box::pin(reader.query_finalized(&filter));
        let mut names = Vec::new();
        for round in 0..2 {
            names.push(gate.hold(&mut query).await);
            go_another_way(&writer, &chain, round).await;
            assert!(merge_and_collect(&writer).await > 0);
            if round == 0 {
                hold_next_rows(&gate);
            }
            gate.release();
        }
        let answer = query.await;
        let Err(Error::Corrupt { object, .. }) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(Some(&object), names.last());
        assert!(!exists(&inner, &object).await);
        let page = reader.query_finalized(&filter).await.unwrap();
        assert_chain(&page, &chain.fork(REWOUND + 1, 1));
    }
}
