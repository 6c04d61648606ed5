//! An EVM chain read from one dataset of Portal.

use std::time::Duration;

use async_trait::async_trait;
use chronolith_model::{BlockMeta, BlockRange, BlockRef, DatasetSet};
use parking_lot::Mutex;

use tokio::sync::watch;

use super::client::{Client, FINALIZED_STREAM, Failure};
use super::request::Query;
use super::walk::{Rules, Walk};
use super::wire::{Metadata, WireRef};
use crate::error::{Error, Result};
use crate::evm::Checks;
use crate::health::EndpointReport;
use crate::source::{EndpointBlock, Fetched, Heads, Identity, Plan, Source, Want};

/// The stream up to the head, of blocks that may still be replaced.
const STREAM: &str = "stream";
/// Waits for a head that a Portal does not know yet: it has just started.
const HEAD_PAUSES_MS: [u64; 4] = [100, 500, 1_000, 2_000];

/// Blocks of one fetch, and of one that wants nothing but their clocks.
const RANGE_BLOCKS: u64 = 2_000;
const CLOCK_RANGE_BLOCKS: u64 = 250_000;
/// Ranges of clocks that are fetched at the same time: one is parsed while another comes.
const CLOCK_RANGES: usize = 2;

/// A dataset of Portal and how it may be used.
#[derive(Clone)]
pub struct PortalSettings {
    /// Where the dataset is, its name included.
    pub url: String,
    /// Id of its chain. Portal does not report it, so that it is not checked here.
    pub chain_id: u64,
    /// Requests in any ten seconds to this Portal, over all its datasets; 0 for no limit.
    pub requests_per_10s: u32,
    /// Requests that may be in flight.
    pub in_flight: usize,
    /// The longest wait for the next piece of an answer. There is no limit on the whole.
    pub idle_timeout: Duration,
    /// A line longer than this is refused; a line is a block.
    pub line_bytes_max: usize,
    /// What the chain lets us prove. Only its bloom is requested and checked; what a hash or a root
    /// would follow from is not.
    pub checks: Checks,
}

impl std::fmt::Debug for PortalSettings {
    /// Without the URL, which may carry a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PortalSettings")
            .field("chain_id", &self.chain_id)
            .finish_non_exhaustive()
    }
}

impl PortalSettings {
    /// The defaults for a dataset.
    #[must_use]
    pub fn new(url: &str, chain_id: u64) -> Self {
        Self {
            url: url.to_owned(),
            chain_id,
            requests_per_10s: 20,
            in_flight: 4,
            // Portal itself waits up to 60 seconds for its workers.
            idle_timeout: Duration::from_secs(90),
            line_bytes_max: 64 << 20,
            checks: Checks::ALL,
        }
    }
}

/// Reads an EVM chain from Portal.
///
/// All that it says is its own word (`claimed`): links and blooms come from the same lines as the
/// logs, and only show that a line is whole. There is no safe block. A fetch holds as many blocks as
/// its range has, fewer where they have many logs, and no more than one line beside them.
#[derive(Debug)]
pub struct PortalSource {
    chain_id: u64,
    checks: Checks,
    in_flight: usize,
    client: Client,
    /// Never changes.
    hints: watch::Sender<u64>,
    /// The last block whose presence was checked.
    anchor: Mutex<Option<BlockRef>>,
}

impl PortalSource {
    /// Over this dataset. Nothing is requested yet.
    ///
    /// # Errors
    /// `Invalid` where the address is not an HTTP URL.
    pub fn new(settings: PortalSettings) -> Result<Self> {
        Ok(Self {
            chain_id: settings.chain_id,
            checks: settings.checks,
            in_flight: settings.in_flight.max(1),
            client: Client::new(&settings)?,
            hints: watch::Sender::new(0),
            anchor: Mutex::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.client.name
    }

    /// What the chain lets us prove.
    pub(crate) fn checks(&self) -> Checks {
        self.checks
    }

    /// How much it has brought so far: it changes with every answer and every block.
    pub(crate) fn steps(&self) -> u64 {
        self.client.steps()
    }

    /// Whether it can deliver this, as far as it must be proven.
    pub(crate) fn serves(&self, want: &Want) -> bool {
        Query::new(want, self.checks).is_ok()
    }

    /// A head, once Portal knows it.
    async fn head(&self, path: &str) -> Result<BlockRef> {
        let mut pauses = HEAD_PAUSES_MS.into_iter();
        loop {
            let head: Option<WireRef> = self.client.get(path).await?;
            match (head, pauses.next()) {
                (Some(head), _) => return Ok(head.into()),
                (None, Some(pause_ms)) => {
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                }
                (None, None) => {
                    let reason = format!("/{path} is not known yet");
                    let error = self.client.health.unavailable(reason);
                    self.client.note(&error);
                    return Err(error);
                }
            }
        }
    }

    /// The highest finalized block that Portal ever named, requested where it never did.
    async fn known_finalized(&self) -> Result<Option<BlockRef>> {
        if let Some(known) = self.client.finalized(None) {
            return Ok(Some(known));
        }
        let head: Option<WireRef> = self.client.get("finalized-head").await?;
        Ok(self.client.finalized(head.map(BlockRef::from)))
    }

    /// Continues until the range is complete, or more of it than is worth holding.
    async fn complete(&self, walk: &mut Walk<'_>, query: &Query) -> Result<()> {
        let mut tries = 0;
        while !walk.rest().is_empty() && !walk.is_full() {
            let rest = walk.rest();
            let finalized = self.client.finalized(None).map(|block| block.number);
            let (path, parent) = if finalized.is_some_and(|number| rest.end - 1 <= number) {
                (FINALIZED_STREAM, None)
            } else {
                (STREAM, walk.parent())
            };
            walk.begin();
            let body = query.body(rest, parent);
            let take = |line: &[u8]| {
                walk.take(line)?;
                if walk.is_full() {
                    Err(Failure::Enough)
                } else {
                    Ok(())
                }
            };
            let ended = self.client.stream(path, body, rest.start, take).await;
            let failure = match ended {
                Ok(()) if walk.moved() => None,
                Ok(()) => Some(self.client.again_later("an answer without a block")),
                // What came before it broke is as good as ever.
                Err(Failure::Again(error)) if walk.moved() => {
                    self.client.note(&error);
                    None
                }
                Err(failure) => Some(failure),
            };
            match failure {
                None => tries = 0,
                Some(failure) => self.client.again(&mut tries, failure).await?,
            }
        }
        Ok(())
    }

    /// Whether this block is there; checked once for each.
    async fn has_anchor(&self, anchor: BlockRef) -> Result<()> {
        let known = || self.anchor.lock();
        if *known() == Some(anchor) {
            return Ok(());
        }
        let there = self.clock(anchor.number).await?;
        if there.map(|meta| meta.block_ref()) != Some(anchor) {
            let reason = format!("it has another block {} by now", anchor.number);
            return Err(self.client.health.unavailable(reason));
        }
        *known() = Some(anchor);
        Ok(())
    }

    async fn fetch_as(
        &self,
        range: BlockRange,
        want: &Want,
        query: &Query,
    ) -> Result<Vec<Fetched>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        self.known_finalized().await?;
        let rules = Rules {
            want,
            level: query.level,
            oddity: self.checks.oddity,
            endpoint: self.client.name.clone(),
        };
        let mut walk = Walk::new(range, rules);
        self.complete(&mut walk, query).await?;
        Ok(walk.finish())
    }
}

#[async_trait]
impl Source for PortalSource {
    async fn identity(&self) -> Result<Identity> {
        let metadata: Metadata = self.client.get("metadata").await?;
        let genesis = match metadata.start_block {
            0 => self.clock(0).await?.map(|block| block.hash),
            // The dataset begins later: its first block is not the chain's.
            _ => None,
        };
        Ok(Identity {
            chain_id: self.chain_id,
            genesis,
        })
    }

    async fn first_block(&self) -> Result<Option<u64>> {
        let metadata: Metadata = self.client.get("metadata").await?;
        Ok(Some(metadata.start_block))
    }

    async fn heads(&self) -> Result<Heads> {
        let head = self.head("head").await?;
        let finalized = match self.client.finalized(None) {
            None => self.head("finalized-head").await?,
            // What is known stays true while one of the machines knows nothing.
            Some(known) => {
                let head: Option<WireRef> = self.client.get("finalized-head").await?;
                head.map_or(known, BlockRef::from)
            }
        };
        let finalized = self.client.finalized(Some(finalized));
        // A head below what is final comes from a machine that is behind.
        let newest = finalized.filter(|block| block.number > head.number);
        Ok(Heads {
            head: newest.unwrap_or(head),
            finalized,
            safe: None,
        })
    }

    async fn clock(&self, number: u64) -> Result<Option<BlockMeta>> {
        let range = BlockRange::one(number);
        match self
            .fetch_as(range, &Want::CLOCK, &Query::blocks_only())
            .await
        {
            Ok(fetched) => Ok(fetched.first().map(|one| one.block.clock)),
            Err(Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn block_at_each_endpoint(&self, number: u64) -> Vec<EndpointBlock> {
        self.client.health.block_at(self.clock(number).await)
    }

    async fn fetch_some(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        if let Some(anchor) = anchor {
            self.has_anchor(anchor).await?;
        }
        let query = Query::new(want, self.checks)?;
        self.fetch_as(range, want, &query).await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }

    fn report_bad(&self, endpoint: &str, block: BlockRef, what: &str) {
        if endpoint == &*self.client.name {
            let what = format!("block {}: {what}", block.number);
            self.client.health.report_bad(&what);
        }
    }

    fn endpoints(&self) -> Vec<EndpointReport> {
        vec![self.client.report()]
    }

    /// Requests are few and may be long, but a fetch holds all its blocks.
    fn plan(&self, want: &Want) -> Plan {
        let (blocks, at_once) = if want.datasets == DatasetSet::CLOCK {
            (CLOCK_RANGE_BLOCKS, CLOCK_RANGES.min(self.in_flight))
        } else {
            (RANGE_BLOCKS, self.in_flight)
        };
        Plan { blocks, at_once }
    }
}
