//! Which logs a caller wants, and where a result page ended.

use bytes::Bytes;

use crate::{BlockRange, BlockRef, Hash32, Log};

/// What a filter wants of one field.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Clause {
    #[default]
    Any,
    /// One of these. An empty list matches nothing; the RPC edge maps its own empty list to `Any`.
    OneOf(Vec<Bytes>),
}

impl Clause {
    /// Whether the value is wanted.
    #[must_use]
    pub fn admits(&self, value: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(values) => values.iter().any(|wanted| wanted == value),
        }
    }
}

/// Which blocks a filter looks at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Select {
    Range(BlockRange),
    /// The one block with this hash.
    Block(Hash32),
}

/// In which order results come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// Oldest first.
    #[default]
    Ascending,
    /// Newest first.
    Descending,
}

/// The last log of a result page. The next page begins strictly after it. It names the chain's
/// own coordinates, so it outlives every seal, merge and restart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// The block of the last log. Its hash must still be the archived one.
    pub block: BlockRef,
    /// The last log's index in that block.
    pub log_index: u32,
}

/// How the number of topics in a filter relates to the number in a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TopicArity {
    /// A filter with N positions matches logs with at least N topics, wildcards included.
    #[default]
    AtLeast,
    /// It matches logs with exactly N.
    Exact,
}

impl TopicArity {
    /// Whether a filter with this many positions takes a log with this many topics.
    #[must_use]
    pub fn admits(self, positions: usize, topics: usize) -> bool {
        match self {
            Self::AtLeast => positions <= topics,
            Self::Exact => positions == topics,
        }
    }
}

/// Which logs a caller wants. Clauses are joined by AND, values inside one by OR.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFilter {
    pub select: Select,
    pub emitters: Clause,
    /// What is wanted at each topic position; up to four.
    pub topics: Vec<Clause>,
    /// How many topics a log must have beside that.
    pub arity: TopicArity,
    /// At most this many logs, with an exact `has_more`. Without it, all of them or an error.
    pub limit: Option<usize>,
    /// Begin strictly after this log.
    pub cursor: Option<Cursor>,
    /// Oldest or newest first.
    pub order: Order,
}

impl LogFilter {
    /// A filter that wants every log of the range.
    #[must_use]
    pub fn over(range: BlockRange) -> Self {
        Self {
            select: Select::Range(range),
            emitters: Clause::Any,
            topics: Vec::new(),
            arity: TopicArity::AtLeast,
            limit: None,
            cursor: None,
            order: Order::Ascending,
        }
    }

    /// Whether emitter and topics of the log are wanted. Blocks, limit and cursor are not looked
    /// at. This is the definition; every index only narrows the candidates.
    #[must_use]
    pub fn matches(&self, log: &Log) -> bool {
        self.arity.admits(self.topics.len(), log.topic_count())
            && self.emitters.admits(log.emitter())
            && self
                .topics
                .iter()
                .zip(log.topics())
                .all(|(clause, topic)| clause.admits(topic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogParts;

    fn log(topics: &[&[u8]]) -> Log {
        Log::new(&LogParts {
            emitter: b"A",
            topics,
            ..LogParts::default()
        })
        .unwrap()
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
    fn or_inside_and_across_and_length() {
        let check = |topics: &[Clause], log_topics: &[&[u8]], expected: bool| {
            let mut filter = LogFilter::over(BlockRange::new(0, 1));
            filter.topics = topics.to_vec();
            assert_eq!(
                filter.matches(&log(log_topics)),
                expected,
                "{topics:?} on {log_topics:?}"
            );
        };
        check(&[], &[], true);
        check(&[one_of(&[b"x", b"y"])], &[b"y"], true);
        check(&[one_of(&[b"x", b"y"])], &[b"z"], false);
        check(&[one_of(&[b"x"]), one_of(&[b"y"])], &[b"x", b"z"], false);
        check(&[Clause::Any, one_of(&[b"y"])], &[b"x", b"y"], true);
        check(&[one_of(&[b"x"]), Clause::Any], &[b"x"], false);
        check(&[const { Clause::Any }; 4], &[b"a", b"b", b"c"], false);
        check(&[one_of(&[])], &[b"a"], false);
    }

    #[test]
    fn topics_count_as_the_filter_says() {
        let check = |arity, positions, topics: usize, expected: bool| {
            let mut filter = LogFilter::over(BlockRange::new(0, 1));
            filter.topics = vec![Clause::Any; positions];
            filter.arity = arity;
            let topics = vec![&b"x"[..]; topics];
            let case = format!("{positions} positions, {arity:?}, on {}", topics.len());
            assert_eq!(filter.matches(&log(&topics)), expected, "{case}");
        };
        for positions in 0..=4 {
            for topics in 0..=4 {
                check(TopicArity::AtLeast, positions, topics, positions <= topics);
                check(TopicArity::Exact, positions, topics, positions == topics);
            }
        }
    }
}
