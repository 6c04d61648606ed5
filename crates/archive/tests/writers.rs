//! Two writers around take-overs, with garbage collection running in both, in a simulation: every
//! store operation takes a random virtual time before and after it is applied, so that requests and
//! answers of both processes interleave in ways that a seed repeats.
//!
//! The newest writer's archive equals the chain, everything that any writer acknowledged is there,
//! everything that the state names exists, and a reader beside them may fail but is never wrong.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/crash.rs"]
mod crash;
#[path = "support/hooks.rs"]
mod hooks;
mod support;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chronolith_archive::{Archive, Error, GcMode, IngestOutcome, Provenance, Settings};
use chronolith_model::{BlockRange, ErrorKind, LogFilter};
use chronolith_sim::{FaultPlan, FaultyMeta, Odds, Operation, Oracle, SimChain};
use crash::{Reference, batch, crash_settings};
use hooks::{Hook, hooked};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use support::{Stores, assert_answers, oracle_of, tiny_chain};
use tokio::time::sleep;

const SEEDS: u64 = 24;
const SEEDS_TORTURE: u64 = 1_000;
/// Blocks of one simulation, and how often the archive is taken over in it.
const BLOCKS: u64 = 130;
const TAKE_OVERS: u32 = 8;
/// Virtual time that one half of an operation takes, and between two take-overs.
const OPERATION_MS: Range<u64> = 0..30;
const REIGN_MS: Range<u64> = 0..4_000;
/// A reader's operations are so slow that what it reads is collected under it.
const READ_MS: Range<u64> = 0..250;
/// Losses of requests and of answers in 10,000 operations on the record.
const LOSSES: Odds = Odds {
    crash_before: 0,
    crash_after: 0,
    fail_unapplied: 600,
    fail_applied: 900,
};
/// Errors of the store that one simulation may meet before it is called stuck.
const LOST_MAX: u64 = 500;

/// What happened, over all seeds: a simulation that never meets these proves nothing.
#[derive(Debug, Default)]
struct Met {
    fenced: u64,
    fenced_while_collecting: u64,
    /// A writer that does not know yet that it is fenced, and whose inputs are gone.
    stale: u64,
    removed: u64,
    maintained: u64,
    lost: u64,
    ambiguous_swaps: u64,
    answers: u64,
    refused: u64,
}

/// One simulation.
struct World {
    inner: Stores,
    settings: Settings,
    chain: SimChain,
    oracle: Oracle,
    odds: Option<Odds>,
    random: RefCell<StdRng>,
    take_overs: Cell<u32>,
    /// The highest epoch that anybody holds.
    epoch: Cell<u64>,
    acknowledged: Cell<Option<u64>>,
    met: RefCell<Met>,
    done: Cell<bool>,
}

/// Every operation takes a random time, before it is applied and after.
fn slow(seed: u64, range: Range<u64>) -> Hook {
    let random = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
    Arc::new(move |_, _, _| {
        let ms = random.lock().unwrap().random_range(range.clone());
        Box::pin(sleep(Duration::from_millis(ms)))
    })
}

impl World {
    fn new(seed: u64, odds: Option<Odds>) -> Self {
        let chain = tiny_chain(seed);
        let mut settings = crash_settings();
        settings.limits.timeout = Duration::from_secs(1 << 20);
        Self {
            inner: Stores::memory(),
            settings,
            oracle: oracle_of(&chain, BlockRange::new(0, BLOCKS)),
            chain,
            odds,
            random: RefCell::new(StdRng::seed_from_u64(seed)),
            take_overs: Cell::new(TAKE_OVERS),
            epoch: Cell::new(0),
            acknowledged: Cell::new(None),
            met: RefCell::default(),
            done: Cell::new(false),
        }
    }

    fn draw(&self, range: Range<u64>) -> u64 {
        self.random.borrow_mut().random_range(range)
    }

    async fn pause(&self, range: Range<u64>) {
        let ms = self.draw(range);
        sleep(Duration::from_millis(ms)).await;
    }

    /// A place where one writer process after another lives.
    async fn slot(&self) {
        loop {
            self.pause(REIGN_MS).await;
            let left = self.take_overs.get();
            if left == 0 || self.done.get() {
                return;
            }
            self.take_overs.set(left - 1);
            let hook = slow(self.draw(0..u64::MAX), OPERATION_MS);
            let mut stores = hooked(&self.inner, hook);
            let plan = match self.odds {
                Some(odds) => FaultPlan::random(self.draw(0..u64::MAX), odds),
                None => FaultPlan::none(),
            };
            stores.meta = Arc::new(FaultyMeta::new(stores.meta, plan.clone()));
            match stores.try_writer(&self.settings).await {
                Ok(archive) => {
                    let epoch = archive.health().writer_epoch;
                    self.epoch.set(epoch.max(self.epoch.get()));
                    let life = (
                        self.ingest(&archive),
                        self.maintain(&archive),
                        self.collect(&archive),
                    );
                    futures::join!(life.0, life.1, life.2);
                }
                // Nobody may be left who finishes: this attempt does not count.
                Err(error) => {
                    self.take_overs.set(self.take_overs.get() + 1);
                    self.lost(&error);
                }
            }
            self.met.borrow_mut().ambiguous_swaps += plan.tally(Operation::MetaSwap).faults;
        }
    }

    fn lost(&self, error: &Error) {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        self.met.borrow_mut().lost += 1;
        assert!(
            self.met.borrow().lost < LOST_MAX,
            "nothing continues: {error}"
        );
    }

    /// Whether a process must end because of this error.
    fn is_over(&self, archive: &Archive, error: &Error) -> bool {
        match error {
            Error::Fenced { .. } => {
                self.met.borrow_mut().fenced += 1;
                true
            }
            Error::Corrupt { object, reason } => {
                let newest = archive.health().writer_epoch == self.epoch.get();
                assert!(!newest, "the holder of the epoch misses {object}: {reason}");
                self.met.borrow_mut().stale += 1;
                true
            }
            error => {
                self.lost(error);
                false
            }
        }
    }

    async fn ingest(&self, archive: &Archive) {
        while !self.done.get() {
            let head = archive.health().head;
            let next = head.map_or(0, |head| head.number + 1);
            let start = next.saturating_sub(self.draw(0..4));
            let end = BLOCKS.min(next + self.draw(1..9));
            if next >= BLOCKS {
                self.done
                    .set(archive.health().writer_epoch == self.epoch.get());
                return;
            }
            let blocks = batch(&self.chain, BlockRange::new(start, end));
            let how = Provenance::default();
            match archive.ingest_finalized_blocks(blocks, &how).await {
                Ok(IngestOutcome::Appended { head, .. }) => {
                    let known = self.acknowledged.get();
                    self.acknowledged.set(known.max(Some(head.number)));
                }
                Ok(IngestOutcome::AlreadyIndexed) => {}
                Ok(conflict) => panic!("{conflict:?}"),
                Err(error) if self.is_over(archive, &error) => return,
                Err(_) => {}
            }
        }
    }

    async fn maintain(&self, archive: &Archive) {
        while !self.done.get() {
            match archive.maintain().await {
                Ok(true) => self.met.borrow_mut().maintained += 1,
                Ok(false) => self.pause(0..200).await,
                Err(error) if self.is_over(archive, &error) => return,
                Err(_) => {}
            }
        }
    }

    async fn collect(&self, archive: &Archive) {
        while !self.done.get() {
            match archive.collect_garbage(GcMode::Remove).await {
                Ok(report) => self.met.borrow_mut().removed += report.removed,
                Err(error) if self.is_over(archive, &error) => {
                    self.met.borrow_mut().fenced_while_collecting += 1;
                    return;
                }
                Err(_) => {}
            }
            self.pause(0..200).await;
        }
    }

    /// A process that only reads. With no grace it may miss objects, and then says which.
    async fn read(&self) {
        let hook = slow(self.draw(0..u64::MAX), READ_MS);
        let stores = hooked(&self.inner, hook);
        let reader = stores.reader(&self.settings).await;
        while !self.done.get() {
            self.pause(0..300).await;
            let acknowledged = self.acknowledged.get();
            let answer = async {
                reader.refresh().await?;
                let head = reader.indexed_finalized_head();
                assert!(head >= acknowledged, "{acknowledged:?} is gone: {head:?}");
                let Some(head) = head else { return Ok(()) };
                let filter = LogFilter::over(BlockRange::new(0, head + 1));
                let page = reader.query_finalized(&filter).await?;
                assert_answers(&page, &self.oracle, &filter);
                self.met.borrow_mut().answers += 1;
                Ok(())
            };
            match answer.await {
                Ok(()) => {}
                Err(Error::Corrupt { object, .. }) => {
                    assert!(object.contains('/'), "no object is named: {object}");
                    self.met.borrow_mut().refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// What the next writer finds.
    async fn check(&self) {
        let archive = self.inner.writer(&self.settings).await;
        while archive.maintain().await.unwrap() {}
        archive.collect_garbage(GcMode::Remove).await.unwrap();
        let expected = Reference::of(&self.chain, None, BlockRange::new(0, BLOCKS));
        let reader = self.inner.reader(&self.settings).await;
        assert!(expected.fits(&archive) && expected.fits(&reader));
        for salt in 0..5 {
            expected.check(&reader, salt).await;
        }
        let mut bytes = 0;
        for folder in ["seg/", "bat/", "run/", "pack/"] {
            let listed = self.inner.blobs.list(folder, None, usize::MAX).await;
            bytes += listed.unwrap().iter().map(|info| info.len).sum::<u64>();
        }
        assert_eq!(
            bytes,
            reader.health().stored_bytes,
            "what is named is there, and no more"
        );
    }
}

async fn simulate(seeds: Range<u64>, odds: Option<Odds>) -> Met {
    let mut all = Met::default();
    for seed in seeds {
        println!("seed {seed}");
        let world = World::new(seed, odds);
        futures::join!(world.slot(), world.slot(), world.read());
        world.check().await;
        let met = world.met.into_inner();
        all.fenced += met.fenced;
        all.fenced_while_collecting += met.fenced_while_collecting;
        all.stale += met.stale;
        all.removed += met.removed;
        all.maintained += met.maintained;
        all.lost += met.lost;
        all.ambiguous_swaps += met.ambiguous_swaps;
        all.answers += met.answers;
        all.refused += met.refused;
    }
    println!("{all:?}");
    assert!(all.fenced > 0 && all.fenced_while_collecting > 0 && all.removed > 0);
    assert!(all.maintained > 0 && all.answers > 0 && all.refused > 0);
    all
}

fn seeds() -> u64 {
    let torture = std::env::var_os("CHRONOLITH_TORTURE").is_some_and(|value| value == "1");
    if torture { SEEDS_TORTURE } else { SEEDS }
}

/// A writer may learn of a newer one by reading. The first version then built on the newer one's
/// state, under its epoch, and fenced the rightful holder.
#[tokio::test]
async fn a_writer_that_reads_of_a_newer_one_is_fenced() {
    let (stores, settings, chain) = (Stores::memory(), crash_settings(), tiny_chain(1));
    let append = async |archive: &Archive, start, end| {
        let blocks = batch(&chain, BlockRange::new(start, end));
        let how = Provenance::default();
        archive.ingest_finalized_blocks(blocks, &how).await
    };
    let first = stores.writer(&settings).await;
    append(&first, 0, 5).await.unwrap();
    let second = stores.writer(&settings).await;
    first.refresh().await.unwrap();
    let answer = append(&first, 5, 9).await;
    assert!(
        matches!(answer, Err(Error::Fenced { ours: 1, theirs: 2 })),
        "{answer:?}"
    );
    append(&second, 5, 9).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn take_overs_lose_nothing_while_garbage_is_collected() {
    Box::pin(simulate(0..seeds(), None)).await;
}

#[tokio::test(start_paused = true)]
async fn take_overs_lose_nothing_when_swaps_are_ambiguous() {
    let met = Box::pin(simulate(10_000..10_000 + seeds(), Some(LOSSES))).await;
    assert!(met.lost > 0 && met.ambiguous_swaps > 0, "{met:?}");
}
