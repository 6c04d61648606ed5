//! What is kept of a block, which of its logs, and how sure we are of it.

use bytes::Bytes;

use crate::{Clause, LogFilter};

/// One thing that may be kept of a block. The clock is always kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Dataset {
    /// Number, hash, parent, time.
    Clock = 0,
    /// The whole header.
    Headers = 1,
    /// Logs with their terms.
    Logs = 2,
    /// The hash of every transaction.
    TxHashes = 3,
    /// The body of every transaction that is listed: of all with `tx_hashes`, else of those that kept
    /// logs name.
    Transactions = 4,
    /// The whole block as it came.
    Payload = 5,
}

impl Dataset {
    /// All of them, in the order of their bits.
    pub const ALL: [Self; 6] = [
        Self::Clock,
        Self::Headers,
        Self::Logs,
        Self::TxHashes,
        Self::Transactions,
        Self::Payload,
    ];

    /// Its name in settings and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Headers => "headers",
            Self::Logs => "logs",
            Self::TxHashes => "tx_hashes",
            Self::Transactions => "transactions",
            Self::Payload => "payload",
        }
    }
}

/// A set of datasets; the clock is always in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DatasetSet(u8);

impl DatasetSet {
    /// Just the clock.
    pub const CLOCK: Self = Self(1);

    /// The clock and these.
    #[must_use]
    pub fn of(datasets: &[Dataset]) -> Self {
        Self(
            datasets
                .iter()
                .fold(1, |bits, &dataset| bits | (1 << dataset as u8)),
        )
    }

    /// Whether the dataset is in it.
    #[must_use]
    pub const fn contains(self, dataset: Dataset) -> bool {
        self.0 & (1 << dataset as u8) != 0
    }

    /// The same and this one.
    #[must_use]
    pub const fn with(self, dataset: Dataset) -> Self {
        Self(self.0 | (1 << dataset as u8))
    }

    /// Whether all of `other` is in it.
    #[must_use]
    pub const fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether bodies are kept of the transactions that kept logs name, and of no others.
    #[must_use]
    pub const fn bodies_by_logs(self) -> bool {
        self.contains(Dataset::Transactions) && !self.contains(Dataset::TxHashes)
    }

    /// One bit a dataset.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// From bits; none where a bit is unknown or the clock is missing.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & 1 == 1 && bits < 1 << Dataset::ALL.len() {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// The datasets in it.
    pub fn iter(self) -> impl Iterator<Item = Dataset> {
        Dataset::ALL
            .into_iter()
            .filter(move |&dataset| self.contains(dataset))
    }
}

impl std::fmt::Debug for DatasetSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set()
            .entries(self.iter().map(Dataset::name))
            .finish()
    }
}

/// One part of a narrower scope: logs of this emitter with this first topic. A missing half
/// stands for any.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ScopeEntry {
    /// The emitter, or any.
    pub emitter: Option<Bytes>,
    /// The first topic, or any (also none at all).
    pub topic0: Option<Bytes>,
}

/// Which logs of a block are kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    All,
    /// The logs that any of these entries lets in; sorted, without duplicates.
    Only(Vec<ScopeEntry>),
}

impl Scope {
    /// A narrower scope from its entries, in canonical order.
    #[must_use]
    pub fn only(mut entries: Vec<ScopeEntry>) -> Self {
        entries.sort();
        entries.dedup();
        Self::Only(entries)
    }

    /// Whether a log with this emitter and first topic is kept.
    #[must_use]
    pub fn admits(&self, emitter: &[u8], topic0: Option<&[u8]>) -> bool {
        let entry_admits = |entry: &ScopeEntry| {
            entry
                .emitter
                .as_deref()
                .is_none_or(|wanted| wanted == emitter)
                && entry
                    .topic0
                    .as_deref()
                    .is_none_or(|wanted| Some(wanted) == topic0)
        };
        match self {
            Self::All => true,
            Self::Only(entries) => entries.iter().any(entry_admits),
        }
    }

    /// Whether everything that `filter` could match is provably kept.
    #[must_use]
    pub fn proves(&self, filter: &LogFilter) -> bool {
        let Self::Only(entries) = self else {
            return true;
        };
        let holds = |emitter: Option<&Bytes>, topic0: Option<&Bytes>| {
            let found = entries.binary_search_by(|entry| {
                (entry.emitter.as_ref(), entry.topic0.as_ref()).cmp(&(emitter, topic0))
            });
            found.is_ok()
        };
        // A filter may have tens of thousands of values at both places, and this is called for every
        // segment. So pairs are looked at only where neither half is held with anything: the entries
        // bound how many of those are held, and the first that is not ends it.
        let emitters = || wanted(&filter.emitters);
        let narrow = emitters().find(|&emitter| !holds(emitter, None));
        let Some(narrow) = narrow.filter(|_| !holds(None, None)) else {
            return true;
        };
        let mut topics = Vec::new();
        for topic in wanted(filter.topics.first().unwrap_or(&Clause::Any)) {
            if holds(None, topic) {
                continue;
            }
            if !holds(narrow, topic) {
                return false;
            }
            topics.push(topic);
        }
        topics.sort_unstable();
        topics.dedup();
        topics.is_empty()
            || emitters().all(|emitter| {
                holds(emitter, None) || topics.iter().all(|&topic| holds(emitter, topic))
            })
    }
}

/// The values of a clause. None stands for any: only an entry that leaves that half open holds it.
fn wanted(clause: &Clause) -> impl Iterator<Item = Option<&Bytes>> {
    let (any, values) = match clause {
        Clause::Any => (Some(None), &[][..]),
        Clause::OneOf(values) => (None, &values[..]),
    };
    any.into_iter().chain(values.iter().map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(emitter: Option<&'static [u8]>, topic0: Option<&'static [u8]>) -> ScopeEntry {
        let bytes = |part: Option<&'static [u8]>| part.map(Bytes::from_static);
        ScopeEntry {
            emitter: bytes(emitter),
            topic0: bytes(topic0),
        }
    }

    fn one_of(values: &[&'static [u8]]) -> Clause {
        Clause::OneOf(
            values
                .iter()
                .map(|value| Bytes::from_static(value))
                .collect(),
        )
    }

    #[test]
    fn a_scope_proves_only_what_it_holds() {
        let scope = Scope::only(vec![entry(Some(b"A"), None), entry(None, Some(b"t"))]);
        let case = |emitters: Clause, topic0: Option<Clause>| {
            let mut filter = LogFilter::over(crate::BlockRange::new(0, 1));
            filter.emitters = emitters;
            filter.topics = topic0.into_iter().collect();
            scope.proves(&filter)
        };
        assert!(case(one_of(&[b"A"]), None));
        assert!(case(one_of(&[b"A"]), Some(one_of(&[b"x"]))));
        assert!(case(Clause::Any, Some(one_of(&[b"t"]))));
        assert!(case(one_of(&[b"B"]), Some(one_of(&[b"t"]))));
        assert!(!case(Clause::Any, None));
        assert!(!case(one_of(&[b"A", b"B"]), None));
        assert!(!case(one_of(&[b"B"]), Some(one_of(&[b"t", b"u"]))));
        assert!(scope.admits(b"A", None) && scope.admits(b"B", Some(b"t")));
        assert!(!scope.admits(b"B", None) && !scope.admits(b"B", Some(b"u")));
    }

    /// What it means, said of every pair.
    fn proves_pairs(entries: &[ScopeEntry], filter: &LogFilter) -> bool {
        let held = |half: Option<&Bytes>, kept: &Option<Bytes>| {
            kept.is_none() || (half.is_some() && half == kept.as_ref())
        };
        let topic0 = filter.topics.first().unwrap_or(&Clause::Any);
        wanted(&filter.emitters).all(|emitter| {
            wanted(topic0).all(|topic| {
                let holds = |entry: &ScopeEntry| {
                    held(emitter, &entry.emitter) && held(topic, &entry.topic0)
                };
                entries.iter().any(holds)
            })
        })
    }

    #[test]
    fn a_scope_proves_what_it_proves_pair_by_pair() {
        const VALUES: [&[u8]; 3] = [b"a", b"b", b"c"];
        let half = |at: usize| VALUES.get(at).copied();
        let pairs: Vec<ScopeEntry> = (0..16)
            .map(|at| entry(half(at / 4), half(at % 4)))
            .collect();
        let some = |bits: usize| {
            let chosen = VALUES.iter().enumerate();
            let chosen = chosen.filter(move |(at, _)| bits >> at & 1 == 1);
            Clause::OneOf(chosen.map(|(_, value)| Bytes::from_static(value)).collect())
        };
        let clauses: Vec<Clause> = (0..8).map(some).chain([Clause::Any]).collect();
        let mut proven = 0;
        // Every set of entries, with some of the filters each.
        for set in 0..1_usize << pairs.len() {
            let chosen = pairs.iter().enumerate();
            let chosen = chosen.filter(|(at, _)| set >> at & 1 == 1);
            let entries: Vec<ScopeEntry> = chosen.map(|(_, entry)| entry.clone()).collect();
            let mut filter = LogFilter::over(crate::BlockRange::new(0, 1));
            filter.emitters = clauses[set % clauses.len()].clone();
            filter.topics = vec![clauses[set / 7 % clauses.len()].clone()];
            let expected = proves_pairs(&entries, &filter);
            proven += usize::from(expected);
            let scope = Scope::only(entries);
            assert_eq!(scope.proves(&filter), expected, "{scope:?} {filter:?}");
        }
        assert!(proven > 1_000, "{proven}");
    }

    /// Looking at every pair would take hours here.
    #[test]
    fn a_wide_filter_is_no_more_work_than_its_values() {
        let value = |at: u32| Bytes::copy_from_slice(&at.to_be_bytes());
        let values = |count: u32| Clause::OneOf((0..count).map(value).collect());
        let mut filter = LogFilter::over(crate::BlockRange::new(0, 1));
        (filter.emitters, filter.topics) = (values(20_000), vec![values(20_000)]);
        let held = |count: u32, topic0: Option<Bytes>| {
            let entry = |at: u32| ScopeEntry {
                emitter: Some(value(at)),
                topic0: topic0.clone(),
            };
            Scope::only((0..count).map(entry).collect())
        };
        assert!(held(20_000, None).proves(&filter));
        assert!(!held(19_999, None).proves(&filter));
        assert!(!held(20_000, Some(value(0))).proves(&filter));
    }

    #[test]
    fn dataset_bits_round_trip() {
        let set = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]);
        assert!(set.contains(Dataset::Clock) && !set.contains(Dataset::Headers));
        assert_eq!(DatasetSet::from_bits(set.bits()), Some(set));
        let by_logs = |also: &[Dataset]| {
            let sets = [&[Dataset::Logs][..], also].concat();
            DatasetSet::of(&sets).bodies_by_logs()
        };
        assert!(by_logs(&[Dataset::Transactions]));
        assert!(!by_logs(&[Dataset::Transactions, Dataset::TxHashes]) && !by_logs(&[]));
        assert_eq!(DatasetSet::from_bits(0), None);
        assert_eq!(DatasetSet::from_bits(0x41), None);
    }
}
