//! An object being written: a file in `tmp/` that is renamed when it is whole.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::blobs::Inner;
use super::disk::{blocking, failed, place_taken, sync_directory};
use crate::name::{check_len, earlier_write_failed};
use crate::{BlobWriter, Result, crash};

/// Bytes gathered before they are handed to a blocking thread.
const BUFFER_BYTES: usize = 1 << 20;

/// A file in `tmp/`, removed when dropped unless it was put in place.
#[derive(Debug)]
pub(super) struct TmpFile {
    path: PathBuf,
    file: File,
    in_place: bool,
}

impl TmpFile {
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let file = File::create_new(&path);
        let file = file.map_err(|error| failed("create object", &path, error))?;
        Ok(Self {
            path,
            file,
            in_place: false,
        })
    }

    pub(super) fn write(&mut self, chunks: &[Bytes]) -> Result<()> {
        for chunk in chunks {
            let written = self.file.write_all(chunk);
            written.map_err(|error| failed("write object", &self.path, error))?;
        }
        Ok(())
    }

    /// Makes the bytes durable, then the name.
    pub(super) fn put_in_place(mut self, target: &Path) -> Result<()> {
        let synced = self.file.sync_all();
        synced.map_err(|error| failed("sync object", &self.path, error))?;
        crash::step();
        fs::rename(&self.path, target).map_err(|error| place_taken(target, error))?;
        self.in_place = true;
        crash::step();
        target.parent().map_or(Ok(()), sync_directory)
    }
}

impl Drop for TmpFile {
    fn drop(&mut self) {
        if !self.in_place {
            // If this fails, the next writer that opens the directory removes it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes one object.
#[derive(Debug)]
pub(super) struct FileWriter {
    inner: Arc<Inner>,
    name: String,
    /// Away while bytes are written; a write that failed or was dropped never brings it back, and
    /// so the object can never be finished with a gap in it.
    file: Option<TmpFile>,
    buffer: Vec<Bytes>,
    buffered: usize,
    arrived: u64,
}

impl FileWriter {
    pub(super) fn new(inner: Arc<Inner>, name: &str, file: TmpFile) -> Self {
        Self {
            inner,
            name: name.to_owned(),
            file: Some(file),
            buffer: Vec::new(),
            buffered: 0,
            arrived: 0,
        }
    }

    fn take_file(&mut self) -> Result<TmpFile> {
        self.file
            .take()
            .ok_or_else(|| earlier_write_failed(&self.name))
    }
}

#[async_trait]
impl BlobWriter for FileWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.arrived += bytes.len() as u64;
        self.buffered += bytes.len();
        self.buffer.push(bytes);
        if self.buffered < BUFFER_BYTES {
            return Ok(());
        }
        let mut file = self.take_file()?;
        let chunks = std::mem::take(&mut self.buffer);
        self.buffered = 0;
        let written = blocking(move || file.write(&chunks).map(|()| file));
        self.file = Some(written.await?);
        Ok(())
    }

    async fn finish(mut self: Box<Self>, expected_len: u64) -> Result<()> {
        let mut file = self.take_file()?;
        check_len(&self.name, self.arrived, expected_len)?;
        let Self {
            inner,
            name,
            buffer,
            ..
        } = *self;
        blocking(move || {
            file.write(&buffer)?;
            inner.put_in_place(&name, file)
        })
        .await
    }
}
