//! Parts of the run that need a process of their own: to be pinned to one core, to have a memory
//! peak of their own, or to begin with nothing in memory. A child prints one line of JSON.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_model::BlockRange;
use chronolith_sim::{ChainSpec, QueryClass, SimChain};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use crate::args::{Args, Child};
use crate::ingest::Feed;
use crate::measure::{self, Answer, Times};
use crate::place::Place;
use crate::queries;

/// Lookups of each sort that are timed.
const LOOKUPS: u64 = 20_000;

/// The chain of the run.
pub(crate) fn chain(args: &Args) -> SimChain {
    SimChain::new(ChainSpec {
        logs_per_block: args.logs_per_block,
        ..ChainSpec::mainnet(args.seed)
    })
}

/// A runtime for so many threads. One thread also means one core for everything.
pub(crate) fn runtime(threads: usize) -> Result<Runtime> {
    let mut builder = match threads {
        1 => {
            measure::pin_to_one_core().context("pin to one core")?;
            Builder::new_current_thread()
        }
        _ => Builder::new_multi_thread(),
    };
    // The archive's own threads follow this variable; it is set by the parent.
    let wanted = std::env::var("RAYON_NUM_THREADS").unwrap_or_default();
    ensure!(wanted == threads.to_string(), "RAYON_NUM_THREADS={wanted}");
    let runtime = builder.enable_all();
    if threads > 1 {
        runtime.worker_threads(threads);
    }
    runtime.build().context("start a runtime")
}

/// Starts a child and takes what it prints.
pub(crate) fn start(args: &Args, child: Child, dir: &Path, threads: usize) -> Result<Value> {
    let program = std::env::current_exe().context("find this program")?;
    let mut command = Command::new(program);
    let numbers = [
        ("--blocks", args.blocks),
        ("--logs-per-block", args.logs_per_block.into()),
        ("--queries", args.queries as u64),
        ("--max-results", args.max_results as u64),
        ("--chunk-size", args.chunk_size),
        ("--tx-hashes", args.tx_hashes),
        ("--seed", args.seed),
        ("--skip", args.skip as u64),
        ("--threads", threads as u64),
    ];
    for (name, number) in numbers {
        command.arg(name).arg(number.to_string());
    }
    command.args(["--child", child.name(), "--dir"]).arg(dir);
    command.env("RAYON_NUM_THREADS", threads.to_string());
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("start the {} process", child.name()))?;
    if !output.status.success() {
        bail!("the {} process failed ({})", child.name(), output.status);
    }
    serde_json::from_slice(&output.stdout).context("read what the process printed")
}

/// What this process does if it is a child.
pub(crate) fn run(args: &Args, child: Child) -> Result<()> {
    let dir = args.dir.clone().context("a child needs --dir")?;
    let threads = args.threads.first().copied().unwrap_or(1);
    let place = Place::Files(dir);
    let printed = match child {
        Child::Ingest => runtime(threads)?.block_on(fill(args, &place, threads))?,
        Child::Cold => runtime(threads)?.block_on(cold(args, &place))?,
        Child::Tx => runtime(threads)?.block_on(transactions(args, &place, threads))?,
    };
    println!("{printed}");
    Ok(())
}

async fn fill(args: &Args, place: &Place, threads: usize) -> Result<Value> {
    let chain = chain(args);
    let feed = Feed {
        chain: &chain,
        range: BlockRange::new(0, args.blocks),
        chunk: args.chunk_size,
        threads,
    };
    let archive = place.writer().await?;
    Ok(feed.run(&archive).await?.to_json())
}

/// The first queries after opening, with their times and answers.
async fn cold(args: &Args, place: &Place) -> Result<Value> {
    let mut made = args.clone();
    made.queries += args.skip;
    let filters = queries::filters(&made, &chain(args), BlockRange::new(0, args.blocks));
    let narrow = filters.get(&QueryClass::Narrow).map(Vec::as_slice);
    let narrow = narrow.and_then(|all| all.get(args.skip..));
    let began = Instant::now();
    let archive = place.reader().await?;
    let opened = measure::micros(began.elapsed());
    let (mut micros, mut answers) = (Vec::new(), Vec::new());
    for filter in narrow.unwrap_or_default() {
        let began = Instant::now();
        let page = archive.query_finalized(filter).await?;
        micros.push(measure::micros(began.elapsed()));
        let mut answer = Answer::default();
        for record in &page.logs {
            answer.add(record.block.number, record.log.log_index());
        }
        answers.push([answer.rows, answer.checksum]);
    }
    Ok(json!({ "open_micros": opened, "micros": micros, "answers": answers }))
}

/// A chain of many transactions, about as many in a block as Ethereum has, and few logs.
/// Everything is merged.
async fn transactions(args: &Args, place: &Place, threads: usize) -> Result<Value> {
    let chain = SimChain::new(ChainSpec {
        logs_per_block: 4,
        silent_txs_percent: 99,
        ..ChainSpec::mainnet(args.seed)
    });
    // About as many as a block of this chain has; the first blocks tell.
    let first = chain.blocks(BlockRange::new(0, 200));
    let per_block = first.map(|block| block.txs.len() as u64).sum::<u64>() / 200;
    let cell = args.tx_hashes / per_block.max(1);
    let feed = Feed {
        chain: &chain,
        range: BlockRange::new(0, cell),
        chunk: args.chunk_size,
        threads,
    };
    let writer = place.writer_of_cell(cell).await?;
    let filled = feed.run(&writer).await?;
    let tiers = writer.health().tiers;
    ensure!(
        tiers.iter().sum::<usize>() == 1,
        "not everything is merged: {tiers:?}"
    );
    drop(writer);
    let archive = place.reader().await?;
    let blocks = filled.tx_counts.len() as u64;
    let mut hits = Vec::new();
    let mut misses = Vec::new();
    let warm_up = LOOKUPS / 2;
    for at in 0..LOOKUPS + warm_up {
        let random = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let number = ((u128::from(random) * u128::from(blocks)) >> 64) as u64;
        let count = filled.tx_counts.get(number as usize).copied().unwrap_or(0);
        if count == 0 {
            continue;
        }
        let index = (random as u32) % count;
        let present = chain.tx_hash(number, index);
        let absent = chain.tx_hash(number, u32::MAX - index);
        let began = Instant::now();
        let found = archive.transaction_by_hash(&present).await?;
        let hit = began.elapsed();
        let place = found.context("a transaction was not found")?;
        ensure!(
            (place.block.number, place.index) == (number, index),
            "transaction {number}/{index} was found at {place:?}"
        );
        let began = Instant::now();
        let found = archive.transaction_by_hash(&absent).await?;
        let miss = began.elapsed();
        ensure!(found.is_none(), "an absent transaction was found");
        if at >= warm_up {
            hits.push(measure::micros(hit));
            misses.push(measure::micros(miss));
        }
    }
    let percentiles = |micros: Vec<f64>| {
        let times = Times::new(micros);
        [50, 95, 99].map(|percent| times.percentile(percent))
    };
    Ok(json!({
        "txs": filled.txs, "logs": filled.logs, "wall": filled.wall, "cpu": filled.cpu,
        "hit": percentiles(hits), "miss": percentiles(misses),
    }))
}

/// Cold narrow queries: rounds of a new process right after the caches were emptied. `Err` says
/// why it cannot be measured here.
pub(crate) fn cold_rounds(
    args: &Args,
    dir: &Path,
    rounds: usize,
    each: usize,
) -> Result<ColdRounds> {
    let mut all = ColdRounds::default();
    for round in 0..rounds {
        measure::drop_caches().context("empty the page cache (as root, on Linux)")?;
        let mut child = args.clone();
        (child.queries, child.skip) = (each, round * each);
        let printed = start(&child, Child::Cold, dir, 1)?;
        let list = |name: &str| printed.get(name).and_then(Value::as_array).cloned();
        let micros = list("micros").unwrap_or_default();
        all.micros.extend(micros.iter().filter_map(Value::as_f64));
        all.open
            .extend(printed.get("open_micros").and_then(Value::as_f64));
        for answer in list("answers").unwrap_or_default() {
            let part = |at| answer.get(at).and_then(Value::as_u64).unwrap_or_default();
            all.answers.push(Answer {
                rows: part(0),
                checksum: part(1),
            });
        }
    }
    Ok(all)
}

/// What the cold rounds came to.
#[derive(Debug, Default)]
pub(crate) struct ColdRounds {
    pub(crate) micros: Vec<f64>,
    /// Opening the archive, each round.
    pub(crate) open: Vec<f64>,
    pub(crate) answers: Vec<Answer>,
}
