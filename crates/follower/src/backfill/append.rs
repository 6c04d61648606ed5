//! Final history: fetched many ranges at a time, archived in order.

use std::sync::Arc;
use std::time::Duration;

use chronolith_archive::{Error as ArchiveError, IngestOutcome, Provenance};
use chronolith_finality::TailBlock;
use chronolith_model::{Block, BlockRange, Payload};
use chronolith_source::{Fetched, Source};
use tokio::time::Instant;

use crate::backfill::prefetch::Fetches;
use crate::chain::Chain;
use crate::clock::now;
use crate::dispute;
use crate::error::FollowError;
use crate::ingest::History;
use crate::progress::Progress;

/// Blocks and logs that are archived together, about those of one segment where there is room for them,
/// and how long they may take to come: what waits is fetched again after a crash.
const GATHER_WEIGHT: u64 = 57_344;
const GATHER_WEIGHT_LEAST: u64 = 4_096;
/// About what each takes while it waits.
const WEIGHT_BYTES: u64 = 1_024;
const GATHER_AT_MOST: Duration = Duration::from_millis(500);

/// Fetches a range and archives it, all but its last block.
///
/// A block is archived when the next one names it as its parent, even from another endpoint: one that
/// is on a stale fork may serve a block that is right in itself. The last block has no next one here;
/// the walk to the head takes it.
pub async fn run(chain: &Chain, history: &History) -> Result<(), FollowError> {
    let range = history.range;
    let name = &chain.settings.name;
    let (from, to) = (range.start, range.end - 1);
    if range.len() > chain.source.plan_at(range.start, &chain.want).blocks {
        tracing::info!(event = "history_fetch_started", chain = %name, from, to, "fetching history");
    }
    let mut fetches = Fetches::new(&chain.source, &chain.want, range, Some(history.anchor));
    let mut held: Option<Fetched> = None;
    let mut due: Vec<Fetched> = Vec::new();
    let mut progress = Progress::in_log("history", name);
    loop {
        // The next blocks come while these are archived.
        let (archived, gathered) =
            tokio::join!(archive(chain, due), gather(chain, &mut fetches, &mut held));
        archived?;
        let (blocks, end) = gathered;
        due = blocks;
        if let Some(end) = end {
            // A failure does not affect the blocks before it.
            archive(chain, due).await?;
            return end;
        }
        if chain.control.is_requested() {
            archive(chain, due).await?;
            return Err(FollowError::Interrupted);
        }
        progress.reach(
            chain.archive_next().saturating_sub(range.start),
            range.len(),
        );
    }
}

async fn archive(chain: &Chain, blocks: Vec<Fetched>) -> Result<(), FollowError> {
    chain.seen.note_blocks(blocks.iter().map(|one| &one.block));
    append_proven(chain, blocks.into_iter().map(proven)).await?;
    chain.note_moved();
    Ok(())
}

/// Collects blocks until they are worth archiving: many small pieces would each be written, and then
/// written again together. Each block is named as its parent by the next one. The second value is there where
/// these are the last blocks, and says why.
async fn gather(
    chain: &Chain,
    fetches: &mut Fetches,
    held: &mut Option<Fetched>,
) -> (Vec<Fetched>, Option<Result<(), FollowError>>) {
    let mut blocks = Vec::new();
    let (mut weight, mut payload) = (0, 0);
    let began = Instant::now();
    let hold_bytes = chain.settings.backfill.hold_bytes;
    let room = hold_bytes / WEIGHT_BYTES;
    let enough = room.clamp(GATHER_WEIGHT_LEAST, GATHER_WEIGHT) as usize;
    // Blocks with large payload and few logs weigh little and take much.
    let is_full = |weight: usize, payload: u64| weight >= enough || payload >= hold_bytes / 2;
    while !is_full(weight, payload)
        && began.elapsed() < GATHER_AT_MOST
        && !chain.control.is_requested()
    {
        let next = match fetches.next().await {
            Some(Ok(fetched)) => {
                chain.meters.backfill_range.record(fetched.len() as f64);
                linked(&chain.source, held.take(), fetched)
            }
            Some(Err(error)) => Err(error),
            None => return (blocks, Some(Ok(()))),
        };
        let mut fetched = match next {
            Ok(fetched) => fetched,
            Err(error) => return (blocks, Some(Err(error))),
        };
        *held = fetched.pop();
        for one in &fetched {
            weight += 1 + one.block.logs.len();
            payload += payload_bytes(&one.block);
        }
        blocks.extend(fetched);
    }
    (blocks, None)
}

/// What a block's payload takes.
fn payload_bytes(block: &Block) -> u64 {
    let Payload {
        header,
        bodies,
        raw,
    } = &block.payload;
    let bodies = bodies.iter().flatten();
    let parts = header.iter().chain(raw).chain(bodies);
    parts.map(|part| part.len() as u64).sum()
}

/// Blocks after the one before them, which they must name as their parent.
pub fn linked(
    source: &Arc<dyn Source>,
    before: Option<Fetched>,
    mut fetched: Vec<Fetched>,
) -> Result<Vec<Fetched>, FollowError> {
    if let Some(before) = before {
        check_link(source, &before, fetched.first())?;
        fetched.insert(0, before);
    }
    Ok(fetched)
}

/// A range in parts of this many blocks.
pub fn parts(range: BlockRange, step: u64) -> impl Iterator<Item = BlockRange> {
    let step = step.max(1);
    let starts = (range.start..range.end).step_by(step as usize);
    starts.map(move |start| BlockRange::new(start, start.saturating_add(step).min(range.end)))
}

/// Two endpoints, or one at two times, are on different chains. Neither block was archived; the endpoint
/// that delivered the older one is tried last from now on.
fn check_link(
    source: &Arc<dyn Source>,
    before: &Fetched,
    after: Option<&Fetched>,
) -> Result<(), FollowError> {
    let block = before.block.clock.block_ref();
    let named = after.map(|after| after.block.clock.parent_hash);
    if named.is_none_or(|named| named == block.hash) {
        return Ok(());
    }
    let what = "its successor names another parent";
    source.report_bad(&before.endpoint, block, what);
    let number = block.number;
    Err(FollowError::Disagreement(format!(
        "block {number}: {what} (endpoint={})",
        before.endpoint
    )))
}

/// A block as the tail would hold it.
pub fn proven(one: Fetched) -> TailBlock {
    TailBlock {
        block: one.block.into(),
        proof: one.proof,
        endpoint: one.endpoint,
    }
}

/// Archives blocks, those of equal proof and endpoint together.
pub async fn append_proven(
    chain: &Chain,
    blocks: impl Iterator<Item = TailBlock>,
) -> Result<(), FollowError> {
    for (provenance, blocks) in by_provenance(blocks) {
        append(chain, blocks, &provenance).await?;
    }
    Ok(())
}

/// Neighbours of equal proof and endpoint together, in order.
pub fn by_provenance(
    blocks: impl Iterator<Item = TailBlock>,
) -> Vec<(Provenance, Vec<Arc<Block>>)> {
    let mut groups = Vec::new();
    let mut blocks = blocks.peekable();
    while let Some(first) = blocks.next() {
        let provenance = Provenance {
            proof: first.proof,
            source: first.endpoint.to_string(),
            now: now(),
        };
        let same = |one: &TailBlock| one.proof == first.proof && one.endpoint == first.endpoint;
        let mut group = vec![first.block];
        group.extend(std::iter::from_fn(|| blocks.next_if(same)).map(|one| one.block));
        groups.push((provenance, group));
    }
    groups
}

/// Archives final blocks. One that does not link to the archive's head means that a final block was
/// replaced, or that the endpoint is wrong: the block at the head, fetched again, shows which.
async fn append(
    chain: &Chain,
    blocks: Vec<Arc<Block>>,
    provenance: &Provenance,
) -> Result<(), FollowError> {
    let endpoint = provenance.source.as_str();
    let first = blocks.first().map(|block| block.clock.block_ref());
    let ingested = chain.archive.ingest_finalized_blocks(blocks, provenance);
    match ingested.await {
        Ok(IngestOutcome::Appended { head, blocks }) => {
            let verified = chain.meters.verified(provenance.proof.logs());
            verified.increment(blocks);
            tracing::debug!(chain = %chain.settings.name, head = head.number, "archived");
            Ok(())
        }
        Ok(IngestOutcome::AlreadyIndexed) => Ok(()),
        Ok(IngestOutcome::ContentConflict { block, .. }) => {
            let what = "the same block with other content";
            chain.source.report_bad(endpoint, block, what);
            Err(FollowError::Disagreement(format!(
                "block {}: {what} (endpoint={endpoint})",
                block.number
            )))
        }
        Err(error @ ArchiveError::BadParent { .. }) => {
            dispute::head(chain, endpoint).await?;
            // The head is as it was: the block that does not stand on it is the wrong one.
            if let Some(first) = first {
                chain.source.report_bad(endpoint, first, &error.to_string());
            }
            Err(error.into())
        }
        Err(error) => Err(error.into()),
    }
}
