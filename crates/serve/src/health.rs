//! How chains do, as JSON.

use chronolith_projection::ProjectionState;
use chronolith_projection::leases::LeaseReport;
use serde::Serialize;

/// How one chain does. The names are those of the requirement's health endpoint, and ours beside
/// them.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainHealth {
    pub chain: u64,
    /// The version of the contract that is decoded; none where nothing is.
    pub version: Option<u32>,
    /// First topics that projections look for; without projections those of the logs that are kept, none
    /// where logs of every topic are.
    pub topics_watching: Option<Vec<String>>,
    /// Its name in the settings.
    pub name: String,
    pub rpc: RpcHealth,
    /// Blocks that wait for finality.
    pub queue_depth: usize,
    /// Whether nothing is taken any more until a person acts, or a projection stands still until then.
    pub paused: bool,
    /// Whether the archive is why. A projection that is paused halts no chain.
    #[serde(skip)]
    pub halted: bool,
    pub paused_reason: Option<String>,
    /// What goes wrong right now, where something does.
    pub trouble: Option<String>,
    /// Rules of verification that were dropped since the start, because a block failed them on every
    /// endpoint.
    pub dropped_rules: Vec<DroppedRuleHealth>,
    /// Why it is not ready; none where it is.
    pub not_ready_reason: Option<String>,
    /// How long ago a round of looking for new blocks ended well; none before the first.
    pub last_good_round_seconds: Option<u64>,
    /// The source's newest block.
    pub last_seen_block: Option<u64>,
    /// The newest final block.
    pub last_safe_block: Option<u64>,
    /// The newest archived block.
    pub last_backfill_block: Option<u64>,
    /// Blocks between the source's head and ours.
    pub lag_blocks: Option<u64>,
    /// Where the newest final block was included in the chain below, where that makes it final.
    pub last_safe_inclusion: Option<InclusionHealth>,
    /// The chain below, where it is another one and finality needs it.
    pub l1: Option<L1Health>,
    /// How its projections do; none where nothing is projected here.
    pub projections: Option<ProjectionsHealth>,
}

/// A rule of verification that blocks are not refused by any more.
#[derive(Clone, Debug, Serialize)]
pub struct DroppedRuleHealth {
    /// Its name, as in the metric.
    pub rule: &'static str,
    /// The block that failed it.
    pub block: u64,
    pub what: String,
}

/// How the projections of a chain do.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectionsHealth {
    pub database: DatabaseState,
    /// Why nothing is written or seen, where that is so.
    pub trouble: Option<String>,
    /// Since when, in seconds since 1970.
    pub trouble_since: Option<u64>,
    /// When the database last said what follows, in seconds since 1970.
    pub looked_at: Option<u64>,
    /// The newest block that was seen.
    pub last_seen_block: Option<i64>,
    /// The block through which everything is confirmed.
    pub last_safe_block: Option<i64>,
    /// Each of them.
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

/// When a block was first seen to be included in the chain below.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InclusionHealth {
    /// Height of the chain below; it was included there or earlier.
    pub l1_block: u64,
    /// When that was seen, in seconds since 1970.
    pub seen_at: u64,
}

/// How the chain below does.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct L1Health {
    pub chain: u64,
    /// Its newest block, as it was last seen to grow.
    pub head: Option<u64>,
    /// When that was, in seconds since 1970.
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
            trouble: None,
            dropped_rules: Vec::new(),
            not_ready_reason: None,
            last_good_round_seconds: None,
            last_seen_block: None,
            last_safe_block: None,
            last_backfill_block: None,
            lag_blocks: None,
            last_safe_inclusion: None,
            l1: None,
            projections: None,
        }
    }

    /// Whether requests about this chain are answered from something recent.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.not_ready_reason.is_none()
    }

    /// The same for everybody: what a database says of itself, and which machines there are, is for those
    /// who run it.
    #[must_use]
    pub(crate) fn redacted(mut self) -> Self {
        if let Some(projections) = &mut self.projections {
            if let Some(message) = projections.trouble.take() {
                let hidden = "the database is in trouble; the log says why";
                let reason = self.not_ready_reason.take();
                self.not_ready_reason = reason.map(|reason| reason.replace(&message, hidden));
                projections.trouble = Some(hidden.to_owned());
            }
            for lock in &mut projections.locks {
                lock.holder = lock.holder.take().map(without_host);
            }
        }
        self
    }
}

/// A holder by its process alone.
pub(crate) fn without_host(holder: String) -> String {
    match holder.rsplit_once(':') {
        Some((_, process)) => format!("process {process}"),
        None => "somebody".to_owned(),
    }
}

/// Whoever knows how the chains do.
pub trait Probe: Send + Sync {
    /// All chains.
    fn chains(&self) -> Vec<ChainHealth>;
}
