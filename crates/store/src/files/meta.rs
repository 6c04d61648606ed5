//! [`FileMeta`]: the record as one small file.
//!
//! ```text
//! state: | version u64 | xxh3 of version and bytes u64 | bytes … |      little-endian
//! ```
//!
//! The last versions stay in the directory `states`, one file each, under their number. They are
//! there for an operator whose `state` is lost; nothing is ever loaded from them in its place. Beside
//! them is a reserve for a full disk.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use xxhash_rust::xxh3::Xxh3Default;

use super::disk::{blocking, create_directories, failed, sync_directory};
use super::reserve;
use crate::port::watch_by;
use crate::{Error, MetaStore, Result, Version, Versioned, crash};

/// How often a watcher looks at the file.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

const HEADER_BYTES: usize = 16;

/// The directory of the last versions, and how many of them are kept.
const KEPT_DIRECTORY: &str = "states";
const KEPT_VERSIONS: usize = 8;

/// The record as a file in a directory, replaced by rename under an OS file lock.
#[derive(Debug)]
pub struct FileMeta {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    writing: Option<Writing>,
}

#[derive(Debug)]
struct Writing {
    /// Serialises swaps of this handle.
    settled: Mutex<Settled>,
    /// Held as long as the handle or a swap of it lives; a killed process frees it.
    _lock: File,
    #[cfg(test)]
    fail_directory_sync: std::sync::atomic::AtomicBool,
    /// The disk is full while this file is there.
    #[cfg(test)]
    full_while: Mutex<Option<PathBuf>>,
}

/// Whether the file that `state` names is known to survive a power cut.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Settled {
    Yes,
    No,
}

impl FileMeta {
    /// Opens the record for reading and swapping, and creates the directory if need be. No other
    /// handle can be opened so, in any process, as long as this one lives. Blocks.
    pub fn open_writer(directory: impl AsRef<Path>) -> Result<Self> {
        let directory = directory.as_ref().to_path_buf();
        create_directories(&directory)?;
        let writing = Writing {
            // What a killed writer renamed last may not be durable yet.
            settled: Mutex::new(Settled::No),
            _lock: lock(&directory)?,
            #[cfg(test)]
            fail_directory_sync: false.into(),
            #[cfg(test)]
            full_while: Mutex::default(),
        };
        Ok(Self::new(directory, Some(writing)))
    }

    /// Opens the record for reading. Takes no lock; the directory may be created later.
    pub fn open_reader(directory: impl AsRef<Path>) -> Self {
        Self::new(directory.as_ref().to_path_buf(), None)
    }

    fn new(directory: PathBuf, writing: Option<Writing>) -> Self {
        Self {
            inner: Arc::new(Inner { directory, writing }),
        }
    }
}

fn lock(directory: &Path) -> Result<File> {
    let path = directory.join("lock");
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let lock = lock.map_err(|error| failed("open lock file", &path, error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(Error::conflict(format!(
            "another process writes to this directory: stop it, or open as a reader (path={})",
            directory.display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed("lock", &path, error)),
    }
}

#[async_trait]
impl MetaStore for FileMeta {
    async fn load(&self) -> Result<Option<Versioned>> {
        let inner = self.inner.clone();
        blocking(move || match &inner.writing {
            None => inner.read(),
            Some(writing) => inner.read_settled(writing, &mut writing.settled.lock()),
        })
        .await
    }

    async fn swap(&self, expected: Option<Version>, bytes: Bytes) -> Result<Version> {
        let inner = self.inner.clone();
        blocking(move || inner.swap(expected, bytes)).await
    }

    async fn watch(&self, seen: Option<Version>) -> Result<Versioned> {
        let version = || {
            let inner = self.inner.clone();
            blocking(move || inner.read_version())
        };
        watch_by(self, WATCH_INTERVAL, seen, version).await
    }

    fn is_exclusive(&self) -> bool {
        self.inner.writing.is_some()
    }

    async fn kept(&self) -> Result<Vec<(Version, Result<Bytes>)>> {
        let inner = self.inner.clone();
        blocking(move || inner.kept()).await
    }
}

impl Inner {
    fn path(&self) -> PathBuf {
        self.directory.join("state")
    }

    fn open(&self) -> Result<Option<File>> {
        let path = self.path();
        match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("open record", &path, error)),
        }
    }

    fn read(&self) -> Result<Option<Versioned>> {
        let Some(mut file) = self.open()? else {
            return Ok(None);
        };
        let mut stored = Vec::new();
        let read = file.read_to_end(&mut stored);
        read.map_err(|error| failed("read record", &self.path(), error))?;
        decode(stored.into()).map(Some)
    }

    /// The version alone, unchecked: a hint for watchers.
    fn read_version(&self) -> Result<Option<Version>> {
        let Some(mut file) = self.open()? else {
            return Ok(None);
        };
        let mut version = [0; 8];
        match file.read_exact(&mut version) {
            Ok(()) => Ok(Some(Version(u64::from_le_bytes(version)))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(cut()),
            Err(error) => Err(failed("read record", &self.path(), error)),
        }
    }

    /// The record, written once more if it may not be durable: a caller that looks after an
    /// ambiguous swap and finds its own bytes takes them for durable.
    fn read_settled(&self, writing: &Writing, settled: &mut Settled) -> Result<Option<Versioned>> {
        let record = self.read()?;
        if let (Settled::No, Some(record)) = (*settled, &record) {
            self.replace(writing, record, settled)?;
        }
        Ok(record)
    }

    fn swap(&self, expected: Option<Version>, bytes: Bytes) -> Result<Version> {
        let Some(writing) = &self.writing else {
            let path = self.path();
            let reason = format!("record is open for reading only (path={})", path.display());
            return Err(Error::Conflict { reason });
        };
        let mut settled = writing.settled.lock();
        let found = self.read_settled(writing, &mut settled)?;
        let found = found.map(|record| record.version);
        if found != expected {
            return Err(Error::stale(expected));
        }
        // A record that was lost and made again continues counting: a reader that saw the lost one
        // takes a lower number for an older record.
        let before = match found {
            Some(version) => version.0,
            None => self.kept_numbers()?.last().copied().unwrap_or(0),
        };
        let version = Version(before + 1);
        self.replace(writing, &Versioned { version, bytes }, &mut settled)?;
        Ok(version)
    }

    fn replace(&self, writing: &Writing, record: &Versioned, settled: &mut Settled) -> Result<()> {
        let tmp = self.directory.join("state.tmp");
        let mut written = self.write_synced(writing, &tmp, record);
        let is_full = written.as_ref().is_err_and(reserve::is_full);
        if is_full {
            // What was written of it takes room as well.
            let _ = fs::remove_file(&tmp);
            if reserve::release(&self.directory) || self.forget_old_copies() {
                written = self.write_synced(writing, &tmp, record);
            }
            if written.is_err() {
                let _ = fs::remove_file(&tmp);
            }
        }
        written.map_err(|error| failed("write record", &tmp, error))?;
        *settled = Settled::No;
        crash::step();
        let path = self.path();
        fs::rename(&tmp, &path).map_err(|error| failed("replace record", &path, error))?;
        if let Err(error) = self.keep(record) {
            // The record itself is in place: a missing second copy must not stop the writer.
            tracing::warn!(%error, path = %path.display(), "no second copy of the record was kept");
        }
        self.sync(writing)?;
        crash::step();
        *settled = Settled::Yes;
        if !is_full {
            reserve::make(&self.directory);
        }
        Ok(())
    }

    /// Where there is no reserve, all copies but the newest give their room. Whether there were any.
    fn forget_old_copies(&self) -> bool {
        let directory = self.directory.join(KEPT_DIRECTORY);
        let numbers = self.kept_numbers().unwrap_or_default();
        let old = numbers.iter().rev().skip(1);
        let removed =
            old.filter(|number| fs::remove_file(directory.join(kept_name(**number))).is_ok());
        removed.count() > 0
    }

    #[cfg(not(test))]
    fn write_synced(&self, _: &Writing, path: &Path, record: &Versioned) -> io::Result<()> {
        write(path, record)?.sync_all()
    }

    #[cfg(test)]
    fn write_synced(&self, writing: &Writing, path: &Path, record: &Versioned) -> io::Result<()> {
        let full_while = writing.full_while.lock().clone();
        if full_while.is_some_and(|path| path.exists()) {
            fs::write(path, b"as much as fits")?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        write(path, record)?.sync_all()
    }

    /// Keeps a record under its number, and removes the oldest such copies. A copy is a file of its own
    /// and not a link: what damages the record in its place must not damage its copy. It is not synced,
    /// since a swap does not depend on it; one that a power cut tore fails its checksum.
    fn keep(&self, record: &Versioned) -> io::Result<()> {
        let directory = self.directory.join(KEPT_DIRECTORY);
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let path = directory.join(kept_name(record.version.0));
        // It may be a link to the record, made by an older program.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        write(&path, record)?;
        let numbers = numbers_in(&directory)?;
        let surplus = numbers.len().saturating_sub(KEPT_VERSIONS);
        for number in numbers.iter().take(surplus) {
            fs::remove_file(directory.join(kept_name(*number)))?;
        }
        Ok(())
    }

    /// Numbers of the copies, in order.
    fn kept_numbers(&self) -> Result<Vec<u64>> {
        let directory = self.directory.join(KEPT_DIRECTORY);
        match numbers_in(&directory) {
            Ok(numbers) => Ok(numbers),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed("list copies of the record", &directory, error)),
        }
    }

    fn kept(&self) -> Result<Vec<(Version, Result<Bytes>)>> {
        let directory = self.directory.join(KEPT_DIRECTORY);
        let read = |number: u64| {
            let path = directory.join(kept_name(number));
            let stored = fs::read(&path).map_err(|error| failed("read a copy", &path, error))?;
            let record = decode(stored.into())?;
            match record.version.0 == number {
                true => Ok(record.bytes),
                false => Err(Error::corrupt(format!(
                    "a copy is of another version (copy={number})"
                ))),
            }
        };
        let numbers = self.kept_numbers()?.into_iter().rev();
        let kept = numbers.map(|number| (Version(number), read(number)));
        Ok(kept.collect())
    }

    #[cfg(not(test))]
    fn sync(&self, _: &Writing) -> Result<()> {
        sync_directory(&self.directory)
    }

    #[cfg(test)]
    fn sync(&self, writing: &Writing) -> Result<()> {
        use std::sync::atomic::Ordering;
        if writing.fail_directory_sync.load(Ordering::SeqCst) {
            return Err(failed(
                "sync directory",
                &self.directory,
                io::Error::other("injected"),
            ));
        }
        sync_directory(&self.directory)
    }
}

fn kept_name(number: u64) -> String {
    format!("{number:020}")
}

/// The numbers that files of a directory are named by, in order.
fn numbers_in(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn write(path: &Path, record: &Versioned) -> io::Result<File> {
    let mut file = File::create(path)?;
    file.write_all(&record.version.0.to_le_bytes())?;
    file.write_all(&checksum(record).to_le_bytes())?;
    file.write_all(&record.bytes)?;
    Ok(file)
}

fn decode(stored: Bytes) -> Result<Versioned> {
    let Some((header, _)) = stored.split_first_chunk::<HEADER_BYTES>() else {
        return Err(cut());
    };
    let header = u128::from_le_bytes(*header);
    let record = Versioned {
        version: Version(header as u64),
        bytes: stored.slice(HEADER_BYTES..),
    };
    if checksum(&record) != (header >> 64) as u64 {
        let reason = format!("record fails its checksum (version={})", record.version.0);
        return Err(Error::Corrupt { reason });
    }
    Ok(record)
}

fn checksum(record: &Versioned) -> u64 {
    let mut hash = Xxh3Default::new();
    hash.update(&record.version.0.to_le_bytes());
    hash.update(&record.bytes);
    hash.digest()
}

fn cut() -> Error {
    Error::corrupt("record is shorter than its header")
}

#[cfg(test)]
mod tests;
