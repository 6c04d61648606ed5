//! What was measured, beside its target. All of it is printed, and one missed target fails the bench.

use std::process::ExitCode;

use anyhow::Result;

use crate::probe::Waited;

/// Targets that were missed so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    missed: usize,
}

impl Report {
    /// Runs a part. One that fails has missed its targets; the others still run.
    pub(crate) fn part(&mut self, name: &str, part: impl FnOnce(&mut Self) -> Result<()>) {
        if let Err(error) = part(self) {
            println!("{name}: {} ({error:#})", self.verdict(false));
        }
    }

    /// How a value that is printed compares with its target.
    pub(crate) fn verdict(&mut self, is_met: bool) -> &'static str {
        if is_met {
            return "met";
        }
        self.missed += 1;
        "MISSED"
    }

    /// Prints what an honest client waited. A failure of its requests is missed also where the time has no target.
    pub(crate) fn waited(&mut self, load: &str, waited: &Waited, target_ms: Option<f64>) {
        let target = match target_ms {
            None => "–".to_owned(),
            Some(target) => {
                let verdict = self.verdict(waited.p99_ms <= target);
                format!("{target:.0} {verdict}")
            }
        };
        println!(
            "{load:<40} {:<26} {:>9} {:>9.1} {:>9.1} {:>9.1}  {target}",
            waited.name, waited.requests, waited.p50_ms, waited.p99_ms, waited.max_ms
        );
        if let Some(failure) = &waited.failure {
            let verdict = self.verdict(false);
            println!(
                "    failures: {} {verdict}, the last one: {failure}",
                waited.failures
            );
        }
    }

    /// Prints the number of missed targets.
    pub(crate) fn end(self) -> ExitCode {
        if self.missed == 0 {
            return ExitCode::SUCCESS;
        }
        println!("MISSED: {}", self.missed);
        ExitCode::FAILURE
    }
}
