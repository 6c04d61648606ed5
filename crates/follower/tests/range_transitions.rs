//! Transitions of ranges, held at a step by a disk that does not answer: what is published meanwhile, a crash there,
//! and how the next run continues. Ranges of 40 ledgers from ledger 2 on.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_archive::{LedgerPhase, PartStatus, RangeReport, RangeState, TxHashPhase};
use chronolith_follower::chain::Chain;
use chronolith_follower::ingest;
use chronolith_follower::ranges::Ranges;
use chronolith_follower::settings::{Mode, RangePlan};
use chronolith_model::BlockRange;
use support::ranges::{
    SHORT, Stuck, assert_complete, is_folder_of, range, ranges, state_of, wait_ranges,
};
use support::start::{assert_undamaged, backfill, start, stored_ranges};
use support::stellar::Pond;
use support::{Ground, following};

const IN_PROGRESS: Option<PartStatus> = Some(PartStatus::InProgress);

fn ground(pond: &Pond) -> Ground {
    let mut ground = pond.ground();
    ground.settings.ranges = RangePlan { first: 2, ..SHORT };
    ground
}

#[track_caller]
fn assert_phases(range: &RangeReport, ledger: LedgerPhase, txhash: TxHashPhase) {
    assert_eq!(range.state, RangeState::Transitioning, "{range:#?}");
    assert_eq!(range.ledger, Some(ledger), "{range:#?}");
    assert_eq!(range.txhash, Some(txhash), "{range:#?}");
    assert_eq!(range.txhash_status, IN_PROGRESS, "{range:#?}");
    assert!(range.transition_started_at.is_some(), "{range:#?}");
    assert_eq!(range.completed_at, None, "{range:#?}");
}

/// The chain ends here, as in a crash. What is stored is what was published.
async fn crash(ground: &Ground, chain: Chain, published: &Ranges) {
    drop(chain);
    let stored = stored_ranges(ground).await;
    assert_eq!(&stored, published, "a crash changes nothing");
}

/// Range 3 becomes full while no table of hashes can be written, range 4 is written beside it, and the chain ends.
async fn ended_while_compacting(ground: &Ground, pond: &Pond) -> Ranges {
    let runs = Stuck::new(ground, "run");
    let chain = start(ground, None).await.unwrap();
    let compacting = following(&chain, async {
        let is_there = |ranges: &Ranges| ranges.head == Some(124);
        wait_ranges(&chain, "the end of the lake", is_there).await;
        pond.grow(165);
        let is_there = |ranges: &Ranges| {
            let is_full = state_of(ranges, 3) == Some(RangeState::Transitioning);
            is_full && ranges.head == Some(164)
        };
        wait_ranges(&chain, "the next range", is_there).await
    })
    .await;
    let full = range(&compacting, 3);
    assert_phases(full, LedgerPhase::Merging, TxHashPhase::Compacting);
    assert_eq!((full.first, full.last), (122, 161));
    assert_eq!(full.last_committed, Some(161));
    assert_eq!(full.ledger_status, IN_PROGRESS);
    assert!(full.runs.is_empty(), "{full:#?}");
    // Until there is one index for all of the range, its segments are searched for hashes.
    assert!(is_folder_of(ground, &full.segments[0]), "{full:#?}");
    assert_eq!(range(&compacting, 2).transition_started_at, None);
    let next = range(&compacting, 4);
    assert_eq!(next.state, RangeState::Ingesting);
    assert_eq!(next.last_committed, Some(164));
    assert_eq!(next.transition_started_at, None);
    crash(ground, chain, &compacting).await;
    runs.release();
    compacting
}

/// The table of hashes is made, the packs of the range cannot be read, and the chain ends again.
async fn ended_while_verifying(ground: &Ground, pond: &Pond, before: &Ranges) -> Ranges {
    let packs = Stuck::all(ground, &range(before, 3).packs);
    let chain = start(ground, None).await.unwrap();
    let verifying = following(&chain, async {
        let is_verifying =
            |ranges: &Ranges| range(ranges, 3).txhash == Some(TxHashPhase::VerifyingIndex);
        let now = wait_ranges(&chain, "the verification", is_verifying).await;
        let full = range(&now, 3);
        assert_phases(full, LedgerPhase::Merging, TxHashPhase::VerifyingIndex);
        assert_eq!(full.ledger_status, IN_PROGRESS);
        let began = range(before, 3).transition_started_at;
        assert_eq!(full.transition_started_at, began);
        assert_eq!(range(&now, 4).last_committed, Some(164));
        // Ingest continues beside it.
        pond.grow(168);
        let is_there = |ranges: &Ranges| ranges.head == Some(167);
        wait_ranges(&chain, "newer ledgers", is_there).await
    })
    .await;
    assert_eq!(range(&verifying, 3).state, RangeState::Transitioning);
    crash(ground, chain, &verifying).await;
    packs.into_iter().for_each(Stuck::release);
    verifying
}

/// Scenario 6 of the requirement: the transition of range 3 stands at one phase after the other while range
/// 4 is written, the chain ends at each, and continues there.
#[tokio::test(start_paused = true)]
async fn scenario_6_a_transition_is_ended_at_its_phases() {
    let pond = Pond::new(38, 125);
    let mut ground = ground(&pond);
    backfill(&ground, None, 2, 121).await.unwrap();
    ground.settings.mode = Mode::Streaming;
    let compacting = ended_while_compacting(&ground, &pond).await;
    let verifying = ended_while_verifying(&ground, &pond, &compacting).await;
    let chain = start(&ground, None).await.unwrap();
    let is_complete = |ranges: &Ranges| state_of(ranges, 3) == Some(RangeState::Complete);
    let complete = wait_ranges(&chain, "the end of the transition", is_complete);
    let complete = following(&chain, complete).await;
    assert_complete(&ground, &complete, 3);
    let (before, after) = (range(&verifying, 3), range(&complete, 3));
    assert_eq!(before.runs.len(), 1);
    assert_eq!(after.runs, before.runs, "it was made a second time");
    assert_eq!(after.created_at, range(&compacting, 3).created_at);
    assert_eq!(range(&complete, 4).state, RangeState::Ingesting);
    pond.assert_archived(&chain.archive, 2..168).await;
    assert_undamaged(&chain.archive, BlockRange::new(2, 168)).await;
}

/// The same in a backfill, whose blocks come in their last form: what is left is the hashes.
#[tokio::test(start_paused = true)]
async fn a_backfill_is_ended_in_its_transitions() {
    let pond = Pond::new(39, 90);
    let mut ground = ground(&pond);
    ground.settings.mode = Mode::Backfill { end_block: 81 };
    // One pack for all that is filled into a range: several would be joined before anything else.
    ground.settings.ranges.checkpoint = 40;
    let runs = Stuck::new(&ground, "run");
    let chain = start(&ground, None).await.unwrap();
    let are_full = |ranges: &Ranges| {
        let is_full = |id| state_of(ranges, id) == Some(RangeState::Transitioning);
        is_full(0) && is_full(1)
    };
    let compacting = wait_ranges(&chain, "both transitions", are_full);
    let compacting = following(&chain, compacting).await;
    for id in [0, 1] {
        let full = range(&compacting, id);
        assert_eq!(full.txhash, Some(TxHashPhase::Compacting));
        assert_eq!(full.ledger_status, IN_PROGRESS);
        assert_eq!(full.txhash_status, IN_PROGRESS);
    }
    drop(chain);
    runs.release();
    // Range 0 was filled, and its packs are as they stay; they are opened when it is verified.
    let packs = Stuck::all(&ground, &range(&compacting, 0).packs);
    let chain = start(&ground, None).await.unwrap();
    let is_verifying = |ranges: &Ranges| {
        let range = range(ranges, 0);
        range.txhash == Some(TxHashPhase::VerifyingIndex)
            && range.ledger == Some(LedgerPhase::Immutable)
    };
    let verifying = wait_ranges(&chain, "the verification", is_verifying);
    let verifying = following(&chain, verifying).await;
    let (before, full) = (range(&compacting, 0), range(&verifying, 0));
    assert_phases(full, LedgerPhase::Immutable, TxHashPhase::VerifyingIndex);
    assert_eq!((full.first, full.last), (2, 41));
    assert_eq!(full.transition_started_at, before.transition_started_at);
    assert_eq!(full.ledger_status, Some(PartStatus::Complete));
    drop(chain);
    packs.into_iter().for_each(Stuck::release);
    let chain = start(&ground, None).await.unwrap();
    Box::pin(ingest::run(&chain)).await.unwrap();
    let done = ranges(&chain).await;
    (0..2).for_each(|id| assert_complete(&ground, &done, id));
    assert_eq!(range(&done, 0).runs, full.runs, "it was made a second time");
    pond.assert_archived(&chain.archive, 2..82).await;
}
