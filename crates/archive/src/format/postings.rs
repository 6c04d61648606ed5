//! Postings: the ids of the logs that carry a term.
//!
//! A term with one log keeps the id in its dictionary entry. Any other has a record:
//!
//! ```text
//! short (count <= 256): count varint | bytes varint | first id, then steps less one, all varint
//! long:                 count varint | bytes of the directory varint
//!                       | per page: page step varint, ids less one varint, bytes varint
//!                       | the pages
//! ```
//! A page of a long list is a unit of its own, so that merging copies it and reading one does not
//! touch the others.

use super::wire::{Put, Reader};
use super::{Damage, Decoded, ensure, page};

/// Lists up to this length are stored whole.
pub(crate) const SHORT_MAX: usize = 256;

/// A dictionary entry's payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pointer {
    /// The one log with this term.
    One(u32),
    /// Where the record begins.
    Record(u64),
}

impl Pointer {
    /// Bits that the payload needs for ids below `ids` and records below `bytes`.
    pub(crate) fn bits(ids: u64, bytes: u64) -> u32 {
        1 + ids.max(bytes).max(2).next_power_of_two().ilog2()
    }

    pub(crate) fn encode(self) -> u64 {
        match self {
            Self::One(id) => u64::from(id) << 1,
            Self::Record(offset) => offset << 1 | 1,
        }
    }

    pub(crate) fn decode(payload: u64) -> Decoded<Self> {
        if payload & 1 == 1 {
            return Ok(Self::Record(payload >> 1));
        }
        let id = u32::try_from(payload >> 1).map_err(|_| Damage("id too large"))?;
        Ok(Self::One(id))
    }
}

/// Where one page of a long list lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageRef {
    pub(crate) page: u32,
    pub(crate) count: u32,
    /// Offset in the postings section.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// The beginning of a record: enough to know what else must be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordHead {
    pub(crate) count: u32,
    /// Where body or page directory begin and end in the postings section.
    pub(crate) body: (u64, u64),
}

/// A record's head is never longer than this.
pub(crate) const HEAD_BYTES_MAX: usize = 15;

impl RecordHead {
    /// Decodes the head that lies at `offset`.
    pub(crate) fn decode(bytes: &[u8], offset: u64) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        let count = reader.varint_u32()?;
        let len = u64::from(reader.varint_u32()?);
        ensure(count >= 2, "record of fewer than two logs")?;
        let start = offset + (bytes.len() - reader.rest().len()) as u64;
        Ok(Self {
            count,
            body: (start, start + len),
        })
    }

    pub(crate) fn is_short(&self) -> bool {
        self.count as usize <= SHORT_MAX
    }

    /// The ids of a short list.
    pub(crate) fn short_ids(&self, body: &[u8]) -> Decoded<Vec<u32>> {
        let mut reader = Reader::new(body);
        let mut ids = Vec::with_capacity(self.count as usize);
        let mut next = 0_u64;
        for _ in 0..self.count {
            let id = next.saturating_add(reader.varint()?);
            ids.push(u32::try_from(id).map_err(|_| Damage("id too large"))?);
            next = id + 1;
        }
        reader.finish()?;
        Ok(ids)
    }

    /// The pages of a long list.
    pub(crate) fn pages(&self, directory: &[u8]) -> Decoded<Vec<PageRef>> {
        let mut reader = Reader::new(directory);
        let mut pages = Vec::with_capacity(directory.len() / 3);
        let (mut next, mut start, mut total) = (0_u64, self.body.1, 0_u64);
        while !reader.is_empty() {
            let page = next.saturating_add(reader.varint()?);
            next = page.saturating_add(1);
            let page = u32::try_from(page).map_err(|_| Damage("page too large"))?;
            let count = reader
                .varint_u32()?
                .checked_add(1)
                .ok_or(Damage("page count"))?;
            ensure(count <= page::PAGE_IDS, "page count")?;
            let end = start + u64::from(reader.varint_u32()?);
            pages.push(PageRef {
                page,
                count,
                start,
                end,
            });
            (start, total) = (end, total + u64::from(count));
        }
        ensure(total == u64::from(self.count), "list count mismatch")?;
        Ok(pages)
    }
}

/// A list that is being made: whole pages, ready to be written.
#[derive(Debug, Default)]
pub(crate) struct ListBuilder {
    count: u64,
    directory: Vec<u8>,
    pages: Vec<u8>,
    next_page: u32,
    short: Vec<u32>,
    scratch: Vec<u16>,
}

impl ListBuilder {
    /// Empties it for the next term.
    pub(crate) fn clear(&mut self) {
        (self.count, self.next_page) = (0, 0);
        self.directory.clear();
        self.pages.clear();
        self.short.clear();
    }

    /// Adds rising ids; all of them after those added before and in pages of their own.
    pub(crate) fn push_ids(&mut self, ids: &[u32]) {
        let fits = self.count as usize + ids.len() <= SHORT_MAX;
        if fits && self.short.len() as u64 == self.count {
            self.short.extend_from_slice(ids);
            self.count += ids.len() as u64;
            return;
        }
        self.spill();
        self.push_paged(ids);
    }

    fn push_paged(&mut self, ids: &[u32]) {
        for chunk in ids.chunk_by(|a, b| a / page::PAGE_IDS == b / page::PAGE_IDS) {
            let first = chunk.first().copied();
            let first = first.expect("a chunk has at least one element");
            let number = first / page::PAGE_IDS;
            let mut locals = std::mem::take(&mut self.scratch);
            locals.clear();
            locals.extend(chunk.iter().map(|&id| id as u16));
            let start = self.pages.len();
            page::encode(&locals, &mut self.pages);
            let len = self.pages.len() - start;
            self.add_to_directory(number, locals.len() as u32, len);
            self.scratch = locals;
        }
    }

    /// Adds a page as it lies in another segment.
    pub(crate) fn push_page(&mut self, number: u32, count: u32, bytes: &[u8]) {
        self.spill();
        self.pages.put(bytes);
        self.add_to_directory(number, count, bytes.len());
    }

    fn add_to_directory(&mut self, number: u32, count: u32, len: usize) {
        self.directory
            .put_varint(u64::from(number - self.next_page));
        self.directory.put_varint(u64::from(count) - 1);
        self.directory.put_varint(len as u64);
        self.next_page = number + 1;
        self.count += u64::from(count);
    }

    /// Turns what was short so far into pages.
    fn spill(&mut self) {
        if self.short.is_empty() {
            return;
        }
        let ids = std::mem::take(&mut self.short);
        self.count = 0;
        self.push_paged(&ids);
    }

    /// Appends the record, if one is needed, and returns where the dictionary must point.
    pub(crate) fn finish(&mut self, offset: u64, out: &mut Vec<u8>) -> Pointer {
        if let [one] = self.short.as_slice() {
            return Pointer::One(*one);
        }
        out.put_varint(self.count);
        if self.short.is_empty() {
            out.put_bytes(&self.directory);
            out.put(&self.pages);
        } else {
            // `directory` is free in this form and serves as scratch.
            self.directory.clear();
            let mut next = 0;
            for &id in &self.short {
                self.directory.put_varint(u64::from(id) - next);
                next = u64::from(id) + 1;
            }
            out.put_bytes(&self.directory);
        }
        Pointer::Record(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn read_back(bytes: &[u8], base: u64) -> Vec<u32> {
        let head = RecordHead::decode(bytes, base).unwrap();
        let slice =
            |(start, end): (u64, u64)| &bytes[(start - base) as usize..(end - base) as usize];
        if head.is_short() {
            return head.short_ids(slice(head.body)).unwrap();
        }
        let mut ids = Vec::new();
        for place in head.pages(slice(head.body)).unwrap() {
            let page = page::decode(slice((place.start, place.end)), place.count).unwrap();
            let mut locals = Vec::new();
            page.collect_range(0, page::PAGE_IDS, &mut locals);
            ids.extend(
                locals
                    .iter()
                    .map(|&id| place.page * page::PAGE_IDS + u32::from(id)),
            );
        }
        ids
    }

    proptest! {
        /// Lists arrive page by page, as they do when segments are merged.
        #[test]
        fn lists_round_trip(set in proptest::collection::btree_set(0u32..1_000_000, 2..900)) {
            let ids: Vec<u32> = set.into_iter().collect();
            let mut builder = ListBuilder::default();
            for chunk in ids.chunk_by(|a, b| a / page::PAGE_IDS == b / page::PAGE_IDS) {
                builder.push_ids(chunk);
            }
            let mut out = Vec::new();
            prop_assert_eq!(builder.finish(77, &mut out), Pointer::Record(77));
            prop_assert_eq!(read_back(&out, 77), ids);
        }

        #[test]
        fn hostile_records_are_damage(bytes: Vec<u8>, offset in 0u64..1 << 40) {
            if let Ok(head) = RecordHead::decode(&bytes, offset) {
                let _ = head.short_ids(&bytes);
                let _ = head.pages(&bytes);
            }
        }
    }

    #[test]
    fn one_log_needs_no_record_and_pages_are_copied() {
        let mut builder = ListBuilder::default();
        builder.push_ids(&[9]);
        let mut out = Vec::new();
        assert_eq!(builder.finish(0, &mut out), Pointer::One(9));
        assert!(out.is_empty());
        assert_eq!(
            Pointer::decode(Pointer::One(9).encode()),
            Ok(Pointer::One(9))
        );
        assert_eq!(
            Pointer::decode(Pointer::Record(8).encode()),
            Ok(Pointer::Record(8))
        );

        builder.clear();
        let first: BTreeSet<u16> = (0..300).collect();
        let mut page_bytes = Vec::new();
        page::encode(&first.iter().copied().collect::<Vec<_>>(), &mut page_bytes);
        builder.push_ids(&[3, 4]);
        builder.push_page(1, 300, &page_bytes);
        builder.push_ids(&[2 * page::PAGE_IDS]);
        assert_eq!(builder.finish(0, &mut out), Pointer::Record(0));
        let ids = read_back(&out, 0);
        assert_eq!(
            (ids.len(), ids[1], ids[2], ids[302]),
            (303, 4, 65_536, 131_072)
        );
    }
}
