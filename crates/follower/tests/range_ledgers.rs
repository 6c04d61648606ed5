//! Ranges of a Stellar network: counted from ledger 2, from backfill to streaming.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::time::Duration;

use chronolith_archive::{LedgerPhase, RangeState, TxCounts};
use chronolith_follower::ingest;
use chronolith_follower::ranges::Ranges;
use chronolith_follower::settings::{Mode, RangePlan};
use chronolith_model::{BlockRange, Dataset, DatasetSet};
use support::ranges::{SHORT, range, ranges, state_of, wait_ranges};
use support::start::{assert_undamaged, backfill, start, stored, stored_ranges};
use support::stellar::Pond;
use support::{Ground, archived, following, until_archived};

fn ground(pond: &Pond) -> Ground {
    let mut ground = pond.ground();
    ground.settings.ranges = RangePlan {
        first: 2,
        parallel: 3,
        ..SHORT
    };
    ground
}

/// The same, for ledgers from this one on.
fn ground_from(pond: &Pond, first: u64) -> Ground {
    let mut ground = ground(pond);
    ground.settings.start_block = first;
    ground
}

/// Transactions of ledgers by the first digit of their hashes: of each its own hash and, where it pays for the fees
/// of another one, that one's.
fn counts(pond: &Pond, first: u32, last: u32) -> TxCounts {
    let mut counts = TxCounts([0; 16]);
    for number in first..=last {
        for tx in &pond.chain.ledger(number).txs {
            for hash in [Some(tx.hash), tx.inner_hash].into_iter().flatten() {
                counts.0[usize::from(hash.0[0] >> 4)] += 1;
            }
        }
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn a_network_goes_from_backfill_to_streaming() {
    let pond = Pond::new(34, 130);
    let mut ground = ground(&pond);
    backfill(&ground, None, 2, 121).await.unwrap();
    let complete = stored_ranges(&ground).await;
    for (id, first, last) in [(0, 2, 41), (1, 42, 81), (2, 82, 121)] {
        let range = range(&complete, id);
        assert_eq!(range.state, RangeState::Complete);
        let borders = (u64::from(first), u64::from(last));
        assert_eq!((range.first, range.last), borders);
        assert_eq!((range.blocks, range.last_committed), (40, Some(borders.1)));
        assert_eq!(range.keys, Some(counts(&pond, first, last)));
    }
    assert_eq!(complete.all.len(), 3);
    ground.settings.mode = Mode::Streaming;
    let chain = start(&ground, None).await.unwrap();
    following(&chain, async {
        let is_there = |ranges: &Ranges| ranges.head == Some(129);
        let now = wait_ranges(&chain, "the newest ledger", is_there).await;
        assert_eq!(now.mode, "streaming");
        let newest = range(&now, 3);
        assert_eq!(newest.state, RangeState::Ingesting);
        assert_eq!((newest.first, newest.last_committed), (122, Some(129)));
        // Over the border.
        pond.grow(163);
        let is_there = |ranges: &Ranges| {
            let is_complete = state_of(ranges, 3) == Some(RangeState::Complete);
            is_complete && range(ranges, 4).last_committed == Some(162)
        };
        wait_ranges(&chain, "the next range", is_there).await;
    })
    .await;
    pond.assert_archived(&chain.archive, 2..163).await;
    assert_undamaged(&chain.archive, BlockRange::new(2, 163)).await;
}

/// The bounds of a backfill lie above the end of the lake: it waits until the lake has grown.
#[tokio::test(start_paused = true)]
async fn a_backfill_waits_for_the_end_of_its_bounds() {
    let pond = Pond::new(36, 60);
    let mut ground = ground(&pond);
    ground.settings.mode = Mode::Backfill { end_block: 121 };
    let chain = start(&ground, None).await.unwrap();
    let is_at_end = |ranges: &Ranges| {
        let is_complete = state_of(ranges, 0) == Some(RangeState::Complete);
        is_complete && range(ranges, 1).last_committed >= Some(51)
    };
    let now = wait_ranges(&chain, "the end of the lake", is_at_end);
    let now = following(&chain, now).await;
    assert_eq!(now.mode, "backfill");
    let all = now
        .all
        .iter()
        .map(|range| (range.id, range.state, range.first, range.last));
    let expected = [
        (0, RangeState::Complete, 2, 41),
        (1, RangeState::Ingesting, 42, 81),
        (2, RangeState::Pending, 82, 121),
    ];
    assert!(all.eq(expected), "{now:#?}");
    assert_eq!(range(&now, 0).blocks, 40);
    // It waits, however long that takes.
    following(&chain, tokio::time::sleep(Duration::from_secs(600))).await;
    assert_eq!(archived(&chain), Some(59));
    pond.grow(130);
    Box::pin(ingest::run(&chain)).await.unwrap();
    pond.assert_archived(&chain.archive, 2..122).await;
}

/// More is kept than before, and the source ends where the archive does: no block after it vouches for the last.
#[tokio::test(start_paused = true)]
async fn what_is_kept_by_now_is_filled_in_up_to_the_end_of_a_lake() {
    let pond = Pond::new(35, 60);
    let mut ground = pond.ground();
    let all = ground.settings.datasets;
    ground.settings.datasets = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]);
    let chain = start(&ground, None).await.unwrap();
    following(&chain, until_archived(&chain, 59)).await;
    drop(chain);
    ground.settings.datasets = all;
    assert_eq!(backfill(&ground, None, 2, 59).await.unwrap(), 58);
    let archive = stored(&ground).await;
    pond.assert_archived(&archive, 2..60).await;
}

/// The end of a range was archived and nothing below it: the range said COMPLETE with a fraction of its ledgers,
/// and streaming refused to start because it was not. It is INGESTING until its first ledger is there.
#[tokio::test(start_paused = true)]
async fn a_range_that_is_cut_at_its_start_is_not_complete() {
    let pond = Pond::new(36, 130);
    let mut ground = ground(&pond);
    backfill(&ground, None, 30, 41).await.unwrap();
    let cut = stored_ranges(&ground).await;
    let first = range(&cut, 0);
    assert_eq!(first.state, RangeState::Ingesting, "{first:#?}");
    assert_eq!(first.ledger, Some(LedgerPhase::Ingesting), "{first:#?}");
    assert_eq!(first.blocks, 12, "{first:#?}");
    assert_eq!(first.completed_at, None, "{first:#?}");
    ground.settings.mode = Mode::Streaming;
    let refused = start(&ground, None).await.err().unwrap().to_string();
    let gap = "Range 0 (ledgers 2-41): state=INGESTING";
    assert!(refused.contains(gap), "{refused}");
    // Of its 40 ledgers 12 are there.
    assert_eq!(backfill(&ground, None, 2, 41).await.unwrap(), 28);
    let whole = stored_ranges(&ground).await;
    let first = range(&whole, 0);
    assert_eq!(first.state, RangeState::Complete, "{first:#?}");
    assert!(first.completed_at.is_some(), "{first:#?}");
    // Where the settings want no more of it, nothing is missing: it stays cut, and is followed from.
    let mut later = ground_from(&pond, 30);
    let chain = start(&later, None).await.unwrap();
    following(&chain, until_archived(&chain, 129)).await;
    assert_eq!(chain.missing_below(130), []);
    assert_eq!(range(&ranges(&chain).await, 0).state, RangeState::Ingesting);
    drop(chain);
    later.settings.mode = Mode::Streaming;
    start(&later, None).await.unwrap();
    assert_eq!(stored_ranges(&later).await.mode, "streaming");
}
