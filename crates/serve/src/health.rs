//! The health of chains, as JSON.

use chronolith_projection::ProjectionState;
use chronolith_projection::leases::LeaseReport;
use schemars::JsonSchema;
use serde::Serialize;

use crate::names::{ChainId, id_as_json};
use crate::renamed::describe_old_names;

/// What is shown instead of an error that may quote a provider, or name a machine.
const HIDDEN_ERROR: &str = "an error: see `chronolith state` or the log";
/// The same of details.
const HIDDEN_DETAIL: &str = "see `chronolith state`";
/// What everybody may read of an error of the database.
pub const HIDDEN_DATABASE_ERROR: &str = "the database has an error: see the log";

/// The health of a chain.
// The requirements prescribe the names of most fields.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = describe_old_names)]
pub struct ChainHealth {
    #[serde(serialize_with = "id_as_json")]
    #[schemars(with = "ChainId")]
    pub chain: u64,
    /// The version of the contract that is decoded; null where nothing is.
    pub version: Option<u32>,
    /// First topics that projections decode; without projections, those of the logs that are kept; null
    /// where logs of every topic are kept.
    pub topics_watching: Option<Vec<String>>,
    /// Its name in the settings.
    pub name: String,
    pub rpc: RpcHealth,
    /// Blocks that wait for finality.
    pub queue_depth: usize,
    /// Whether ingest or a projection waits for an operator.
    pub paused: bool,
    /// Whether the archive is the reason. A paused projection halts no chain.
    #[serde(skip)]
    pub halted: bool,
    /// What everybody may read instead of some of the texts.
    #[serde(skip)]
    pub public: PublicTexts,
    /// Why it is paused.
    pub paused_reason: Option<String>,
    /// The current error.
    pub error: Option<String>,
    /// Verification rules that were dropped since the start, because a block failed them on every endpoint:
    /// blocks that fail them are proven less.
    pub dropped_rules: Vec<DroppedRuleHealth>,
    /// Why it is not ready; null where it is.
    pub not_ready_reason: Option<String>,
    /// Seconds since the last successful sync cycle; null before the first.
    pub last_success_seconds: Option<u64>,
    /// The source's newest block.
    pub last_seen_block: Option<u64>,
    /// The newest final block.
    pub last_safe_block: Option<u64>,
    /// The newest archived block.
    pub last_backfill_block: Option<u64>,
    /// Blocks between the source's head and ours.
    pub lag_blocks: Option<u64>,
    /// Where L1 included the newest final block, where that makes it final.
    pub last_safe_inclusion: Option<InclusionHealth>,
    /// L1, where finality needs it.
    pub l1: Option<L1Health>,
    /// The health of its projections; null where nothing is projected here.
    pub projections: Option<ProjectionsHealth>,
}

/// Texts of a chain's health without words and hosts of providers. A text that has none here is not public.
///
/// Who knows the parts of a text makes all its forms: what is looked for in a text later may be spelled otherwise there.
#[derive(Clone, Debug, Default)]
pub struct PublicTexts {
    pub error: Option<String>,
    /// For listeners of operators: it may have an error of the database.
    pub not_ready_reason: Option<String>,
    /// For everybody.
    pub not_ready_reason_for_all: Option<String>,
}

/// A verification rule that is no longer applied.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "DroppedRule")]
pub struct DroppedRuleHealth {
    /// Its name, as in the metric.
    pub rule: &'static str,
    /// The block that failed it.
    pub block: u64,
    /// How it failed: for operators.
    pub what: String,
}

/// The health of a chain's projections.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = describe_old_names)]
pub struct ProjectionsHealth {
    /// `unknown` before the first query.
    pub database: DatabaseState,
    /// Why the database cannot be written or read.
    pub error: Option<String>,
    /// Since when, in seconds since 1970.
    pub error_since: Option<u64>,
    /// When the following was read, in seconds since 1970.
    pub looked_at: Option<u64>,
    /// The newest block that was seen.
    pub last_seen_block: Option<i64>,
    /// The block through which everything is confirmed.
    pub last_safe_block: Option<i64>,
    /// Each of them.
    pub all: Vec<ProjectionState>,
    /// Who may write.
    pub locks: Vec<LeaseReport>,
}

/// Whether the database of the projections answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum DatabaseState {
    Ok,
    Unavailable,
    Unknown,
}

/// When a block was first seen to be included in L1.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Inclusion")]
pub struct InclusionHealth {
    /// It was included in this L1 block or an earlier one.
    pub l1_block: u64,
    /// When that was seen, in seconds since 1970.
    pub seen_at: u64,
}

/// The health of L1.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct L1Health {
    #[serde(serialize_with = "id_as_json")]
    #[schemars(with = "ChainId")]
    pub chain: u64,
    /// Its newest block.
    pub head: Option<u64>,
    /// When that block was first seen, in seconds since 1970.
    pub seen_at: Option<u64>,
}

/// The health of a chain's endpoints.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct RpcHealth {
    /// `down` where no endpoint answers.
    #[schemars(extend("enum" = ["healthy", "down"]))]
    pub http: ConnectionState,
    /// `off` where none is configured.
    #[schemars(extend("enum" = ["healthy", "connecting", "off"]))]
    pub ws: ConnectionState,
}

/// The state of the connections to endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ConnectionState {
    Healthy,
    Connecting,
    Down,
    #[default]
    Off,
}

impl ChainHealth {
    /// A chain about which nothing else is known.
    #[must_use]
    pub fn new(chain: u64, name: &str) -> Self {
        Self {
            chain,
            name: name.to_owned(),
            ..Self::default()
        }
    }

    /// Whether answers about this chain are recent.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.not_ready_reason.is_none()
    }

    /// Without words and hosts of providers: for listeners without a token.
    #[must_use]
    pub(crate) fn without_providers(mut self) -> Self {
        let public = std::mem::take(&mut self.public);
        let instead = |text: Option<String>, public: Option<String>| {
            text.map(|_| public.unwrap_or_else(|| HIDDEN_ERROR.to_owned()))
        };
        self.error = instead(self.error, public.error);
        self.not_ready_reason = instead(self.not_ready_reason, public.not_ready_reason);
        for rule in &mut self.dropped_rules {
            // It may have names of fields, which are as the endpoint sent them.
            HIDDEN_DETAIL.clone_into(&mut rule.what);
        }
        self
    }

    /// Without errors of the database and host names either: for everybody.
    #[must_use]
    pub(crate) fn redacted(mut self) -> Self {
        self.public.not_ready_reason = self.public.not_ready_reason_for_all.take();
        let mut health = self.without_providers();
        if let Some(projections) = &mut health.projections {
            let error = projections.error.take();
            projections.error = error.map(|_| HIDDEN_DATABASE_ERROR.to_owned());
            for lock in &mut projections.locks {
                lock.holder = lock.holder.take().map(without_host);
            }
        }
        health
    }
}

/// The holder of a lock by its process alone.
pub(crate) fn without_host(holder: String) -> String {
    match holder.rsplit_once(':') {
        Some((_, process)) => format!("process {process}"),
        None => "another process".to_owned(),
    }
}

/// Reports the health of all chains.
pub trait Probe: Send + Sync {
    fn chains(&self) -> Vec<ChainHealth>;

    /// Whether the process is about to end: it is not ready then, whatever its chains are.
    fn is_stopping(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of the database used to be looked for in the reason. The two are noted one after the other, so that
    /// the reason could have another one, with the host of the database.
    #[test]
    fn an_error_of_the_database_is_hidden_however_it_is_spelled() {
        let reason = Some("projections: for 3 s: no answer (host=db.internal)".to_owned());
        let hidden = format!("projections: for 3 s: {HIDDEN_DATABASE_ERROR}");
        let health = ChainHealth {
            not_ready_reason: reason.clone(),
            public: PublicTexts {
                error: None,
                not_ready_reason: reason.clone(),
                not_ready_reason_for_all: Some(hidden.clone()),
            },
            projections: Some(ProjectionsHealth {
                database: DatabaseState::Unavailable,
                error: Some("refused (host=db.internal)".to_owned()),
                error_since: None,
                looked_at: None,
                last_seen_block: None,
                last_safe_block: None,
                all: Vec::new(),
                locks: Vec::new(),
            }),
            ..ChainHealth::new(1, "one")
        };
        let for_operators = health.clone().without_providers();
        assert_eq!(for_operators.not_ready_reason, reason);
        let unknown = ChainHealth {
            public: PublicTexts {
                not_ready_reason: reason,
                ..PublicTexts::default()
            },
            ..health.clone()
        };
        for (health, shown) in [(health, hidden.as_str()), (unknown, HIDDEN_ERROR)] {
            let redacted = health.redacted();
            assert_eq!(redacted.not_ready_reason.as_deref(), Some(shown));
            let error = redacted
                .projections
                .and_then(|projections| projections.error);
            assert_eq!(error.as_deref(), Some(HIDDEN_DATABASE_ERROR));
        }
    }
}
