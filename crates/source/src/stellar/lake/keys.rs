//! Names of a lake's objects, as SEP-54 has them.
//!
//! A name begins with how far its first ledger is below the highest number there is, so that a listing
//! in order begins with the newest object. Ledgers 0 and 1 are in no object, but they are counted: the
//! first object of a lake with 64 ledgers in each holds 2 to 63.

use std::ops::RangeInclusive;

use crate::error::{Error, Result};

/// The first ledger that any network publishes.
pub(crate) const FIRST_LEDGER: u32 = 2;

/// How objects are packed, the newer spelling first.
pub(crate) const EXTENSIONS: [&str; 2] = [".xdr.zst", ".xdr.zstd"];

/// How ledgers are laid out in a lake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    ledgers_per_batch: u32,
    batches_per_partition: u32,
}

/// The ledgers of one object, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Batch {
    /// As the name has it: it may be 0, which is not a ledger.
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Batch {
    /// The ledgers that are in it.
    pub(crate) fn ledgers(self) -> RangeInclusive<u32> {
        self.start.max(FIRST_LEDGER)..=self.end
    }
}

impl Layout {
    /// Ledgers of an object, and objects of a partition; one object is not a partition.
    ///
    /// # Errors
    /// `Invalid` where one of them is 0.
    pub fn new(ledgers_per_batch: u32, batches_per_partition: u32) -> Result<Self> {
        if ledgers_per_batch == 0 || batches_per_partition == 0 {
            let what = "ledgersPerBatch and batchesPerPartition of a lake are above 0";
            return Err(Error::Invalid(what.to_owned()));
        }
        Ok(Self {
            ledgers_per_batch,
            batches_per_partition,
        })
    }

    #[must_use]
    pub fn ledgers_per_batch(&self) -> u32 {
        self.ledgers_per_batch
    }

    #[must_use]
    pub fn batches_per_partition(&self) -> u32 {
        self.batches_per_partition
    }

    /// Whether objects are in partitions.
    pub(crate) fn has_partitions(self) -> bool {
        self.batches_per_partition > 1
    }

    /// The object of a ledger.
    pub(crate) fn batch_of(self, ledger: u32) -> Batch {
        Self::piece_of(ledger, u64::from(self.ledgers_per_batch))
    }

    pub(crate) fn next(self, batch: Batch) -> Option<Batch> {
        Some(self.batch_of(batch.end.checked_add(1)?))
    }

    /// Where the object of a ledger is, without its extension.
    pub(crate) fn stem(self, ledger: u32) -> String {
        let Batch { start, end } = self.batch_of(ledger);
        let name = if start == end {
            format!("{:08X}--{start}", u32::MAX - start)
        } else {
            format!("{:08X}--{start}-{end}", u32::MAX - start)
        };
        if !self.has_partitions() {
            return name;
        }
        let ledgers = u64::from(self.ledgers_per_batch) * u64::from(self.batches_per_partition);
        let Batch { start, end } = Self::piece_of(ledger, ledgers);
        format!("{:08X}--{start}-{end}/{name}", u32::MAX - start)
    }

    /// The object that a key names; none where the key is none of this layout.
    pub(crate) fn parse(self, key: &str) -> Option<Batch> {
        let stem = EXTENSIONS.iter().find_map(|end| key.strip_suffix(end))?;
        let name = stem.rsplit_once('/').map_or(stem, |(_, name)| name);
        let (_, numbers) = name.split_once("--")?;
        let start = numbers.split_once('-').map_or(numbers, |(start, _)| start);
        let start = start.parse().ok()?;
        // Everything else in it follows from there.
        (self.stem(start) == stem).then(|| self.batch_of(start))
    }

    fn piece_of(ledger: u32, size: u64) -> Batch {
        let start = u64::from(ledger) / size * size;
        let end = (start + size - 1).min(u64::from(u32::MAX));
        Batch {
            start: start as u32,
            end: end as u32,
        }
    }
}

impl std::fmt::Display for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ledgers, batches) = (self.ledgers_per_batch, self.batches_per_partition);
        write!(
            f,
            "ledgersPerBatch {ledgers}, batchesPerPartition {batches}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(layout: (u32, u32), ledger: u32, stem: &str) {
        let layout = Layout::new(layout.0, layout.1).unwrap();
        assert_eq!(layout.stem(ledger), stem);
        for extension in EXTENSIONS {
            let parsed = layout.parse(&format!("{stem}{extension}"));
            assert_eq!(parsed, Some(layout.batch_of(ledger)), "{stem}");
        }
    }

    #[test]
    fn names_are_those_of_real_lakes() {
        check((1, 1), 53_312_000, "FCD285FF--53312000");
        check((1, 1), 997, "FFFFFC1A--997");
        check((1, 1), 2, "FFFFFFFD--2");
        check((1, 1), u32::MAX, "00000000--4294967295");
        check((64, 1), 2, "FFFFFFFF--0-63");
        check((64, 1), 64, "FFFFFFBF--64-127");
        check((1, 64_000), 2, "FFFFFFFF--0-63999/FFFFFFFD--2");
        check(
            (1, 64_000),
            53_312_000,
            "FCD285FF--53312000-53375999/FCD285FF--53312000",
        );
        check((64, 10), 1_300, "FFFFFAFF--1280-1919/FFFFFAFF--1280-1343");
        check(
            (64, 64_000),
            u32::MAX,
            "0023FFFF--4292608000-4294967295/0000003F--4294967232-4294967295",
        );
    }

    #[test]
    fn the_newest_name_is_the_first() {
        for (ledgers, batches) in [(1, 1), (1, 7), (5, 3)] {
            let layout = Layout::new(ledgers, batches).unwrap();
            let names: Vec<String> = (2..200).rev().map(|ledger| layout.stem(ledger)).collect();
            assert!(names.is_sorted(), "{names:?}");
        }
    }

    #[test]
    fn other_names_are_none() {
        let layout = Layout::new(64, 10).unwrap();
        for key in [
            "",
            ".config.json",
            "FFFFFAFF--1280-1343.xdr.zst",
            "FFFFFAFF--1280-1919/FFFFFAFF--1280-1343",
            "FFFFFAFF--1280-1919/FFFFFAFF--1280-1343.xdr.gz",
            "FFFFFAFE--1280-1919/FFFFFAFF--1280-1343.xdr.zst",
            "FFFFFAFF--1280-1919/FFFFFAFE--1281-1344.xdr.zst",
            "FFFFFAFF--1280-1919/fffffaff--1280-1343.xdr.zst",
            "FFFFFAFF--1280-1919/FFFFFAFF--+1280-1343.xdr.zst",
        ] {
            assert_eq!(layout.parse(key), None, "{key}");
        }
        assert!(Layout::new(0, 1).is_err() && Layout::new(1, 0).is_err());
    }

    #[test]
    fn objects_tile_all_ledgers() {
        let layout = Layout::new(64, 10).unwrap();
        let mut batch = layout.batch_of(0);
        assert_eq!(batch.ledgers(), 2..=63);
        for _ in 0..100 {
            let next = layout.next(batch).unwrap();
            assert_eq!(next.start, batch.end + 1);
            batch = next;
        }
        assert_eq!(layout.next(layout.batch_of(u32::MAX)), None);
    }
}
