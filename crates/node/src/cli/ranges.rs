//! Commands about ranges.

use clap::{Args, Subcommand};

use super::Wanted;

/// What to show of archives.
#[derive(Debug, Args)]
pub(crate) struct StateQuery {
    /// Show ranges: state, phases, progress, and why one failed.
    #[arg(long, conflicts_with = "keys")]
    pub(crate) ranges: bool,
    /// Show ranges as keys and values, one a line, by the names of the Stellar meta store.
    #[arg(long)]
    pub(crate) keys: bool,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

/// What to do with a range.
#[derive(Debug, Subcommand)]
pub(crate) enum RangeCommand {
    /// Try the transition of a range again that is FAILED.
    ///
    /// Repair what its cause names first: `chronolith repair` fetches damaged objects again. Where a node
    /// runs on the data directory it continues by itself; else the transition is done here.
    Retry(RetryRange),
}

/// Which range to try again.
#[derive(Debug, Args)]
pub(crate) struct RetryRange {
    /// Its number, as `chronolith state --ranges` shows it.
    pub(crate) id: u64,
    /// Why; it is recorded.
    #[arg(long, default_value = "requested by an operator")]
    pub(crate) reason: String,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}
