//! The tortured chain: it grows, reorgs up to what is final, and goes down for a while.

use std::time::{Duration, Instant};

use chronolith_sim::evm::EvmNode;
use rand::Rng as _;
use rand::rngs::StdRng;

use super::servers::one_of;

const TICK: Duration = Duration::from_millis(60);
/// Blocks that come at once, at the most.
const BURST_BLOCKS: u64 = 3;
/// A reorg comes after so many blocks whatever was drawn.
const REORG_AT_LEAST_EVERY: u64 = 20;
/// This reorg replaces all that may be replaced.
const DEEPEST_AT: u64 = 5;
/// The head goes down at this tick of each life, and by chance in so many of a thousand ticks.
const ROLLBACK_AT_TICK: u32 = 10;
const ROLLBACK_PERMILLE: u32 = 10;
const ROLLBACK_BLOCKS: u64 = 5;

/// What became of the chain.
#[derive(Clone, Copy, Default)]
pub(super) struct Events {
    pub(super) reorgs: u64,
    /// How many blocks the deepest of them replaced.
    pub(super) deepest: u64,
    pub(super) rollbacks: u64,
}

pub(super) struct TorturedChain {
    pub(super) node: EvmNode,
    pub(super) confirmations: u64,
    pub(super) events: Events,
    reorg_percent: u32,
    /// The highest head there ever was: what lies deep enough below it is final for ever.
    highest: u64,
    since_reorg: u64,
}

impl TorturedChain {
    pub(super) fn new(node: EvmNode, random: &mut StdRng) -> Self {
        let confirmations = one_of(random, [12, 40, 100]);
        node.set_finalized_depth(confirmations);
        Self {
            highest: node.head().number,
            node,
            confirmations,
            events: Events::default(),
            reorg_percent: one_of(random, [0, 2, 5]),
            since_reorg: 0,
        }
    }

    /// Lets it live for a while.
    pub(super) async fn live(&mut self, random: &mut StdRng, how_long: Duration) {
        let end = Instant::now() + how_long;
        let mut tick = 0;
        while Instant::now() < end {
            tokio::time::sleep(TICK).await;
            tick += 1;
            if tick == ROLLBACK_AT_TICK || random.random_range(0..1_000) < ROLLBACK_PERMILLE {
                self.node.rollback(random.random_range(1..=ROLLBACK_BLOCKS));
                self.events.rollbacks += 1;
            }
            for _ in 0..random.random_range(1..=BURST_BLOCKS) {
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

    /// Mostly shallow, sometimes deep, as deep as can be once.
    fn depth(&self, random: &mut StdRng) -> u64 {
        if self.events.reorgs == DEEPEST_AT {
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
