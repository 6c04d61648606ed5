//! The summaries of all objects in a store.

use bytes::Bytes;
use chronolith_model::{BlockRange, BlockRef, Hash32};
use chronolith_store::{BlobInfo, BlobStore};

use crate::error::{Error, Result};
use crate::format::container::{Container, FOOTER_BYTES, Footer, ObjectKind, Section};
use crate::format::segment::SegmentTables;
use crate::format::{Decoded, ensure};
use crate::maintenance::gc::list;
use crate::state::catalog::{ObjectRef, PackContent, SegmentEntry};
use crate::write::pack::decode_summary;

/// The end of an object that is read first: footer and trailer, but for very long trailers.
const END_BYTES: u64 = 4 << 10;
/// Trailers name sections, of which there are few: one that is longer is none.
const TRAILER_BYTES_MAX: u64 = 64 << 10;

/// Everything that could be read, and what could not.
pub(super) struct Scanned {
    pub(super) segments: Vec<Found>,
    pub(super) runs: Vec<FoundPart>,
    pub(super) packs: Vec<FoundPart>,
    /// Objects that could not be read, and why.
    pub(super) damaged: Vec<(String, String)>,
}

/// A segment that was found.
pub(super) struct Found {
    pub(super) entry: SegmentEntry,
    pub(super) last_timestamp: u64,
}

impl Found {
    /// Its last block.
    pub(super) fn end(&self) -> BlockRef {
        self.entry.facts.last_block()
    }
}

/// A pack or a run that was found.
pub(super) struct FoundPart {
    pub(super) object: ObjectRef,
    pub(super) range: BlockRange,
    pub(super) last_hash: Hash32,
    pub(super) content: PackContent,
}

impl Scanned {
    pub(super) async fn read(blobs: &dyn BlobStore) -> Result<Self> {
        let mut damaged = Vec::new();
        Ok(Self {
            segments: segments(blobs, &mut damaged).await?,
            runs: scan(blobs, &["run/"], &mut damaged, read_part(ObjectKind::Run)).await?,
            packs: scan(blobs, &["pack/"], &mut damaged, read_part(ObjectKind::Pack)).await?,
            damaged,
        })
    }

    /// Names of everything that could be read.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let segments = self.segments.iter().map(|found| &found.entry.object);
        let parts = self.runs.iter().chain(&self.packs).map(|part| &part.object);
        segments.chain(parts).map(|object| object.name.as_str())
    }
}

/// Every segment and batch.
pub(super) async fn segments(
    blobs: &dyn BlobStore,
    damaged: &mut Vec<(String, String)>,
) -> Result<Vec<Found>> {
    scan(blobs, &["seg/", "bat/"], damaged, read_segment).await
}

/// Reads the summary of every object of these folders.
async fn scan<T>(
    blobs: &dyn BlobStore,
    folders: &[&str],
    damaged: &mut Vec<(String, String)>,
    read: impl Fn(ObjectRef, Bytes) -> Decoded<T>,
) -> Result<Vec<T>> {
    let mut found = Vec::new();
    for folder in folders {
        for info in list(blobs, folder).await? {
            match read_tail(blobs, &info).await {
                Ok((object, tail)) => match read(object, tail) {
                    Ok(part) => found.push(part),
                    Err(damage) => damaged.push((info.name, damage.0.to_owned())),
                },
                Err(Error::Corrupt { object, reason }) => damaged.push((object, reason)),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

/// The end of an object, from where its tables begin. The trailer is checked before: a damaged footer could
/// name any byte, and the whole of an object of gigabytes would be read into memory.
async fn read_tail(blobs: &dyn BlobStore, info: &BlobInfo) -> Result<(ObjectRef, Bytes)> {
    let (name, len) = (info.name.clone(), info.len);
    let damaged = |damage| Error::damaged(&info.name, damage);
    let read = async |from: u64| {
        let read = blobs.range(&name, from..len).await;
        read.map_err(|error| Error::reading(&info.name, error))
    };
    let end_start = len.saturating_sub(END_BYTES);
    let mut end = read(end_start).await?;
    let footer = end.slice(end.len().saturating_sub(FOOTER_BYTES as usize)..);
    let footer = Footer::decode_within(&footer, len).map_err(damaged)?;
    let end_len = len - footer.trailer_start;
    ensure(end_len <= TRAILER_BYTES_MAX, "trailer too long").map_err(damaged)?;
    end = match footer.trailer_start.checked_sub(end_start) {
        Some(at) => end.slice(at as usize..),
        None => read(footer.trailer_start).await?,
    };
    end.truncate((end_len - FOOTER_BYTES) as usize);
    footer.check(&end).map_err(damaged)?;
    let tables_start = footer.tables_start;
    let tail = read(tables_start).await?;
    let object = ObjectRef {
        name,
        len,
        tables_start,
    };
    Ok((object, tail))
}

fn read_segment(object: ObjectRef, tail: Bytes) -> Decoded<Found> {
    let tables = SegmentTables::decode(tail, object.tables_start)?;
    // A batch becomes a sealed segment: its content is the same. One without hashes of its own
    // was merged.
    let tier = if tables.hashes.is_some() { 1 } else { 2 };
    Ok(Found {
        entry: SegmentEntry {
            object,
            tier,
            facts: tables.facts.clone(),
            keys: None,
        },
        last_timestamp: tables.facts.last_timestamp,
    })
}

fn read_part(kind: ObjectKind) -> impl Fn(ObjectRef, Bytes) -> Decoded<FoundPart> {
    move |object, tail| {
        let container = Container::parse(tail, object.tables_start, kind)?;
        let (range, last_hash, content) = decode_summary(&container.table(Section::Summary)?)?;
        Ok(FoundPart {
            object,
            range,
            last_hash,
            content,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};

    use async_trait::async_trait;
    use chronolith_store::{BlobWriter, MemoryBlobs};

    use super::*;
    use crate::format::container::ContainerBuilder;

    /// Counts the bytes that are read.
    #[derive(Default, Debug)]
    struct Counting {
        inner: MemoryBlobs,
        read: AtomicU64,
    }

    #[async_trait]
    impl BlobStore for Counting {
        async fn put(&self, name: &str, bytes: Bytes) -> chronolith_store::Result<()> {
            self.inner.put(name, bytes).await
        }
        async fn create(&self, name: &str) -> chronolith_store::Result<Box<dyn BlobWriter>> {
            self.inner.create(name).await
        }
        async fn get(&self, name: &str) -> chronolith_store::Result<Bytes> {
            self.inner.get(name).await
        }
        async fn range(&self, name: &str, range: Range<u64>) -> chronolith_store::Result<Bytes> {
            self.read
                .fetch_add(range.end - range.start, Ordering::Relaxed);
            self.inner.range(name, range).await
        }
        async fn ranges(
            &self,
            name: &str,
            ranges: &[Range<u64>],
        ) -> chronolith_store::Result<Vec<Bytes>> {
            self.inner.ranges(name, ranges).await
        }
        async fn list(
            &self,
            prefix: &str,
            after: Option<&str>,
            limit: usize,
        ) -> chronolith_store::Result<Vec<BlobInfo>> {
            self.inner.list(prefix, after, limit).await
        }
        async fn delete(&self, name: &str) -> chronolith_store::Result<()> {
            self.inner.delete(name).await
        }
    }

    /// A flipped bit in the footer named another beginning of the tables, and an object of gigabytes was
    /// read into memory before its checksum was looked at.
    #[tokio::test]
    async fn a_damaged_footer_lets_little_be_read() {
        let mut writer = ContainerBuilder::new(ObjectKind::Run);
        writer.begin(Section::Postings);
        writer.buffer().resize(1 << 20, 7);
        writer.table(Section::Summary, vec![1; 100]);
        writer.finish();
        let whole = writer.drain();
        let blobs = Counting::default();
        let name = "run/a";
        let info = BlobInfo {
            name: name.to_owned(),
            len: whole.len() as u64,
        };
        blobs.put(name, whole.clone()).await.unwrap();
        read_tail(&blobs, &info).await.unwrap();
        let footer = whole.len() - FOOTER_BYTES as usize;
        for bit in 0..8 * FOOTER_BYTES as usize {
            let mut damaged = whole.to_vec();
            damaged[footer + bit / 8] ^= 1 << (bit % 8);
            blobs.put(name, damaged.into()).await.unwrap();
            blobs.read.store(0, Ordering::Relaxed);
            let read = read_tail(&blobs, &info).await;
            assert!(matches!(read, Err(Error::Corrupt { .. })), "bit {bit}");
            let bytes = blobs.read.load(Ordering::Relaxed);
            assert!(bytes <= END_BYTES + TRAILER_BYTES_MAX, "bit {bit}: {bytes}");
        }
    }
}
