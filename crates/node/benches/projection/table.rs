//! What is printed: a line for each side, its faults beside its figures.

use std::process::ExitCode;

use crate::database::Faults;
use crate::workload::Chain;

pub(crate) const HEAD: &str = "chain   side                blocks     rows   seconds   rows/s  blocks/s    cpu s  database cpu s  peak MiB     calls  missing  duplicate  wrong";

/// What a side took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// From its start to its last row.
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) database_cpu_seconds: f64,
    /// None where it ran inside of this process.
    pub(crate) peak_mib: Option<f64>,
    /// Calls of the node, those of batches one by one.
    pub(crate) calls: u64,
    pub(crate) faults: Faults,
}

/// How the whole run ends.
#[derive(Default)]
pub(crate) struct Verdict {
    has_failed: bool,
}

impl Verdict {
    /// Prints what a side took; none stands for a side that could not be measured.
    pub(crate) fn take(
        &mut self,
        chain: &Chain,
        side: &str,
        measured: Option<Measured>,
    ) -> Option<Measured> {
        let Some(measured) = measured else {
            println!("{:<7} {side:<18} NOT MEASURED", chain.name);
            self.has_failed = true;
            return None;
        };
        let Measured {
            seconds, faults, ..
        } = measured;
        self.has_failed |= faults.missing + faults.duplicate + faults.wrong > 0;
        let rows = chain.rows.len();
        let peak = measured.peak_mib.map(|mib| format!("{mib:.0}"));
        println!(
            "{:<7} {side:<18} {:>7} {rows:>8} {seconds:>9.2} {:>8.0} {:>9.0} {:>8.2} {:>15.2} {:>9} {:>9} {:>8} {:>10} {:>6}",
            chain.name,
            chain.blocks,
            rows as f64 / seconds,
            chain.blocks as f64 / seconds,
            measured.cpu_seconds,
            measured.database_cpu_seconds,
            peak.unwrap_or_else(|| "-".to_owned()),
            measured.calls,
            faults.missing,
            faults.duplicate,
            faults.wrong,
        );
        Some(measured)
    }

    /// A run in which something was not measured, or a side did not do its work, has failed.
    pub(crate) fn exit(&self) -> ExitCode {
        if self.has_failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}
