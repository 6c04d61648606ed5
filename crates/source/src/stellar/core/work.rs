//! The commands of core and the ledgers that it writes: on a thread of its own, because a pipe blocks.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use chronolith_model::Hash32;
use chronolith_stellar::Network;

use super::buffer::{Buffer, End};
use super::frames::read_frame;
use super::pipe::{Flow, Pipe};
use super::process::{Call, Output, Process, end_stale, stale};
use crate::source::Fetched;
use crate::stellar::lake::FIRST_LEDGER;
use crate::stellar::lake::open::{ProvenBlock, Wrong, prove_ledger};

/// How often it is looked whether a process has ended.
const TICK: Duration = Duration::from_millis(20);
/// How long an end is waited for that must come.
const END_TICKS: u32 = 500;
/// A core that is further behind is started again instead of waited for.
const BEHIND_MAX: u32 = 50_000;
/// History is published at every multiple of this, less one: 63, 127, and so on.
const CHECKPOINT_LEDGERS: u32 = 64;
/// The pipe's name in core's directory.
const PIPE: &str = "meta.pipe";

/// Which ledgers core must deliver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// These, and no more.
    Bounded { from: u32, to: u32 },
    /// These and all that close from now on.
    Live { from: u32 },
}

impl Task {
    pub(crate) fn from(self) -> u32 {
        match self {
            Self::Bounded { from, .. } | Self::Live { from } => from,
        }
    }

    /// Whether a core that works on this also brings what another task begins with, and follows the network
    /// where that one does. How far it has come is not looked at.
    pub(crate) fn serves(self, other: Self) -> bool {
        match (self, other) {
            (Self::Live { .. }, _) => true,
            // It is over with its last ledger, also while it still ends.
            (Self::Bounded { to, .. }, Self::Bounded { from, .. }) => from <= to,
            (Self::Bounded { .. }, Self::Live { .. }) => false,
        }
    }
}

/// A core that works on a task.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) task: Task,
    pub(crate) buffer: Arc<Buffer>,
    process: Arc<Process>,
    flow: Arc<Flow>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) call: Call,
    pub(crate) network: Arc<Network>,
    pub(crate) endpoint: Arc<str>,
    pub(crate) task: Task,
}

impl Running {
    /// Starts core once the one before it is gone.
    pub(crate) fn start(job: Job, buffer: Buffer, before: Option<JoinHandle<()>>) -> Self {
        let (buffer, process) = (Arc::new(buffer), Arc::new(Process::default()));
        let flow = Arc::new(Flow::default());
        let worker = Worker {
            buffer: buffer.clone(),
            process: process.clone(),
            flow: flow.clone(),
            job: job.clone(),
        };
        let thread = std::thread::spawn(move || {
            // It was ordered to end.
            let _ended = before.map(JoinHandle::join);
            let end = worker.work().err().unwrap_or(End::Done);
            worker.process.end();
            worker.buffer.end(end);
        });
        Self {
            task: job.task,
            buffer,
            process,
            flow,
            thread: Some(thread),
        }
    }

    /// Whether core has more ledgers than it has handed on, as far as is known. What is handed on by
    /// then must be looked at afterwards.
    pub(crate) fn is_behind(&self) -> bool {
        // Its own report comes first: it writes a ledger before it reports that none follows.
        let claims = self.process.is_catching_up();
        let was_full = self.buffer.was_full();
        (claims || was_full || !self.flow.is_dry()) && !self.buffer.is_over()
    }

    /// The error that no ledger came in time, with the last line of core.
    pub(crate) fn silence(&self, patience: Duration) -> End {
        let seconds = self.buffer.wait_max(patience).as_secs();
        let what = format!("no ledger came for {seconds} seconds or more");
        End::Failed(self.process.with_last_lines(&what))
    }

    /// Ends core. The start of the next one waits for the thread.
    pub(crate) fn stop(mut self) -> Option<JoinHandle<()>> {
        self.thread.take()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.buffer.stop();
        self.process.close();
    }
}

struct Worker {
    buffer: Arc<Buffer>,
    process: Arc<Process>,
    flow: Arc<Flow>,
    job: Job,
}

impl Worker {
    fn work(&self) -> Result<(), End> {
        let dir = &self.job.call.work_dir;
        let made = std::fs::create_dir_all(dir);
        made.map_err(|error| End::Failed(format!("{} cannot be made: {error}", dir.display())))?;
        self.end_stale()?;
        let command = match self.job.task {
            Task::Bounded { from, to } => {
                self.call(&["new-db"])?;
                let ledgers = u64::from(to - from) + 1;
                ["catchup".to_owned(), format!("{to}/{ledgers}")].to_vec()
            }
            Task::Live { from } => {
                self.prepare(from)?;
                vec!["run".to_owned()]
            }
        };
        self.stream(command)
    }

    /// Brings core's own state to the ledger before the first that is wanted, unless it is near there.
    fn prepare(&self, from: u32) -> Result<(), End> {
        let closed = self.last_closed();
        if closed.is_some_and(|closed| is_usable(closed, from)) {
            return Ok(());
        }
        self.call(&["new-db"])?;
        if let Some(ledger) = catchup_target(from) {
            self.call(&["catchup", &format!("{ledger}/0")])?;
        }
        Ok(())
    }

    /// The ledger that core closed last, by its own account; none where it has none.
    fn last_closed(&self) -> Option<u32> {
        let args = ["offline-info".to_owned()];
        let started = self.process.start(&self.job.call, &args, Output::Answer);
        let answer = started.ok()?;
        let ended = self.wait().ok()?;
        let answer = answer?.join().ok()?;
        last_closed(&answer).filter(|_| ended.success())
    }

    /// A command that must succeed.
    fn call(&self, args: &[&str]) -> Result<(), End> {
        let args: Vec<String> = args.iter().map(|word| (*word).to_owned()).collect();
        let started = self.process.start(&self.job.call, &args, Output::Log);
        started.map_err(End::Failed)?;
        let ended = self.wait()?;
        if ended.success() {
            Ok(())
        } else {
            Err(self.failed(&format!("`{}` ended with {ended}", args.join(" "))))
        }
    }

    fn wait(&self) -> Result<std::process::ExitStatus, End> {
        loop {
            if let Some(ended) = self.process.ended() {
                return Ok(ended);
            }
            if self.buffer.pause(TICK) {
                return Err(End::stopped());
            }
        }
    }

    /// Runs a command that writes ledgers, and takes them.
    fn stream(&self, mut args: Vec<String>) -> Result<(), End> {
        let path = self.job.call.work_dir.join(PIPE);
        let is_over = || self.buffer.is_stopped() || self.process.ended().is_some();
        let pipe = Pipe::make(&path, &self.flow, &is_over);
        let mut pipe = pipe.map_err(|error| End::Failed(format!("no pipe for core: {error}")))?;
        args.push("--metadata-output-stream".to_owned());
        args.push(path.display().to_string());
        let started = self.process.start(&self.job.call, &args, Output::Log);
        started.map_err(End::Failed)?;
        let mut before: Option<(u32, Hash32)> = None;
        loop {
            pipe.note_handed_on();
            let frame = read_frame(&mut pipe).map_err(|what| self.failed(&what))?;
            let Some(frame) = frame else {
                return Err(self.ended_early());
            };
            let bytes = frame.len() as u64;
            let proven = self.proven(frame, before)?;
            let number = proven.block.clock.number as u32;
            before = Some((number, proven.block.clock.hash));
            let fetched = Fetched {
                block: proven.block,
                proof: proven.proof,
                endpoint: self.job.endpoint.clone(),
            };
            if number >= self.job.task.from() && !self.buffer.push(fetched, bytes) {
                return Ok(());
            }
            if matches!(self.job.task, Task::Bounded { to, .. } if number >= to) {
                return Ok(());
            }
        }
    }

    /// A ledger as a block: proven, and the one that is due. Core may begin before the first that is
    /// wanted, but never after it, and from there on leaves none out.
    fn proven(&self, frame: Bytes, before: Option<(u32, Hash32)>) -> Result<ProvenBlock, End> {
        let due = before.map_or(self.job.task.from(), |(before, _)| before.saturating_add(1));
        let wrong = |what: String| End::Wrong { ledger: due, what };
        let proven = prove_ledger(frame, &self.job.network);
        let proven = proven.map_err(|fault| match fault {
            Wrong::Network(what) => End::Network(what),
            Wrong::Content { what, .. } => wrong(what),
        })?;
        let ledger = proven.block.clock;
        let number = ledger.number;
        let is_due = number == u64::from(due) || before.is_none() && number < u64::from(due);
        if !is_due {
            return Err(wrong(format!("ledger {number} came in its place")));
        }
        if before.is_some_and(|(_, hash)| ledger.parent_hash != hash) {
            return Err(wrong("it does not name the ledger before it".to_owned()));
        }
        Ok(proven)
    }

    fn ended_early(&self) -> End {
        for _ in 0..END_TICKS {
            if let Some(ended) = self.process.ended() {
                return self.failed(&format!("it ended with {ended}"));
            }
            if self.buffer.pause(TICK) {
                return End::stopped();
            }
        }
        self.failed("it closed the pipe")
    }

    /// What failed, with the last line of core.
    fn failed(&self, what: &str) -> End {
        End::Failed(self.process.with_last_lines(what))
    }

    /// Ends a core that outlived the program that started it, and waits until it is gone.
    fn end_stale(&self) -> Result<(), End> {
        let Some(id) = stale(&self.job.call) else {
            return Ok(());
        };
        end_stale(id);
        for _ in 0..END_TICKS {
            if stale(&self.job.call).is_none() {
                return Ok(());
            }
            if self.buffer.pause(TICK) {
                break;
            }
        }
        let what = format!("a core of before, process {id}, does not end");
        Err(End::Failed(what))
    }
}

/// The ledger to catch up with before the first that is wanted: the last checkpoint before it. A ledger between
/// two checkpoints cannot be had before the second one is published, and core would wait for that for minutes.
/// What comes before the first that is wanted is passed over. Before the first checkpoint of all there is none.
fn catchup_target(from: u32) -> Option<u32> {
    let before = from
        .checked_sub(1)
        .filter(|before| *before >= FIRST_LEDGER)?;
    let checkpoint = (from / CHECKPOINT_LEDGERS * CHECKPOINT_LEDGERS).checked_sub(1);
    Some(checkpoint.unwrap_or(before))
}

/// Whether core can continue from what it closed last, to the ledger that is wanted.
fn is_usable(closed: u32, from: u32) -> bool {
    let before = from.saturating_sub(1);
    let is_new = closed < FIRST_LEDGER;
    closed <= before && before - closed <= BEHIND_MAX && (!is_new || from == FIRST_LEDGER)
}

/// The ledger in an answer to `offline-info`: JSON, with other lines before it perhaps.
fn last_closed(answer: &str) -> Option<u32> {
    let json = answer.get(answer.find('{')?..=answer.rfind('}')?)?;
    let info: serde_json::Value = serde_json::from_str(json).ok()?;
    let number = info.get("info")?.get("ledger")?.get("num")?.as_u64()?;
    u32::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_serves_what_it_comes_to() {
        let (bounded, live) = (Task::Bounded { from: 10, to: 20 }, Task::Live { from: 10 });
        let from = |from: u32| Task::Bounded { from, to: 99 };
        assert!(bounded.serves(from(10)) && bounded.serves(from(20)));
        assert!(!bounded.serves(from(21)) && !bounded.serves(live));
        assert!(live.serves(live) && live.serves(from(21)));
    }

    #[test]
    fn core_catches_up_with_a_checkpoint() {
        for (from, expected) in [
            (2, None),
            (3, Some(2)),
            (63, Some(62)),
            (64, Some(63)),
            (65, Some(63)),
            (127, Some(63)),
            (128, Some(127)),
            (53_312_000, Some(53_311_999)),
            (53_312_001, Some(53_311_999)),
        ] {
            assert_eq!(catchup_target(from), expected, "{from}");
        }
    }

    #[test]
    fn core_continues_from_where_it_is_near() {
        for (closed, from, expected) in [
            (1, 2, true),
            (1, 3, false),
            (0, 2, true),
            (99, 100, true),
            (100, 100, false),
            (101, 100, false),
            (60, 100, true),
            (2, BEHIND_MAX + 4, false),
        ] {
            assert_eq!(is_usable(closed, from), expected, "{closed} {from}");
        }
    }

    #[test]
    fn the_last_closed_ledger_is_found_in_the_answer() {
        let answer = "2026-01-01 [default INFO]\n{\n \"info\": { \"ledger\": { \"num\": 77, \"age\": 4 } }\n}\n";
        assert_eq!(last_closed(answer), Some(77));
        for other in [
            "",
            "{}",
            "{\"info\":{}}",
            "}{",
            "{\"info\":{\"ledger\":{\"num\":-1}}}",
        ] {
            assert_eq!(last_closed(other), None, "{other}");
        }
    }
}
