//! Where the archive lies, and how it is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chronolith_archive::{Archive, GcMode, Settings};
use chronolith_model::ChainId;
use chronolith_store::{
    BlobStore, FileBlobs, FileMeta, MemoryBlobs, MemoryMeta, MetaStore, TakeOver,
};

/// A place for one archive.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Files(PathBuf),
    Memory(Arc<MemoryMeta>, Arc<MemoryBlobs>),
}

impl Place {
    /// Memory of its own.
    pub(crate) fn memory() -> Self {
        Self::Memory(Arc::new(MemoryMeta::new()), Arc::new(MemoryBlobs::new()))
    }

    /// Opens it for writing with the settings everybody gets.
    pub(crate) async fn writer(&self) -> Result<Archive> {
        self.writer_with(settings()).await
    }

    /// Opens it for writing a chain that ends with a cell of the grid, so that all of it is merged.
    pub(crate) async fn writer_of_cell(&self, blocks: u64) -> Result<Archive> {
        let mut settings = settings();
        (settings.seal.grid_blocks, settings.seal.range_blocks) = (blocks, blocks);
        self.writer_with(settings).await
    }

    async fn writer_with(&self, settings: Settings) -> Result<Archive> {
        let (meta, blobs): (Arc<dyn MetaStore>, Arc<dyn BlobStore>) = match self {
            Self::Files(path) => (
                Arc::new(FileMeta::open_writer(path)?),
                Arc::new(FileBlobs::open_writer(path)?),
            ),
            Self::Memory(meta, blobs) => (meta.clone(), blobs.clone()),
        };
        let archive = Archive::open_writer(meta, blobs, settings, TakeOver::NoWait).await;
        archive.context("open the archive for writing")
    }

    /// Opens it for reading.
    pub(crate) async fn reader(&self) -> Result<Archive> {
        let (meta, blobs): (Arc<dyn MetaStore>, Arc<dyn BlobStore>) = match self {
            Self::Files(path) => (
                Arc::new(FileMeta::open_reader(path)),
                Arc::new(FileBlobs::open_reader(path)),
            ),
            Self::Memory(meta, blobs) => (meta.clone(), blobs.clone()),
        };
        let archive = Archive::open_reader(meta, blobs, settings()).await;
        archive.context("open the archive for reading")
    }

    /// Removes what nothing names any more, without the time of grace for other readers.
    pub(crate) async fn collect_garbage(&self) -> Result<()> {
        let mut settings = settings();
        settings.garbage.grace = Duration::ZERO;
        let archive = self.writer_with(settings).await?;
        // What this collection publishes may itself leave something behind.
        while archive.collect_garbage(GcMode::Remove).await?.removed > 0 {}
        Ok(())
    }
}

fn settings() -> Settings {
    Settings::evm(ChainId(1))
}
