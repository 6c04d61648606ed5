//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::environment::INTERVAL_SECONDS;

/// Follows blockchains, proves that nothing is missing, keeps their history and answers for it.
#[derive(Debug, Parser)]
#[command(name = "chronolith", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// The settings file, JSON or TOML.
    #[arg(long, short, global = true, default_value = "chronolith.json")]
    pub(crate) config: PathBuf,
    /// Where archives are kept, over DATA_DIR and the settings file [default: ./data].
    #[arg(long, global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// What to log, over RUST_LOG and LOG_LEVEL [default: info].
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log_level: Option<String>,
    /// Seconds between two looks for new blocks at a portal, over INGEST_INTERVAL_SECS and the
    /// settings file [default: 60].
    #[arg(long, global = true, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(INTERVAL_SECONDS))]
    pub(crate) ingest_interval_secs: Option<u64>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Follow all chains of the settings file until told to stop (SIGTERM or Ctrl-C).
    ///
    /// History that is missing is fetched first, as fast as the endpoints allow; then new blocks are
    /// taken as they come. Stopping at any instant loses nothing: what was archived stays, and the
    /// next start goes on from there. A second signal exits at once.
    Run {
        /// Exit once every chain has caught up with its source.
        #[arg(long)]
        until_caught_up: bool,
    },
    /// Look at the settings file.
    Config {
        /// What to do with it.
        #[command(subcommand)]
        what: ConfigCommand,
    },
    /// Show how each chain's archive is: head, coverage, size, halts.
    State(Wanted),
    /// Find logs in the archive.
    ///
    /// Answers come oldest first. Blocks that are not archived are an error, never a shorter answer.
    Logs(LogsQuery),
    /// Find the block at a time.
    BlockAt(BlockAtQuery),
    /// Prove that the archive is whole: coverage, links, checksums of every block.
    Verify(VerifyRange),
    /// End a halt: go on with what is archived.
    Resume(Act),
    /// Drop all blocks above a number, for example after a finalized block was replaced.
    Rewind {
        /// The last block that stays.
        #[arg(long)]
        to: u64,
        /// Which chain, and why.
        #[command(flatten)]
        act: Act,
    },
    /// Watch it work: two simulated chains with reorgs, followed into an archive.
    ///
    /// No node, database or network is needed. Everything goes to the directory `demo` of the data
    /// directory, which is emptied first.
    Demo {
        /// Stop after this many seconds; 0 for never.
        #[arg(long, default_value_t = 0)]
        seconds: u64,
    },
    /// Make up chains.
    Sim {
        /// What to do with them.
        #[command(subcommand)]
        what: SimCommand,
    },
    /// Remove what nothing names any more.
    Gc {
        /// Only show what would be removed.
        #[arg(long)]
        dry_run: bool,
        /// Which chain.
        #[command(flatten)]
        wanted: Wanted,
    },
}

/// What to do with the settings file.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check it and show what it means.
    Check,
    /// Print an example to start from.
    Example,
    /// List the chains that are known by name.
    Chains,
}

/// What to do with made-up chains.
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Serve a simulated EVM node over HTTP and WebSocket until Ctrl-C.
    Serve(SimServe),
    /// Follow a simulated chain through faults, lies, reorgs and SIGKILL, and compare every block.
    ///
    /// Each seed is one chain, one choice of faults and limits, and one sequence of events. It fails
    /// on the first log that is missing, made up or twice, and when a fault of its list was never
    /// injected.
    Torture {
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How many seeds.
        #[arg(long, default_value_t = 1)]
        seeds: u64,
    },
}

/// Which node to serve.
#[derive(Debug, Args)]
pub(crate) struct SimServe {
    /// Everything follows from it.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// What it says its chain is.
    #[arg(long, default_value_t = 31_337)]
    pub(crate) chain_id: u64,
    /// Blocks at the start.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) blocks: u64,
    /// Logs in a block, on average.
    #[arg(long, default_value_t = 20)]
    pub(crate) logs_per_block: u32,
    /// Milliseconds from block to block; 0 for no more blocks.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) block_time_ms: u64,
    /// A reorg of one to four blocks instead of every so many-th block; 0 for none.
    #[arg(long, default_value_t = 0)]
    pub(crate) reorg_every: u64,
    /// Milliseconds before each answer.
    #[arg(long, default_value_t = 0)]
    pub(crate) delay_ms: u64,
    /// A file with faults and how often they happen, such as {"http_500": 0.02}.
    #[arg(long)]
    pub(crate) faults: Option<PathBuf>,
}

/// Which chain, and how to answer.
#[derive(Debug, Args)]
pub(crate) struct Wanted {
    /// Name or id of the chain; needed where there are several.
    #[arg(long)]
    pub(crate) chain: Option<String>,
    /// Answer in JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// An operator's act.
#[derive(Debug, Args)]
pub(crate) struct Act {
    /// Why, for those who look later; it is recorded.
    #[arg(long)]
    pub(crate) reason: String,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

/// Which blocks to prove.
#[derive(Debug, Args)]
pub(crate) struct VerifyRange {
    /// First block [default: the first archived one].
    #[arg(long)]
    pub(crate) from: Option<u64>,
    /// Last block [default: the last archived one].
    #[arg(long)]
    pub(crate) to: Option<u64>,
    /// Also fetch every block from its source, prove it there, and compare.
    #[arg(long)]
    pub(crate) against_source: bool,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

/// Which logs.
#[derive(Debug, Args)]
pub(crate) struct LogsQuery {
    /// Addresses that emitted them, any of these.
    #[arg(long, value_delimiter = ',')]
    pub(crate) address: Vec<String>,
    /// First topics, any of these.
    #[arg(long, value_delimiter = ',')]
    pub(crate) topic0: Vec<String>,
    /// Second topics, any of these.
    #[arg(long, value_delimiter = ',')]
    pub(crate) topic1: Vec<String>,
    /// Third topics, any of these.
    #[arg(long, value_delimiter = ',')]
    pub(crate) topic2: Vec<String>,
    /// Fourth topics, any of these.
    #[arg(long, value_delimiter = ',')]
    pub(crate) topic3: Vec<String>,
    /// First block [default: the first archived one].
    #[arg(long)]
    pub(crate) from: Option<u64>,
    /// Last block [default: the last archived one].
    #[arg(long)]
    pub(crate) to: Option<u64>,
    /// Most logs to show.
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: usize,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

/// Which block.
#[derive(Debug, Args)]
pub(crate) struct BlockAtQuery {
    /// The time, in seconds since 1970.
    pub(crate) time: u64,
    /// The first block not before the time, instead of the last not after it.
    #[arg(long)]
    pub(crate) after: bool,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}
