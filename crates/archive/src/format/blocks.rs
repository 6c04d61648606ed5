//! The block table of a segment: when each block was, and where its rows and transactions begin.
//!
//! Blocks lie in pages of up to 64, and no page crosses a stretch, so that merging copies pages as
//! they are. The steps from time to time are stored as what they exceed the least step of their
//! page by, in as many bits as the largest needs: a chain with a steady clock takes none. Where no
//! block of a page has a log or a transaction, nothing is stored of them.
//!
//! ```text
//! page: blocks u8 | first time varint | (width << 1 | counted) u8 | least step signed
//!       | (blocks - 1) steps, bit by bit | if counted, per block: (logs << 1 | odd) varint,
//!       transactions varint
//! ```
//! The table stays in memory as it is stored, with one small entry a page to find it by. Hashes of
//! blocks are 32 times as large as their times and lie apart.

use bytes::Bytes;

use super::facts::SegmentFacts;
use super::segment::PlacedStretch;
use super::wire::{Put, Reader};
use super::{Damage, Decoded, ensure};

/// Blocks of a page.
pub(crate) const PAGE_BLOCKS: usize = 64;
const WIDTH_MAX: u32 = 64;
/// How far from where it is guessed a page is looked for first.
const GALLOP_PAGES: usize = 8;

/// What the table stores of one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRecord {
    pub(crate) timestamp: u64,
    pub(crate) logs: u32,
    pub(crate) txs: u32,
    /// Whether positions of transactions are 0, 1, 2 … and so need not be stored.
    pub(crate) txs_in_sequence: bool,
}

impl BlockRecord {
    fn is_bare(&self) -> bool {
        self.logs == 0 && self.txs == 0 && self.txs_in_sequence
    }
}

/// A block of the table, with everything before it counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockEntry {
    /// Its place in the segment.
    pub(crate) place: u32,
    pub(crate) timestamp: u64,
    pub(crate) logs: u32,
    pub(crate) txs: u32,
    pub(crate) txs_in_sequence: bool,
    /// Id of the first row and ordinal of the first transaction in the segment.
    pub(crate) first_id: u32,
    pub(crate) first_tx: u32,
}

impl BlockEntry {
    /// Whether the row with this id is of this block.
    pub(crate) fn has(&self, id: u32) -> bool {
        id.checked_sub(self.first_id)
            .is_some_and(|row| row < self.logs)
    }
}

/// Appends the blocks of one stretch.
pub(crate) fn encode_stretch(blocks: impl Iterator<Item = BlockRecord>, out: &mut Vec<u8>) {
    let mut page = Vec::with_capacity(PAGE_BLOCKS);
    for block in blocks {
        page.push(block);
        if page.len() == PAGE_BLOCKS {
            encode_page(&page, out);
            page.clear();
        }
    }
    encode_page(&page, out);
}

fn encode_page(blocks: &[BlockRecord], out: &mut Vec<u8>) {
    let Some(first) = blocks.first() else { return };
    let step = |pair: &[BlockRecord]| match pair {
        [before, next] => next.timestamp.wrapping_sub(before.timestamp) as i64,
        _ => 0,
    };
    let steps = || blocks.windows(2).map(step);
    // A page of one block has no steps: zero is what is stored of none.
    let least = steps().min().unwrap_or(0);
    let over = |step: i64| step.wrapping_sub(least) as u64;
    let width = u64::BITS - steps().map(over).max().unwrap_or(0).leading_zeros();
    let counted = !blocks.iter().all(BlockRecord::is_bare);
    out.put_u8(blocks.len() as u8);
    out.put_varint(first.timestamp);
    out.put_u8((width << 1) as u8 | u8::from(counted));
    out.put_signed(least);
    out.put_packed(width, steps().map(over));
    for block in blocks.iter().filter(|_| counted) {
        out.put_varint(u64::from(block.logs) << 1 | u64::from(!block.txs_in_sequence));
        out.put_varint(u64::from(block.txs));
    }
}

/// A page whose steps are known to be there.
#[derive(Clone, Copy)]
struct PageView<'a> {
    blocks: u32,
    first_time: u64,
    least: i64,
    width: u32,
    steps: &'a [u8],
    /// What lies after the steps, where counts are stored.
    counts: Option<Reader<'a>>,
}

impl<'a> PageView<'a> {
    /// Reads a page; what is left in the reader lies after its steps.
    fn read(reader: &mut Reader<'a>) -> Decoded<Self> {
        let blocks = u32::from(reader.u8()?);
        let first_time = reader.varint()?;
        let form = reader.u8()?;
        let width = u32::from(form >> 1);
        let possible = (1..=PAGE_BLOCKS as u32).contains(&blocks) && width <= WIDTH_MAX;
        ensure(possible, "impossible page of blocks")?;
        let least = reader.signed()?;
        let steps = reader.take(((blocks - 1) * width).div_ceil(8) as usize)?;
        let counts = (form & 1 != 0).then_some(*reader);
        Ok(Self {
            blocks,
            first_time,
            least,
            width,
            steps,
            counts,
        })
    }

    /// The times of its blocks.
    fn times(self) -> impl Iterator<Item = u64> + 'a {
        let mut time = self.first_time;
        (0..self.blocks).map(move |at| {
            if at > 0 {
                let over = bits_at(self.steps, (at - 1) * self.width, self.width);
                time = time.wrapping_add(self.least as u64).wrapping_add(over);
            }
            time
        })
    }
}

/// Why all of a table's pages can be read.
const WALKED: &str = "all of a table is read and checked when it is opened";

/// The number of `width` bits that begins at this bit.
#[inline]
fn bits_at(bytes: &[u8], bit: u32, width: u32) -> u64 {
    let Some(unused) = u64::BITS
        .checked_sub(width)
        .filter(|&unused| unused < u64::BITS)
    else {
        return 0;
    };
    let rest = bytes.get((bit / 8) as usize..);
    let rest = rest.expect("a page's steps were measured when it was read");
    let word = match rest.first_chunk::<8>() {
        // Nearly always: seven bits may be shifted out.
        Some(chunk) if width <= 57 => u64::from_le_bytes(*chunk) >> (bit % 8),
        _ => {
            let mut chunk = [0; 16];
            chunk
                .iter_mut()
                .zip(rest)
                .for_each(|(to, from)| *to = *from);
            (u128::from_le_bytes(chunk) >> (bit % 8)) as u64
        }
    };
    word & (u64::MAX >> unused)
}

/// Where a page begins.
#[derive(Clone, Copy, Debug)]
struct PageStart {
    /// The latest time of its first block and all before it: it never falls, whatever times do.
    reached: u64,
    place: u32,
    first_id: u32,
    first_tx: u32,
    offset: u32,
}

/// All blocks of a segment.
#[derive(Debug)]
pub(crate) struct BlockTable {
    bytes: Bytes,
    pages: Vec<PageStart>,
    len: u32,
    latest_time: u64,
}

impl BlockTable {
    pub(crate) fn decode(
        bytes: Bytes,
        facts: &SegmentFacts,
        stretches: &[PlacedStretch],
    ) -> Decoded<Self> {
        let mut walk = Walk {
            reader: Reader::new(&bytes),
            all: bytes.len(),
            pages: Vec::new(),
            place: 0,
            last_time: 0,
            latest_time: 0,
        };
        let (mut logs, mut txs) = (0, 0);
        for placed in stretches {
            walk.stretch(placed)?;
            logs += u64::from(placed.stretch.rows);
            txs += u64::from(placed.stretch.txs);
        }
        let Walk {
            reader,
            pages,
            place,
            last_time,
            latest_time,
            ..
        } = walk;
        reader.finish()?;
        let first_time = pages.first().map(|page| page.reached);
        let found = (u64::from(place), logs, txs, first_time, last_time);
        let (first_time, last_time) = (Some(facts.first_timestamp), facts.last_timestamp);
        let expected = (
            facts.range.len(),
            facts.logs,
            facts.txs,
            first_time,
            last_time,
        );
        // Segments of format version 2 name the last time as the latest, whatever the latest is.
        let is_falling = facts.latest_timestamp > last_time;
        let fits = found == expected && (!is_falling || facts.latest_timestamp == latest_time);
        ensure(fits, "block table does not fit the summary")?;
        Ok(Self {
            bytes,
            pages,
            len: place,
            latest_time,
        })
    }

    /// The latest time of any block.
    pub(crate) fn latest_time(&self) -> u64 {
        self.latest_time
    }

    /// How many blocks it has.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Its pages as they are stored: merging copies them.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Bytes it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        self.bytes.len() + self.pages.len() * size_of::<PageStart>()
    }

    fn view(&self, start: &PageStart) -> PageView<'_> {
        let bytes = self.bytes.get(start.offset as usize..).expect(WALKED);
        PageView::read(&mut Reader::new(bytes)).expect(WALKED)
    }

    /// The page that `is_before` holds for last, and its blocks.
    fn page_behind(
        &self,
        is_before: impl Fn(&PageStart) -> bool,
    ) -> Option<(&PageStart, PageView<'_>)> {
        let behind = self.pages.partition_point(is_before);
        let start = self.pages.get(behind.checked_sub(1)?)?;
        Some((start, self.view(start)))
    }

    /// The block at a place.
    pub(crate) fn at(&self, place: u32) -> Option<BlockEntry> {
        let (start, view) = self.page_behind(|page| page.place <= place)?;
        entries(start, view).nth((place - start.place) as usize)
    }

    /// The time of the block at a place.
    pub(crate) fn time_at(&self, place: u32) -> Option<u64> {
        let (start, view) = self.page_behind(|page| page.place <= place)?;
        view.times().nth((place - start.place) as usize)
    }

    /// The block that the row with this id is of.
    pub(crate) fn of_row(&self, id: u32) -> Option<BlockEntry> {
        let (start, view) = self.page_behind(|page| page.first_id <= id)?;
        entries(start, view).find(|entry| entry.has(id))
    }

    /// The blocks of all pages that have a log or a transaction.
    pub(crate) fn counted(&self) -> impl Iterator<Item = BlockEntry> {
        let pages = self.pages.iter();
        let views = pages.map(|start| (start, self.view(start)));
        let counted = views.filter(|(_, view)| view.counts.is_some());
        counted.flat_map(|(start, view)| entries(start, view))
    }

    /// The times of all blocks.
    pub(crate) fn times(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().flat_map(|start| self.view(start).times())
    }

    /// The first block, from a place on, that is not before `time`. No block before that place may be
    /// so late.
    pub(crate) fn first_from(&self, from: u32, time: u64) -> Option<Later> {
        let behind = self.pages_before(time);
        // It is in the last page at whose first block no time was so late, or the first block of the next.
        let pages = self.pages.iter().skip(behind.saturating_sub(1)).take(2);
        let mut before = None;
        for start in pages {
            for (place, at) in (start.place..).zip(self.view(start).times()) {
                if place >= from && at >= time {
                    return Some(Later {
                        place,
                        time: at,
                        before,
                    });
                }
                before = Some(at);
            }
        }
        // The place to begin at may lie after both.
        let at = self.time_at(from).filter(|&at| at >= time)?;
        let before = from.checked_sub(1).and_then(|before| self.time_at(before));
        Some(Later {
            place: from,
            time: at,
            before,
        })
    }

    /// How many pages begin before any block was so late. Clocks run nearly evenly, so the search begins where the
    /// page would be if they did, and widens: far fewer loads from memory than halving the whole.
    fn pages_before(&self, time: u64) -> usize {
        let reached = |at: usize| self.pages.get(at).map(|page| page.reached);
        let (Some(first), Some(last)) = (self.pages.first(), self.pages.last()) else {
            return 0;
        };
        let span = last.reached.saturating_sub(first.reached).max(1);
        let part = time.saturating_sub(first.reached) as f64 / span as f64;
        let guess = (part * self.pages.len() as f64) as usize;
        let (mut start, mut end) = (guess.min(self.pages.len()), guess.min(self.pages.len()));
        let mut reach = GALLOP_PAGES;
        while start > 0 && reached(start - 1).is_some_and(|at| at >= time) {
            end = start - 1;
            start = start.saturating_sub(reach);
            reach *= 2;
        }
        reach = GALLOP_PAGES;
        while reached(end).is_some_and(|at| at < time) {
            start = end + 1;
            end = (end + reach).min(self.pages.len());
            reach *= 2;
        }
        let within = self.pages.get(start..end);
        let within = within.expect("the search stays among the pages");
        start + within.partition_point(|page| page.reached < time)
    }
}

/// The first block that is not before a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Later {
    pub(crate) place: u32,
    pub(crate) time: u64,
    /// The time of the block before it, where that is near.
    pub(crate) before: Option<u64>,
}

/// The blocks of a page.
fn entries<'a>(start: &PageStart, view: PageView<'a>) -> impl Iterator<Item = BlockEntry> + 'a {
    let mut counts = view.counts;
    let (mut first_id, mut first_tx) = (start.first_id, start.first_tx);
    (start.place..)
        .zip(view.times())
        .map(move |(place, timestamp)| {
            let (packed, txs) = match &mut counts {
                Some(reader) => (
                    reader.varint().expect(WALKED),
                    reader.varint_u32().expect(WALKED),
                ),
                None => (0, 0),
            };
            let entry = BlockEntry {
                place,
                timestamp,
                logs: (packed >> 1) as u32,
                txs,
                txs_in_sequence: packed & 1 == 0,
                first_id,
                first_tx,
            };
            first_id = first_id.wrapping_add(entry.logs);
            first_tx = first_tx.wrapping_add(txs);
            entry
        })
}

/// Goes through a table once, and checks all of it.
struct Walk<'a> {
    reader: Reader<'a>,
    all: usize,
    pages: Vec<PageStart>,
    place: u32,
    last_time: u64,
    latest_time: u64,
}

impl Walk<'_> {
    fn stretch(&mut self, placed: &PlacedStretch) -> Decoded<()> {
        let (mut id, mut tx) = (placed.first_id, placed.first_tx);
        let mut left = placed.stretch.blocks;
        while left > 0 {
            let offset = self.all - self.reader.rest().len();
            let view = PageView::read(&mut self.reader)?;
            left = left
                .checked_sub(view.blocks)
                .ok_or(Damage("a page of blocks crosses a stretch"))?;
            self.pages.push(PageStart {
                reached: self.latest_time.max(view.first_time),
                place: self.place,
                first_id: id,
                first_tx: tx,
                offset: u32::try_from(offset).map_err(|_| Damage("block table too large"))?,
            });
            let place = self.place.checked_add(view.blocks);
            self.place = place.ok_or(Damage("too many blocks"))?;
            for time in view.times() {
                self.last_time = time;
                self.latest_time = self.latest_time.max(time);
            }
            if view.counts.is_some() {
                for _ in 0..view.blocks {
                    let logs = self.reader.varint()? >> 1;
                    let logs = u32::try_from(logs).map_err(|_| Damage("too many logs"))?;
                    id = id.checked_add(logs).ok_or(Damage("too many logs"))?;
                    let txs = self.reader.varint_u32()?;
                    tx = tx.checked_add(txs).ok_or(Damage("too many transactions"))?;
                }
            }
        }
        let fits = id - placed.first_id == placed.stretch.rows
            && tx - placed.first_tx == placed.stretch.txs;
        ensure(fits, "block table does not fit its stretch")
    }
}

#[cfg(test)]
mod tests;
