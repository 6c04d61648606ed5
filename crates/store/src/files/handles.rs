//! A bounded cache of open files, so that a read of a part does not open the file each time.
//!
//! A handle outlives its file's deletion by another process. That is harmless for the bytes, which
//! never change under a name; the space is freed when the handle leaves the cache.

use std::fs::File;
use std::io::{
    self,
    ErrorKind::{NotADirectory, NotFound},
};
use std::path::Path;
use std::sync::Arc;

use quick_cache::sync::Cache;

use super::disk::failed;
use crate::{Error, Result};

/// How many files stay open. Well below the usual limit of 1,024 a process.
const OPEN_FILES_MAX: usize = 384;

/// An open object.
#[derive(Debug)]
pub(super) struct OpenBlob {
    pub(super) file: File,
    pub(super) len: u64,
}

/// Open objects by name.
#[derive(Debug)]
pub(super) struct Handles {
    open: Cache<String, Arc<OpenBlob>>,
}

impl Handles {
    pub(super) fn new() -> Self {
        Self {
            open: Cache::new(OPEN_FILES_MAX),
        }
    }

    /// The handle, if it is open.
    pub(super) fn get(&self, name: &str) -> Option<Arc<OpenBlob>> {
        self.open.get(name)
    }

    /// The handle, opened if it is not.
    pub(super) fn get_or_open(&self, name: &str, path: &Path) -> Result<Arc<OpenBlob>> {
        self.open
            .get_or_insert_with(name, || open(name, path).map(Arc::new))
    }

    /// Closes an object that is about to change or go.
    pub(super) fn forget(&self, name: &str) {
        self.open.remove(name);
    }
}

fn open(name: &str, path: &Path) -> Result<OpenBlob> {
    let fail = |error: io::Error| match error.kind() {
        NotFound | NotADirectory => Error::not_found(name),
        _ => failed("open object", path, error),
    };
    let file = File::open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(Error::not_found(name));
    }
    Ok(OpenBlob {
        len: metadata.len(),
        file,
    })
}
