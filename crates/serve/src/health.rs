//! The health of chains, as JSON.

use chronolith_projection::ProjectionState;
use chronolith_projection::leases::LeaseReport;
use serde::Serialize;

/// The health of a chain. Its JSON has the names that the requirements prescribe, and others.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainHealth {
    pub chain: u64,
    /// The version of the contract that is decoded; none where nothing is.
    pub version: Option<u32>,
    /// First topics that projections decode; without projections, those of the logs that are kept; none
    /// where logs of every topic are kept.
    pub topics_watching: Option<Vec<String>>,
    /// Its name in the settings.
    pub name: String,
    pub rpc: RpcHealth,
    /// Blocks that wait for finality.
    pub queue_depth: usize,
    /// Whether ingest or a projection is stopped until an operator acts.
    pub paused: bool,
    /// Whether the archive is the reason. A paused projection halts no chain.
    #[serde(skip)]
    pub halted: bool,
    pub paused_reason: Option<String>,
    /// The current error.
    pub error: Option<String>,
    /// Verification rules that were dropped since the start, because a block failed them on every endpoint.
    pub dropped_rules: Vec<DroppedRuleHealth>,
    /// None where it is ready.
    pub not_ready_reason: Option<String>,
    /// Seconds since the last successful sync cycle; none before the first.
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
    /// None where nothing is projected here.
    pub projections: Option<ProjectionsHealth>,
}

/// A verification rule that is no longer applied.
#[derive(Clone, Debug, Serialize)]
pub struct DroppedRuleHealth {
    /// Its name, as in the metric.
    pub rule: &'static str,
    /// The block that failed it.
    pub block: u64,
    pub what: String,
}

/// The health of a chain's projections.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectionsHealth {
    pub database: DatabaseState,
    /// Why the database cannot be written or read.
    pub error: Option<String>,
    /// Since when, in seconds since 1970.
    pub error_since: Option<u64>,
    /// When the following was read, in seconds since 1970.
    pub looked_at: Option<u64>,
    pub last_seen_block: Option<i64>,
    /// Through this block everything is confirmed.
    pub last_safe_block: Option<i64>,
    pub all: Vec<ProjectionState>,
    pub locks: Vec<LeaseReport>,
}

/// Whether the database of the projections answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseState {
    Ok,
    Unavailable,
    /// Before the first query.
    Unknown,
}

/// When a block was first seen to be included in L1.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InclusionHealth {
    /// It was included in this L1 block or an earlier one.
    pub l1_block: u64,
    /// In seconds since 1970.
    pub seen_at: u64,
}

/// The health of L1.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct L1Health {
    pub chain: u64,
    /// Its newest block.
    pub head: Option<u64>,
    /// When that block was first seen, in seconds since 1970.
    pub seen_at: Option<u64>,
}

/// The health of a chain's endpoints.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RpcHealth {
    pub http: ConnectionState,
    pub ws: ConnectionState,
}

/// The state of the connections to endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionState {
    Healthy,
    Connecting,
    /// No endpoint answers.
    Down,
    /// None is configured.
    Off,
}

impl ChainHealth {
    /// A chain about which nothing else is known.
    #[must_use]
    pub fn new(chain: u64, name: &str) -> Self {
        Self {
            chain,
            version: None,
            topics_watching: None,
            name: name.to_owned(),
            rpc: RpcHealth {
                http: ConnectionState::Off,
                ws: ConnectionState::Off,
            },
            queue_depth: 0,
            paused: false,
            halted: false,
            paused_reason: None,
            error: None,
            dropped_rules: Vec::new(),
            not_ready_reason: None,
            last_success_seconds: None,
            last_seen_block: None,
            last_safe_block: None,
            last_backfill_block: None,
            lag_blocks: None,
            last_safe_inclusion: None,
            l1: None,
            projections: None,
        }
    }

    /// Whether answers about this chain are recent.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.not_ready_reason.is_none()
    }

    /// Without what only operators may see: errors of the database, and host names.
    #[must_use]
    pub(crate) fn redacted(mut self) -> Self {
        if let Some(projections) = &mut self.projections {
            if let Some(message) = projections.error.take() {
                let hidden = "the database has an error: see the log";
                let reason = self.not_ready_reason.take();
                self.not_ready_reason = reason.map(|reason| reason.replace(&message, hidden));
                projections.error = Some(hidden.to_owned());
            }
            for lock in &mut projections.locks {
                lock.holder = lock.holder.take().map(without_host);
            }
        }
        self
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
}
