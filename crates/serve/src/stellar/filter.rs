//! Event filters: checked as Stellar RPC does, and converted to log filters of the archive.
//!
//! Filters are joined by OR; in a filter, types, contracts and topics by AND; several contracts, and several
//! patterns of topics, by OR again. A pattern and the contracts of its filter are one log filter. What the
//! archive does not index (the type of an event, topics after the fourth) is compared here.

use std::collections::BTreeSet;

use bytes::Bytes;
use chronolith_model::{BlockRange, Clause, Log, LogFilter, TOPICS_MAX, TopicArity};
use stellar_strkey::Contract;

use super::wire::{EventFilterParams, Segment};

const FILTERS_MAX: usize = 5;
const CONTRACTS_MAX: usize = 5;
const PATTERNS_MAX: usize = 5;

/// The name of an event type, by its number.
pub(super) fn kind_name(kind: u8) -> &'static str {
    match kind {
        0 => "system",
        1 => "contract",
        _ => "diagnostic",
    }
}

/// All filters of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Filters(Vec<Filter>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Filter {
    /// None for every type.
    kinds: Option<BTreeSet<u8>>,
    /// Empty for every contract.
    contracts: Vec<Bytes>,
    /// Never empty: a filter without topics has one pattern that matches all.
    patterns: Vec<Pattern>,
}

/// A pattern of topics: a value or any at each position.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Pattern {
    positions: Vec<Option<Bytes>>,
    /// Whether there may be more topics.
    is_open: bool,
}

impl Pattern {
    const ALL: Self = Self {
        positions: Vec::new(),
        is_open: true,
    };

    fn read(segments: &[Segment]) -> Result<Self, String> {
        let (positions, is_open) = match segments.split_last() {
            None => return Err("topic must have at least 1 segment".to_owned()),
            Some((Segment::Rest, before)) => (before, true),
            Some(_) => (segments, false),
        };
        if let Some(at) = positions.iter().position(|one| *one == Segment::Rest) {
            return Err(format!(
                "segment {} invalid: wildcard '**' is only allowed as the last segment",
                at + 1
            ));
        }
        if positions.len() > TOPICS_MAX {
            return Err(format!("topic cannot have more than {TOPICS_MAX} segments"));
        }
        let positions = positions.iter().map(|segment| match segment {
            Segment::Value(value) => Some(value.clone()),
            Segment::One | Segment::Rest => None,
        });
        Ok(Self {
            positions: positions.collect(),
            is_open,
        })
    }

    fn admits(&self, log: &Log, more_topics: usize) -> bool {
        let count = log.topic_count() + more_topics;
        let count_fits = if self.is_open {
            self.positions.len() <= count
        } else {
            self.positions.len() == count
        };
        let mut both = self.positions.iter().zip(log.topics());
        count_fits && both.all(|(wanted, topic)| wanted.as_ref().is_none_or(|value| value == topic))
    }
}

impl Filter {
    fn read(params: &EventFilterParams) -> Result<Self, String> {
        let contracts = params.contract_ids.as_deref().unwrap_or(&[]);
        let topics = params.topics.as_deref().unwrap_or(&[]);
        let kinds = kinds_of(params.kinds.as_deref().unwrap_or(""))
            .map_err(|error| format!("filter type invalid: {error}"))?;
        if contracts.len() > CONTRACTS_MAX {
            return Err(format!("maximum {CONTRACTS_MAX} contract IDs per filter"));
        }
        if topics.len() > PATTERNS_MAX {
            return Err(format!("maximum {PATTERNS_MAX} topics per filter"));
        }
        let contract = |(at, id): (usize, &String)| match Contract::from_string(id) {
            Ok(Contract(id)) => Ok(Bytes::copy_from_slice(&id)),
            Err(_) => Err(format!("contract ID {} invalid", at + 1)),
        };
        let mut contracts: Vec<Bytes> = contracts
            .iter()
            .enumerate()
            .map(contract)
            .collect::<Result<_, _>>()?;
        contracts.sort_unstable();
        contracts.dedup();
        let mut patterns = Vec::new();
        for (at, segments) in topics.iter().enumerate() {
            let pattern = Pattern::read(segments.as_deref().unwrap_or(&[]));
            patterns.push(pattern.map_err(|error| format!("topic {} invalid: {error}", at + 1))?);
        }
        if patterns.is_empty() {
            patterns.push(Pattern::ALL);
        }
        Ok(Self {
            kinds,
            contracts,
            patterns,
        })
    }

    fn admits(&self, log: &Log, more_topics: usize) -> bool {
        let kinds = self.kinds.as_ref();
        kinds.is_none_or(|kinds| kinds.contains(&log.kind()))
            && (self.contracts.is_empty() || self.contracts.iter().any(|id| id == log.emitter()))
            && self.patterns.iter().any(|one| one.admits(log, more_topics))
    }
}

/// The event types in a list with commas; none where the list is empty.
fn kinds_of(list: &str) -> Result<Option<BTreeSet<u8>>, String> {
    if list.is_empty() {
        return Ok(None);
    }
    let kind = |name: &str| match name {
        "system" => Ok(0),
        "contract" => Ok(1),
        _ => Err("if set, type must be either 'system' or 'contract'".to_owned()),
    };
    list.split(',')
        .map(kind)
        .collect::<Result<_, _>>()
        .map(Some)
}

impl Filters {
    pub(super) fn read(params: &[EventFilterParams]) -> Result<Self, String> {
        if params.len() > FILTERS_MAX {
            return Err(format!("maximum {FILTERS_MAX} filters per request"));
        }
        let mut filters = Vec::new();
        for (at, params) in params.iter().enumerate() {
            let filter = Filter::read(params);
            filters.push(filter.map_err(|error| format!("filter {} invalid: {error}", at + 1))?);
        }
        Ok(Self(filters))
    }

    /// Whether a filter matches a log with this many topics after the fourth.
    pub(super) fn admit(&self, log: &Log, more_topics: usize) -> bool {
        self.0.is_empty() || self.0.iter().any(|filter| filter.admits(log, more_topics))
    }

    /// Log filters that together match every matching event, and perhaps others.
    pub(super) fn log_filters(&self, range: BlockRange) -> Vec<LogFilter> {
        let mut log_filters: Vec<LogFilter> = Vec::new();
        for filter in &self.0 {
            for pattern in &filter.patterns {
                let log_filter = log_filter(filter, pattern, range);
                if !log_filters.contains(&log_filter) {
                    log_filters.push(log_filter);
                }
            }
        }
        let all = LogFilter::over(range);
        // A filter that matches everything makes the others redundant.
        if log_filters.is_empty() || log_filters.contains(&all) {
            log_filters = vec![all];
        }
        log_filters
    }
}

fn log_filter(filter: &Filter, pattern: &Pattern, range: BlockRange) -> LogFilter {
    let one = |wanted: &Option<Bytes>| match wanted {
        None => Clause::Any,
        Some(value) => Clause::OneOf(vec![value.clone()]),
    };
    LogFilter {
        emitters: if filter.contracts.is_empty() {
            Clause::Any
        } else {
            Clause::OneOf(filter.contracts.clone())
        },
        topics: pattern.positions.iter().map(one).collect(),
        // A log has at most four topics: an event with more counts as having four.
        arity: if pattern.is_open {
            TopicArity::AtLeast
        } else {
            TopicArity::Exact
        },
        ..LogFilter::over(range)
    }
}
