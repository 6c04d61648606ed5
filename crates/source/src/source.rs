//! What every source can do.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chronolith_model::{Block, BlockMeta, BlockRange, BlockRef, DatasetSet, Hash32, Proof, Scope};

use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::health::EndpointReport;

/// How often a fetch starts again because the chain changed meanwhile.
const RESTARTS_MAX: u32 = 5;

/// Which chain a source serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    pub chain_id: u64,
    /// Hash of its first block, where the source knows it.
    pub genesis: Option<Hash32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heads {
    pub head: BlockRef,
    /// The newest block it calls final.
    pub finalized: Option<BlockRef>,
    /// The newest block it calls safe.
    pub safe: Option<BlockRef>,
}

impl Heads {
    /// Of a chain whose blocks are final when they are there.
    pub(crate) fn all_final(head: BlockRef) -> Self {
        Self {
            head,
            finalized: Some(head),
            safe: Some(head),
        }
    }
}

/// What is wanted of each block.
#[derive(Clone, Debug)]
pub struct Want {
    pub datasets: DatasetSet,
    pub scope: Scope,
    /// The least that must be proven of each block. A source that cannot is refused.
    pub proof: Proof,
}

impl Want {
    /// Only which blocks there are, and no proof of them.
    pub(crate) const CLOCK: Self = Self {
        datasets: DatasetSet::CLOCK,
        scope: Scope::All,
        proof: Proof::CLAIMED,
    };
}

/// A block with what is known about it.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub block: Block,
    /// How far it was proven.
    pub proof: Proof,
    /// Which endpoint it came from.
    pub endpoint: Arc<str>,
}

/// The block of one endpoint at a height.
#[derive(Clone, Debug)]
pub struct EndpointBlock {
    pub endpoint: Arc<str>,
    /// The block that it has at the requested height.
    pub block: BlockRef,
}

/// A verification rule that is not applied any more, because a block failed it on every endpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DroppedRule {
    /// Its name, as in the metric.
    pub rule: &'static str,
    /// The block that failed it.
    pub block: u64,
    pub what: String,
}

/// The state of a push channel that announces new heads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subscription {
    /// The source has none, or none is configured.
    Off,
    /// It is connecting, and has not been connected for this long.
    Connecting(Duration),
    Connected,
}

/// A reader of one chain. A source made of others names one of them as [`Source::inner`]: the methods with a
/// body leave to that one what they do not override, so that none is forgotten.
#[async_trait]
pub trait Source: Send + Sync + std::fmt::Debug {
    /// The source that answers for this one, where it is made of others.
    fn inner(&self) -> Option<&dyn Source> {
        None
    }

    async fn identity(&self) -> Result<Identity>;

    /// The first block that it has, where that may be another one than the chain's first.
    async fn first_block(&self) -> Result<Option<u64>> {
        match self.inner() {
            Some(inner) => inner.first_block().await,
            None => Ok(None),
        }
    }

    /// Sets the chain's first block: an endpoint with another one is passed over. Called at most once,
    /// before [`Source::identity`].
    fn expect_genesis(&self, genesis: Hash32) {
        if let Some(inner) = self.inner() {
            inner.expect_genesis(genesis);
        }
    }

    async fn heads(&self) -> Result<Heads>;

    /// The clock of a block as the chain is now; none where there is no such block yet.
    async fn clock(&self, number: u64) -> Result<Option<BlockMeta>>;

    /// The block that each endpoint has at a height, the preferred first, those that are passed over for
    /// now included. An endpoint that does not answer or has no such block is left out.
    async fn block_at_each_endpoint(&self, number: u64) -> Vec<EndpointBlock>;

    /// The block that healthy endpoints, and those named here, have at a height, in a short time. One
    /// that is down, slow or behind is left out. Empty where there is no second endpoint.
    async fn block_at_healthy_endpoints(
        &self,
        number: u64,
        also: &[Arc<str>],
    ) -> Vec<EndpointBlock> {
        match self.inner() {
            Some(inner) => inner.block_at_healthy_endpoints(number, also).await,
            None => Vec::new(),
        }
    }

    /// Whether an endpoint reports that it is syncing: its head is not the chain's. False where it does not
    /// report that.
    async fn syncing(&self, endpoint: &str) -> Result<bool> {
        match self.inner() {
            Some(inner) => inner.syncing(endpoint).await,
            None => Ok(false),
        }
    }

    /// The code of a contract at the head, for chains whose contracts have addresses of 20 bytes; empty for
    /// an account without code, none where the source cannot read code.
    async fn code(&self, address: [u8; 20]) -> Result<Option<Vec<u8>>> {
        match self.inner() {
            Some(inner) => inner.code(address).await,
            None => Ok(None),
        }
    }

    /// The first blocks of a range, in order: at least one, and as many as come at once. Proven as
    /// far as the chain allows and at least as far as is wanted; neighbours link to each other. With
    /// an anchor, only from endpoints that have this very block: they are on its chain, and so is all
    /// that they say of the blocks below it.
    async fn fetch_some(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>>;

    /// All blocks of a range, as [`Source::fetch_some`] has them.
    async fn fetch(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        let mut fetched: Vec<Fetched> = Vec::new();
        let mut restarts = 0;
        while (fetched.len() as u64) < range.len() {
            let rest = BlockRange::new(range.start + fetched.len() as u64, range.end);
            let more = self.fetch_some(rest, want, anchor).await?;
            let from = more.first().map(|one| one.endpoint.clone());
            let unavailable =
                |reason| Error::unavailable(from.as_deref().unwrap_or_default(), reason);
            if more.is_empty() {
                return Err(unavailable("no block came"));
            }
            if joins(&fetched, &more) {
                fetched.extend(more);
                continue;
            }
            // The chain changed between two parts: what came before is stale.
            fetched.clear();
            restarts += 1;
            if restarts > RESTARTS_MAX {
                return Err(unavailable("two parts of a range do not join"));
            }
        }
        Ok(fetched)
    }

    /// Listens for new heads and never returns. The caller drives it beside everything else.
    async fn listen(&self) {
        match self.inner() {
            Some(inner) => inner.listen().await,
            None => std::future::pending().await,
        }
    }

    /// Changes whenever there may be a new head; only a hint that it is worth looking.
    fn hints(&self) -> watch::Receiver<u64>;

    /// The state of the subscription to new heads.
    fn subscription(&self) -> Subscription {
        self.inner()
            .map_or(Subscription::Off, |inner| inner.subscription())
    }

    /// Whether the head is old because the source itself is still catching up with the chain.
    fn is_catching_up(&self) -> bool {
        self.inner().is_some_and(|inner| inner.is_catching_up())
    }

    /// Announces which block the caller needs next: a source that reads in order starts there.
    fn note_next(&self, number: u64) {
        if let Some(inner) = self.inner() {
            inner.note_next(number);
        }
    }

    /// Announces which block is archived: the head of an endpoint that is below it does not count while
    /// another endpoint has a higher one.
    fn note_archived(&self, number: u64) {
        if let Some(inner) = self.inner() {
            inner.note_archived(number);
        }
    }

    /// Reports that a block from this endpoint contradicts other endpoints.
    fn report_bad(&self, endpoint: &str, block: BlockRef, what: &str);

    fn endpoints(&self) -> Vec<EndpointReport>;

    /// Rules of verification that were dropped since the start: blocks that fail them are proven less.
    fn dropped_rules(&self) -> Vec<DroppedRule> {
        self.inner()
            .map_or_else(Vec::new, |inner| inner.dropped_rules())
    }

    /// How to request history now; it changes with what is learned.
    fn plan(&self, want: &Want) -> Plan;

    /// The same for blocks from this one on, for sources that have some of them elsewhere.
    fn plan_at(&self, _start: u64, want: &Want) -> Plan {
        self.plan(want)
    }
}

/// How to request history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Blocks of one fetch: they are held in memory together.
    pub blocks: u64,
    /// How many such fetches may usefully run at the same time.
    pub at_once: usize,
}

impl Plan {
    /// Block by block.
    pub const ONE: Self = Self {
        blocks: 1,
        at_once: 1,
    };
}

fn joins(before: &[Fetched], after: &[Fetched]) -> bool {
    let (Some(last), Some(first)) = (before.last(), after.first()) else {
        return true;
    };
    first.block.clock.parent_hash == last.block.clock.hash
}
