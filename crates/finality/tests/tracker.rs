//! Where a block belongs: every answer of `accept`, and the guard against false reorgs.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_finality::{
    Endpoint, Fault, Invalid, Observation, Refused, ReportedBlock, Rule, Settings, Step, Tracker,
};
use chronolith_model::{BlockMeta, BlockRef, ErrorKind};
use support::{at, clock, hash};

const WINDOW: usize = 10;

fn tracker(base: Option<BlockRef>) -> Tracker {
    let settings = Settings {
        window_blocks_max: WINDOW,
        reorg_blocks_max: 3,
        ..Settings::default()
    };
    Tracker::new(Rule::Tag, settings, base).unwrap()
}

/// Above final block 5: 6, 7, 8, 9 of fork 0.
fn grown() -> Tracker {
    let mut tracker = tracker(Some(at(5, 0)));
    for number in 6..10 {
        let steps = tracker.accept(&clock(number, 0, 0)).unwrap();
        assert_eq!(steps, [Step::Extend(at(number, 0))]);
    }
    tracker
}

#[track_caller]
fn check(tracker: &Tracker, offered: BlockMeta, expected: Result<&[Step], Fault>) {
    let mut after = tracker.clone();
    let got = after.accept(&offered);
    assert_eq!(got.as_deref(), expected.as_ref().copied(), "{offered:?}");
    assert_eq!(after.finalized(), tracker.finalized());
    if got.is_err() || got.is_ok_and(|steps| steps.is_empty()) {
        assert_eq!(after.head(), tracker.head(), "nothing changed");
        assert_eq!(after.window_blocks(), tracker.window_blocks());
    } else {
        assert_eq!(after.head(), Some(offered.block_ref()));
    }
}

fn violation(ours: BlockRef, offered: BlockRef) -> Fault {
    Fault::FinalityViolation { ours, offered }
}

fn unknown(wanted: u64, fork: u64) -> Fault {
    Fault::ParentUnknown {
        wanted,
        hash: hash(wanted, fork),
    }
}

fn replaced(to: BlockRef, by: BlockRef) -> [Step; 2] {
    [Step::Rollback { to }, Step::Extend(by)]
}

#[test]
fn a_block_finds_its_place_above_the_finalized_head() {
    let tracker = grown();
    check(&tracker, clock(10, 0, 0), Ok(&[Step::Extend(at(10, 0))]));
    check(&tracker, clock(9, 0, 0), Ok(&[]));
    check(&tracker, clock(6, 0, 0), Ok(&[]));
    check(&tracker, clock(5, 0, 0), Ok(&[]));
    check(&tracker, clock(9, 1, 0), Ok(&replaced(at(8, 0), at(9, 1))));
    check(&tracker, clock(6, 1, 0), Ok(&replaced(at(5, 0), at(6, 1))));
    check(&tracker, clock(10, 1, 1), Err(unknown(9, 1)));
    check(&tracker, clock(9, 1, 1), Err(unknown(8, 1)));
    check(&tracker, clock(7, 1, 1), Err(unknown(6, 1)));
    let below = violation(at(5, 0), at(5, 1));
    check(&tracker, clock(6, 1, 1), Err(below));
    check(&tracker, clock(5, 1, 0), Err(below));
    let gap = |got| Fault::Gap { expected: 10, got };
    check(&tracker, clock(11, 0, 0), Err(gap(11)));
    check(&tracker, clock(u64::MAX, 0, 0), Err(gap(u64::MAX)));
    let low = |number| Fault::Below {
        lowest: 5,
        offered: at(number, 0),
    };
    check(&tracker, clock(4, 0, 0), Err(low(4)));
    check(&tracker, clock(0, 0, 0), Err(low(0)));
}

#[test]
fn on_the_finalized_head_alone_another_parent_is_a_violation() {
    let tracker = tracker(Some(at(5, 0)));
    check(&tracker, clock(6, 1, 0), Ok(&[Step::Extend(at(6, 1))]));
    check(&tracker, clock(6, 1, 1), Err(violation(at(5, 0), at(5, 1))));
    let gap = Fault::Gap {
        expected: 6,
        got: 7,
    };
    check(&tracker, clock(7, 0, 0), Err(gap));
    let highest = Tracker::new(Rule::Tag, Settings::default(), Some(at(u64::MAX, 0))).unwrap();
    check(&highest, clock(u64::MAX, 0, 0), Ok(&[]));
    let other = violation(at(u64::MAX, 0), at(u64::MAX, 1));
    check(&highest, clock(u64::MAX, 1, 0), Err(other));
}

#[test]
fn without_a_base_the_first_block_may_be_any_and_may_be_replaced() {
    let mut tracker = tracker(None);
    assert_eq!((tracker.head(), tracker.finalized()), (None, None));
    check(&tracker, clock(7, 0, 0), Ok(&[Step::Extend(at(7, 0))]));
    tracker.accept(&clock(7, 0, 0)).unwrap();
    tracker.accept(&clock(8, 0, 0)).unwrap();
    check(&tracker, clock(7, 1, 1), Ok(&replaced(at(6, 1), at(7, 1))));
    check(&tracker, clock(8, 1, 1), Err(unknown(7, 1)));
    let low = Fault::Below {
        lowest: 7,
        offered: at(6, 1),
    };
    check(&tracker, clock(6, 1, 1), Err(low));
    assert_eq!(tracker.hash_at(7), Some(hash(7, 0)));
    assert_eq!((tracker.hash_at(6), tracker.hash_at(9)), (None, None));
}

#[test]
fn another_genesis_is_another_chain() {
    let mut tracker = tracker(None);
    tracker.accept(&clock(0, 0, 0)).unwrap();
    tracker.accept(&clock(1, 0, 0)).unwrap();
    check(&tracker, clock(0, 0, 0), Ok(&[]));
    check(&tracker, clock(0, 1, 0), Err(violation(at(0, 0), at(0, 1))));
}

#[test]
fn a_full_window_waits_until_something_is_final() {
    let mut tracker = grown();
    for number in 10..16 {
        tracker.accept(&clock(number, 0, 0)).unwrap();
    }
    assert_eq!(tracker.window_blocks(), WINDOW);
    let full = Fault::WindowFull {
        window_blocks_max: WINDOW,
    };
    check(&tracker, clock(16, 0, 0), Err(full));
    check(&tracker, clock(15, 0, 0), Ok(&[]));
    let reorg = replaced(at(14, 0), at(15, 1));
    check(&tracker, clock(15, 1, 0), Ok(&reorg));
    let seen = Observation {
        finalized: Some(ReportedBlock::from(6)),
        ..Observation::default()
    };
    assert_eq!(tracker.observe(&seen), Some(Step::Finalize(at(6, 0))));
    check(&tracker, clock(16, 0, 0), Ok(&[Step::Extend(at(16, 0))]));
}

#[test]
fn a_walk_back_finds_the_fork_and_goes_up_again() {
    let mut tracker = grown();
    let remote = |number| clock(number, u64::from(number > 6), u64::from(number > 7));
    let (mut offer, mut requested, mut steps) = (10, Vec::new(), Vec::new());
    while offer <= 10 {
        match tracker.accept(&remote(offer)) {
            Ok(taken) => {
                steps.extend(taken);
                offer += 1;
            }
            Err(Fault::ParentUnknown { wanted, .. }) => {
                requested.push(wanted);
                offer = wanted;
            }
            Err(fault) => panic!("{fault}"),
        }
    }
    assert_eq!(requested, [9, 8, 7]);
    let extended = (7..11).map(|number| Step::Extend(at(number, 1)));
    let expected: Vec<_> = std::iter::once(Step::Rollback { to: at(6, 0) })
        .chain(extended)
        .collect();
    assert_eq!(steps, expected);
}

#[test]
fn faults_say_what_to_do() {
    let (ours, offered) = (at(5, 0), at(5, 1));
    let rows = [
        (unknown(7, 1), ErrorKind::NotFound),
        (Fault::Below { lowest: 5, offered }, ErrorKind::NotFound),
        (
            Fault::Gap {
                expected: 6,
                got: 9,
            },
            ErrorKind::Invalid,
        ),
        (violation(ours, offered), ErrorKind::Disagreement),
        (
            Fault::WindowFull {
                window_blocks_max: 1,
            },
            ErrorKind::TooLarge,
        ),
    ];
    for (fault, kind) in rows {
        assert_eq!(fault.kind(), kind, "{fault}");
    }
    let message = violation(ours, offered).to_string();
    assert!(message.contains(&ours.hash.to_string()) && message.contains("block=5"));
}

#[test]
fn deep_reorgs_need_an_endpoint_that_is_ahead() {
    let tracker = grown();
    let check = |depth, head, syncing, expected| {
        let got = tracker.allows_reorg(depth, &Endpoint { head, syncing });
        assert_eq!(got, expected, "{depth} {head} {syncing}");
    };
    let max = 3;
    let behind = Refused::HeadRegressed {
        depth: 4,
        max,
        ours: 9,
        theirs: 8,
    };
    check(3, 8, false, Ok(()));
    check(3, 2, true, Ok(()));
    check(4, 9, false, Ok(()));
    check(4, 8, false, Err(behind));
    check(4, 20, true, Err(Refused::Syncing { depth: 4, max }));
    assert_eq!(tracker.reorg_depth(6), 4);
    assert_eq!((tracker.reorg_depth(9), tracker.reorg_depth(10)), (1, 0));
}

#[test]
fn limits_that_the_rule_can_never_meet_are_refused() {
    let check = |rule, window_blocks_max, inclusions_max, expected| {
        let settings = Settings {
            window_blocks_max,
            inclusions_max,
            ..Settings::default()
        };
        let got = Tracker::new(rule, settings, None).err();
        assert_eq!(got, expected, "{rule:?} {settings:?}");
    };
    let window = |depth, window_blocks_max| {
        Some(Invalid::Window {
            depth,
            window_blocks_max,
        })
    };
    let depth = |confirmations| Rule::Depth { confirmations };
    check(depth(9), 10, 1, None);
    check(depth(10), 10, 1, window(10, 10));
    check(depth(u64::MAX), 10, 1, window(u64::MAX, 10));
    check(Rule::Tag, 1, 1, None);
    check(Rule::Source, 0, 1, window(0, 0));
    let dual = Rule::DualSource {
        l2_depth: 5,
        l1_confirmations: 12,
        max_l1_delay_seconds: 180,
    };
    check(dual, 6, 13, None);
    check(dual, 5, 13, window(5, 5));
    let inclusions = Invalid::Inclusions {
        l1_confirmations: 12,
        inclusions_max: 12,
    };
    check(dual, 6, 12, Some(inclusions));
}
