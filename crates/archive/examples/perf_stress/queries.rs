//! Every class of queries against the warm archive.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chronolith_archive::Archive;
use chronolith_model::{BlockRange, LogFilter, Select};
use chronolith_sim::{QueryClass, QueryMix, SimChain};

use crate::args::Args;
use crate::measure::{self, Answer, TimeBox, Times};

/// A class may take so long, and so may its warming up.
const CLASS_TIME: Duration = Duration::from_secs(20);
/// Seeds of the queries that are timed, and of those that warm up: never the same ones.
const SEED: u64 = 11;
const WARM_UP_SEED: u64 = 12;

/// What a class came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) times: Times,
    /// CPU time of the process: what a busy machine does not change.
    pub(crate) cpu: Times,
    /// Of the queries in their order.
    pub(crate) answers: Vec<Answer>,
    /// Rows that were unpacked and checked, all queries together.
    pub(crate) candidates: u64,
}

impl Measured {
    /// Results per second.
    pub(crate) fn rows_per_second(&self) -> f64 {
        let rows: u64 = self.answers.iter().map(|answer| answer.rows).sum();
        rows as f64 / self.times.total_seconds()
    }

    /// How many results the queries have, at this percentile.
    pub(crate) fn rows_at(&self, percent: usize) -> u64 {
        let mut rows: Vec<u64> = self.answers.iter().map(|answer| answer.rows).collect();
        rows.sort_unstable();
        let last = rows.len().saturating_sub(1);
        let at = (last * percent).div_ceil(100);
        rows.get(at).copied().unwrap_or_default()
    }
}

/// The filters of a class. The same for everybody who is asked.
pub(crate) fn filters(
    args: &Args,
    chain: &SimChain,
    extent: BlockRange,
) -> BTreeMap<QueryClass, Vec<LogFilter>> {
    seeded(args, chain, extent, SEED)
}

fn seeded(
    args: &Args,
    chain: &SimChain,
    extent: BlockRange,
    seed: u64,
) -> BTreeMap<QueryClass, Vec<LogFilter>> {
    let mut mix = QueryMix::new(chain, extent, seed);
    let mut of = |class| {
        let filter = |at| {
            let mut filter = mix.next(class);
            if matches!(class, QueryClass::DenseTopic0 | QueryClass::Sparse03Percent) {
                filter.select = Select::Range(from_anywhere(extent, at, seed));
            }
            let limit = filter.limit.unwrap_or(usize::MAX).min(args.max_results);
            filter.limit = Some(limit);
            filter
        };
        (class, (0..args.queries).map(filter).collect())
    };
    QueryClass::ALL.into_iter().map(&mut of).collect()
}

/// The extent from some block of its first half on: the class asks for one topic0 only, and
/// always the same first results would come from a cache of decoded frames.
fn from_anywhere(extent: BlockRange, at: usize, seed: u64) -> BlockRange {
    let phase = (at as u64 + (seed << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let skip = (u128::from(phase) * u128::from(extent.len() / 2)) >> 64;
    BlockRange::new(extent.start + skip as u64, extent.end)
}

/// Asks all filters, after a warm-up with as many others of their kind: the cache then holds what it
/// would hold after a day of such queries.
pub(crate) async fn run(
    archive: &Archive,
    args: &Args,
    chain: &SimChain,
    filters: &BTreeMap<QueryClass, Vec<LogFilter>>,
) -> Result<BTreeMap<QueryClass, Measured>> {
    let extent = BlockRange::new(0, args.blocks);
    let warm_up = seeded(args, chain, extent, WARM_UP_SEED);
    let mut measured = BTreeMap::new();
    for (&class, filters) in filters {
        let others = warm_up.get(&class).map(Vec::as_slice).unwrap_or_default();
        ask(archive, others, CLASS_TIME).await?;
        let class_measured = ask(archive, filters, CLASS_TIME).await;
        measured.insert(class, class_measured.context(class.name())?);
    }
    Ok(measured)
}

/// Asks filters one after the other until they or the time ends.
pub(crate) async fn ask(
    archive: &Archive,
    filters: &[LogFilter],
    time: Duration,
) -> Result<Measured> {
    let time = TimeBox::new(time);
    let (mut micros, mut cpu, mut answers, mut candidates) = (vec![], vec![], vec![], 0);
    for filter in filters {
        if !time.allows(answers.len()) {
            break;
        }
        let began_cpu = measure::process_cpu();
        let began = Instant::now();
        let page = archive.query_finalized(filter).await?;
        micros.push(measure::micros(began.elapsed()));
        cpu.push((measure::process_cpu() - began_cpu) * 1e6);
        candidates += page.cost.candidates;
        let mut answer = Answer::default();
        for record in &page.logs {
            answer.add(record.block.number, record.log.log_index());
        }
        answers.push(answer);
    }
    Ok(Measured {
        times: Times::new(micros),
        cpu: Times::new(cpu),
        answers,
        candidates,
    })
}
