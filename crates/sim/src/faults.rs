//! Stores that fail on command: a plan, and wrappers that obey it.
//!
//! Every operation on a wrapped store gets the next number of its plan. The plan says at which
//! number what goes wrong. A crash kills the plan: from then on each operation on its handles
//! fails, because the process that held them is gone; reopening means a new plan over the same
//! inner stores. A conflict is never made up: it promises that nothing changed, and callers may
//! rely on that.

mod counting;
mod operation;
mod stores;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use chronolith_store::{Error, Result};
use parking_lot::{Mutex, MutexGuard};

use crate::rng::{self, Rng};

pub use counting::{CountingBlobs, IoCount};
pub use operation::Operation;
pub use stores::{FaultyBlobs, FaultyMeta};

/// What goes wrong at an operation. The caller sees `Unavailable` in every case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The process dies before the operation is applied.
    CrashBefore,
    /// The process dies after the operation was applied.
    CrashAfter,
    /// The operation fails once and was not applied.
    FailUnapplied,
    /// The operation was applied, and only its answer got lost.
    FailApplied,
}

/// How often each fault happens in random mode, in 10,000 operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Odds {
    /// [`Fault::CrashBefore`].
    pub crash_before: u32,
    /// [`Fault::CrashAfter`].
    pub crash_after: u32,
    /// [`Fault::FailUnapplied`].
    pub fail_unapplied: u32,
    /// [`Fault::FailApplied`].
    pub fail_applied: u32,
}

impl Odds {
    fn draw(&self, rng: &mut Rng) -> Option<Fault> {
        let faults = [
            (self.crash_before.into(), Fault::CrashBefore),
            (self.crash_after.into(), Fault::CrashAfter),
            (self.fail_unapplied.into(), Fault::FailUnapplied),
            (self.fail_applied.into(), Fault::FailApplied),
        ];
        rng::by_share(&faults, rng.below(10_000))
    }
}

/// How often a kind of operation was begun, and how often it met a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Operations that got a number.
    pub calls: u64,
    /// Those of them that met a fault.
    pub faults: u64,
}

#[derive(Debug)]
enum Script {
    /// Faults by the number of their operation.
    At(BTreeMap<u64, Fault>),
    /// A draw for each number.
    Random { seed: u64, odds: Odds },
}

#[derive(Debug, Default)]
struct Progress {
    next: u64,
    dead: bool,
    tallies: BTreeMap<Operation, Tally>,
}

/// When what goes wrong, and what has happened so far. Shared by the wrappers of one process.
#[derive(Debug)]
pub struct FaultPlan {
    script: Script,
    progress: Mutex<Progress>,
}

impl FaultPlan {
    /// Nothing goes wrong; operations are only counted.
    #[must_use]
    pub fn none() -> Arc<Self> {
        Self::script([])
    }

    /// One fault, at the operation of this number; the first has number 0.
    #[must_use]
    pub fn at(number: u64, fault: Fault) -> Arc<Self> {
        Self::script([(number, fault)])
    }

    /// These faults, each at the operation of its number.
    #[must_use]
    pub fn script(faults: impl IntoIterator<Item = (u64, Fault)>) -> Arc<Self> {
        Self::new(Script::At(faults.into_iter().collect()))
    }

    /// Random faults. What happens at a number depends only on the seed and that number.
    #[must_use]
    pub fn random(seed: u64, odds: Odds) -> Arc<Self> {
        Self::new(Script::Random { seed, odds })
    }

    fn new(script: Script) -> Arc<Self> {
        Arc::new(Self {
            script,
            progress: Mutex::default(),
        })
    }

    /// How many operations got a number so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.progress().next
    }

    /// What happened to operations of this kind.
    #[must_use]
    pub fn tally(&self, operation: Operation) -> Tally {
        let progress = self.progress();
        let tally = progress.tallies.get(&operation);
        tally.copied().unwrap_or_default()
    }

    /// The kinds of operation that never happened.
    #[must_use]
    pub fn never_called(&self) -> Vec<Operation> {
        let missing = |operation: &Operation| self.tally(*operation).calls == 0;
        Operation::ALL.into_iter().filter(missing).collect()
    }

    /// The kinds of operation that never met a fault.
    #[must_use]
    pub fn never_faulted(&self) -> Vec<Operation> {
        let missing = |operation: &Operation| self.tally(*operation).faults == 0;
        Operation::ALL.into_iter().filter(missing).collect()
    }

    /// Whether the process has died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.progress().dead
    }

    /// Kills the process between two operations.
    pub fn kill(&self) {
        self.progress().dead = true;
    }

    /// Runs an operation as the plan wants it. `work` must do nothing before it is polled.
    async fn run<T>(
        &self,
        operation: Operation,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let fault = self.begin(operation)?;
        let result = work.await;
        if fault == Some(Fault::CrashAfter) {
            self.kill();
        }
        // Another operation may have killed the process while this one was under way.
        self.check_alive(operation)?;
        match fault {
            None => result,
            Some(_) => Err(injected(operation, "answer lost")),
        }
    }

    /// Numbers the operation; an error means that it must not be applied.
    fn begin(&self, operation: Operation) -> Result<Option<Fault>> {
        self.check_alive(operation)?;
        let mut progress = self.progress();
        let number = progress.next;
        progress.next += 1;
        let fault = match &self.script {
            Script::At(faults) => faults.get(&number).copied(),
            Script::Random { seed, odds } => odds.draw(&mut Rng::of(&[*seed, number])),
        };
        let tally = progress.tallies.entry(operation).or_default();
        tally.calls += 1;
        tally.faults += u64::from(fault.is_some());
        match fault {
            Some(Fault::CrashBefore) => {
                progress.dead = true;
                Err(injected(operation, "process crashed"))
            }
            Some(Fault::FailUnapplied) => Err(injected(operation, "request lost")),
            fault => Ok(fault),
        }
    }

    fn check_alive(&self, operation: Operation) -> Result<()> {
        if self.is_dead() {
            return Err(injected(operation, "process is dead"));
        }
        Ok(())
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock()
    }
}

fn injected(operation: Operation, what: &str) -> Error {
    Error::Unavailable {
        context: format!("injected fault: {what} (operation={operation})"),
        source: None,
    }
}
