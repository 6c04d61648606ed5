//! The command line of a simulated Stellar network.

use std::ops::Range;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// What `chronolith-sim stellar-lake --help` ends with.
pub(crate) const LAKE_HELP: &str = "\
Example: a thousand ledgers of all versions, eight to a file, as a lake and, from there on, as core.

  printf 'seed = 7\\nDATABASE = \"sqlite3://stellar.db\"\\n' > core.toml
  chronolith-sim stellar-lake --conf core.toml --out lake --ledgers 2..1001 --ledgers-per-file 8
  printf '#!/bin/sh\\nexec chronolith-sim stellar-core \"$@\"\\n' > stellar-core; chmod +x stellar-core
  ./stellar-core --conf core.toml new-db
  ./stellar-core --conf core.toml catchup 1001/0
  ./stellar-core --conf core.toml run --metadata-output-stream fd:1

A file of a lake is always whole, so that what is written may go beyond what was requested.";

/// What `chronolith-sim stellar-core --help` ends with.
pub(crate) const CORE_HELP: &str = r#"It takes the arguments of stellar-core:

  version | new-db | offline-info
  catchup TO/COUNT --metadata-output-stream fd:N|PATH
  run --metadata-output-stream fd:N|PATH

and keeps the last closed ledger in the working directory. `--conf` names a small TOML file in place of
core's (names in capitals are core's own; of these NETWORK_PASSPHRASE counts, and DATABASE, without which
nothing is remembered, and METADATA_OUTPUT_STREAM, which is refused beside the flag):

  seed = 7                  # everything follows from it
  passphrase = "…"          # of the network
  firstLedger = 2
  genesisTime = 1443640000  # when the ledger before it closed
  v1From = 12               # from here on LedgerCloseMetaV1
  v2From = 22               # from here on LedgerCloseMetaV2
  transactions = 5          # a ledger, on average
  targetBytes = 0           # fill a ledger up to this size; 1300000 is a busy network's
  head = 100                # `run` is so far when it begins
  ledgerMs = 1000           # from one later ledger to the next
  fromCheckpoint = false    # `catchup` begins at a multiple of 64, as core does
  [[faults]]
  kind = "die"              # or half_frame, garbage, bad_mark, skip, stall
  afterFrames = 5           # of a process
  times = 1                 # in this many processes
  command = "run"           # or "catchup"; both without it"#;

/// Arguments of stellar-core.
#[derive(Debug, Args)]
pub(crate) struct StellarCore {
    /// Arguments of core.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    pub(crate) arguments: Vec<String>,
}

/// The command line of stellar-core itself.
#[derive(Debug, Parser)]
#[command(name = "stellar-core")]
pub(crate) struct Core {
    /// The settings file.
    #[arg(long, global = true, default_value = "stellar-core.cfg")]
    pub(crate) conf: PathBuf,
    /// Taken, and means nothing here.
    #[arg(long, global = true)]
    console: bool,
    /// Taken, and means nothing here.
    #[arg(long, global = true)]
    ll: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) what: CoreCommand,
}

/// What core can do.
#[derive(Debug, Subcommand)]
pub(crate) enum CoreCommand {
    /// Say which version it is.
    Version,
    /// Start with an empty database.
    NewDb,
    /// Say what the last closed ledger is.
    OfflineInfo,
    /// Replay history.
    Catchup {
        /// Up to which ledger, and how many.
        #[arg(value_name = "TO/COUNT", value_parser = parse_catchup)]
        ledgers: (u32, u32),
        /// Where ledgers go.
        #[command(flatten)]
        stream: CoreStream,
    },
    /// Follow the network.
    Run {
        /// Where ledgers go.
        #[command(flatten)]
        stream: CoreStream,
    },
}

/// Where ledgers go.
#[derive(Debug, Args)]
pub(crate) struct CoreStream {
    /// A descriptor that is open, or the path of a pipe.
    #[arg(long, value_name = "fd:N|PATH")]
    pub(crate) metadata_output_stream: Option<String>,
    /// Taken, and means nothing here.
    #[arg(long)]
    in_memory: bool,
}

/// What lake to write.
#[derive(Debug, Args)]
pub(crate) struct StellarLake {
    /// Where to. What is there stays.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Which ledgers, from A up to B but without B.
    #[arg(long, value_name = "A..B", value_parser = parse_ledgers)]
    pub(crate) ledgers: Range<u32>,
    /// Ledgers in a file.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ledgers_per_file: u32,
    /// Files in a folder; 1 for no folders.
    #[arg(long, default_value_t = 64_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) files_per_partition: u32,
    /// What names end with.
    #[arg(long, value_enum, default_value_t = Suffix::Zst)]
    pub(crate) suffix: Suffix,
    /// Write no .config.json.
    #[arg(long)]
    pub(crate) no_manifest: bool,
    /// The settings of a stand-in for stellar-core, for a lake of the same chain.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "passphrase", "transactions", "target_bytes"])]
    pub(crate) conf: Option<PathBuf>,
    /// Everything follows from it.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The network's passphrase [default: that of a simulated one].
    #[arg(long)]
    pub(crate) passphrase: Option<String>,
    /// When the newest of these ledgers closed: seconds since 1970, or `now` [default: in 2015].
    #[arg(long, value_name = "SECONDS|now", value_parser = parse_time)]
    pub(crate) newest_at: Option<NewestAt>,
    /// Transactions of a ledger, on average [default: 5].
    #[arg(long)]
    pub(crate) transactions: Option<u32>,
    /// Fill every ledger up to about this many bytes; 1300000 is a busy network's [default: leave it].
    #[arg(long, value_name = "BYTES")]
    pub(crate) target_bytes: Option<usize>,
}

/// What names of a lake end with.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Suffix {
    /// As it is today.
    Zst,
    /// As older lakes have it.
    Zstd,
}

fn parse_catchup(text: &str) -> Result<(u32, u32), String> {
    let (to, count) = text.split_once('/').ok_or("say TO/COUNT, such as 100/10")?;
    let to = parse_ledger(to)?;
    // Core takes `max` for all ledgers there are.
    let count = match count {
        "max" => u32::MAX,
        count => parse_ledger(count)?,
    };
    Ok((to, count))
}

fn parse_ledger(text: &str) -> Result<u32, String> {
    let number = text.parse();
    number.map_err(|_| format!("`{text}` is not a ledger"))
}

/// When the newest ledger closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NewestAt {
    /// Right now.
    Now,
    /// Seconds since 1970.
    Time(u64),
}

fn parse_time(text: &str) -> Result<NewestAt, String> {
    if text == "now" {
        return Ok(NewestAt::Now);
    }
    let time = text.parse().map(NewestAt::Time);
    time.map_err(|_| format!("`{text}` is neither `now` nor seconds since 1970"))
}

fn parse_ledgers(text: &str) -> Result<Range<u32>, String> {
    let (start, end) = text.split_once("..").ok_or("say A..B, such as 2..1000")?;
    let ledgers = parse_ledger(start)?..parse_ledger(end)?;
    if ledgers.is_empty() {
        return Err(format!("no ledgers are in {text}"));
    }
    Ok(ledgers)
}
