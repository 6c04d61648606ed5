//! What objects say of themselves: the summaries of everything in a store.

use bytes::Bytes;
use chronolith_model::{BlockRange, BlockRef, Hash32};
use chronolith_store::{BlobInfo, BlobStore};

use crate::catalog::{ObjectRef, PackContent, SegmentEntry};
use crate::error::{Error, Result};
use crate::format::Decoded;
use crate::format::container::{Container, FOOTER_BYTES, ObjectKind, Section, tables_start};
use crate::format::segment::SegmentTables;
use crate::write::pack::decode_summary;

const LIST_PAGE: usize = 1000;

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
        let facts = &self.entry.facts;
        BlockRef {
            number: facts.range.end - 1,
            hash: facts.last_hash,
        }
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
            runs: scan(blobs, &["run/"], &mut damaged, read_run).await?,
            packs: scan(blobs, &["pack/"], &mut damaged, read_pack).await?,
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

/// Reads what every object of these folders says of itself.
async fn scan<T>(
    blobs: &dyn BlobStore,
    folders: &[&str],
    damaged: &mut Vec<(String, String)>,
    read: impl Fn(ObjectRef, Bytes) -> Decoded<T>,
) -> Result<Vec<T>> {
    let mut found = Vec::new();
    for folder in folders {
        let mut after: Option<String> = None;
        loop {
            let page = blobs.list(folder, after.as_deref(), LIST_PAGE).await;
            let page = page.map_err(Error::store("list objects"))?;
            let full = page.len() == LIST_PAGE;
            after = page.last().map(|info| info.name.clone());
            for info in page {
                match read_tail(blobs, &info).await {
                    Ok((object, tail)) => match read(object, tail) {
                        Ok(part) => found.push(part),
                        Err(damage) => damaged.push((info.name, damage.0.to_owned())),
                    },
                    Err(Error::Corrupt { object, reason }) => damaged.push((object, reason)),
                    Err(error) => return Err(error),
                }
            }
            if !full {
                break;
            }
        }
    }
    Ok(found)
}

/// The end of an object, from where its tables begin.
async fn read_tail(blobs: &dyn BlobStore, info: &BlobInfo) -> Result<(ObjectRef, Bytes)> {
    let (name, len) = (info.name.clone(), info.len);
    let reading = |error| Error::reading(&info.name, error);
    let footer = blobs
        .range(&name, len.saturating_sub(FOOTER_BYTES)..len)
        .await
        .map_err(reading)?;
    let tables_start = tables_start(&footer)
        .map_err(|damage| Error::damaged(&info.name, damage))?
        .min(len);
    let tail = blobs
        .range(&name, tables_start..len)
        .await
        .map_err(reading)?;
    Ok((
        ObjectRef {
            name,
            len,
            tables_start,
        },
        tail,
    ))
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

fn read_run(object: ObjectRef, tail: Bytes) -> Decoded<FoundPart> {
    read_part(object, tail, ObjectKind::Run)
}

fn read_pack(object: ObjectRef, tail: Bytes) -> Decoded<FoundPart> {
    read_part(object, tail, ObjectKind::Pack)
}

fn read_part(object: ObjectRef, tail: Bytes, kind: ObjectKind) -> Decoded<FoundPart> {
    let container = Container::parse(tail, object.tables_start, kind)?;
    let (range, last_hash, content) = decode_summary(&container.table(Section::Summary)?)?;
    Ok(FoundPart {
        object,
        range,
        last_hash,
        content,
    })
}
