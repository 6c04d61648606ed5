//! A lake for history, and a core for what closes now.
//!
//! The lake has everything up to a while ago, many ledgers at a time; core has what follows, one by one. A
//! ledger comes from the lake as long as the lake has it. Core is started when a ledger is requested that
//! the lake does not have, from that very ledger on, so that there is no gap; and the first ledger of core must name the
//! last of the lake.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use chronolith_model::{BlockMeta, BlockRange, BlockRef};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::health::EndpointReport;
use crate::source::{EndpointBlock, Fetched, Heads, Identity, Plan, Source, Want};
use crate::stellar::{CoreSource, LakeSource};

/// How often the lake is looked at while core continues.
const LAKE_EVERY: Duration = Duration::from_secs(10);

/// Reads a Stellar network from its lake, and from a core where the lake ends.
#[derive(Debug)]
pub struct LakeAndCore {
    lake: LakeSource,
    core: CoreSource,
    /// The newest ledger of the lake, when it was last looked at.
    lake_head: Mutex<Option<BlockRef>>,
    looked: Mutex<Option<Instant>>,
    /// The ledger that the caller needs next; 0 where it did not announce one.
    next: AtomicU64,
    /// Whether core has not reported yet what follows the lake.
    core_is_late: AtomicBool,
}

impl LakeAndCore {
    /// Over both. Nothing is requested yet.
    #[must_use]
    pub fn new(lake: LakeSource, core: CoreSource) -> Self {
        Self {
            lake,
            core,
            lake_head: Mutex::default(),
            looked: Mutex::default(),
            next: AtomicU64::new(0),
            core_is_late: AtomicBool::new(false),
        }
    }

    /// The lake, to look at it alone.
    #[must_use]
    pub fn lake(&self) -> &LakeSource {
        &self.lake
    }

    async fn look_at_lake(&self) -> Result<BlockRef> {
        *self.looked.lock() = Some(Instant::now());
        let head = self.lake.head().await?;
        *self.lake_head.lock() = Some(head);
        Ok(head)
    }

    /// The newest ledger of the lake, which is requested seldom while core continues: a lake that answers
    /// slowly would delay what closes now.
    async fn lake_head(&self, next: u64) -> Result<BlockRef> {
        let core_goes_on = !self.core_is_late.load(Ordering::Relaxed);
        let looked = *self.looked.lock();
        let is_fresh = looked.is_some_and(|looked| looked.elapsed() < LAKE_EVERY);
        let known = self.lake_head.lock().filter(|head| next > head.number);
        match known.filter(|_| core_goes_on && is_fresh) {
            Some(head) => Ok(head),
            None => self.look_at_lake().await,
        }
    }

    /// Whether a ledger comes after everything that the lake is known to have.
    fn is_after_lake(&self, number: u64) -> bool {
        let head = *self.lake_head.lock();
        head.is_some_and(|head| number > head.number)
    }

    /// The newest ledger of the lake and of core.
    async fn newest(&self, next: u64) -> Result<BlockRef> {
        let lake = self.lake_head(next).await;
        self.core_is_late.store(true, Ordering::Relaxed);
        match lake {
            Ok(head) if next <= head.number => return Ok(head),
            // Core is needed for what is wanted, whatever becomes of the lake.
            Err(error) if !self.is_after_lake(next) => return Err(error),
            _ => {}
        }
        let newest = self.core.follow(next).await;
        let late = !matches!(newest, Ok(Some(_)));
        self.core_is_late.store(late, Ordering::Relaxed);
        match (newest, *self.lake_head.lock()) {
            (Ok(Some(head)), Some(lake)) if head.number < lake.number => Ok(lake),
            (Ok(Some(head)), _) => Ok(head),
            // Until core has caught up, the head is where the lake ends.
            (Ok(None), Some(lake)) => Ok(lake),
            (Ok(None), None) => lake,
            (Err(error), _) => Err(error),
        }
    }

    /// The first ledger after the lake must name its last.
    fn check_seam(&self, fetched: &[Fetched]) -> Result<()> {
        let (Some(first), Some(last)) = (fetched.first(), *self.lake_head.lock()) else {
            return Ok(());
        };
        let block = first.block.clock;
        if block.number != last.number + 1 || block.parent_hash == last.hash {
            return Ok(());
        }
        let what = format!("it does not name ledger {} of the lake", last.number);
        Err(Error::inconsistent(&first.endpoint, block.number, what))
    }
}

#[async_trait]
impl Source for LakeAndCore {
    fn inner(&self) -> Option<&dyn Source> {
        Some(&self.lake)
    }

    async fn identity(&self) -> Result<Identity> {
        self.lake.identity().await
    }

    async fn heads(&self) -> Result<Heads> {
        let next = self.next.load(Ordering::Relaxed);
        self.newest(next).await.map(Heads::all_final)
    }

    async fn clock(&self, number: u64) -> Result<Option<BlockMeta>> {
        match self.core.clock(number).await? {
            Some(meta) => Ok(Some(meta)),
            None => self.lake.clock(number).await,
        }
    }

    async fn block_at_each_endpoint(&self, number: u64) -> Vec<EndpointBlock> {
        let mut blocks = self.lake.block_at_each_endpoint(number).await;
        blocks.extend(self.core.block_at_each_endpoint(number).await);
        blocks
    }

    async fn fetch_some(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        if self.lake_head.lock().is_none() {
            self.look_at_lake().await?;
        }
        let next = self.next.load(Ordering::Relaxed);
        if self.is_after_lake(range.start) && range.start < next {
            // Core has passed it, and would have to start again if the lake did not have it by now.
            // A lake that fails has noted why.
            let _looked = self.look_at_lake().await;
        }
        if self.is_after_lake(range.start) {
            let fetched = self.core.fetch_some(range, want, anchor).await?;
            self.check_seam(&fetched)?;
            return Ok(fetched);
        }
        let head = *self.lake_head.lock();
        let end = head.map_or(range.end, |head| head.number + 1);
        let of_lake = BlockRange::new(range.start, range.end.min(end));
        self.lake.fetch_some(of_lake, want, anchor).await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.core.hints()
    }

    fn is_catching_up(&self) -> bool {
        self.core_is_late.load(Ordering::Relaxed) || self.core.is_catching_up()
    }

    fn note_next(&self, number: u64) {
        self.next.store(number, Ordering::Relaxed);
        self.core.note_next(number);
    }

    fn report_bad(&self, endpoint: &str, block: BlockRef, what: &str) {
        self.lake.report_bad(endpoint, block, what);
        self.core.report_bad(endpoint, block, what);
    }

    fn endpoints(&self) -> Vec<EndpointReport> {
        let mut reports = self.lake.endpoints();
        reports.extend(self.core.endpoints());
        reports
    }

    fn plan(&self, want: &Want) -> Plan {
        self.plan_at(self.next.load(Ordering::Relaxed), want)
    }

    /// Core hands ledgers on in order, so that two fetches from it would pass each other: as long as
    /// the end of the lake is not known there is one.
    fn plan_at(&self, start: u64, want: &Want) -> Plan {
        match *self.lake_head.lock() {
            Some(lake) if start > lake.number => self.core.plan(want),
            Some(_) => self.lake.plan(want),
            None => Plan {
                at_once: 1,
                ..self.lake.plan(want)
            },
        }
    }
}
