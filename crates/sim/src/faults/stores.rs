//! The wrappers that send every operation through a plan.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use chronolith_store::{BlobInfo, BlobStore, BlobWriter, MetaStore, Result, Version, Versioned};

use super::{FaultPlan, Operation};

/// A record store that obeys a plan.
#[derive(Debug)]
pub struct FaultyMeta {
    inner: Arc<dyn MetaStore>,
    plan: Arc<FaultPlan>,
}

impl FaultyMeta {
    /// Wraps a store.
    #[must_use]
    pub fn new(inner: Arc<dyn MetaStore>, plan: Arc<FaultPlan>) -> Self {
        Self { inner, plan }
    }
}

#[async_trait]
impl MetaStore for FaultyMeta {
    async fn load(&self) -> Result<Option<Versioned>> {
        self.plan.run(Operation::MetaLoad, self.inner.load()).await
    }

    async fn swap(&self, expected: Option<Version>, bytes: Bytes) -> Result<Version> {
        let work = self.inner.swap(expected, bytes);
        self.plan.run(Operation::MetaSwap, work).await
    }

    /// Has no number and meets no faults of its own; it only fails once the process is dead.
    async fn watch(&self, seen: Option<Version>) -> Result<Versioned> {
        self.plan.check_alive(Operation::MetaLoad)?;
        let seen = self.inner.watch(seen).await?;
        self.plan.check_alive(Operation::MetaLoad)?;
        Ok(seen)
    }

    fn is_exclusive(&self) -> bool {
        self.inner.is_exclusive()
    }
}

/// An object store that obeys a plan.
#[derive(Debug)]
pub struct FaultyBlobs {
    inner: Arc<dyn BlobStore>,
    plan: Arc<FaultPlan>,
}

impl FaultyBlobs {
    /// Wraps a store.
    #[must_use]
    pub fn new(inner: Arc<dyn BlobStore>, plan: Arc<FaultPlan>) -> Self {
        Self { inner, plan }
    }
}

#[async_trait]
impl BlobStore for FaultyBlobs {
    async fn put(&self, name: &str, bytes: Bytes) -> Result<()> {
        let work = self.inner.put(name, bytes);
        self.plan.run(Operation::BlobPut, work).await
    }

    async fn create(&self, name: &str) -> Result<Box<dyn BlobWriter>> {
        let work = self.inner.create(name);
        let inner = self.plan.run(Operation::BlobCreate, work).await?;
        let plan = Arc::clone(&self.plan);
        Ok(Box::new(FaultyWriter { inner, plan }))
    }

    async fn get(&self, name: &str) -> Result<Bytes> {
        let work = self.inner.get(name);
        self.plan.run(Operation::BlobGet, work).await
    }

    async fn range(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        let work = self.inner.range(name, range);
        self.plan.run(Operation::BlobRange, work).await
    }

    async fn ranges(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let work = self.inner.ranges(name, ranges);
        self.plan.run(Operation::BlobRanges, work).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Vec<BlobInfo>> {
        let work = self.inner.list(prefix, after, limit);
        self.plan.run(Operation::BlobList, work).await
    }

    async fn delete(&self, name: &str) -> Result<()> {
        let work = self.inner.delete(name);
        self.plan.run(Operation::BlobDelete, work).await
    }
}

#[derive(Debug)]
struct FaultyWriter {
    inner: Box<dyn BlobWriter>,
    plan: Arc<FaultPlan>,
}

#[async_trait]
impl BlobWriter for FaultyWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let work = self.inner.write(bytes);
        self.plan.run(Operation::BlobWrite, work).await
    }

    async fn finish(self: Box<Self>, expected_len: u64) -> Result<()> {
        let work = self.inner.finish(expected_len);
        self.plan.run(Operation::BlobFinish, work).await
    }
}
