//! How high each rule lets finality go, and what it says when it stands still.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_finality::{
    Inclusion, Observation, ReportedBlock, Rule, Settings, Stall, Step, Tracker,
};
use support::{at, clock, hash};

const DUAL: Rule = Rule::DualSource {
    l2_depth: 3,
    l1_confirmations: 10,
    max_l1_delay_seconds: 60,
};

/// Above final block 5: blocks of fork 0 through `head`.
fn grown(rule: Rule, head: u64) -> Tracker {
    let mut tracker = Tracker::new(rule, Settings::default(), Some(at(5, 0))).unwrap();
    grow(&mut tracker, head);
    tracker
}

fn grow(tracker: &mut Tracker, head: u64) {
    for number in tracker.head().unwrap().number + 1..=head {
        tracker.accept(&clock(number, 0, 0)).unwrap();
    }
}

/// Height that an observation made final, if it did.
fn observe(tracker: &mut Tracker, seen: &Observation) -> Option<u64> {
    let before = tracker.finalized();
    let step = tracker.observe(seen)?;
    let Step::Finalize(block) = step else {
        panic!("{step:?}");
    };
    assert_ne!(before, Some(block));
    assert_eq!(tracker.finalized(), Some(block));
    assert_eq!(tracker.hash_at(block.number), Some(block.hash));
    Some(block.number)
}

fn reported(mark: impl Into<ReportedBlock>) -> Observation {
    Observation {
        finalized: Some(mark.into()),
        ..Observation::default()
    }
}

fn both(safe: impl Into<ReportedBlock>, l1_head: u64, now: u64) -> Observation {
    Observation {
        safe: Some(safe.into()),
        l1_head: Some(l1_head),
        now,
        ..Observation::default()
    }
}

#[test]
fn depth_counts_from_our_own_head() {
    let check = |confirmations, head, expected| {
        let mut tracker = grown(Rule::Depth { confirmations }, head);
        // What others report is not this rule's business.
        let got = observe(&mut tracker, &reported(head));
        assert_eq!(got, expected, "{confirmations} {head}");
        assert_eq!(observe(&mut tracker, &reported(head)), None, "once");
        assert_eq!(tracker.stalled(0), None);
    };
    check(0, 9, Some(9));
    check(1, 9, Some(8));
    check(3, 9, Some(6));
    check(4, 9, None);
    check(100, 9, None);
    check(2, 5, None);
}

#[test]
fn depth_does_not_go_back_with_the_head() {
    let mut tracker = grown(Rule::Depth { confirmations: 3 }, 12);
    assert_eq!(observe(&mut tracker, &Observation::at(0)), Some(9));
    tracker.accept(&clock(10, 1, 0)).unwrap();
    assert_eq!(observe(&mut tracker, &Observation::at(0)), None);
    for number in 11..14 {
        tracker.accept(&clock(number, 1, 1)).unwrap();
    }
    assert_eq!(observe(&mut tracker, &Observation::at(0)), Some(10));
    assert_eq!(tracker.finalized(), Some(at(10, 1)));
}

#[test]
fn depth_without_a_base_begins_at_the_first_block() {
    let rule = Rule::Depth { confirmations: 2 };
    let mut tracker = Tracker::new(rule, Settings::default(), None).unwrap();
    assert_eq!(tracker.observe(&Observation::at(0)), None);
    for number in 7..10 {
        assert_eq!(tracker.observe(&Observation::at(0)), None);
        tracker.accept(&clock(number, 0, 0)).unwrap();
    }
    assert_eq!(observe(&mut tracker, &Observation::at(0)), Some(7));
}

#[test]
fn a_report_makes_final_what_it_names() {
    for rule in [Rule::Tag, Rule::Source] {
        let mut tracker = grown(rule, 12);
        assert_eq!(tracker.stalled(0), Some(Stall::NothingReported));
        assert_eq!(observe(&mut tracker, &Observation::at(0)), None);
        let rows = [
            (ReportedBlock::from(4), None),
            (ReportedBlock::from(5), None),
            (ReportedBlock::from(7), Some(7)),
            (ReportedBlock::from(6), None),
            (ReportedBlock::from(at(9, 0)), Some(9)),
            (ReportedBlock::from(8), None),
            (ReportedBlock::from(at(12, 0)), Some(12)),
        ];
        for (mark, expected) in rows {
            assert_eq!(observe(&mut tracker, &reported(mark)), expected, "{mark:?}");
            assert_eq!(tracker.stalled(0), None, "{mark:?}");
        }
    }
}

#[test]
fn a_report_above_the_head_is_kept_until_we_are_there() {
    let mut tracker = grown(Rule::Tag, 5);
    assert_eq!(observe(&mut tracker, &reported(at(8, 0))), None);
    assert_eq!(observe(&mut tracker, &reported(2)), None);
    for number in 6..9 {
        grow(&mut tracker, number);
        assert_eq!(observe(&mut tracker, &Observation::at(0)), Some(number));
    }
    grow(&mut tracker, 9);
    assert_eq!(observe(&mut tracker, &Observation::at(0)), None);
}

/// An endpoint that is on another chain, or out of its mind, names a block far above all others once.
/// The next honest report takes its place; otherwise every block would be final as it comes.
#[test]
fn an_absurd_report_is_forgotten_with_the_next_honest_one() {
    let mut tracker = grown(Rule::Tag, 5);
    observe(&mut tracker, &reported(at(1_000_000_000, 0)));
    assert_eq!(observe(&mut tracker, &reported(at(3, 0))), None);
    for number in 6..12 {
        grow(&mut tracker, number);
        assert_eq!(observe(&mut tracker, &reported(at(3, 0))), None);
    }
    assert_eq!(observe(&mut tracker, &reported(at(7, 0))), Some(7));
}

#[test]
fn blocks_that_came_before_their_mark_wait_for_one_that_came_after() {
    // We sit on a fork that the chain has left, and the report is already past our head. To take it
    // by height alone would make the wrong fork final, forever.
    let mut tracker = grown(Rule::Tag, 8);
    assert_eq!(observe(&mut tracker, &reported(at(10, 1))), None);
    tracker.accept(&clock(9, 1, 1)).unwrap_err();
    tracker.accept(&clock(8, 1, 1)).unwrap_err();
    tracker.accept(&clock(7, 1, 0)).unwrap();
    assert_eq!(observe(&mut tracker, &Observation::at(0)), Some(7));
    assert_eq!(tracker.finalized(), Some(at(7, 1)));

    // The same, and our fork was right: the next block says so.
    let mut tracker = grown(Rule::Tag, 8);
    assert_eq!(observe(&mut tracker, &reported(at(10, 0))), None);
    grow(&mut tracker, 9);
    assert_eq!(observe(&mut tracker, &Observation::at(0)), Some(9));
}

#[test]
fn a_report_on_another_fork_makes_nothing_final() {
    let mut tracker = grown(Rule::Tag, 9);
    assert_eq!(observe(&mut tracker, &reported(at(7, 1))), None);
    let stall = Stall::Contradicted {
        ours: at(7, 0),
        reported: hash(7, 1),
    };
    assert_eq!(tracker.stalled(0), Some(stall));
    // Neither a lower report nor the same height without a hash lifts that.
    assert_eq!(observe(&mut tracker, &reported(6)), None);
    assert_eq!(observe(&mut tracker, &reported(7)), None);
    assert_eq!(tracker.stalled(0), Some(stall));
    // The walk does, and so does a report that names our block.
    let mut walked = tracker.clone();
    walked.accept(&clock(7, 1, 0)).unwrap();
    assert_eq!(observe(&mut walked, &Observation::at(0)), Some(7));
    assert_eq!(observe(&mut tracker, &reported(at(7, 0))), Some(7));
    // A report against what is final is shown, and changes nothing.
    let mut against = grown(Rule::Source, 9);
    assert_eq!(observe(&mut against, &reported(at(5, 1))), None);
    assert!(matches!(
        against.stalled(0),
        Some(Stall::Contradicted { .. })
    ));
}

#[test]
fn dual_needs_depth_here_and_there() {
    let mut tracker = grown(DUAL, 20);
    assert_eq!(
        tracker.stalled(0),
        Some(Stall::L1Silent {
            last: None,
            max_delay_seconds: 60
        })
    );
    let rows = [
        (both(10, 100, 1_000), None),
        (both(14, 105, 1_010), None),
        (both(14, 109, 1_020), None),
        (both(14, 110, 1_030), Some(10)),
        (both(19, 114, 1_040), None),
        (both(19, 115, 1_050), Some(14)),
        // Covered long enough, but less than three blocks below our head.
        (both(19, 124, 1_060), Some(17)),
        (both(19, 200, 1_070), None),
    ];
    for (seen, expected) in rows {
        assert_eq!(observe(&mut tracker, &seen), expected, "{seen:?}");
        assert_eq!(tracker.stalled(seen.now), None);
    }
    assert_eq!(tracker.inclusion_of(18), None, "covered, not final");
    grow(&mut tracker, 30);
    assert_eq!(observe(&mut tracker, &Observation::at(1_071)), Some(19));
    let check = |number, expected: Option<(u64, u64)>| {
        let expected = expected.map(|(l1_number, seen_at)| Inclusion { l1_number, seen_at });
        assert_eq!(tracker.inclusion_of(number), expected, "{number}");
    };
    check(5, None);
    check(6, Some((100, 1_000)));
    check(10, Some((100, 1_000)));
    check(11, Some((105, 1_010)));
    check(14, Some((105, 1_010)));
    check(19, Some((114, 1_040)));
    check(20, None);
}

#[test]
fn dual_stops_without_a_recent_view_of_both_chains() {
    let silent = |last| {
        Some(Stall::L1Silent {
            last,
            max_delay_seconds: 60,
        })
    };
    let mut tracker = grown(DUAL, 20);
    assert_eq!(observe(&mut tracker, &both(10, 100, 1_000)), None);
    assert_eq!(
        (tracker.stalled(1_060), tracker.stalled(1_061)),
        (None, silent(Some(1_000)))
    );
    let half = [
        Observation {
            l1_head: Some(200),
            ..Observation::at(1_100)
        },
        Observation {
            safe: Some(ReportedBlock::from(10)),
            ..Observation::at(1_100)
        },
        // An endpoint that fell behind would date what follows too early.
        both(12, 99, 1_100),
    ];
    for seen in half {
        assert_eq!(observe(&mut tracker, &seen), None, "{seen:?}");
        assert_eq!(tracker.stalled(1_100), silent(Some(1_000)), "{seen:?}");
    }
    assert_eq!(observe(&mut tracker, &both(12, 110, 1_101)), Some(10));
    // After a clock went back nothing says how long ago that was, until the next observation.
    assert_eq!(tracker.stalled(0), silent(Some(1_101)));
}

#[test]
fn cover_that_was_taken_back_begins_again() {
    let mut tracker = grown(DUAL, 20);
    assert_eq!(observe(&mut tracker, &both(12, 100, 0)), None);
    // The tag goes down, seen without L1: 10 stays covered, 11 and 12 do not.
    let down = Observation {
        safe: Some(ReportedBlock::from(10)),
        ..Observation::at(1)
    };
    assert_eq!(observe(&mut tracker, &down), None);
    assert_eq!(observe(&mut tracker, &both(12, 105, 2)), None);
    assert_eq!(observe(&mut tracker, &both(12, 110, 3)), Some(10));
    assert_eq!(observe(&mut tracker, &both(12, 114, 4)), None);
    // Below what is final there is nothing to take back.
    assert_eq!(observe(&mut tracker, &both(3, 114, 5)), None);
    assert_eq!(tracker.inclusion_of(10).unwrap().l1_number, 100);
    assert_eq!(observe(&mut tracker, &both(12, 115, 6)), None);
    assert_eq!(observe(&mut tracker, &both(12, 125, 7)), Some(12));
    assert_eq!(tracker.inclusion_of(11).unwrap().l1_number, 115);
}

#[test]
fn a_reorg_under_the_safe_tag_begins_again() {
    let mut tracker = grown(DUAL, 12);
    assert_eq!(observe(&mut tracker, &both(at(10, 0), 100, 0)), None);
    tracker.accept(&clock(9, 1, 0)).unwrap();
    for number in 10..14 {
        tracker.accept(&clock(number, 1, 1)).unwrap();
    }
    assert_eq!(observe(&mut tracker, &both(at(10, 1), 104, 1)), None);
    assert_eq!(observe(&mut tracker, &both(at(10, 1), 110, 2)), Some(8));
    assert_eq!(observe(&mut tracker, &both(at(10, 1), 114, 3)), Some(10));
    assert_eq!(tracker.finalized(), Some(at(10, 1)));
}

#[test]
fn a_reorg_far_below_the_safe_tag_begins_again() {
    let rule = Rule::DualSource {
        l2_depth: 0,
        l1_confirmations: 10,
        max_l1_delay_seconds: 60,
    };
    let mut tracker = grown(rule, 5);
    assert_eq!(observe(&mut tracker, &both(20, 100, 0)), None);
    grow(&mut tracker, 7);
    tracker.accept(&clock(6, 1, 0)).unwrap();
    assert_eq!(observe(&mut tracker, &both(20, 110, 1)), None);
    // Block 6 came while nothing covered it: only what comes after says that it is the right one.
    assert_eq!(observe(&mut tracker, &both(20, 120, 2)), None);
    tracker.accept(&clock(7, 1, 1)).unwrap();
    assert_eq!(observe(&mut tracker, &Observation::at(3)), Some(7));
    assert_eq!(tracker.inclusion_of(7).unwrap().l1_number, 110);
}

#[test]
fn a_hash_that_is_reported_later_is_compared() {
    let mut tracker = grown(DUAL, 20);
    assert_eq!(observe(&mut tracker, &both(10, 100, 0)), None);
    assert_eq!(observe(&mut tracker, &both(at(10, 1), 110, 1)), None);
    assert!(matches!(
        tracker.stalled(1),
        Some(Stall::Contradicted { .. })
    ));
}

#[test]
fn a_safe_block_on_another_fork_makes_nothing_final() {
    let mut tracker = grown(DUAL, 20);
    assert_eq!(observe(&mut tracker, &both(at(10, 0), 100, 0)), None);
    assert_eq!(observe(&mut tracker, &both(at(12, 1), 110, 1)), None);
    let stall = Stall::Contradicted {
        ours: at(12, 0),
        reported: hash(12, 1),
    };
    assert_eq!(tracker.stalled(1), Some(stall));
    // The same height with another hash is another cover.
    assert_eq!(observe(&mut tracker, &both(at(12, 0), 111, 2)), Some(10));
    assert_eq!(observe(&mut tracker, &both(at(12, 0), 120, 3)), None);
    assert_eq!(observe(&mut tracker, &both(at(12, 0), 121, 4)), Some(12));
}

#[test]
fn a_safe_tag_that_goes_down_is_still_compared() {
    // Found at random: the cover was cut at the lower block, the hash of that block was lost, and
    // our block of another fork became final by its height alone.
    let rule = Rule::DualSource {
        l2_depth: 0,
        l1_confirmations: 0,
        max_l1_delay_seconds: 60,
    };
    let mut tracker = grown(rule, 6);
    assert_eq!(observe(&mut tracker, &both(at(9, 1), 100, 0)), None);
    let down = Observation {
        safe: Some(ReportedBlock::from(at(6, 1))),
        ..Observation::at(1)
    };
    assert_eq!(observe(&mut tracker, &down), None);
    assert!(matches!(
        tracker.stalled(1),
        Some(Stall::Contradicted { .. })
    ));
}

#[test]
fn a_short_history_dates_later_and_does_not_starve() {
    let settings = Settings {
        inclusions_max: 11,
        ..Settings::default()
    };
    let mut tracker = Tracker::new(DUAL, settings, Some(at(5, 0))).unwrap();
    let mut last = 5;
    for round in 0..200 {
        grow(&mut tracker, 20 + round);
        // Three looks at each L1 height, and the safe tag moves each time.
        let seen = both(6 + round, 100 + round / 3, round);
        if let Some(number) = observe(&mut tracker, &seen) {
            let inclusion = tracker.inclusion_of(number).unwrap();
            assert!(inclusion.l1_number + 10 <= seen.l1_head.unwrap());
            last = number;
        }
    }
    assert!(last > 160, "{last}");
    assert_eq!(tracker.inclusion_of(20), None, "forgotten, not guessed");
}

#[test]
fn dual_catches_up_with_history_that_is_long_safe() {
    let mut tracker = grown(DUAL, 5);
    assert_eq!(observe(&mut tracker, &both(at(1_000, 0), 100, 0)), None);
    grow(&mut tracker, 50);
    assert_eq!(observe(&mut tracker, &both(at(1_001, 0), 110, 1)), Some(47));
    grow(&mut tracker, 60);
    assert_eq!(observe(&mut tracker, &Observation::at(2)), Some(57));
}

/// A clock that was set back made the last observation one of the future, and silence was not seen for as
/// long as the clock had gone back and the delay more.
#[test]
fn a_clock_that_was_set_back_does_not_hide_silence() {
    let mut tracker = grown(DUAL, 20);
    observe(&mut tracker, &both(10, 100, 5_000));
    assert_eq!(tracker.stalled(5_000), None);
    let silent = Some(Stall::L1Silent {
        last: Some(5_000),
        max_delay_seconds: 60,
    });
    assert_eq!(tracker.stalled(1_400), silent);
    // The next observation has its time by the clock as it is now.
    observe(&mut tracker, &both(10, 101, 1_412));
    assert_eq!(tracker.stalled(1_420), None);
    assert!(tracker.stalled(1_500).is_some());
}
