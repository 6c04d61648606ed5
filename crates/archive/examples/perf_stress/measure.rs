//! Clocks, memory, sizes and percentiles.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};

/// CPU seconds that this process used, all threads, user and system.
pub(crate) fn process_cpu() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

/// CPU seconds that this thread used.
pub(crate) fn thread_cpu() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Puts this thread, and all threads it starts from now on, on one core.
pub(crate) fn pin_to_one_core() -> io::Result<()> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    // The last one: interrupts mostly go to the first.
    let last = (0..CpuSet::MAX_CPU).rfind(|&core| allowed.is_set(core));
    let mut one = CpuSet::new();
    one.set(last.unwrap_or(0));
    rustix::thread::sched_setaffinity(None, &one)?;
    Ok(())
}

/// Forgets the memory peak so far. Without the right to, the peak is that of the whole process.
pub(crate) fn reset_peak_memory() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// The largest resident memory since the reset, in MiB.
pub(crate) fn peak_memory_mib() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}

/// Empties the page cache, where this process may.
pub(crate) fn drop_caches() -> io::Result<()> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3")
}

/// Bytes of all files below a directory, by kind: the first part of an object's name.
pub(crate) fn sizes(root: &Path) -> io::Result<BTreeMap<String, u64>> {
    let mut sizes = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let (path, found) = entry.map(|entry| (entry.path(), entry.metadata()))?;
            let found = found?;
            if found.is_dir() {
                folders.push(path);
                continue;
            }
            let inside = path.strip_prefix(root).unwrap_or(&path);
            let inside = inside.strip_prefix("blobs").unwrap_or(inside);
            let kind = inside.components().next();
            let kind = kind.map(|part| part.as_os_str().to_string_lossy().into_owned());
            *sizes.entry(kind.unwrap_or_default()).or_default() += found.len();
        }
    }
    Ok(sizes)
}

/// Durations, to be summed up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    sorted: Vec<f64>,
}

impl Times {
    /// Of microseconds in any order.
    pub(crate) fn new(mut micros: Vec<f64>) -> Self {
        micros.sort_unstable_by(f64::total_cmp);
        Self { sorted: micros }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// In microseconds.
    pub(crate) fn percentile(&self, percent: usize) -> Option<f64> {
        let last = self.sorted.len().checked_sub(1)?;
        self.sorted.get((last * percent).div_ceil(100)).copied()
    }

    /// All together, in seconds.
    pub(crate) fn total_seconds(&self) -> f64 {
        self.sorted.iter().sum::<f64>() / 1e6
    }
}

/// Microseconds with their fraction.
pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Stops when the time for something is used up, but not before a few were done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeBox {
    began: Instant,
    limit: Duration,
}

impl TimeBox {
    /// Begins now.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            began: Instant::now(),
            limit,
        }
    }

    /// Whether to continue after so many.
    pub(crate) fn allows(&self, done: usize) -> bool {
        done < 5 || self.began.elapsed() < self.limit
    }
}

/// A number that stands for a list of (block, log index), order included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) rows: u64,
    pub(crate) checksum: u64,
}

impl Answer {
    /// Adds the next row.
    pub(crate) fn add(&mut self, block: u64, log_index: u32) {
        self.rows += 1;
        let place = (block << 24) ^ u64::from(log_index);
        self.checksum = (self.checksum.rotate_left(5) ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
