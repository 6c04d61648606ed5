//! The command line.

mod chain;
mod projections;
mod ranges;
mod stellar;

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;

use chronolith_serve::Moment;
use clap::{Args, Parser, Subcommand, value_parser};

use crate::commands::DecodeCommand;
use crate::environment::INTERVAL_SECONDS;
use crate::hex::parse_hex;

pub(crate) use chain::{ChainCommand, ProbeChain, RecordChain};
pub(crate) use projections::{
    DbCommand, JobsCommand, LocksCommand, PartitionsCommand, ProjectionAct, ProjectionCommand,
    VersionsCommand,
};
pub(crate) use ranges::{RangeCommand, RetryRange, StateQuery};
use stellar::{CORE_HELP, LAKE_HELP};
pub(crate) use stellar::{
    Core, CoreCommand, CoreStream, NewestAt, StellarCore, StellarLake, Suffix,
};

/// Follows blockchains, proves that nothing is missing, keeps their history and answers for it.
#[derive(Debug, Parser)]
#[command(name = "chronolith", version, arg_required_else_help = true, after_help = crate::exit::HELP)]
pub(crate) struct Cli {
    /// The settings file, JSON or TOML.
    #[arg(long, short, global = true, default_value = "chronolith.json")]
    pub(crate) config: PathBuf,
    /// Where archives are kept, over DATA_DIR and the settings file [default: ./data].
    #[arg(long, global = true)]
    pub(crate) data_dir: Option<PathBuf>,
    /// The port where everybody is answered, over PORT and the settings file [default: 8080].
    #[arg(long, global = true)]
    pub(crate) port: Option<u16>,
    /// The port of health and metrics, over the settings file [default: 9464].
    #[arg(long, global = true, value_name = "PORT")]
    pub(crate) metrics_port: Option<u16>,
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
    /// Prove that the archive is whole: coverage, links, checksums of every block and object.
    Verify(VerifyRange),
    /// Make anew what `verify` finds damaged or gone: fetched from the source, proven, and replaced.
    ///
    /// No published block changes: what replaces a damaged object has the same block hashes, is proven
    /// no less, and has the same content or is proven further. A node that follows the chain must be
    /// stopped first, unless this is a dry run.
    Repair(RepairRange),
    /// Fetch history between two blocks, as far as the archive lacks it, several ranges at a time.
    ///
    /// What is there already is not fetched. Interrupted, it goes on behind the last checkpoint when
    /// called again. Only final blocks are fetched. It ends well when every range between the two blocks
    /// is complete. A node that runs on the data directory is asked to fill in what lies below its newest
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
    /// End a halt: go on with what is archived.
    Resume {
        /// Let garbage collection remove what a rebuild of the state left undecided or could not read.
        /// Without it these objects stay.
        #[arg(long)]
        drop_undecided: bool,
        /// Which chain, and why.
        #[command(flatten)]
        act: Act,
    },
    /// Drop all blocks above a number, for example after a finalized block was replaced.
    Rewind {
        /// The last block that stays.
        #[arg(long)]
        to: u64,
        /// Which chain, and why.
        #[command(flatten)]
        act: Act,
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
        act: Act,
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
    /// Look at projections, let them go on, or project a range again.
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
    /// Make up chains.
    Sim {
        /// What to do with them.
        #[command(subcommand)]
        what: SimCommand,
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
    /// below a hole are used where the source has their last block. What is left over is listed, not guessed
    /// at: the archive is halted until an operator has looked, and these objects stay until `resume
    /// --drop-undecided`. A kept version of the state is the start where its newest block is the newest that
    /// is known to be right. Where a state is there but damaged, or names a damaged catalog, move the file
    /// `state` of the chain's directory away first.
    RebuildState(RebuildState),
    /// Check the format of every object.
    ///
    /// Older ones are read as they are and written anew when they are merged, so nothing has to be brought
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

/// What to do with made-up chains.
#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    /// Serve a simulated EVM chain until Ctrl-C: a node over HTTP and WebSocket, and a Portal.
    ///
    /// Headers commit to their content as on a real chain, blocks keep coming, and both servers go
    /// wrong as a file of faults says.
    #[command(after_help = SERVE_HELP)]
    Serve(Box<SimServe>),
    /// Follow a simulated chain through faults, lies, reorgs and SIGKILL, and compare every block and row.
    ///
    /// Each seed is one chain, one choice of faults and limits, and one sequence of events; of three
    /// seeds in a row one is fetched by receipts, one by logs and one from a Portal. It fails on the
    /// first log that is missing, made up or twice, and when a fault of its list was never injected. Two
    /// nodes and a worker project fees and feeds meanwhile, stopped and killed like the database; in the end
    /// tables are those of a clean replay.
    Torture(Torture),
    /// Write a data lake of simulated Stellar ledgers.
    ///
    /// Files lie as Galexie puts them (SEP-54). Hashes, links and transaction hashes of the ledgers hold as
    /// on a real network.
    #[command(after_help = LAKE_HELP)]
    StellarLake(Box<StellarLake>),
    /// Stand in for stellar-core, with a simulated network.
    ///
    /// Ledgers are written as core writes them, and go wrong as its file says.
    #[command(after_help = CORE_HELP)]
    StellarCore(StellarCore),
}

/// How to torture.
#[derive(Debug, Args)]
pub(crate) struct Torture {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 3)]
    pub(crate) seeds: u64,
    /// A PostgreSQL whose user may make databases, for projections. Without it one of the machine's own
    /// programs is started, and killed now and then; where there are none, nothing is projected.
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,
    /// Project nothing.
    #[arg(long, conflicts_with = "database")]
    pub(crate) no_projections: bool,
    /// Blocks that are archived while things go wrong.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(500..))]
    pub(crate) blocks: u64,
}

/// What `sim serve --help` ends with.
const SERVE_HELP: &str = r#"Example: a chain with a reorg every ten blocks, behind a provider that is slow, strict and flaky.

  echo '{ "http_500": 0.02, "empty_logs": 0.01, "portal": { "cut_line": 0.05, "status_503": 0.02 } }' > faults.json
  chronolith sim serve --listen 127.0.0.1:8545 --reorg-every 10 --delay-ms 50 \
    --max-block-range 1000 --max-results 10000 --requests-per-second 50 --faults faults.json

Then, in another terminal:

  chronolith config example > chronolith.json
  chronolith run

Faults of the node stand at the top of the file, those of the Portal under "portal"; the number is
how likely each is whenever it is possible. An unknown name is refused, and all that are known are listed."#;

/// What to serve.
#[derive(Debug, Args)]
pub(crate) struct SimServe {
    /// Where the node answers; port 0 is a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Where the Portal answers; port 0 is a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) portal_listen: SocketAddr,
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
    /// Blocks from upgrade to upgrade of a proxy; 0 for no proxy.
    #[arg(long, default_value_t = 0)]
    pub(crate) upgrade_every: u64,
    /// Milliseconds before each answer.
    #[arg(long, default_value_t = 0)]
    pub(crate) delay_ms: u64,
    /// Most blocks of an eth_getLogs [default: any number].
    #[arg(long)]
    pub(crate) max_block_range: Option<NonZeroU64>,
    /// Most logs of an eth_getLogs over several blocks [default: any number].
    #[arg(long)]
    pub(crate) max_results: Option<NonZeroU64>,
    /// Calls to the node, and requests to the Portal, in a second; above it they are refused with
    /// 429 [default: any number].
    #[arg(long)]
    pub(crate) requests_per_second: Option<NonZeroU64>,
    /// A file with faults and how often they happen, such as {"http_500": 0.02}.
    #[arg(long)]
    pub(crate) faults: Option<PathBuf>,
    /// Fees.
    #[command(flatten)]
    pub(crate) fees: SimFees,
}

/// A contract that collects fees.
#[derive(Debug, Args)]
pub(crate) struct SimFees {
    /// FeesCollected logs in a thousand blocks, on average, beside all others; 0 for no such contract.
    ///
    /// The contract emits FeesWithdrawn and LiFiFeesWithdrawn too, and another one, whose address
    /// differs in its last digit, FeesCollected.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = value_parser!(u32).range(..=FEES_MAX))]
    pub(crate) fees: u32,
    /// The contract that collects them.
    #[arg(long, value_name = "ADDRESS", default_value = "0xbD6C7B0d2f68c2b7805d88388319cfB6EcB50eA9", value_parser = parse_address)]
    pub(crate) fees_contract: [u8; 20],
    /// Where to write the rows that an index of its FeesCollected must hold, one JSON object a line.
    ///
    /// Written for the blocks at the start, and once more at the end for those of the chain as it is
    /// then.
    #[arg(long, value_name = "FILE")]
    pub(crate) fees_rows: Option<PathBuf>,
}

/// A thousand fees a block.
const FEES_MAX: i64 = 1_000_000;

fn parse_address(text: &str) -> Result<[u8; 20], String> {
    let bytes = parse_hex(text).and_then(|bytes| <[u8; 20]>::try_from(bytes.as_ref()).ok());
    bytes.ok_or_else(|| "an address is 0x and 40 digits".to_owned())
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
    pub(crate) time: Moment,
    /// The first block not before the time, instead of the last not after it.
    #[arg(long)]
    pub(crate) after: bool,
    /// Which chain.
    #[command(flatten)]
    pub(crate) wanted: Wanted,
}

fn moment(text: &str) -> Result<Moment, String> {
    let want = "want seconds or milliseconds since 1970, or a time such as 2023-11-14T22:13:20Z";
    chronolith_serve::read_time(text).ok_or_else(|| want.to_owned())
}
