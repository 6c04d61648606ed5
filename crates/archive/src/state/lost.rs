//! A lost state: objects that no state names. Such a place is never taken for a new archive.
//!
//! A writer creates the state before its first object, so objects without a state mean that the state
//! was lost, or that a copy was interrupted. A new state there would make garbage of every object.

use chronolith_store::{BlobStore, MetaStore, Versioned};

use crate::error::{Error, Result};
use crate::maintenance::gc::FOLDERS;
use crate::tools::copy::Place;

/// Loads the state; none where there is no state.
pub(crate) async fn load(meta: &dyn MetaStore) -> Result<Option<Versioned>> {
    meta.load().await.map_err(Error::store("load the state"))
}

/// Loads the state; none where there is neither a state nor an object.
///
/// # Errors
/// `StateLost` where there are objects and no state; `Store`.
pub(crate) async fn load_state(
    meta: &dyn MetaStore,
    blobs: &dyn BlobStore,
) -> Result<Option<Versioned>> {
    if let Some(found) = load(meta).await? {
        return Ok(Some(found));
    }
    let Some(object) = first_object(blobs).await? else {
        return Ok(None);
    };
    // Another process may have created the archive since the first look.
    match load(meta).await? {
        Some(found) => Ok(Some(found)),
        None => Err(Error::StateLost { object }),
    }
}

/// Whether there is an archive: a state. Nothing is written.
///
/// # Errors
/// `StateLost` where there are objects and no state; `Store`.
pub async fn has_state(place: &Place) -> Result<bool> {
    let found = load_state(&*place.meta, &*place.blobs).await?;
    Ok(found.is_some())
}

/// The first object of an archive, whether or not a state names it.
async fn first_object(blobs: &dyn BlobStore) -> Result<Option<String>> {
    for folder in FOLDERS {
        let listed = blobs.list(folder, None, 1).await;
        let listed = listed.map_err(Error::store("list objects"))?;
        if let Some(first) = listed.into_iter().next() {
            return Ok(Some(first.name));
        }
    }
    Ok(None)
}
