//! A whole transition of a range, disturbed at every store operation.
//!
//! Two ranges of twelve blocks are written and brought to their end. A first life without faults
//! counts its operations. Then for each of them, and each fault, it is lived again with the fault at
//! that operation; a new process continues with what the stores hold.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/crash.rs"]
mod crash;
#[path = "support/ranges.rs"]
mod ranges;
mod support;

use bytes::Bytes;
use chronolith_archive::{Archive, Error, RangeState, Settings, TxCounts};
use chronolith_model::{Block, BlockRange, ErrorKind};
use chronolith_sim::{Fault, FaultPlan, Operation, SimChain};
use crash::faulty;
use ranges::{at, check_counts, check_lookups, progress, range_settings};
use support::{Stores, tiny_chain};

const CREATED: u64 = 100;
const MAINTAINED: u64 = 200;
const BLOCKS: BlockRange = BlockRange { start: 2, end: 30 };
/// Batches that end with a range, and one that goes across a border.
const BATCHES: [(u64, u64); 5] = [(2, 6), (6, 10), (10, 14), (14, 24), (24, 30)];

fn settings() -> Settings {
    let mut settings = range_settings();
    settings.seal.grid_blocks = 6;
    settings.seal.range_blocks = 12;
    settings.seal.weight = 14;
    settings.seal.fan_in = 2;
    settings
}

/// Writes everything, maintaining as it goes. Done again, it continues where it was.
async fn live(archive: &Archive, chain: &SimChain) -> Result<(), Error> {
    for (start, end) in BATCHES {
        let blocks: Vec<Block> = chain.blocks(BlockRange::new(start, end)).collect();
        archive
            .ingest_finalized_blocks(blocks, &at(CREATED))
            .await?;
        if end == 14 {
            // The transition of the first range waits until the second is being written.
            continue;
        }
        while archive.maintain_at(MAINTAINED).await? {}
    }
    Ok(())
}

/// Id, state, keys, and when a range was created and complete.
type Ended = (u64, RangeState, Option<TxCounts>, [Option<u64>; 2]);

/// What is left of a life.
#[derive(PartialEq, Eq, Debug)]
struct Left {
    ranges: Vec<Ended>,
    runs: Vec<Bytes>,
}

async fn left(stores: &Stores, archive: &Archive) -> Left {
    let mut left = Left {
        ranges: Vec::new(),
        runs: Vec::new(),
    };
    for one in archive.ranges().await {
        let times = [one.created_at, one.completed_at];
        left.ranges.push((one.id, one.state, one.keys, times));
        if one.state == RangeState::Complete {
            left.runs
                .push(stores.blobs.get(&one.runs[0]).await.unwrap());
        }
    }
    left
}

/// What a process saw last before it died.
async fn seen(stores: &Stores) -> Vec<(u8, u8)> {
    let archive = stores.reader(&settings()).await;
    archive.ranges().await.iter().map(progress).collect()
}

async fn disturbed(chain: &SimChain, plan: &std::sync::Arc<FaultPlan>) -> Stores {
    let stores = Stores::memory();
    let faulty = faulty(&stores, plan);
    let failed = match faulty.try_writer(&settings()).await {
        Ok(archive) => live(&archive, chain).await.err(),
        Err(error) => Some(error),
    };
    if let Some(error) = failed {
        let kind = error.kind();
        assert_eq!(kind, ErrorKind::Unavailable, "{error}");
    }
    stores
}

async fn run_matrix(fault: Fault) {
    let chain = tiny_chain(71);
    let clean_plan = FaultPlan::none();
    let clean = disturbed(&chain, &clean_plan).await;
    let archive = clean.reader(&settings()).await;
    let expected = left(&clean, &archive).await;
    let states: Vec<RangeState> = expected.ranges.iter().map(|one| one.1).collect();
    assert_eq!(
        states,
        [
            RangeState::Complete,
            RangeState::Complete,
            RangeState::Ingesting
        ]
    );
    let times = [Some(CREATED), Some(MAINTAINED)];
    assert!(expected.ranges[..2].iter().all(|one| one.3 == times));
    let (operations, mut hit, mut between) = (clean_plan.operations(), 0, 0);
    for number in 0..operations {
        let plan = FaultPlan::at(number, fault);
        let stores = disturbed(&chain, &plan).await;
        hit += Operation::ALL
            .iter()
            .map(|&kind| plan.tally(kind).faults)
            .sum::<u64>();
        let before = seen(&stores).await;
        between += u64::from(
            before
                .iter()
                .any(|&reached| reached != (0, 0) && reached != (2, 4)),
        );
        let archive = stores.writer(&settings()).await;
        let after: Vec<_> = archive.ranges().await.iter().map(progress).collect();
        assert_eq!(
            before, after,
            "{fault:?} at {number}: phases are not what they were"
        );
        if let Some(covered) = archive.health().covered {
            check_lookups(&archive, &chain, covered).await;
        }
        check_counts(&archive, &chain).await;
        live(&archive, &chain).await.unwrap();
        assert_eq!(
            left(&stores, &archive).await,
            expected,
            "{fault:?} at {number}"
        );
        check_lookups(&archive, &chain, BLOCKS).await;
    }
    println!("{fault:?}: {hit} operations, {between} inside of a transition");
    assert_eq!(hit, operations, "a planned operation never came");
    assert!(
        between > operations / 5,
        "{between} of {operations} are inside of a transition"
    );
}

#[tokio::test(start_paused = true)]
async fn a_transition_continues_after_a_crash_before_any_operation() {
    run_matrix(Fault::CrashBefore).await;
}

#[tokio::test(start_paused = true)]
async fn a_transition_continues_after_a_crash_after_any_operation() {
    run_matrix(Fault::CrashAfter).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_once_does_not_fail_a_range() {
    run_matrix(Fault::FailUnapplied).await;
    run_matrix(Fault::FailApplied).await;
}
