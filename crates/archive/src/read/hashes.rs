//! Blocks and transactions by hash.
//!
//! A hash leads to the blocks that may hold it: one page of each table is looked at. What is in
//! memory is looked at first; all other pages are asked for at once. The block's own list decides.

use std::sync::Arc;

use chronolith_model::{BlockClock, Hash32, Tx};

use super::cache::Part;
use super::lookup::block_by_number;
use super::objects::{Identity, Objects};
use super::snapshot::{Need, Snapshot};
use crate::catalog::{RunEntry, SegmentEntry};
use crate::error::{Error, Result};
use crate::format::table::TableDirectory;

/// Where a transaction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxPlace {
    /// Its block.
    pub block: BlockClock,
    /// Its position in the block, under whichever of its hashes it was found.
    pub index: u32,
}

/// The block with this hash.
pub(crate) async fn block_by_hash(
    objects: &Objects,
    snapshot: &Snapshot,
    hash: &Hash32,
) -> Result<Option<BlockClock>> {
    for number in places(objects, snapshot, hash).await? {
        // A run may still name blocks that were pruned.
        if snapshot.best_at(number, &Need::CLOCK).is_none() {
            continue;
        }
        let clock = block_by_number(objects, snapshot, number).await?;
        if clock.hash == *hash {
            return Ok(Some(clock));
        }
    }
    match snapshot.without_hashes() {
        Some(missing) => Err(Error::not_covered(missing)),
        None => Ok(None),
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
        for entry in snapshot.holding(number) {
            let segment = objects.open(&entry.object).await?;
            let Some(index) = objects.find_tx(&segment, number, hash).await? else {
                continue;
            };
            let index = Tx { index, hash: *hash }.position();
            if let Some(block) = objects.clock(&segment, number).await? {
                return Ok(Some(TxPlace { block, index }));
            }
        }
    }
    match snapshot.without_tx_hashes() {
        Some(missing) => Err(Error::not_covered(missing)),
        None => Ok(None),
    }
}

/// A table that is not in memory.
enum Unread<'a> {
    Segment(&'a Arc<SegmentEntry>),
    Run(&'a Arc<RunEntry>),
}

/// Blocks that may hold the hash.
async fn places(objects: &Objects, snapshot: &Snapshot, hash: &Hash32) -> Result<Vec<u64>> {
    let prefix = hash.prefix64();
    let (mut numbers, mut unread) = (Vec::new(), Vec::new());
    // A merged segment has no table of its own: a run holds its hashes.
    for entry in snapshot.segments.iter().filter(|entry| entry.tier <= 1) {
        let start = entry.facts.range.start;
        let found = objects.opened_segment(&entry.object).and_then(|segment| {
            let (table, _) = segment.tables.hashes.as_ref()?;
            in_cached_table(
                objects,
                &segment.identity,
                table,
                (prefix, start),
                &mut numbers,
            )
        });
        if found.is_none() {
            unread.push(Unread::Segment(entry));
        }
    }
    for entry in &snapshot.catalog.runs {
        let start = entry.range.start;
        let found = objects.opened_run(&entry.object).and_then(|run| {
            in_cached_table(
                objects,
                &run.identity,
                &run.hashes,
                (prefix, start),
                &mut numbers,
            )
        });
        if found.is_none() {
            unread.push(Unread::Run(entry));
        }
    }
    if !unread.is_empty() {
        let reads = unread.into_iter().map(|table| read(objects, table, prefix));
        numbers.extend(
            futures::future::try_join_all(reads)
                .await?
                .into_iter()
                .flatten(),
        );
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Looks at a page that is in memory; none where it is not.
fn in_cached_table(
    objects: &Objects,
    identity: &Identity,
    table: &TableDirectory,
    (prefix, start): (u64, u64),
    numbers: &mut Vec<u64>,
) -> Option<()> {
    let key = table.key(prefix);
    if let Some(place) = table.place_of(key) {
        let page = objects.cached_page(identity, Part::HashPage, place.index)?;
        numbers.extend(table.find(key, &page).ok()?.map(|offset| start + offset));
    }
    Some(())
}

async fn read(objects: &Objects, unread: Unread<'_>, prefix: u64) -> Result<Vec<u64>> {
    match unread {
        Unread::Segment(entry) => {
            let segment = objects.open(&entry.object).await?;
            let Some((table, offset)) = &segment.tables.hashes else {
                return Ok(Vec::new());
            };
            let start = entry.facts.range.start;
            in_table(
                objects,
                &segment.identity,
                (table, *offset),
                (prefix, start),
            )
            .await
        }
        Unread::Run(entry) => {
            let run = objects.open_run(&entry.object).await?;
            let (table, start) = ((&run.hashes, run.offset), entry.range.start);
            in_table(objects, &run.identity, table, (prefix, start)).await
        }
    }
}

async fn in_table(
    objects: &Objects,
    identity: &Identity,
    (table, offset): (&TableDirectory, u64),
    (prefix, start): (u64, u64),
) -> Result<Vec<u64>> {
    let key = table.key(prefix);
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
