//! What processes have used, as Linux counts it.

use anyhow::{Context as _, Result};

/// Linux counts CPU time in these.
const TICKS_A_SECOND: f64 = 100.0;
/// Fields behind the name of a process.
const PARENT: usize = 1;
const OWN_TIMES: usize = 11;
const TIMES_OF_ENDED_CHILDREN: usize = 13;

/// CPU seconds of one process.
pub(crate) fn cpu_of(process: u32) -> Result<f64> {
    times(&stat(process)?, OWN_TIMES)
}

/// CPU seconds of a process and of all children it has or had.
pub(crate) fn cpu_of_family(parent: u32) -> Result<f64> {
    let own = stat(parent)?;
    let mut seconds = times(&own, OWN_TIMES)? + times(&own, TIMES_OF_ENDED_CHILDREN)?;
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // One that ends meanwhile is counted with those that have ended, at the next look.
        if let Ok(fields) = stat(process)
            && fields.get(PARENT) == Some(&parent.to_string())
        {
            seconds += times(&fields, OWN_TIMES)?;
        }
    }
    Ok(seconds)
}

pub(crate) fn parent_of(process: u32) -> Result<u32> {
    let fields = stat(process)?;
    Ok(fields.get(PARENT).context("read the parent")?.parse()?)
}

/// The most memory that a process ever had, in MiB.
pub(crate) fn peak_mib(process: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("read the memory")?.parse::<f64>()? / 1024.0)
}

/// The fields behind the name, which stands in brackets and may hold spaces.
fn stat(process: u32) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = text.rsplit_once(')').context("read CPU times")?;
    Ok(fields.split_whitespace().map(str::to_owned).collect())
}

/// User and system time, which stand side by side.
fn times(fields: &[String], first: usize) -> Result<f64> {
    let mut ticks = 0.0;
    for field in fields.iter().skip(first).take(2) {
        ticks += field.parse::<f64>()?;
    }
    Ok(ticks / TICKS_A_SECOND)
}
