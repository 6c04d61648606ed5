//! A filter made ready: its terms for the index, its values for the exact check.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use chronolith_model::{Clause, Cursor, Log, LogFilter, Order, TOPICS_MAX, TopicArity};
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::format::term::{Field, Term, TermKey};
use crate::settings::{OrPolicy, QueryLimits};

/// Lists up to this length are searched one by one.
const LINEAR_MAX: usize = 8;

/// A clause's values, sorted by their digests, then by themselves.
#[derive(Debug)]
struct Values {
    /// Close together, so that a search stays among them: the values lie anywhere in memory.
    digests: Vec<u64>,
    values: Vec<Bytes>,
}

impl Values {
    fn new(values: &[Bytes]) -> Self {
        let mut values = values.to_vec();
        values.sort_unstable_by(|a, b| (digest(a), a).cmp(&(digest(b), b)));
        values.dedup();
        let digests = values.iter().map(|value| digest(value)).collect();
        Self { digests, values }
    }

    fn admits(&self, value: &[u8]) -> bool {
        if self.values.len() <= LINEAR_MAX {
            return self.values.iter().any(|wanted| wanted == value);
        }
        let wanted = digest(value);
        let start = self.digests.partition_point(|&digest| digest < wanted);
        let same = self.digests.iter().skip(start);
        let same = same.take_while(|&&digest| digest == wanted).count();
        let same = self.values.get(start..start + same);
        let same = same.expect("each value has its digest");
        same.binary_search_by(|wanted| wanted.as_ref().cmp(value))
            .is_ok()
    }
}

/// Eight bytes that differ where values do, as good as always: numbers differ in their last bytes,
/// addresses and hashes in any.
fn digest(value: &[u8]) -> u64 {
    let end = value.last_chunk::<8>().copied().map(u64::from_le_bytes);
    end.unwrap_or_else(|| {
        value
            .iter()
            .fold(1, |sum, &byte| sum << 8 | u64::from(byte))
    })
}

/// The exact check of a log filter: the values of each clause, the number of topics, and the position
/// after the cursor. The filter's range and limit are not part of it.
#[derive(Debug)]
pub struct LogMatcher {
    emitters: Option<Values>,
    topics: Vec<Option<Values>>,
    arity: TopicArity,
    cursor: Option<Cursor>,
    order: Order,
}

impl LogMatcher {
    /// Sorts the values of each clause: there may be thousands, and every log is compared.
    #[must_use]
    pub fn new(filter: &LogFilter) -> Self {
        let values = |clause: &Clause| match clause {
            Clause::Any => None,
            Clause::OneOf(values) => Some(Values::new(values)),
        };
        Self {
            emitters: values(&filter.emitters),
            topics: filter.topics.iter().map(values).collect(),
            arity: filter.arity,
            cursor: filter.cursor,
            order: filter.order,
        }
    }

    /// Whether the filter selects a log of the block with this number.
    #[must_use]
    pub fn matches(&self, number: u64, log: &Log) -> bool {
        let admits = |values: &Option<Values>, value: &[u8]| {
            values.as_ref().is_none_or(|values| values.admits(value))
        };
        self.is_after_cursor(number, log)
            && self.arity.admits(self.topics.len(), log.topic_count())
            && admits(&self.emitters, log.emitter())
            && self
                .topics
                .iter()
                .zip(log.topics())
                .all(|(values, topic)| admits(values, topic))
    }

    fn is_after_cursor(&self, number: u64, log: &Log) -> bool {
        let here = (number, log.log_index());
        self.cursor.is_none_or(|cursor| {
            let there = (cursor.block.number, cursor.log_index);
            match self.order {
                Order::Ascending => here > there,
                Order::Descending => here < there,
            }
        })
    }
}

/// A filter made ready: its terms for the index, and the exact check.
#[derive(Debug)]
pub(crate) struct Matcher {
    pub(crate) exact: LogMatcher,
    /// What a log must carry one of each of. Not for clauses that are only checked.
    pub(crate) clauses: Clauses,
    /// Whether some clause can match nothing.
    pub(crate) matches_nothing: bool,
}

impl Matcher {
    pub(crate) fn new(filter: &LogFilter, limits: &QueryLimits) -> Result<Self> {
        if filter.topics.len() > TOPICS_MAX {
            let message = format!(
                "too many topic positions (got={}, max=4)",
                filter.topics.len()
            );
            return Err(Error::Invalid(message));
        }
        let mut matcher = Self {
            exact: LogMatcher::new(filter),
            clauses: Clauses::default(),
            matches_nothing: false,
        };
        matcher.add_clauses(limits)?;
        Ok(matcher)
    }

    fn add_clauses(&mut self, limits: &QueryLimits) -> Result<()> {
        let mut clauses: Vec<Vec<Sought>> = Vec::new();
        let sought = |field: Field, values: &[Bytes]| -> Vec<Sought> {
            let values = values.iter().cloned();
            values.map(|value| (field, value)).collect()
        };
        if let Some(Values { values, .. }) = &self.exact.emitters {
            clauses.push(sought(Field::Emitter, values));
        }
        for (position, values) in self.exact.topics.iter().enumerate() {
            if let Some(Values { values, .. }) = values {
                clauses.push(sought(Field::Topic(position), values));
            }
        }
        self.matches_nothing = clauses.iter().any(Vec::is_empty);
        if let Some(wide) = clauses
            .iter()
            .map(Vec::len)
            .find(|&len| len > limits.or_terms_max)
        {
            match limits.or_policy {
                OrPolicy::Refuse => {
                    return Err(Error::TooBroad {
                        actual: wide,
                        max: limits.or_terms_max,
                    });
                }
                OrPolicy::BlockScan => clauses.retain(|terms| terms.len() <= limits.or_terms_max),
            }
        }
        // The number of topics narrows little, so it is looked up only where nothing else is.
        let positions = self.exact.topics.len();
        let counts = match self.exact.arity {
            TopicArity::AtLeast => positions..=TOPICS_MAX,
            TopicArity::Exact => positions..=positions,
        };
        if clauses.is_empty() && counts != (0..=TOPICS_MAX) {
            let counts = counts.map(|count| Bytes::copy_from_slice(&[count as u8]));
            clauses.push(sought(Field::TopicCount, &counts.collect::<Vec<_>>()));
        }
        self.clauses = Clauses::new(clauses);
        Ok(())
    }
}

/// A part of a log and the value it must have.
type Sought = (Field, Bytes);

/// The terms of each clause, for segments whose terms are hashed with whatever key.
#[derive(Debug, Default)]
pub(crate) struct Clauses {
    sought: Vec<Vec<Sought>>,
    /// Those that were made so far. An archive has one key, and none where segments are older.
    hashed: Mutex<Vec<(TermKey, Terms)>>,
}

/// Terms of each clause, hashed.
pub(crate) type Terms = Arc<Vec<Vec<Term>>>;

impl Clauses {
    fn new(sought: Vec<Vec<Sought>>) -> Self {
        let hashed = Mutex::default();
        Self { sought, hashed }
    }

    /// The terms as a segment with this key has them.
    pub(crate) fn terms(&self, key: TermKey) -> Terms {
        let mut hashed = self.hashed.lock();
        if let Some((_, terms)) = hashed.iter().find(|(known, _)| *known == key) {
            return terms.clone();
        }
        let clause = |sought: &Vec<Sought>| {
            let terms = sought.iter();
            let terms = terms.map(|(field, value)| Term::new(key, *field, value));
            terms.collect()
        };
        let terms: Terms = Arc::new(self.sought.iter().map(clause).collect());
        hashed.push((key, terms.clone()));
        terms
    }
}

/// The terms of a filter for a trace: the first of each clause, and how many more there are.
pub(crate) struct TermIds<'a>(pub(crate) &'a LogFilter);

impl fmt::Display for TermIds<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topics = self.0.topics.iter().enumerate();
        let topics = topics.map(|(position, clause)| (Some(position), clause));
        for (position, clause) in [(None, &self.0.emitters)].into_iter().chain(topics) {
            let Clause::OneOf(values) = clause else {
                continue;
            };
            let (name, term_field) = match position {
                None => ("emitter".to_owned(), Field::Emitter),
                Some(at) => (format!("topic{at}"), Field::Topic(at)),
            };
            // Not as segments have it: traces must not reveal anything about the key.
            let term = values.first();
            let term = term.map_or(0, |value| Term::new(TermKey::NONE, term_field, value).0);
            write!(f, "[{name} {term:09x} of {}]", values.len())?;
        }
        Ok(())
    }
}
