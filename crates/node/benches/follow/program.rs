//! Programs that are measured: what they took, and how they are set up.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

/// Our program, as cargo has just built it.
pub(crate) const CHRONOLITH: &str = env!("CARGO_BIN_EXE_chronolith");

/// How often a running program's memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Linux counts CPU time in these.
const TICKS_A_SECOND: f64 = 100.0;

/// What a program took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) peak_mib: f64,
}

/// Runs a program to its end, without holding up this process's other work.
pub(crate) async fn measure(mut command: Command) -> Result<Cost> {
    let before = children_cpu()?;
    let began = Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .spawn()
        .context("start a program")?;
    let mut peak_mib = 0_f64;
    let status = loop {
        peak_mib = peak_mib.max(memory_of(child.id(), "VmHWM:").unwrap_or(0.0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    let seconds = began.elapsed().as_secs_f64();
    ensure!(status.success(), "a program ended with {status}");
    Ok(Cost {
        seconds,
        cpu_seconds: children_cpu()? - before,
        peak_mib,
    })
}

/// Memory of a process in MiB: `VmHWM:` is the most so far, `VmRSS:` what it is now.
pub(crate) fn memory_of(process: u32, field: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024.0)
}

/// CPU seconds of all children that have ended.
fn children_cpu() -> Result<f64> {
    cpu(13)
}

/// CPU seconds of this process.
pub(crate) fn own_cpu() -> Result<f64> {
    cpu(11)
}

/// User time in this field behind the name, and system time in the next.
fn cpu(first: usize) -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // The name stands in brackets and may hold spaces.
    let (_, fields) = text.rsplit_once(')').context("read CPU times")?;
    let fields = fields.split_whitespace().skip(first).take(2);
    let mut ticks = 0.0;
    for field in fields {
        ticks += field.parse::<f64>()?;
    }
    Ok(ticks / TICKS_A_SECOND)
}

/// Our program with a settings file of these chains in this directory.
pub(crate) fn chronolith(dir: &Path, chains: &Value, arguments: &[&str]) -> Result<Command> {
    let config = dir.join("chronolith.json");
    let text = json!({ "dataDir": dir.join("data"), "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0", "chains": chains });
    std::fs::write(&config, text.to_string())?;
    let mut command = Command::new(CHRONOLITH);
    command.args(arguments).arg("--config").arg(config);
    command.env(
        "RUST_LOG",
        std::env::var("RUST_LOG").unwrap_or_else(|_| "warn".to_owned()),
    );
    Ok(command)
}
