//! The plain scan: every log of the chain is looked at. What no index is measured against, and
//! what every index is checked against.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use chronolith_model::{Block, BlockRange, LogFilter, Select};
use chronolith_sim::{QueryClass, SimChain};

use crate::measure::{self, Answer, Times};
use crate::queries::Measured;

/// Queries of each class that are scanned for.
const QUERIES: usize = 3;
/// Blocks that are made before they are scanned.
const CHUNK: u64 = 500;

struct Running<'a> {
    class: QueryClass,
    filter: &'a LogFilter,
    range: BlockRange,
    limit: u64,
    answer: Answer,
    took: Duration,
}

/// Scans for the first queries of each class and compares the answers. The blocks are decoded and
/// in memory; making them is not timed.
pub(crate) fn run(
    chain: &SimChain,
    extent: BlockRange,
    filters: &BTreeMap<QueryClass, Vec<LogFilter>>,
    ours: &BTreeMap<QueryClass, Measured>,
) -> Result<BTreeMap<QueryClass, Times>> {
    let mut running: Vec<Running<'_>> = Vec::new();
    for (&class, filters) in filters {
        for filter in filters.iter().take(QUERIES) {
            let Select::Range(range) = filter.select else {
                bail!("a filter without a range");
            };
            running.push(Running {
                class,
                filter,
                range,
                limit: filter.limit.map_or(u64::MAX, |limit| limit as u64),
                answer: Answer::default(),
                took: Duration::ZERO,
            });
        }
    }
    let mut start = extent.start;
    while start < extent.end {
        let end = (start + CHUNK).min(extent.end);
        let blocks: Vec<Block> = chain.blocks(BlockRange::new(start, end)).collect();
        for scan in &mut running {
            let began = Instant::now();
            scan.chunk(&blocks);
            scan.took += began.elapsed();
        }
        start = end;
    }
    let mut times: BTreeMap<QueryClass, Vec<f64>> = BTreeMap::new();
    for scan in running {
        let micros = times.entry(scan.class).or_default();
        let answers = ours.get(&scan.class).map(|measured| &measured.answers);
        let answer = answers.and_then(|answers| answers.get(micros.len()));
        if answer.is_some_and(|answer| *answer != scan.answer) {
            bail!(
                "the answers differ ({}): the archive has {answer:?}, the scan {:?} for {:?}",
                scan.class.name(),
                scan.answer,
                scan.filter
            );
        }
        micros.push(measure::micros(scan.took));
    }
    let times = times.into_iter();
    Ok(times.map(|(class, all)| (class, Times::new(all))).collect())
}

impl Running<'_> {
    fn chunk(&mut self, blocks: &[Block]) {
        for block in blocks {
            let number = block.clock.number;
            if !self.range.contains(number) {
                continue;
            }
            for log in &block.logs {
                if self.answer.rows >= self.limit {
                    return;
                }
                if self.filter.matches(log) {
                    self.answer.add(number, log.log_index());
                }
            }
        }
    }
}
