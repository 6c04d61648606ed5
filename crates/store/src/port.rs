//! The ports. Everything above them may rely on what is written here and on nothing else; the
//! contract suite checks each line on every backend.

use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::Result;

/// Grows by at least one with every swap of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u64);

/// A record and its version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Versioned {
    /// Which version these bytes are.
    pub version: Version,
    pub bytes: Bytes,
}

/// One small mutable record.
#[async_trait]
pub trait MetaStore: Debug + Send + Sync {
    /// The newest record, or none where there never was one. A record whose swap has returned to
    /// one process is visible to all.
    async fn load(&self) -> Result<Option<Versioned>>;

    /// Replaces the record if its version is still `expected` (none: if there is no record).
    /// Durable when it returns. [`Error::Conflict`](crate::Error::Conflict): nothing changed.
    /// [`Error::Unavailable`](crate::Error::Unavailable): it may have changed; load and look.
    async fn swap(&self, expected: Option<Version>, bytes: Bytes) -> Result<Version>;

    /// Waits until the record's version is another than `seen`, and returns it. Safe to drop.
    async fn watch(&self, seen: Option<Version>) -> Result<Versioned>;

    /// Whether this handle alone may swap as long as it lives, guaranteed by the operating system.
    fn is_exclusive(&self) -> bool;

    /// Copies of the last versions that survive the loss of the record itself, the newest first, or why
    /// one cannot be read. They are best effort: one may be missing, and a backend may have none.
    /// [`Self::load`] never returns one of them.
    async fn kept(&self) -> Result<Vec<(Version, Result<Bytes>)>> {
        Ok(Vec::new())
    }
}

/// Watches a record by its version alone, until that is another one.
pub(crate) async fn watch_by<F: Future<Output = Result<Option<Version>>>>(
    meta: &dyn MetaStore,
    interval: Duration,
    seen: Option<Version>,
    version: impl Fn() -> F,
) -> Result<Versioned> {
    let mut interval = tokio::time::interval(interval);
    loop {
        interval.tick().await;
        let version = version().await?;
        if version.is_none() || version == seen {
            continue;
        }
        let record = meta.load().await?;
        if let Some(record) = record.filter(|record| Some(record.version) != seen) {
            return Ok(record);
        }
    }
}

/// An object's name and length.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlobInfo {
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
}

/// Immutable objects. Names are made of `a-z 0-9 - _ . /`; no part is empty, `.` or `..`.
#[async_trait]
pub trait BlobStore: Debug + Send + Sync {
    /// Stores an object whole. Durable when it returns. Storing the same bytes under the same name
    /// again is fine; names are never used for other bytes. A failed put leaves the object whole
    /// or absent, never cut.
    async fn put(&self, name: &str, bytes: Bytes) -> Result<()>;

    /// Begins an object that is too large to hold in memory. It does not exist for any reader until
    /// [`BlobWriter::finish`] has returned.
    async fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>>;

    /// A whole object.
    async fn get(&self, name: &str) -> Result<Bytes>;

    /// A part of an object. A range that reaches beyond its end is
    /// [`Error::Corrupt`](crate::Error::Corrupt), never a shorter answer.
    async fn range(&self, name: &str, range: Range<u64>) -> Result<Bytes>;

    /// Several parts of one object, all requested at once.
    async fn ranges(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>>;

    /// Objects whose names begin with `prefix` and sort after `after`, in order of their names,
    /// at most `limit` of them. Fewer than `limit` means that these were all. Every object whose
    /// put returned before the call and that was not deleted is there; unfinished ones never are.
    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<BlobInfo>>;

    /// Removes an object. Removing what is not there is fine.
    async fn delete(&self, name: &str) -> Result<()>;
}

/// An object being written. Dropping it leaves nothing that [`BlobStore::list`] shows.
#[async_trait]
pub trait BlobWriter: Debug + Send {
    /// Adds bytes at the end.
    async fn write(&mut self, bytes: Bytes) -> Result<()>;

    /// Makes the object exist, durably, after checking that exactly `expected_len` bytes arrived.
    async fn finish(self: Box<Self>, expected_len: u64) -> Result<()>;
}
