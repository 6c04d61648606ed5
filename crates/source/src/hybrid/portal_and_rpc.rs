//! A Portal for final history, and endpoints for everything else.
//!
//! The endpoints say what the chain is: its heads, its tail, what a Portal does not serve, and whether
//! the Portal is on it. A Portal delivers only blocks below one that the endpoints have too. An
//! endpoint shows the header of each of them, which is hashed where the chain allows it, and the logs
//! must fit its bloom. What the Portal fails to deliver, and what does not fit, comes from the endpoints.

use std::time::Duration;

use async_trait::async_trait;
use chronolith_model::{BlockMeta, BlockRange, BlockRef, Dataset, Proof};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::evm::EvmSource;
use crate::health::EndpointReport;
use crate::portal::PortalSource;
use crate::portal::check::{self, Refusal};
use crate::source::{EndpointBlock, Fetched, Heads, Identity, Plan, Source, Want};

/// How long a Portal that failed or contradicted is passed over.
const PAUSE: Duration = Duration::from_secs(300);

/// How long a Portal may bring nothing before the endpoints are used.
const PATIENCE: Duration = Duration::from_secs(20);

/// Blocks of one fetch from a Portal that the endpoints are requested once more because their bloom
/// does not clear them.
const OPEN_BLOCKS_MAX: usize = 100;

/// Reads an EVM chain from a Portal and from endpoints.
#[derive(Debug)]
pub struct JointSource {
    portal: PortalSource,
    endpoints: EvmSource,
    /// Held while it is requested, so that fetches that run together share one request.
    agreement: AsyncMutex<Option<Agreement>>,
    paused_until: Mutex<Option<Instant>>,
}

/// A block of the endpoints, and the highest one up to there that the Portal has too.
#[derive(Clone, Copy, Debug)]
struct Agreement {
    anchor: BlockRef,
    through: BlockRef,
}

impl JointSource {
    /// Over both. Nothing is requested yet.
    #[must_use]
    pub fn new(portal: PortalSource, endpoints: EvmSource) -> Self {
        Self {
            portal,
            endpoints,
            agreement: AsyncMutex::default(),
            paused_until: Mutex::default(),
        }
    }

    /// What the Portal delivers, as long as it brings anything: it may request a pause that is
    /// longer than history can wait.
    ///
    /// # Errors
    /// `Unavailable` where it brings nothing for a while.
    async fn delivered_in_time(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: BlockRef,
    ) -> Result<Option<Vec<Fetched>>> {
        let mut delivered = std::pin::pin!(self.delivered(range, want, anchor));
        let mut before = self.portal.steps();
        loop {
            if let Ok(delivered) = tokio::time::timeout(PATIENCE, &mut delivered).await {
                return delivered;
            }
            let now = self.portal.steps();
            if now == before {
                let reason = format!("nothing came for {} seconds", PATIENCE.as_secs());
                return Err(Error::unavailable(self.portal.name(), reason));
            }
            before = now;
        }
    }

    /// Blocks from the Portal; none where it must not or cannot deliver them.
    async fn delivered(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: BlockRef,
    ) -> Result<Option<Vec<Fetched>>> {
        let Some(through) = self.agreed(anchor).await? else {
            return Ok(None);
        };
        let end = range.end.min(through.number.saturating_add(1));
        if end <= range.start {
            return Ok(None);
        }
        let below = BlockRange::new(range.start, end);
        let want = unproven(want);
        let fetched = self.portal.fetch_some(below, &want, Some(through)).await?;
        Ok(Some(fetched))
    }

    /// Blocks of the Portal with what the headers of the endpoints prove of them; none where they do
    /// not fit, and the Portal is named and passed over.
    async fn proven(
        &self,
        mut fetched: Vec<Fetched>,
        want: &Want,
        anchor: BlockRef,
    ) -> Result<Option<Vec<Fetched>>> {
        let Some(first) = fetched.first() else {
            return Ok(Some(fetched));
        };
        let start = first.block.clock.number;
        let range = BlockRange::new(start, start + fetched.len() as u64);
        let headers = self.endpoints.headers(range, anchor).await?;
        let checks = self.portal.checks();
        let open = match check::check(&mut fetched, &headers, want, checks) {
            Ok(open) => open,
            Err(Refusal { block, what }) => {
                self.report_bad(self.portal.name(), block, &what);
                return Ok(None);
            }
        };
        // Blooms of busy chains clear little: then the Portal saves nothing.
        let is_enough = |one: &Fetched| one.proof.covers(want.proof);
        if open.len() > OPEN_BLOCKS_MAX || !fetched.iter().all(is_enough) {
            return Ok(None);
        }
        for number in open {
            let block = BlockRange::one(number);
            let proven = self.endpoints.fetch(block, want, Some(anchor)).await?.pop();
            let place = fetched.get_mut((number - start) as usize);
            let place = place.expect("a block that is open is one of those that were checked");
            *place = proven.expect("a fetch of one block brings it, or fails");
        }
        Ok(Some(fetched))
    }

    /// Whether the Portal may deliver this: it can, and what the headers prove of it is enough.
    fn is_for_portal(&self, want: &Want) -> bool {
        let contents = [Dataset::Logs, Dataset::TxHashes];
        contents.iter().any(|one| want.datasets.contains(*one))
            && self.portal.serves(&unproven(want))
            && check::provable(want, self.portal.checks()).covers(want.proof)
            && !self.is_paused()
    }

    /// The highest block up to the anchor that the Portal calls final and the endpoints have; none
    /// where the Portal is on another fork, which is then named and passed over.
    async fn agreed(&self, anchor: BlockRef) -> Result<Option<BlockRef>> {
        let mut agreement = self.agreement.lock().await;
        // A fetch that waited before this one may have found out that it fails.
        if self.is_paused() {
            return Ok(None);
        }
        if let Some(known) = agreement.filter(|known| known.anchor == anchor) {
            return Ok(Some(known.through));
        }
        let Some(finalized) = self.portal.heads().await?.finalized else {
            return Ok(None);
        };
        let (theirs, ours) = if finalized.number < anchor.number {
            let ours = self.at_endpoints(finalized.number, anchor).await?;
            (Some(finalized), ours)
        } else {
            let block = self.portal.clock(anchor.number).await?;
            (block.map(|block| block.block_ref()), Some(anchor))
        };
        let (Some(through), Some(ours)) = (theirs, ours) else {
            return Ok(None);
        };
        if through != ours {
            let what = "the endpoints have another block there";
            self.report_bad(self.portal.name(), through, what);
            return Ok(None);
        }
        *agreement = Some(Agreement { anchor, through });
        Ok(Some(through))
    }

    /// The block of this height on the anchor's chain, proven as far as the chain allows.
    async fn at_endpoints(&self, number: u64, anchor: BlockRef) -> Result<Option<BlockRef>> {
        let range = BlockRange::one(number);
        let fetched = self.endpoints.fetch(range, &Want::CLOCK, Some(anchor));
        let fetched = fetched.await?;
        Ok(fetched.first().map(|one| one.block.clock.block_ref()))
    }

    fn is_paused(&self) -> bool {
        let until = *self.paused_until.lock();
        until.is_some_and(|until| until > Instant::now())
    }
}

#[async_trait]
impl Source for JointSource {
    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.endpoints)
    }

    async fn identity(&self) -> Result<Identity> {
        self.endpoints.identity().await
    }

    async fn heads(&self) -> Result<Heads> {
        self.endpoints.heads().await
    }

    async fn clock(&self, number: u64) -> Result<Option<BlockMeta>> {
        self.endpoints.clock(number).await
    }

    async fn block_at_each_endpoint(&self, number: u64) -> Vec<EndpointBlock> {
        let mut blocks = self.endpoints.block_at_each_endpoint(number).await;
        blocks.extend(self.portal.block_at_each_endpoint(number).await);
        blocks
    }

    async fn syncing(&self, endpoint: &str) -> Result<bool> {
        if endpoint == self.portal.name() {
            return self.portal.syncing(endpoint).await;
        }
        self.endpoints.syncing(endpoint).await
    }

    async fn fetch_some(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        // Without an anchor the tail is requested.
        if let Some(anchor) = anchor
            && self.is_for_portal(want)
        {
            match self.delivered_in_time(range, want, anchor).await {
                Ok(Some(fetched)) => {
                    if let Some(proven) = self.proven(fetched, want, anchor).await? {
                        return Ok(proven);
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    let pause_seconds = PAUSE.as_secs();
                    tracing::warn!(%error, pause_seconds, "the portal failed: history comes from the endpoints");
                    *self.paused_until.lock() = Some(Instant::now() + PAUSE);
                }
            }
        }
        self.endpoints.fetch_some(range, want, anchor).await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.endpoints.hints()
    }

    fn report_bad(&self, endpoint: &str, block: BlockRef, what: &str) {
        if endpoint == self.portal.name() {
            *self.paused_until.lock() = Some(Instant::now() + PAUSE);
        }
        self.portal.report_bad(endpoint, block, what);
        self.endpoints.report_bad(endpoint, block, what);
    }

    fn endpoints(&self) -> Vec<EndpointReport> {
        let mut reports = self.endpoints.endpoints();
        let paused = self.is_paused();
        for mut report in self.portal.endpoints() {
            report.backing_off |= paused;
            reports.push(report);
        }
        reports
    }

    fn plan(&self, want: &Want) -> Plan {
        if self.is_for_portal(want) {
            self.portal.plan(want)
        } else {
            self.endpoints.plan(want)
        }
    }
}

/// The same without proof: what the Portal delivers is proven afterwards.
fn unproven(want: &Want) -> Want {
    Want {
        proof: Proof::CLAIMED,
        ..want.clone()
    }
}
