//! [`ObjectMeta`]: the record as numbered objects that are only ever created.
//!
//! `state/of-<lineage>/00000000000000000007` is version 7; the newest is the highest number of a LIST.
//! A swap of version `v` creates `v + 1`, which the store refuses if it exists. No clock, no ETag.
//!
//! **A record that was lost and made again** is of another [lineage](Lineage). A handle keeps to the
//! lineage that it saw first. After each create it looks which lineage counts; where that is another
//! one, the swap did not happen, and what was created is where nothing looks.
//!
//! **Old numbers are removed, and still a stale writer cannot win.** A writer that sleeps at
//! version `v` until `v + 1` is removed can create `v + 1` again, and the store says yes. So a
//! create alone proves nothing: the writer then lists. A number `n` is removed only after
//! `n + KEEP_VERSIONS` existed, and the highest number is never removed. So
//!
//! - the highest is below `n + KEEP_VERSIONS`: no writer ever removed `n`, the create was the first of
//!   its number, and the swap holds, even if others have swapped since;
//! - otherwise it is unknown whether `n` was new: the answer is `Unavailable`, "load and look".
//!   A record that names its writer, as the archive's does, then shows who owns it.
//!
//! Removal happens beside the swaps: a store that deletes slowly holds up no swap, and while one
//! removal runs no other begins.
//!
//! The stale object itself is below the head, where no reader looks, and goes with the next
//! removal. A handle also refuses at once to swap versions below the highest it has ever seen.
//!
//! **What the store answers to a create** may be wrong both ways: a refusal although nothing is
//! there (409 while another create is under way) and a refusal because our own first try landed and
//! its answer got lost. So a refusal is always followed by a read of the object, and objects begin
//! with a nonce that no other swap has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::lineage::{Key, Lineage, key_of};
use super::probe::probe_create_only;
use super::stored::Stored;
use super::{failed, key};
use crate::nonce::Nonces;
use crate::port::watch_by;
use crate::{Error, MetaStore, Result, Version, Versioned};

/// How many of the newest versions are kept. A writer may sleep through this many swaps between
/// its create and its list and still know that it won.
pub const KEEP_VERSIONS: u64 = 64;

/// Old versions are removed once in this many swaps.
const REMOVE_EVERY: u64 = 16;

const REMOVALS_AT_ONCE: usize = 8;

/// A removal that takes longer is abandoned: a later one tries again.
const REMOVAL_MAX: Duration = Duration::from_secs(60);

/// Reads of a listed record that are gone before it is read: each means 64 swaps since the list.
const LOAD_TRIES: usize = 5;

/// Racers that try a store before it is written to.
const PROBE_RACERS: usize = 8;
/// How often a watcher looks.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);

/// The record as numbered objects below a prefix of an object store. The store must have passed
/// [`probe_create_only`](crate::probe_create_only).
#[derive(Debug)]
pub struct ObjectMeta {
    store: Arc<dyn ObjectStore>,
    /// Where the record is, of whichever lineage.
    state: Path,
    nonces: Nonces,
    /// The lineage of the first version this handle saw: it keeps to it.
    lineage: OnceLock<Lineage>,
    /// The highest version this handle knows of. Zero: none.
    seen: AtomicU64,
    /// The removal of old versions that was begun last.
    removal: Mutex<Option<JoinHandle<()>>>,
    watch_interval: Duration,
    writable: bool,
}

/// The newest version.
#[derive(Clone, Copy, Debug)]
struct Newest {
    lineage: Lineage,
    number: u64,
}

fn gone(seen: u64, newest: u64) -> Error {
    Error::corrupt(format!(
        "versions of the record are gone (seen={seen}, newest={newest})"
    ))
}

impl ObjectMeta {
    /// The record below `prefix`, for a writer. Lets racers try the store first: one that does not
    /// refuse a second create cannot distinguish two writers, and is refused.
    pub async fn open_writer(store: Arc<dyn ObjectStore>, prefix: &Path) -> Result<Self> {
        probe_create_only(&store, prefix, PROBE_RACERS).await?;
        Ok(Self::assume_create_only(store, prefix))
    }

    /// The record below `prefix`, for a reader: it refuses to swap.
    pub fn open_reader(store: Arc<dyn ObjectStore>, prefix: &Path) -> Self {
        let writable = false;
        Self {
            writable,
            ..Self::assume_create_only(store, prefix)
        }
    }

    /// The record below `prefix` of a store that has passed
    /// [`probe_create_only`](crate::probe_create_only) before.
    pub fn assume_create_only(store: Arc<dyn ObjectStore>, prefix: &Path) -> Self {
        Self {
            store,
            state: prefix.clone().join("state"),
            nonces: Nonces::new(),
            lineage: OnceLock::new(),
            seen: AtomicU64::new(0),
            removal: Mutex::default(),
            watch_interval: WATCH_INTERVAL,
            writable: true,
        }
    }

    /// Looks that often when watching. Each look is one request.
    #[must_use]
    pub fn with_watch_interval(self, watch_interval: Duration) -> Self {
        Self {
            watch_interval,
            ..self
        }
    }

    fn key(&self, lineage: Lineage, number: u64) -> Result<Path> {
        key(&lineage.directory(&self.state), &format!("{number:020}"))
    }

    /// The newest version there is, or none.
    async fn newest(&self) -> Result<Option<Newest>> {
        let seen = self.seen.load(Ordering::Acquire);
        let lineage = Lineage::load(&*self.store, &self.state);
        let known = self.lineage.get().copied();
        let (lineage, number) = match known {
            Some(known) => futures::try_join!(lineage, self.highest(known, seen))?,
            None => {
                let lineage = lineage.await?;
                (lineage, self.highest(lineage, seen).await?)
            }
        };
        // Another call of this handle may have made the record meanwhile: there was none all the same.
        if number == 0 && known.is_none() {
            return match lineage.is_made() {
                true => Err(gone(seen, number)),
                false => Ok(None),
            };
        }
        let known = *self.lineage.get_or_init(|| lineage);
        if lineage != known {
            return Err(Error::corrupt(format!(
                "the record was made again, by a rebuild or a restore: open it again \
                 (lineage={known}, found={lineage})"
            )));
        }
        self.seen.fetch_max(number, Ordering::AcqRel);
        match number < seen {
            true => Err(gone(seen, number)),
            false => Ok(Some(Newest { lineage, number })),
        }
    }

    /// The highest number of a lineage. Zero: none.
    async fn highest(&self, lineage: Lineage, seen: u64) -> Result<u64> {
        // Nothing below what was seen can be the newest, and what was seen is still there or
        // something higher is.
        let from = self.key(lineage, seen.saturating_sub(1))?;
        let directory = lineage.directory(&self.state);
        let mut keys = self.store.list_with_offset(Some(&directory), &from);
        let (mut highest, mut foreign, mut is_named) = (0, 0, false);
        let fail = |error| failed("list", "state", error);
        while let Some(meta) = keys.try_next().await.map_err(fail)? {
            match key_of(&directory, &meta.location) {
                Key::Version(number) => highest = highest.max(number),
                Key::Foreign(number) => foreign = foreign.max(number),
                Key::Lineage => is_named = true,
                Key::Unknown => {
                    let reason = format!("not a version of the record (key={})", meta.location);
                    return Err(Error::Corrupt { reason });
                }
            }
        }
        // A lone version 1 was made by a writer that died before it created the lineage.
        if highest == 0 && foreign > 1 && !is_named {
            return Err(Error::corrupt(
                "versions of the record are there and what names their lineage is gone: stop \
                 whatever writes here, and move all of `state` away",
            ));
        }
        Ok(highest)
    }

    /// The object of a version, or none.
    async fn read(&self, lineage: Lineage, number: u64) -> Result<Option<Stored>> {
        let fail = |error| failed("load record", "state", error);
        let found = match self.store.get(&self.key(lineage, number)?).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(fail)?,
        };
        Stored::decode(number, found.bytes().await.map_err(fail)?).map(Some)
    }

    /// Creates a version, or finds that this very create has happened before. Whether the number
    /// was new is another question.
    async fn create(&self, lineage: Lineage, number: u64, stored: &Stored) -> Result<()> {
        let options = PutOptions::from(PutMode::Create);
        let body = stored.encode(number).into();
        let key = self.key(lineage, number)?;
        match self.store.put_opts(&key, body, options).await {
            Ok(_) => return Ok(()),
            Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(Error::unavailable("swap record", error)),
        }
        match self.read(lineage, number).await? {
            Some(found) if found.nonce == stored.nonce => Ok(()),
            Some(_) => Err(Error::stale(number.checked_sub(1).map(Version))),
            None => Err(Error::without_cause(format!(
                "swap record: refused, but nothing is there (version={number})"
            ))),
        }
    }

    /// Creates version 1 in a new lineage, and then the lineage. A writer that slept through the loss of
    /// an older record can never create a version of this one.
    async fn begin(&self, bytes: Bytes) -> Result<Version> {
        if self.newest().await?.is_some() {
            return Err(Error::stale(None));
        }
        let lineage = Lineage::new(self.nonces.next());
        let nonce = self.nonces.next();
        self.create(lineage, 1, &Stored { nonce, bytes }).await?;
        let made = lineage.create(&*self.store, &self.state).await;
        if matches!(made, Err(Error::Conflict { .. })) {
            // Another lineage counts and always will: ours is not used. Best effort.
            if let Err(error) = self.store.delete(&self.key(lineage, 1)?).await {
                tracing::debug!(%error, "removal of a lost first version failed");
            }
        }
        made?;
        self.newest().await?;
        Ok(Version(1))
    }

    /// The lineage of a version that may be the newest; refuses others before anything is created.
    async fn check_expected(&self, expected: u64) -> Result<Lineage> {
        let seen = self.seen.load(Ordering::Acquire);
        let newest = match self.lineage.get() {
            Some(&lineage) if expected <= seen => Some(Newest {
                lineage,
                number: seen,
            }),
            _ => self.newest().await?,
        };
        match newest {
            Some(newest) if newest.number == expected => Ok(newest.lineage),
            _ => Err(Error::stale(Some(Version(expected)))),
        }
    }

    /// After a create: whether its number was new. See the top of this file.
    async fn check_won(&self, number: u64) -> Result<()> {
        let newest = self.newest().await?.map_or(0, |newest| newest.number);
        if newest < number.saturating_add(KEEP_VERSIONS) {
            return Ok(());
        }
        Err(Error::without_cause(format!(
            "swap record: too many versions since to know which swap won (version={number}, newest={newest})"
        )))
    }

    /// Begins to remove versions that are not needed, unless that is still under way. Best effort: a
    /// later swap tries again.
    #[expect(
        clippy::disallowed_methods,
        reason = "a swap must not wait for deletes, and its caller drives nothing afterwards"
    )]
    fn remove_old(&self, lineage: Lineage, newest: u64) {
        let mut removal = self.removal.lock();
        if removal.as_ref().is_some_and(|one| !one.is_finished()) {
            return;
        }
        let keep_from = newest.saturating_sub(KEEP_VERSIONS - 1);
        let (store, directory) = (self.store.clone(), lineage.directory(&self.state));
        *removal = Some(tokio::spawn(async move {
            let removed = remove_below(&*store, &directory, keep_from);
            match tokio::time::timeout(REMOVAL_MAX, removed).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "removal of old versions failed"),
                Err(_) => tracing::debug!("removal of old versions takes too long"),
            }
        }));
    }
}

/// Removes the versions below a number.
async fn remove_below(
    store: &dyn ObjectStore,
    directory: &Path,
    keep_from: u64,
) -> object_store::Result<()> {
    let keys = store.list(Some(directory));
    keys.try_for_each_concurrent(REMOVALS_AT_ONCE, async |meta| {
        match key_of(directory, &meta.location) {
            Key::Version(number) if number < keep_from => store.delete(&meta.location).await,
            _ => Ok(()),
        }
    })
    .await
}

#[async_trait]
impl MetaStore for ObjectMeta {
    async fn load(&self) -> Result<Option<Versioned>> {
        for _ in 0..LOAD_TRIES {
            let Some(Newest { lineage, number }) = self.newest().await? else {
                return Ok(None);
            };
            if let Some(stored) = self.read(lineage, number).await? {
                return Ok(Some(Versioned {
                    version: Version(number),
                    bytes: stored.bytes,
                }));
            }
        }
        Err(Error::without_cause(
            "load record: each version was removed before it could be read",
        ))
    }

    async fn swap(&self, expected: Option<Version>, bytes: Bytes) -> Result<Version> {
        if !self.writable {
            return Err(Error::conflict("the record was opened for reading"));
        }
        let expected = match expected {
            None => return self.begin(bytes).await,
            // There is no such version.
            Some(Version(0)) => return Err(Error::stale(expected)),
            Some(version) => version.0,
        };
        let lineage = self.check_expected(expected).await?;
        let number = expected + 1;
        let nonce = self.nonces.next();
        let stored = Stored { nonce, bytes };
        self.create(lineage, number, &stored).await?;
        self.check_won(number).await?;
        if number.is_multiple_of(REMOVE_EVERY) {
            self.remove_old(lineage, number);
        }
        Ok(Version(number))
    }

    async fn watch(&self, seen: Option<Version>) -> Result<Versioned> {
        // A list and not a look at `seen + 1`: that one may be removed by now, or a stale writer's.
        let version = || async {
            let newest = self.newest().await?;
            Ok(newest.map(|newest| Version(newest.number)))
        };
        watch_by(self, self.watch_interval, seen, version).await
    }

    fn is_exclusive(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
