//! A clock at scale: an archive that keeps nothing but when blocks were, and how fast the block at a
//! time is found in it, beside binary search in a sorted vector of all times.
//!
//! `cargo run --release -p chronolith-archive --example clock_scale -- [blocks] [lookups]`

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chronolith_archive::{Archive, Cache, GcMode, Pinned, Provenance, Settings, TimeSide};
use chronolith_model::{Block, BlockMeta, ChainId, DatasetSet, Hash32, Payload};
use chronolith_store::{FileBlobs, FileMeta, TakeOver};
use rustix::time::{ClockId, clock_gettime};

const BLOCKS: u64 = 100_000_000;
const LOOKUPS: u64 = 2_000_000;
/// Blocks in one ingest call.
const CALL: u64 = 20_000;
const GENESIS: u64 = 1_438_269_988;
/// What each cache holds: the times of all blocks fit, their hashes do not.
const CACHE_BYTES: u64 = 512 << 20;
/// Lookups that read the hash, too, most of them from a file.
const WITH_HASH: u64 = 50_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut args = std::env::args()
        .skip(1)
        .map(|arg| arg.replace('_', "").parse::<u64>());
    let blocks = args
        .next()
        .transpose()
        .context("blocks: a number")?
        .unwrap_or(BLOCKS);
    let lookups = args
        .next()
        .transpose()
        .context("lookups: a number")?
        .unwrap_or(LOOKUPS);
    ensure!(
        blocks > 1 && lookups > 0,
        "at least two blocks and one lookup"
    );
    let dir = tempfile::Builder::new()
        .prefix("chronolith-clock-")
        .tempdir()?;
    let path = dir.path();
    println!(
        "{blocks} blocks of which only the clock is kept, steps as uneven as under proof of work"
    );
    let times = fill(path, blocks).await?;

    print_bytes(path, blocks)?;
    let reader = Archive::open_reader(
        Arc::new(FileMeta::open_reader(path)),
        Arc::new(FileBlobs::open_reader(path)),
        settings(),
    );
    let pinned = reader.await?.pin().context("an empty archive")?;
    let wanted = wanted(&times, lookups);
    check(&pinned, &times, &wanted).await?;
    let ours = time_lookups(&pinned, &wanted).await?;
    let began = cpu_time();
    let mut sum = 0;
    for &time in &wanted {
        sum += times.partition_point(|&at| at < time);
    }
    let vector = cpu_time() - began;
    std::hint::black_box(sum);
    let rate = |spent: Duration| lookups as f64 / spent.as_secs_f64();
    println!(
        "block at a time, in process, one core: {:.2} M/s ({:.0} ns each)",
        rate(ours) / 1e6,
        1e9 / rate(ours)
    );
    println!(
        "the same in a sorted vector of {:.0} MB: {:.2} M/s, ratio {:.2}",
        blocks as f64 * 8.0 / 1e6,
        rate(vector) / 1e6,
        rate(ours) / rate(vector)
    );
    let began = Instant::now();
    let with_hash = WITH_HASH.min(lookups);
    for &time in wanted.iter().take(with_hash as usize) {
        pinned.block_at(time, TimeSide::AtOrAfter).await?;
    }
    let each = began.elapsed().as_secs_f64() / with_hash as f64;
    println!(
        "with its hash, most of them read from a file: {:.0} /s ({:.1} us each)",
        1.0 / each,
        each * 1e6
    );
    println!("memory: {}", peak_memory()?);
    Ok(())
}

fn print_bytes(path: &Path, blocks: u64) -> Result<()> {
    let (all, runs) = (bytes_below(path, "")?, bytes_below(path, "run")?);
    let each = |bytes: u64| bytes as f64 / blocks as f64;
    println!(
        "bytes a block: {:.2} = hash 32 + lookup by hash {:.2} + clock and everything else {:.2}",
        each(all),
        each(runs),
        each(all - runs) - 32.0,
    );
    Ok(())
}

fn settings() -> Settings {
    let mut settings = Settings::evm(ChainId(1));
    settings.datasets = DatasetSet::CLOCK;
    settings.garbage.grace = Duration::ZERO;
    settings.cache = Cache::of_bytes(CACHE_BYTES);
    settings
}

/// A number that looks random and is the same in each run.
fn mixed(seed: u64) -> u64 {
    let mut value = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn hash(number: u64) -> Hash32 {
    let mut bytes = [0; 32];
    for (at, part) in bytes.chunks_mut(8).enumerate() {
        part.copy_from_slice(&mixed(number * 4 + at as u64).to_le_bytes());
    }
    Hash32(bytes)
}

/// About 13 seconds on average, spread as by chance: mostly less, sometimes a minute.
fn step(number: u64) -> u64 {
    let chance = (mixed(number ^ 0x5eed) >> 11) as f64 / (1_u64 << 53) as f64;
    (-13.0 * (1.0 - chance).ln()) as u64
}

/// Fills the archive and returns the time of each block.
async fn fill(path: &Path, blocks: u64) -> Result<Vec<u64>> {
    let archive = Archive::open_writer(
        Arc::new(FileMeta::open_writer(path)?),
        Arc::new(FileBlobs::open_writer(path)?),
        settings(),
        TakeOver::NoWait,
    );
    let archive = archive.await?;
    let mut times = Vec::with_capacity(blocks as usize);
    let (mut time, mut parent, began) = (GENESIS, Hash32::ZERO, Instant::now());
    let mut shown = began;
    while (times.len() as u64) < blocks {
        let start = times.len() as u64;
        let batch = (start..(start + CALL).min(blocks)).map(|number| {
            time += step(number);
            times.push(time);
            let clock = BlockMeta {
                number,
                hash: hash(number),
                parent_hash: parent,
                timestamp: time,
            };
            parent = clock.hash;
            Block {
                clock,
                txs: Vec::new(),
                logs: Vec::new(),
                payload: Payload::default(),
            }
        });
        let batch = batch.collect();
        archive
            .ingest_finalized_blocks(batch, &Provenance::default())
            .await?;
        while archive.maintain().await? {}
        if start % (1 << 22) < CALL {
            archive.collect_garbage(GcMode::Remove).await?;
        }
        if shown.elapsed() > Duration::from_secs(10) {
            shown = Instant::now();
            let rate = times.len() as f64 / began.elapsed().as_secs_f64();
            eprintln!("{} blocks, {rate:.0} a second", times.len());
        }
    }
    archive.collect_garbage(GcMode::Remove).await?;
    let rate = blocks as f64 / began.elapsed().as_secs_f64();
    println!("archived at {rate:.0} blocks/s, from making them up to collecting garbage");
    Ok(times)
}

/// Times to ask for, anywhere in the chain.
fn wanted(times: &[u64], count: u64) -> Vec<u64> {
    let first = times.first().copied().unwrap_or(GENESIS) + 1;
    let span = times
        .last()
        .copied()
        .unwrap_or(first)
        .saturating_sub(first)
        .max(1);
    (0..count)
        .map(|at| first + mixed(at ^ 0xa5c) % span)
        .collect()
}

/// Some answers against the vector, on both sides.
async fn check(pinned: &Pinned, times: &[u64], wanted: &[u64]) -> Result<()> {
    for &time in wanted.iter().step_by((wanted.len() / 100_000).max(1)) {
        let found = pinned.number_at(time, TimeSide::AtOrAfter).await?;
        let after = times.partition_point(|&at| at < time) as u64;
        ensure!(
            found.map(|block| block.number) == Some(after),
            "after {time}: {found:?}, not {after}"
        );
        let found = pinned.number_at(time, TimeSide::AtOrBefore).await?;
        let before = times.partition_point(|&at| at <= time) as u64 - 1;
        ensure!(
            found.map(|block| block.number) == Some(before),
            "before {time}: {found:?}, not {before}"
        );
    }
    Ok(())
}

async fn time_lookups(pinned: &Pinned, wanted: &[u64]) -> Result<Duration> {
    // Once for the caches.
    for &time in wanted.iter().step_by(7) {
        pinned.number_at(time, TimeSide::AtOrAfter).await?;
    }
    let began = cpu_time();
    let mut sum = 0_u64;
    for &time in wanted {
        let found = pinned.number_at(time, TimeSide::AtOrAfter).await?;
        sum = sum.wrapping_add(found.map_or(0, |block| block.number));
    }
    std::hint::black_box(sum);
    Ok(cpu_time() - began)
}

/// What this thread has had of a core: others on the machine do not count.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Bytes of the files below a path, in folders of this name.
fn bytes_below(path: &Path, folder: &str) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let inside = folder.is_empty() || path.ends_with(folder);
        match entry.metadata()? {
            found if found.is_dir() => bytes += bytes_below(&entry.path(), folder)?,
            found if inside => bytes += found.len(),
            _ => {}
        }
    }
    Ok(bytes)
}

fn peak_memory() -> Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    Ok(peak
        .unwrap_or("unknown")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" "))
}
