//! The hash index beside minimal perfect hashing and RocksDB, on the same keys:
//! `make bench-history`, with `HISTORY_ARGS="--keys 10000000"` for less.
//!
//! Keys are the first 64 bits of hashes, made from a seed, each in a block of a range of ten million.
//! Sixteen runs are merged into one, as a range does when it is finished. Everything is looked up warm,
//! in batches, so that reading the clock costs little.

mod baselines;
mod keys;
mod report;

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use chronolith_archive::Cache;
use chronolith_archive::bench::{Index, Run, Runs};
use chronolith_model::BlockRange;
use chronolith_store::{BlobStore, FileBlobs};
use keys::{BLOCKS, Keys};
use report::{Report, latency, memory_latency, peak_bytes, reset_peak};

const INPUTS: u64 = 16;
const SEED: u64 = 7;

fn main() -> Result<()> {
    let keys = Keys::new(SEED, count()?);
    println!(
        "{} keys in {BLOCKS} blocks, {INPUTS} runs merged into one",
        keys.len()
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let folder = tempfile::tempdir().context("a folder for the runs")?;
    let mut report = Report::new();
    runtime.block_on(ours(&keys, folder.path(), &mut report))?;
    baselines::measure(&keys, folder.path(), &mut report);
    report.print();
    Ok(())
}

fn count() -> Result<u64> {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (None, _) => Ok(100_000_000),
        (Some("--keys"), Some(count)) => Ok(count.parse()?),
        (Some(other), _) => anyhow::bail!("unknown argument: {other} (there is --keys COUNT)"),
    }
}

async fn ours(keys: &Keys, folder: &std::path::Path, report: &mut Report) -> Result<()> {
    let blobs = Arc::new(FileBlobs::open_writer(folder)?);
    // The pages of the index get three eighths of a cache, and its parts are not filled evenly.
    let cache = Cache::of_bytes(keys.len() * 8 * 8 / 3 + (64 << 20));
    let runs = Runs::new(blobs.clone(), cache);
    let all = BlockRange::new(0, BLOCKS);
    let mut inputs: Vec<Run> = Vec::new();
    for part in 0..INPUTS {
        let blocks = BlockRange::new(BLOCKS * part / INPUTS, BLOCKS * (part + 1) / INPUTS);
        let own = keys.of_blocks(&blocks);
        let own = own.map(|at| (keys.key(at), keys.block(at) - blocks.start));
        let name = format!("run/{part}-input");
        inputs.push(runs.build(&name, blocks, own.collect()).await?);
    }
    reset_peak();
    let before = Instant::now();
    let run = runs.merge("run/all", all, &inputs).await?;
    let seconds = before.elapsed().as_secs_f64();
    let rate = keys.len() as f64 / seconds / 1e6;
    report.ours("build, million keys/s", rate, |rate| rate >= 10.0, ">= 10");
    let peak = peak_bytes() as f64 / f64::from(1 << 20);
    report.ours(
        "build, memory in MiB",
        peak,
        |peak| peak <= 1024.0,
        "<= 1024",
    );
    let size = run.bytes() as f64 / run.keys() as f64;
    report.ours("size, bytes/key", size, |size| size <= 5.3, "<= 5.3");
    same_however_merged(&runs, &inputs, (&run, &*blobs)).await?;

    let index = runs.index(std::slice::from_ref(&run));
    runs.warm(&index).await?;
    look_up(keys, &runs, &index, report)
}

/// In steps of four: the same bytes.
async fn same_however_merged(
    runs: &Runs,
    inputs: &[Run],
    (run, blobs): (&Run, &dyn BlobStore),
) -> Result<()> {
    let mut halves = Vec::new();
    let share = BLOCKS / 4;
    for (at, group) in (0..).zip(inputs.chunks(4)) {
        let range = BlockRange::new(share * at, share * (at + 1));
        halves.push(
            runs.merge(&format!("run/{at}-quarter"), range, group)
                .await?,
        );
    }
    let again = runs
        .merge("run/again", BlockRange::new(0, BLOCKS), &halves)
        .await?;
    let same = again.bytes() == run.bytes()
        && blobs.get("run/all").await? == blobs.get("run/again").await?;
    anyhow::ensure!(same, "runs differ by the way they were merged");
    println!("merged in two steps: the same bytes");
    Ok(())
}

fn look_up(keys: &Keys, runs: &Runs, index: &Index, report: &mut Report) -> Result<()> {
    let mut found = Vec::with_capacity(16);
    let (mut wrong, mut cold, mut candidates) = (0_u64, 0_u64, 0_u64);
    let hit = latency(keys.sample(), |at| {
        found.clear();
        let answered = runs.locate(index, keys.key(at), &mut found);
        cold += u64::from(!answered);
        wrong += u64::from(answered && !found.contains(&keys.block(at)));
    });
    report.ours("hit, p50 ns", hit, |hit| hit <= 1000.0, "<= 1000");
    let miss = latency(keys.sample(), |at| {
        found.clear();
        cold += u64::from(!runs.locate(index, keys.absent(at), &mut found));
        candidates += found.len() as u64;
    });
    report.ours("miss, p50 ns", miss, |miss| miss <= 500.0, "<= 500");
    report.ours("wrong answers", wrong as f64, |wrong| wrong == 0.0, "0");
    anyhow::ensure!(cold == 0, "{cold} lookups were not answered from memory");
    println!(
        "memory alone: one read at random of {} MB, {:.0} ns",
        index.bytes() / 1_000_000,
        memory_latency(index.bytes())
    );
    let share = candidates as f64 / keys.samples() as f64;
    let expected = keys.len() as f64 / (1_u64 << 40) as f64;
    println!("of absent keys, {share:.7} lead to a block in vain (expected {expected:.7})");
    Ok(())
}
