//! Anything may happen in any order: updates in every way, upgrades, forks that move or take back either,
//! forks that come back as they were, and a program that is killed. Every column is as it was sent.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::followed::{All, CONFIRMATIONS, update};
use super::ground::{Act, Mined, Sent, Way, sent};
use super::oracle::assert_storage;

/// Forks go no deeper than what is final.
const DEPTH_MAX: usize = CONFIRMATIONS as usize - 1;

struct Storm {
    rng: StdRng,
    /// Numbers of updates grow on every fork.
    number: u64,
    /// Blocks that were taken back last, and how long the chain was below them.
    left_behind: Option<(usize, Vec<Mined>)>,
}

impl Storm {
    /// A block on a chain with this version in force, which may be another one behind it.
    fn block(&mut self, version: &mut u32) -> Vec<Sent> {
        let count = self.rng.random_range(0..4);
        (0..count).map(|_| self.transaction(version)).collect()
    }

    fn transaction(&mut self, version: &mut u32) -> Sent {
        let way = match self.rng.random_range(0..5) {
            0 => Way::Safe,
            1 => Way::Many,
            2 => Way::SafeMany,
            _ => Way::Direct,
        };
        let acts = match way {
            Way::Many | Way::SafeMany => self.rng.random_range(1..5),
            _ => 1,
        };
        let acts = (0..acts).map(|_| self.act(version)).collect();
        sent(way, acts)
    }

    fn act(&mut self, version: &mut u32) -> Act {
        if self.rng.random_bool(0.2) {
            *version = self.rng.random_range(1..=2);
            return Act::Upgrade(*version);
        }
        self.number += 1;
        // The second version refuses an update without an accumulator.
        while matches!(self.number as u8, 0 | u8::MAX) {
            self.number += 1;
        }
        let count = self.rng.random_range(0..4);
        let mut feed = || {
            (
                self.rng.random_range(0..20),
                self.rng.random_range(0..8_192),
            )
        };
        let feeds: Vec<(u128, u16)> = (0..count).map(|_| feed()).collect();
        Act::Update(update(*version, self.number, &feeds))
    }

    async fn extend(&mut self, all: &mut All) {
        let mut version = in_force(&all.chain);
        let count = self.rng.random_range(1..4);
        let blocks: Vec<_> = (0..count).map(|_| self.block(&mut version)).collect();
        all.mine(&blocks).await;
    }

    /// Replaces the newest blocks, by new ones or by those that they once replaced.
    async fn fork(&mut self, all: &mut All) {
        let (height, most) = (all.chain.len(), all.open().min(DEPTH_MAX));
        if let Some((below, blocks)) = self.left_behind.take()
            && below < height
            && height - below <= most
            && self.rng.random_bool(0.5)
        {
            all.take_back(height - below).await;
            let again: Vec<_> = blocks.iter().map(sent_in).collect();
            all.mine(&again).await;
            let found = all.chain[below..].iter().map(|block| &block.hash);
            assert!(found.eq(blocks.iter().map(|block| &block.hash)));
            return;
        }
        if most == 0 {
            return;
        }
        let depth = self.rng.random_range(1..=most);
        let taken = all.take_back(depth).await;
        self.left_behind = Some((height - depth, taken));
        self.extend(all).await;
    }
}

fn sent_in(block: &Mined) -> Vec<Sent> {
    block.txs.iter().map(|tx| tx.sent.clone()).collect()
}

/// The version behind the newest block.
fn in_force(chain: &[Mined]) -> u32 {
    let txs = chain.iter().rev().flat_map(|block| block.txs.iter().rev());
    let mut acts = txs.flat_map(|tx| tx.sent.acts.iter().rev());
    let upgrade = acts.find_map(|act| match act {
        Act::Upgrade(version) => Some(*version),
        _ => None,
    });
    upgrade.unwrap_or(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_on_a_real_node_every_table_is_what_was_sent() {
    let long = std::env::var("CHRONOLITH_TORTURE").is_ok_and(|value| value == "1");
    let (seed, steps) = match long {
        true => (StdRng::from_os_rng().random(), 150),
        false => (7, 12),
    };
    println!("note: seed {seed}, {steps} steps");
    let Some(mut all) = All::new().await else {
        return;
    };
    let mut storm = Storm {
        rng: StdRng::seed_from_u64(seed),
        number: 0,
        left_behind: None,
    };
    all.mine(&[vec![sent(Way::Direct, vec![Act::Upgrade(1)])]])
        .await;
    let mut running = all.start();
    for step in 0..steps {
        if storm.rng.random_bool(0.2) {
            running.kill();
            storm.fork(&mut all).await;
            running = all.start();
        } else if storm.rng.random_bool(0.6) {
            storm.fork(&mut all).await;
        } else {
            storm.extend(&mut all).await;
        }
        all.until_equal(&format!("seed {seed}, step {step}")).await;
    }
    all.mine(&vec![vec![]; CONFIRMATIONS as usize]).await;
    let found = all.until_equal(&format!("seed {seed}, the end")).await;
    let head = all.chain.last().unwrap().number;
    let (values, _) = assert_storage(&all.ground, &found, head).await;
    let rows: usize = found.values().map(Vec::len).sum();
    println!("note: {rows} rows and {values} newest values after {steps} steps");
    assert!(rows > 100 && values > 5);
    running.stop();
}
