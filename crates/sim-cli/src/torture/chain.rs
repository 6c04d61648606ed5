//! The chain under test: it grows, reorgs up to what is final, and goes down for a while.

use std::time::{Duration, Instant};

use chronolith_sim::evm::EvmNode;
use rand::Rng as _;
use rand::rngs::StdRng;

use super::servers::one_of;

/// History is fetched from those who have the newest block, so it must stay for a while.
const TICK: Duration = Duration::from_millis(150);
/// The most blocks that come at once.
const BURST_BLOCKS: u64 = 3;
/// A reorg comes after this many blocks at the latest.
const REORG_AT_LEAST_EVERY: u64 = 15;
/// After this many reorgs they replace all that may be replaced, until one did.
const DEEPEST_AFTER: u64 = 5;
/// The head goes down at this tick of each life, and by chance in this many of a thousand ticks.
const ROLLBACK_AT_TICK: u32 = 4;
const ROLLBACK_PERMILLE: u32 = 30;
const ROLLBACK_BLOCKS: u64 = 5;
/// How far the program may be behind what is final before the chain waits for it.
const BEHIND_BLOCKS_MAX: u64 = 500;

/// What became of the chain.
#[derive(Clone, Copy, Default)]
pub(super) struct Events {
    pub(super) reorgs: u64,
    /// How many blocks the deepest of them replaced.
    pub(super) deepest: u64,
    pub(super) rollbacks: u64,
}

pub(super) struct ChainUnderTest {
    pub(super) node: EvmNode,
    pub(super) confirmations: u64,
    /// How many blocks must be archived while things go wrong.
    pub(super) wanted: u64,
    pub(super) events: Events,
    reorg_percent: u32,
    /// The highest head there ever was: what lies deep enough below it is final forever.
    highest: u64,
    since_reorg: u64,
}

impl ChainUnderTest {
    pub(super) fn new(node: EvmNode, wanted: u64, random: &mut StdRng) -> Self {
        let confirmations = one_of(random, [12, 40, 100]);
        node.set_finalized_depth(confirmations);
        Self {
            highest: node.head().number,
            node,
            confirmations,
            wanted,
            events: Events::default(),
            reorg_percent: one_of(random, [0, 2, 5]),
            since_reorg: 0,
        }
    }

    /// Lets it live for a while; `archived` is how far the program has come. On a slow machine the
    /// chain waits for it: reorgs are of use only while the program follows.
    pub(super) async fn live(&mut self, random: &mut StdRng, how_long: Duration, archived: u64) {
        let end = Instant::now() + how_long;
        let followed = self.node.head().number < archived + self.confirmations + BEHIND_BLOCKS_MAX;
        let mut tick = 0;
        while Instant::now() < end {
            tokio::time::sleep(TICK).await;
            tick += 1;
            if tick == ROLLBACK_AT_TICK || random.random_range(0..1_000) < ROLLBACK_PERMILLE {
                self.node.rollback(random.random_range(1..=ROLLBACK_BLOCKS));
                self.events.rollbacks += 1;
            }
            let burst = random.random_range(1..=BURST_BLOCKS);
            let missing = self.highest.saturating_sub(self.node.head().number);
            for _ in 0..if followed { burst } else { missing } {
                self.step(random);
            }
        }
    }

    /// One block more, or a reorg.
    fn step(&mut self, random: &mut StdRng) {
        self.since_reorg += 1;
        let due = self.since_reorg >= REORG_AT_LEAST_EVERY;
        let most = self.depth_max();
        if most > 0 && (due || random.random_range(0..100) < self.reorg_percent) {
            let depth = self.depth(random).min(most);
            self.node.reorg(depth);
            self.since_reorg = 0;
            self.events.reorgs += 1;
            self.events.deepest = self.events.deepest.max(depth);
        } else {
            self.node.mine(1);
        }
        self.highest = self.highest.max(self.node.head().number);
    }

    /// How many blocks may be replaced: not those that were final once.
    fn depth_max(&self) -> u64 {
        let final_one = self.highest.saturating_sub(self.confirmations);
        self.node.head().number.saturating_sub(final_one)
    }

    /// Whether a reorg replaced all that was not final.
    pub(super) fn was_deepest(&self) -> bool {
        self.events.deepest >= self.confirmations
    }

    /// Mostly shallow, sometimes deep, as deep as can be at least once.
    fn depth(&self, random: &mut StdRng) -> u64 {
        if self.events.reorgs >= DEEPEST_AFTER && !self.was_deepest() {
            return self.confirmations;
        }
        match random.random_range(0..100) {
            0..75 => random.random_range(1..=3),
            75..95 => random.random_range(1..=12),
            _ => random.random_range(1..=self.confirmations),
        }
    }

    /// Higher than ever, so that what was final is final again.
    pub(super) fn settle(&mut self) {
        let missing = self.highest.saturating_sub(self.node.head().number);
        self.node.mine(missing + 1);
        self.highest = self.node.head().number;
    }
}
