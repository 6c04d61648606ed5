//! Blocks by number and time, and whole blocks.

use std::sync::Arc;

use chronolith_model::{Block, BlockClock, BlockRange, Dataset, DatasetSet, Hash32, Tx};

use super::objects::{Objects, OpenSegment};
use super::snapshot::{Need, Snapshot};
use crate::error::{Error, Result};

const CLOCK: Need<'static> = Need {
    datasets: DatasetSet::CLOCK,
    filter: None,
};

/// Which block is wanted for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeSide {
    /// The last block not after the time.
    AtOrBefore,
    /// The first block not before the time.
    AtOrAfter,
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
) -> Result<BlockClock> {
    let segment = segment_of(objects, snapshot, number, &CLOCK).await?;
    segment.tables.clock(number).ok_or_else(|| Error::Corrupt {
        object: segment.identity.name.clone(),
        reason: format!("block {number} is missing from its table"),
    })
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
    for piece in snapshot.select(range, &CLOCK)? {
        let segment = objects.open(&piece.entry.object).await?;
        for number in piece.range.start..piece.range.end {
            digests.push(objects.digest(&segment, number).await?);
        }
    }
    Ok(crate::format::facts::content_root(digests.iter()))
}

/// The block at a time. It is an answer only when the block across the time is covered too: the
/// newest block of an interval says nothing about what comes behind it.
pub(crate) async fn block_at(
    objects: &Objects,
    snapshot: &Snapshot,
    time: u64,
    side: TimeSide,
) -> Result<Option<BlockClock>> {
    let coverage = snapshot.coverage(&CLOCK);
    let mut intervals: Vec<BlockRange> = Vec::new();
    for (range, _) in coverage {
        match intervals.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => intervals.push(range),
        }
    }
    let mut before = 0;
    for interval in &intervals {
        let first_later = first_at_or_after(objects, snapshot, interval, time, side).await?;
        let Some(first_later) = first_later else {
            before = interval.end;
            continue;
        };
        let number = match side {
            _ if first_later == interval.start && interval.start > 0 => {
                // Times do not fall: what is asked for is this block or one of the gap before it.
                return Err(Error::NotCovered {
                    missing: BlockRange::new(before, interval.start),
                    covered: *interval,
                });
            }
            TimeSide::AtOrAfter => first_later,
            TimeSide::AtOrBefore if first_later == 0 => return Ok(None),
            TimeSide::AtOrBefore => first_later - 1,
        };
        return block_by_number(objects, snapshot, number).await.map(Some);
    }
    let covered = intervals.last().copied().unwrap_or(BlockRange::new(0, 0));
    Err(Error::NotCovered {
        missing: BlockRange::one(covered.end),
        covered,
    })
}

/// The first block of the interval that lies behind the time (for `AtOrBefore`) or not before it.
async fn first_at_or_after(
    objects: &Objects,
    snapshot: &Snapshot,
    interval: &BlockRange,
    time: u64,
    side: TimeSide,
) -> Result<Option<u64>> {
    let later = |timestamp: u64| match side {
        TimeSide::AtOrAfter => timestamp >= time,
        TimeSide::AtOrBefore => timestamp > time,
    };
    let pieces = snapshot.select(interval, &CLOCK)?;
    let at = pieces.partition_point(|piece| !later(piece.entry.facts.last_timestamp));
    let Some(piece) = pieces.get(at) else {
        return Ok(None);
    };
    let segment = objects.open(&piece.entry.object).await?;
    let start = segment.tables.facts.range.start;
    let skip = (piece.range.start - start) as usize;
    let blocks = segment.tables.blocks.get(skip..).unwrap_or_default();
    let place = blocks.partition_point(|entry| !later(entry.timestamp));
    Ok(Some(piece.range.start + place as u64).filter(|number| interval.contains(*number)))
}
