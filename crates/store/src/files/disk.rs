//! The few file-system steps that durability is made of, and what their errors mean.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::{Error, Result};

/// Bounds the directories remembered by [`Directories`]; beyond it they are synced again.
const DIRECTORIES_MAX: usize = 4096;

/// Runs blocking work off the async threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::unavailable("run file-system work", error)))
}

/// An I/O error while doing `what` to `path`.
pub(super) fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    Error::unavailable(format!("{what} (path={})", path.display()), error)
}

/// Makes the entries of a directory durable.
pub(super) fn sync_directory(path: &Path) -> Result<()> {
    open_and_sync(path).map_err(|error| failed("sync directory", path, error))
}

fn open_and_sync(path: &Path) -> io::Result<()> {
    File::open(path).and_then(|directory| directory.sync_all())
}

/// Creates a directory and its parents, and makes the entries of those that it created durable.
///
/// Those that were there are synced where that is allowed: a process that died may have created
/// them and not come to that. A user need not be able to read all of them: `/home` often lets one through
/// and lists nothing.
pub(super) fn create_directories(path: &Path) -> Result<()> {
    let is_there = |directory: &Path| directory.as_os_str().is_empty() || directory.exists();
    let ancestors = path.ancestors();
    let created = ancestors.take_while(|one| !is_there(one)).count();
    fs::create_dir_all(path).map_err(|error| failed("create directory", path, error))?;
    for (at, parent) in ancestors.skip(1).enumerate() {
        let is_relative = parent.as_os_str().is_empty();
        let parent = if is_relative { Path::new(".") } else { parent };
        match open_and_sync(parent) {
            Err(error) if at < created || !is_refusal(&error) => {
                return Err(failed("sync directory", parent, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a directory may not be read, or cannot be synced at all on this file system.
fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), PermissionDenied | InvalidInput | Unsupported)
}

/// Directories below a root that this process knows to exist durably.
///
/// That a directory exists is not enough: its creator may not have synced its entry yet.
#[derive(Default, Debug)]
pub(super) struct Directories {
    known: Mutex<HashSet<PathBuf>>,
}

impl Directories {
    /// Makes sure that `relative` exists durably below `root`, which does.
    pub(super) fn ensure(&self, root: &Path, relative: &Path) -> Result<()> {
        if self.known.lock().contains(relative) {
            return Ok(());
        }
        let mut parent = root.to_path_buf();
        for part in relative {
            let path = parent.join(part);
            match fs::create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(place_taken(&path, error));
                }
                _ => sync_directory(&parent)?,
            }
            parent = path;
        }
        let mut known = self.known.lock();
        if known.len() >= DIRECTORIES_MAX {
            known.clear();
        }
        known.insert(relative.to_path_buf());
        Ok(())
    }
}

/// An error of a step that fails when an object's name is another one's directory.
pub(super) fn place_taken(path: &Path, error: io::Error) -> Error {
    use io::ErrorKind::{DirectoryNotEmpty, IsADirectory, NotADirectory};
    match error.kind() {
        NotADirectory | IsADirectory | DirectoryNotEmpty => Error::conflict(format!(
            "an object's name is another's directory (path={})",
            path.display()
        )),
        _ => failed("put object in place", path, error),
    }
}
