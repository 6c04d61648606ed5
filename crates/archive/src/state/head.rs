//! What this process sees of an archive: the newest snapshot it knows, and how it learns of newer.

use std::sync::{Arc, Weak};

use chronolith_model::ChainId;
use chronolith_store::{BlobStore, MetaStore, Version, Versioned};
use parking_lot::{Mutex, RwLock};

use super::catalog::Catalog;
use super::lost::{load, load_state};
use super::record::{CatalogRef, State};
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::format::ensure;
use crate::meters::Meters;
use crate::read::cache::Cache;
use crate::read::objects::Objects;

/// How often a process that begins loads a newer state because what the one before named is gone.
const BEGIN_ROUNDS_MAX: usize = 16;

/// The stores and the newest known snapshot.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) meta: Arc<dyn MetaStore>,
    pub(crate) objects: Objects,
    current: RwLock<Option<Arc<Snapshot>>>,
    /// Snapshots that some reader of this process may still hold.
    handed_out: Mutex<Vec<Weak<Snapshot>>>,
}

impl View {
    pub(crate) fn new(
        meta: Arc<dyn MetaStore>,
        blobs: Arc<dyn BlobStore>,
        cache: Cache,
        chain: ChainId,
    ) -> Self {
        Self {
            meta,
            objects: Objects::new(blobs, cache, Meters::new(chain)),
            current: RwLock::new(None),
            handed_out: Mutex::default(),
        }
    }

    /// The newest snapshot known here; none while the archive does not exist.
    pub(crate) fn current(&self) -> Option<Arc<Snapshot>> {
        self.current.read().clone()
    }

    /// Makes a snapshot the current one, unless a newer one is.
    pub(crate) fn adopt(&self, snapshot: Arc<Snapshot>) {
        let mut current = self.current.write();
        let newer = current
            .as_ref()
            .is_none_or(|known| known.version <= snapshot.version);
        let mut handed_out = self.handed_out.lock();
        handed_out.retain(|weak| weak.strong_count() > 0);
        handed_out.push(Arc::downgrade(&snapshot));
        if newer {
            *current = Some(snapshot);
        }
    }

    /// The current snapshot and every older one that a reader of this process still holds.
    pub(crate) fn pinned(&self) -> Vec<Arc<Snapshot>> {
        let handed_out = self.handed_out.lock();
        handed_out.iter().filter_map(Weak::upgrade).collect()
    }

    /// Loads the newest state and what it names.
    pub(crate) async fn refresh(&self) -> Result<Option<Arc<Snapshot>>> {
        match load(&*self.meta).await? {
            Some(found) => self.take(found).await.map(Some),
            // It was there before.
            None if self.current().is_some() => Err(Error::StateLost {
                object: "state".to_owned(),
            }),
            None => Ok(None),
        }
    }

    /// The same for a process that begins: a place that holds objects and no state is refused. A state
    /// whose catalog is gone because a newer one replaced it is loaded again.
    pub(crate) async fn begin(&self) -> Result<Option<Arc<Snapshot>>> {
        let mut failed: Option<(Version, Error)> = None;
        for _ in 0..BEGIN_ROUNDS_MAX {
            let found = load_state(&*self.meta, &**self.objects.blobs()).await?;
            let Some(found) = found else {
                return Ok(None);
            };
            match failed {
                Some((version, error)) if version == found.version => return Err(error),
                _ => {}
            }
            let version = found.version;
            match self.take(found).await {
                Err(error @ Error::Corrupt { .. }) => failed = Some((version, error)),
                taken => return taken.map(Some),
            }
        }
        match failed {
            Some((_, error)) => Err(error),
            None => Ok(None),
        }
    }

    /// Takes a loaded state as the current one.
    pub(crate) async fn take(&self, found: Versioned) -> Result<Arc<Snapshot>> {
        if let Some(known) = self
            .current()
            .filter(|known| known.version == found.version)
        {
            return Ok(known);
        }
        let state = decode_state(&found)?;
        self.take_state(found.version, state).await
    }

    pub(crate) async fn take_state(&self, version: Version, state: State) -> Result<Arc<Snapshot>> {
        let known = self
            .current()
            .filter(|known| known.state.catalog == state.catalog);
        let snapshot = match known {
            Some(known) => Snapshot::new(version, state, known.catalog.clone()),
            None => self.load_snapshot(version, state).await?,
        };
        let snapshot = Arc::new(snapshot);
        self.adopt(snapshot.clone());
        Ok(snapshot)
    }

    /// A state with the catalog that it names, which does not become the current one.
    pub(crate) async fn load_snapshot(&self, version: Version, state: State) -> Result<Snapshot> {
        let catalog = match &state.catalog {
            Some(place) => self.load_catalog(place).await?,
            None => Catalog::default(),
        };
        Ok(Snapshot::new(version, state, Arc::new(catalog)))
    }

    pub(crate) async fn load_catalog(&self, place: &CatalogRef) -> Result<Catalog> {
        let object = &place.object;
        let damaged = |damage| Error::damaged(&object.name, damage);
        let bytes = self.objects.blobs().get(&object.name).await;
        let bytes = bytes.map_err(|error| Error::reading(&object.name, error))?;
        let expected = *blake3::hash(&bytes).as_bytes() == place.hash.0;
        ensure(expected, "it is not the catalog that the state names").map_err(damaged)?;
        Catalog::decode(&bytes, object.tables_start).map_err(damaged)
    }
}

pub(crate) fn decode_state(found: &Versioned) -> Result<State> {
    State::decode(&found.bytes).map_err(|damage| Error::damaged("state", damage))
}
