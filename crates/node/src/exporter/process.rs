//! The process itself, as the kernel sees it. Names are those that every Prometheus client uses.
//! Where there is no `/proc`, what would be read there is left out.

use std::path::Path;
use std::sync::OnceLock;

use chronolith_follower::clock::now;
use metrics::gauge;
use rustix::fs::statvfs;
use rustix::time::{ClockId, clock_gettime};

static STARTED: OnceLock<u64> = OnceLock::new();

/// Notes when the process started.
pub(super) fn note_start() {
    STARTED.get_or_init(now);
}

/// Looks at the process and at the room that is left for its data.
pub(super) fn observe(data_dir: &Path) {
    if let Some(started) = STARTED.get() {
        gauge!("process_start_time_seconds").set(*started as f64);
    }
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    gauge!("process_cpu_seconds_total").set(cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if let Some(kib) = field(&status, "VmRSS:") {
        gauge!("process_resident_memory_bytes").set(kib as f64 * 1024.0);
    }
    if let Some(threads) = field(&status, "Threads:") {
        gauge!("process_threads").set(threads as f64);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the directory that is being read.
        gauge!("process_open_fds").set(open.count().saturating_sub(1) as f64);
    }
    if let Ok(room) = statvfs(data_dir) {
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        gauge!("chronolith_data_dir_free_bytes").set(free as f64);
    }
}

/// The number after a name in `/proc/self/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let status = "Name:\tx\nVmRSS:\t   1234 kB\nThreads:\t7\n";
        assert_eq!(field(status, "VmRSS:"), Some(1_234));
        assert_eq!(field(status, "Threads:"), Some(7));
        assert_eq!(field(status, "VmSwap:"), None);
    }
}
