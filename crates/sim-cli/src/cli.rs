//! The command line.

mod stellar;

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, value_parser};

use stellar::{CORE_HELP, LAKE_HELP};
pub(crate) use stellar::{
    Core, CoreCommand, CoreStream, NewestAt, StellarCore, StellarLake, Suffix,
};

/// Simulated chains to develop and test against.
#[derive(Debug, Parser)]
#[command(name = "chronolith-sim", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to log, over RUST_LOG [default: error].
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log_level: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a simulated EVM chain until Ctrl-C: a node over HTTP and WebSocket, and a Portal.
    ///
    /// Headers commit to their content as on a real chain, blocks keep coming, and both servers go
    /// wrong as a file of faults says.
    #[command(after_help = SERVE_HELP)]
    Serve(Box<SimServe>),
    /// Follow a simulated chain through faults, byzantine endpoints, reorgs and SIGKILL, and compare every block and row.
    ///
    /// Each seed is one chain, one choice of faults and limits, and one sequence of events; of five
    /// seeds in a row each fetches in another way. It fails on the
    /// first log that is missing, made up or twice, and when a fault of its list was never injected. Two
    /// nodes and a worker project fees and feeds meanwhile, stopped and killed like the database; in the end
    /// tables are those of a clean replay.
    Torture(Torture),
    /// Write a data lake of simulated Stellar ledgers.
    ///
    /// Files are laid out as Galexie puts them (SEP-54). Hashes, links and transaction hashes of the ledgers hold as
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
    /// The product's program [default: `chronolith` in the directory of this program].
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,
    /// Blocks that are archived while things go wrong.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(500..))]
    pub(crate) blocks: u64,
}

/// What `chronolith-sim serve --help` ends with.
const SERVE_HELP: &str = r#"Example: a chain with a reorg every ten blocks, served by a provider that is slow, strict and flaky.

  echo '{ "http_500": 0.02, "empty_logs": 0.01, "portal": { "cut_line": 0.05, "status_503": 0.02 } }' > faults.json
  chronolith-sim serve --listen 127.0.0.1:8545 --reorg-every 10 --delay-ms 50 \
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
    /// Everything is derived from it.
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
    /// A reorg of one to four blocks instead of every N-th block; 0 for none.
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
    let digits = text.strip_prefix("0x");
    let address = digits.and_then(|digits| const_hex::decode_to_array(digits).ok());
    address.ok_or_else(|| "an address is 0x and 40 digits".to_owned())
}
