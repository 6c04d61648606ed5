//! Fills an archive in a temporary directory with a simulated chain and asks it a few questions.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chronolith_archive::{Archive, Error, GcMode, LogPage, Provenance, Settings, TimeSide};
use chronolith_model::{Block, BlockRange, ChainId, Clause, LogFilter, Order};
use chronolith_sim::{ChainSpec, QueryClass, QueryMix, SimChain};
use chronolith_store::{FileBlobs, FileMeta, TakeOver};

const BLOCKS: u64 = 4_000;
const LOGS_PER_BLOCK: u32 = 150;
/// Blocks in one ingest call.
const CALL: u64 = 50;
/// A question is asked so often; the median time is shown.
const ASKED: usize = 21;

#[tokio::main]
async fn main() -> Result<()> {
    let dir = tempfile::Builder::new()
        .prefix("chronolith-demo-")
        .tempdir()?;
    let path = dir.path();
    println!(
        "Chronolith demo: finalized history in immutable files, and a log query engine on it."
    );
    println!();
    println!("An archive in {} (removed at the end).", path.display());
    println!("The chain is simulated: {BLOCKS} blocks with about {LOGS_PER_BLOCK} logs each.");
    println!();
    let chain = SimChain::new(ChainSpec {
        logs_per_block: LOGS_PER_BLOCK,
        ..ChainSpec::mainnet(1)
    });
    let archive = Archive::open_writer(
        Arc::new(FileMeta::open_writer(path)?),
        Arc::new(FileBlobs::open_writer(path)?),
        settings(),
        TakeOver::NoWait,
    );
    let archive = archive.await?;
    fill(&archive, &chain, path).await?;
    drop(archive);
    ask(&chain, path).await?;
    println!();
    println!("What next:");
    println!("  README.md           what it is for, and the data's way through it");
    println!("  ARCHITECTURE.md     the walk through the code");
    println!("  docs/guarantees.md  what it promises, and which test holds it to that");
    println!("  make bench          the same at 10 million logs, beside PostgreSQL");
    Ok(())
}

fn settings() -> Settings {
    let mut settings = Settings::evm(ChainId(1));
    // Readers in other processes get a time of grace; here there are none.
    settings.garbage.grace = Duration::ZERO;
    settings
}

/// Feeds the chain and shows how it goes.
async fn fill(archive: &Archive, chain: &SimChain, path: &Path) -> Result<()> {
    let mut progress = Progress::new();
    let (mut logs, mut raw_bytes, mut spent) = (0, 0, Duration::ZERO);
    for start in (0..BLOCKS).step_by(CALL as usize) {
        let range = BlockRange::new(start, (start + CALL).min(BLOCKS));
        let blocks: Vec<Block> = chain.blocks(range).collect();
        for log in blocks.iter().flat_map(|block| &block.logs) {
            logs += 1;
            raw_bytes += log.byte_len() as u64;
        }
        let began = Instant::now();
        archive
            .ingest_finalized_blocks(blocks, &Provenance::default())
            .await?;
        while archive.maintain().await? {}
        spent += began.elapsed();
        progress.show(range.end, logs, spent);
    }
    progress.end();
    // Batches that were sealed since, and segments that were merged.
    archive.collect_garbage(GcMode::Remove).await?;
    let stored = bytes_below(path)? as f64 / logs as f64;
    println!(
        "Every block is durable. {:.0} bytes a log came in, {stored:.0} are stored: the log itself, \
         all\ntransaction hashes, and the index.",
        raw_bytes as f64 / logs as f64,
    );
    println!();
    Ok(())
}

/// One line that is drawn again and again; where nobody looks, a line each second.
struct Progress {
    terminal: bool,
    shown: Option<Instant>,
    last: String,
}

impl Progress {
    fn new() -> Self {
        Self {
            terminal: std::io::stdout().is_terminal(),
            shown: None,
            last: String::new(),
        }
    }

    fn show(&mut self, blocks: u64, logs: u64, spent: Duration) {
        let rate = logs as f64 / spent.as_secs_f64();
        self.last = format!(
            "ingest  {:>3} %  block {blocks:>5}  {logs:>7} logs  {:>5.0} k logs/s",
            100 * blocks / BLOCKS,
            rate / 1_000.0
        );
        let pause = if self.terminal { 50 } else { 1_000 };
        let pause = Duration::from_millis(pause);
        if self.shown.is_none_or(|shown| shown.elapsed() >= pause) {
            self.draw();
            self.shown = Some(Instant::now());
        }
    }

    fn draw(&self) {
        if self.terminal {
            print!("\r{}", self.last);
            // A line that cannot be drawn is no reason to stop.
            let _ = std::io::stdout().flush();
        } else {
            println!("{}", self.last);
        }
    }

    fn end(&self) {
        self.draw();
        if self.terminal {
            println!();
        }
    }
}

/// Asks what people ask, from a second handle that only reads.
async fn ask(chain: &SimChain, path: &Path) -> Result<()> {
    let reader = Archive::open_reader(
        Arc::new(FileMeta::open_reader(path)),
        Arc::new(FileBlobs::open_reader(path)),
        settings(),
    );
    let archive = reader.await?;
    let extent = BlockRange::new(0, BLOCKS);
    let mut mix = QueryMix::new(chain, extent, 1);
    println!("{:<44} {:>10}  answer", "question", "time");
    let questions = [
        ("logs of one address and topic0", QueryClass::Narrow),
        ("logs with a rare term", QueryClass::Rare),
        ("logs with a term that is not there", QueryClass::Absent),
        (
            "logs of any of 256 addresses, first 1,000",
            QueryClass::Or256Uniform,
        ),
    ];
    for (question, class) in questions {
        let filter = LogFilter {
            limit: Some(1_000),
            ..mix.next(class)
        };
        let (took, page) = timed(async || archive.query_finalized(&filter).await).await?;
        line(question, took, &count(&page));
    }
    pages(&archive, chain, extent).await?;

    let wanted = chain.clock(BLOCKS / 3);
    let time = wanted.timestamp + 5;
    let at_time = async || archive.block_at(time, TimeSide::AtOrBefore).await;
    let (took, found) = timed(at_time).await?;
    let found = found.context("a block before that time")?;
    line(
        "the block at a time",
        took,
        &format!("block {}", found.number),
    );

    let tx = chain.tx_hash(BLOCKS / 2, 3);
    let (took, found) = timed(async || archive.transaction_by_hash(&tx).await).await?;
    let found = found.context("a transaction of the chain")?;
    let place = format!("block {}, position {}", found.block.number, found.index);
    line("where a transaction is, by its hash", took, &place);

    let beyond = LogFilter::over(BlockRange::new(BLOCKS - 10, BLOCKS + 10));
    let began = Instant::now();
    let refused = archive.query_finalized(&beyond).await;
    let answer = match refused {
        Err(error @ Error::NotCovered { .. }) => format!("refused: {error}"),
        other => format!("unexpected: {:?}", other.map(|page| page.logs.len())),
    };
    line(
        "logs of blocks that are not all there",
        began.elapsed(),
        &answer,
    );
    println!();
    println!("Times are medians of {ASKED}, in process. What is not provably complete is refused,");
    println!("never answered short.");
    Ok(())
}

/// The busiest contract's newest logs, page by page.
async fn pages(archive: &Archive, chain: &SimChain, extent: BlockRange) -> Result<()> {
    let block = chain.block(BLOCKS - 1);
    let log = block.logs.first().context("a log in the last block")?;
    let mut filter = LogFilter {
        topics: vec![Clause::OneOf(vec![
            log.topic(0).context("a topic")?.to_vec().into(),
        ])],
        limit: Some(100),
        order: Order::Descending,
        ..LogFilter::over(extent)
    };
    let (took, page) = timed(async || archive.query_finalized(&filter).await).await?;
    line(
        "newest logs of a topic0, a page of 100",
        took,
        &count(&page),
    );
    filter.cursor = page.next;
    let (took, page) = timed(async || archive.query_finalized(&filter).await).await?;
    line("the next page, by its cursor", took, &count(&page));
    Ok(())
}

fn count(page: &LogPage) -> String {
    let more = if page.has_more {
        ", and there are more"
    } else {
        ""
    };
    let logs = page.logs.len();
    let noun = if logs == 1 { "log" } else { "logs" };
    format!("{logs} {noun}{more}")
}

/// Asks again and again; the median time, and the last answer.
async fn timed<T>(ask: impl AsyncFn() -> chronolith_archive::Result<T>) -> Result<(Duration, T)> {
    let mut times = Vec::with_capacity(ASKED);
    loop {
        let began = Instant::now();
        let answer = ask().await?;
        times.push(began.elapsed());
        if times.len() == ASKED {
            times.sort_unstable();
            let median = times.get(ASKED / 2).copied();
            return Ok((median.unwrap_or_default(), answer));
        }
    }
}

fn line(question: &str, took: Duration, answer: &str) {
    let micros = took.as_secs_f64() * 1e6;
    println!("{question:<44} {micros:>7.0} µs  {answer}");
}

/// Bytes of all files below a directory.
fn bytes_below(path: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() {
            bytes_below(&entry.path())?
        } else {
            found.len()
        };
    }
    Ok(bytes)
}
