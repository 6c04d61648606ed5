//! `chronolith init`: the answers that may be given as flags.

use clap::{Args, ValueEnum};

/// Answers to the questions. What is not given is asked for.
#[derive(Debug, Args)]
pub(crate) struct InitAnswers {
    /// Which chains: names or ids of `chronolith config chains`, URLs of nodes, or `all`.
    #[arg(long, value_name = "LIST")]
    pub(crate) chains: Option<String>,
    /// Where blocks come from: `portal`, URLs of nodes (CHAIN=URL where a node cannot be asked), or both.
    #[arg(long, value_name = "LIST")]
    pub(crate) from: Option<String>,
    /// What is kept.
    #[arg(long)]
    pub(crate) keep: Option<Keep>,
    /// Replace a settings file that is there.
    #[arg(long)]
    pub(crate) force: bool,
}

/// What is kept of each block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Keep {
    /// Number, hash, parent and time.
    Clock,
    /// Logs, and the transactions that they name.
    Logs,
    /// Headers, logs and whole transactions; from a Portal alone logs and transaction hashes.
    Everything,
}
