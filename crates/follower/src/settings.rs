//! How one chain is followed and archived: plain data, checked by those who read it from a file.

mod finality;
mod ranges;
mod stellar;

use std::time::Duration;

use chronolith_archive::{Cache, QueryLimits};
use chronolith_model::{Dataset, DatasetSet, Scope, Verification};
use chronolith_source::EndpointSettings;
use chronolith_source::evm::{Checks, RangeSettings, Strategy};
use chronolith_source::portal::PortalSettings;

pub use finality::{Finality, L1Settings};
pub use ranges::{GRID_BLOCKS, RangePlan};
pub use stellar::StellarSettings;

/// What the blocks that wait for finality may take in memory, and what is cached of an archive, unless set.
pub const TAIL_BYTES: usize = 640 << 20;
const CACHE_BYTES: u64 = 64 << 20;
/// The least that history on its way may hold in memory.
pub const HISTORY_BYTES_LEAST: u64 = 4 << 20;

/// How one chain is followed and archived.
#[derive(Clone)]
pub struct FollowSettings {
    pub chain_id: u64,
    pub name: String,
    pub endpoints: Vec<EndpointSettings>,
    /// A dataset of Portal: for all blocks, or for final history where there are endpoints too.
    pub portal: Option<PortalSettings>,
    /// WebSocket URLs that announce new heads.
    pub heads: Vec<String>,
    pub start_block: u64,
    pub mode: Mode,
    pub ranges: RangePlan,
    pub finality: Finality,
    /// L1, where finality needs its head.
    pub l1: Option<L1Settings>,
    pub datasets: DatasetSet,
    pub scope: Scope,
    /// The least that blocks must be proven to.
    pub level: Verification,
    pub checks: Checks,
    pub strategy: Strategy,
    /// How often to look for new blocks.
    pub poll: Duration,
    /// How often while the chain is far behind, where that is another time.
    pub catching_up: Option<CatchingUp>,
    pub backfill: RangeSettings,
    /// What the blocks that wait for finality may take in memory.
    pub tail_bytes: usize,
    /// What is in memory of all chains' archives.
    pub cache: Cache,
    /// What a query may cost.
    pub queries: QueryLimits,
    /// The network, where the chain is one of Stellar.
    pub stellar: Option<StellarSettings>,
}

/// How often to look for new blocks while a chain is far behind its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CatchingUp {
    pub poll: Duration,
    /// It is near with no more than these blocks to fetch, and stays near up to the larger number.
    pub near_blocks: u64,
    pub far_blocks: u64,
}

/// What following a chain is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Fetch what is missing, then follow the head.
    Auto,
    /// Follow the head. What is missing before it must have been fetched.
    Streaming,
    /// Fetch the blocks through this one, and no more.
    Backfill { end_block: u64 },
}

impl std::fmt::Debug for FollowSettings {
    /// Without the URLs, which may carry keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FollowSettings")
            .field("chain_id", &self.chain_id)
            .field("name", &self.name)
            .field("endpoints", &self.endpoints)
            .field("portal", &self.portal)
            .field("heads", &self.heads.len())
            .field("finality", &self.finality)
            .field("l1", &self.l1)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl FollowSettings {
    /// A chain over JSON-RPC endpoints from its first block on, with all logs and transaction hashes, final
    /// where the endpoints say so.
    #[must_use]
    pub fn of_endpoints(chain_id: u64, name: &str, endpoints: Vec<EndpointSettings>) -> Self {
        Self {
            chain_id,
            name: name.to_owned(),
            endpoints,
            portal: None,
            heads: Vec::new(),
            start_block: 0,
            mode: Mode::Auto,
            ranges: RangePlan::default(),
            finality: Finality::Finalized,
            l1: None,
            datasets: DatasetSet::of(&[Dataset::Headers, Dataset::Logs, Dataset::TxHashes]),
            scope: Scope::All,
            level: Verification::Claimed,
            checks: Checks::ALL,
            strategy: Strategy::Receipts,
            poll: Duration::from_secs(1),
            catching_up: None,
            backfill: RangeSettings::default(),
            tail_bytes: TAIL_BYTES,
            cache: Cache::of_bytes(CACHE_BYTES),
            queries: QueryLimits::default(),
            stellar: None,
        }
    }

    /// How often to look for new blocks while the chain is far behind.
    #[must_use]
    pub fn poll_far(&self) -> Duration {
        let catching_up = self.catching_up;
        catching_up.map_or(self.poll, |catching_up| catching_up.poll)
    }

    /// Ranges that are fetched at the same time hold together what one would.
    pub fn share_among_ranges(&mut self) {
        let share = self.backfill.hold_bytes / self.ranges.parallel.max(1) as u64;
        let share = share.max(HISTORY_BYTES_LEAST);
        self.backfill.hold_bytes = share;
        if let Some(lake) = self.stellar.as_mut().and_then(|it| it.lake.as_mut()) {
            lake.hold_bytes = share;
        }
    }
}
