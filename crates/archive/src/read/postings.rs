//! Finding terms in an open segment.

use std::sync::Arc;

use bytes::Bytes;

use super::cache::{Part, Value, into_bytes};
use super::matcher::Clauses;
use super::objects::{Identity, Objects, OpenSegment, Want, all_of};
use crate::error::{Error, Result};
use crate::format::page::{self, Ids};
use crate::format::postings::{HEAD_BYTES_MAX, PageRef, Pointer, RecordHead};
use crate::format::table::PagePlace;
use crate::format::term::Term;
use crate::format::{Damage, Decoded};
use crate::state::catalog::ObjectRef;

/// The logs of one segment that carry a term.
#[derive(Debug)]
pub(crate) enum Postings {
    Short(Vec<u32>),
    /// Many ids, page by page.
    Long {
        count: u32,
        pages: Vec<PageRef>,
    },
}

impl Postings {
    /// How many logs carry the term.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Short(ids) => ids.len() as u64,
            Self::Long { count, .. } => u64::from(*count),
        }
    }

    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Short(ids) => ids.len() * 4,
            Self::Long { pages, .. } => pages.len() * size_of::<PageRef>(),
        }
    }

    /// The list's page with this number.
    pub(crate) fn page(&self, number: u32) -> Option<&PageRef> {
        match self {
            Self::Short(_) => None,
            Self::Long { pages, .. } => {
                let found = pages
                    .binary_search_by_key(&number, |place| place.page)
                    .ok()?;
                pages.get(found)
            }
        }
    }
}

impl Objects {
    /// Whether the dictionary pages in memory show that some clause has no log in a segment. False
    /// also where that would take a read to know.
    pub(crate) fn ruled_out(&self, object: &ObjectRef, clauses: &Clauses) -> bool {
        let Some(segment) = self.opened_segment(object) else {
            return false;
        };
        let directory = &segment.tables.terms;
        let absent = |term: &Term| {
            let Some(place) = directory.place_of(term.0) else {
                return true;
            };
            let page = self.cached_page(&segment.identity, Part::TermPage, place.index);
            let page = page.as_deref();
            page.is_some_and(|page| {
                directory
                    .find(term.0, page)
                    .is_ok_and(|mut found| found.next().is_none())
            })
        };
        let clauses = clauses.terms(segment.tables.facts.term_key);
        clauses.iter().any(|terms| terms.iter().all(absent))
    }

    /// The lists of these terms; none for a term that no log carries. A term that the directory
    /// alone rules out costs no read.
    pub(crate) async fn postings(
        &self,
        segment: &OpenSegment,
        terms: &[Term],
    ) -> Result<Vec<Option<Arc<Postings>>>> {
        let pointers = self.pointers(segment, terms).await?;
        let mut offsets: Vec<u64> = pointers
            .iter()
            .filter_map(|pointer| match pointer {
                Some(Pointer::Record(offset)) => Some(*offset),
                _ => None,
            })
            .collect();
        offsets.sort_unstable();
        offsets.dedup();
        let records = self.record_lists(segment, &offsets).await?;
        let resolve = |pointer: Option<Pointer>| match pointer? {
            Pointer::One(id) => Some(Arc::new(Postings::Short(vec![id]))),
            Pointer::Record(offset) => {
                let at = offsets.binary_search(&offset);
                let at = at.expect("every record that is pointed at was requested");
                let record = records.get(at).cloned();
                Some(record.expect("as many lists as were requested"))
            }
        };
        Ok(pointers.into_iter().map(resolve).collect())
    }

    async fn pointers(
        &self,
        segment: &OpenSegment,
        terms: &[Term],
    ) -> Result<Vec<Option<Pointer>>> {
        let directory = &segment.tables.terms;
        let mut places: Vec<PagePlace> = terms
            .iter()
            .filter_map(|term| directory.place_of(term.0))
            .collect();
        places.sort_unstable_by_key(|place| place.index);
        places.dedup_by_key(|place| place.index);
        let offset = segment.tables.terms_offset;
        let pages = self
            .table_pages(&segment.identity, Part::TermPage, offset, &places)
            .await?;
        let find = |term: &Term| {
            let Some(place) = directory.place_of(term.0) else {
                return Ok(None);
            };
            let at = places.binary_search_by_key(&place.index, |place| place.index);
            let page = at
                .ok()
                .and_then(|at| pages.get(at))
                .ok_or(Damage("page not loaded"))?;
            // Terms are unique in a dictionary: a second entry cannot follow.
            directory
                .find(term.0, page)?
                .next()
                .map(Pointer::decode)
                .transpose()
        };
        let found: Decoded<Vec<_>> = terms.iter().map(find).collect();
        found.map_err(|damage| Error::damaged(&segment.identity.name, damage))
    }

    /// Verified pages of a quotient table; their numbers must rise.
    pub(crate) async fn table_pages(
        &self,
        identity: &Identity,
        part: Part,
        offset: u64,
        places: &[PagePlace],
    ) -> Result<Vec<Bytes>> {
        let wants: Vec<Want> = places
            .iter()
            .map(|place| Want {
                at: u64::from(place.index),
                range: offset + place.start..offset + place.end,
            })
            .collect();
        let decode = |slot: usize, bytes: Bytes| {
            places
                .get(slot)
                .ok_or(Damage("page not requested"))?
                .verify(&bytes)?;
            Ok(Value::own(&bytes))
        };
        let values = self.load(identity, part, &wants, decode).await?;
        all_of(identity, values, into_bytes)
    }

    /// The records at these offsets, which must rise. Lists are cached decoded.
    async fn record_lists(
        &self,
        segment: &OpenSegment,
        offsets: &[u64],
    ) -> Result<Vec<Arc<Postings>>> {
        let heads: Vec<(u64, u64)> = offsets
            .iter()
            .map(|&at| (at, at + HEAD_BYTES_MAX as u64))
            .collect();
        let mut found = Vec::with_capacity(offsets.len());
        // A list that is cached needs none of its blocks.
        let wants: Vec<Want> = offsets.iter().map(|&at| Want { at, range: 0..0 }).collect();
        let cached = self.cached(&segment.identity, Part::Postings, &wants);
        let open: Vec<(u64, u64)> = heads
            .iter()
            .zip(&cached)
            .filter(|(_, hit)| hit.is_none())
            .map(|(head, _)| *head)
            .collect();
        let blocks = self.posting_blocks(segment, &open).await?;
        let mut bodies = Vec::with_capacity(open.len());
        for &(start, end) in &open {
            let bytes = blocks.slice(start, end.min(segment.tables.postings.len));
            let head = bytes.and_then(|bytes| RecordHead::decode(&bytes, start));
            bodies.push(head.map_err(|damage| Error::damaged(&segment.identity.name, damage))?);
        }
        let places: Vec<(u64, u64)> = bodies.iter().map(|head| head.body).collect();
        let blocks = self.posting_blocks(segment, &places).await?;
        let mut heads = bodies.iter();
        for (hit, &offset) in cached.into_iter().zip(offsets) {
            if let Some(Value::Postings(postings)) = hit {
                found.push(postings);
                continue;
            }
            let postings = heads.next().ok_or(Damage("record not loaded"));
            let postings = postings.and_then(|head| decode_record(head, &blocks));
            let postings =
                postings.map_err(|damage| Error::damaged(&segment.identity.name, damage))?;
            let postings = Arc::new(postings);
            self.keep(
                &segment.identity,
                Part::Postings,
                offset,
                Value::Postings(postings.clone()),
            );
            found.push(postings);
        }
        Ok(found)
    }

    /// All blocks of the postings section that these places touch, read together.
    async fn posting_blocks(
        &self,
        segment: &OpenSegment,
        places: &[(u64, u64)],
    ) -> Result<LoadedBlocks> {
        let section = &segment.tables.postings;
        let mut numbers: Vec<u64> = places
            .iter()
            .filter(|(start, _)| *start < section.len)
            .flat_map(|&(start, end)| {
                let last = end.min(section.len).saturating_sub(1).max(start);
                start / section.block_bytes..=last / section.block_bytes
            })
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        let blocks = self.blocks(segment, Part::PostingBlock, &numbers).await?;
        Ok(LoadedBlocks {
            block_bytes: section.block_bytes,
            numbers,
            blocks,
        })
    }

    /// How many of these pages are in memory.
    pub(crate) fn pages_in_memory(&self, segment: &OpenSegment, places: &[PageRef]) -> usize {
        let there = |place: &&PageRef| self.has(&segment.identity, Part::PostingPage, place.start);
        places.iter().filter(there).count()
    }

    /// Pages of long lists, decoded. Places must rise by their offset. Their blocks are read past
    /// the cache: a page is kept once, in the form that is used.
    pub(crate) async fn posting_pages(
        &self,
        segment: &OpenSegment,
        places: &[PageRef],
    ) -> Result<Vec<Arc<Ids>>> {
        let section = &segment.tables.postings;
        let unit = section.block_bytes;
        let wants: Vec<Want> = places
            .iter()
            .map(|place| {
                let start = place.start / unit * unit;
                let end = (place.end.div_ceil(unit) * unit).min(section.len);
                let (start, end) = (section.offset + start, section.offset + end.max(start));
                Want {
                    at: place.start,
                    range: start..end,
                }
            })
            .collect();
        let decode = |slot: usize, bytes: Bytes| {
            let place = places.get(slot).ok_or(Damage("page not requested"))?;
            for (at, block) in bytes.chunks(unit as usize).enumerate() {
                section.verify(place.start / unit + at as u64, block)?;
            }
            let skip = (place.start % unit) as usize;
            let page = bytes.get(skip..skip + (place.end - place.start) as usize);
            let page = page.ok_or(Damage("page outside its section"))?;
            Ok(Value::Ids(Arc::new(page::decode(page, place.count)?)))
        };
        let values = self
            .load(&segment.identity, Part::PostingPage, &wants, decode)
            .await?;
        let ids = |value| match value {
            Value::Ids(ids) => Some(ids),
            _ => None,
        };
        all_of(&segment.identity, values, ids)
    }
}

fn decode_record(head: &RecordHead, blocks: &LoadedBlocks) -> Decoded<Postings> {
    let body = blocks.slice(head.body.0, head.body.1)?;
    if head.is_short() {
        return head.short_ids(&body).map(Postings::Short);
    }
    Ok(Postings::Long {
        count: head.count,
        pages: head.pages(&body)?,
    })
}

/// Blocks of a section, from which slices that may cross their borders are taken.
struct LoadedBlocks {
    block_bytes: u64,
    numbers: Vec<u64>,
    blocks: Vec<Bytes>,
}

impl LoadedBlocks {
    fn slice(&self, start: u64, end: u64) -> Decoded<Bytes> {
        let damage = Damage("record outside its section");
        if start >= end {
            return if start == end {
                Ok(Bytes::new())
            } else {
                Err(damage)
            };
        }
        let first = start / self.block_bytes;
        let at = self.numbers.binary_search(&first).map_err(|_| damage)?;
        let skip = (start - first * self.block_bytes) as usize;
        let len = usize::try_from(end - start).map_err(|_| damage)?;
        let block = self.blocks.get(at).ok_or(damage)?;
        if skip + len <= block.len() {
            return Ok(block.slice(skip..skip + len));
        }
        let mut whole = Vec::new();
        for (place, block) in self.blocks.iter().enumerate().skip(at) {
            let expected = first + (place - at) as u64;
            if self.numbers.get(place) != Some(&expected) {
                break;
            }
            let skip = if place == at { skip } else { 0 };
            whole.extend_from_slice(block.get(skip..).ok_or(damage)?);
            if whole.len() >= len {
                whole.truncate(len);
                return Ok(whole.into());
            }
        }
        Err(damage)
    }
}
