//! Copying an archive: everything that one state names, checked, and then the state.
//!
//! The archive may be written meanwhile: the copy is of one state. Until the state is written the copy
//! is what it was before, whole or not there; so a copy that was interrupted never looks whole.

use std::collections::HashSet;
use std::sync::Arc;

use chronolith_model::{BlockRef, ChainId};
use chronolith_store::{BlobStore, MetaStore, Versioned};

use super::inspect::{EVERYTHING, Inspected, entries, lengths, read};
use crate::error::{Error, Result};
use crate::maintenance::gc::list_all;
use crate::read::cache::Cache;
use crate::read::objects::Objects;
use crate::state::head::{View, decode_state};
use crate::state::lost::{load, load_state};
use crate::state::record::{CatalogRef, State};

/// How often copying begins again because objects were collected on the way.
const ROUNDS_MAX: usize = 16;
/// Bytes that are copied at once.
const STEP_BYTES: u64 = 8 << 20;
const CACHE_BYTES: u64 = 1 << 20;

/// Where an archive is stored.
#[derive(Clone, Debug)]
pub struct Place {
    pub meta: Arc<dyn MetaStore>,
    pub blobs: Arc<dyn BlobStore>,
}

impl Place {
    /// The state of the archive that is here.
    pub(crate) async fn load(&self) -> Result<Versioned> {
        let found = load_state(&*self.meta, &*self.blobs).await?;
        found.ok_or_else(|| Error::Invalid("there is no archive".to_owned()))
    }

    /// The archive that is here, for reading nothing twice: almost without a cache.
    pub(crate) fn view(&self, chain: ChainId) -> View {
        let (meta, blobs) = (self.meta.clone(), self.blobs.clone());
        View::new(meta, blobs, Cache::of_bytes(CACHE_BYTES), chain)
    }
}

/// What was copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The newest block of the copy.
    pub head: Option<BlockRef>,
    /// Objects that the copy has.
    pub objects: u64,
    /// Those of them that were not there yet.
    pub new_objects: u64,
    /// Bytes of the new ones.
    pub new_bytes: u64,
}

/// Copies an archive, which may be written meanwhile, to where there is none or an older copy of it.
/// What is there already is read and checked, and copied again only where it is damaged. What the copy
/// no longer needs is removed at the end.
///
/// # Errors
/// `Corrupt` where something of the archive is damaged: the copy is as it was before. `Invalid` where
/// there is no archive, or it is of another chain, or the target holds something else or a newer copy.
/// `Store`.
pub async fn copy_archive(
    from: &Place,
    to: &Place,
    chain: ChainId,
    progress: &mut (dyn FnMut(Inspected) + Send),
) -> Result<Copied> {
    let (source, target) = (from.view(chain), to.view(chain));
    let mut failure = Error::Invalid("nothing was copied".to_owned());
    for _ in 0..ROUNDS_MAX {
        let found = from.load().await?;
        let state = decode_state(&found)?;
        if state.chain != chain {
            let message = format!(
                "the archive is of another chain (archive={}, settings={chain})",
                state.chain
            );
            return Err(Error::Invalid(message));
        }
        let older = check_target(to, &state).await?;
        match copy_objects(&source, &target, &found, progress).await {
            Ok(copied) => {
                write_state(to, found.bytes).await?;
                // Without a state it is unknown what else is there: perhaps an archive that lost its state.
                if older {
                    remove_unnamed(&target).await?;
                }
                return Ok(copied);
            }
            Err(error @ Error::Corrupt { .. }) => failure = error,
            Err(error) => return Err(error),
        }
        // Collected, because a newer state does not need it? Then that one is copied.
        let newest = load(&*from.meta).await?;
        if newest.is_none_or(|newest| newest.version == found.version) {
            break;
        }
    }
    Err(failure)
}

/// Refuses to overwrite all but an older copy of the same archive: a copy of a restored or old archive
/// must not replace a newer copy. Returns whether there is one.
async fn check_target(to: &Place, from: &State) -> Result<bool> {
    let found = to.meta.load().await;
    let Some(found) = found.map_err(Error::store("load the state of the copy"))? else {
        return Ok(false);
    };
    let there = decode_state(&found)?;
    if there.archive_id != from.archive_id {
        let message = "another archive lies there already: name an empty place";
        return Err(Error::Invalid(message.to_owned()));
    }
    let age = |state: &State| (state.epoch, state.sequence);
    if age(&there) <= age(from) {
        return Ok(true);
    }
    let ((epoch, sequence), (our_epoch, our_sequence)) = (age(&there), age(from));
    Err(Error::Invalid(format!(
        "a newer copy of this archive lies there already: name an empty place, or move the newer one away \
         (there={epoch}.{sequence}, archive={our_epoch}.{our_sequence})"
    )))
}

/// Copies what a state names, all but the state itself.
async fn copy_objects(
    source: &View,
    target: &View,
    found: &Versioned,
    progress: &mut (dyn FnMut(Inspected) + Send),
) -> Result<Copied> {
    let state = decode_state(found)?;
    let snapshot = source.load_snapshot(found.version, state).await?;
    let (from, to) = (&source.objects, &target.objects);
    let there = lengths(to).await?;
    let due: Vec<_> = entries(&snapshot, &EVERYTHING).collect();
    let mut copied = Copied {
        head: snapshot.head(),
        objects: due.len() as u64,
        new_objects: 0,
        new_bytes: 0,
    };
    let mut done = Inspected {
        bytes: 0,
        bytes_all: due.iter().map(|entry| entry.place().len).sum(),
    };
    for entry in due {
        let object = entry.place();
        let same_size = there.get(&object.name) == Some(&object.len);
        if !(same_size && is_whole(read(to, &entry).await)?) {
            copy_object(from, to, &object.name, object.len).await?;
            if let Err(error) = read(to, &entry).await {
                // It was damaged before it was copied.
                remove(to, &object.name).await?;
                return Err(error);
            }
            copied.new_objects += 1;
            copied.new_bytes += object.len;
        }
        done.bytes += object.len;
        progress(done);
    }
    if let Some(place) = &snapshot.state.catalog {
        copy_catalog(source, target, place).await?;
    }
    Ok(copied)
}

/// Whether what was read was whole.
fn is_whole(read: Result<()>) -> Result<bool> {
    match read {
        Ok(()) => Ok(true),
        Err(Error::Corrupt { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn copy_catalog(source: &View, target: &View, place: &CatalogRef) -> Result<()> {
    if is_whole(target.load_catalog(place).await.map(|_| ()))? {
        return Ok(());
    }
    let (name, len) = (&place.object.name, place.object.len);
    copy_object(&source.objects, &target.objects, name, len).await?;
    target.load_catalog(place).await.map(|_| ())
}

/// Copies one object in steps. It exists only when all of it has arrived.
async fn copy_object(from: &Objects, to: &Objects, name: &str, len: u64) -> Result<()> {
    remove(to, name).await?;
    let writer = to.blobs().create(name).await;
    let mut writer = writer.map_err(Error::store("create an object"))?;
    let mut at = 0;
    while at < len {
        let end = (at + STEP_BYTES).min(len);
        let bytes = from.blobs().range(name, at..end).await;
        let bytes = bytes.map_err(|error| Error::reading(name, error))?;
        let written = writer.write(bytes).await;
        written.map_err(Error::store("write an object"))?;
        at = end;
    }
    let finished = writer.finish(len).await;
    finished.map_err(Error::store("complete an object"))
}

async fn remove(objects: &Objects, name: &str) -> Result<()> {
    let removed = objects.blobs().delete(name).await;
    removed.map_err(Error::store("remove an object"))
}

/// The last step: from here on the copy is the newer one.
async fn write_state(to: &Place, bytes: bytes::Bytes) -> Result<()> {
    let known = to.meta.load().await;
    let known = known.map_err(Error::store("load the state of the copy"))?;
    if known.as_ref().is_some_and(|known| known.bytes == bytes) {
        return Ok(());
    }
    let expected = known.map(|known| known.version);
    let swapped = to.meta.swap(expected, bytes).await;
    swapped.map_err(Error::store("write the state of the copy"))?;
    Ok(())
}

/// What an older copy needed and this one does not.
async fn remove_unnamed(target: &View) -> Result<()> {
    let Some(snapshot) = target.refresh().await? else {
        return Ok(());
    };
    let named: HashSet<&str> = snapshot.names().collect();
    for info in list_all(&**target.objects.blobs()).await? {
        if !named.contains(info.name.as_str()) {
            remove(&target.objects, &info.name).await?;
        }
    }
    Ok(())
}
