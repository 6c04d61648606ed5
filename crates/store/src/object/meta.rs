//! [`ObjectMeta`]: the record as numbered objects that are only ever created.
//!
//! `state/00000000000000000007` is version 7; the newest is the highest number of a LIST. A swap
//! of version `v` creates `v + 1`, which the store refuses if it exists. No clock, no ETag.
//!
//! **Old numbers are removed, and still a stale writer cannot win.** A writer that sleeps at
//! version `v` until `v + 1` is removed can create `v + 1` again, and the store says yes. So a
//! create alone proves nothing: the writer then lists. A number `n` is removed only after
//! `n + KEEP_VERSIONS` existed, and the highest number is never removed. So
//!
//! - the highest is below `n + KEEP_VERSIONS`: nobody ever removed `n`, the create was the first of
//!   its number, and the swap holds, even if others have swapped since;
//! - otherwise nobody can tell whether `n` was new: the answer is `Unavailable`, "load and look".
//!   A record that names its writer, as the archive's does, then shows who owns it.
//!
//! Removal happens beside the swaps: a store that deletes slowly holds up nobody, and while one
//! removal runs no other begins.
//!
//! The stale object itself lies below the head, where no reader looks, and goes with the next
//! removal. A handle also refuses at once to swap versions below the highest it has ever seen.
//!
//! **What the store answers to a create** may be wrong both ways: a refusal although nothing is
//! there (409 while another create is under way) and a refusal because our own first try landed and
//! its answer got lost. So a refusal is always followed by a read of the object, and objects begin
//! with a nonce that no other swap has.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use tokio::task::JoinHandle;

use super::probe::probe_create_only;
use super::stored::Stored;
use super::{failed, key};
use crate::nonce::Nonces;
use crate::{Error, MetaStore, Result, Version, Versioned};

/// How many of the newest versions are kept. A writer may sleep through this many swaps between
/// its create and its list and still know that it won.
pub const KEEP_VERSIONS: u64 = 64;

/// Old versions are removed once in so many swaps.
const REMOVE_EVERY: u64 = 16;

const REMOVALS_AT_ONCE: usize = 8;

/// A removal that takes longer is given up: a later one tries again.
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
    /// Where the numbers are.
    directory: Path,
    nonces: Nonces,
    /// The highest version this handle knows of. Zero: none.
    seen: AtomicU64,
    /// The removal of old versions that was begun last.
    removal: Mutex<Option<JoinHandle<()>>>,
    watch_interval: Duration,
    writable: bool,
}

impl ObjectMeta {
    /// The record below `prefix`, for a writer. Lets racers try the store first: one that does not
    /// refuse a second create cannot tell two writers apart, and is refused.
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
            directory: prefix.clone().join("state"),
            nonces: Nonces::new(),
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

    fn key(&self, number: u64) -> Result<Path> {
        key(&self.directory, &format!("{number:020}"))
    }

    /// The highest number there is. Zero: none.
    async fn newest(&self) -> Result<u64> {
        // Nothing below what was seen can be the newest, and what was seen is still there or
        // something higher is.
        let seen = self.seen.load(Ordering::Acquire);
        let from = self.key(seen.saturating_sub(1))?;
        let mut keys = self.store.list_with_offset(Some(&self.directory), &from);
        let mut newest = 0;
        while let Some(meta) = keys
            .try_next()
            .await
            .map_err(|e| failed("list", "state", e))?
        {
            let number = meta.location.filename().and_then(|name| name.parse().ok());
            newest = newest.max(number.ok_or_else(|| Error::Corrupt {
                reason: format!("not a version of the record (key={})", meta.location),
            })?);
        }
        self.seen.fetch_max(newest, Ordering::AcqRel);
        if newest < seen {
            return Err(Error::Corrupt {
                reason: format!("versions of the record are gone (seen={seen}, newest={newest})"),
            });
        }
        Ok(newest)
    }

    /// The object of a version, or none.
    async fn read(&self, number: u64) -> Result<Option<Stored>> {
        let fail = |error| failed("load record", "state", error);
        let found = match self.store.get(&self.key(number)?).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(fail)?,
        };
        Stored::decode(number, found.bytes().await.map_err(fail)?).map(Some)
    }

    /// Creates a version, or finds that this very create has happened before. Whether the number
    /// was new is another question.
    async fn create(&self, number: u64, stored: &Stored) -> Result<()> {
        let options = PutOptions::from(PutMode::Create);
        let body = stored.encode(number).into();
        match self.store.put_opts(&self.key(number)?, body, options).await {
            Ok(_) => return Ok(()),
            Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(Error::unavailable("swap record", error)),
        }
        match self.read(number).await? {
            Some(found) if found.nonce == stored.nonce => Ok(()),
            Some(_) => Err(Error::stale(number.checked_sub(1).map(Version))),
            None => Err(Error::Unavailable {
                context: format!("swap record: refused, but nothing is there (version={number})"),
                source: None,
            }),
        }
    }

    /// Refuses what cannot be the newest version, before anything is created.
    async fn check_expected(&self, expected: u64) -> Result<()> {
        let seen = match self.seen.load(Ordering::Acquire) {
            seen if expected == 0 || expected > seen => self.newest().await?,
            seen => seen,
        };
        if expected == seen {
            return Ok(());
        }
        Err(Error::stale((expected > 0).then_some(Version(expected))))
    }

    /// After a create: whether its number was new. See the top of this file.
    async fn check_won(&self, number: u64) -> Result<()> {
        let newest = self.newest().await?;
        if newest < number.saturating_add(KEEP_VERSIONS) {
            return Ok(());
        }
        Err(Error::Unavailable {
            context: format!(
                "swap record: too many versions since to tell who won (version={number}, newest={newest})"
            ),
            source: None,
        })
    }

    /// Begins to remove versions that are not needed, unless that is still under way. Best effort: a
    /// later swap tries again.
    #[expect(
        clippy::disallowed_methods,
        reason = "a swap must not wait for deletes, and whoever swaps drives nothing afterwards"
    )]
    fn remove_old(&self, newest: u64) {
        let mut removal = self.removal.lock().unwrap_or_else(PoisonError::into_inner);
        if removal
            .as_ref()
            .is_some_and(|removal| !removal.is_finished())
        {
            return;
        }
        let keep_from = newest.saturating_sub(KEEP_VERSIONS - 1);
        let (store, directory) = (self.store.clone(), self.directory.clone());
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
        let number = meta
            .location
            .filename()
            .and_then(|name| name.parse::<u64>().ok());
        match number {
            Some(number) if number < keep_from => store.delete(&meta.location).await,
            _ => Ok(()),
        }
    })
    .await
}

#[async_trait]
impl MetaStore for ObjectMeta {
    async fn load(&self) -> Result<Option<Versioned>> {
        for _ in 0..LOAD_TRIES {
            let newest = self.newest().await?;
            if newest == 0 {
                return Ok(None);
            }
            if let Some(stored) = self.read(newest).await? {
                return Ok(Some(Versioned {
                    version: Version(newest),
                    bytes: stored.bytes,
                }));
            }
        }
        Err(Error::Unavailable {
            context: "load record: each version was removed before it could be read".to_owned(),
            source: None,
        })
    }

    async fn swap(&self, expected: Option<Version>, bytes: Bytes) -> Result<Version> {
        if !self.writable {
            return Err(Error::Conflict {
                reason: "the record was opened for reading".to_owned(),
            });
        }
        let expected = match expected {
            None => 0,
            // There is no such version.
            Some(Version(0)) => return Err(Error::stale(expected)),
            Some(version) => version.0,
        };
        self.check_expected(expected).await?;
        let number = expected + 1;
        let nonce = self.nonces.next();
        self.create(number, &Stored { nonce, bytes }).await?;
        self.check_won(number).await?;
        if number.is_multiple_of(REMOVE_EVERY) {
            self.remove_old(number);
        }
        Ok(Version(number))
    }

    async fn watch(&self, seen: Option<Version>) -> Result<Versioned> {
        let mut interval = tokio::time::interval(self.watch_interval);
        loop {
            interval.tick().await;
            // A list and not a look at `seen + 1`: that one may be removed by now, or a stale
            // writer's.
            if self.newest().await? == seen.map_or(0, |version| version.0) {
                continue;
            }
            match self.load().await? {
                Some(record) if Some(record.version) != seen => return Ok(record),
                _ => {}
            }
        }
    }

    fn is_exclusive(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
