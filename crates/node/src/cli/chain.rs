//! `chronolith chain`: what can be proven on a chain that is not known by name.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What to find out about a chain.
#[derive(Debug, Subcommand)]
pub(crate) enum ChainCommand {
    /// Ask an endpoint for blocks of different ages and print which roots hold by which rule.
    ///
    /// Header hash, logs bloom, receipts root and transactions root are recomputed, as `run` does it. The
    /// last line says which `verification` the chain allows.
    ///
    /// Example: chronolith chain probe http://127.0.0.1:8545
    Probe(ProbeChain),
    /// Write blocks and their receipts to files, as the endpoint shows them.
    ///
    /// The files can be given to others, and made into a test of a chain's rules.
    ///
    /// Example: chronolith chain record http://127.0.0.1:8545 --block 100 --out recorded
    Record(RecordChain),
}

/// Which blocks to try.
#[derive(Debug, Args)]
pub(crate) struct ProbeChain {
    /// The JSON-RPC endpoint, http or https.
    pub(crate) url: String,
    /// A block to try; repeat it for more. Without it, six blocks of different ages are tried.
    #[arg(long = "block", value_name = "NUMBER")]
    pub(crate) blocks: Vec<u64>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which blocks to write down.
#[derive(Debug, Args)]
pub(crate) struct RecordChain {
    /// The JSON-RPC endpoint, http or https.
    pub(crate) url: String,
    /// A block to record; repeat it for more.
    #[arg(long = "block", value_name = "NUMBER", required = true)]
    pub(crate) blocks: Vec<u64>,
    /// The directory for the files; it is made where it is missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}
