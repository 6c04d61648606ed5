//! The life of ranges, as the requirement of the Stellar meta store walks through it, on ranges of 40 blocks from
//! block 0 on. Its sixth scenario, a crash at any moment, needs a process: `crates/node/tests/ranges.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_archive::{LedgerPhase, RangeReport, RangeState, TxHashPhase};
use chronolith_follower::chain::Chain;
use chronolith_follower::ingest;
use chronolith_follower::ranges::Ranges;
use chronolith_follower::settings::{Finality, Mode};
use chronolith_model::BlockRange;
use chronolith_sim::evm::EvmNode;
use support::ranges::{
    SHORT, assert_complete, counts, range, ranges, state_of, states, wait_ranges,
};
use support::start::{backfill, run, start, stored, stored_ranges};
use support::{Ground, MemorySource, assert_archived, following, node};

/// A chain whose blocks are final when five others stand on them.
fn ground(start: u64, mode: Mode) -> Ground {
    let mut ground = Ground::new(Finality::Depth(5));
    ground.settings.ranges = SHORT;
    set_mode(&mut ground, start, mode);
    ground
}

fn set_mode(ground: &mut Ground, start: u64, mode: Mode) {
    ground.settings.start_block = start;
    ground.settings.mode = mode;
}

fn bounded(end_block: u64) -> Mode {
    Mode::Backfill { end_block }
}

/// Waits until the newest archived block is this one.
async fn until_processed(chain: &Chain, last: u64) -> Ranges {
    let is_there = |ranges: &Ranges| ranges.head == Some(last);
    wait_ranges(chain, "the next block", is_there).await
}

async fn until_complete(chain: &Chain, id: u64) -> Ranges {
    let is_complete = |ranges: &Ranges| state_of(ranges, id) == Some(RangeState::Complete);
    wait_ranges(chain, "the end of the transition", is_complete).await
}

/// Blocks come one after the other, and range 0 is published at its checkpoints.
async fn checkpoints(chain: &Chain, node: &EvmNode) {
    let mut head = node.head().number;
    for last in [20, 30] {
        head = node.mine(last + 5 - head).number;
        let is_there = |ranges: &Ranges| range(ranges, 0).last_committed == Some(last);
        let now = wait_ranges(chain, "the checkpoint", is_there).await;
        let first = range(&now, 0);
        assert_eq!(first.state, RangeState::Ingesting, "{first:#?}");
        assert_eq!(first.ledger, Some(LedgerPhase::Ingesting), "{first:#?}");
        assert_eq!(first.blocks, last + 1);
        assert_eq!(first.txhash, Some(TxHashPhase::Ingesting), "{first:#?}");
        assert_eq!(first.keys, Some(counts(node, BlockRange::new(0, last + 1))));
        assert_eq!(first.completed_at, None);
        assert_eq!(first.transition_started_at, None);
        let second = range(&now, 1);
        assert_eq!((second.state, second.ledger), (RangeState::Pending, None));
    }
}

#[tokio::test(start_paused = true)]
async fn scenario_1_a_fresh_backfill() {
    // Nothing is final yet: the plan is all there is.
    let node = node(71, 4);
    let (ground, source) = (ground(0, bounded(119)), MemorySource::new(&[&node]));
    let chain = start(&ground, Some(&source)).await.unwrap();
    let planned = ranges(&chain).await;
    assert_eq!(
        (planned.mode, planned.bounds, planned.head),
        ("backfill", Some((0, 119)), None)
    );
    let pending = |id| RangeReport::pending(planned.geometry, id);
    assert_eq!(planned.all, [0, 1, 2].map(pending));
    let borders = planned.all.iter().map(|range| (range.first, range.last));
    assert!(borders.eq([(0, 39), (40, 79), (80, 119)]));
    let blocks = async {
        // During ingestion of range 0, at two checkpoints.
        checkpoints(&chain, &node).await;
        // Its last block begins the transition, whatever comes then.
        node.mine(44 - node.head().number);
        let now = until_complete(&chain, 0).await;
        assert_complete(&ground, &now, 0);
        let all = counts(&node, BlockRange::new(0, 40));
        assert_eq!(range(&now, 0).keys, Some(all));
        assert_eq!(range(&now, 1).state, RangeState::Pending);
        node.mine(100);
    };
    let (done, ()) = tokio::join!(Box::pin(ingest::run(&chain)), Box::pin(blocks));
    done.unwrap();
    let last = ranges(&chain).await;
    (0..3).for_each(|id| assert_complete(&ground, &last, id));
    assert_eq!((last.mode, last.all.len()), ("backfill", 3));
    assert_archived(&chain.archive, &node, BlockRange::new(0, 120)).await;
    drop(chain);
    // The same again has nothing to do, and ends well.
    run(&ground, Some(&source)).await.unwrap();
    assert_eq!(stored_ranges(&ground).await, last);
}

#[tokio::test(start_paused = true)]
async fn scenario_2_a_crash_during_backfill() {
    let node = node(73, 700);
    // A fetch brings a part of a range, so that there is time to come between.
    let (mut ground, source) = (ground(0, bounded(599)), MemorySource::new(&[&node]));
    ground.settings.ranges.size = 200;
    let chain = start(&ground, Some(&source)).await.unwrap();
    let begun = |ranges: &Ranges| state_of(ranges, 0) == Some(RangeState::Ingesting);
    following(
        &chain,
        wait_ranges(&chain, "a checkpoint of range 0", begun),
    )
    .await;
    drop(chain);
    let chain = start(&ground, Some(&source)).await.unwrap();
    let crashed = ranges(&chain).await;
    let first = range(&crashed, 0);
    assert_eq!(first.state, RangeState::Ingesting, "it ended too late");
    let committed = first.last_committed.unwrap();
    assert_eq!((committed + 1) % 10, 0, "{committed} is no checkpoint");
    assert_eq!(first.blocks, committed + 1);
    let before = source.fetched().len();
    Box::pin(ingest::run(&chain)).await.unwrap();
    // It continued with the block after the checkpoint.
    let fetched = source.fetched().split_off(before);
    assert_eq!(fetched.iter().min(), Some(&(committed + 1)));
    let last = ranges(&chain).await;
    (0..3).for_each(|id| assert_complete(&ground, &last, id));
    assert_archived(&chain.archive, &node, BlockRange::new(0, 600)).await;
}

/// The last block of range 3, and the first one of range 4.
async fn cross(chain: &Chain, node: &EvmNode) {
    // The last block of the range ends it, and opens the next one.
    node.mine(1);
    let now = until_processed(chain, 159).await;
    let full = range(&now, 3);
    let is_full = [RangeState::Transitioning, RangeState::Complete].contains(&full.state);
    assert!(is_full, "{full:#?}");
    assert_eq!(full.last_committed, Some(159));
    let next = range(&now, 4);
    assert_eq!(next.state, RangeState::Ingesting);
    assert_eq!((next.first, next.last), (160, 199));
    assert_eq!(next.ledger, Some(LedgerPhase::Ingesting));
    assert_eq!(next.txhash, Some(TxHashPhase::Ingesting));
    assert_eq!(next.last_committed, None);
    node.mine(1);
    let now = until_processed(chain, 160).await;
    assert_eq!(range(&now, 4).last_committed, Some(160));
}

#[tokio::test(start_paused = true)]
async fn scenarios_3_and_4_streaming_over_a_border() {
    let node = node(74, 124);
    let (ground, source) = (ground(0, Mode::Streaming), MemorySource::new(&[&node]));
    let source = Some(&source);
    let refused = start(&ground, source).await.err().unwrap().to_string();
    let message = "Cannot start streaming mode - the archive is empty";
    assert!(refused.contains(message), "{refused}");
    let action = "--start-ledger 0 --end-ledger 119";
    assert!(refused.contains(action), "{refused}");
    backfill(&ground, source, 0, 119).await.unwrap();
    let chain = start(&ground, source).await.unwrap();
    following(&chain, async {
        let now = until_processed(&chain, 119).await;
        assert_eq!((now.mode, now.bounds), ("streaming", Some((0, 119))));
        let next = range(&now, 3);
        assert_eq!(next.state, RangeState::Ingesting);
        assert_eq!((next.first, next.last), (120, 159));
        assert_eq!(next.ledger, Some(LedgerPhase::Ingesting));
        assert_eq!(next.txhash, Some(TxHashPhase::Ingesting));
        assert_eq!(next.last_committed, None);
        (0..3).for_each(|id| assert_complete(&ground, &now, id));
        // One block before the border.
        node.mine(39);
        let now = until_processed(&chain, 158).await;
        let newest = range(&now, 3);
        assert_eq!(newest.state, RangeState::Ingesting);
        assert_eq!(newest.last_committed, Some(158));
        assert_eq!(state_of(&now, 4), None);
        cross(&chain, &node).await;
        let now = until_complete(&chain, 3).await;
        assert_complete(&ground, &now, 3);
    })
    .await;
    assert_archived(&chain.archive, &node, BlockRange::new(0, 161)).await;
}

#[tokio::test(start_paused = true)]
async fn scenario_5_a_gap_is_reported_and_filled() {
    use RangeState::{Complete, Ingesting};
    let node = node(75, 125);
    let (mut ground, source) = (ground(80, bounded(119)), MemorySource::new(&[&node]));
    let source = Some(&source);
    run(&ground, source).await.unwrap();
    set_mode(&mut ground, 0, bounded(59));
    run(&ground, source).await.unwrap();
    set_mode(&mut ground, 0, Mode::Streaming);
    let refused = start(&ground, source).await.err().unwrap().to_string();
    assert_eq!(
        refused,
        "Cannot start streaming mode - incomplete ranges detected:\n  \
         Range 1 (ledgers 40-79): state=INGESTING, last_committed=59\n\n\
         Action required: Re-run backfill with --start-ledger 0 --end-ledger 119"
    );
    // A start that is refused changes no mode.
    let now = stored_ranges(&ground).await;
    assert_eq!(now.mode, "backfill");
    assert_eq!(states(&now), [Complete, Ingesting, Complete]);
    assert_eq!(range(&now, 1).last_committed, Some(59));
    // The action fills the gap.
    assert_eq!(backfill(&ground, source, 0, 119).await.unwrap(), 20);
    let chain = start(&ground, source).await.unwrap();
    following(&chain, async {
        node.mine(1);
        let is_there = |ranges: &Ranges| ranges.head >= Some(120);
        wait_ranges(&chain, "the next block", is_there).await;
    })
    .await;
    drop(chain);
    // More than a whole range passed meanwhile.
    node.mine(100);
    let refused = start(&ground, source).await.err().unwrap().to_string();
    let pending = "Range 4 (ledgers 160-199): state=PENDING, last_committed=none";
    assert!(refused.contains(pending), "{refused}");
    let action = "--start-ledger 0 --end-ledger 199";
    assert!(refused.contains(action), "{refused}");
    let archive = stored(&ground).await;
    assert_archived(&archive, &node, BlockRange::new(0, 121)).await;
}
