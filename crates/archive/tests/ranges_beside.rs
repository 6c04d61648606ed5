//! A transition runs beside everything else: ingest, queries, rewinds.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/hooks.rs"]
mod hooks;
#[path = "support/ranges.rs"]
mod ranges;
mod support;

use std::sync::Arc;

use chronolith_archive::RangeState;
use chronolith_model::BlockRange;
use chronolith_sim::Operation;
use hooks::{Gate, hooked};
use ranges::{append, audit, check_counts, check_lookups, range_settings, report, settle};
use support::{Stores, tiny_chain};

fn blocks(start: u64, end: u64) -> BlockRange {
    BlockRange::new(start, end)
}

/// Whether a name is that of the one run of range 0.
fn is_last_run(name: &str) -> bool {
    name.starts_with("run/000000000002-42-")
}

#[tokio::test]
async fn the_next_range_is_written_and_read_while_one_is_in_transition() {
    let (chain, stores) = (tiny_chain(91), Stores::memory());
    let gate = Arc::new(Gate::default());
    let archive = hooked(&stores, gate.hook()).writer(&range_settings()).await;
    append(&archive, &chain, blocks(2, 42), 6, 1).await;
    gate.hold_next(|operation, name| operation == Operation::BlobCreate && is_last_run(name));
    let mut transition = Box::pin(settle(&archive, 2));
    gate.hold(&mut transition).await;
    // The run of the range is being made. Meanwhile the next range comes, and everything is found.
    append(&archive, &chain, blocks(42, 60), 5, 3).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Transitioning);
    assert_eq!(report(&archive, 1).await.blocks, 18);
    check_lookups(&archive, &chain, blocks(2, 60)).await;
    check_counts(&archive, &chain).await;
    gate.release();
    transition.await;
    let done = report(&archive, 0).await;
    assert_eq!(
        (done.state, done.completed_at),
        (RangeState::Complete, Some(2))
    );
    check_lookups(&archive, &chain, blocks(2, 60)).await;
}

/// Who pinned the archive before a range was complete continues with what it saw.
#[tokio::test]
async fn a_reader_keeps_the_range_as_it_was_when_it_began() {
    let (chain, stores) = (tiny_chain(92), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, blocks(2, 50), 6, 1).await;
    let before = archive.pin().unwrap();
    settle(&archive, 2).await;
    let collected = archive
        .collect_garbage(chronolith_archive::GcMode::Remove)
        .await;
    collected.unwrap();
    assert_eq!(before.ranges().await[0].state, RangeState::Transitioning);
    for block in chain.blocks(blocks(2, 50)) {
        let hash = block.clock.hash;
        assert_eq!(
            before.block_by_hash(&hash).await.unwrap(),
            Some(block.clock)
        );
    }
    assert_eq!(report(&archive, 0).await.state, RangeState::Complete);
}

#[tokio::test]
async fn taking_blocks_back_ends_a_failure() {
    let (chain, stores) = (tiny_chain(93), Stores::memory());
    let archive = stores.writer(&range_settings()).await;
    append(&archive, &chain, blocks(2, 50), 6, 1).await;
    let victim = archive.segments_of(2).remove(0).name;
    let whole = stores.blobs.get(&victim).await.unwrap();
    stores.blobs.delete(&victim).await.unwrap();
    let archive = stores.writer(&range_settings()).await;
    settle(&archive, 2).await;
    assert_eq!(report(&archive, 0).await.state, RangeState::Failed);
    archive.rewind(40, audit(3, "rewind")).await.unwrap();
    let open = report(&archive, 0).await;
    assert_eq!((open.state, open.failure), (RangeState::Ingesting, None));
    assert_eq!(
        (open.created_at, open.transition_started_at),
        (Some(1), None)
    );
    stores.blobs.put(&victim, whole).await.unwrap();
    append(&archive, &chain, blocks(41, 50), 6, 4).await;
    settle(&archive, 5).await;
    let done = report(&archive, 0).await;
    assert_eq!(
        (done.state, done.completed_at),
        (RangeState::Complete, Some(5))
    );
    check_counts(&archive, &chain).await;
    check_lookups(&archive, &chain, blocks(2, 50)).await;
}
