//! Both ports in memory: for tests, and for what need not be kept.
//!
//! Handles are cloned; all clones share one record or one set of objects. Nothing is durable.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::name::{check_len, check_name, check_range};
use crate::{BlobInfo, BlobStore, BlobWriter, Error, MetaStore, Result, Version, Versioned};

/// A record in memory.
#[derive(Clone, Default, Debug)]
pub struct MemoryMeta {
    record: Arc<watch::Sender<Option<Versioned>>>,
}

impl MemoryMeta {
    /// No record.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl MetaStore for MemoryMeta {
    async fn load(&self) -> Result<Option<Versioned>> {
        Ok(self.record.borrow().clone())
    }

    async fn swap(&self, expected: Option<Version>, bytes: Bytes) -> Result<Version> {
        let mut outcome = Err(Error::stale(expected));
        self.record.send_if_modified(|record| {
            let found = record.as_ref().map(|record| record.version);
            if found != expected {
                return false;
            }
            let version = Version(found.map_or(0, |version| version.0) + 1);
            *record = Some(Versioned { version, bytes });
            outcome = Ok(version);
            true
        });
        outcome
    }

    async fn watch(&self, seen: Option<Version>) -> Result<Versioned> {
        let mut receiver = self.record.subscribe();
        let other = |record: &Option<Versioned>| {
            let version = record.as_ref().map(|record| record.version);
            version.is_some() && version != seen
        };
        let record = receiver.wait_for(other).await.ok().and_then(|r| r.clone());
        record.ok_or_else(|| Error::without_cause("watch a record in memory"))
    }

    fn is_exclusive(&self) -> bool {
        false
    }
}

/// Objects in memory.
#[derive(Clone, Default, Debug)]
pub struct MemoryBlobs {
    objects: Arc<RwLock<BTreeMap<String, Bytes>>>,
}

impl MemoryBlobs {
    /// No objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes all objects have together.
    pub fn total_bytes(&self) -> u64 {
        let objects = self.objects.read();
        objects.values().map(|bytes| bytes.len() as u64).sum()
    }

    fn find(&self, name: &str) -> Result<Bytes> {
        check_name(name)?;
        let found = self.objects.read().get(name).cloned();
        found.ok_or_else(|| Error::not_found(name))
    }
}

#[async_trait]
impl BlobStore for MemoryBlobs {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        check_name(name)?;
        self.objects.write().insert(name.to_owned(), bytes);
        Ok(())
    }

    async fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>> {
        check_name(name)?;
        Ok(Box::new(MemoryWriter {
            blobs: self.clone(),
            name: name.to_owned(),
            bytes: BytesMut::new(),
        }))
    }

    async fn get(&self, name: &str) -> Result<Bytes> {
        self.find(name)
    }

    async fn range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        cut(name, &self.find(name)?, &range)
    }

    async fn ranges(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let bytes = self.find(name)?;
        let parts = ranges.iter().map(|range| cut(name, &bytes, range));
        parts.collect()
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<BlobInfo>> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let objects = self.objects.read();
        let found = objects
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(|(name, _)| name.starts_with(prefix))
            .take(limit)
            .map(|(name, bytes)| BlobInfo {
                name: name.clone(),
                len: bytes.len() as u64,
            });
        Ok(found.collect())
    }

    async fn delete(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.objects.write().remove(name);
        Ok(())
    }
}

fn cut(name: &str, bytes: &Bytes, range: &Range<u64>) -> Result<Bytes> {
    let len = check_range(name, bytes.len() as u64, range)?;
    // The start is within the object, so it fits.
    let start = range.start as usize;
    Ok(bytes.slice(start..start + len))
}

#[derive(Debug)]
struct MemoryWriter {
    blobs: MemoryBlobs,
    name: String,
    bytes: BytesMut,
}

#[async_trait]
impl BlobWriter for MemoryWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>, expected_len: u64) -> Result<()> {
        check_len(&self.name, self.bytes.len() as u64, expected_len)?;
        self.blobs.put(&self.name, self.bytes.freeze()).await
    }
}
