//! A Stellar network in a data lake.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use chronolith_model::{Block, BlockMeta, BlockRange, BlockRef, Hash32};
use chronolith_stellar::Network;
use futures::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::keys::{Batch, FIRST_LEDGER, Layout};
use super::open::Opened;
use super::reader::{Reader, Unopened};
use crate::error::{Error, Result};
use crate::health::EndpointReport;
use crate::source::{EndpointBlock, Fetched, Heads, Identity, Plan, Source, Want};

/// Objects of one fetch that are on their way together: one comes while another is proven.
const AHEAD: usize = 2;
const LEDGERS_MAX: u64 = 256;

#[derive(Clone)]
pub enum LakePlace {
    /// A directory of this machine.
    Directory(PathBuf),
    /// A web server: `http` or `https`.
    Http(String),
    /// A bucket and a prefix, such as `s3://bucket/prefix`, with options of `object_store`.
    S3 {
        url: String,
        options: Vec<(String, String)>,
    },
}

impl std::fmt::Debug for LakePlace {
    /// Without the URL, which may carry a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Directory(_) => "Directory",
            Self::Http(_) => "Http",
            Self::S3 { .. } => "S3",
        })
    }
}

/// A lake and how it may be used.
#[derive(Clone, Debug)]
pub struct LakeSettings {
    pub place: LakePlace,
    /// How it is laid out, where it does not say itself.
    pub layout: Option<Layout>,
    /// The network it must be of.
    pub network: Network,
    /// A ledger that is in it: where its objects cannot be listed, the newest is searched for from there.
    pub first_ledger: u32,
    /// Fetches that may run at the same time.
    pub at_once: usize,
    /// Bytes of ledgers that may be on their way together, about.
    pub hold_bytes: u64,
}

/// Reads a Stellar network from its data lake. Every ledger is proven by itself: header, transaction set,
/// result set, which envelope has which result, and the events of contract calls. What else a transaction
/// caused (ledger changes, events of classic operations and fees) is in no hash of the chain: that is the
/// lake's word, under the checksum that objects carry.
#[derive(Debug)]
pub struct LakeSource {
    objects: Reader,
    at_once: usize,
    hold_bytes: u64,
    /// Never changes.
    hints: watch::Sender<u64>,
    /// A block whose chain the lake is known to be on.
    anchor: Mutex<Option<BlockRef>>,
}

impl LakeSource {
    /// Opens a lake: its manifest is read, and must fit what is set.
    ///
    /// # Errors
    /// `Invalid` where it does not or is another network's, `Unavailable` where it cannot be reached.
    pub async fn open(settings: LakeSettings) -> Result<Self> {
        Ok(Self {
            at_once: settings.at_once.max(1),
            hold_bytes: settings.hold_bytes,
            hints: watch::Sender::new(0),
            anchor: Mutex::default(),
            objects: Reader::open(settings).await?,
        })
    }

    /// How it is laid out.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.objects.layout
    }

    /// The newest ledger of the lake.
    pub(crate) async fn head(&self) -> Result<BlockRef> {
        self.objects.head().await
    }

    /// Whether the lake is on the chain of a block, as far as it reaches.
    async fn has_anchor(&self, anchor: BlockRef) -> Result<()> {
        if *self.anchor.lock() == Some(anchor) {
            return Ok(());
        }
        let there = self.clock(anchor.number).await?;
        if there.is_some_and(|meta| meta.hash != anchor.hash) {
            let what = format!("it has another ledger {}", anchor.number);
            return Err(self.objects.health.unavailable(what));
        }
        *self.anchor.lock() = Some(anchor);
        Ok(())
    }

    /// The ledgers of a range that come first: of as many objects as are worth holding.
    async fn some(&self, range: BlockRange) -> Result<Vec<Fetched>> {
        let Some((first, last)) = ledgers_of(range) else {
            return Err(self.objects.health.missing(range.start));
        };
        let batches = std::iter::successors(Some(self.objects.layout.batch_of(first)), |before| {
            let next = self.objects.layout.next(*before)?;
            (next.start <= last).then_some(next)
        });
        let ahead = stream::iter(batches).map(|batch| async move {
            let opened = self.objects.opened(batch).await;
            (batch, opened)
        });
        let mut ahead = std::pin::pin!(ahead.buffered(AHEAD));
        let mut fetched: Vec<Fetched> = Vec::new();
        let room = (self.hold_bytes / 2 / self.at_once as u64).max(1);
        let mut held = 0;
        while let Some((batch, opened)) = ahead.next().await {
            let opened = match opened {
                Ok(opened) => opened,
                // What came before it is as good as ever.
                Err(_) if !fetched.is_empty() => break,
                Err(Unopened::Absent) => return Err(self.objects.absent(batch, range.start).await),
                Err(Unopened::Failed(error)) => return Err(error),
            };
            self.take(&mut fetched, batch, &opened, range)?;
            held += opened.bytes;
            if held >= room {
                break;
            }
        }
        Ok(fetched)
    }

    /// Takes the ledgers of an object that are in a range.
    fn take(
        &self,
        fetched: &mut Vec<Fetched>,
        batch: Batch,
        opened: &Opened,
        range: BlockRange,
    ) -> Result<()> {
        let is_wanted = |block: &&Block| range.contains(block.clock.number);
        for block in opened.blocks.iter().filter(is_wanted) {
            let before = fetched.last().map(|one: &Fetched| one.block.clock.hash);
            if before.is_some_and(|before| before != block.clock.parent_hash) {
                self.objects.forget(block.clock.number);
                let key = self.objects.key(batch);
                let what = format!("object {key}: it does not name the ledger before it");
                return Err(self.objects.health.inconsistent(block.clock.number, what));
            }
            fetched.push(Fetched {
                block: block.clone(),
                proof: opened.proof,
                endpoint: self.objects.health.name.clone(),
            });
        }
        Ok(())
    }

    /// The hash of ledger 1, where ledger 2 is there to name it.
    async fn genesis(&self) -> Result<Option<Hash32>> {
        match self.objects.opened_of(FIRST_LEDGER).await {
            Ok(opened) => {
                let first = opened.blocks.first();
                Ok(first.map(|block| block.clock.parent_hash))
            }
            // A damaged object is reported when it is needed.
            Err(Unopened::Absent | Unopened::Failed(Error::Inconsistent { .. })) => Ok(None),
            Err(Unopened::Failed(error)) => Err(error),
        }
    }
}

/// The ledgers of a range, the last included; none where it has none.
fn ledgers_of(range: BlockRange) -> Option<(u32, u32)> {
    let first = u32::try_from(range.start).ok()?;
    let last = range.end.checked_sub(1)?.min(u64::from(u32::MAX)) as u32;
    (first >= FIRST_LEDGER && first <= last).then_some((first, last))
}

#[async_trait]
impl Source for LakeSource {
    async fn identity(&self) -> Result<Identity> {
        Ok(Identity {
            chain_id: self.objects.network.chain_id(),
            genesis: self.genesis().await?,
        })
    }

    /// A ledger is final when it has closed.
    async fn heads(&self) -> Result<Heads> {
        self.head().await.map(Heads::all_final)
    }

    fn note_archived(&self, number: u64) {
        self.objects.archived.store(number, Ordering::Relaxed);
    }

    async fn clock(&self, number: u64) -> Result<Option<BlockMeta>> {
        let Some((ledger, _)) = ledgers_of(BlockRange::one(number)) else {
            return Ok(None);
        };
        match self.objects.opened_of(ledger).await {
            Ok(opened) => {
                let mut metas = opened.blocks.iter().map(|block| block.clock);
                Ok(metas.find(|meta| meta.number == number))
            }
            Err(Unopened::Absent) => Ok(None),
            Err(Unopened::Failed(error)) => Err(error),
        }
    }

    async fn block_at_each_endpoint(&self, number: u64) -> Vec<EndpointBlock> {
        self.objects.health.block_at(self.clock(number).await)
    }

    async fn fetch_some(
        &self,
        range: BlockRange,
        _want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(anchor) = anchor {
            self.has_anchor(anchor).await?;
        }
        self.some(range).await
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }

    fn report_bad(&self, endpoint: &str, block: BlockRef, what: &str) {
        if endpoint != &*self.objects.health.name {
            return;
        }
        self.objects.forget(block.number);
        let ledger = u32::try_from(block.number).unwrap_or(u32::MAX);
        let key = self.objects.key(self.objects.layout.batch_of(ledger));
        let what = format!("object {key}: ledger {ledger}: {what}");
        self.objects.health.report_bad(&what);
    }

    fn endpoints(&self) -> Vec<EndpointReport> {
        let health = &self.objects.health;
        vec![health.report(health.has_failed_last())]
    }

    /// As many ledgers as may be held, of whole objects.
    fn plan(&self, _want: &Want) -> Plan {
        let batch = u64::from(self.objects.layout.ledgers_per_batch());
        let ledger_bytes = self.objects.ledger_bytes();
        let held = (self.hold_bytes / 2 / ledger_bytes).max(1);
        let at_once = (held / batch).clamp(1, self.at_once as u64);
        let each = (held / at_once).min(LEDGERS_MAX.max(batch));
        Plan {
            blocks: (each / batch).max(1) * batch,
            at_once: at_once as usize,
        }
    }
}
