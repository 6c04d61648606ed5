//! A backfill between two blocks: its ranges are filled beside each other, and operators are heard meanwhile.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::Duration;

use chronolith_archive::Archive;
use chronolith_follower::backfill::bounded;
use chronolith_follower::backfill::retry_policy::OnFatal;
use chronolith_follower::settings::{Finality, Mode};
use chronolith_model::BlockRange;
use support::{FETCH_BLOCKS, Ground, MemorySource, assert_archived, node, wait};

const END: u64 = 899;
const RANGE_BLOCKS: u64 = 300;

fn ground() -> Ground {
    let mut ground = Ground::new(Finality::Depth(5));
    ground.settings.mode = Mode::Backfill { end_block: END };
    ground.settings.ranges.size = RANGE_BLOCKS;
    ground.settings.ranges.checkpoint = FETCH_BLOCKS;
    ground
}

/// Blocks from the first one on that are archived without a gap.
fn filled(archive: &Archive) -> u64 {
    let around = archive.pin().and_then(|pinned| pinned.covered_around(0));
    around.map_or(0, |range| range.end)
}

#[tokio::test(start_paused = true)]
async fn everything_between_the_bounds_is_archived_and_it_ends() {
    let node = node(31, 1_000);
    let ground = ground();
    let chain = ground.open(&MemorySource::new(&[&node])).await;
    bounded::run(&chain, OnFatal::Exit).await.unwrap();
    assert_archived(&chain.archive, &node, BlockRange::new(0, END + 1)).await;
    assert_eq!(filled(&chain.archive), END + 1);
}

/// An operation may wait for a fill: neither may keep the other from going on.
#[tokio::test(start_paused = true)]
async fn operations_run_beside_the_fills_after_ingest_was_abandoned() {
    let node = node(32, 1_000);
    let source = MemorySource::new(&[&node]);
    let below = BlockRange::new(0, 2 * RANGE_BLOCKS);
    source.break_blocks(BlockRange::new(below.end + FETCH_BLOCKS, END + 1));
    let ground = ground();
    let chain = ground.open(&source).await;
    let archive = chain.archive.clone();
    let operation = async {
        wait("the end of ingest", || chain.status().error.is_some()).await;
        let before = filled(&chain.archive);
        assert!(before < RANGE_BLOCKS, "no fill is left");
        let waits_for_a_fill = async move {
            wait("the next fill", || filled(&archive) > before).await;
        };
        let done = chain.control.run(waits_for_a_fill);
        let done = tokio::time::timeout(Duration::from_secs(60 * 60), done).await;
        done.expect("the operation waits forever").unwrap();
    };
    let (ended, ()) = tokio::join!(bounded::run(&chain, OnFatal::Exit), operation);
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("broken"), "{error}");
    assert_archived(&chain.archive, &node, below).await;
}
