//! How far a long command is: one line that is drawn over on a terminal, else a log line now and then.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a log line is written.
const LOG_EVERY: Duration = Duration::from_secs(5);
/// How often the line of a terminal is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Characters of the bar.
const BAR: u64 = 24;
/// Back to the beginning of the line, and nothing on it.
const CLEAR: &str = "\r\x1b[2K";

/// Whether a line of ours is what the terminal shows last.
static SHOWN: AtomicBool = AtomicBool::new(false);

/// Where progress goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    Line,
    Log,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    Blocks,
    Bytes,
}

/// Shows how far long work has come.
#[derive(Debug)]
pub struct Progress {
    what: Cow<'static, str>,
    chain: String,
    unit: Unit,
    shown: Shown,
    began: Instant,
    shown_at: Instant,
}

impl Progress {
    /// Of a command in the foreground.
    pub fn of_command(what: &'static str, chain: &str, unit: Unit) -> Self {
        let shown = if std::io::stderr().is_terminal() {
            Shown::Line
        } else {
            Shown::Log
        };
        Self::new(what.into(), chain, unit, shown)
    }

    /// Of work that continues beside others: log lines only.
    pub fn in_log(what: impl Into<Cow<'static, str>>, chain: &str) -> Self {
        Self::new(what.into(), chain, Unit::Blocks, Shown::Log)
    }

    fn new(what: Cow<'static, str>, chain: &str, unit: Unit, shown: Shown) -> Self {
        let began = Instant::now();
        Self {
            what,
            chain: chain.to_owned(),
            unit,
            shown,
            began,
            shown_at: began,
        }
    }

    /// This much of all is done.
    pub fn reach(&mut self, done: u64, all: u64) {
        let pause = match self.shown {
            Shown::Line => DRAW_EVERY,
            Shown::Log => LOG_EVERY,
        };
        if self.shown_at.elapsed() < pause {
            return;
        }
        self.shown_at = Instant::now();
        let pace = Pace::new(done, all, self.began.elapsed());
        match self.shown {
            Shown::Log => {
                let (what, chain, unit) = (&self.what, &self.chain, self.unit);
                let Pace {
                    percent,
                    rate,
                    seconds_left,
                    ..
                } = pace;
                tracing::info!(event = "progress", %chain, done, all, ?unit, percent, per_second = rate, seconds_left, "{what}");
            }
            Shown::Line => {
                let line = line(&self.chain, &self.what, self.unit, &pace);
                SHOWN.store(true, Ordering::Relaxed);
                // A terminal that went away is no reason to stop.
                let _ = write!(std::io::stderr().lock(), "{CLEAR}{line}");
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        clear();
    }
}

/// Takes the line away, so that something else can be written there.
fn clear() {
    if SHOWN.swap(false, Ordering::Relaxed) {
        let _ = write!(std::io::stderr().lock(), "{CLEAR}");
    }
}

/// How fast it goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pace {
    done: u64,
    all: u64,
    percent: u64,
    rate: u64,
    seconds_left: u64,
}

impl Pace {
    fn new(done: u64, all: u64, elapsed: Duration) -> Self {
        let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
        let left = all.saturating_sub(done);
        Self {
            done,
            all,
            percent: (done.saturating_mul(100) / all.max(1)).min(100),
            rate: rate as u64,
            seconds_left: (left as f64 / rate.max(1.0)) as u64,
        }
    }
}

fn line(chain: &str, what: &str, unit: Unit, pace: &Pace) -> String {
    let filled = (pace.percent * BAR / 100) as usize;
    let bar: String = (0..BAR as usize)
        .map(|at| if at < filled { '=' } else { ' ' })
        .collect();
    let Pace { done, all, .. } = pace;
    let (amount, rate) = match unit {
        Unit::Blocks => (format!("{done} of {all} blocks"), pace.rate.to_string()),
        Unit::Bytes => (
            format!("{} of {} MiB", done >> 20, all >> 20),
            format!("{} MiB", pace.rate >> 20),
        ),
    };
    let (percent, left) = (pace.percent, pace.seconds_left);
    format!("{chain}: {what} [{bar}] {percent:>3}%  {amount}, {rate}/s, {left} s left")
}

/// Standard error for the log: takes the line of progress away before it writes.
#[derive(Clone, Copy, Debug)]
pub struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        clear();
        std::io::stderr().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let pace = Pace::new(250, 1_000, Duration::from_secs(5));
        let shown = line("sim", "verify", Unit::Blocks, &pace);
        let bar = format!("{}{}", "=".repeat(6), " ".repeat(18));
        assert_eq!(
            shown,
            format!("sim: verify [{bar}]  25%  250 of 1000 blocks, 50/s, 15 s left")
        );
        let pace = Pace::new(3 << 20, 3 << 20, Duration::from_secs(1));
        let shown = line("sim", "backup", Unit::Bytes, &pace);
        assert!(
            shown.contains("100%  3 of 3 MiB, 3 MiB/s, 0 s left"),
            "{shown}"
        );
    }

    #[test]
    fn nothing_to_do_is_no_division_by_zero() {
        let pace = Pace::new(0, 0, Duration::ZERO);
        assert_eq!((pace.percent, pace.seconds_left), (0, 0));
    }
}
