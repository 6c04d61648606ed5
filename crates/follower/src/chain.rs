//! One chain as the node runs it: its source, its archive, and the blocks between the two.

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use chronolith_archive::{Archive, Place, Settings as ArchiveSettings};
use chronolith_finality::{Rule, Settings as WindowSettings, Tail, TailSnapshot, Tracker};
use chronolith_model::{BlockRange, BlockRef, ChainId, DatasetSet, Hash32, Proof};
use chronolith_source::evm::{EvmSettings, EvmSource};
use chronolith_source::portal::PortalSource;
use chronolith_source::{Error as SourceError, Fetched, Heads, JointSource, Source, Want};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};

use crate::control::Control;
use crate::counters::Counters;
use crate::error::FollowError;
use crate::gap_waits::Gaps;
use crate::l1::L1;
use crate::location::ArchiveLocation;
use crate::maintenance::MaintenanceStatus;
use crate::meters::Meters;
use crate::preflight::admission::Admission;
use crate::preflight::agreement::Agreement;
use crate::run_state::RunState;
use crate::settings::{Finality, FollowSettings, Mode};
use crate::stellar;

/// A source that takes longer than this to answer is displayed as unresponsive.
const ANSWER_AFTER: Duration = Duration::from_secs(5);

/// How an error is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// A retry may succeed.
    Warning,
    Error,
}

/// The status of a chain for health, metrics and commands.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The source's newest block, and when it was seen to be that.
    pub source_head: Option<(BlockRef, Instant)>,
    /// The blocks that are missing below the head and will be fetched, and what everybody may read of them.
    pub gaps: Option<String>,
    pub public_gaps: Option<String>,
    /// Why ingest makes no progress, and what everybody may read of it.
    pub error: Option<String>,
    pub public_error: Option<String>,
    /// When a round last succeeded.
    pub last_success: Option<Instant>,
    /// Since when a request for the heads has waited for its answer.
    pub request_started: Option<Instant>,
    /// Since when no round has succeeded, and how that was logged last.
    pub failing_since: Option<Instant>,
    pub logged_as: Option<Severity>,
}

impl Status {
    /// Sets the error, with what everybody may read of it; returns the one before.
    pub fn set_error(&mut self, error: Option<(String, String)>) -> Option<String> {
        let (text, public) = error.unzip();
        self.public_error = public;
        std::mem::replace(&mut self.error, text)
    }

    /// A message for a source that has not answered for long. Its own timeouts come much later.
    pub fn unanswered(&self, now: Instant) -> Option<String> {
        let waited = now.saturating_duration_since(self.request_started?);
        let seconds = waited.as_secs();
        (waited >= ANSWER_AFTER).then(|| format!("the source has not answered for {seconds} s"))
    }
}

/// A chain.
pub struct Chain {
    pub settings: FollowSettings,
    pub archive: Archive,
    pub source: Arc<dyn Source>,
    /// The checks before the first use of the source, in the process that writes the archive.
    admission: Option<Arc<Admission>>,
    /// L1, where finality needs its head.
    pub l1: Option<L1>,
    pub want: Want,
    pub(crate) meters: Meters,
    /// Whether another process writes the archive, which decides what is final.
    pub is_replica: bool,
    window: Mutex<Window>,
    status: Mutex<Status>,
    gaps: Mutex<Gaps>,
    /// What was ingested since the start.
    pub seen: Counters,
    /// Changes whenever tail or archive do.
    moved: watch::Sender<u64>,
    /// What operators request.
    pub control: Control,
    /// Mode and bounds of this run.
    pub ran: RunState,
    pub maintenance: MaintenanceStatus,
    /// Whether the endpoints serve one chain.
    pub agreement: Agreement,
    /// Where ingest begins while the archive has no head.
    begins_at: OnceLock<u64>,
    /// The first block that is wanted: that of the settings, or one below it that was asked for later.
    wanted_from: AtomicU64,
    more_is_wanted: Notify,
    /// Keeps other processes of this machine away, while this lives.
    lock: Option<File>,
}

/// What lies above the archive. All of it changes together.
pub struct Window {
    pub tracker: Tracker,
    pub tail: Tail,
    pub held: Held,
}

/// Blocks that were fetched and found no room in the tail: they are offered again before others are
/// fetched. At most those of one step of the walk.
#[derive(Default)]
pub struct Held {
    /// In order.
    pub blocks: Vec<Fetched>,
    /// The newest block that the source reported final when they were fetched.
    pub vouched: Option<u64>,
}

impl Chain {
    /// Opens the archive for writing. The source is not used yet: it may be down, and what is archived is
    /// served all the same. See [`Chain::admit`].
    pub async fn open(settings: FollowSettings, place: &ArchiveLocation) -> Result<Self> {
        let source = match &settings.stellar {
            Some(stellar) => stellar::open_at_once(stellar)?,
            None => Some(evm_source(&settings)?),
        };
        Self::open_from(settings, place, source).await
    }

    /// The same from this source; without one, from that of a Stellar network, which is opened when it is
    /// needed.
    pub async fn open_from(
        settings: FollowSettings,
        place: &ArchiveLocation,
        source: Option<Arc<dyn Source>>,
    ) -> Result<Self> {
        let (archive, lock) = open_writer(&settings, place).await?;
        let ran = RunState::load(&settings, place.notes())?.with(&settings);
        let is_empty = archive.health().head.is_none();
        let begins_at = is_empty.then_some(settings.start_block);
        let admission =
            Admission::new(&settings, place.clone(), archive.clone(), begins_at, source);
        let admission = Arc::new(admission);
        let mut chain = Self::with(settings, archive, admission.clone(), false)?;
        chain.admission = Some(admission);
        chain.lock = lock;
        chain.ran = ran;
        chain.agreement = Agreement::new(place.notes());
        Ok(chain)
    }

    /// Makes sure that the source serves this chain. Every fetch does so first; this is for a caller that
    /// must know before.
    ///
    /// # Errors
    /// It serves another one, or does not answer.
    pub async fn admit(&self) -> Result<(), FollowError> {
        if let Some(admission) = &self.admission {
            admission.admitted().await?;
        }
        match &self.l1 {
            Some(l1) => l1.check(&self.settings.name).await,
            None => Ok(()),
        }
    }

    /// Whether it is known that the source serves this chain.
    pub fn is_admitted(&self) -> bool {
        let admission = self.admission.as_ref();
        admission.is_none_or(|admission| admission.is_admitted())
    }

    /// Opens the archive for reading, beside the process that writes it.
    pub async fn open_replica(settings: FollowSettings, place: &ArchiveLocation) -> Result<Self> {
        let source = match &settings.stellar {
            // The process that writes runs the core.
            Some(stellar) => stellar::open_lake_alone(&settings.name, stellar).await?,
            // It requests each endpoint's chain id before the first block.
            None => evm_source(&settings)?,
        };
        Self::open_replica_from(settings, place, source).await
    }

    /// The same from this source.
    pub async fn open_replica_from(
        settings: FollowSettings,
        place: &ArchiveLocation,
        source: Arc<dyn Source>,
    ) -> Result<Self> {
        let archive = open_reader(&settings, place).await?;
        let ran = RunState::load(&settings, place.notes())?;
        let mut chain = Self::with(settings, archive, source, true)?;
        chain.ran = ran;
        Ok(chain)
    }

    fn with(
        settings: FollowSettings,
        archive: Archive,
        source: Arc<dyn Source>,
        is_replica: bool,
    ) -> Result<Self> {
        let window = Window::above(archive.health().head, &settings, is_replica)?;
        let l1 = match &settings.l1 {
            Some(l1) if !l1.endpoints.is_empty() => Some(L1::open(&settings, l1)?),
            // That chain is followed too: `share_l1` shares its source.
            _ => None,
        };
        Ok(Self {
            l1,
            want: want_of(&settings),
            source,
            admission: None,
            archive,
            meters: Meters::new(settings.chain_id),
            is_replica,
            window: Mutex::new(window),
            status: Mutex::default(),
            gaps: Mutex::default(),
            seen: Counters::default(),
            moved: watch::Sender::new(0),
            control: Control::default(),
            ran: RunState::default(),
            maintenance: MaintenanceStatus::default(),
            agreement: Agreement::default(),
            begins_at: OnceLock::new(),
            wanted_from: AtomicU64::new(settings.start_block),
            more_is_wanted: Notify::new(),
            lock: None,
            settings,
        })
    }

    /// Takes the head of L1 from where that chain is followed itself.
    pub fn share_l1(&mut self, below: &FollowSettings, source: Arc<dyn Source>) {
        let pause = self.settings.poll.max(below.poll);
        self.l1 = Some(L1::new(below.chain_id, source, pause));
    }

    /// Whether finality needs the head of another chain that was not seen lately.
    pub fn l1_is_silent(&self) -> bool {
        let Finality::Dual {
            max_l1_delay_seconds,
            ..
        } = self.settings.finality
        else {
            return false;
        };
        let l1 = self.l1.as_ref();
        l1.is_some_and(|l1| !l1.is_fresh(max_l1_delay_seconds))
    }

    /// What lies above the archive. Locked for moments only, never across a wait.
    pub fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock()
    }

    pub fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock()
    }

    /// Wakes every task that waits for a change of tail or archive.
    pub fn note_moved(&self) {
        self.moved.send_modify(|times| *times += 1);
    }

    /// Changes whenever tail or archive do.
    pub fn moves(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// The heads of the source. The status shows how long that takes.
    pub async fn heads(&self) -> Result<Heads, SourceError> {
        self.status().request_started = Some(Instant::now());
        let heads = self.source.heads().await;
        self.status().request_started = None;
        heads
    }

    /// Notes the source's newest block.
    pub fn note_source_head(&self, head: BlockRef) {
        self.status().source_head = Some((head, Instant::now()));
    }

    /// Notes that a block is known to be missing.
    pub fn note_missing(&self, number: u64) {
        self.gaps.lock().missing(number, Instant::now());
    }

    /// Notes that a block is there, and how long it was known to be missing.
    pub fn note_there(&self, number: u64) {
        let wait = self.gaps.lock().there(number, Instant::now());
        if let Some(wait) = wait {
            self.meters.gap_wait.record(wait.as_secs_f64());
        }
    }

    /// Notes that everything that is archived is there.
    pub fn note_archived(&self) {
        let Some(head) = self.archive.health().head else {
            return;
        };
        let waits = self.gaps.lock().there_through(head.number, Instant::now());
        for wait in waits {
            self.meters.gap_wait.record(wait.as_secs_f64());
        }
    }

    /// The next block that the archive wants.
    pub fn archive_next(&self) -> u64 {
        let head = self.archive.health().head;
        head.map_or_else(|| self.begins_at(), |head| head.number + 1)
    }

    /// Where ingest begins while the archive has no head.
    pub fn begins_at(&self) -> u64 {
        let begins_at = self.begins_at.get().copied();
        begins_at.unwrap_or(self.settings.start_block)
    }

    /// Sets where ingest begins, once.
    pub fn begin_at(&self, number: u64) {
        self.begins_at.get_or_init(|| number);
    }

    /// Wants the blocks from this one on as well, which are then fetched as gaps are. Whether that is more than
    /// was wanted.
    pub fn want_from(&self, number: u64) -> bool {
        let is_more = number < self.wanted_from.fetch_min(number, Ordering::Relaxed);
        if is_more {
            self.more_is_wanted.notify_one();
        }
        is_more
    }

    /// Until more blocks are wanted than before.
    pub(crate) async fn more_is_wanted(&self) {
        self.more_is_wanted.notified().await;
    }

    /// The first block that is wanted. What lies below the settings' is final once a block above it is archived.
    fn wanted_from(&self) -> u64 {
        match self.archive.health().head {
            Some(_) => self.wanted_from.load(Ordering::Relaxed),
            None => self.settings.start_block,
        }
    }

    /// Whether a core of our own is a source: its first ledger takes a while.
    pub fn has_core(&self) -> bool {
        let stellar = self.settings.stellar.as_ref();
        stellar.is_some_and(|stellar| stellar.core.is_some())
    }

    /// Whether all blocks come through one core, in order: two tasks that request different ledgers would
    /// each end what the other waits for.
    pub fn is_core_alone(&self) -> bool {
        let stellar = self.settings.stellar.as_ref();
        stellar.is_some_and(|stellar| stellar.core.is_some() && stellar.lake.is_none())
    }

    /// The last block that is wanted, where there is one.
    pub fn end_block(&self) -> Option<u64> {
        match self.settings.mode {
            Mode::Backfill { end_block } => Some(end_block),
            Mode::Auto | Mode::Streaming => None,
        }
    }

    /// Whether ingest has come to the last block that is wanted. What lies below where it began may still
    /// be missing.
    pub fn is_at_end(&self) -> bool {
        self.end_block()
            .is_some_and(|end| self.archive_next() > end)
    }

    /// Whether everything that is wanted is archived: a head after the last block says nothing of those
    /// below it.
    pub fn is_complete(&self) -> bool {
        self.end_block()
            .is_some_and(|end| self.missing_below(end.saturating_add(1)).is_empty())
    }

    /// What is missing of the blocks that are wanted, up to one that is not.
    pub fn missing_below(&self, end: u64) -> Vec<BlockRange> {
        let settings = &self.settings;
        let wanted = BlockRange::new(self.wanted_from(), end);
        self.archive
            .missing(wanted, settings.datasets, &settings.scope)
    }

    /// Blocks between the first that is wanted and one that is not of which nothing is archived, whatever
    /// is kept of the others.
    pub fn gaps_below(&self, end: u64) -> Vec<BlockRange> {
        let covered = self.archive.coverage(DatasetSet::CLOCK, None).into_iter();
        let ends = [BlockRange::new(end, end)];
        let mut gaps = Vec::new();
        let mut at = self.wanted_from();
        for covered in covered.map(|(covered, _)| covered).chain(ends) {
            let until = covered.start.min(end);
            if at < until {
                gaps.push(BlockRange::new(at, until));
            }
            at = at.max(covered.end);
        }
        gaps
    }

    /// The blocks above the archive as they are now.
    pub fn tail(&self) -> TailSnapshot {
        self.window().tail.snapshot()
    }

    /// How far a block above the archive was proven; none where it is there no longer.
    pub fn proof_in_tail(&self, block: &Hash32) -> Option<Proof> {
        let tail = self.tail();
        let number = tail.find_block(block)?.clock.number;
        tail.proof_of(BlockRange::one(number))
    }

    /// Starts again above the archive: after history was filled below everything known.
    pub fn reset_window(&self) -> Result<(), FollowError> {
        let above = self.window_above_archive()?;
        *self.window() = above;
        self.note_moved();
        Ok(())
    }

    /// A window in which nothing is known above the archive.
    pub fn window_above_archive(&self) -> Result<Window, FollowError> {
        let head = self.archive.health().head;
        Window::above(head, &self.settings, self.is_replica)
    }
}

impl Window {
    fn above(
        head: Option<BlockRef>,
        settings: &FollowSettings,
        is_replica: bool,
    ) -> Result<Self, FollowError> {
        // On a replica the process that writes the archive decides what is final.
        let rule = if is_replica {
            Rule::Tag
        } else {
            settings.finality.rule()
        };
        let tracker = Tracker::new(rule, WindowSettings::default(), head);
        Ok(Self {
            tracker: tracker.map_err(|error| FollowError::Other(format!("finality: {error}")))?,
            tail: Tail::new(settings.tail_bytes, head),
            held: Held::default(),
        })
    }
}

/// What is wanted of each block.
pub fn want_of(settings: &FollowSettings) -> Want {
    Want {
        datasets: settings.datasets,
        scope: settings.scope.clone(),
        proof: Proof::demanded(settings.level),
    }
}

/// The chain's source, once it is known to serve this chain.
pub async fn open_source(settings: &FollowSettings) -> Result<Arc<dyn Source>> {
    if let Some(stellar) = &settings.stellar {
        return stellar::open(&settings.name, stellar).await;
    }
    let source = evm_source(settings)?;
    let identity = source.identity().await;
    identity.context("the source cannot be used")?;
    Ok(source)
}

/// The source of an EVM chain. No request is sent yet.
fn evm_source(settings: &FollowSettings) -> Result<Arc<dyn Source>> {
    let portal = settings.portal.clone().map(PortalSource::new).transpose()?;
    if settings.endpoints.is_empty()
        && let Some(portal) = portal
    {
        return Ok(Arc::new(portal));
    }
    let endpoints = EvmSource::new(EvmSettings {
        chain_id: settings.chain_id,
        endpoints: settings.endpoints.clone(),
        heads: settings.heads.clone(),
        tags: settings.finality.tags(),
        strategy: settings.strategy,
        checks: settings.checks,
        ranges: settings.backfill,
    })?;
    Ok(match portal {
        // Whether the portal is on the same chain is checked when it is first needed.
        Some(portal) => Arc::new(JointSource::new(portal, endpoints)),
        None => Arc::new(endpoints),
    })
}

/// What a chain's archive keeps.
pub fn archive_settings(settings: &FollowSettings) -> ArchiveSettings {
    let chain = ChainId(settings.chain_id);
    let mut archive = match settings.stellar {
        None => ArchiveSettings::evm(chain),
        Some(_) => ArchiveSettings::stellar(chain),
    };
    archive.datasets = settings.datasets;
    archive.scope = settings.scope.clone();
    archive.start_block = Some(settings.start_block);
    archive.cache = settings.cache.clone();
    archive.limits = settings.queries.clone();
    settings.ranges.cut(&mut archive.seal);
    archive
}

async fn open_writer(
    settings: &FollowSettings,
    place: &ArchiveLocation,
) -> Result<(Archive, Option<File>)> {
    place.refuse_lost().await?;
    let writable = place.writer().await?;
    let mut archive = archive_settings(settings);
    if let Some(instance) = writable.instance {
        archive.instance = instance;
    }
    let Place { meta, blobs } = writable.place;
    let archive = Archive::open_writer(meta, blobs, archive, writable.take_over).await;
    let archive = archive.with_context(|| format!("cannot open the archive in {place}"))?;
    Ok((archive, writable.lock))
}

/// Opens a chain's archive for reading.
pub async fn open_reader(settings: &FollowSettings, place: &ArchiveLocation) -> Result<Archive> {
    let exists = match place.directory() {
        Some(dir) => dir.exists(),
        None => place.has_archive().await?,
    };
    ensure!(
        exists,
        "there is no archive of {} yet in {place}: start `chronolith run` first",
        settings.name,
    );
    let Place { meta, blobs } = place.reader();
    let archive = Archive::open_reader(meta, blobs, archive_settings(settings)).await;
    archive.with_context(|| format!("cannot open the archive in {place}"))
}

/// Opens a chain's archive for an operation of an operator, with the lock to hold meanwhile. Fails where
/// another process still writes it.
pub async fn open_for_operator(
    settings: &FollowSettings,
    place: &ArchiveLocation,
) -> Result<(Archive, Option<File>)> {
    if let Some(dir) = place.directory() {
        ensure!(dir.exists(), "there is no archive in {place}");
    } else {
        ensure!(place.has_archive().await?, "there is no archive in {place}");
        eprintln!("checking whether another process writes {place}");
    }
    place.refuse_lost().await?;
    let patience = archive_settings(settings).lease_ttl * 2;
    let opened = tokio::time::timeout(patience, open_writer(settings, place)).await;
    let opened = opened.unwrap_or_else(|_| Err(anyhow!("another process writes {place}")));
    opened.context("stop the node that follows this chain first")
}
