//! Final history: fetched many ranges at a time, archived in order.

use std::time::{Duration, Instant};

use chronolith_archive::{Error as ArchiveError, IngestOutcome, Provenance};
use chronolith_model::{Block, BlockRange, Verification};
use chronolith_source::Fetched;
use futures::stream::{self, StreamExt};

use crate::chain::Chain;
use crate::clock::now;
use crate::ingest::{History, Trouble};

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Fetches a range and archives it, all but its last block.
///
/// A block is archived when the next one names it as its parent, even from another endpoint: one that
/// is on a stale fork may serve a block that is right in itself. The last block has no next one here;
/// the walk to the head takes it.
pub(crate) async fn run(chain: &Chain, history: &History) -> Result<(), Trouble> {
    let (range, anchor) = (history.range, Some(history.anchor));
    let name = &chain.settings.name;
    let (from, to) = (range.start, range.end - 1);
    let step = chain.source.range_blocks(&chain.want).max(1);
    if range.len() > step {
        tracing::info!(chain = %name, from, to, "fetching history");
    }
    let starts = (range.start..range.end).step_by(step as usize);
    let parts = starts.map(|start| BlockRange::new(start, (start + step).min(range.end)));
    let fetches = stream::iter(parts)
        .map(|part| chain.source.fetch(part, &chain.want, anchor))
        .buffered(chain.source.concurrency().max(1));
    let mut fetches = std::pin::pin!(fetches);
    let mut held: Option<Fetched> = None;
    let mut progress = Progress::new(range);
    while let Some(fetched) = fetches.next().await {
        let mut fetched = fetched?;
        chain.meters.backfill_range.record(fetched.len() as f64);
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
    let mut of: Option<(Verification, std::sync::Arc<str>)> = None;
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
        Ok(IngestOutcome::Appended { head, blocks }) => {
            chain.meters.verified(level).increment(blocks);
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
            confirm_head(chain).await?;
            // The head is as it was: the block that does not stand on it is the wrong one.
            if let Some(first) = first {
                chain.source.blame(endpoint, first, &error.to_string());
            }
            Err(error.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Asks for the block at the archive's head. If it is another one by now, offering it halts the
/// archive, durably and with both blocks named.
pub(crate) async fn confirm_head(chain: &Chain) -> Result<(), Trouble> {
    let Some(head) = chain.archive.health().head else {
        return Ok(());
    };
    let at_head = chain
        .source
        .fetch(BlockRange::one(head.number), &chain.want, None)
        .await?;
    for one in at_head {
        if one.block.clock.hash != head.hash {
            let provenance = Provenance {
                level: one.level,
                source: one.endpoint.to_string(),
                now: now(),
            };
            chain
                .archive
                .ingest_finalized_block(one.block, &provenance)
                .await?;
        }
    }
    Ok(())
}
