//! Filling the archive, with the generator's time left out.
//!
//! Blocks are made between the timed parts, on the same thread. Wall time is the sum of the timed
//! parts; CPU seconds are those of the whole process less those of the generator, so that nothing
//! an ingest leaves running behind its back escapes. Merging is part of what is timed: with one
//! thread after each call, with two beside the calls.

use std::cell::Cell;
use std::time::Instant;

use anyhow::{Result, ensure};
use chronolith_archive::{Archive, IngestOutcome, Provenance};
use chronolith_model::{Block, BlockRange};
use chronolith_sim::SimChain;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::measure;

/// With two threads, so many logs are made ahead, so that merging can continue beside ingesting.
const LOGS_AHEAD: u64 = 250_000;

/// What ingest came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ingested {
    pub(crate) blocks: u64,
    pub(crate) logs: u64,
    pub(crate) txs: u64,
    /// Bytes of emitters, topics and data.
    pub(crate) raw_bytes: u64,
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
    /// Logs per CPU second over the first and the last fifth.
    pub(crate) first_rate: f64,
    pub(crate) last_rate: f64,
    /// The largest resident memory in the first half and in all, in MiB.
    pub(crate) peak_half_mib: Option<f64>,
    pub(crate) peak_mib: Option<f64>,
    /// Transactions of each block.
    pub(crate) tx_counts: Vec<u32>,
}

impl Ingested {
    /// Logs per second of wall time.
    pub(crate) fn wall_rate(&self) -> f64 {
        self.logs as f64 / self.wall
    }

    /// Logs per CPU second.
    pub(crate) fn cpu_rate(&self) -> f64 {
        self.logs as f64 / self.cpu
    }

    /// What a child hands to its parent.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "blocks": self.blocks, "logs": self.logs, "txs": self.txs,
            "raw_bytes": self.raw_bytes, "wall": self.wall, "cpu": self.cpu,
            "first_rate": self.first_rate, "last_rate": self.last_rate,
            "peak_half_mib": self.peak_half_mib, "peak_mib": self.peak_mib,
        })
    }

    /// What a parent takes from its child.
    pub(crate) fn from_json(value: &Value) -> Self {
        let count = |name: &str| value.get(name).and_then(Value::as_u64).unwrap_or_default();
        let real = |name: &str| value.get(name).and_then(Value::as_f64);
        Self {
            blocks: count("blocks"),
            logs: count("logs"),
            txs: count("txs"),
            raw_bytes: count("raw_bytes"),
            wall: real("wall").unwrap_or_default(),
            cpu: real("cpu").unwrap_or_default(),
            first_rate: real("first_rate").unwrap_or_default(),
            last_rate: real("last_rate").unwrap_or_default(),
            peak_half_mib: real("peak_half_mib"),
            peak_mib: real("peak_mib"),
            tx_counts: Vec::new(),
        }
    }
}

/// A chain on its way into an archive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feed<'a> {
    pub(crate) chain: &'a SimChain,
    pub(crate) range: BlockRange,
    /// Blocks in one ingest call.
    pub(crate) chunk: u64,
    pub(crate) threads: usize,
}

impl Feed<'_> {
    /// Fills the archive and merges until there is nothing left to merge.
    pub(crate) async fn run(&self, archive: &Archive) -> Result<Ingested> {
        let mut done = Ingested::default();
        let logs_per_block = u64::from(self.chain.spec().logs_per_block).max(1);
        let chunks_ahead = match self.threads {
            1 => 1,
            _ => (LOGS_AHEAD / logs_per_block / self.chunk).max(1),
        };
        let group = chunks_ahead * self.chunk;
        let mut generator_cpu = 0.0;
        let mut marks: Vec<(u64, f64)> = vec![(0, 0.0)];
        measure::reset_peak_memory();
        let began_cpu = measure::process_cpu();
        let mut next = self.range.start;
        while next < self.range.end {
            let end = (next + group).min(self.range.end);
            let began_making = measure::thread_cpu();
            let chunks = self.make(BlockRange::new(next, end), &mut done);
            generator_cpu += measure::thread_cpu() - began_making;
            let began = Instant::now();
            if self.threads == 1 {
                for chunk in chunks {
                    append(archive, chunk).await?;
                    while maintain(archive).await? {}
                }
            } else {
                append_and_maintain(archive, chunks).await?;
            }
            done.wall += began.elapsed().as_secs_f64();
            next = end;
            let cpu = measure::process_cpu() - began_cpu - generator_cpu;
            marks.push((done.logs, cpu));
            if next - self.range.start <= self.range.len() / 2 {
                done.peak_half_mib = measure::peak_memory_mib();
            }
        }
        let began = Instant::now();
        while maintain(archive).await? {}
        done.wall += began.elapsed().as_secs_f64();
        done.cpu = measure::process_cpu() - began_cpu - generator_cpu;
        done.peak_mib = measure::peak_memory_mib();
        (done.first_rate, done.last_rate) = first_and_last(&marks);
        Ok(done)
    }

    fn make(&self, range: BlockRange, done: &mut Ingested) -> Vec<Vec<Block>> {
        let mut chunks = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let end = (start + self.chunk).min(range.end);
            let blocks: Vec<Block> = self.chain.blocks(BlockRange::new(start, end)).collect();
            for block in &blocks {
                done.logs += block.logs.len() as u64;
                done.txs += block.txs.len() as u64;
                done.tx_counts.push(block.txs.len() as u32);
                let bytes = block.logs.iter().map(|log| log.byte_len() as u64);
                done.raw_bytes += bytes.sum::<u64>();
            }
            done.blocks += blocks.len() as u64;
            chunks.push(blocks);
            start = end;
        }
        chunks
    }
}

/// Logs per CPU second over the first and the last fifth of the run.
fn first_and_last(marks: &[(u64, f64)]) -> (f64, f64) {
    let rate = |from: usize, to: usize| {
        let (Some(from), Some(to)) = (marks.get(from), marks.get(to)) else {
            return 0.0;
        };
        (to.0 - from.0) as f64 / (to.1 - from.1)
    };
    let last = marks.len() - 1;
    let fifth = (last / 5).max(1).min(last);
    (rate(0, fifth), rate(last - fifth, last))
}

async fn append(archive: &Archive, blocks: Vec<Block>) -> Result<()> {
    let outcome = archive
        .ingest_finalized_blocks(blocks, &Provenance::default())
        .await?;
    ensure!(
        matches!(outcome, IngestOutcome::Appended { .. }),
        "nothing was appended: {outcome:?}"
    );
    Ok(())
}

async fn append_and_maintain(archive: &Archive, chunks: Vec<Vec<Block>>) -> Result<()> {
    let (all_in, wake) = (Cell::new(false), Notify::new());
    let appending = async {
        for chunk in chunks {
            append(archive, chunk).await?;
            wake.notify_one();
        }
        all_in.set(true);
        wake.notify_one();
        Ok::<(), anyhow::Error>(())
    };
    let merging = async {
        loop {
            let last = all_in.get();
            while maintain(archive).await? {}
            if last {
                return Ok::<(), anyhow::Error>(());
            }
            wake.notified().await;
        }
    };
    futures::future::try_join(appending, merging).await?;
    Ok(())
}

/// One step of merging; true while there is more to do.
async fn maintain(archive: &Archive) -> Result<bool> {
    Ok(archive.maintain().await?)
}
