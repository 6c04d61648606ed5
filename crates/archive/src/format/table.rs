//! Quotient tables: sorted uniform keys, each with a small payload, found with one page read.
//!
//! The term dictionary of a segment and the runs from hash to block are both such tables. The
//! leading bits of a key choose a page, the next six a bucket in it, so only the rest is stored.
//!
//! ```text
//! page:      width u8 | 64 bucket counts (u8 or u32 by width) | entries, bit-packed | 8 zero bytes
//! entry:     key remainder | payload              (low bits: payload)
//! directory: key bits u8 | payload bits u8 | page bits u8 | entries varint
//!            | per page: length varint, checksum u32
//! ```

pub(crate) mod packed;

use super::wire::{Put, Reader};
use super::{Damage, Decoded, checksum, ensure};

/// A page holds on average this many entries, up to twice as many: 3 to 7 KiB at the usual widths.
const PAGE_ENTRIES: u64 = 640;
const BUCKET_BITS: u32 = 6;
const BUCKETS: usize = 1 << BUCKET_BITS;
/// An entry must fit an unaligned load of eight bytes after a shift of up to seven bits.
const ENTRY_BITS_MAX: u32 = 57;
const CACHE_LINE: usize = 64;
const PADDING: [u8; 8] = [0; 8];
/// Why a bucket has its count.
const BUCKET: &str = "a page has a count for each of its buckets";

/// How keys are split and how wide entries are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableShape {
    pub(crate) key_bits: u32,
    pub(crate) payload_bits: u32,
    page_bits: u32,
}

impl TableShape {
    /// The shape for about this many entries.
    pub(crate) fn for_entries(entries: u64, key_bits: u32, payload_bits: u32) -> Self {
        let pages = (entries / PAGE_ENTRIES).max(1);
        // Few entries with wide payloads need more pages than they fill, so that an entry fits.
        let least = (key_bits - BUCKET_BITS + payload_bits).saturating_sub(ENTRY_BITS_MAX);
        let page_bits = pages.ilog2().max(least).min(key_bits - BUCKET_BITS);
        let shape = Self {
            key_bits,
            payload_bits,
            page_bits,
        };
        debug_assert!(shape.entry_bits() <= ENTRY_BITS_MAX);
        shape
    }

    fn checked(self) -> Decoded<Self> {
        let bits = self.page_bits.checked_add(BUCKET_BITS);
        let split = self.key_bits <= 64 && bits.is_some_and(|bits| bits <= self.key_bits);
        ensure(
            split && self.payload_bits <= 40 && self.entry_bits() <= ENTRY_BITS_MAX,
            "impossible table shape",
        )?;
        Ok(self)
    }

    fn remainder_bits(self) -> u32 {
        self.key_bits - self.page_bits - BUCKET_BITS
    }
    fn entry_bits(self) -> u32 {
        self.remainder_bits() + self.payload_bits
    }
    fn page(self, key: u64) -> usize {
        shift_right(key, self.key_bits - self.page_bits) as usize
    }
    fn bucket(self, key: u64) -> usize {
        (shift_right(key, self.remainder_bits()) & (BUCKETS as u64 - 1)) as usize
    }
    fn remainder(self, key: u64) -> u64 {
        key & mask(self.remainder_bits())
    }
}

fn shift_right(value: u64, bits: u32) -> u64 {
    value.checked_shr(bits).unwrap_or(0)
}

fn mask(bits: u32) -> u64 {
    if bits >= 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    }
}

/// Builds a table from entries in order. Finished pages are appended to the caller's buffer.
#[derive(Debug)]
pub(crate) struct TableBuilder {
    shape: TableShape,
    page: usize,
    pending: Vec<(u64, u64)>,
    directory: Vec<(u32, u32)>,
    entries: u64,
}

impl TableBuilder {
    pub(crate) fn new(shape: TableShape) -> Self {
        Self {
            shape,
            page: 0,
            pending: Vec::new(),
            directory: Vec::new(),
            entries: 0,
        }
    }

    /// Adds an entry; keys never fall, equal keys are kept side by side.
    pub(crate) fn push(&mut self, key: u64, payload: u64, out: &mut Vec<u8>) {
        debug_assert!(payload <= mask(self.shape.payload_bits));
        while self.page < self.shape.page(key) {
            self.close_page(out);
        }
        self.pending.push((key, payload));
        self.entries += 1;
    }

    fn close_page(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        if !self.pending.is_empty() {
            write_page(self.shape, &self.pending, out);
            self.pending.clear();
        }
        let page = out.get(start..);
        let page = page.expect("the buffer only grew since its length was taken");
        self.directory
            .push((page.len() as u32, checksum(page, self.page as u64)));
        self.page += 1;
    }

    /// How many entries it has so far.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Closes the last pages and returns the directory's bytes.
    pub(crate) fn finish(mut self, out: &mut Vec<u8>) -> Vec<u8> {
        while self.page < 1 << self.shape.page_bits {
            self.close_page(out);
        }
        let mut directory = Vec::with_capacity(8 + self.directory.len() * 6);
        directory.put_u8(self.shape.key_bits as u8);
        directory.put_u8(self.shape.payload_bits as u8);
        directory.put_u8(self.shape.page_bits as u8);
        directory.put_varint(self.entries);
        for (len, sum) in self.directory {
            directory.put_varint(u64::from(len));
            directory.put_u32(sum);
        }
        directory
    }
}

fn write_page(shape: TableShape, entries: &[(u64, u64)], out: &mut Vec<u8>) {
    let mut counts = [0_u32; BUCKETS];
    for &(key, _) in entries {
        *counts.get_mut(shape.bucket(key)).expect(BUCKET) += 1;
    }
    put_counts(&counts, out);
    let entry = |&(key, payload): &(u64, u64)| shape.remainder(key) << shape.payload_bits | payload;
    out.put_packed(shape.entry_bits(), entries.iter().map(entry));
    out.put(&PADDING);
}

fn put_counts(counts: &[u32; BUCKETS], out: &mut Vec<u8>) {
    // Keys are uniform, so a byte is enough, unless they were made to collide on purpose.
    if counts.iter().all(|&count| count <= 255) {
        out.put_u8(1);
        counts.iter().for_each(|&count| out.put_u8(count as u8));
    } else {
        out.put_u8(4);
        counts.iter().for_each(|&count| out.put_u32(count));
    }
}

/// The resident part of a table: which page lies where.
#[derive(Debug)]
pub(crate) struct TableDirectory {
    shape: TableShape,
    entries: u64,
    /// End of each page and its checksum.
    pages: Vec<(u64, u32)>,
}

/// Where a page lies in its section, and what its checksum must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PagePlace {
    pub(crate) index: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    checksum: u32,
}

impl PagePlace {
    /// Whether these are the page's bytes.
    pub(crate) fn verify(&self, bytes: &[u8]) -> Decoded<()> {
        ensure(
            checksum(bytes, u64::from(self.index)) == self.checksum,
            "table page checksum mismatch",
        )
    }
}

impl TableDirectory {
    pub(crate) fn decode(bytes: &[u8], section_len: u64) -> Decoded<Self> {
        let mut reader = Reader::new(bytes);
        let shape = TableShape {
            key_bits: u32::from(reader.u8()?),
            payload_bits: u32::from(reader.u8()?),
            page_bits: u32::from(reader.u8()?),
        };
        let shape = shape.checked()?;
        let entries = reader.varint()?;
        let pages = 1_usize.checked_shl(shape.page_bits).unwrap_or(usize::MAX);
        ensure(
            pages <= reader.rest().len() / 5,
            "more pages than directory",
        )?;
        let mut end = 0_u64;
        let mut places = Vec::with_capacity(pages);
        for _ in 0..pages {
            end += u64::from(reader.varint_u32()?);
            places.push((end, reader.u32()?));
        }
        reader.finish()?;
        ensure(end == section_len, "table directory does not fit its pages")?;
        Ok(Self {
            shape,
            entries,
            pages: places,
        })
    }

    /// The key of a hash that begins with these bits.
    pub(crate) fn key(&self, prefix: u64) -> u64 {
        shift_right(prefix, u64::BITS - self.shape.key_bits)
    }
    /// The number of the page that would hold the key.
    pub(crate) fn page_of(&self, key: u64) -> usize {
        self.shape.page(key)
    }
    pub(crate) fn key_bits(&self) -> u32 {
        self.shape.key_bits
    }
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }
    pub(crate) fn page_count(&self) -> usize {
        self.pages.len()
    }
    /// Bytes of all pages.
    pub(crate) fn section_len(&self) -> u64 {
        self.pages.last().map_or(0, |&(end, _)| end)
    }
    /// Bytes it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        self.pages.len() * size_of::<(u64, u32)>() + 64
    }

    /// The page that would hold the key; none where that page is empty and nothing need be read.
    pub(crate) fn place_of(&self, key: u64) -> Option<PagePlace> {
        self.place(self.shape.page(key))
            .filter(|place| place.start < place.end)
    }

    /// A page by its number.
    pub(crate) fn place(&self, index: usize) -> Option<PagePlace> {
        let &(end, checksum) = self.pages.get(index)?;
        let start = match index.checked_sub(1) {
            None => 0,
            Some(before) => self.pages.get(before)?.0,
        };
        Some(PagePlace {
            index: index as u32,
            start,
            end,
            checksum,
        })
    }

    /// The payloads stored for the key in its (verified) page.
    pub(crate) fn find<'a>(
        &self,
        key: u64,
        page: &'a [u8],
    ) -> Decoded<impl Iterator<Item = u64> + 'a> {
        let (view, wanted) = (
            PageView::split(self.shape, page)?,
            self.shape.remainder(key),
        );
        let bucket = self.shape.bucket(key);
        view.fetch(bucket);
        let (first, count) = view.bucket(bucket);
        ensure(
            view.holds(first + count),
            "table page does not fit its counts",
        )?;
        Ok((first..first + count).filter_map(move |at| {
            let (remainder, payload) = view.entry(at);
            (remainder == wanted).then_some(payload)
        }))
    }

    /// All entries of a (verified) page, in order, with their whole keys.
    pub(crate) fn entries_of(&self, index: usize, page: &[u8]) -> Decoded<Vec<(u64, u64)>> {
        if page.is_empty() {
            return Ok(Vec::new());
        }
        let view = PageView::new(self.shape, page)?;
        let mut entries = Vec::new();
        for bucket in 0..BUCKETS {
            let prefix = ((index as u64) << BUCKET_BITS) | bucket as u64;
            let (first, count) = view.bucket(bucket);
            for at in first..first + count {
                let (remainder, payload) = view.entry(at);
                let high = prefix.checked_shl(self.shape.remainder_bits()).unwrap_or(0);
                entries.push((high | remainder, payload));
            }
        }
        Ok(entries)
    }
}

/// A page whose counts and entries are known to fit its bytes.
#[derive(Clone, Copy)]
struct PageView<'a> {
    shape: TableShape,
    wide: bool,
    counts: &'a [u8],
    entries: &'a [u8],
}

impl<'a> PageView<'a> {
    fn new(shape: TableShape, page: &'a [u8]) -> Decoded<Self> {
        let view = Self::split(shape, page)?;
        let total = view.counts_before(BUCKETS);
        let bytes = (total as u64 * u64::from(shape.entry_bits())).div_ceil(8);
        ensure(
            view.entries.len() as u64 == bytes + PADDING.len() as u64,
            "table page does not fit its counts",
        )?;
        Ok(view)
    }

    /// Whether the bytes hold this many entries.
    fn holds(&self, entries: usize) -> bool {
        let bytes = (entries as u64 * u64::from(self.shape.entry_bits())).div_ceil(8);
        self.entries.len() as u64 >= bytes + PADDING.len() as u64
    }

    /// The parts of a page, before counting them: a lookup counts no further than it looks.
    fn split(shape: TableShape, page: &'a [u8]) -> Decoded<Self> {
        let mut reader = Reader::new(page);
        let wide = match reader.u8()? {
            1 => false,
            4 => true,
            _ => return Err(Damage("unknown table page")),
        };
        let counts = reader.take(if wide { BUCKETS * 4 } else { BUCKETS })?;
        Ok(Self {
            shape,
            wide,
            counts,
            entries: reader.rest(),
        })
    }

    /// Asks memory for the entries of a bucket before their place is known: keys are spread evenly, so a
    /// bucket lies about where its number says. Memory is waited for once, not twice: a tenth of a
    /// lookup among 100 million keys.
    #[inline]
    fn fetch(&self, bucket: usize) {
        let about = self.entries.len() / BUCKETS * bucket;
        std::hint::black_box(self.entries.get(about).copied());
        std::hint::black_box(self.entries.get(about + CACHE_LINE).copied());
    }

    fn counts_before(&self, bucket: usize) -> usize {
        if self.wide {
            let (counts, _) = self.counts.as_chunks::<4>();
            counts
                .iter()
                .take(bucket)
                .map(|count| u32::from_le_bytes(*count) as usize)
                .sum()
        } else {
            self.counts
                .iter()
                .take(bucket)
                .map(|&count| usize::from(count))
                .sum()
        }
    }

    fn count(&self, bucket: usize) -> usize {
        if self.wide {
            let (counts, _) = self.counts.as_chunks::<4>();
            u32::from_le_bytes(*counts.get(bucket).expect(BUCKET)) as usize
        } else {
            usize::from(*self.counts.get(bucket).expect(BUCKET))
        }
    }

    fn bucket(&self, bucket: usize) -> (usize, usize) {
        (self.counts_before(bucket), self.count(bucket))
    }

    #[inline]
    fn entry(&self, at: usize) -> (u64, u64) {
        let bit = at * self.shape.entry_bits() as usize;
        let word = self
            .entries
            .get(bit / 8..)
            .and_then(|rest| rest.first_chunk::<8>());
        let word = word.expect("a page was checked to hold its entries and the padding");
        let word = u64::from_le_bytes(*word) >> (bit % 8);
        let entry = word & mask(self.shape.entry_bits());
        (
            entry >> self.shape.payload_bits,
            entry & mask(self.shape.payload_bits),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn build(shape: TableShape, entries: &[(u64, u64)]) -> (TableDirectory, Vec<u8>) {
        let mut pages = Vec::new();
        let mut builder = TableBuilder::new(shape);
        entries
            .iter()
            .for_each(|&(key, payload)| builder.push(key, payload, &mut pages));
        let directory = builder.finish(&mut pages);
        (
            TableDirectory::decode(&directory, pages.len() as u64).unwrap(),
            pages,
        )
    }

    fn find(directory: &TableDirectory, pages: &[u8], key: u64) -> Vec<u64> {
        let Some(place) = directory.place_of(key) else {
            return Vec::new();
        };
        let page = &pages[place.start as usize..place.end as usize];
        place.verify(page).unwrap();
        directory.find(key, page).unwrap().collect()
    }

    fn check(mut entries: Vec<(u64, u64)>, key_bits: u32, payload_bits: u32) {
        entries.iter_mut().for_each(|entry| {
            *entry = (entry.0 & mask(key_bits), entry.1 & mask(payload_bits));
        });
        entries.sort_unstable();
        let shape = TableShape::for_entries(entries.len() as u64, key_bits, payload_bits);
        let (directory, pages) = build(shape, &entries);
        assert_eq!(directory.entries(), entries.len() as u64);
        let mut all = Vec::new();
        for index in 0..directory.page_count() {
            let place = directory.place(index).unwrap();
            let page = &pages[place.start as usize..place.end as usize];
            place.verify(page).unwrap();
            all.extend(directory.entries_of(index, page).unwrap());
        }
        assert_eq!(all, entries);
        for &(key, _) in &entries {
            let expected: Vec<u64> = entries
                .iter()
                .filter(|entry| entry.0 == key)
                .map(|entry| entry.1)
                .collect();
            assert_eq!(find(&directory, &pages, key), expected);
            if !entries.iter().any(|entry| entry.0 == key ^ 1) {
                assert_eq!(find(&directory, &pages, key ^ 1), Vec::<u64>::new());
            }
        }
    }

    proptest! {
        #[test]
        fn small_tables_give_back_what_went_in(
            entries in proptest::collection::vec(any::<(u64, u64)>(), 0..200),
            key_bits in 6u32..44,
            payload_bits in 0u32..13,
        ) {
            check(entries, key_bits, payload_bits);
        }

        #[test]
        fn hostile_tables_are_damage(bytes: Vec<u8>, page: Vec<u8>, key: u64) {
            if let Ok(directory) = TableDirectory::decode(&bytes, page.len() as u64) {
                let _ = directory.find(key, &page).map(Iterator::count);
            }
            let shape = TableShape { key_bits: 36, payload_bits: 20, page_bits: 3 };
            let directory = TableDirectory { shape, entries: 0, pages: vec![] };
            let _ = directory.entries_of(0, &page);
        }
    }

    #[test]
    fn many_pages_and_a_crowded_bucket() {
        let spread = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        check((0..3000).map(|at| (spread(at) >> 20, at)).collect(), 44, 12);
        check((0..1000).map(|at| (5, at)).collect(), 36, 20);
    }

    #[test]
    fn a_page_in_the_wrong_place_is_damage() {
        let entries: Vec<_> = (0..4000_u64).map(|at| (at << 24, at)).collect();
        let shape = TableShape::for_entries(4000, 36, 20);
        let (directory, pages) = build(shape, &entries);
        let (a, b) = (directory.place(0).unwrap(), directory.place(1).unwrap());
        assert!(a.verify(&pages[b.start as usize..b.end as usize]).is_err());
        assert!(a.verify(&pages[a.start as usize..a.end as usize]).is_ok());
    }
}
