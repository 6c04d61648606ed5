//! What every source can do.

use std::sync::Arc;

use async_trait::async_trait;
use chronolith_model::{
    Block, BlockClock, BlockRange, BlockRef, DatasetSet, Hash32, Scope, Verification,
};

use tokio::sync::watch;

use crate::endpoint::EndpointReport;
use crate::error::Result;
use crate::evm::Subscription;

/// Which chain a source serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Its id.
    pub chain_id: u64,
    /// Hash of its first block, where the source can tell.
    pub genesis: Option<Hash32>,
}

/// Where a source stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heads {
    /// Its newest block.
    pub head: BlockRef,
    /// The newest block it calls final.
    pub finalized: Option<BlockRef>,
    /// The newest block it calls safe.
    pub safe: Option<BlockRef>,
    /// Whether it says that it is still catching up.
    pub syncing: bool,
}

/// What is wanted of each block.
#[derive(Clone, Debug)]
pub struct Want {
    /// Which datasets.
    pub datasets: DatasetSet,
    /// Which logs.
    pub scope: Scope,
    /// The least that each block must be proven to. A source that cannot is refused.
    pub level: Verification,
}

/// A block with what is known about it.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The block.
    pub block: Block,
    /// How far it was proven.
    pub level: Verification,
    /// Which endpoint it came from.
    pub endpoint: Arc<str>,
}

/// A reader of one chain.
#[async_trait]
pub trait Source: Send + Sync + std::fmt::Debug {
    /// Which chain this is.
    async fn identity(&self) -> Result<Identity>;

    /// Where the chain stands.
    async fn heads(&self) -> Result<Heads>;

    /// The clock of a block as the chain is now; none where there is no such block yet.
    async fn clock(&self, number: u64) -> Result<Option<BlockClock>>;

    /// All blocks of a range, in order, proven as far as the chain allows and at least as far as is
    /// wanted. Neighbours link to each other. With an anchor, only from endpoints that have this very
    /// block: they are on its chain, and so is all that they say of the blocks below it.
    async fn fetch(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>>;

    /// Listens for new heads, for ever. Whoever runs the source drives it beside everything else.
    async fn listen(&self);

    /// Changes whenever there may be a new head; only a hint that it is worth looking.
    fn hints(&self) -> watch::Receiver<u64>;

    /// How the subscription to new heads is.
    fn subscription(&self) -> Subscription;

    /// Tells that a block from this endpoint did not fit what others say.
    fn blame(&self, endpoint: &str, block: BlockRef, what: &str);

    /// How each endpoint does.
    fn endpoints(&self) -> Vec<EndpointReport>;

    /// How many requests for ranges may usefully run at the same time.
    fn concurrency(&self) -> usize;

    /// How many blocks of history to ask for at once: a fetch holds all of them.
    fn range_blocks(&self, want: &Want) -> u64;
}
