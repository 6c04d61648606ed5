//! Final history: fetched many ranges at a time, archived in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chronolith_archive::{Error as ArchiveError, IngestOutcome, Provenance};
use chronolith_model::{Block, BlockRange, BlockRef, Verification};
use chronolith_source::{Fetched, Source, Want};
use tokio::task::JoinSet;

use crate::chain::Chain;
use crate::clock::now;
use crate::confirm;
use crate::ingest::{History, Trouble};

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Fetches a range and archives it, all but its last block.
///
/// A block is archived when the next one names it as its parent, even from another endpoint: one that
/// is on a stale fork may serve a block that is right in itself. The last block has no next one here;
/// the walk to the head takes it.
pub(crate) async fn run(chain: &Chain, history: &History) -> Result<(), Trouble> {
    let range = history.range;
    let name = &chain.settings.name;
    let (from, to) = (range.start, range.end - 1);
    if range.len() > chain.source.plan(&chain.want).blocks {
        tracing::info!(chain = %name, from, to, "fetching history");
    }
    let mut fetches = Fetches::new(chain, history);
    let mut held: Option<Fetched> = None;
    let mut progress = Progress::new(range);
    while let Some(fetched) = fetches.next().await {
        let mut fetched = fetched?;
        if let Some(before) = held.take() {
            check_link(chain, &before, fetched.first())?;
            fetched.insert(0, before);
        }
        held = fetched.pop();
        append_fetched(chain, fetched).await?;
        // Merging as it goes keeps the number of segments small.
        while chain.archive.maintain().await? {}
        progress.tell(name, chain.archive_next());
    }
    Ok(())
}

/// Parts of a range on their way, each in a task of its own: they are fetched, parsed and proven while
/// the ones before them are archived.
struct Fetches {
    source: Arc<dyn Source>,
    want: Want,
    anchor: BlockRef,
    /// In the order of the chain.
    under_way: VecDeque<Part>,
    /// What nobody fetches yet.
    rest: BlockRange,
}

struct Part {
    range: BlockRange,
    /// A set of one: it ends its task when it is dropped.
    task: JoinSet<chronolith_source::Result<Vec<Fetched>>>,
}

impl Fetches {
    fn new(chain: &Chain, history: &History) -> Self {
        Self {
            source: chain.source.clone(),
            want: chain.want.clone(),
            anchor: history.anchor,
            under_way: VecDeque::new(),
            rest: history.range,
        }
    }

    /// The blocks that come next; none at the end of the range.
    async fn next(&mut self) -> Option<Result<Vec<Fetched>, Trouble>> {
        self.start();
        let mut part = self.under_way.pop_front()?;
        let fetched = match part.task.join_next().await? {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(error)) => return Some(Err(error.into())),
            Err(error) => return Some(Err(Trouble::Other(error.to_string()))),
        };
        let next = part.range.start + fetched.len() as u64;
        if fetched.is_empty() {
            let what = format!("no block came for {}", part.range);
            return Some(Err(Trouble::Unsettled(what)));
        }
        if next < part.range.end && self.under_way.is_empty() {
            // To be cut anew, by what is known now.
            self.rest = BlockRange::new(next, self.rest.end);
        } else if next < part.range.end {
            let left = self.fetch(BlockRange::new(next, part.range.end));
            self.under_way.push_front(left);
        }
        self.start();
        Some(Ok(fetched))
    }

    /// Starts as many fetches as are useful at the same time.
    fn start(&mut self) {
        let plan = self.source.plan(&self.want);
        while self.under_way.len() < plan.at_once.max(1) && !self.rest.is_empty() {
            let end = self.rest.start.saturating_add(plan.blocks.max(1));
            let range = BlockRange::new(self.rest.start, end.min(self.rest.end));
            self.rest = BlockRange::new(range.end, self.rest.end);
            let part = self.fetch(range);
            self.under_way.push_back(part);
        }
    }

    fn fetch(&self, range: BlockRange) -> Part {
        let (source, want) = (self.source.clone(), self.want.clone());
        let anchor = Some(self.anchor);
        let mut task = JoinSet::new();
        task.spawn(async move { source.fetch_some(range, &want, anchor).await });
        Part { range, task }
    }
}

/// Tells now and then how far it is, for whoever waits.
struct Progress {
    range: BlockRange,
    began: Instant,
    told: Instant,
}

impl Progress {
    fn new(range: BlockRange) -> Self {
        let began = Instant::now();
        Self {
            range,
            began,
            told: began,
        }
    }

    fn tell(&mut self, chain: &str, next: u64) {
        if self.told.elapsed() < TELL_EVERY {
            return;
        }
        self.told = Instant::now();
        let done = next.saturating_sub(self.range.start);
        let rate = done as f64 / self.began.elapsed().as_secs_f64();
        let left = self.range.end.saturating_sub(next);
        let percent = done * 100 / self.range.len().max(1);
        let (rate, seconds_left) = (rate as u64, (left as f64 / rate.max(1.0)) as u64);
        tracing::info!(%chain, next, percent, blocks_per_second = rate, seconds_left, "history");
    }
}

/// Two endpoints, or one at two times, do not tell of one chain. Nothing of it was archived; whoever
/// delivered the older block is asked last from now on.
fn check_link(chain: &Chain, before: &Fetched, after: Option<&Fetched>) -> Result<(), Trouble> {
    let block = before.block.clock.block_ref();
    let named = after.map(|after| after.block.clock.parent_hash);
    if named.is_none_or(|named| named == block.hash) {
        return Ok(());
    }
    let what = "its successor names another parent";
    chain.source.blame(&before.endpoint, block, what);
    let number = block.number;
    Err(Trouble::Unsettled(format!(
        "block {number}: {what} (endpoint={})",
        before.endpoint
    )))
}

/// Archives blocks of one fetch, those of equal level together.
pub(crate) async fn append_fetched(chain: &Chain, fetched: Vec<Fetched>) -> Result<(), Trouble> {
    let mut batch: Vec<Block> = Vec::new();
    let mut of: Option<(Verification, Arc<str>)> = None;
    for one in fetched {
        let same = of
            .as_ref()
            .is_some_and(|(level, from)| *level == one.level && *from == one.endpoint);
        if let Some((level, endpoint)) = of.take().filter(|_| !same) {
            append(chain, std::mem::take(&mut batch), level, &endpoint).await?;
        }
        of = Some((one.level, one.endpoint));
        batch.push(one.block);
    }
    match of {
        Some((level, endpoint)) => append(chain, batch, level, &endpoint).await,
        None => Ok(()),
    }
}

/// Archives final blocks. One that does not stand on the archive's head means that a final block was
/// replaced, or that the endpoint is wrong: asking for the block at the head tells which.
pub(crate) async fn append(
    chain: &Chain,
    blocks: Vec<Block>,
    level: Verification,
    endpoint: &str,
) -> Result<(), Trouble> {
    let provenance = Provenance {
        level,
        source: endpoint.to_owned(),
        now: now(),
    };
    let first = blocks.first().map(|block| block.clock.block_ref());
    match chain
        .archive
        .ingest_finalized_blocks(blocks, &provenance)
        .await
    {
        Ok(IngestOutcome::Appended { head, .. }) => {
            tracing::debug!(chain = %chain.settings.name, head = head.number, "archived");
            Ok(())
        }
        Ok(IngestOutcome::AlreadyIndexed) => Ok(()),
        Ok(IngestOutcome::ContentConflict { block, .. }) => {
            let what = "the same block with other content";
            chain.source.blame(endpoint, block, what);
            Err(Trouble::Unsettled(format!(
                "block {}: {what} (endpoint={endpoint})",
                block.number
            )))
        }
        Err(error @ ArchiveError::BadParent { .. }) => {
            confirm::head(chain, endpoint).await?;
            // The head is as it was: the block that does not stand on it is the wrong one.
            if let Some(first) = first {
                chain.source.blame(endpoint, first, &error.to_string());
            }
            Err(error.into())
        }
        Err(error) => Err(error.into()),
    }
}
