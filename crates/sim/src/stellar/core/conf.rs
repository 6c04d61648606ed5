//! The stand-in's own settings, in place of those of core.

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
    /// A frame's length has no mark.
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

/// The settings of a stand-in.
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
    /// Whether the file says where ledgers go. The real one refuses a second stream.
    pub has_stream: bool,
    pub faults: Vec<CoreFault>,
}

/// The file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    seed: Option<u64>,
    passphrase: Option<String>,
    first_ledger: Option<u32>,
    genesis_time: Option<u64>,
    v1_from: Option<u32>,
    v2_from: Option<u32>,
    transactions: Option<u32>,
    target_bytes: Option<usize>,
    #[serde(default)]
    head: u32,
    ledger_ms: Option<u64>,
    #[serde(default)]
    from_checkpoint: bool,
    #[serde(default)]
    faults: Vec<CoreFault>,
}

/// Why a file was refused.
#[derive(Debug, thiserror::Error)]
#[error("settings of the stand-in for stellar-core: {0}")]
pub struct CoreConfError(Box<toml::de::Error>);

impl CoreConf {
    /// Reads a file. Names in capitals are settings of the real core: of these NETWORK_PASSPHRASE, DATABASE and
    /// METADATA_OUTPUT_STREAM count, and all others are ignored. Any other unknown name is refused.
    ///
    /// # Errors
    /// When it is not TOML, or has an unknown name or value.
    pub fn parse(text: &str) -> Result<Self, CoreConfError> {
        let refused = |error| CoreConfError(Box::new(error));
        let mut table: toml::Table = text.parse().map_err(refused)?;
        let text_of = |name: &str| table.get(name).and_then(|value| value.as_str());
        let passphrase = text_of("NETWORK_PASSPHRASE").map(str::to_owned);
        let keeps_ledgers = text_of("DATABASE").is_some_and(|place| !place.contains(":memory:"));
        let has_stream = text_of("METADATA_OUTPUT_STREAM").is_some_and(|name| !name.is_empty());
        table.retain(|name, _| name.chars().any(char::is_lowercase));
        let file: File = table.try_into().map_err(refused)?;
        let default = StellarSettings::new(file.seed.unwrap_or(1));
        let passphrase = file.passphrase.or(passphrase);
        Ok(Self {
            chain: StellarSettings {
                seed: default.seed,
                passphrase: passphrase.unwrap_or(default.passphrase),
                first_ledger: file.first_ledger.unwrap_or(default.first_ledger),
                genesis_time: file.genesis_time.unwrap_or(default.genesis_time),
                v1_from: file.v1_from.unwrap_or(default.v1_from),
                v2_from: file.v2_from.unwrap_or(default.v2_from),
                transactions: file.transactions.unwrap_or(default.transactions),
                target_bytes: file.target_bytes.unwrap_or(default.target_bytes),
            },
            head: file.head,
            ledger_ms: file.ledger_ms.unwrap_or(1_000),
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
        let is_left = |(place, fault): &(usize, CoreFault)| {
            let times = struck.get(*place).copied().unwrap_or_default();
            times < fault.times && fault.command.is_none_or(|only| only == command)
        };
        faults.filter(is_left).collect()
    }
}
