//! Terms of an extent that surely exist, from blocks spread evenly over it.

use std::collections::BTreeMap;

use bytes::Bytes;
use chronolith_model::{BlockRange, Log};

use crate::SimChain;

/// At most this many blocks are looked at. The fewer, the more frequent are the pairs of address
/// and topic0 that turn up at all: with this number half of the narrow filters on the mainnet
/// chain find about 23 logs or more (`examples/generate.rs` measures it).
const BLOCKS: u64 = 185;
/// At most this many logs are kept to draw frequent terms from.
const LOGS_MAX: usize = 20_000;
/// The position that stands for the emitter, after those of the topics.
pub(super) const EMITTER: usize = 4;

/// Terms that surely exist.
#[derive(Debug)]
pub(super) struct Sample {
    /// Logs as they came: frequent terms are frequent here.
    pub(super) logs: Vec<Log>,
    /// Logs with at least three topics.
    pub(super) logs_of_three: Vec<Log>,
    pub(super) logs_of_four: Vec<Log>,
    /// One log and its block for each pair of emitter and topic0.
    pub(super) pairs: Vec<(u64, Log)>,
    /// Each emitter once.
    pub(super) emitters: Vec<Bytes>,
    /// Terms that are in the sample once, by position and value.
    pub(super) singles: Vec<(usize, Bytes)>,
    /// Each topic0 and its share of all logs, in millionths.
    topic0_shares: Vec<(u64, Bytes)>,
}

impl Sample {
    pub(super) fn new(chain: &SimChain, extent: BlockRange) -> Self {
        let mut logs = Vec::new();
        let mut pairs: BTreeMap<(Vec<u8>, Vec<u8>), (u64, Log)> = BTreeMap::new();
        // Ordered maps only: what is drawn must not depend on a hasher's seed.
        let mut terms: BTreeMap<(usize, Vec<u8>), u64> = BTreeMap::new();
        for number in spread(extent) {
            for log in chain.block(number).logs {
                for (position, topic) in log.topics().enumerate() {
                    *terms.entry((position, topic.to_vec())).or_default() += 1;
                }
                let emitter = log.emitter().to_vec();
                *terms.entry((EMITTER, emitter.clone())).or_default() += 1;
                if let Some(topic0) = log.topic(0) {
                    let pair = (emitter, topic0.to_vec());
                    pairs.entry(pair).or_insert_with(|| (number, log.clone()));
                }
                logs.push(log);
            }
        }
        let total = logs.len().max(1) as u64;
        let of = |wanted: usize| terms.iter().filter(move |((at, _), _)| *at == wanted);
        let value = |value: &[u8]| Bytes::copy_from_slice(value);
        let singles = terms.iter().filter(|(_, count)| **count == 1);
        Self {
            emitters: of(EMITTER).map(|((_, name), _)| value(name)).collect(),
            topic0_shares: of(0)
                .map(|((_, name), count)| (count * 1_000_000 / total, value(name)))
                .collect(),
            singles: singles.map(|((at, name), _)| (*at, value(name))).collect(),
            pairs: pairs.into_values().collect(),
            logs_of_three: with_topics(&logs, 3),
            logs_of_four: with_topics(&logs, 4),
            logs: with_topics(&logs, 0),
        }
    }

    /// The most frequent topic0.
    pub(super) fn dense_topic0(&self) -> Option<&Bytes> {
        let densest = self.topic0_shares.iter().max_by_key(|(share, _)| *share);
        densest.map(|(_, value)| value)
    }

    /// The topic0 whose share is nearest to 0.3 %.
    pub(super) fn sparse_topic0(&self) -> Option<&Bytes> {
        let shares = self.topic0_shares.iter();
        let nearest = shares.min_by_key(|(share, _)| share.abs_diff(3_000));
        nearest.map(|(_, value)| value)
    }
}

/// Numbers of blocks spread evenly over the extent.
fn spread(extent: BlockRange) -> impl Iterator<Item = u64> {
    let count = BLOCKS.min(extent.len());
    let place = move |index: u64| {
        let offset = u128::from(extent.len()) * u128::from(index) / u128::from(count);
        extent.start + offset as u64
    };
    (0..count).map(place)
}

/// Logs with at least so many topics, thinned out evenly.
fn with_topics(logs: &[Log], topics: usize) -> Vec<Log> {
    let fitting = || logs.iter().filter(|log| log.topic_count() >= topics);
    let step = fitting().count().div_ceil(LOGS_MAX).max(1);
    fitting().step_by(step).cloned().collect()
}
