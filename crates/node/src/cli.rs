//! The command line.

mod chain;
mod init;
mod keys;
mod projections;
mod ranges;

use std::path::PathBuf;

use chronolith_serve::times::Timestamp;
use clap::{Args, Parser, Subcommand};

use crate::commands::DecodeCommand;
use crate::environment::INTERVAL_SECONDS;

pub(crate) use chain::{ChainCommand, ProbeChain, RecordChain};
pub(crate) use init::{InitAnswers, Keep};
pub(crate) use keys::KeysCommand;
pub(crate) use projections::{
    DbCommand, JobsCommand, LocksCommand, PartitionsCommand, ProjectionCommand, ProjectionRequest,
    ResetProjection, VersionsCommand,
};
pub(crate) use ranges::{RangeCommand, RetryRange, StateQuery};

/// Follows blockchains, proves that nothing is missing, keeps their history and answers for it.
#[derive(Debug, Parser)]
#[command(name = "chronolith", version, arg_required_else_help = true, after_help = crate::exit::HELP)]
pub(crate) struct Cli {
    /// The settings file, JSON or TOML [default: chronolith.json or chronolith.toml; without one, the block
    /// times of all known chains].
    #[arg(long, short, global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Where archives are kept, over DATA_DIR and the settings file [default: ./data].
    #[arg(long, global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// The port of the public API, over PORT and the settings file [default: 8080].
    #[arg(long, global = true)]
    pub(crate) port: Option<u16>,
    /// The port of health and metrics, over METRICS_PORT and the settings file [default: 9464].
    #[arg(long, global = true, value_name = "PORT")]
    pub(crate) metrics_port: Option<u16>,
    /// The port of the admin API, over ADMIN_PORT and the settings file [default: 9465].
    #[arg(long, global = true, value_name = "PORT")]
    pub(crate) admin_port: Option<u16>,
    /// The SQD Portal of known chains that name none, over PORTAL_URL and the settings file
    /// [default: `https://portal.sqd.dev/datasets`].
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) portal_url: Option<String>,
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
    /// Follow all chains of the settings file until stopped (SIGTERM or Ctrl-C).
    ///
    /// Without a settings file, these are the block times of all known chains, from the public Portal.
    ///
    /// History that is missing is fetched first, as fast as the endpoints allow; then new blocks are
    /// taken as they come. Stopping at any instant loses nothing: what was archived stays, and the
    /// next start continues from there. A second signal exits at once.
    Run {
        /// Exit once every chain has caught up with its source.
        #[arg(long)]
        until_caught_up: bool,
    },
    /// Ask four questions and write a settings file.
    ///
    /// Which chains, where their blocks come from, what is kept, and where. Each has a flag; the last one is
    /// answered by --data-dir and --port. The file is the one of --config, else chronolith.json; one that is there
    /// is not replaced without --force.
    ///
    /// Example: chronolith init --chains base,gnosis --from portal --keep clock --data-dir ./data
    Init(InitAnswers),
    /// Serve archives that another process writes, without ingesting.
    ///
    /// Any number of these may run beside one `chronolith run`, on the same files. New states are taken
    /// within a second. There is no tail, so `latest` is the newest archived block; with --follow each
    /// chain's newest blocks are fetched from its own source, and `latest` is what it is on a node.
    Serve {
        /// Fetch the newest blocks from the chains' sources.
        #[arg(long)]
        follow: bool,
    },
    /// Look at the settings file.
    Config {
        /// What to do with it.
        #[command(subcommand)]
        what: ConfigCommand,
    },
    /// Show how each chain's archive is: head, coverage, size, halts; or its ranges.
    State(StateQuery),
    /// Act on a range of a chain's history.
    Range {
        /// What to do with it.
        #[command(subcommand)]
        what: RangeCommand,
    },
    /// Find logs in the archive.
    ///
    /// Answers come oldest first. Blocks that are not archived are an error, never a shorter answer.
    Logs(LogsQuery),
    /// Find the block at a time.
    BlockAt(BlockAtQuery),
    /// Decode bytes of contracts that are known. No settings file is needed.
    Decode {
        /// What to decode.
        #[command(subcommand)]
        what: DecodeCommand,
    },
    /// Make API keys for the public listener. No settings file is needed.
    Keys {
        /// What to do.
        #[command(subcommand)]
        what: KeysCommand,
    },
    /// Prove that the archive is whole: coverage, links, checksums of every block and object.
    Verify(VerifyRange),
    /// Rebuild what `verify` finds damaged or gone: fetched from the source, proven, and replaced.
    ///
    /// No published block changes: what replaces a damaged object has the same block hashes, is proven
    /// no less, and has the same content or is proven further. A node that follows the chain must be
    /// stopped first, unless this is a dry run.
    Repair(RepairRange),
    /// Fetch the history that is missing between two blocks, several ranges at a time.
    ///
    /// What is there already is not fetched. Interrupted, it continues after the last checkpoint when
    /// called again. Only final blocks are fetched. It succeeds when every range between the two blocks
    /// is complete. A node that runs on the data directory fetches what is missing below its newest
    /// archived block.
    Backfill(BackfillRange),
    /// Copy archives into a directory, also while a node writes.
    ///
    /// Every copy is checked. A second backup into the same directory copies only what is new. One that
    /// is interrupted leaves the one before it as it was. The directory is laid out like a data
    /// directory.
    Backup {
        /// Where to.
        dir: PathBuf,
        /// Which chain [default: all of them].
        #[command(flatten)]
        wanted: Wanted,
    },
    /// Copy archives back from a backup, to where there are none.
    Restore {
        /// Where the backup is.
        dir: PathBuf,
        /// Which chain [default: all of them].
        #[command(flatten)]
        wanted: Wanted,
    },
    /// End a halt: continue with what is archived.
    Resume {
        /// Let garbage collection remove what a rebuild of the state left undecided or could not read.
        /// Without it these objects stay.
        #[arg(long)]
        drop_undecided: bool,
        /// Which chain, and why.
        #[command(flatten)]
        args: Reasoned,
    },
    /// Drop all blocks above a number, for example after a finalized block was replaced.
    Rewind {
        /// The last block that stays.
        #[arg(long)]
        to: u64,
        /// Which chain, and why.
        #[command(flatten)]
        args: Reasoned,
    },
    /// Let go of the oldest blocks: all segments that lie wholly below a number.
    ///
    /// Refused while the settings want these blocks: set `startBlock` first. Garbage collection removes the
    /// objects after the grace period.
    Prune {
        /// The first block that stays. A segment that straddles it stays whole.
        #[arg(long)]
        below: u64,
        /// Which chain, and why.
        #[command(flatten)]
        args: Reasoned,
    },
    /// Rebuild a lost state, or look at the format of an archive.
    Archive {
        /// What to do with it.
        #[command(subcommand)]
        what: ArchiveCommand,
    },
    /// Work on jobs of projections, beside a node that follows the chains.
    ///
    /// Any number of these may run, on any machine that reaches the database and the archives. Each
    /// takes a range of final blocks, projects it from the archive, and takes the next. Stopping one at
    /// any instant loses nothing: its range is taken by another one after two minutes.
    Work {
        /// Exit once there is no job left.
        #[arg(long)]
        until_done: bool,
    },
    /// Set up the database of projections, or look at it.
    Db {
        /// What to do with it.
        #[command(subcommand)]
        what: DbCommand,
    },
    /// Show projections, resume them, or project a range again.
    Projection {
        /// What to do with them.
        #[command(subcommand)]
        what: ProjectionCommand,
    },
    /// Look at the jobs of projections.
    Jobs {
        /// What to do with them.
        #[command(subcommand)]
        what: JobsCommand,
    },
    /// Look at the locks of projections, or take one away.
    Locks {
        /// What to do with them.
        #[command(subcommand)]
        what: LocksCommand,
    },
    /// Make or remove partitions of the tables of projections.
    Partitions {
        /// What to do with them.
        #[command(subcommand)]
        what: PartitionsCommand,
    },
    /// Look at versions of ADFS contracts, or say which one an implementation has.
    Versions {
        /// What to do with them.
        #[command(subcommand)]
        what: VersionsCommand,
    },
    /// Watch it work: two simulated chains with reorgs and upgrades, followed into an archive.
    ///
    /// No node, database or network is needed. Everything goes to the directory `demo` of the data
    /// directory, which is emptied first. Where PostgreSQL's own programs are installed, fees of one chain
    /// go into a private database beside it.
    #[cfg(feature = "demo")]
    Demo {
        /// Stop after this many seconds; 0 for never.
        #[arg(long, default_value_t = 0)]
        seconds: u64,
    },
    /// Find out what can be proven on a chain, from one of its endpoints.
    Chain {
        /// What to find out.
        #[command(subcommand)]
        what: ChainCommand,
    },
    /// The simulator is a program of its own, `chronolith-sim`.
    #[command(hide = true, disable_help_flag = true)]
    Sim {
        /// The arguments of the command that moved.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print the description of the public interface, as OpenAPI 3.1.
    ///
    /// A running node shows the same at /openapi.json, and as a page at /docs.
    Openapi,
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
    /// Print a JSON Schema of the settings file, for editors.
    Schema,
}

/// What to do with an archive as a whole.
#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// Make a lost state again from what the objects say of themselves.
    ///
    /// From a block that is known to be right, segments are followed back by their hash links. Segments
    /// below a gap are used where the source has their last block. What is left over is listed, not guessed
    /// at: the archive is halted until an operator has looked, and these objects stay until `resume
    /// --drop-undecided`. A kept version of the state is the start where its newest block is the newest that
    /// is known to be right. Where a state is there but damaged, or names a damaged catalog, move the file
    /// `state` of the chain's directory away first.
    RebuildState(RebuildState),
    /// Check the format of every object.
    ///
    /// Older ones are read as they are and written again when they are merged, so nothing has to be brought
    /// up to date. One that only a newer program can read is refused.
    Upgrade(Wanted),
}

/// From where to rebuild.
#[derive(Debug, Args)]
pub(crate) struct RebuildState {
    /// A block that is known to be right, as NUMBER:0xHASH; may be given several times. The newest one is
    /// where the archive ends [default: the newest one that a segment ends with and the source has].
    #[arg(long)]
    pub(crate) anchor: Vec<String>,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
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

/// A request of an operator, with its reason.
#[derive(Debug, Args)]
pub(crate) struct Reasoned {
    /// Why; it is recorded.
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

/// Which blocks to fetch.
#[derive(Debug, Args)]
pub(crate) struct BackfillRange {
    /// First block.
    #[arg(long, visible_alias = "start-ledger")]
    pub(crate) from: u64,
    /// Last block.
    #[arg(long, visible_alias = "end-ledger")]
    pub(crate) to: u64,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

/// Which blocks to repair.
#[derive(Debug, Args)]
pub(crate) struct RepairRange {
    /// First block [default: the first archived one].
    #[arg(long)]
    pub(crate) from: Option<u64>,
    /// Last block [default: the last archived one].
    #[arg(long)]
    pub(crate) to: Option<u64>,
    /// Also compare every block with its source, and repair what differs where it is proven further.
    #[arg(long)]
    pub(crate) against_source: bool,
    /// Only show what is not whole.
    #[arg(long)]
    pub(crate) dry_run: bool,
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
    /// The time: seconds or milliseconds since 1970, or ISO 8601, in UTC where no zone is given.
    #[arg(value_parser = moment)]
    pub(crate) time: Timestamp,
    /// The first block not before the time, instead of the last not after it.
    #[arg(long)]
    pub(crate) after: bool,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    let want = "want seconds or milliseconds since 1970, or a time such as 2023-11-14T22:13:20Z";
    chronolith_serve::times::parse_time(text).ok_or_else(|| want.to_owned())
}
