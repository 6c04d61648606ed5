//! The catalog: the immutable list of everything sealed that the state names.

use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{BlockRange, Dataset, DatasetSet, Hash32, LogFilter, Scope};

use crate::format::container::{Container, ContainerBuilder, Finished, ObjectKind, Section};
use crate::format::facts::{SegmentFacts, decode_scope, encode_scope};
use crate::format::wire::{Put, Reader};
use crate::format::{Damage, Decoded, ensure};
use crate::ranges::journal::Journal;
use crate::ranges::tx_counts::TxCounts;
use crate::state::record::CatalogRef;

/// Where a stored object lies and how long it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ObjectRef {
    pub(crate) name: String,
    pub(crate) len: u64,
    /// Where its tables begin: one read from here to the end opens it.
    pub(crate) tables_start: u64,
}

impl ObjectRef {
    pub(crate) fn new(name: &str, Finished { len, tables_start }: Finished) -> Self {
        Self {
            name: name.to_owned(),
            len,
            tables_start,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.name.as_bytes());
        out.put_varint(self.len);
        out.put_varint(self.tables_start);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let object = Self {
            name: reader.text()?,
            len: reader.varint()?,
            tables_start: reader.varint()?,
        };
        ensure(object.tables_start <= object.len, "impossible object")?;
        Ok(object)
    }
}

/// A segment that the state names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SegmentEntry {
    pub(crate) object: ObjectRef,
    /// 0 for a batch, 1 for a sealed segment, more for merged ones.
    pub(crate) tier: u8,
    pub(crate) facts: SegmentFacts,
    /// Its transaction hashes by their first digit, where they were counted. Kept in the journal, so an
    /// entry that was read from the state has none.
    pub(crate) keys: Option<TxCounts>,
}

impl SegmentEntry {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.object.encode(out);
        out.put_u8(self.tier);
        self.facts.encode(out);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let object = ObjectRef::decode(reader)?;
        Ok(Self {
            object,
            tier: reader.u8()?,
            facts: SegmentFacts::decode(reader)?,
            keys: None,
        })
    }
}

/// A run: a table from hash to block over several segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RunEntry {
    pub(crate) object: ObjectRef,
    pub(crate) tier: u8,
    pub(crate) range: BlockRange,
    /// Hash of the last block: what ties it to its segments when the state is lost.
    pub(crate) last_hash: Hash32,
    pub(crate) entries: u64,
}

impl RunEntry {
    fn encode(&self, out: &mut Vec<u8>) {
        self.object.encode(out);
        out.put_u8(self.tier);
        out.put_range(&self.range);
        out.put(&self.last_hash.0);
        out.put_varint(self.entries);
    }

    fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            object: ObjectRef::decode(reader)?,
            tier: reader.u8()?,
            range: reader.range()?,
            last_hash: reader.hash()?,
            entries: reader.varint()?,
        })
    }
}

/// A pack: payload of consecutive blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PackEntry {
    pub(crate) object: ObjectRef,
    pub(crate) range: BlockRange,
    pub(crate) last_hash: Hash32,
    pub(crate) content: PackContent,
}

/// What a pack holds of its blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PackContent {
    datasets: DatasetSet,
    /// Whose transactions' bodies it holds, where those are not all: of logs of this scope.
    bodies_of: Option<Scope>,
}

impl PackContent {
    /// What a pack holds where this is kept.
    pub(crate) fn new(datasets: DatasetSet, scope: &Scope) -> Self {
        let bodies_of = datasets.bodies_by_logs().then(|| scope.clone());
        Self {
            datasets,
            bodies_of,
        }
    }

    /// What the packs of a segment's blocks hold.
    pub(crate) fn of(facts: &SegmentFacts) -> Self {
        Self::new(facts.datasets, &facts.scope)
    }

    /// What is in no pack.
    pub(crate) const NOTHING: Self = Self {
        datasets: DatasetSet::CLOCK,
        bodies_of: None,
    };

    pub(crate) fn datasets(&self) -> DatasetSet {
        self.datasets
    }

    /// Whose transactions' bodies it holds; all where it holds those of all.
    pub(crate) fn scope(&self) -> Scope {
        self.bodies_of.clone().unwrap_or(Scope::All)
    }

    /// Whether it holds a dataset whole: all bodies, not those of some logs.
    pub(crate) fn holds(&self, dataset: Dataset) -> bool {
        let is_part = dataset == Dataset::Transactions && self.bodies_of.is_some();
        self.datasets.contains(dataset) && !is_part
    }

    /// Whether it holds the bodies of all transactions that logs of a filter name.
    pub(crate) fn holds_bodies_of(&self, filter: &LogFilter) -> bool {
        let scope = self.bodies_of.as_ref();
        self.datasets.contains(Dataset::Transactions)
            && scope.is_none_or(|scope| scope.proves(filter))
    }

    /// Whether it holds the bodies of all transactions that logs of a scope name.
    pub(crate) fn holds_bodies_in(&self, scope: &Scope) -> bool {
        let holds = |held: &Scope| *held == Scope::All || held == scope;
        self.datasets.contains(Dataset::Transactions) && self.bodies_of.as_ref().is_none_or(holds)
    }

    /// Whether it holds everything that another one does of the same blocks.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.datasets.covers(other.datasets) && self.bodies_of == other.bodies_of
    }

    /// Packs with the bodies of some logs name their scope: an older program must not take them for
    /// packs with all.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.datasets.bits());
        if let Some(scope) = &self.bodies_of {
            encode_scope(scope, out);
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        let datasets = DatasetSet::from_bits(reader.u8()?).ok_or(Damage("unknown dataset"))?;
        let by_logs = datasets.bodies_by_logs();
        let bodies_of = by_logs.then(|| decode_scope(reader)).transpose()?;
        Ok(Self {
            datasets,
            bodies_of,
        })
    }
}

impl PackEntry {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.object.encode(out);
        out.put_range(&self.range);
        out.put(&self.last_hash.0);
        self.content.encode(out);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Decoded<Self> {
        Ok(Self {
            object: ObjectRef::decode(reader)?,
            range: reader.range()?,
            last_hash: reader.hash()?,
            content: PackContent::decode(reader)?,
        })
    }
}

/// Everything sealed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Catalog {
    /// By their first block.
    pub(crate) segments: Vec<Arc<SegmentEntry>>,
    pub(crate) runs: Vec<Arc<RunEntry>>,
    pub(crate) packs: Vec<Arc<PackEntry>>,
    /// What is known of ranges besides.
    pub(crate) journal: Journal,
}

impl Catalog {
    /// The bytes of the catalog as an object.
    pub(crate) fn encode(&self) -> (Bytes, u64) {
        let mut out = Vec::new();
        out.put_list(&self.segments, |segment, out| segment.encode(out));
        out.put_list(&self.runs, |run, out| run.encode(out));
        out.put_list(&self.packs, |pack, out| pack.encode(out));
        let mut container = ContainerBuilder::new(ObjectKind::Catalog);
        container.table(Section::Catalog, out);
        // A version that does not know ranges reads the catalog all the same.
        container.optional_table(Section::Journal, self.journal.encode(&self.segments));
        let finished = container.finish();
        (container.drain(), finished.tables_start)
    }

    /// The catalog as an object with this name: its bytes, and how a state names it.
    pub(crate) fn to_object(&self, name: &str) -> (Bytes, CatalogRef) {
        let (bytes, tables_start) = self.encode();
        let hash = Hash32(*blake3::hash(&bytes).as_bytes());
        let len = bytes.len() as u64;
        let object = ObjectRef::new(name, Finished { len, tables_start });
        (bytes, CatalogRef { object, hash })
    }

    pub(crate) fn decode(object: &Bytes, tables_start: u64) -> Decoded<Self> {
        let at = usize::try_from(tables_start)
            .ok()
            .filter(|&at| at <= object.len());
        let tail = object.slice(at.ok_or(Damage("object too short"))?..);
        let container = Container::parse(tail, tables_start, ObjectKind::Catalog)?;
        let table = container.table(Section::Catalog)?;
        let mut reader = Reader::new(&table);
        let mut segments = reader.list(100, SegmentEntry::decode)?;
        let runs = reader.list(6, |reader| RunEntry::decode(reader).map(Arc::new))?;
        let packs = reader.list(6, |reader| PackEntry::decode(reader).map(Arc::new))?;
        reader.finish()?;
        let mut journal = Journal::default();
        if let Some(table) = container.optional_table(Section::Journal)? {
            let (written, keys) = Journal::decode(&table)?;
            let fits = keys.len() == segments.len();
            ensure(fits, "the journal is of another catalog")?;
            let pairs = segments.iter_mut().zip(keys);
            pairs.for_each(|(entry, keys)| entry.keys = keys);
            journal = written;
        }
        Ok(Self {
            segments: segments.into_iter().map(Arc::new).collect(),
            runs,
            packs,
            journal,
        })
    }

    /// Puts everything in its order.
    pub(crate) fn sort(&mut self) {
        self.segments.sort_by(|a, b| order(a, b));
        self.runs
            .sort_by_key(|run| (run.range.start, run.range.end));
        self.packs
            .sort_by_key(|pack| (pack.range.start, pack.range.end));
    }
}

/// Segments by first block; of those that begin together the longest first.
pub(crate) fn order(a: &SegmentEntry, b: &SegmentEntry) -> std::cmp::Ordering {
    let key = |entry: &SegmentEntry| (entry.facts.range.start, u64::MAX - entry.facts.range.end);
    key(a)
        .cmp(&key(b))
        .then_with(|| a.object.name.cmp(&b.object.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::facts::tests::sample;
    use proptest::prelude::*;

    #[test]
    fn catalogs_round_trip() {
        let object = ObjectRef {
            name: "seg/x".into(),
            len: 9,
            tables_start: 4,
        };
        let range = BlockRange::new(3, 7);
        let segment = SegmentEntry {
            object: object.clone(),
            tier: 2,
            facts: sample(range),
            keys: Some(TxCounts([7; 16])),
        };
        let run = RunEntry {
            object: object.clone(),
            tier: 1,
            range,
            last_hash: Hash32([5; 32]),
            entries: 88,
        };
        let pack = PackEntry {
            object,
            range,
            last_hash: Hash32([5; 32]),
            content: PackContent::NOTHING,
        };
        let by_logs = DatasetSet::of(&[Dataset::Logs, Dataset::Transactions]);
        let narrow = PackEntry {
            content: PackContent::new(by_logs, &sample(range).scope),
            ..pack.clone()
        };
        let catalog = Catalog {
            segments: vec![Arc::new(segment)],
            runs: vec![Arc::new(run)],
            packs: vec![Arc::new(pack), Arc::new(narrow)],
            journal: crate::ranges::journal::tests::sample(),
        };
        let (bytes, tables_start) = catalog.encode();
        assert_eq!(Catalog::decode(&bytes, tables_start), Ok(catalog));
        for at in 8..bytes.len() {
            let mut broken = bytes.to_vec();
            broken[at] ^= 1;
            assert!(
                Catalog::decode(&broken.into(), tables_start).is_err(),
                "byte {at}"
            );
        }
    }

    proptest! {
        #[test]
        fn hostile_catalogs_are_damage(bytes: Vec<u8>, at: u64) {
            prop_assert!(Catalog::decode(&bytes.into(), at).is_err());
        }
    }
}
