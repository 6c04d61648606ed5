//! Blocks by number, hash and time; transactions by hash.

use std::sync::Arc;

use chronolith_model::{Block, BlockClock, BlockRange, Dataset, DatasetSet, Hash32};

use super::objects::{Identity, Objects, Part};
use super::snapshot::{Need, Snapshot};
use crate::catalog::{RunEntry, SegmentEntry};
use crate::error::{Error, Result};
use crate::format::table::TableDirectory;
use crate::write::seal::hash_key;

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

/// Where a transaction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxPlace {
    /// Its block.
    pub block: BlockClock,
    /// Its position in the block.
    pub index: u32,
}

/// The clock of a block.
pub(crate) async fn block_by_number(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
) -> Result<BlockClock> {
    let pieces = snapshot.select(&BlockRange::one(number), &CLOCK)?;
    let piece = pieces
        .first()
        .ok_or(Error::Invalid("empty range".to_owned()))?;
    let segment = objects.open(&piece.entry.object).await?;
    segment.tables.clock(number).ok_or_else(|| Error::Corrupt {
        object: segment.identity.name.clone(),
        reason: format!("block {number} is missing from its table"),
    })
}

/// The block with this hash.
pub(crate) async fn block_by_hash(
    objects: &Objects,
    snapshot: &Snapshot,
    hash: &Hash32,
) -> Result<Option<BlockClock>> {
    for number in places(objects, snapshot, hash).await? {
        // A run may still name blocks that were pruned.
        if snapshot.best_at(number, &CLOCK).is_none() {
            continue;
        }
        let clock = block_by_number(objects, snapshot, number).await?;
        if clock.hash == *hash {
            return Ok(Some(clock));
        }
    }
    all_hashes_there(snapshot)?;
    Ok(None)
}

/// Without all hashes, a hash that is not found is no answer.
fn all_hashes_there(snapshot: &Snapshot) -> Result<()> {
    let covered = BlockRange::new(0, 0);
    match snapshot.without_hashes() {
        Some(missing) => Err(Error::NotCovered { missing, covered }),
        None => Ok(()),
    }
}

/// The transaction with this hash among the covered blocks. Where some of them keep only the
/// transactions that their logs name, a hash that is not found is no answer.
pub(crate) async fn tx_by_hash(
    objects: &Objects,
    snapshot: &Snapshot,
    hash: &Hash32,
) -> Result<Option<TxPlace>> {
    for number in places(objects, snapshot, hash).await? {
        let holding = snapshot.segments.iter();
        let holding = holding.filter(|entry| entry.facts.range.contains(number));
        for entry in holding {
            let segment = objects.open(&entry.object).await?;
            let txs = objects.txs(&segment, number).await?;
            if let Some(tx) = txs.iter().find(|tx| tx.hash == *hash) {
                let block = block_by_number(objects, snapshot, number).await?;
                return Ok(Some(TxPlace {
                    block,
                    index: tx.index,
                }));
            }
        }
    }
    all_hashes_there(snapshot)?;
    let all = DatasetSet::of(&[Dataset::TxHashes]);
    let need = Need {
        datasets: all,
        filter: None,
    };
    for (covered, _) in snapshot.coverage(&CLOCK) {
        snapshot.select(&covered, &need)?;
    }
    Ok(None)
}

/// A block with its transactions and logs.
pub(crate) async fn block(objects: &Objects, snapshot: &Snapshot, number: u64) -> Result<Block> {
    let need = Need {
        datasets: DatasetSet::of(&[Dataset::Logs]),
        filter: None,
    };
    let pieces = snapshot.select(&BlockRange::one(number), &need)?;
    let piece = pieces
        .first()
        .ok_or(Error::Invalid("empty range".to_owned()))?;
    let segment = objects.open(&piece.entry.object).await?;
    objects.block(&segment, number).await
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

/// Blocks that may hold the hash: one page of each table, all asked for at once.
async fn places(objects: &Objects, snapshot: &Snapshot, hash: &Hash32) -> Result<Vec<u64>> {
    let key = hash_key(hash);
    let in_segment = |entry: Arc<SegmentEntry>| async move {
        // A merged segment has no table of its own: a run holds its hashes.
        if entry.tier > 1 {
            return Ok(Vec::new());
        }
        let segment = objects.open(&entry.object).await?;
        let Some((table, offset)) = &segment.tables.hashes else {
            return Ok(Vec::new());
        };
        let start = entry.facts.range.start;
        in_table(objects, &segment.identity, (table, *offset), (key, start)).await
    };
    let in_run = |entry: Arc<RunEntry>| async move {
        let run = objects.open_run(&entry.object).await?;
        let start = entry.range.start;
        in_table(
            objects,
            &run.identity,
            (&run.hashes, run.offset),
            (key, start),
        )
        .await
    };
    let segments = futures::future::try_join_all(snapshot.segments.iter().cloned().map(in_segment));
    let runs = futures::future::try_join_all(snapshot.catalog.runs.iter().cloned().map(in_run));
    let (segments, runs) = futures::try_join!(segments, runs)?;
    let mut numbers: Vec<u64> = segments.into_iter().chain(runs).flatten().collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

async fn in_table(
    objects: &Objects,
    identity: &Identity,
    (table, offset): (&TableDirectory, u64),
    (key, start): (u64, u64),
) -> Result<Vec<u64>> {
    let Some(place) = table.place_of(key) else {
        return Ok(Vec::new());
    };
    let pages = objects
        .table_pages(identity, Part::HashPage, offset, &[place])
        .await?;
    let page = pages.first().cloned().unwrap_or_default();
    let found = table
        .find(key, &page)
        .map_err(|damage| Error::damaged(&identity.name, damage))?;
    Ok(found.map(|offset| start + offset).collect())
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
    for interval in &intervals {
        let first_later = first_at_or_after(objects, snapshot, interval, time, side).await?;
        let Some(first_later) = first_later else {
            continue;
        };
        let answer = match side {
            TimeSide::AtOrAfter if first_later > interval.start => Some(first_later),
            // The first block of all, with nothing before it.
            TimeSide::AtOrAfter if interval.start == 0 => Some(first_later),
            TimeSide::AtOrBefore if first_later > interval.start => Some(first_later - 1),
            TimeSide::AtOrBefore if interval.start == 0 => return Ok(None),
            _ => None,
        };
        if let Some(number) = answer {
            return block_by_number(objects, snapshot, number).await.map(Some);
        }
    }
    let end = intervals.last().map_or(0, |interval| interval.end);
    let covered = intervals.last().copied().unwrap_or(BlockRange::new(0, 0));
    Err(Error::NotCovered {
        missing: BlockRange::one(end),
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
