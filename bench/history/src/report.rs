//! What is measured, and the table of it.

use std::time::Instant;

use crate::keys::mix;

/// Lookups between two looks at the clock.
const BATCH: usize = 64;

/// Nanoseconds of a lookup: the median over batches.
pub(crate) fn latency(sample: impl Iterator<Item = u64>, mut look: impl FnMut(u64)) -> f64 {
    let sample: Vec<u64> = sample.collect();
    let mut batches: Vec<f64> = sample
        .chunks_exact(BATCH)
        .map(|batch| {
            let before = Instant::now();
            batch.iter().for_each(|&at| look(at));
            before.elapsed().as_secs_f64() * 1e9 / BATCH as f64
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    batches.get(batches.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Nanoseconds of one read at random of so many bytes, each place known only when the read before is
/// there: no lookup that waits for memory takes less.
pub(crate) fn memory_latency(bytes: u64) -> f64 {
    let words = bytes / 8;
    let memory: Vec<u64> = (0..words).map(|at| mix(at) % words).collect();
    let mut at = 0;
    latency(0..1 << 20, |step| {
        let word = memory.get(at).copied().unwrap_or_default();
        // Else the walk falls into a circle that the processor's caches hold.
        at = ((word ^ mix(step)) % words) as usize;
    })
}

/// Forgets the most memory that was ever taken.
pub(crate) fn reset_peak() {
    // Elsewhere than on Linux the peak is that of the whole run, or unknown.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The most memory that was taken since.
pub(crate) fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

struct Row {
    what: &'static str,
    ours: f64,
    target: &'static str,
    met: bool,
}

/// Rows of ours, and what each baseline has for them.
pub(crate) struct Report {
    rows: Vec<Row>,
    baselines: Vec<(String, Result<Vec<(&'static str, f64)>, String>)>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self {
            rows: Vec::new(),
            baselines: Vec::new(),
        }
    }

    pub(crate) fn ours(
        &mut self,
        what: &'static str,
        ours: f64,
        met: impl Fn(f64) -> bool,
        target: &'static str,
    ) {
        println!("{what}: {ours:.2} (target {target})");
        self.rows.push(Row {
            what,
            ours,
            target,
            met: met(ours),
        });
    }

    /// What a baseline has, by the names of our rows, or why it has nothing.
    pub(crate) fn baseline(
        &mut self,
        name: &str,
        measured: Result<Vec<(&'static str, f64)>, String>,
    ) {
        println!("{name}: {measured:.2?}");
        self.baselines.push((name.to_owned(), measured));
    }

    pub(crate) fn print(&self) {
        print!("\n| what | ours | target | met |");
        self.baselines
            .iter()
            .for_each(|(name, _)| print!(" {name} | ratio |"));
        println!(
            "\n|---|---|---|---|{}",
            "---|---|".repeat(self.baselines.len())
        );
        for row in &self.rows {
            let met = if row.met { "yes" } else { "no" };
            print!(
                "| {} | {:.2} | {} | {met} |",
                row.what, row.ours, row.target
            );
            for (_, measured) in &self.baselines {
                let value = measured.as_ref().ok().and_then(|measured| {
                    let found = measured.iter().find(|(what, _)| *what == row.what);
                    found.map(|(_, value)| *value)
                });
                match value {
                    Some(value) => print!(" {value:.2} | {:.2} |", row.ours / value),
                    None => print!(" – | – |"),
                }
            }
            println!();
        }
        for (name, measured) in &self.baselines {
            if let Err(why) = measured {
                println!("{name}: NOT MEASURED: {why}");
            }
        }
    }
}
