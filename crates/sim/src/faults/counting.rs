//! Counts what an object store is asked for, by kind and object: for budgets of operations.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use chronolith_store::{BlobInfo, BlobStore, BlobWriter, Result};
use parking_lot::{Mutex, MutexGuard};

use super::Operation;

/// What was requested, whether or not it succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoCount {
    pub calls: u64,
    /// Byte ranges; only reads of parts have any.
    pub ranges: u64,
    /// Bytes sent, or bytes received.
    pub bytes: u64,
}

impl IoCount {
    fn add(&mut self, more: Self) {
        self.calls += more.calls;
        self.ranges += more.ranges;
        self.bytes += more.bytes;
    }
}

/// By kind and name; a list counts under its prefix.
type Counts = BTreeMap<(Operation, String), IoCount>;

/// An object store that counts.
#[derive(Debug)]
pub struct CountingBlobs {
    inner: Arc<dyn BlobStore>,
    counts: Arc<Mutex<Counts>>,
}

impl CountingBlobs {
    /// Wraps a store.
    #[must_use]
    pub fn new(inner: Arc<dyn BlobStore>) -> Self {
        Self {
            inner,
            counts: Arc::default(),
        }
    }

    /// What a kind of operation added up to.
    #[must_use]
    pub fn total(&self, operation: Operation) -> IoCount {
        let mut total = IoCount::default();
        for ((kind, _), count) in lock(&self.counts).iter() {
            if *kind == operation {
                total.add(*count);
            }
        }
        total
    }

    /// What a kind of operation added up to on one object; a list's object is its prefix.
    #[must_use]
    pub fn of(&self, operation: Operation, name: &str) -> IoCount {
        let counts = lock(&self.counts);
        let count = counts.get(&(operation, name.to_owned()));
        count.copied().unwrap_or_default()
    }

    /// Everything since the start or the last [`CountingBlobs::take`], which starts again.
    pub fn take(&self) -> BTreeMap<(Operation, String), IoCount> {
        std::mem::take(&mut lock(&self.counts))
    }

    fn count(&self, operation: Operation, name: &str, ranges: usize, bytes: usize) {
        count(&self.counts, (operation, name), ranges, bytes);
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock()
}

fn count(counts: &Mutex<Counts>, of: (Operation, &str), ranges: usize, bytes: usize) {
    let mut counts = lock(counts);
    let entry = counts.entry((of.0, of.1.to_owned())).or_default();
    entry.add(IoCount {
        calls: 1,
        ranges: ranges as u64,
        bytes: bytes as u64,
    });
}

#[async_trait]
impl BlobStore for CountingBlobs {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        self.count(Operation::BlobPut, name, 0, bytes.len());
        self.inner.put(name, bytes).await
    }

    async fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>> {
        self.count(Operation::BlobCreate, name, 0, 0);
        Ok(Box::new(CountingWriter {
            inner: self.inner.create(name).await?,
            name: name.to_owned(),
            counts: Arc::clone(&self.counts),
        }))
    }

    async fn get(&self, name: &str) -> Result<Bytes> {
        let result = self.inner.get(name).await;
        let bytes = result.as_ref().map_or(0, Bytes::len);
        self.count(Operation::BlobGet, name, 0, bytes);
        result
    }

    async fn range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let result = self.inner.range(name, range).await;
        let bytes = result.as_ref().map_or(0, Bytes::len);
        self.count(Operation::BlobRange, name, 1, bytes);
        result
    }

    async fn ranges(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let result = self.inner.ranges(name, ranges).await;
        let parts = result.as_deref().unwrap_or_default();
        let bytes = parts.iter().map(Bytes::len).sum();
        self.count(Operation::BlobRanges, name, ranges.len(), bytes);
        result
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<BlobInfo>> {
        self.count(Operation::BlobList, prefix, 0, 0);
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, name: &str) -> Result<()> {
        self.count(Operation::BlobDelete, name, 0, 0);
        self.inner.delete(name).await
    }
}

#[derive(Debug)]
struct CountingWriter {
    inner: Box<dyn BlobWriter>,
    name: String,
    counts: Arc<Mutex<Counts>>,
}

#[async_trait]
impl BlobWriter for CountingWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let of = (Operation::BlobWrite, self.name.as_str());
        count(&self.counts, of, 0, bytes.len());
        self.inner.write(bytes).await
    }

    async fn finish(self: Box<Self>, expected_len: u64) -> Result<()> {
        let of = (Operation::BlobFinish, self.name.as_str());
        count(&self.counts, of, 0, 0);
        self.inner.finish(expected_len).await
    }
}
