//! The crash matrix: one scripted life of an archive, disturbed at every store operation.
//!
//! The script appends, seals, merges, fills, halts, resumes, rewinds, collects garbage and is taken
//! over. A first run without faults counts its operations. Then for each number and each fault it
//! runs again with the fault at that operation. After a crash the archive is opened again on what the
//! stores hold: it must show what it showed before the step under way or what it shows after it,
//! and nothing else. Then the script continues with that step. At the end everything is compared with
//! the run without faults.
//!
//! By default every `STRIDE`th operation is hit, with another offset for each fault, and then as
//! many more as it takes to hit each kind; all of them with `CHRONOLITH_TORTURE=1`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "support/crash.rs"]
mod crash;
#[path = "support/script.rs"]
mod script;
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use chronolith_archive::{Archive, AuditEntry, Error, GcMode, Health, IngestOutcome, Provenance};
use chronolith_model::{BlockRange, ErrorKind, Hash32, LogFilter};
use chronolith_sim::{Fault, FaultPlan, Operation, SimChain};
use crash::{Reference, batch, crash_settings, faulty};
use script::{Act, SEED, Step, script};
use support::{Stores, assert_answers};

/// By default one operation in so many is hit.
const STRIDE: u64 = 3;

/// What the script is there to reach; filled by the run without faults.
#[derive(Debug, Default)]
struct Reached {
    top_tier: usize,
    runs_merged: u64,
    packs_joined: u64,
    garbage_removed: u64,
}

/// One run of the script: stores that outlive everything, and a process that may die.
struct Life {
    inner: Stores,
    /// What the process obeys that lives now.
    plan: Arc<FaultPlan>,
    archive: Option<Archive>,
    reached: Reached,
}

impl Life {
    fn new(plan: Arc<FaultPlan>) -> Self {
        Self {
            inner: Stores::memory(),
            plan,
            archive: None,
            reached: Reached::default(),
        }
    }

    async fn open(&self) -> Result<Archive, Error> {
        let stores = faulty(&self.inner, &self.plan);
        stores.try_writer(&crash_settings()).await
    }

    /// Goes through the script. At most one attempt may fail, because there is at most one fault.
    async fn run(&mut self, script: &[Step], salt: u64) {
        let mut failure: Option<Error> = None;
        let mut at = 0;
        while let Some(step) = script.get(at) {
            let Err(error) = self.attempt(step, failure.is_some()).await else {
                at += 1;
                continue;
            };
            let act = step.act;
            assert!(failure.is_none(), "{act:?}: {error}, after {failure:?}");
            let lost = error.kind() == ErrorKind::Unavailable;
            assert!(lost, "{act:?}: a lost request became {error:?}");
            failure = Some(error);
            if self.plan.is_dead() {
                self.plan = FaultPlan::none();
                self.archive = Some(self.rise(step, salt).await);
            }
        }
    }

    /// Opens again after a crash and looks at what is there before anything else is done.
    async fn rise(&self, step: &Step, salt: u64) -> Archive {
        let reader = self.inner.reader(&crash_settings()).await;
        let archive = self.open().await.unwrap();
        let mut possible = [&step.before, &step.after].into_iter();
        let shown = possible.find(|state| state.fits(&archive));
        let shown =
            shown.unwrap_or_else(|| panic!("{:?}: half done: {:?}", step.act, archive.health()));
        // Before an archive is created, a reader finds none.
        assert!(shown.fits(&reader) || reader.health().health == Health::Empty);
        shown.check(&archive, salt).await;
        archive
    }

    async fn attempt(&mut self, step: &Step, again: bool) -> Result<(), Error> {
        let archive = match &self.archive {
            Some(archive) => archive.clone(),
            None => self.open().await?,
        };
        self.archive = Some(archive.clone());
        let halted = matches!(archive.health().health, Health::Halted(_));
        let head = archive.health().head;
        match step.act {
            Act::Append(range) => append(&archive, step, range, again).await,
            Act::Maintain => self.maintain(&archive).await,
            Act::Fill(range) => {
                let mut fill = archive.fill(range)?;
                for chunk in batch(&step.chain, range).chunks(11) {
                    fill.push(chunk.to_vec(), &Provenance::default()).await?;
                }
                fill.finish().await
            }
            Act::Collect => {
                let report = archive.collect_garbage(GcMode::Remove).await?;
                self.reached.garbage_removed += report.removed;
                Ok(())
            }
            Act::Violate => violate(&archive, &step.chain, halted || again).await,
            Act::Resume if !halted => Ok(()),
            Act::Resume => archive.resume(audit("resume --keep")).await,
            Act::Rewind(to) if head.is_some_and(|head| head.number == to) => Ok(()),
            Act::Rewind(to) => archive.rewind(to, audit("rewind")).await,
            Act::TakeOver => self.take_over(&archive, step).await,
            Act::Ask => {
                let range = step.before.ranges()[0];
                let (_, oracle) = &step.before.covered[0];
                let filter = LogFilter::over(range);
                let page = archive.query_finalized(&filter).await?;
                assert_answers(&page, oracle, &filter);
                Ok(())
            }
        }
    }

    async fn maintain(&mut self, archive: &Archive) -> Result<(), Error> {
        loop {
            let (runs, packs) = archive.health().runs_and_packs;
            if !archive.maintain().await? {
                return Ok(());
            }
            let health = archive.health();
            self.reached.top_tier = self.reached.top_tier.max(health.tiers.len() - 1);
            self.reached.runs_merged += u64::from(health.runs_and_packs.0 < runs);
            self.reached.packs_joined += u64::from(health.runs_and_packs.1 < packs);
        }
    }

    /// A second writer opens; whatever the first one tries then, it is fenced.
    async fn take_over(&mut self, first: &Archive, step: &Step) -> Result<(), Error> {
        self.archive = Some(self.open().await?);
        let next = step.before.head.map_or(0, |head| head.number + 1);
        let blocks = batch(&step.chain, BlockRange::new(next, next + 3));
        let how = Provenance::default();
        fenced(first.ingest_finalized_blocks(blocks, &how).await)?;
        fenced(first.collect_garbage(GcMode::Remove).await)?;
        fenced(first.maintain().await)
    }
}

async fn append(
    archive: &Archive,
    step: &Step,
    range: BlockRange,
    again: bool,
) -> Result<(), Error> {
    let there = step.after.fits(archive);
    let blocks = batch(&step.chain, range);
    let how = Provenance::default();
    let outcome = archive.ingest_finalized_blocks(blocks, &how).await?;
    match outcome {
        IngestOutcome::AlreadyIndexed => assert!(again, "{:?} was not there before", step.act),
        IngestOutcome::Appended { head, .. } => {
            assert_eq!((Some(head), there), (step.after.head, false));
        }
        IngestOutcome::ContentConflict { .. } => panic!("{:?}: {outcome:?}", step.act),
    }
    assert!(step.after.fits(archive), "acknowledged and not visible");
    Ok(())
}

/// Offers another block for one that is archived.
async fn violate(archive: &Archive, chain: &SimChain, halted: bool) -> Result<(), Error> {
    let head = archive.health().head.map_or(0, |head| head.number);
    let fork = chain.fork(head - 2, 9);
    let blocks = batch(&fork, BlockRange::new(head - 3, head + 2));
    let how = Provenance::default();
    match archive.ingest_finalized_blocks(blocks, &how).await {
        Err(Error::FinalityViolation { archived, .. }) if archived.number == head - 2 => Ok(()),
        Err(Error::Halted { .. }) if halted => Ok(()),
        Err(error) => Err(error),
        Ok(outcome) => panic!("a replaced block was taken: {outcome:?}"),
    }
}

fn fenced<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Result<(), Error> {
    match outcome {
        Err(Error::Fenced { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(done) => panic!("a fenced writer did something: {done:?}"),
    }
}

fn audit(act: &str) -> AuditEntry {
    AuditEntry {
        at: 1,
        act: act.to_owned(),
    }
}

/// What the run without faults leaves: every other run must leave the same.
struct Clean {
    script: Vec<Step>,
    operations: u64,
    kinds: Vec<Operation>,
    roots: Vec<Hash32>,
}

async fn roots(archive: &Archive, reference: &Reference) -> Vec<Hash32> {
    let mut roots = Vec::new();
    for range in reference.ranges() {
        roots.push(archive.content_root(range).await.unwrap());
    }
    roots
}

async fn run_clean() -> Clean {
    let script = script();
    let plan = FaultPlan::none();
    let mut life = Life::new(plan.clone());
    life.run(&script, 0).await;
    let (operations, never) = (plan.operations(), plan.never_called());
    assert_eq!(
        never,
        [],
        "the script does not reach every kind of operation"
    );
    let reached = &life.reached;
    assert!(
        reached.top_tier >= 3 && reached.runs_merged > 0 && reached.packs_joined > 0,
        "{reached:?}"
    );
    assert!(reached.garbage_removed > 0, "{reached:?}");
    let archive = life.archive.unwrap();
    let last = &script[script.len() - 1].after;
    for salt in 0..5 {
        last.check(&archive, salt).await;
    }
    println!(
        "seed {SEED}: {operations} operations; {reached:?}",
        reached = life.reached
    );
    Clean {
        roots: roots(&archive, last).await,
        kinds: Operation::ALL.to_vec(),
        operations,
        script,
    }
}

/// The numbers to hit: first those that must be, then the others, in case a kind is missing.
fn numbers(operations: u64, offset: u64) -> (Vec<u64>, Vec<u64>) {
    let torture = std::env::var_os("CHRONOLITH_TORTURE").is_some_and(|value| value == "1");
    let stride = if torture { 1 } else { STRIDE };
    (0..operations).partition(|number| number % stride == offset % stride)
}

async fn run_matrix(fault: Fault, offset: u64) {
    let clean = run_clean().await;
    let (must, may) = numbers(clean.operations, offset);
    let last = &clean.script[clean.script.len() - 1].after;
    let mut hits: BTreeMap<Operation, u64> = BTreeMap::new();
    let least = must.len();
    for (place, number) in must.into_iter().chain(may).enumerate() {
        if place >= least && hits.len() == clean.kinds.len() {
            break;
        }
        let plan = FaultPlan::at(number, fault);
        let mut life = Life::new(plan.clone());
        life.run(&clean.script, number).await;
        for kind in &clean.kinds {
            let faults = plan.tally(*kind).faults;
            if faults > 0 {
                *hits.entry(*kind).or_default() += faults;
            }
        }
        let archive = life.archive.unwrap();
        assert!(last.fits(&archive), "{fault:?} at {number}");
        last.check(&archive, number).await;
        assert_eq!(
            roots(&archive, last).await,
            clean.roots,
            "{fault:?} at {number}"
        );
        let left = archive.collect_garbage(GcMode::DryRun).await.unwrap();
        assert_eq!(left.orphans, [], "{fault:?} at {number}: garbage stays");
    }
    let total: u64 = hits.values().sum();
    println!("{fault:?}: {total} of {} operations hit", clean.operations);
    for kind in &clean.kinds {
        println!(
            "  {:12} {:5}",
            kind.name(),
            hits.get(kind).copied().unwrap_or(0)
        );
    }
    assert_eq!(
        hits.len(),
        clean.kinds.len(),
        "a kind was never hit: {hits:?}"
    );
    assert!(total >= least as u64, "a planned operation never came");
}

#[tokio::test(start_paused = true)]
async fn crashes_before_every_operation_leave_a_prefix() {
    run_matrix(Fault::CrashBefore, 0).await;
}

#[tokio::test(start_paused = true)]
async fn crashes_after_every_operation_leave_a_prefix() {
    run_matrix(Fault::CrashAfter, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_lost_can_be_made_again() {
    run_matrix(Fault::FailUnapplied, 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_changes_nothing() {
    run_matrix(Fault::FailApplied, 3).await;
}
