//! A store for tests that answers wrongly on demand.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

/// What the next create does.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    None,
    /// It lands and is answered with "exists".
    LandsButExists,
    /// It does not land and is answered with "exists".
    LostButExists,
    /// It lands and the connection breaks.
    LandsButBreaks,
    /// It does not land and the connection breaks.
    LostAndBreaks,
    /// Every create lands, whatever is there.
    IgnoresCondition,
    /// The answer to every third request is lost; what it asks for happens.
    LosesAnswers,
    /// Deletes are not answered, and nothing is deleted.
    NeverDeletes,
    /// What a read finds is answered only after others had their turn.
    SlowReads,
}

/// A store in memory with one fault.
#[derive(Debug)]
pub(super) struct Faulty {
    inner: InMemory,
    fault: AtomicU8,
    requests: AtomicU64,
}

impl Faulty {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: InMemory::new(),
            fault: AtomicU8::new(Fault::None as u8),
            requests: AtomicU64::new(0),
        })
    }

    pub(super) fn set(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault.load(Ordering::SeqCst) == fault as u8
    }

    /// Loses the answer, where this is one of those that get lost.
    fn answer<T>(&self, answer: Result<T>) -> Result<T> {
        let request = self.requests.fetch_add(1, Ordering::SeqCst);
        match self.is(Fault::LosesAnswers) && request.is_multiple_of(3) {
            true => Err(broken()),
            false => answer,
        }
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

fn exists(path: &Path) -> Error {
    Error::AlreadyExists {
        path: path.to_string(),
        source: "injected".into(),
    }
}

fn broken() -> Error {
    Error::Generic {
        store: "faulty",
        source: "injected: connection reset".into(),
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        if options.mode != PutMode::Create {
            return self.inner.put_opts(path, payload, options).await;
        }
        if self.is(Fault::IgnoresCondition) {
            return self
                .inner
                .put_opts(path, payload, PutOptions::default())
                .await;
        }
        if self.is(Fault::LostButExists) {
            return Err(exists(path));
        }
        if self.is(Fault::LostAndBreaks) {
            return Err(broken());
        }
        let put = self.inner.put_opts(path, payload, options).await;
        let put = self.answer(put)?;
        if self.is(Fault::LandsButExists) {
            return Err(exists(path));
        }
        if self.is(Fault::LandsButBreaks) {
            return Err(broken());
        }
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let found = self.inner.get_opts(path, options).await;
        if self.is(Fault::SlowReads) {
            tokio::task::yield_now().await;
        }
        self.answer(found)
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(path, ranges).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        if self.is(Fault::NeverDeletes) {
            return futures::stream::pending().boxed();
        }
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
