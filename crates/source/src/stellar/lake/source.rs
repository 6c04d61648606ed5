//! A Stellar network behind a data lake.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chronolith_model::{BlockClock, BlockRange, BlockRef, Hash32, Verification};
use chronolith_stellar::Network;
use futures::stream::{self, StreamExt as _};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::watch;
use tokio::time::Instant;

use super::directory::Directory;
use super::http::Http;
use super::keys::{Batch, EXTENSIONS, FIRST_LEDGER, Layout};
use super::manifest;
use super::objects::{Failure, Newest, OBJECT_BYTES_MAX, Objects};
use super::open::{Opened, Wrong, open};
use super::tip::Search;
use crate::endpoint::EndpointReport;
use crate::error::{Error, Result};
use crate::evm::Subscription;
use crate::source::{Fetched, Heads, Identity, Opinion, Plan, Source, Want};
use crate::stellar::standing::Standing;

/// What a lake is called in logs and errors: a URL may carry a key.
pub(crate) const NAME: &str = "lake";

/// Objects of one fetch that are on their way together: one comes while another is proven.
const AHEAD: usize = 2;
/// Ledgers of one fetch.
const LEDGERS_MAX: u64 = 256;
/// What a ledger takes, before any is known.
const LEDGER_BYTES_FIRST: u64 = 1 << 20;

/// Where a lake is.
#[derive(Clone)]
pub enum LakePlace {
    /// A directory of this machine.
    Directory(PathBuf),
    /// A web server: `http` or `https`.
    Http(String),
    /// A bucket and a prefix, such as `s3://bucket/prefix`, with options of `object_store`.
    S3 {
        /// Where it is.
        url: String,
        /// How it is reached.
        options: Vec<(String, String)>,
    },
}

impl std::fmt::Debug for LakePlace {
    /// Without the URL, which may carry a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Directory(_) => "Directory",
            Self::Http(_) => "Http",
            Self::S3 { .. } => "S3",
        })
    }
}

/// A lake and how it may be used.
#[derive(Clone, Debug)]
pub struct LakeSettings {
    /// Where it is.
    pub place: LakePlace,
    /// How it is laid out, where it does not say itself.
    pub layout: Option<Layout>,
    /// The network it must be of.
    pub network: Network,
    /// A ledger that is in it: where nobody lists its objects, the newest is looked for from there.
    pub first_ledger: u32,
    /// Fetches that may run at the same time.
    pub at_once: usize,
    /// Bytes of ledgers that may be on their way together, about.
    pub hold_bytes: u64,
}

/// Reads a Stellar network from its data lake. Every ledger is proven by itself: header, transaction set,
/// result set, and which envelope has which result. What is archived of it is in the hashes of the chain,
/// but for the changes and events that a transaction left behind: those are covered by the checksum that
/// objects carry.
#[derive(Debug)]
pub struct LakeSource {
    standing: Standing,
    store: Arc<dyn Objects>,
    network: Arc<Network>,
    layout: Layout,
    first_ledger: u32,
    at_once: usize,
    hold_bytes: u64,
    /// Never changes.
    hints: watch::Sender<u64>,
    /// Whether the last object was under the older spelling.
    older: AtomicBool,
    /// The newest object that was seen.
    newest: Mutex<Option<Batch>>,
    /// Fetches that meet in an object read it once.
    opened: Cache<Batch, Arc<Opened>, Weight>,
    /// What a ledger took of late.
    ledger_bytes: AtomicU64,
    anchor: Mutex<Option<BlockRef>>,
}

#[derive(Clone, Copy, Debug)]
struct Weight;

impl Weighter<Batch, Arc<Opened>> for Weight {
    fn weight(&self, _batch: &Batch, opened: &Arc<Opened>) -> u64 {
        opened.bytes.max(1)
    }
}

/// Why an object was not opened.
enum Unopened {
    Absent,
    Failed(Error),
}

impl LakeSource {
    /// Opens a lake: its manifest is read, and must fit what is set.
    ///
    /// # Errors
    /// `Invalid` where it does not or is another network's, `Unavailable` where it cannot be reached.
    pub async fn open(settings: LakeSettings) -> Result<Self> {
        let store = store(&settings.place)?;
        let standing = Standing::new(NAME, settings.network.chain_id());
        let found = store.get(manifest::KEY, manifest::BYTES_MAX).await;
        let manifest = found.map_err(|failure| {
            standing.unavailable(format!("object {}: {failure}", manifest::KEY))
        })?;
        let layout = manifest::layout(manifest.as_deref(), settings.layout, &settings.network)?;
        let cached = settings.hold_bytes / 4;
        Ok(Self {
            standing,
            store,
            network: Arc::new(settings.network),
            layout,
            first_ledger: settings.first_ledger.max(FIRST_LEDGER),
            at_once: settings.at_once.max(1),
            hold_bytes: settings.hold_bytes,
            hints: watch::Sender::new(0),
            older: AtomicBool::new(false),
            newest: Mutex::default(),
            opened: Cache::with_weighter(settings.at_once * 4, cached, Weight),
            ledger_bytes: AtomicU64::new(LEDGER_BYTES_FIRST),
            anchor: Mutex::default(),
        })
    }

    /// How it is laid out.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The newest ledger of the lake.
    pub(crate) async fn head(&self) -> Result<BlockRef> {
        let began = Instant::now();
        let newest = self.find_newest().await;
        self.standing.note("list", began.elapsed(), &newest);
        let newest = newest?;
        let opened = match self.opened(newest).await {
            Ok(opened) => opened,
            Err(Unopened::Failed(error)) => return Err(error),
            Err(Unopened::Absent) => {
                let key = self.key(newest);
                return Err(self.standing.unavailable(format!("object {key} is gone")));
            }
        };
        let last = opened.blocks.last().map(|block| block.clock.block_ref());
        last.ok_or_else(|| self.standing.missing(u64::from(newest.end)))
    }

    async fn find_newest(&self) -> Result<Batch> {
        let listed = self.store.newest(self.layout).await;
        let listed = listed.map_err(|failure| self.standing.unavailable(failure.to_string()))?;
        let newest = match listed {
            Newest::Key(key) => self.layout.parse(&key),
            Newest::Nothing => None,
            Newest::Unlisted => Some(self.search().await?),
        };
        let empty = || {
            let layout = self.layout;
            self.standing
                .unavailable(format!("there is no object in it ({layout})"))
        };
        let newest = newest.ok_or_else(empty)?;
        *self.newest() = Some(newest);
        Ok(newest)
    }

    /// Looks for the newest object, from the last that was found.
    async fn search(&self) -> Result<Batch> {
        let known = *self.newest();
        let first = known.unwrap_or_else(|| self.layout.batch_of(self.first_ledger));
        if known.is_none() && !self.has(first).await? {
            let key = self.key(first);
            return Err(self
                .standing
                .unavailable(format!("there is no object {key} yet")));
        }
        let mut search = Search::from(self.layout, first);
        while let Some(due) = search.due() {
            let is_there = self.has(due).await?;
            search.note(due, is_there);
        }
        Ok(search.last())
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

    fn key(&self, batch: Batch) -> String {
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
    async fn opened(&self, batch: Batch) -> Result<Arc<Opened>, Unopened> {
        let opened = self.opened.get_or_insert_async(&batch, self.load(batch));
        opened.await
    }

    async fn load(&self, batch: Batch) -> Result<Arc<Opened>, Unopened> {
        let began = Instant::now();
        let loaded = match self.get(batch).await {
            Ok(Some((key, packed))) => self.prove(batch, &key, packed).await,
            Ok(None) => return Err(Unopened::Absent),
            Err(error) => Err(error),
        };
        self.standing.note("get", began.elapsed(), &loaded);
        loaded.map(Arc::new).map_err(Unopened::Failed)
    }

    async fn get(&self, batch: Batch) -> Result<Option<(String, Bytes)>> {
        for key in self.keys(batch) {
            let found = self.store.get(&key, OBJECT_BYTES_MAX).await;
            let found = found.map_err(|failure| self.failed(batch, &key, &failure))?;
            if let Some(packed) = found {
                let [newer, _] = EXTENSIONS;
                self.older.store(!key.ends_with(newer), Ordering::Relaxed);
                self.standing.received(packed.len() as u64);
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
            self.standing.unavailable(reason)
        })?;
        match opened {
            Ok(opened) => {
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
                Err(self.standing.lied(u64::from(ledger), what))
            }
        }
    }

    fn failed(&self, batch: Batch, key: &str, failure: &Failure) -> Error {
        let what = format!("object {key}: {failure}");
        match failure {
            Failure::Unavailable(_) => self.standing.unavailable(what),
            Failure::TooLong { .. } => {
                let first = u64::from(*batch.ledgers().start());
                self.standing.lied(first, what)
            }
        }
    }

    /// Why there is no such object: it is not there yet, or it is lost.
    async fn absent(&self, batch: Batch, number: u64) -> Error {
        let newest = match self.find_newest().await {
            Ok(newest) => newest,
            Err(error) => return error,
        };
        if newest <= batch {
            return self.standing.missing(number);
        }
        let (key, last) = (self.key(batch), newest.end);
        let what = format!("object {key} is missing, and the lake goes on to ledger {last}");
        self.standing.lied(number, what)
    }

    /// Whether the lake is on the chain of a block, as far as it reaches.
    async fn has_anchor(&self, anchor: BlockRef) -> Result<()> {
        if *self.anchor() == Some(anchor) {
            return Ok(());
        }
        let there = self.clock(anchor.number).await?;
        if there.is_some_and(|clock| clock.hash != anchor.hash) {
            let what = format!("it has another ledger {}", anchor.number);
            return Err(self.standing.unavailable(what));
        }
        *self.anchor() = Some(anchor);
        Ok(())
    }

    /// The ledgers of a range that come first: of as many objects as are worth holding.
    async fn some(&self, range: BlockRange) -> Result<Vec<Fetched>> {
        let Some((first, last)) = ledgers_of(range) else {
            return Err(self.standing.missing(range.start));
        };
        let batches = std::iter::successors(Some(self.layout.batch_of(first)), |before| {
            let next = self.layout.next(*before)?;
            (next.start <= last).then_some(next)
        });
        let ahead = stream::iter(batches).map(|batch| async move {
            let opened = self.opened(batch).await;
            (batch, opened)
        });
        let mut ahead = std::pin::pin!(ahead.buffered(AHEAD));
        let mut fetched: Vec<Fetched> = Vec::new();
        let room = (self.hold_bytes / 2 / self.at_once as u64).max(1);
        let mut held = 0;
        while let Some((batch, opened)) = ahead.next().await {
            let opened = match opened {
                Ok(opened) => opened,
                // What came before it is as good as ever.
                Err(_) if !fetched.is_empty() => break,
                Err(Unopened::Absent) => return Err(self.absent(batch, range.start).await),
                Err(Unopened::Failed(error)) => return Err(error),
            };
            self.take(&mut fetched, batch, &opened, range)?;
            held += opened.bytes;
            if held >= room {
                break;
            }
        }
        Ok(fetched)
    }

    /// Takes the ledgers of an object that are in a range.
    fn take(
        &self,
        fetched: &mut Vec<Fetched>,
        batch: Batch,
        opened: &Opened,
        range: BlockRange,
    ) -> Result<()> {
        let wanted = opened.blocks.iter();
        let wanted = wanted.filter(|block| range.contains(block.clock.number));
        for block in wanted {
            let before = fetched.last().map(|one: &Fetched| one.block.clock.hash);
            if before.is_some_and(|before| before != block.clock.parent_hash) {
                self.forget(block.clock.number);
                let key = self.key(batch);
                let what = format!("object {key}: it does not name the ledger before it");
                return Err(self.standing.lied(block.clock.number, what));
            }
            fetched.push(Fetched {
                block: block.clone(),
                level: Verification::Receipts,
                endpoint: self.standing.name.clone(),
            });
        }
        Ok(())
    }

    /// Reads the objects about a ledger anew when they are asked for: one of them is right in itself, and
    /// does not fit the others.
    fn forget(&self, number: u64) {
        let ledger = u32::try_from(number).unwrap_or(u32::MAX);
        let about = [ledger.saturating_sub(1), ledger, ledger.saturating_add(1)];
        for ledger in about {
            self.opened.remove(&self.layout.batch_of(ledger));
        }
    }

    fn newest(&self) -> MutexGuard<'_, Option<Batch>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn anchor(&self) -> MutexGuard<'_, Option<BlockRef>> {
        self.anchor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hash of ledger 1, where ledger 2 is there to name it.
    async fn genesis(&self) -> Result<Option<Hash32>> {
        match self.opened(self.layout.batch_of(FIRST_LEDGER)).await {
            Ok(opened) => {
                let first = opened.blocks.first();
                Ok(first.map(|block| block.clock.parent_hash))
            }
            // A damaged object is told of when it is wanted.
            Err(Unopened::Absent | Unopened::Failed(Error::Lied { .. })) => Ok(None),
            Err(Unopened::Failed(error)) => Err(error),
        }
    }
}

/// The ledgers of a range, the last included; none where it has none.
fn ledgers_of(range: BlockRange) -> Option<(u32, u32)> {
    let first = u32::try_from(range.start).ok()?;
    let last = range.end.checked_sub(1)?.min(u64::from(u32::MAX)) as u32;
    (first >= FIRST_LEDGER && first <= last).then_some((first, last))
}

fn store(place: &LakePlace) -> Result<Arc<dyn Objects>> {
    Ok(match place {
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

#[async_trait]
impl Source for LakeSource {
    async fn identity(&self) -> Result<Identity> {
        Ok(Identity {
            chain_id: self.network.chain_id(),
            genesis: self.genesis().await?,
        })
    }

    /// A ledger is final when it has closed.
    async fn heads(&self) -> Result<Heads> {
        self.head().await.map(Heads::all_final)
    }

    async fn clock(&self, number: u64) -> Result<Option<BlockClock>> {
        let Some((ledger, _)) = ledgers_of(BlockRange::one(number)) else {
            return Ok(None);
        };
        match self.opened(self.layout.batch_of(ledger)).await {
            Ok(opened) => {
                let mut clocks = opened.blocks.iter().map(|block| block.clock);
                Ok(clocks.find(|clock| clock.number == number))
            }
            Err(Unopened::Absent) => Ok(None),
            Err(Unopened::Failed(error)) => Err(error),
        }
    }

    async fn opinions(&self, number: u64) -> Vec<Opinion> {
        let clock = self.clock(number).await.ok().flatten();
        let opinion = |clock: BlockClock| Opinion {
            endpoint: self.standing.name.clone(),
            block: clock.block_ref(),
        };
        clock.map(opinion).into_iter().collect()
    }

    /// A lake serves what it has.
    async fn syncing(&self, _endpoint: &str) -> Result<bool> {
        Ok(false)
    }

    async fn fetch_some(
        &self,
        range: BlockRange,
        _want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(anchor) = anchor {
            self.has_anchor(anchor).await?;
        }
        self.some(range).await
    }

    /// There is nothing to subscribe to: the newest object is looked for.
    async fn listen(&self) {
        std::future::pending().await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }

    fn subscription(&self) -> Subscription {
        Subscription::Off
    }

    fn blame(&self, endpoint: &str, block: BlockRef, what: &str) {
        if endpoint != &*self.standing.name {
            return;
        }
        self.forget(block.number);
        let ledger = u32::try_from(block.number).unwrap_or(u32::MAX);
        let key = self.key(self.layout.batch_of(ledger));
        self.standing
            .blame(&format!("object {key}: ledger {ledger}: {what}"));
    }

    fn endpoints(&self) -> Vec<EndpointReport> {
        vec![self.standing.report()]
    }

    /// As many ledgers as may be held, of whole objects.
    fn plan(&self, _want: &Want) -> Plan {
        let batch = u64::from(self.layout.ledgers_per_batch());
        let ledger_bytes = self.ledger_bytes.load(Ordering::Relaxed).max(1);
        let held = (self.hold_bytes / 2 / ledger_bytes).max(1);
        let at_once = (held / batch).clamp(1, self.at_once as u64);
        let each = (held / at_once).min(LEDGERS_MAX.max(batch));
        Plan {
            blocks: (each / batch).max(1) * batch,
            at_once: at_once as usize,
        }
    }
}
