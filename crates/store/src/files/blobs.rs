//! [`FileBlobs`]: objects as files.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::disk::{Directories, blocking, create_directories, failed};
use super::handles::{Handles, OpenBlob};
use super::read::read_ranges;
use super::walk::Walk;
use super::writer::{FileWriter, TmpFile};
use crate::name::check_name;
use crate::nonce::Nonces;
use crate::{BlobInfo, BlobStore, BlobWriter, Error, Result, crash};

/// Objects as files below a directory. Clones share the open files.
///
/// A name cannot be another's directory: `a` and `a/b` do not both exist.
#[derive(Clone, Debug)]
pub struct FileBlobs {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    blobs: PathBuf,
    handles: Handles,
    writing: Option<Writing>,
}

/// What only a handle that writes has.
#[derive(Debug)]
struct Writing {
    tmp: PathBuf,
    nonces: Nonces,
    directories: Directories,
    /// Shared by all writers of this directory, so that none removes another's unfinished files.
    _lock: File,
}

impl FileBlobs {
    /// Opens a directory for reading and writing, creates it if need be, and removes what killed
    /// writers left in `tmp/` unless another writer lives. Blocks.
    pub fn open_writer(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref();
        let (blobs, tmp) = (root.join("blobs"), root.join("tmp"));
        create_directories(&blobs)?;
        create_directories(&tmp)?;
        let writing = Writing {
            _lock: lock_tmp(&tmp)?,
            tmp,
            nonces: Nonces::new(),
            directories: Directories::default(),
        };
        Ok(Self::new(blobs, Some(writing)))
    }

    /// Opens a directory for reading. It may be created and written later, by others.
    pub fn open_reader(root: impl AsRef<Path>) -> Self {
        Self::new(root.as_ref().join("blobs"), None)
    }

    fn new(blobs: PathBuf, writing: Option<Writing>) -> Self {
        let inner = Inner {
            blobs,
            handles: Handles::new(),
            writing,
        };
        let inner = Arc::new(inner);
        Self { inner }
    }

    async fn open(&self, name: &str) -> Result<Arc<OpenBlob>> {
        check_name(name)?;
        if let Some(open) = self.inner.handles.get(name) {
            return Ok(open);
        }
        let (inner, name) = (self.inner.clone(), name.to_owned());
        blocking(move || inner.handles.get_or_open(&name, &inner.blobs.join(&name))).await
    }
}

/// Takes the writers' shared lock. The first of them removes what earlier ones left.
fn lock_tmp(tmp: &Path) -> Result<File> {
    let path = tmp.join("lock");
    let fail = |error| failed("lock directory of unfinished objects", &path, error);
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let lock = lock.map_err(fail)?;
    if lock.try_lock().is_ok() {
        remove_leftovers(tmp).map_err(fail)?;
    }
    // A process that gets the whole lock before this returns finds no file of ours yet.
    lock.lock_shared().map_err(fail)?;
    Ok(lock)
}

fn remove_leftovers(tmp: &Path) -> io::Result<()> {
    for entry in fs::read_dir(tmp)? {
        let entry = entry?;
        if entry.file_name() != "lock" {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

impl Inner {
    fn writing(&self) -> Result<&Writing> {
        self.writing.as_ref().ok_or_else(|| {
            let path = self.blobs.display();
            Error::conflict(format!("objects are open for reading only (path={path})"))
        })
    }

    fn create_tmp(&self) -> Result<TmpFile> {
        let writing = self.writing()?;
        let name = format!("{:032x}", writing.nonces.next());
        TmpFile::create(writing.tmp.join(name))
    }

    /// Gives a whole file its name.
    pub(super) fn put_in_place(&self, name: &str, file: TmpFile) -> Result<()> {
        if let Some((directory, _)) = name.rsplit_once('/') {
            let directories = &self.writing()?.directories;
            directories.ensure(&self.blobs, Path::new(directory))?;
        }
        let placed = file.put_in_place(&self.blobs.join(name));
        self.handles.forget(name);
        placed
    }
}

#[async_trait]
impl BlobStore for FileBlobs {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        check_name(name)?;
        let (inner, name) = (self.inner.clone(), name.to_owned());
        blocking(move || {
            let mut file = inner.create_tmp()?;
            file.write(&[bytes])?;
            inner.put_in_place(&name, file)
        })
        .await
    }

    async fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>> {
        check_name(name)?;
        let inner = self.inner.clone();
        let file = blocking(move || inner.create_tmp()).await?;
        Ok(Box::new(FileWriter::new(self.inner.clone(), name, file)))
    }

    async fn get(&self, name: &str) -> Result<Bytes> {
        let blob = self.open(name).await?;
        let whole = 0..blob.len;
        let mut parts = read_ranges(name, blob, &[whole]).await?;
        Ok(parts.pop().unwrap_or_default())
    }

    async fn range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let mut parts = self.ranges(name, &[range]).await?;
        Ok(parts.pop().unwrap_or_default())
    }

    async fn ranges(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let blob = self.open(name).await?;
        read_ranges(name, blob, ranges).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<BlobInfo>> {
        let (inner, prefix) = (self.inner.clone(), prefix.to_owned());
        let after = after.map(str::to_owned);
        blocking(move || {
            let walk = Walk {
                prefix: &prefix,
                after: after.as_deref(),
                limit,
            };
            walk.run(&inner.blobs)
        })
        .await
    }

    async fn delete(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.inner.writing()?;
        let (inner, name) = (self.inner.clone(), name.to_owned());
        blocking(move || {
            let path = inner.blobs.join(&name);
            let removed = fs::remove_file(&path);
            crash::step();
            inner.handles.forget(&name);
            match removed {
                Err(error) if !is_absent(&error) => Err(failed("delete object", &path, error)),
                _ => Ok(()),
            }
        })
        .await
    }
}

/// There is no file here: nothing, or a directory of other objects, or an object in the way.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | IsADirectory | NotADirectory)
}

#[cfg(test)]
mod tests;
