//! A page: which of 64 Ki consecutive ids a posting list holds.
//!
//! ```text
//! 0 | first id, then steps less one, all varint           (sparse)
//! 1 | 65,536 bits                                         (dense)
//! 2 | per run of neighbours: gap varint, length less one  (clustered)
//! ```
//! The smallest form is chosen, so equal content gives equal bytes.

use super::wire::{Put, Reader};
use super::{Damage, Decoded, ensure};

/// Ids in a page.
pub(crate) const PAGE_IDS: u32 = 1 << 16;
const WORDS: usize = PAGE_IDS as usize / 64;
const SPARSE: u8 = 0;
const DENSE: u8 = 1;
const RUNS: u8 = 2;
/// Above this a bitmap is smaller in memory than a list.
const SPARSE_MAX: usize = 4096;

/// Why an id has its bit.
const BIT: &str = "a page has a bit for each of its ids";

/// The ids of one page, unpacked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ids {
    List(Vec<u16>),
    Bits(Box<[u64; WORDS]>),
}

impl Ids {
    pub(crate) fn from_sorted(ids: Vec<u16>) -> Self {
        if ids.len() <= SPARSE_MAX {
            return Self::List(ids);
        }
        let mut bits = Box::new([0; WORDS]);
        ids.iter().for_each(|&id| set(&mut bits, id));
        Self::Bits(bits)
    }

    pub(crate) fn contains(&self, id: u16) -> bool {
        match self {
            Self::List(ids) => ids.binary_search(&id).is_ok(),
            Self::Bits(bits) => {
                let word = bits.get(usize::from(id) / 64).expect(BIT);
                word >> (id % 64) & 1 == 1
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::List(ids) => ids.len(),
            Self::Bits(bits) => bits.iter().map(|word| word.count_ones() as usize).sum(),
        }
    }

    /// Bytes it takes in memory.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::List(ids) => ids.len() * 2 + 64,
            Self::Bits(_) => WORDS * 8 + 64,
        }
    }

    /// The ids in `start..end`, rising.
    pub(crate) fn collect_range(&self, start: u32, end: u32, out: &mut Vec<u16>) {
        match self {
            Self::List(ids) => {
                let from = ids.partition_point(|&id| u32::from(id) < start);
                let inside = ids.iter().skip(from).take_while(|&&id| u32::from(id) < end);
                out.extend(inside.copied());
            }
            Self::Bits(bits) => {
                let words = start as usize / 64..(end as usize).div_ceil(64);
                for (index, &word) in bits.iter().enumerate().take(words.end).skip(words.start) {
                    let mut word = word;
                    while word != 0 {
                        let id = index as u32 * 64 + word.trailing_zeros();
                        if id >= start && id < end {
                            out.push(id as u16);
                        }
                        word &= word - 1;
                    }
                }
            }
        }
    }

    /// Adds these ids to a bitmap.
    pub(crate) fn add_to(&self, target: &mut [u64; WORDS]) {
        match self {
            Self::List(ids) => ids.iter().for_each(|&id| set(target, id)),
            Self::Bits(bits) => target
                .iter_mut()
                .zip(bits.iter())
                .for_each(|(a, b)| *a |= b),
        }
    }
}

fn set(bits: &mut [u64; WORDS], id: u16) {
    *bits.get_mut(usize::from(id) / 64).expect(BIT) |= 1 << (id % 64);
}

/// The union of several pages.
pub(crate) fn union<'a>(pages: impl Iterator<Item = &'a Ids>) -> Ids {
    let mut bits = Box::new([0; WORDS]);
    pages.for_each(|ids| ids.add_to(&mut bits));
    Ids::Bits(bits)
}

/// Appends a page of rising ids.
pub(crate) fn encode(ids: &[u16], out: &mut Vec<u8>) {
    let (sparse, runs) = sizes(ids);
    let dense = WORDS * 8;
    if sparse <= dense && sparse <= runs {
        out.put_u8(SPARSE);
        let mut next = 0;
        for &id in ids {
            out.put_varint(u64::from(u32::from(id) - next));
            next = u32::from(id) + 1;
        }
    } else if runs < dense {
        out.put_u8(RUNS);
        let mut next = 0;
        for run in ids.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
            let first = run.first().copied();
            let first = u32::from(first.expect("a chunk has at least one element"));
            out.put_varint(u64::from(first - next));
            out.put_varint(run.len() as u64 - 1);
            next = first + run.len() as u32;
        }
    } else {
        out.put_u8(DENSE);
        let mut bits = [0_u64; WORDS];
        ids.iter().for_each(|&id| set(&mut bits, id));
        bits.iter().for_each(|&word| out.put_u64(word));
    }
}

/// How many bytes the sparse and the clustered form take.
fn sizes(ids: &[u16]) -> (usize, usize) {
    let varint = |value: u32| 1 + usize::from(value >= 1 << 7) + usize::from(value >= 1 << 14);
    let (mut next, mut run_len, mut sparse, mut runs) = (0, 0, 0, 0);
    for &id in ids {
        let gap = u32::from(id) - next;
        next = u32::from(id) + 1;
        sparse += varint(gap);
        if gap == 0 && run_len > 0 {
            run_len += 1;
        } else {
            runs += varint(gap) + if run_len > 0 { varint(run_len - 1) } else { 0 };
            run_len = 1;
        }
    }
    (
        sparse,
        runs + if run_len > 0 { varint(run_len - 1) } else { 0 },
    )
}

/// Decodes a page that must hold exactly `count` ids.
pub(crate) fn decode(bytes: &[u8], count: u32) -> Decoded<Ids> {
    let mut reader = Reader::new(bytes);
    let ids = match reader.u8()? {
        SPARSE => Ids::from_sorted(decode_sparse(&mut reader, count)?),
        DENSE => {
            let (words, rest) = reader.take(WORDS * 8)?.as_chunks::<8>();
            debug_assert!(rest.is_empty());
            let mut bits = Box::new([0; WORDS]);
            bits.iter_mut()
                .zip(words)
                .for_each(|(bit, word)| *bit = u64::from_le_bytes(*word));
            Ids::Bits(bits)
        }
        RUNS => decode_runs(&mut reader)?,
        _ => return Err(Damage("unknown page form")),
    };
    reader.finish()?;
    ensure(ids.len() == count as usize, "page count mismatch")?;
    Ok(ids)
}

fn decode_sparse(reader: &mut Reader<'_>, count: u32) -> Decoded<Vec<u16>> {
    ensure(
        count as usize <= reader.rest().len(),
        "page count beyond the bytes",
    )?;
    let mut ids = Vec::with_capacity(count as usize);
    let mut next = 0_u64;
    for _ in 0..count {
        let id = next + reader.varint()?.min(u64::from(PAGE_IDS));
        ids.push(u16::try_from(id).map_err(|_| Damage("id outside its page"))?);
        next = id + 1;
    }
    Ok(ids)
}

fn decode_runs(reader: &mut Reader<'_>) -> Decoded<Ids> {
    let mut bits = Box::new([0; WORDS]);
    let mut next = 0_u64;
    while !reader.is_empty() {
        let start = next + reader.varint()?.min(u64::from(PAGE_IDS));
        let end = start + reader.varint()?.min(u64::from(PAGE_IDS)) + 1;
        ensure(end <= u64::from(PAGE_IDS), "id outside its page")?;
        (start..end).for_each(|id| set(&mut bits, id as u16));
        next = end;
    }
    Ok(Ids::Bits(bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn collect(ids: &Ids, start: u32, end: u32) -> Vec<u16> {
        let mut out = Vec::new();
        ids.collect_range(start, end, &mut out);
        out
    }

    fn check(set: &BTreeSet<u16>) {
        let sorted: Vec<u16> = set.iter().copied().collect();
        let mut packed = Vec::new();
        encode(&sorted, &mut packed);
        assert!(packed.len() <= 8193);
        let ids = decode(&packed, sorted.len() as u32).unwrap();
        assert_eq!(collect(&ids, 0, PAGE_IDS), sorted);
        let middle: Vec<u16> = sorted
            .iter()
            .copied()
            .filter(|&id| (700..40_001).contains(&u32::from(id)))
            .collect();
        assert_eq!(collect(&ids, 700, 40_001), middle);
        for probe in [0, 1, 63, 64, 699, 700, 65_535] {
            assert_eq!(ids.contains(probe), set.contains(&probe));
        }
        assert!(decode(&packed, sorted.len() as u32 + 1).is_err());
    }

    #[test]
    fn every_form_round_trips() {
        check(&BTreeSet::new());
        check(&(0..=u16::MAX).collect());
        check(&(0..=u16::MAX).step_by(2).collect());
        check(&(5..9000).collect());
        check(&(0..=u16::MAX).step_by(37).collect());
        check(&BTreeSet::from([65_535]));
    }

    proptest! {
        #[test]
        fn random_pages_round_trip(set: BTreeSet<u16>) {
            check(&set);
        }

        #[test]
        fn union_is_union(a: BTreeSet<u16>, b: BTreeSet<u16>) {
            let ids = |set: &BTreeSet<u16>| Ids::from_sorted(set.iter().copied().collect());
            let both = union([ids(&a), ids(&b)].iter());
            let expected: Vec<u16> = a.union(&b).copied().collect();
            prop_assert_eq!(collect(&both, 0, PAGE_IDS), expected);
        }

        #[test]
        fn hostile_pages_are_damage(bytes: Vec<u8>, count: u32) {
            let _ = decode(&bytes, count);
        }
    }
}
