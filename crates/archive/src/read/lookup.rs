//! Blocks by number and time, and whole blocks.

use std::sync::Arc;

use chronolith_model::{Block, BlockMeta, BlockRange, Dataset, DatasetSet, Hash32, Tx};

use super::objects::{Objects, OpenSegment};
use crate::error::{Error, Result};
use crate::state::snapshot::{Need, Snapshot};

/// Which block is wanted for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeSide {
    /// The last block before the chain's clock passes the time. The clock of a chain at a block is the
    /// latest time of that block and all before it: where times fall now and then, it does not move
    /// meanwhile, so that an answer once known stays.
    AtOrBefore,
    /// The first block not before the time.
    AtOrAfter,
}

/// A block and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockTime {
    pub number: u64,
    /// When it was, in seconds.
    pub timestamp: u64,
}

/// The segment that holds a block with what is needed of it.
async fn segment_of(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
    need: &Need<'_>,
) -> Result<Arc<OpenSegment>> {
    let pieces = snapshot.select(&BlockRange::one(number), need)?;
    let piece = pieces
        .first()
        .ok_or_else(|| Error::not_covered(BlockRange::one(number)))?;
    objects.open(&piece.entry.object).await
}

/// What is kept of a block with this dataset, whatever the filter.
fn need_of(dataset: Dataset) -> Need<'static> {
    Need {
        datasets: DatasetSet::of(&[dataset]),
        filter: None,
    }
}

/// The clock of a block.
pub(crate) async fn block_by_number(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
) -> Result<BlockMeta> {
    let segment = segment_of(objects, snapshot, number, &Need::CLOCK).await?;
    let clock = objects.clock(&segment, number).await?;
    clock.ok_or_else(|| missing(&segment, number))
}

/// The error for a block that a segment should hold.
pub(crate) fn missing(segment: &OpenSegment, number: u64) -> Error {
    let reason = format!("block {number} is missing from its table");
    Error::damaged(&segment.identity.name, reason)
}

/// A block with its transactions and logs.
pub(crate) async fn block(objects: &Objects, snapshot: &Snapshot, number: u64) -> Result<Block> {
    let need = need_of(Dataset::Logs);
    let segment = segment_of(objects, snapshot, number, &need).await?;
    objects.block(&segment, number).await
}

/// The transactions of a block.
pub(crate) async fn transactions(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
) -> Result<Vec<Tx>> {
    let need = need_of(Dataset::TxHashes);
    let segment = segment_of(objects, snapshot, number, &need).await?;
    objects.txs(&segment, number).await
}

/// Hash over the digests of a range.
pub(crate) async fn content_root(
    objects: &Objects,
    snapshot: &Snapshot,
    range: &BlockRange,
) -> Result<Hash32> {
    let mut digests = Vec::new();
    for piece in snapshot.select(range, &Need::CLOCK)? {
        let segment = objects.open(&piece.entry.object).await?;
        for number in piece.range.start..piece.range.end {
            digests.push(objects.digest(&segment, number).await?);
        }
    }
    Ok(crate::format::facts::content_root(digests.iter()))
}

/// The block at a time, on a chain that begins with the block `first`. It is an answer only when the block across the time is covered too: the
/// newest block before a gap proves nothing about what comes after it. That no block of a gap is later than those
/// after it is assumed.
pub(crate) async fn number_at(
    objects: &Objects,
    snapshot: &Snapshot,
    first: u64,
    (time, side): (u64, TimeSide),
) -> Result<Option<BlockTime>> {
    let runs = snapshot.clock_runs();
    // The block that is sought, or the one after it, is the first from here on.
    let from = match side {
        TimeSide::AtOrAfter => Some(time),
        TimeSide::AtOrBefore => time.checked_add(1),
    };
    let ends_before = |reached: &u64| from.is_none_or(|from| *reached < from);
    let at = runs.partition_point(|run| run.reached.last().is_none_or(ends_before));
    let before = at.checked_sub(1).and_then(|at| runs.get(at));
    let Some(run) = runs.get(at) else {
        let covered = before.map_or(BlockRange::new(0, 0), |run| run.range);
        return Err(Error::NotCovered {
            missing: BlockRange::one(covered.end),
            covered,
        });
    };
    let in_run = run.reached.partition_point(ends_before);
    let piece = run.pieces.get(in_run);
    let piece = piece.ok_or_else(|| Error::not_covered(run.range))?;
    let segment = objects.open(&piece.entry.object).await?;
    let place = segment.tables.place(piece.range.start).zip(from);
    let found = place.and_then(|(place, from)| segment.tables.blocks.first_from(place, from));
    let found = found.ok_or_else(|| missing(&segment, piece.range.end - 1))?;
    let number = segment.tables.number(found.place);
    if number == run.range.start && number > first {
        // The wanted block is this one or one of the gap before it.
        return Err(Error::NotCovered {
            missing: BlockRange::new(before.map_or(first, |run| run.range.end), number),
            covered: run.range,
        });
    }
    let number = match side {
        TimeSide::AtOrAfter => {
            let timestamp = found.time;
            return Ok(Some(BlockTime { number, timestamp }));
        }
        TimeSide::AtOrBefore if number <= first => return Ok(None),
        TimeSide::AtOrBefore => number - 1,
    };
    let timestamp = match found.before {
        Some(timestamp) => timestamp,
        None => {
            let segment = segment_of(objects, snapshot, number, &Need::CLOCK).await?;
            let place = segment.tables.place(number);
            let timestamp = place.and_then(|place| segment.tables.blocks.time_at(place));
            timestamp.ok_or_else(|| missing(&segment, number))?
        }
    };
    Ok(Some(BlockTime { number, timestamp }))
}

/// The block at a time, with its hash.
pub(crate) async fn block_at(
    objects: &Objects,
    snapshot: &Snapshot,
    first: u64,
    wanted: (u64, TimeSide),
) -> Result<Option<BlockMeta>> {
    match number_at(objects, snapshot, first, wanted).await? {
        None => Ok(None),
        Some(found) => block_by_number(objects, snapshot, found.number)
            .await
            .map(Some),
    }
}
