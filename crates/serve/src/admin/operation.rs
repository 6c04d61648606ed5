//! Operations that an operator requests of a running node. The command line builds them, HTTP carries them,
//! the node executes them; each is one type. The fields of an operation on projections are also the flags of
//! its command: what `clap` shows of them is here too.

use clap::Args;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An operation on a running node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    Backfill(Backfill),
    Chain(ChainOperation),
    Projection(ProjectionOperation),
}

/// An operation that the follow loop of a chain executes between two rounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChainOperation {
    Resume(Resume),
    Rewind(Rewind),
    Prune(Prune),
    Gc(Gc),
    RetryRange(RetryRange),
}

impl ChainOperation {
    /// Name or id of the chain.
    #[must_use]
    pub fn chain(&self) -> &str {
        match self {
            Self::Resume(Resume { chain, .. })
            | Self::Rewind(Rewind { chain, .. })
            | Self::Prune(Prune { chain, .. })
            | Self::Gc(Gc { chain, .. })
            | Self::RetryRange(RetryRange { chain, .. }) => chain,
        }
    }

    /// The reason as it is recorded; empty for an operation that records none.
    ///
    /// # Errors
    ///
    /// The operation needs a reason and has none.
    pub fn recorded_reason(&self) -> Result<String, String> {
        match self {
            Self::Gc(_) => Ok(String::new()),
            Self::Resume(Resume { reason, by, .. })
            | Self::Rewind(Rewind { reason, by, .. })
            | Self::Prune(Prune { reason, by, .. })
            | Self::RetryRange(RetryRange { reason, by, .. }) => signed(reason, by.as_deref()),
        }
    }
}

/// A reason as it is recorded, with who gave it.
///
/// # Errors
///
/// The reason is empty.
pub fn signed(reason: &str, by: Option<&str>) -> Result<String, String> {
    let (reason, by) = (reason.trim(), by.map(str::trim));
    if reason.is_empty() {
        return Err("the reason is empty: it is recorded in the audit log".into());
    }
    Ok(match by.filter(|by| !by.is_empty()) {
        Some(by) => format!("{reason} (by {by})"),
        None => reason.to_owned(),
    })
}

/// Fetches the missing blocks of a range.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backfill {
    #[serde(deserialize_with = "name")]
    pub chain: String,
    /// First block.
    pub from: u64,
    /// Last block.
    pub to: u64,
}

/// Ends a halt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Resume {
    #[serde(deserialize_with = "name")]
    pub chain: String,
    pub reason: String,
    pub by: Option<String>,
    /// Lets garbage collection remove what a rebuild of the state left undecided.
    #[serde(default)]
    pub drop_undecided: bool,
}

/// Drops all blocks above one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewind {
    #[serde(deserialize_with = "name")]
    pub chain: String,
    /// The last block that stays.
    pub to: u64,
    pub reason: String,
    pub by: Option<String>,
}

/// Removes the oldest blocks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prune {
    #[serde(deserialize_with = "name")]
    pub chain: String,
    /// The first block that stays.
    pub below: u64,
    pub reason: String,
    pub by: Option<String>,
}

/// Removes objects that nothing references.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Gc {
    #[serde(deserialize_with = "name")]
    pub chain: String,
    /// Only show what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// Retries the finalization of a range that failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryRange {
    #[serde(deserialize_with = "name")]
    pub chain: String,
    pub id: u64,
    pub reason: String,
    pub by: Option<String>,
}

/// An operation on projections. Its path is the words of its command: `chronolith locks release` is
/// `POST /admin/v1/locks/release`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProjectionOperation {
    /// `db status` and `projection state`.
    Status(OfChain),
    /// `projection resume`.
    Resume(OfProjection),
    /// `projection replay`.
    Replay(Replay),
    /// `jobs list`.
    Jobs(OfChain),
    /// `jobs explain`.
    Explain(OneJob),
    /// `jobs retry`.
    Retry(SomeJob),
    /// `jobs audit`.
    Audit(OfChain),
    /// `locks list`.
    Locks(OfChain),
    /// `locks release`.
    Release(LockOf),
    /// `partitions create`.
    CreatePartitions(PartitionsOf),
    /// `partitions prune`.
    PrunePartitions(PrunePartitions),
    /// `versions list`.
    Versions(OfChain),
    /// `versions add`.
    AddVersion(VersionOf),
    /// `versions remove`.
    RemoveVersion(ImplementationOf),
}

/// Which chain.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct OfChain {
    /// Name or id of the chain; needed where there are several.
    #[arg(long)]
    #[serde(default, deserialize_with = "optional_name")]
    pub chain: Option<String>,
}

/// Which projection of which chain.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct OfProjection {
    /// Its name, fees or adfs [default: all of the chain].
    #[arg(long)]
    pub projection: Option<String>,
    /// Name or id of the chain; needed where there are several.
    #[arg(long)]
    #[serde(default, deserialize_with = "optional_name")]
    pub chain: Option<String>,
}

/// Blocks to project again.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// First block.
    #[arg(long)]
    pub from: u64,
    /// Last block.
    #[arg(long)]
    pub to: u64,
    /// Its name, fees or adfs [default: all of the chain].
    #[arg(long)]
    pub projection: Option<String>,
    /// Name or id of the chain; needed where there are several.
    #[arg(long)]
    #[serde(default, deserialize_with = "optional_name")]
    pub chain: Option<String>,
}

/// A job by its number.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct OneJob {
    /// Its number.
    #[serde(deserialize_with = "number")]
    pub id: i64,
}

/// A job by its number, or all of them.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct SomeJob {
    /// Its number; all of them where none is given.
    pub id: Option<i64>,
}

/// A lock of a chain.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct LockOf {
    /// Which one: finality or writer.
    #[arg(long = "type", value_name = "TYPE")]
    #[serde(rename = "type")]
    pub kind: String,
    /// Name or id of the chain; needed where there are several.
    #[arg(long)]
    #[serde(default, deserialize_with = "optional_name")]
    pub chain: Option<String>,
}

/// Partitions of a month, of one chain or of all.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct PartitionsOf {
    /// The month, as YYYY-MM.
    #[arg(long, value_name = "YYYY-MM")]
    pub month: String,
    /// Name or id of the chain; needed where there are several.
    #[arg(long)]
    #[serde(default, deserialize_with = "optional_name")]
    pub chain: Option<String>,
}

/// Old partitions.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Args)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PrunePartitions {
    /// Only show what would be removed.
    #[arg(long)]
    #[serde(default)]
    pub dry_run: bool,
}

/// The version of an implementation.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct VersionOf {
    /// The implementation's address.
    #[arg(long, value_name = "ADDRESS")]
    pub implementation: String,
    /// Its version.
    #[arg(long, value_name = "NUMBER")]
    pub version: u32,
    /// Name or id of the chain; needed where there are several.
    #[arg(long)]
    #[serde(default, deserialize_with = "optional_name")]
    pub chain: Option<String>,
}

/// An implementation.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct ImplementationOf {
    /// The implementation's address.
    #[arg(long, value_name = "ADDRESS")]
    pub implementation: String,
    /// Name or id of the chain; needed where there are several.
    #[arg(long)]
    #[serde(default, deserialize_with = "optional_name")]
    pub chain: Option<String>,
}

/// A chain's id may be written as the number it is.
fn optional_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(from)? {
        Value::Null => Ok(None),
        Value::String(name) => Ok(Some(name)),
        Value::Number(id) => Ok(Some(id.to_string())),
        _ => Err(D::Error::custom("chain: must be its name or its id")),
    }
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let missing = || D::Error::custom("chain: must be its name or its id");
    optional_name(from)?.ok_or_else(missing)
}

/// A number, which is text in a query string.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let value = Value::deserialize(from)?;
    let number = match &value {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    };
    number.ok_or_else(|| D::Error::custom("id: must be the number of a job"))
}
