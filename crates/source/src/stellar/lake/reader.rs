//! Objects of a lake: found, fetched, opened, and named where something is wrong with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chronolith_model::BlockRef;
use chronolith_stellar::Network;
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::Instant;

use super::directory::Directory;
use super::http::Http;
use super::keys::{Batch, EXTENSIONS, FIRST_LEDGER, Layout};
use super::manifest;
use super::objects::{Failure, Newest, OBJECT_BYTES_MAX, Objects};
use super::open::{Opened, Wrong, open};
use super::search::Search;
use super::source::{LakePlace, LakeSettings};
use crate::error::{Error, Result};
use crate::health::Health;

/// The name of a lake in logs and errors: a URL may carry a key.
const NAME: &str = "lake";
/// What a ledger takes, before any is known.
const LEDGER_BYTES_FIRST: u64 = 1 << 20;

/// How many objects before the newest are tried where that one is wrong.
const BACK_MAX: usize = 16;

/// How often objects after the end of a lake that lists nothing are searched for.
const LOOK_AHEAD_EVERY: Duration = Duration::from_secs(60);

/// Reads objects of a lake.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) health: Health,
    pub(crate) network: Arc<Network>,
    pub(crate) layout: Layout,
    store: Arc<dyn Objects>,
    first_ledger: u32,
    /// Whether the last object was under the older spelling.
    older: AtomicBool,
    /// Whether rewritten events were reported.
    rewritten: AtomicBool,
    /// The newest object that was seen.
    newest: Mutex<Option<Batch>>,
    /// When objects after a gap were last searched for.
    looked_ahead: Mutex<Option<Instant>>,
    /// Fetches that meet in an object read it once.
    opened: Cache<Batch, Arc<Opened>, Weight>,
    /// What recent ledgers took.
    ledger_bytes: AtomicU64,
    /// The newest ledger of the archive.
    pub(crate) archived: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Weight;

impl Weighter<Batch, Arc<Opened>> for Weight {
    fn weight(&self, _batch: &Batch, opened: &Arc<Opened>) -> u64 {
        opened.bytes.max(1)
    }
}

/// Why an object was not opened.
pub(crate) enum Unopened {
    Absent,
    Failed(Error),
}

impl Reader {
    pub(crate) async fn open(settings: LakeSettings) -> Result<Self> {
        let store = store(&settings.place)?;
        let health = Health::new(NAME, settings.network.chain_id());
        let key = manifest::KEY;
        let found = store.get(key, manifest::BYTES_MAX).await;
        let manifest =
            found.map_err(|failure| health.unavailable(format!("object {key}: {failure}")))?;
        let layout = manifest::layout(manifest.as_deref(), settings.layout, &settings.network)?;
        let cached = settings.hold_bytes / 4;
        Ok(Self {
            health,
            store,
            network: Arc::new(settings.network),
            layout,
            first_ledger: settings.first_ledger.max(FIRST_LEDGER),
            older: AtomicBool::new(false),
            rewritten: AtomicBool::new(false),
            newest: Mutex::default(),
            looked_ahead: Mutex::default(),
            opened: Cache::with_weighter(settings.at_once * 4, cached, Weight),
            ledger_bytes: AtomicU64::new(LEDGER_BYTES_FIRST),
            archived: AtomicU64::default(),
        })
    }

    /// What recent ledgers took.
    pub(crate) fn ledger_bytes(&self) -> u64 {
        self.ledger_bytes.load(Ordering::Relaxed).max(1)
    }

    /// The newest ledger of the lake.
    pub(crate) async fn head(&self) -> Result<BlockRef> {
        let began = Instant::now();
        let newest = self.find_newest().await;
        self.health.note("list", began.elapsed(), &newest);
        let newest = newest?;
        match self.last_of(newest).await {
            Err(error @ Error::Inconsistent { .. }) => self.head_before(newest, error).await,
            last => last,
        }
    }

    /// The newest ledger before an object that is wrong: it holds up nothing that comes before it. Where all
    /// of that is archived, the first object that is wrong is all there is to report.
    async fn head_before(&self, wrong: Batch, error: Error) -> Result<BlockRef> {
        let (mut batch, mut error) = (wrong, error);
        for _ in 0..BACK_MAX {
            let Some(before) = batch.start.checked_sub(1) else {
                break;
            };
            batch = self.layout.batch_of(before);
            match self.last_of(batch).await {
                Ok(last) if last.number > self.archived.load(Ordering::Relaxed) => return Ok(last),
                Ok(_) => break,
                Err(earlier) => error = earlier,
            }
        }
        Err(error)
    }

    /// The last ledger of an object.
    async fn last_of(&self, batch: Batch) -> Result<BlockRef> {
        let opened = self
            .opened(batch)
            .await
            .map_err(|unopened| match unopened {
                Unopened::Failed(error) => error,
                Unopened::Absent => {
                    let key = self.key(batch);
                    self.health.unavailable(format!("object {key} is gone"))
                }
            })?;
        let last = opened.blocks.last().map(|block| block.clock.block_ref());
        last.ok_or_else(|| self.health.missing(u64::from(batch.end)))
    }

    async fn find_newest(&self) -> Result<Batch> {
        let listed = self.store.newest(self.layout).await;
        let listed = listed.map_err(|failure| self.health.unavailable(failure.to_string()))?;
        let newest = match listed {
            Newest::Key(key) => {
                self.note_spelling(&key);
                self.layout.parse(&key)
            }
            Newest::Nothing => None,
            Newest::Unlisted => Some(self.search().await?),
        };
        let newest = newest.ok_or_else(|| {
            let reason = format!("there is no object in it ({})", self.layout);
            self.health.unavailable(reason)
        })?;
        *self.newest.lock() = Some(newest);
        Ok(newest)
    }

    /// Looks for the newest object, from the last that was found.
    async fn search(&self) -> Result<Batch> {
        let known = *self.newest.lock();
        let first = known.unwrap_or_else(|| self.layout.batch_of(self.first_ledger));
        if known.is_none() && !self.has(first).await? {
            let (key, ledger) = (self.key(first), self.first_ledger);
            return Err(self.health.unavailable(format!(
                "there is no object {key}: a web server lists nothing, so the newest is looked for from \
                 startBlock on, and the lake must have that ledger (startBlock={ledger})"
            )));
        }
        let last = self.search_from(first).await?;
        match self.after_gap(&last).await? {
            // A request for what is missing fails.
            Some(there) => Ok(self.search_from(there).await?.last()),
            None => Ok(last.last()),
        }
    }

    async fn search_from(&self, first: Batch) -> Result<Search> {
        let mut search = Search::from(self.layout, first);
        while let Some(due) = search.due() {
            let is_there = self.has(due).await?;
            search.note(due, is_there);
        }
        Ok(search)
    }

    /// An object after a gap at the end of what was found, if there is one. That takes requests, and
    /// hardly any lake has a gap: it is looked for at first, and then seldom.
    async fn after_gap(&self, last: &Search) -> Result<Option<Batch>> {
        if !self.is_look_ahead_due() {
            return Ok(None);
        }
        for batch in last.after_gap() {
            if self.has(batch).await? {
                let (missing, there) = (self.layout.next(last.last()), self.key(batch));
                let missing = missing.map(|batch| self.key(batch)).unwrap_or_default();
                tracing::warn!(endpoint = NAME, missing, there, "the lake has a gap");
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// The spellings of an object's key, the likelier first.
    fn keys(&self, batch: Batch) -> [String; 2] {
        let stem = self.layout.stem(batch.start);
        let mut keys = EXTENSIONS.map(|extension| format!("{stem}{extension}"));
        if self.older.load(Ordering::Relaxed) {
            keys.reverse();
        }
        keys
    }

    /// Notes how the keys that are there end.
    fn note_spelling(&self, key: &str) {
        let [newer, _] = EXTENSIONS;
        self.older.store(!key.ends_with(newer), Ordering::Relaxed);
    }

    pub(crate) fn key(&self, batch: Batch) -> String {
        let [key, _] = self.keys(batch);
        key
    }

    async fn has(&self, batch: Batch) -> Result<bool> {
        for key in self.keys(batch) {
            let has = self.store.has(&key).await;
            if has.map_err(|failure| self.failed(batch, &key, &failure))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An object with everything in it proven.
    pub(crate) async fn opened(&self, batch: Batch) -> Result<Arc<Opened>, Unopened> {
        let opened = self.opened.get_or_insert_async(&batch, self.load(batch));
        opened.await
    }

    /// The object of a ledger with everything in it proven.
    pub(crate) async fn opened_of(&self, ledger: u32) -> Result<Arc<Opened>, Unopened> {
        self.opened(self.layout.batch_of(ledger)).await
    }

    async fn load(&self, batch: Batch) -> Result<Arc<Opened>, Unopened> {
        let began = Instant::now();
        let loaded = match self.get(batch).await {
            Ok(Some((key, packed))) => self.prove(batch, &key, packed).await,
            Ok(None) => return Err(Unopened::Absent),
            Err(error) => Err(error),
        };
        self.health.note("get", began.elapsed(), &loaded);
        loaded.map(Arc::new).map_err(Unopened::Failed)
    }

    async fn get(&self, batch: Batch) -> Result<Option<(String, Bytes)>> {
        for key in self.keys(batch) {
            let found = self.store.get(&key, OBJECT_BYTES_MAX).await;
            let found = found.map_err(|failure| self.failed(batch, &key, &failure))?;
            if let Some(packed) = found {
                self.note_spelling(&key);
                self.health.received(packed.len());
                return Ok(Some((key, packed)));
            }
        }
        Ok(None)
    }

    /// Unpacks and proves, on a thread that may compute for long.
    async fn prove(&self, batch: Batch, key: &str, packed: Bytes) -> Result<Opened> {
        let network = self.network.clone();
        let opened = tokio::task::spawn_blocking(move || open(&packed, batch, &network)).await;
        let opened = opened.map_err(|error| {
            let reason = format!("object {key}: it was not opened: {error}");
            self.health.unavailable(reason)
        })?;
        match opened {
            Ok(opened) => {
                let calls = opened.rewritten;
                if calls > 0 && !self.rewritten.swap(true, Ordering::Relaxed) {
                    tracing::info!(
                        endpoint = %self.health.name,
                        object = key,
                        calls,
                        "contract events of an old protocol were rewritten after they were hashed: they \
                         are kept as not proven; later objects like this are not reported"
                    );
                }
                let each = opened.bytes / (opened.blocks.len().max(1) as u64);
                // A few large ones must count at once, small ones in time.
                let before = self.ledger_bytes.load(Ordering::Relaxed);
                let now = each.max((before * 3 + each) / 4).max(1);
                self.ledger_bytes.store(now, Ordering::Relaxed);
                Ok(opened)
            }
            Err(Wrong::Network(what)) => Err(Error::Invalid(format!("lake: object {key}: {what}"))),
            Err(Wrong::Content { ledger, what }) => {
                let what = format!("object {key}: {what}");
                Err(self.health.inconsistent(u64::from(ledger), what))
            }
        }
    }

    fn failed(&self, batch: Batch, key: &str, failure: &Failure) -> Error {
        let what = format!("object {key}: {failure}");
        match failure {
            Failure::Unavailable(_) => self.health.unavailable(what),
            Failure::TooLong { .. } => {
                let first = u64::from(*batch.ledgers().start());
                self.health.inconsistent(first, what)
            }
        }
    }

    /// Why an object is missing: it is not there yet, or it is lost.
    pub(crate) async fn absent(&self, batch: Batch, number: u64) -> Error {
        let newest = match self.find_newest().await {
            Ok(newest) => newest,
            Err(error) => return error,
        };
        if newest <= batch {
            return self.health.missing(number);
        }
        let (key, last) = (self.key(batch), newest.end);
        let what = format!("object {key} is missing, and the lake continues to ledger {last}");
        self.health.inconsistent(number, what)
    }

    /// Reads the objects around a ledger again when they are requested: one of them is right in itself, and
    /// does not fit the others.
    pub(crate) fn forget(&self, number: u64) {
        let ledger = u32::try_from(number).unwrap_or(u32::MAX);
        let about = [ledger.saturating_sub(1), ledger, ledger.saturating_add(1)];
        for ledger in about {
            self.opened.remove(&self.layout.batch_of(ledger));
        }
    }

    fn is_look_ahead_due(&self) -> bool {
        let mut looked = self.looked_ahead.lock();
        let is_due = looked.is_none_or(|looked| looked.elapsed() >= LOOK_AHEAD_EVERY);
        if is_due {
            *looked = Some(Instant::now());
        }
        is_due
    }
}

fn store(place: &LakePlace) -> Result<Arc<dyn Objects>> {
    Ok(match place {
        LakePlace::Directory(dir) if !dir.is_dir() => {
            let what = format!("lake: there is no directory {}", dir.display());
            return Err(Error::Invalid(what));
        }
        LakePlace::Directory(dir) => Arc::new(Directory(dir.clone())),
        LakePlace::Http(url) => Arc::new(Http::new(url)?),
        #[cfg(feature = "s3")]
        LakePlace::S3 { url, options } => Arc::new(super::s3::S3::new(url, options)?),
        #[cfg(not(feature = "s3"))]
        LakePlace::S3 { .. } => {
            let what = "lake: this program was built without S3";
            return Err(Error::Invalid(what.to_owned()));
        }
    })
}
