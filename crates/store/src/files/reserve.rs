//! Room for the record on a full disk: a file that is there to be removed.
//!
//! Garbage is collected by a writer, and a writer swaps the record before it does. On a disk without a free
//! byte neither would be possible: what could make room would need room. So a writer keeps a file of
//! [`RESERVE_BYTES`] beside the record, and removes it where the record cannot be written for lack of room.
//! It is made again by a later swap.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

const NAME: &str = "state.reserve";
/// Room for the record and its copy, many times.
const RESERVE_BYTES: u64 = 1 << 20;

/// Whether there is no room left, on the disk or in what its user may take of it.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Makes the reserve where there is none. Best effort: on a full disk there is none to be had.
pub(super) fn make(directory: &Path) {
    let path = directory.join(NAME);
    if fs::metadata(&path).is_ok_and(|file| file.len() == RESERVE_BYTES) {
        return;
    }
    if let Err(error) = fill(&path) {
        tracing::debug!(%error, path = %path.display(), "no reserve for the record");
        // Half of it would take room that the record may need.
        let _ = fs::remove_file(&path);
    }
}

/// Gives the reserve's room back. Whether there was any.
pub(super) fn release(directory: &Path) -> bool {
    let path = directory.join(NAME);
    let released = fs::remove_file(&path).is_ok();
    if released {
        tracing::warn!(path = %path.display(), "disk full, reserve of the record released");
    }
    released
}

/// Bytes that no file system packs, since a reserve that takes no room gives none back.
fn fill(path: &Path) -> io::Result<()> {
    let words = 0..RESERVE_BYTES / 8;
    let bytes = words.flat_map(|word| xxh3_64(&word.to_le_bytes()).to_le_bytes());
    let mut file = File::create(path)?;
    file.write_all(&bytes.collect::<Vec<u8>>())?;
    // Only a sync shows whether there is room: a file system may take blocks later.
    file.sync_all()
}
