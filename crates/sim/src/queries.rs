//! Seeded filters of named classes, for benches: what people ask a chain's history for.
//!
//! Terms that are meant to exist are taken from a sample of generated blocks, so a class keeps its
//! character on any chain: frequent terms are frequent in the sample, rare ones occur in it once.

mod sample;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use chronolith_model::{BlockRange, Clause, LogFilter};

use crate::SimChain;
use crate::rng::{self, Rng};
use sample::Sample;

/// Blocks that a narrow filter looks at.
const NARROW_BLOCKS: u64 = 10_000;
/// Values of a wide OR.
const OR_VALUES: usize = 256;
/// Limits of the classes that have one.
const OR_LIMIT: usize = 1_000;
const SCAN_LIMIT: usize = 10_000;

/// A class of filters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QueryClass {
    /// Address and topic0 over 10,000 blocks; on the mainnet chain half of them find more than
    /// about 23 logs.
    Narrow,
    /// One term that is in the sample once, over everything.
    Rare,
    /// One term that does not exist, over everything.
    Absent,
    /// Any of 256 addresses, each as likely as the others; over everything, limit 1,000.
    Or256Uniform,
    /// Any of 256 addresses, frequent ones likelier; over everything, limit 1,000.
    Or256Frequent,
    /// Topic1 and topic2 of a log, over everything, limit 10,000.
    Topic1Topic2,
    /// Address and topic3 of a log, over everything, limit 10,000.
    AddressTopic3,
    /// The most frequent topic0, limit 10,000.
    DenseTopic0,
    /// A topic0 of about 0.3 % of all logs, limit 10,000.
    Sparse03Percent,
    /// One of the other classes, the narrow ones most often.
    Mixed,
}

impl QueryClass {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Narrow,
        Self::Rare,
        Self::Absent,
        Self::Or256Uniform,
        Self::Or256Frequent,
        Self::Topic1Topic2,
        Self::AddressTopic3,
        Self::DenseTopic0,
        Self::Sparse03Percent,
        Self::Mixed,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Narrow => "narrow",
            Self::Rare => "rare",
            Self::Absent => "absent",
            Self::Or256Uniform => "or256_uniform",
            Self::Or256Frequent => "or256_frequent",
            Self::Topic1Topic2 => "topic1_topic2",
            Self::AddressTopic3 => "address_topic3",
            Self::DenseTopic0 => "dense_topic0",
            Self::Sparse03Percent => "sparse_0_3_percent",
            Self::Mixed => "mixed",
        }
    }
}

/// What `Mixed` is made of, in percent.
const MIX: [(u64, QueryClass); 9] = [
    (60, QueryClass::Narrow),
    (10, QueryClass::Rare),
    (8, QueryClass::Absent),
    (8, QueryClass::Topic1Topic2),
    (5, QueryClass::AddressTopic3),
    (4, QueryClass::Sparse03Percent),
    (2, QueryClass::DenseTopic0),
    (2, QueryClass::Or256Frequent),
    (1, QueryClass::Or256Uniform),
];

/// An endless, seeded supply of filters over one extent of a chain.
#[derive(Debug)]
pub struct QueryMix {
    extent: BlockRange,
    sample: Sample,
    rng: Rng,
}

impl QueryMix {
    /// Samples the blocks of `extent`; takes a fraction of a second.
    #[must_use]
    pub fn new(chain: &SimChain, extent: BlockRange, seed: u64) -> Self {
        Self {
            extent,
            sample: Sample::new(chain, extent),
            rng: Rng::of(&[seed]),
        }
    }

    /// The next filter of a class. Where the sample has no log that fits the class, the filter
    /// is one of `Absent`.
    pub fn next(&mut self, class: QueryClass) -> LogFilter {
        let filter = match class {
            QueryClass::Narrow => self.narrow(),
            QueryClass::Rare => self.rare(),
            QueryClass::Absent => None,
            QueryClass::Or256Uniform => self.or_uniform(),
            QueryClass::Or256Frequent => self.or_frequent(),
            QueryClass::Topic1Topic2 => self.topic1_topic2(),
            QueryClass::AddressTopic3 => self.address_topic3(),
            QueryClass::DenseTopic0 => self.topic0(self.sample.dense_topic0()),
            QueryClass::Sparse03Percent => self.topic0(self.sample.sparse_topic0()),
            QueryClass::Mixed => {
                let class = self.draw_class();
                return self.next(class);
            }
        };
        filter.unwrap_or_else(|| self.absent())
    }

    fn draw_class(&mut self) -> QueryClass {
        let class = rng::by_share(&MIX, self.rng.below(100));
        class.unwrap_or(QueryClass::Narrow)
    }

    fn narrow(&mut self) -> Option<LogFilter> {
        let (block, log) = self.rng.pick(&self.sample.pairs)?;
        // Any window of the wanted length around the sampled block, inside the extent.
        let length = NARROW_BLOCKS.min(self.extent.len());
        let earliest = (block + 1).saturating_sub(length).max(self.extent.start);
        let latest = (*block).min(self.extent.end - length);
        let start = earliest + self.rng.below(latest - earliest + 1);
        Some(LogFilter {
            emitters: one(log.emitter()),
            topics: vec![one(log.topic(0)?)],
            ..LogFilter::over(BlockRange::new(start, start + length))
        })
    }

    fn rare(&mut self) -> Option<LogFilter> {
        let (position, value) = self.rng.pick(&self.sample.singles)?;
        Some(self.term(*position, value.clone()))
    }

    fn absent(&mut self) -> LogFilter {
        let position = self.rng.below(5) as usize;
        let len = if position == sample::EMITTER { 20 } else { 32 };
        let value = self.rng.vec(len);
        self.term(position, value.into())
    }

    fn or_uniform(&mut self) -> Option<LogFilter> {
        let rng = &mut self.rng;
        let draws = (0..OR_VALUES).map(|_| rng.pick(&self.sample.emitters).cloned());
        let emitters = draws.collect::<Option<Vec<_>>>()?;
        Some(self.any_of(emitters))
    }

    fn or_frequent(&mut self) -> Option<LogFilter> {
        let rng = &mut self.rng;
        let draws = (0..OR_VALUES).map(|_| {
            let log = rng.pick(&self.sample.logs)?;
            Some(Bytes::copy_from_slice(log.emitter()))
        });
        let emitters = draws.collect::<Option<Vec<_>>>()?;
        Some(self.any_of(emitters))
    }

    fn topic1_topic2(&mut self) -> Option<LogFilter> {
        let log = self.rng.pick(&self.sample.logs_of_three)?;
        Some(LogFilter {
            topics: [Clause::Any, one(log.topic(1)?), one(log.topic(2)?)].into(),
            limit: Some(SCAN_LIMIT),
            ..self.everything()
        })
    }

    fn address_topic3(&mut self) -> Option<LogFilter> {
        let log = self.rng.pick(&self.sample.logs_of_four)?;
        Some(LogFilter {
            emitters: one(log.emitter()),
            topics: [Clause::Any, Clause::Any, Clause::Any, one(log.topic(3)?)].into(),
            limit: Some(SCAN_LIMIT),
            ..self.everything()
        })
    }

    fn topic0(&self, value: Option<&Bytes>) -> Option<LogFilter> {
        Some(LogFilter {
            topics: vec![one(value?)],
            limit: Some(SCAN_LIMIT),
            ..self.everything()
        })
    }

    /// One term over everything.
    fn term(&self, position: usize, value: Bytes) -> LogFilter {
        let clause = Clause::OneOf(vec![value]);
        let mut filter = self.everything();
        if position == sample::EMITTER {
            filter.emitters = clause;
        } else {
            filter.topics = vec![Clause::Any; position];
            filter.topics.push(clause);
        }
        filter
    }

    /// Any of these emitters over everything. Draws may repeat; the filter does not.
    fn any_of(&self, mut emitters: Vec<Bytes>) -> LogFilter {
        emitters.sort();
        emitters.dedup();
        LogFilter {
            emitters: Clause::OneOf(emitters),
            limit: Some(OR_LIMIT),
            ..self.everything()
        }
    }

    fn everything(&self) -> LogFilter {
        LogFilter::over(self.extent)
    }
}

fn one(value: &[u8]) -> Clause {
    Clause::OneOf(vec![Bytes::copy_from_slice(value)])
}
