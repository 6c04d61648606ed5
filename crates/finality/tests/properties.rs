//! Any interleaving of blocks, reorgs, reports and restarts, under every rule.
//!
//! A remote chain grows and forks at random, a walk follows it, and observations say anything at
//! all. A list that applies nothing but the steps is the chain as others see it; the tracker, that
//! list and a mirroring tail must never differ, and what was final once must stay.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;

use chronolith_finality::{Fault, Observation, ReportedBlock, Rule, Settings, Step, Tail, Tracker};
use chronolith_model::{BlockMeta, BlockRange, BlockRef};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::{at, block, hash};

/// The remote chain's first block.
const START: u64 = 5;

#[derive(Clone, Copy, Debug)]
enum Op {
    Grow(u64),
    Fork { depth: u64, blocks: u64 },
    Walk(usize),
    Offer { back: usize },
    OfferStray { pick: usize },
    Observe(Report),
    Publish,
    Restart,
}

/// An observation in terms of where the chains are when it is made.
#[derive(Clone, Copy, Debug)]
struct Report {
    finalized: Option<(u64, Claim)>,
    safe: Option<(u64, Claim)>,
    l1: Option<i8>,
    seconds: u64,
}

/// Which hash a report carries.
#[derive(Clone, Copy, Debug)]
enum Claim {
    Nothing,
    Remote,
    Wrong,
}

fn report() -> impl Strategy<Value = Report> {
    let claim = || {
        prop_oneof![
            3 => Just(Claim::Nothing),
            4 => Just(Claim::Remote),
            1 => Just(Claim::Wrong),
        ]
    };
    let mark = || prop::option::weighted(0.8, (0..30u64, claim()));
    let l1 = prop::option::weighted(0.8, -2..6i8);
    (mark(), mark(), l1, 0..25u64).prop_map(|(finalized, safe, l1, seconds)| Report {
        finalized,
        safe,
        l1,
        seconds,
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..5u64).prop_map(Op::Grow),
        2 => (1..9u64, 0..9u64).prop_map(|(depth, blocks)| Op::Fork { depth, blocks }),
        6 => (1..25usize).prop_map(Op::Walk),
        1 => (0..20usize).prop_map(|back| Op::Offer { back }),
        1 => any::<usize>().prop_map(|pick| Op::OfferStray { pick }),
        6 => report().prop_map(Op::Observe),
        1 => Just(Op::Publish),
        1 => Just(Op::Restart),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        (0..8u64).prop_map(|confirmations| Rule::Depth { confirmations }),
        Just(Rule::Tag),
        Just(Rule::Source),
        (0..6u64, 0..6u64).prop_map(|(l2_depth, l1_confirmations)| Rule::DualSource {
            l2_depth,
            l1_confirmations,
            max_l1_delay_seconds: 40,
        }),
    ]
}

struct World {
    rule: Rule,
    settings: Settings,
    tracker: Tracker,
    tail: Tail,
    /// What the endpoint serves, from [`START`] on.
    remote: Vec<BlockMeta>,
    /// Every block there ever was.
    all: Vec<BlockMeta>,
    /// Our chain by the steps alone, above `base`.
    chain: Vec<BlockMeta>,
    base: Option<BlockRef>,
    /// Everything that became final, in order.
    finals: Vec<BlockRef>,
    /// What an honest endpoint never takes back: its reported blocks. None where it may lie.
    honest: Option<u64>,
    forks: u64,
    l1: u64,
    now: u64,
    seen: Vec<Observation>,
    hits: BTreeMap<&'static str, usize>,
}

impl World {
    fn new(rule: Rule, window_blocks_max: usize, with_base: bool) -> Self {
        let settings = Settings {
            window_blocks_max,
            inclusions_max: 7,
            ..Settings::default()
        };
        let base = with_base.then(|| at(START - 1, 0));
        Self {
            rule,
            settings,
            tracker: Tracker::new(rule, settings, base).unwrap(),
            tail: Tail::new(usize::MAX, base),
            remote: Vec::new(),
            all: Vec::new(),
            chain: Vec::new(),
            base,
            finals: Vec::new(),
            honest: None,
            forks: 0,
            l1: 1_000,
            now: 10_000,
            seen: Vec::new(),
            hits: BTreeMap::new(),
        }
    }

    fn hit(&mut self, what: &'static str) {
        *self.hits.entry(what).or_default() += 1;
    }

    fn grow(&mut self, blocks: u64) {
        for _ in 0..blocks {
            let number = START + self.remote.len() as u64;
            // A first block after a fork stands on another parent: the fork went deeper than we see.
            let below = hash(START - 1, self.forks);
            let parent_hash = self.remote.last().map_or(below, |last| last.hash);
            let clock = BlockMeta {
                number,
                hash: hash(number, self.forks),
                parent_hash,
                timestamp: number,
            };
            self.remote.push(clock);
            self.all.push(clock);
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Grow(blocks) => self.grow(blocks),
            Op::Fork { depth, blocks } => {
                let keep = (self.remote.len() as u64).saturating_sub(depth);
                let promised = self
                    .honest
                    .map_or(0, |last| (last + 1).saturating_sub(START));
                let keep = keep.max(promised);
                self.remote.truncate(keep as usize);
                self.forks += 1;
                self.grow(blocks);
            }
            Op::Walk(steps) => self.walk(steps),
            Op::Offer { back } => {
                if let Some(clock) = self.remote.iter().nth_back(back).copied()
                    && self.tracker.head().is_some()
                {
                    let _ = self.offer(&clock);
                }
            }
            Op::OfferStray { pick } => {
                if self.tracker.head().is_some() && self.honest.is_none() && !self.all.is_empty() {
                    let clock = self.all[pick % self.all.len()];
                    let _ = self.offer(&clock);
                }
            }
            Op::Observe(report) => self.observe(report),
            Op::Publish => {
                if let Some(finalized) = self.tracker.finalized() {
                    self.tail.drop_through(finalized.number);
                }
            }
            Op::Restart => self.restart(),
        }
    }

    /// Follows the remote chain as ingest does, a bounded number of blocks.
    fn walk(&mut self, steps: usize) {
        let theirs = self.remote.last().map_or(START, |head| head.number);
        // Without any block of our own, history begins where it begins.
        let mut next = self.tracker.head().map_or(START, |_| theirs);
        for _ in 0..steps {
            let Some(&clock) = next
                .checked_sub(START)
                .and_then(|offset| self.remote.get(offset as usize))
            else {
                return;
            };
            next = match self.offer(&clock) {
                Ok(()) => clock.number + 1,
                Err(Fault::ParentUnknown { wanted, hash }) => {
                    assert_eq!(hash, clock.parent_hash);
                    wanted
                }
                Err(Fault::Gap { expected, .. }) => expected,
                Err(Fault::WindowFull { .. }) => return,
                // An operator settles it: the endpoint is wrong and comes back to our chain.
                Err(Fault::FinalityViolation { .. } | Fault::Below { .. }) => return self.heal(),
            };
        }
    }

    fn heal(&mut self) {
        assert_eq!(self.honest, None, "there is nothing to settle");
        self.remote.clone_from(&self.chain);
    }

    fn offer(&mut self, clock: &BlockMeta) -> Result<(), Fault> {
        let (head, finalized) = (self.tracker.head(), self.tracker.finalized());
        let steps = self.tracker.accept(clock).inspect_err(|fault| {
            assert_eq!(
                (self.tracker.head(), self.tracker.finalized()),
                (head, finalized)
            );
            self.check_fault(fault);
        });
        let name = match &steps {
            Ok(steps) if steps.is_empty() => "known",
            Ok(steps) if steps.len() == 1 => "extend",
            Ok(_) => "rollback",
            Err(Fault::ParentUnknown { .. }) => "parent unknown",
            Err(Fault::Gap { .. }) => "gap",
            Err(Fault::FinalityViolation { .. }) => "violation",
            Err(Fault::Below { .. }) => "below",
            Err(Fault::WindowFull { .. }) => "window full",
        };
        self.hit(name);
        for step in steps? {
            self.follow(step, Some(clock));
        }
        Ok(())
    }

    fn check_fault(&self, fault: &Fault) {
        let head = self.tracker.head().unwrap().number;
        let finalized = self.tracker.finalized().map(|block| block.number);
        match *fault {
            Fault::ParentUnknown { wanted, .. } => {
                assert!(wanted <= head && finalized.is_none_or(|finalized| wanted > finalized));
            }
            Fault::Gap { expected, got } => assert!(expected == head + 1 && got > expected),
            Fault::FinalityViolation { ours, offered } => {
                assert!(ours.number == offered.number && ours.hash != offered.hash);
                assert_eq!(Some(ours), self.tracker.finalized());
            }
            Fault::Below { lowest, offered } => {
                assert!(offered.number < lowest && lowest <= head);
            }
            Fault::WindowFull { window_blocks_max } => {
                assert_eq!(self.tracker.window_blocks(), window_blocks_max);
            }
        }
    }

    /// Applies one step to the list and to the tail.
    fn follow(&mut self, step: Step, clock: Option<&BlockMeta>) {
        match step {
            Step::Extend(added) => {
                let clock = *clock.unwrap();
                assert_eq!(added, clock.block_ref());
                if let Some(head) = self.head() {
                    assert_eq!(
                        (head.number + 1, head.hash),
                        (added.number, clock.parent_hash)
                    );
                }
                self.chain.push(clock);
                self.tail.push(block(clock)).unwrap();
            }
            Step::Rollback { to } => {
                let finalized = self.tracker.finalized();
                assert!(finalized.is_none_or(|finalized| to.number >= finalized.number));
                let before = self.chain.len();
                self.chain.retain(|clock| clock.number <= to.number);
                assert!(self.chain.len() < before, "a rollback removes something");
                assert!(self.head().is_none_or(|head| head == to));
                self.tail.rollback(to).unwrap();
                // What covered the removed blocks says nothing of those that follow.
                self.seen.push(Observation {
                    safe: Some(ReportedBlock::from(to.number)),
                    ..Observation::at(self.now)
                });
            }
            Step::Finalize(last) => self.finalize(last),
        }
    }

    fn finalize(&mut self, last: BlockRef) {
        let before = self.finals.last().copied().or(self.base);
        assert!(before.is_none_or(|before| before.number < last.number));
        let start = before.map_or(0, |before| before.number + 1);
        let range = BlockRange::new(start, last.number + 1);
        let mut below = before.map(|before| before.hash);
        for clock in self
            .chain
            .iter()
            .filter(|clock| range.contains(clock.number))
        {
            assert!(below.is_none_or(|below| below == clock.parent_hash));
            below = Some(clock.hash);
            self.finals.push(clock.block_ref());
        }
        assert_eq!(
            self.finals.last(),
            Some(&last),
            "it is a block of our chain"
        );
        self.check_sound(last);
        self.hit(match self.rule {
            Rule::Depth { .. } => "final by depth",
            Rule::Tag | Rule::Source => "final by report",
            Rule::DualSource { .. } => "final by both",
        });
    }

    /// The rule in its plainest words, over everything that was ever seen since the start.
    fn check_sound(&self, last: BlockRef) {
        let depth = self.head().unwrap().number - last.number;
        match self.rule {
            Rule::Depth { confirmations } => assert_eq!(depth, confirmations),
            Rule::Tag | Rule::Source => {
                let marks = self.seen.iter().filter_map(|seen| seen.finalized);
                assert!(marks.map(|mark| mark.number).max() >= Some(last.number));
            }
            Rule::DualSource {
                l2_depth,
                l1_confirmations,
                max_l1_delay_seconds,
            } => {
                assert!(depth >= l2_depth);
                let mut best = 0;
                let mut since = None;
                let mut latest = None;
                for seen in &self.seen {
                    let Some(safe) = seen.safe else { continue };
                    if safe.number < last.number {
                        since = None;
                    }
                    let Some(l1) = seen.l1_head.filter(|&l1| l1 >= best) else {
                        continue;
                    };
                    best = l1;
                    latest = Some(seen.now);
                    if safe.number >= last.number {
                        since = since.or(Some(l1));
                    }
                }
                assert!(self.now - latest.unwrap() <= max_l1_delay_seconds);
                assert!(best - since.unwrap() >= l1_confirmations);
                let inclusion = self.tracker.inclusion_of(last.number).unwrap();
                assert!(since.unwrap() <= inclusion.l1_number && inclusion.l1_number <= best);
            }
        }
    }

    /// The block that a report names.
    fn mark(&self, (back, claim): (u64, Claim)) -> ReportedBlock {
        let head = self.remote.last().map_or(START - 1, |head| head.number);
        let (number, claim) = match self.honest {
            Some(_) => (head.saturating_sub(back), Claim::Remote),
            None => ((head + 5).saturating_sub(back), claim),
        };
        let offset = number.checked_sub(START).map(|offset| offset as usize);
        let clock = offset.and_then(|offset| self.remote.get(offset));
        let hash = match claim {
            Claim::Nothing => None,
            Claim::Remote => clock.map(|clock| clock.hash),
            Claim::Wrong => Some(hash(number, 999)),
        };
        ReportedBlock { number, hash }
    }

    fn observe(&mut self, report: Report) {
        let finalized = report.finalized.map(|mark| self.mark(mark));
        let safe = report.safe.map(|mark| self.mark(mark));
        for mark in [finalized, safe].into_iter().flatten() {
            self.honest = self.honest.map(|promised| promised.max(mark.number));
        }
        let l1_head = report
            .l1
            .map(|delta| self.l1.saturating_add_signed(delta.into()));
        self.l1 = l1_head.unwrap_or(self.l1);
        self.now += report.seconds;
        let seen = Observation {
            finalized,
            safe,
            l1_head,
            now: self.now,
        };
        self.seen.push(seen);
        if self.tracker.stalled(self.now).is_some() {
            self.hit("stalled");
        }
        if let Some(step) = self.tracker.observe(&seen) {
            assert!(matches!(step, Step::Finalize(_)));
            assert_eq!(self.tracker.stalled(self.now), None);
            self.follow(step, None);
        }
        assert_eq!(
            self.tracker.observe(&Observation::at(self.now)),
            None,
            "all at once"
        );
    }

    /// What was published is all that is left.
    fn restart(&mut self) {
        let base = self.tracker.finalized();
        self.tracker = Tracker::new(self.rule, self.settings, base).unwrap();
        self.tail = Tail::new(usize::MAX, base);
        self.chain
            .retain(|clock| base.is_some_and(|base| clock.number <= base.number));
        self.seen.clear();
    }

    fn head(&self) -> Option<BlockRef> {
        self.chain.last().map(BlockMeta::block_ref).or(self.base)
    }

    fn check(&self) {
        let finalized = self.finals.last().copied().or(self.base);
        assert_eq!(self.tracker.finalized(), finalized);
        assert_eq!(self.tracker.head(), self.head());
        assert_eq!(self.tail.head(), self.head());
        assert!(self.tracker.window_blocks() <= self.settings.window_blocks_max);
        let numbers = |block: Option<BlockRef>| block.map(|block| block.number);
        assert!(numbers(self.head()) >= numbers(finalized));
        // What is final stays, and what is not is what the tracker says.
        let ours = self.chain.iter().map(BlockMeta::block_ref);
        assert!(ours.take(self.finals.len()).eq(self.finals.iter().copied()));
        for clock in self.chain.iter().skip(self.finals.len().saturating_sub(1)) {
            assert_eq!(self.tracker.hash_at(clock.number), Some(clock.hash));
        }
        let snapshot = self.tail.snapshot();
        let tail = snapshot.blocks_in(BlockRange::new(0, u64::MAX));
        let dropped = self.chain.len() - tail.len();
        assert!(dropped <= self.finals.len());
        assert!(
            tail.map(|block| block.clock)
                .eq(self.chain.iter().skip(dropped).copied())
        );
    }
}

fn runner() -> TestRunner {
    let long = std::env::var("CHRONOLITH_TORTURE").is_ok_and(|value| value == "1");
    TestRunner::new(Config {
        cases: if long { 150_000 } else { 1_500 },
        failure_persistence: None,
        ..Config::default()
    })
}

#[test]
fn an_honest_endpoint_never_sees_its_finality_violated() {
    let finals = RefCell::new((0, 0));
    let rules = rule().prop_filter("depth is a guess, not a promise", |rule| {
        !matches!(rule, Rule::Depth { .. })
    });
    let worlds = (rules, any::<bool>(), prop::collection::vec(op(), 1..120));
    let result = runner().run(&worlds, |(rule, with_base, ops)| {
        let mut world = World::new(rule, 60, with_base);
        // The base is final, so the endpoint's first block stays where there is one.
        world.honest = Some(if with_base { START } else { 0 });
        world.grow(1);
        for op in ops {
            world.apply(op);
            world.check();
            assert!(!world.hits.contains_key("violation"));
            for ours in &world.finals {
                let theirs = world.remote[(ours.number - START) as usize];
                assert_eq!(*ours, theirs.block_ref());
            }
        }
        let mut finals = finals.borrow_mut();
        finals.0 += world.finals.len();
        finals.1 += world.hits.get("rollback").copied().unwrap_or_default();
        Ok(())
    });
    result.unwrap();
    let (finals, rollbacks) = finals.into_inner();
    assert!(finals > 1_000 && rollbacks > 1_000, "{finals} {rollbacks}");
}

#[test]
fn finality_only_rises_and_steps_are_the_whole_truth() {
    let hits = RefCell::new(BTreeMap::<&str, usize>::new());
    let worlds = (
        rule(),
        9..40usize,
        any::<bool>(),
        prop::collection::vec(op(), 1..90),
    );
    let result = runner().run(&worlds, |(rule, window_blocks_max, with_base, ops)| {
        let mut world = World::new(rule, window_blocks_max, with_base);
        for op in ops {
            world.apply(op);
            world.check();
        }
        for (name, count) in world.hits {
            *hits.borrow_mut().entry(name).or_default() += count;
        }
        Ok(())
    });
    result.unwrap();
    let expected = [
        "known",
        "extend",
        "rollback",
        "parent unknown",
        "gap",
        "violation",
        "below",
        "window full",
        "final by depth",
        "final by report",
        "final by both",
        "stalled",
    ];
    for name in expected {
        let count = hits.borrow().get(name).copied().unwrap_or_default();
        assert!(count > 50, "{name} was hit {count} times");
    }
}
