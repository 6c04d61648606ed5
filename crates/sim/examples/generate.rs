//! Prints how fast mainnet blocks are generated and what they look like. Arguments: how many
//! blocks, and optionally a file to which the raw bytes of the first logs are written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write as _;
use std::time::Instant;

use bytes::Bytes;
use chronolith_model::{BlockRange, Clause, Log};
use chronolith_sim::{ChainSpec, QueryClass, QueryMix, SimChain};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let blocks = arguments.next().and_then(|text| text.parse().ok());
    let range = BlockRange::new(0, blocks.unwrap_or(4_000));
    let chain = SimChain::new(ChainSpec::mainnet(1));
    measure_speed(&chain, range);
    describe(&chain, range);
    measure_narrow(&chain, BlockRange::new(0, 10_000));
    if let Some(path) = arguments.next() {
        dump(&chain, range, &path)?;
    }
    Ok(())
}

fn measure_speed(chain: &SimChain, range: BlockRange) {
    let began = Instant::now();
    let (mut logs, mut txs, mut bytes) = (0_usize, 0_usize, 0_usize);
    for block in chain.blocks(range) {
        logs += block.logs.len();
        txs += block.txs.len();
        bytes += block.logs.iter().map(Log::byte_len).sum::<usize>();
    }
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{logs} logs, {txs} transactions in {seconds:.2} s: {:.2} M logs/s, {:.1} B a log",
        logs as f64 / seconds / 1e6,
        bytes as f64 / logs as f64
    );
}

fn describe(chain: &SimChain, range: BlockRange) {
    let mut distinct = HashSet::new();
    let mut emitters: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let (mut logs, mut logging_txs) = (0_usize, 0_usize);
    for block in chain.blocks(range) {
        logging_txs += block
            .logs
            .chunk_by(|a, b| a.tx_index() == b.tx_index())
            .count();
        for log in &block.logs {
            logs += 1;
            *emitters.entry(log.emitter().to_vec()).or_default() += 1;
            distinct.insert((4, log.emitter().to_vec()));
            distinct.extend(log.topics().map(<[u8]>::to_vec).enumerate());
            if logs == 719 || (logs.is_power_of_two() && logs >= 1 << 16) {
                let at = |wanted| distinct.iter().filter(|(at, _)| *at == wanted).count();
                let by_position: Vec<usize> = (0..5).map(at).collect();
                let terms = distinct.len() as f64 / logs as f64;
                println!("{logs} logs: {terms:.3} terms a log {by_position:?}");
            }
        }
    }
    let mut counts: Vec<u32> = emitters.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let top: Vec<String> = counts.iter().take(8).map(|&n| percent(n, logs)).collect();
    println!("{} emitters, the top ones {}", counts.len(), top.join(" "));
    println!(
        "{:.2} logs a logging transaction",
        logs as f64 / logging_txs as f64
    );
}

/// How many logs narrow filters find; the extent is as long as their windows, so that counting
/// every pair once answers all of them.
fn measure_narrow(chain: &SimChain, extent: BlockRange) {
    let mut pairs: HashMap<(Bytes, Bytes), u32> = HashMap::new();
    for log in chain.blocks(extent).flat_map(|block| block.logs) {
        let value = Bytes::copy_from_slice;
        let pair = (
            value(log.emitter()),
            value(log.topic(0).unwrap_or_default()),
        );
        *pairs.entry(pair).or_default() += 1;
    }
    let mut mix = QueryMix::new(chain, extent, 1);
    let mut found: Vec<u32> = (0..1_001)
        .filter_map(|_| {
            let filter = mix.next(QueryClass::Narrow);
            let (Clause::OneOf(emitters), [Clause::OneOf(topics)]) =
                (&filter.emitters, filter.topics.as_slice())
            else {
                return None;
            };
            let pair = (emitters.first()?.clone(), topics.first()?.clone());
            pairs.get(&pair).copied()
        })
        .collect();
    found.sort_unstable();
    let at = |percent: usize| found.get(percent * (found.len() - 1) / 100);
    println!(
        "narrow filters find {:?} {:?} {:?} (p10, p50, p90)",
        at(10),
        at(50),
        at(90)
    );
}

fn percent(count: u32, of: usize) -> String {
    format!("{:.1}%", 100.0 * f64::from(count) / of as f64)
}

fn dump(chain: &SimChain, range: BlockRange, path: &str) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    for log in chain.blocks(range).flat_map(|block| block.logs).take(719) {
        file.write_all(log.emitter())?;
        log.topics().try_for_each(|topic| file.write_all(topic))?;
        file.write_all(log.data())?;
    }
    file.flush()
}
