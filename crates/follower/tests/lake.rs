//! A Stellar network from its data lake into an archive, and out again byte for byte.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::time::Duration;

use chronolith_archive::RangeState;
use chronolith_follower::ingest;
use chronolith_follower::settings::{Mode, RangePlan};
use chronolith_model::{BlockRange, DatasetSet, Hash32};
use support::ranges::{SHORT, states};
use support::start::{assert_undamaged, backfill, run, start, stored, stored_ranges};
use support::stellar::Pond;
use support::{Ground, archived, following, until_archived, wait};

/// A run over the same ledgers from the first on, and what they come down to.
async fn clean_root(pond: &Pond, end: u32) -> Hash32 {
    let ground = pond.ground();
    let chain = start(&ground, None).await.unwrap();
    following(&chain, until_archived(&chain, u64::from(end) - 1)).await;
    pond.assert_archived(&chain.archive, 2..end).await;
    let range = BlockRange::new(2, end.into());
    chain.archive.content_root(range).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn ledgers_come_one_by_one_as_they_close() {
    let pond = Pond::new(31, 60);
    let ground = pond.ground();
    let chain = start(&ground, None).await.unwrap();
    following(&chain, async {
        until_archived(&chain, 59).await;
        for end in 61..66 {
            pond.grow(end);
            until_archived(&chain, u64::from(end) - 1).await;
        }
    })
    .await;
    pond.assert_archived(&chain.archive, 2..65).await;
    assert_undamaged(&chain.archive, BlockRange::new(2, 65)).await;
    assert!(chain.status().error.is_none());
}

/// Nothing vouches for the last ledger before a wrong object.
#[tokio::test(start_paused = true)]
async fn a_wrong_object_stops_the_chain_until_it_is_repaired() {
    let pond = Pond::new(32, 60);
    let key = pond.lake.layout().key(40);
    let whole = std::fs::read(pond.lake.path(40)).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 16;
    std::fs::write(pond.lake.path(40), &damaged).unwrap();
    let ground = pond.ground();
    let chain = start(&ground, None).await.unwrap();
    let error = || chain.status().error.clone().unwrap_or_default();
    following(&chain, async {
        wait("the object's name", || error().contains(&key)).await;
        until_archived(&chain, 38).await;
        wait("the error", || error().contains(&key)).await;
        assert!(error().contains("lake"), "{}", error());
        // However often it is tried.
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(archived(&chain), Some(38));
        std::fs::write(pond.lake.path(40), &whole).unwrap();
        until_archived(&chain, 59).await;
        wait("a round without an error", || {
            chain.status().error.is_none()
        })
        .await;
    })
    .await;
    pond.assert_archived(&chain.archive, 2..60).await;
}

#[tokio::test(start_paused = true)]
async fn ledgers_below_the_first_are_filled_in() {
    let pond = Pond::new(33, 50);
    let mut ground = pond.ground();
    ground.settings.start_block = 30;
    let chain = start(&ground, None).await.unwrap();
    following(&chain, until_archived(&chain, 49)).await;
    drop(chain);
    assert_eq!(backfill(&ground, None, 2, 29).await.unwrap(), 28);
    let archive = stored(&ground).await;
    pond.assert_archived(&archive, 2..50).await;
    let range = BlockRange::new(2, 50);
    assert_undamaged(&archive, range).await;
    let root = archive.content_root(range).await.unwrap();
    assert_eq!(root, clean_root(&pond, 50).await);
}

/// One range has a gap that cannot be filled; those above it are.
#[tokio::test(start_paused = true)]
async fn a_gap_that_no_source_can_fill_keeps_no_other_open() {
    let pond = Pond::new(35, 60);
    let mut ground = pond.ground();
    ground.settings.start_block = 30;
    ground.settings.ranges.size = 10;
    let chain = start(&ground, None).await.unwrap();
    following(&chain, until_archived(&chain, 59)).await;
    drop(chain);
    ground.settings.start_block = 2;
    let whole = std::fs::read(pond.lake.path(5)).unwrap();
    std::fs::remove_file(pond.lake.path(5)).unwrap();
    let chain = start(&ground, None).await.unwrap();
    let covers = |from: u64| {
        let covered = chain.archive.coverage(DatasetSet::CLOCK, None);
        let mut covered = covered.iter().map(|(range, _)| *range);
        covered.any(|range| range == BlockRange::new(from, 60))
    };
    following(&chain, async {
        wait("the gap that can be filled", || covers(12)).await;
        let key = pond.lake.layout().key(5);
        let gaps = || chain.status().gaps.clone().unwrap_or_default();
        wait("the object that is missing", || gaps().contains(&key)).await;
        assert!(!covers(2));
        std::fs::write(pond.lake.path(5), whole).unwrap();
        wait("everything", || covers(2)).await;
    })
    .await;
    pond.assert_archived(&chain.archive, 2..60).await;
}

#[tokio::test(start_paused = true)]
async fn a_range_of_ledgers_is_archived_and_no_more() {
    let pond = Pond::new(35, 60);
    let mut ground = pond.ground();
    ground.settings.start_block = 20;
    ground.settings.mode = Mode::Backfill { end_block: 39 };
    let chain = start(&ground, None).await.unwrap();
    Box::pin(ingest::run(&chain)).await.unwrap();
    assert_eq!(archived(&chain), Some(39));
}

/// Ranges of 40 ledgers, as many of them at a time.
fn ranges_of(pond: &Pond, parallel: usize) -> Ground {
    let mut ground = pond.ground();
    ground.settings.ranges = RangePlan {
        first: 2,
        parallel,
        ..SHORT
    };
    ground
}

/// An object is missing in the middle of a lake: what else there is comes, and then a backfill ends.
#[tokio::test(start_paused = true)]
async fn a_gap_in_a_lake_ends_a_backfill_after_the_rest() {
    use RangeState::{Complete, Ingesting};
    // In a range that is filled, in the newest one, and in both; one range at a time, and two.
    for (missing, parallel, expected) in [
        (&[30][..], 2, [Ingesting, Complete]),
        (&[60], 1, [Complete, Ingesting]),
        (&[30, 60], 2, [Ingesting, Ingesting]),
    ] {
        let pond = Pond::new(63, 90);
        let whole = |ledger: &u32| std::fs::read(pond.lake.path(*ledger)).unwrap();
        let objects: Vec<Vec<u8>> = missing.iter().map(whole).collect();
        for ledger in missing {
            std::fs::remove_file(pond.lake.path(*ledger)).unwrap();
        }
        let ground = ranges_of(&pond, parallel);
        let error = backfill(&ground, None, 2, 81).await.unwrap_err();
        let error = format!("{error:#}");
        let key = pond.lake.layout().key(missing[0]);
        let gap = format!("object {key} is missing, and the lake continues to ledger 89");
        assert!(error.contains(&gap), "{error}");
        assert!(error.contains("not every range is complete"), "{error}");
        let found = states(&stored_ranges(&ground).await);
        assert_eq!(found, expected, "without {missing:?}");
        // Once the objects are there, the same backfill continues from there.
        for (ledger, bytes) in missing.iter().zip(&objects) {
            std::fs::write(pond.lake.path(*ledger), bytes).unwrap();
        }
        backfill(&ground, None, 2, 81).await.unwrap();
        let archive = stored(&ground).await;
        pond.assert_archived(&archive, 2..82).await;
    }
}

/// The same in mode backfill, where a lake that is merely behind is waited for.
#[tokio::test(start_paused = true)]
async fn mode_backfill_waits_for_a_lake_that_is_behind_and_not_for_a_gap() {
    let pond = Pond::new(64, 50);
    let mode = Mode::Backfill { end_block: 81 };
    let mut ground = ranges_of(&pond, 2);
    ground.settings.mode = mode;
    let chain = start(&ground, None).await.unwrap();
    let growing = async {
        let head = || archived(&chain);
        wait("the end of the lake", || head() >= Some(48)).await;
        pond.grow(90);
    };
    let (done, ()) = tokio::join!(Box::pin(ingest::run(&chain)), growing);
    done.unwrap();
    let mut with_gap = ranges_of(&pond, 2);
    with_gap.settings.mode = mode;
    std::fs::remove_file(pond.lake.path(30)).unwrap();
    let key = pond.lake.layout().key(30);
    let error = run(&with_gap, None).await.unwrap_err().to_string();
    let gap = format!("object {key} is missing");
    assert!(error.contains(&gap), "{error}");
    let found = states(&stored_ranges(&with_gap).await);
    assert_eq!(found, [RangeState::Ingesting, RangeState::Complete]);
}
