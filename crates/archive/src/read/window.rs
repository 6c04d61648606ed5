//! Reading a section from front to back in large steps, past the cache: how merging reads.

use bytes::Bytes;

use super::objects::Objects;
use crate::error::{Error, Result};
use crate::format::Damage;
use crate::format::segment::BlockedSection;
use crate::format::table::TableDirectory;

/// Bytes that are read at once.
pub(crate) const STEP_BYTES: u64 = 1 << 20;

/// A part of a section that is in memory, and moves forward.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    objects: &'a Objects,
    name: &'a str,
    /// Where the section lies in the object, and how long it is.
    offset: u64,
    len: u64,
    blocks: Option<&'a BlockedSection>,
    start: u64,
    bytes: Bytes,
}

impl<'a> Window<'a> {
    /// Over a section whose units carry their own checksums: the caller verifies.
    pub(crate) fn new(objects: &'a Objects, name: &'a str, (offset, len): (u64, u64)) -> Self {
        Self {
            objects,
            name,
            offset,
            len,
            blocks: None,
            start: 0,
            bytes: Bytes::new(),
        }
    }

    /// Over a section that is read and verified in blocks.
    pub(crate) fn blocked(
        objects: &'a Objects,
        name: &'a str,
        section: &'a BlockedSection,
    ) -> Self {
        let place = (section.offset, section.len);
        Self {
            blocks: Some(section),
            ..Self::new(objects, name, place)
        }
    }

    /// The bytes from `start` to `end`; starts must not fall.
    pub(crate) async fn slice(&mut self, start: u64, end: u64) -> Result<Bytes> {
        let inside = start >= self.start && end <= self.start + self.bytes.len() as u64;
        if !inside {
            self.advance(start, end).await?;
        }
        let (from, to) = ((start - self.start) as usize, (end - self.start) as usize);
        if from <= to && to <= self.bytes.len() {
            return Ok(self.bytes.slice(from..to));
        }
        Err(Error::damaged(self.name, Damage("read beyond a section")))
    }

    async fn advance(&mut self, start: u64, end: u64) -> Result<()> {
        let unit = self.blocks.map_or(1, |blocks| blocks.block_bytes);
        let from = start / unit * unit;
        let to = end.max(from + STEP_BYTES).div_ceil(unit) * unit;
        let to = to.min(self.len);
        if from > to || end > self.len {
            return Err(Error::damaged(self.name, Damage("read beyond a section")));
        }
        let blobs = self.objects.blobs();
        let read = blobs
            .range(self.name, self.offset + from..self.offset + to)
            .await;
        self.bytes = read.map_err(|error| Error::reading(self.name, error))?;
        self.start = from;
        if let Some(blocks) = self.blocks {
            for (at, block) in self.bytes.chunks(unit as usize).enumerate() {
                blocks
                    .verify(from / unit + at as u64, block)
                    .map_err(|damage| Error::damaged(self.name, damage))?;
            }
        }
        Ok(())
    }
}

/// The entries of a quotient table in order.
#[derive(Debug)]
pub(crate) struct TableCursor<'a> {
    window: Window<'a>,
    table: &'a TableDirectory,
    page: usize,
    /// Entries of the page at hand, the next one last.
    entries: Vec<(u64, u64)>,
}

impl<'a> TableCursor<'a> {
    pub(crate) fn new(window: Window<'a>, table: &'a TableDirectory) -> Self {
        Self {
            window,
            table,
            page: 0,
            entries: Vec::new(),
        }
    }

    /// The entries of the next page, in order; none after the last.
    pub(crate) async fn next_page(&mut self) -> Result<Option<Vec<(u64, u64)>>> {
        let Some(place) = self.table.place(self.page) else {
            return Ok(None);
        };
        let bytes = self.window.slice(place.start, place.end).await?;
        let entries = if bytes.is_empty() {
            Ok(Vec::new())
        } else {
            place
                .verify(&bytes)
                .and_then(|()| self.table.entries_of(self.page, &bytes))
        };
        self.page += 1;
        let damaged = |damage| Error::damaged(self.window.name, damage);
        entries.map(Some).map_err(damaged)
    }

    /// The next entry, which stays next until [`Self::pop`].
    pub(crate) async fn peek(&mut self) -> Result<Option<(u64, u64)>> {
        while self.entries.is_empty() {
            let Some(entries) = self.next_page().await? else {
                return Ok(None);
            };
            self.entries = entries;
            self.entries.reverse();
        }
        Ok(self.entries.last().copied())
    }

    pub(crate) fn pop(&mut self) {
        self.entries.pop();
    }
}
