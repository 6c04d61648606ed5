//! The stand-in's own settings, in place of those of core.

use std::error::Error;
use std::fmt;

use serde::Deserialize;

use crate::stellar::StellarSettings;

/// What goes wrong with a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreFaultKind {
    /// The process ends between two frames.
    Die,
    /// The process ends in the middle of a frame.
    HalfFrame,
    /// A frame holds bytes that mean nothing.
    Garbage,
    /// A frame's length lacks its mark.
    BadMark,
    /// A ledger is left out.
    Skip,
    /// Nothing more comes, and the process lives on.
    Stall,
}

/// Which command a fault belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreCommand {
    /// `catchup`.
    Catchup,
    /// `run`.
    Run,
}

/// One thing that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CoreFault {
    pub kind: CoreFaultKind,
    /// After so many frames of a process.
    #[serde(default)]
    pub after_frames: u32,
    /// In so many processes; any later one is spared.
    #[serde(default = "once")]
    pub times: u32,
    /// Only in this command; in both without it.
    #[serde(default)]
    pub command: Option<CoreCommand>,
}

fn once() -> u32 {
    1
}

/// What a stand-in is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoreConf {
    pub chain: StellarSettings,
    /// The newest ledger when `run` begins. Those up to it come at once.
    pub head: u32,
    /// Milliseconds from one later ledger to the next.
    pub ledger_ms: u64,
    /// `catchup` begins at the checkpoint before what it was asked for.
    pub from_checkpoint: bool,
    /// Whether its database is on disk. Without it the real one forgets its ledgers when it ends, and begins
    /// with the newest checkpoint.
    pub keeps_ledgers: bool,
    /// Whether the file says where ledgers go. The real one refuses to be told twice.
    pub has_stream: bool,
    pub faults: Vec<CoreFault>,
}

/// The file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default = "one")]
    seed: u64,
    passphrase: Option<String>,
    first_ledger: Option<u32>,
    genesis_time: Option<u64>,
    v1_from: Option<u32>,
    v2_from: Option<u32>,
    transactions: Option<u32>,
    target_bytes: Option<usize>,
    #[serde(default)]
    head: u32,
    #[serde(default = "second")]
    ledger_ms: u64,
    #[serde(default)]
    from_checkpoint: bool,
    #[serde(default)]
    faults: Vec<CoreFault>,
}

fn one() -> u64 {
    1
}

fn second() -> u64 {
    1_000
}

/// Why a file was refused.
#[derive(Debug)]
pub struct CoreConfError(Box<toml::de::Error>);

impl fmt::Display for CoreConfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "settings of the stand-in for stellar-core: {}", self.0)
    }
}

impl Error for CoreConfError {}

impl CoreConf {
    /// Reads a file. Names in capitals are settings of the real core: of these NETWORK_PASSPHRASE, DATABASE and
    /// METADATA_OUTPUT_STREAM count, and all others are let be. Any other name that is not known is refused.
    ///
    /// # Errors
    /// When it is not TOML, or says something that is not known.
    pub fn parse(text: &str) -> Result<Self, CoreConfError> {
        let refused = |error| CoreConfError(Box::new(error));
        let mut table: toml::Table = text.parse().map_err(refused)?;
        let text_of = |name: &str| table.get(name).and_then(|value| value.as_str());
        let passphrase = text_of("NETWORK_PASSPHRASE").map(str::to_owned);
        let keeps_ledgers = text_of("DATABASE").is_some_and(|place| !place.contains(":memory:"));
        let has_stream = text_of("METADATA_OUTPUT_STREAM").is_some_and(|name| !name.is_empty());
        table.retain(|name, _| name.chars().any(char::is_lowercase));
        let file: File = table.try_into().map_err(refused)?;
        let mut chain = StellarSettings::new(file.seed);
        set(&mut chain.passphrase, file.passphrase.or(passphrase));
        set(&mut chain.first_ledger, file.first_ledger);
        set(&mut chain.genesis_time, file.genesis_time);
        set(&mut chain.v1_from, file.v1_from);
        set(&mut chain.v2_from, file.v2_from);
        set(&mut chain.transactions, file.transactions);
        set(&mut chain.target_bytes, file.target_bytes);
        Ok(Self {
            chain,
            head: file.head,
            ledger_ms: file.ledger_ms,
            from_checkpoint: file.from_checkpoint,
            keeps_ledgers,
            has_stream,
            faults: file.faults,
        })
    }

    /// The faults of a command that have not struck as often as they should, with their places in the
    /// list.
    #[must_use]
    pub fn faults_left(&self, command: CoreCommand, struck: &[u32]) -> Vec<(usize, CoreFault)> {
        let faults = self.faults.iter().copied().enumerate();
        let left = faults.filter(|(place, fault)| {
            let times = struck.get(*place).copied().unwrap_or_default();
            times < fault.times && fault.command.is_none_or(|only| only == command)
        });
        left.collect()
    }
}

fn set<T>(to: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *to = value;
    }
}
