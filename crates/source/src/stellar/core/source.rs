//! A Stellar network read from a core that we run.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use chronolith_model::{BlockMeta, BlockRange, BlockRef};
use chronolith_stellar::Network;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::buffer::{Buffer, End};
use super::config;
use super::process::Call;
use super::quiet::Quiet;
use super::work::{Job, Running, Task};
use crate::backoff::Backoff;
use crate::error::{Error, Result};
use crate::health::{EndpointReport, Health};
use crate::source::{EndpointBlock, Fetched, Heads, Identity, Plan, Source, Want};
use crate::stellar::lake::FIRST_LEDGER;

/// The name of core in logs and errors.
pub(crate) const NAME: &str = "core";

/// The pauses before core is started again after a failure.
const RESTART: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// Failures without one ledger between them, from which on nothing else is expected.
const FAILURES_MAX: u32 = 6;
/// Ledgers that are read and passed over before core is started again from another one.
const PASS_OVER: u64 = 50_000;
/// Ledgers of one fetch while core follows the network.
const LIVE_LEDGERS: u64 = 20;
/// Ledgers of one catch-up: all that are wanted, because each begins with the state of the network.
const CATCHUP_LEDGERS: u64 = u32::MAX as u64;

/// A core and how it is used.
#[derive(Clone, Debug)]
pub struct CoreSettings {
    pub binary: PathBuf,
    pub config: PathBuf,
    /// Where it works: its database and buckets, if its settings do not put them elsewhere.
    pub work_dir: PathBuf,
    /// The network it must be on.
    pub network: Network,
    /// The last ledger that is wanted, where there is one: core catches up with that one and the ledger
    /// that vouches for it, and does not follow the network.
    pub last_ledger: Option<u32>,
    /// How long no ledger may come before core is ended and started again.
    pub patience: Duration,
}

/// Reads a Stellar network from a core that it runs. Ledgers come in order, through a pipe, and core waits
/// while they are not taken. Every one is proven as one of a lake is.
#[derive(Debug)]
pub struct CoreSource {
    health: Health,
    call: Call,
    network: Arc<Network>,
    last_ledger: Option<u32>,
    patience: Duration,
    hints: watch::Sender<u64>,
    /// The ledger that the caller needs next.
    next: AtomicU64,
    /// Whether core had more ledgers than it had handed on, when the newest was last looked at.
    behind: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    running: Option<Running>,
    /// Keeps other processes out of the directory.
    lock: Option<File>,
    /// One that was ordered to end.
    ending: Option<JoinHandle<()>>,
    /// Counts failures without one ledger between them.
    backoff: Backoff,
    not_before: Option<Instant>,
    last_error: Option<Error>,
    newest: Option<BlockRef>,
}

impl CoreSource {
    /// Over this core. Nothing is started yet.
    ///
    /// # Errors
    /// `Invalid` where the program or its settings file is not there.
    pub fn new(settings: CoreSettings) -> Result<Self> {
        let invalid = |what: String| Error::Invalid(format!("core: {what}"));
        let absolute = |path: &PathBuf| {
            std::path::absolute(path)
                .map_err(|error| invalid(format!("{}: {error}", path.display())))
        };
        let text = std::fs::read_to_string(&settings.config).map_err(|error| {
            let path = settings.config.display();
            invalid(format!("its settings file {path} cannot be read: {error}"))
        })?;
        let missing = config::check(&text, &settings.network)
            .map_err(|what| invalid(format!("{}: {what}", settings.config.display())))?;
        for what in missing {
            tracing::warn!(config = %settings.config.display(), what, "core runs without an event setting");
        }
        let call = Call {
            binary: program(&settings.binary)?,
            config: absolute(&settings.config)?,
            work_dir: absolute(&settings.work_dir)?,
            quiet: Quiet::of(&text),
        };
        Ok(Self {
            health: Health::new(NAME, settings.network.chain_id()),
            call,
            network: Arc::new(settings.network),
            last_ledger: settings.last_ledger,
            patience: settings.patience,
            hints: watch::Sender::new(0),
            next: AtomicU64::new(u64::from(FIRST_LEDGER)),
            behind: AtomicBool::new(true),
            state: Mutex::new(State::new()),
        })
    }

    /// The newest ledger, of a core that follows the network from this one on, or continues to the last that
    /// is wanted; none where none came yet.
    pub(crate) async fn follow(&self, from: u64) -> Result<Option<BlockRef>> {
        let began = Instant::now();
        let newest = self.newest(from).await;
        self.health.note("follow", began.elapsed(), &newest);
        newest
    }

    async fn newest(&self, from: u64) -> Result<Option<BlockRef>> {
        self.behind.store(true, Ordering::Relaxed);
        let mut state = self.state.lock().await;
        let from = self.ledger(from)?;
        let bounded = self.last_ledger.filter(|last| from <= *last);
        let task = bounded.map_or(Task::Live { from }, |last| Task::Bounded {
            from,
            to: last.saturating_add(1),
        });
        let buffer = self.ensure(&mut state, task)?;
        if buffer.is_silent(self.patience) {
            // No fetch waits for a ledger of a core that shows none.
            return Err(self.silent(&mut state));
        }
        let behind = state.running.as_ref().is_none_or(Running::is_behind);
        let newest = buffer.newest();
        let behind = behind || newest.is_none();
        self.behind.store(behind, Ordering::Relaxed);
        state.newest = newest.or(state.newest);
        match (state.newest, &state.last_error) {
            // One that has only ever failed is not catching up, also while it is started once more.
            (None, Some(error)) if state.backoff.attempts() > 0 => Err(error.clone()),
            (newest, _) => Ok(newest),
        }
    }

    fn ledger(&self, number: u64) -> Result<u32> {
        let ledger = u32::try_from(number).ok();
        let ledger = ledger.filter(|ledger| *ledger >= FIRST_LEDGER);
        ledger.ok_or_else(|| self.health.missing(number))
    }

    /// The ledgers of a core that comes to the first of a task: the one that runs, or a new one.
    fn ensure(&self, state: &mut State, task: Task) -> Result<Arc<Buffer>> {
        if let Some(running) = &state.running {
            let buffer = running.buffer.clone();
            if running.task.serves(task) && buffer.reaches(u64::from(task.from()), PASS_OVER) {
                return Ok(buffer);
            }
            match buffer.ended() {
                Some(End::Done) | None => self.stop(state),
                Some(end) => return Err(self.failed(state, end)),
            }
        }
        if let (Some(until), Some(error)) = (state.not_before, &state.last_error)
            && until > Instant::now()
        {
            return Err(error.clone());
        }
        self.start(state, task)
    }

    fn start(&self, state: &mut State, task: Task) -> Result<Arc<Buffer>> {
        if state.lock.is_none() {
            state.lock = Some(self.lock()?);
        }
        let job = Job {
            call: self.call.clone(),
            network: self.network.clone(),
            endpoint: self.health.name.clone(),
            task,
        };
        let buffer = Buffer::new(u64::from(task.from()), self.hints.clone());
        let running = Running::start(job, buffer, state.ending.take());
        let buffer = running.buffer.clone();
        state.running = Some(running);
        Ok(buffer)
    }

    /// Two processes in one directory would end each other's core.
    fn lock(&self) -> Result<File> {
        let path = self.call.work_dir.join("lock");
        let shown = path.display();
        let made = std::fs::create_dir_all(&self.call.work_dir).and_then(|()| File::create(&path));
        let file = made.map_err(|error| {
            let reason = format!("{shown} cannot be written: {error}");
            self.health.unavailable(reason)
        })?;
        file.try_lock().map_err(|_| {
            let reason = format!("another process runs a core there (path={shown})");
            self.health.stuck(reason)
        })?;
        Ok(file)
    }

    fn stop(&self, state: &mut State) {
        state.ending = state.running.take().and_then(Running::stop);
    }

    /// Notes why core ended, and when it may be started again.
    fn failed(&self, state: &mut State, end: End) -> Error {
        self.stop(state);
        let pause = state.backoff.next();
        let times = state.backoff.attempts();
        let error = match end {
            End::Done => self.health.unavailable("it ended"),
            End::Failed(what) if times >= FAILURES_MAX => self.health.stuck(format!(
                "core failed {times} times in a row and brought no ledger, as it does where one is \
                     wanted that has not closed yet: {what}"
            )),
            End::Failed(what) => self.health.unavailable(what),
            End::Wrong { ledger, what } => self.health.inconsistent(u64::from(ledger), what),
            End::Network(what) => Error::Invalid(format!("core: {what}")),
        };
        state.not_before = Some(Instant::now() + pause);
        state.last_error = Some(error.clone());
        let pause_seconds = pause.as_secs();
        tracing::warn!(%error, pause_seconds, "core ended, it is started again");
        error
    }

    fn silent(&self, state: &mut State) -> Error {
        let running = state.running.as_ref();
        let end = running.map_or(End::Done, |running| running.silence(self.patience));
        self.failed(state, end)
    }

    async fn some(&self, range: BlockRange) -> Result<Vec<Fetched>> {
        let from = self.ledger(range.start)?;
        let to = u32::try_from(range.end - 1).unwrap_or(u32::MAX);
        let buffer = {
            let mut state = self.state.lock().await;
            self.ensure(&mut state, Task::Bounded { from, to })?
        };
        let taken = buffer.take(range, self.patience).await;
        let mut state = self.state.lock().await;
        match taken {
            Some(Ok(fetched)) => {
                state.backoff.reset();
                Ok(fetched)
            }
            // The first fetch that failed has noted it.
            Some(Err(end)) if state.is_of(&buffer) => Err(self.failed(&mut state, end)),
            None if state.is_of(&buffer) => Err(self.silent(&mut state)),
            Some(Err(_)) | None => {
                let other = || self.health.unavailable("it was started again");
                Err(state.last_error.clone().unwrap_or_else(other))
            }
        }
    }
}

impl State {
    fn new() -> Self {
        Self {
            running: None,
            lock: None,
            ending: None,
            backoff: RESTART,
            not_before: None,
            last_error: None,
            newest: None,
        }
    }

    fn is_of(&self, buffer: &Arc<Buffer>) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| Arc::ptr_eq(&running.buffer, buffer))
    }
}

/// A program by its path, or by its name where programs are.
fn program(binary: &PathBuf) -> Result<PathBuf> {
    let missing = || {
        let binary = binary.display();
        Error::Invalid(format!("core: there is no program {binary}"))
    };
    if binary.components().count() > 1 {
        let absolute = std::path::absolute(binary).ok();
        return absolute.filter(|path| path.is_file()).ok_or_else(missing);
    }
    // The search is the system's; a wrong name shows when it is started.
    Ok(binary.clone())
}

#[async_trait]
impl Source for CoreSource {
    async fn identity(&self) -> Result<Identity> {
        Ok(Identity {
            chain_id: self.network.chain_id(),
            genesis: None,
        })
    }

    async fn heads(&self) -> Result<Heads> {
        let began = Instant::now();
        let newest = self.newest(self.next.load(Ordering::Relaxed)).await;
        let reason = "it is catching up: no ledger came so far";
        let head = newest.and_then(|newest| newest.ok_or_else(|| self.health.unavailable(reason)));
        self.health.note("follow", began.elapsed(), &head);
        head.map(Heads::all_final)
    }

    async fn clock(&self, number: u64) -> Result<Option<BlockMeta>> {
        let state = self.state.lock().await;
        let running = state.running.as_ref();
        let found = running.and_then(|running| running.buffer.get(number));
        Ok(found.map(|one| one.block.clock))
    }

    async fn block_at_each_endpoint(&self, number: u64) -> Vec<EndpointBlock> {
        self.health.block_at(self.clock(number).await)
    }

    /// On the chain that the network agrees on, whatever the anchor is.
    async fn fetch_some(
        &self,
        range: BlockRange,
        _want: &Want,
        _anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let began = Instant::now();
        let fetched = self.some(range).await;
        self.health.note("read", began.elapsed(), &fetched);
        fetched
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }

    /// Until core has handed on all that it has, its newest ledger is not the network's.
    fn is_catching_up(&self) -> bool {
        self.behind.load(Ordering::Relaxed)
    }

    fn note_next(&self, number: u64) {
        self.next.store(number, Ordering::Relaxed);
    }

    fn report_bad(&self, endpoint: &str, block: BlockRef, what: &str) {
        if endpoint == &*self.health.name {
            let number = block.number;
            self.health.report_bad(&format!("ledger {number}: {what}"));
        }
    }

    fn endpoints(&self) -> Vec<EndpointReport> {
        vec![self.health.report(self.health.has_failed_last())]
    }

    /// Ledgers come one after the other, however many are requested.
    fn plan(&self, _want: &Want) -> Plan {
        let task = self.state.try_lock().ok();
        let task = task.and_then(|state| state.running.as_ref().map(|running| running.task));
        let blocks = match task {
            Some(Task::Live { .. }) => LIVE_LEDGERS,
            Some(Task::Bounded { .. }) | None => CATCHUP_LEDGERS,
        };
        Plan { blocks, at_once: 1 }
    }
}
