//! Entries of quotient tables as single numbers: the key, then the payload. They sort as they are
//! stored, so tables are merged by sorting numbers, a stretch of pages at a time.

use std::ops::Range;

use super::{BUCKET, BUCKETS, PADDING, PageView, TableBuilder, TableDirectory, TableShape, mask};
use crate::format::wire::Put;
use crate::format::{Damage, Decoded, checksum};

/// How entries of one table become those of another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rebase {
    /// What is added to a payload.
    pub(crate) add: u64,
    /// Payloads from here on are left out, after adding.
    pub(crate) below: u64,
}

/// Finished pages that follow each other.
#[derive(Debug)]
pub(crate) struct BuiltPages {
    bytes: Vec<u8>,
    /// Length and checksum of each.
    places: Vec<(u32, u32)>,
    entries: u64,
}

impl TableShape {
    /// Whether a key and its payload fit one number.
    pub(crate) fn packs(self) -> bool {
        self.key_bits + self.payload_bits <= u64::BITS
    }

    pub(crate) fn page_bits(self) -> u32 {
        self.page_bits
    }

    /// Which of `2^bits` equal parts of all keys a packed entry is in.
    pub(crate) fn part(self, packed: u64, bits: u32) -> u64 {
        let shift = self.key_bits + self.payload_bits - bits;
        packed.checked_shr(shift).unwrap_or(0)
    }
}

impl TableDirectory {
    /// The pages that hold the keys of some of `2^bits` equal parts.
    pub(crate) fn pages_of(&self, parts: &Range<u64>, bits: u32) -> Range<usize> {
        let own = self.shape.page_bits;
        let (start, end) = match own.checked_sub(bits) {
            Some(more) => (parts.start << more, parts.end << more),
            // A page holds several parts.
            None => {
                let fewer = bits - own;
                let last = parts.end.saturating_sub(1) >> fewer;
                (parts.start >> fewer, last + 1)
            }
        };
        start as usize..end as usize
    }

    /// Whether pages are smaller than such parts, so that none holds keys of two.
    pub(crate) fn divides(&self, bits: u32) -> bool {
        self.shape.page_bits >= bits
    }

    /// Appends the entries of a (verified) page, as a table of another shape has them.
    pub(crate) fn unpack_into(
        &self,
        (index, page): (usize, &[u8]),
        to: TableShape,
        rebase: Rebase,
        out: &mut Vec<u64>,
    ) -> Decoded<()> {
        if page.is_empty() {
            return Ok(());
        }
        let shape = self.shape;
        let shorter_by = shape.key_bits.checked_sub(to.key_bits);
        let shorter_by = shorter_by.ok_or(Damage("keys too short"))?;
        let view = PageView::new(shape, page)?;
        let mut at = 0;
        for bucket in 0..BUCKETS {
            let prefix = ((index as u64) << super::BUCKET_BITS) | bucket as u64;
            let high = prefix.checked_shl(shape.remainder_bits()).unwrap_or(0);
            for _ in 0..view.count(bucket) {
                let (remainder, payload) = view.entry(at);
                let payload = payload + rebase.add;
                if payload < rebase.below {
                    let key = (high | remainder) >> shorter_by;
                    out.push(key << to.payload_bits | payload);
                }
                at += 1;
            }
        }
        Ok(())
    }
}

/// Makes pages of packed entries, which are sorted and belong to them.
pub(crate) fn build_pages(shape: TableShape, pages: Range<usize>, entries: &[u64]) -> BuiltPages {
    let entry_bits = shape.entry_bits();
    let page_of = |packed: u64| shape.part(packed, shape.page_bits) as usize;
    let bytes = entries.len() * (entry_bits as usize).div_ceil(8) + pages.len() * 80;
    let mut built = BuiltPages {
        bytes: Vec::with_capacity(bytes),
        places: Vec::with_capacity(pages.len()),
        entries: entries.len() as u64,
    };
    let mut rest = entries;
    for page in pages {
        let own = rest.partition_point(|&packed| page_of(packed) <= page);
        let split = rest.split_at_checked(own);
        let (own, behind) = split.expect("a partition point lies in its slice");
        let start = built.bytes.len();
        if !own.is_empty() {
            write_page(shape, own, &mut built.bytes);
        }
        let bytes = built.bytes.get(start..);
        let bytes = bytes.expect("the buffer only grew since its length was taken");
        let place = (bytes.len() as u32, checksum(bytes, page as u64));
        built.places.push(place);
        rest = behind;
    }
    built
}

fn write_page(shape: TableShape, entries: &[u64], out: &mut Vec<u8>) {
    let entry_bits = shape.entry_bits();
    let mut counts = [0_u32; BUCKETS];
    for packed in entries {
        let bucket = (packed >> entry_bits) as usize & (BUCKETS - 1);
        *counts.get_mut(bucket).expect(BUCKET) += 1;
    }
    super::put_counts(&counts, out);
    let entries = entries.iter().map(|packed| packed & mask(entry_bits));
    out.put_packed(entry_bits, entries);
    out.put(&PADDING);
}

impl TableBuilder {
    /// Appends pages that follow those that are there.
    pub(crate) fn append(&mut self, built: &BuiltPages, out: &mut Vec<u8>) {
        self.page += built.places.len();
        self.entries += built.entries;
        self.directory.extend_from_slice(&built.places);
        out.put(&built.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Pages made of packed entries are those that are made of entries one by one, and give
        /// them back.
        #[test]
        fn pages_are_the_same_either_way(
            mut entries in proptest::collection::vec((0_u64..1 << 40, 0_u64..1 << 20), 0..3_000),
            parts_bits in 0_u32..4,
            crowd in 0_usize..2,
        ) {
            if crowd == 1 {
                entries.iter_mut().for_each(|entry| entry.0 &= 0x1f);
            }
            entries.sort_unstable();
            let shape = TableShape::for_entries(entries.len() as u64, 40, 20);
            let (mut one, mut one_by_one) = (Vec::new(), TableBuilder::new(shape));
            entries.iter().for_each(|&(key, payload)| one_by_one.push(key, payload, &mut one));
            let directory = one_by_one.finish(&mut one);
            let packed: Vec<u64> = entries.iter().map(|(key, payload)| key << 20 | payload).collect();
            let (mut two, mut at_once) = (Vec::new(), TableBuilder::new(shape));
            let parts_bits = parts_bits.min(shape.page_bits);
            let pages = 1_usize << (shape.page_bits - parts_bits);
            for part in 0..1_u64 << parts_bits {
                let own: Vec<u64> = packed
                    .iter()
                    .copied()
                    .filter(|&packed| shape.part(packed, parts_bits) == part)
                    .collect();
                let first = part as usize * pages;
                at_once.append(&build_pages(shape, first..first + pages, &own), &mut two);
            }
            prop_assert_eq!(&at_once.finish(&mut two), &directory);
            prop_assert_eq!(&one, &two);
            let table = TableDirectory::decode(&directory, one.len() as u64).unwrap();
            let rebase = Rebase { add: 5, below: 1 << 19 };
            let to = TableShape::for_entries(9, 38, 24);
            let mut found = Vec::new();
            for index in 0..table.page_count() {
                let place = table.place(index).unwrap();
                let page = &one[place.start as usize..place.end as usize];
                table.unpack_into((index, page), to, rebase, &mut found).unwrap();
            }
            let expected: Vec<u64> = entries
                .iter()
                .map(|&(key, payload)| (key >> 2, payload + 5))
                .filter(|(_, payload)| *payload < 1 << 19)
                .map(|(key, payload)| key << 24 | payload)
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn hostile_pages_are_damage(page: Vec<u8>) {
            let shape = TableShape::for_entries(0, 40, 10);
            let directory = TableDirectory { shape, entries: 0, pages: vec![] };
            let rebase = Rebase { add: 0, below: u64::MAX };
            let _ = directory.unpack_into((0, &page), shape, rebase, &mut Vec::new());
        }
    }
}
