//! Anything may happen in any order: blocks, reorgs, finality, restarts, two that want to write, jobs
//! that are abandoned. Afterwards the tables say what the chain says.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use chronolith_model::Block;
use chronolith_projection::{Database, Error, Following, Projector, jobs, leases};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use support::adfs::{self, settings_beside};
use support::{Row, TestChain, database, expected, fees, number, projector_of, stored};

const STEPS: usize = 160;

/// Blocks by their fork and their transactions.
type Blocks = Vec<(u64, Vec<u64>)>;

/// Both projections of a chain.
fn projector(database: &Database, chain: &Arc<TestChain>, holder: &str) -> Projector {
    let adfs = adfs::adfs(database, chain, settings_beside());
    projector_of(database, chain, vec![fees(chain), adfs], 7, holder)
}

struct Storm {
    rng: StdRng,
    chain: Arc<TestChain>,
    projectors: Vec<(Projector, Following)>,
    fork: u64,
    next_tx: u64,
    /// Transactions of blocks that are gone: they may be mined again.
    lost: Vec<u64>,
    txs: Blocks,
    /// The newest blocks that were replaced, and their height: the chain may come back to them.
    left_behind: Option<(usize, Blocks)>,
}

impl Storm {
    fn extend(&mut self) {
        let mut txs = Vec::new();
        for _ in 0..self.rng.random_range(0..3) {
            let again = !self.lost.is_empty() && self.rng.random_bool(0.5);
            txs.push(match again {
                true => self
                    .lost
                    .swap_remove(self.rng.random_range(0..self.lost.len())),
                false => {
                    self.next_tx += 1;
                    self.next_tx
                }
            });
        }
        self.chain.extend(self.fork, &txs);
        self.txs.push((self.fork, txs));
    }

    fn reorg(&mut self) {
        let open = self.chain.open();
        if open == 0 {
            return;
        }
        let depth = self.rng.random_range(1..=open.min(6));
        self.chain.roll_back(depth);
        let gone = self.txs.split_off(self.txs.len() - depth);
        self.lost
            .extend(gone.iter().flat_map(|(_, txs)| txs.clone()));
        self.left_behind = Some((self.txs.len(), gone));
        self.fork += 1;
        // The new fork may be shorter for a while.
        for _ in 0..self.rng.random_range(0..=depth + 1) {
            self.extend();
        }
    }

    /// The blocks that were replaced last are the chain after all.
    fn come_back(&mut self) {
        let Some((height, blocks)) = self.left_behind.take() else {
            return;
        };
        let depth = self.txs.len().saturating_sub(height);
        if self.txs.len() < height || depth > self.chain.open() {
            return;
        }
        if depth > 0 {
            self.chain.roll_back(depth);
        }
        let gone = self.txs.split_off(height);
        self.lost.extend(gone.into_iter().flat_map(|(_, txs)| txs));
        // What comes after them is on a fork of its own.
        self.fork += 1;
        for (fork, txs) in blocks {
            // One of their transactions may be on the chain below by now: then they cannot come back.
            if txs.iter().any(|tx| !self.lost.contains(tx)) {
                return;
            }
            self.lost.retain(|tx| !txs.contains(tx));
            self.chain.extend(fork, &txs);
            self.txs.push((fork, txs));
        }
    }

    async fn finalize(&mut self) {
        let open = self.chain.open();
        let (keep, head) = (self.rng.random_range(0..=open), self.chain.head());
        let Some(head) = head.filter(|_| keep < open) else {
            return;
        };
        self.chain.finalize(head.number - keep as u64).await;
    }

    async fn step(&mut self, database: &Database) {
        let who = self.rng.random_range(0..self.projectors.len());
        // A process that just began knows a part of the newest blocks, for a while.
        self.chain.lose_tail(None);
        match self.rng.random_range(0..14) {
            0..=3 => self.extend(),
            4 => self.reorg(),
            12 => self.come_back(),
            5 => self.finalize().await,
            6 => {
                // Killed: it forgets everything, and its leases stay until somebody takes them away.
                self.projectors[who].1 = Following::default();
                for kind in [leases::LeaseKind::Writer, leases::LeaseKind::Finality] {
                    leases::release(database, self.chain.id, kind, "test")
                        .await
                        .unwrap();
                }
            }
            7 => drop(self.projectors[who].0.work().await.unwrap()),
            8 => {
                let head = self.chain.head().map_or(0, |head| head.number);
                let from = self.rng.random_range(0..=head);
                let range = (from, self.rng.random_range(from..=head));
                let which = ["fees", "adfs"][self.rng.random_range(0..2)];
                jobs::enqueue(database, (self.chain.id, which), range, 5)
                    .await
                    .unwrap();
            }
            sort => {
                if let (13, Some(head)) = (sort, self.chain.head()) {
                    let missing = self.rng.random_range(0..=self.chain.open() as u64);
                    self.chain.lose_tail(head.number.checked_sub(missing));
                }
                let (projector, following) = &mut self.projectors[who];
                // Whoever was thrown out is told so, once.
                let done = projector.follow(following).await;
                assert!(
                    done.as_ref()
                        .err()
                        .is_none_or(|error| matches!(error, Error::Fenced { .. })),
                    "{done:?}"
                );
            }
        }
    }

    /// Until nothing is left to do.
    async fn quiesce(&mut self) {
        self.chain.lose_tail(None);
        // Whoever holds the leases continues with what it remembers.
        let mut waiting = 0;
        for (projector, following) in &mut self.projectors {
            let mut done = projector.follow(following).await;
            if matches!(done, Err(Error::Fenced { .. })) {
                done = projector.follow(following).await;
            }
            if done.unwrap().waiting {
                waiting += 1;
                continue;
            }
            while projector.work().await.unwrap() {}
            projector.follow(following).await.unwrap();
        }
        // One that was thrown out and has nothing to write does not know it yet.
        assert!(waiting < self.projectors.len(), "nobody writes");
    }
}

/// What is not dropped is there once.
fn assert_once(rows: &[Row], seed: u64, step: usize) {
    let mut seen = BTreeSet::new();
    for row in rows.iter().filter(|row| row.6 != "dropped") {
        assert!(
            seen.insert((&row.2, row.3)),
            "seed {seed}, step {step}: twice: {row:?}"
        );
    }
}

/// Rows of feeds are those of the chain, and the newest values are those of its final blocks.
async fn check_adfs(
    database: &Database,
    chain: &TestChain,
    on_chain: &[(Block, &str)],
    at: (u64, usize),
) {
    let tables = adfs::stored(database, chain.id).await;
    let (feeds, latest) = adfs::expected_beside(on_chain);
    let alive = tables.feeds.into_iter();
    let alive: BTreeSet<String> = alive.filter(|row| !row.contains("dropped")).collect();
    let missing: Vec<_> = feeds.difference(&alive).collect();
    let odd: Vec<_> = alive.difference(&feeds).collect();
    assert_eq!((missing, odd), (vec![], vec![]), "seed and step {at:?}");
    assert_eq!(tables.latest, latest, "seed and step {at:?}");
}

async fn storm(database: &Database, seed: u64) -> usize {
    let chain = TestChain::new(100 + seed).await;
    let both = ["one", "two"].map(|name| (projector(database, &chain, name), Following::default()));
    both[0].0.register(support::GENESIS_TIME).await.unwrap();
    let mut storm = Storm {
        rng: StdRng::seed_from_u64(seed),
        chain: chain.clone(),
        projectors: both.into_iter().collect(),
        fork: 0,
        next_tx: 0,
        lost: Vec::new(),
        txs: Vec::new(),
        left_behind: None,
    };
    let mut dropped = 0;
    for step in 0..STEPS {
        storm.step(database).await;
        let rows = stored(database, chain.id).await;
        assert_once(&rows, seed, step);
        if step % 20 != 19 {
            continue;
        }
        storm.quiesce().await;
        let rows = stored(database, chain.id).await;
        let head = chain.archive.health().head.map(|head| head.number);
        let blocks = chain.blocks.lock().unwrap().clone();
        let on_chain: Vec<_> = blocks
            .into_iter()
            .map(|block| {
                let is_final = head.is_some_and(|head| block.clock.number <= head);
                (block, if is_final { "confirmed" } else { "pending" })
            })
            .collect();
        check_adfs(database, &chain, &on_chain, (seed, step)).await;
        let alive: Vec<Row> = rows
            .iter()
            .filter(|row| row.6 != "dropped")
            .cloned()
            .collect();
        let (alive, wanted): (BTreeSet<Row>, BTreeSet<Row>) = (
            alive.into_iter().collect(),
            expected(&on_chain).into_iter().collect(),
        );
        let missing: Vec<&Row> = wanted.difference(&alive).collect();
        let odd: Vec<&Row> = alive.difference(&wanted).collect();
        assert_eq!((missing, odd), (vec![], vec![]), "seed {seed}, step {step}");
        let ever = chain.ever.lock().unwrap().clone();
        let gone: Vec<_> = ever.into_values().map(|block| (block, "dropped")).collect();
        let possible: BTreeSet<Row> = expected(&gone).into_iter().collect();
        let gone = rows.iter().filter(|row| row.6 == "dropped");
        dropped += gone.clone().count();
        gone.for_each(|row| assert!(possible.contains(row), "made up: {row:?}"));
        assert_eq!(
            jobs::audit_gaps(database, Some(chain.id)).await.unwrap(),
            []
        );
        let complete = "SELECT last_backfill_block FROM processing_state WHERE chain_id =";
        let complete = number(database, &format!("{complete} {}", chain.id)).await;
        assert_eq!(complete, head.map_or(-1, |head| head as i64));
    }
    dropped
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_the_tables_say_what_the_chain_says() {
    let (_server, database) = database().await;
    let seeds = match std::env::var_os("CHRONOLITH_TORTURE") {
        Some(_) => 200,
        None => 8,
    };
    let mut dropped = 0;
    for seed in 0..seeds {
        dropped += storm(&database, seed).await;
    }
    assert!(dropped > 20, "no reorg touched a row: {dropped}");
    let epochs = "SELECT count(*) FROM (SELECT chain_id, kind FROM lease_history GROUP BY 1, 2 \
        HAVING count(*) <> max(epoch)) odd";
    assert_eq!(number(&database, epochs).await, 0);
}
