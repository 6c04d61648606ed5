//! [`Lineage`]: which versions of the record belong together.
//!
//! A record that is made again after it was lost begins at 1. A writer that slept through the loss
//! still knows its version 500: by number alone its 501 would be newer than all that was made since.
//! So every record that is made has versions in a directory of its own, and one object says whose they
//! are:
//!
//! ```text
//! state/lineage                                       which directory counts
//! state/of-<32 hex digits>/00000000000000000007       version 7 of that lineage
//! ```
//!
//! `state/lineage` is created once and never replaced, and only after version 1 of its lineage is there:
//! that one create decides who made the record. What a writer of another lineage creates is
//! where nothing looks. Records from before lineages have their numbers directly in `state/` and no such object;
//! they continue like that until they are lost.

use std::fmt;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use super::stored::Stored;
use super::{failed, key};
use crate::{Error, Result};

const NAME: &str = "lineage";
/// After all digits in the order of keys, so that a list from a number shows it.
const DIRECTORY: &str = "of-";

/// Which versions belong together. None: those from before lineages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lineage(Option<u128>);

impl Lineage {
    /// One that no other record has: `id` is used once.
    pub(super) fn new(id: u128) -> Self {
        Self(Some(id))
    }

    /// The one that counts in `state`.
    pub(super) async fn load(store: &dyn ObjectStore, state: &Path) -> Result<Self> {
        let fail = |error| failed("load lineage of record", "state", error);
        let found = match store.get(&key(state, NAME)?).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(Self(None)),
            found => found.map_err(fail)?,
        };
        let stored = Stored::decode(0, found.bytes().await.map_err(fail)?)?;
        Ok(Self(Some(stored.nonce)))
    }

    /// Makes this the lineage that counts. Conflict: another one does.
    pub(super) async fn create(self, store: &dyn ObjectStore, state: &Path) -> Result<()> {
        let nonce = self.0.unwrap_or_default();
        let bytes = Bytes::new();
        let body = Stored { nonce, bytes }.encode(0).into();
        let options = PutOptions::from(PutMode::Create);
        match store.put_opts(&key(state, NAME)?, body, options).await {
            Ok(_) => return Ok(()),
            Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(Error::unavailable("create lineage of record", error)),
        }
        match Self::load(store, state).await? {
            found if found == self => Ok(()),
            Self(Some(_)) => Err(Error::stale(None)),
            Self(None) => Err(Error::without_cause(
                "create lineage of record: refused, but nothing is there",
            )),
        }
    }

    /// Where its versions are.
    pub(super) fn directory(self, state: &Path) -> Path {
        match self.0 {
            Some(id) => state.clone().join(format!("{DIRECTORY}{id:032x}")),
            None => state.clone(),
        }
    }

    /// Whether a record was made with it, so that there must be versions.
    pub(super) fn is_made(self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, "{id:032x}"),
            None => f.write_str("none"),
        }
    }
}

/// What a key in a directory of versions is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Version(u64),
    /// A version of another lineage.
    Foreign(u64),
    /// The object that says which lineage counts.
    Lineage,
    /// Not ours.
    Unknown,
}

/// What a key is that was listed in `directory`.
pub(super) fn key_of(directory: &Path, location: &Path) -> Key {
    let Some(parts) = location.prefix_match(directory) else {
        return Key::Unknown;
    };
    let parts: Vec<_> = parts.collect();
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    let number = |name: &str| name.parse::<u64>().ok();
    match parts[..] {
        [NAME] => Key::Lineage,
        [name] => number(name).map_or(Key::Unknown, Key::Version),
        [lineage, name] if lineage.starts_with(DIRECTORY) => {
            number(name).map_or(Key::Unknown, Key::Foreign)
        }
        _ => Key::Unknown,
    }
}
