//! An object being uploaded in parts. It exists only when the upload is completed.
//!
//! What fits into one part is put whole. A dropped upload leaves parts that no list shows; stores
//! keep them until they are removed, so a bucket wants a rule that removes unfinished uploads.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload, UploadPart};

use super::failed;
use crate::name::{check_len, earlier_write_failed};
use crate::{BlobWriter, Error, Result};

/// The size of a part. S3 takes 10,000 parts, so objects up to 78 GiB.
const PART_BYTES: usize = 8 << 20;

/// Parts that are under way at once.
const PARTS_IN_FLIGHT: usize = 4;

#[derive(Debug)]
pub(super) struct ObjectWriter {
    store: Arc<dyn ObjectStore>,
    key: Path,
    name: String,
    upload: Option<Box<dyn MultipartUpload>>,
    parts: FuturesUnordered<UploadPart>,
    buffer: Vec<Bytes>,
    buffered: usize,
    arrived: u64,
    /// A write failed or was dropped: there may be a gap.
    broken: bool,
}

impl ObjectWriter {
    pub(super) fn new(store: Arc<dyn ObjectStore>, key: Path, name: &str) -> Self {
        Self {
            store,
            key,
            name: name.to_owned(),
            upload: None,
            parts: FuturesUnordered::new(),
            buffer: Vec::new(),
            buffered: 0,
            arrived: 0,
            broken: false,
        }
    }

    /// Begins to upload all full parts, and waits until few are under way.
    async fn send_full_parts(&mut self) -> Result<()> {
        while self.buffered >= PART_BYTES {
            let part = self.take_part();
            self.send(part).await?;
        }
        while self.parts.len() > PARTS_IN_FLIGHT {
            self.wait_for_a_part().await?;
        }
        Ok(())
    }

    /// Exactly one part from the buffer: some stores want all but the last of equal size.
    fn take_part(&mut self) -> PutPayload {
        let mut part = Vec::new();
        let mut missing = PART_BYTES.min(self.buffered);
        self.buffered -= missing;
        let mut rest = Vec::new();
        for mut chunk in std::mem::take(&mut self.buffer) {
            let head = chunk.split_to(chunk.len().min(missing));
            missing -= head.len();
            part.push(head);
            if !chunk.is_empty() {
                rest.push(chunk);
            }
        }
        self.buffer = rest;
        part.into_iter().collect()
    }

    async fn send(&mut self, part: PutPayload) -> Result<()> {
        if self.upload.is_none() {
            let upload = self.store.put_multipart(&self.key).await;
            self.upload = Some(upload.map_err(|error| failed("begin object", &self.name, error))?);
        }
        if let Some(upload) = &mut self.upload {
            self.parts.push(upload.put_part(part));
        }
        Ok(())
    }

    async fn wait_for_a_part(&mut self) -> Result<()> {
        match self.parts.next().await {
            Some(Err(error)) => Err(failed("upload part", &self.name, error)),
            _ => Ok(()),
        }
    }

    async fn complete(&mut self) -> Result<()> {
        if self.buffered > 0 {
            let last = self.take_part();
            self.send(last).await?;
        }
        while !self.parts.is_empty() {
            self.wait_for_a_part().await?;
        }
        if let Some(upload) = &mut self.upload {
            let completed = upload.complete().await;
            completed.map_err(|error| failed("complete object", &self.name, error))?;
        }
        let stored = self.store.head(&self.key).await;
        let stored = stored.map_err(|error| failed("look up object", &self.name, error))?;
        if stored.size == self.arrived {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "store kept another length (name={}, kept={}, sent={})",
            self.name, stored.size, self.arrived
        )))
    }

    /// Best effort: what remains is invisible.
    async fn abort(&mut self) {
        if let Some(mut upload) = self.upload.take()
            && let Err(error) = upload.abort().await
        {
            tracing::debug!(name = self.name, %error, "abort of an upload failed");
        }
    }
}

#[async_trait]
impl BlobWriter for ObjectWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.arrived += bytes.len() as u64;
        self.buffered += bytes.len();
        self.buffer.push(bytes);
        let broken = std::mem::replace(&mut self.broken, true);
        self.send_full_parts().await?;
        self.broken = broken;
        Ok(())
    }

    async fn finish(mut self: Box<Self>, expected_len: u64) -> Result<()> {
        if self.broken {
            self.abort().await;
            return Err(earlier_write_failed(&self.name));
        }
        if let Err(error) = check_len(&self.name, self.arrived, expected_len) {
            self.abort().await;
            return Err(error);
        }
        if self.upload.is_none() {
            let whole = self.take_part();
            let put = self.store.put(&self.key, whole).await;
            put.map_err(|error| failed("put object", &self.name, error))?;
            return Ok(());
        }
        let completed = self.complete().await;
        if completed.is_err() {
            self.abort().await;
        }
        completed
    }
}
