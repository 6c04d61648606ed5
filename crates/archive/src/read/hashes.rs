//! Blocks and transactions by hash.
//!
//! A hash leads to the blocks that may hold it: one page of each table is looked at. What is in
//! memory is looked at first; all other pages are requested at once. The block's own list decides.

use chronolith_model::{BlockMeta, Hash32, Tx};

use super::cache::Part;
use super::lookup::block_by_number;
use super::objects::{Identity, Objects};
use crate::error::{Error, Result};
use crate::format::table::TableDirectory;
use crate::state::catalog::SegmentEntry;
use crate::state::snapshot::{Need, Snapshot};

/// Where a transaction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxLocation {
    pub block: BlockMeta,
    /// Its position in the block, under whichever of its hashes it was found.
    pub index: u32,
}

/// The block with this hash.
pub(crate) async fn block_by_hash(
    objects: &Objects,
    snapshot: &Snapshot,
    hash: &Hash32,
) -> Result<Option<BlockMeta>> {
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
) -> Result<Option<TxLocation>> {
    for number in places(objects, snapshot, hash).await? {
        for entry in snapshot.holding(number) {
            let segment = objects.open(&entry.object).await?;
            let Some(index) = objects.find_tx(&segment, number, hash).await? else {
                continue;
            };
            let index = Tx { index, hash: *hash }.position();
            if let Some(block) = objects.clock(&segment, number).await? {
                return Ok(Some(TxLocation { block, index }));
            }
        }
    }
    match snapshot.without_tx_hashes() {
        Some(missing) => Err(Error::not_covered(missing)),
        None => Ok(None),
    }
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
            unread.push(entry);
        }
    }
    let runs = snapshot.runs.look(objects, prefix, &mut numbers);
    if !unread.is_empty() || !runs.is_empty() {
        // All at once: a hash that is nowhere costs the time of one read, however many there are.
        let segments = unread.into_iter().map(|entry| read(objects, entry, prefix));
        let segments = futures::future::try_join_all(segments);
        let runs = runs.into_iter();
        let runs = runs.map(|at| snapshot.runs.read(objects, at, prefix));
        let runs = futures::future::try_join_all(runs);
        let (segments, runs) = futures::try_join!(segments, runs)?;
        numbers.extend(segments.into_iter().chain(runs).flatten());
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
        let page = objects.cached_page(identity, Part::TableHashPage, place.index)?;
        numbers.extend(table.find(key, &page).ok()?.map(|offset| start + offset));
    }
    Some(())
}

async fn read(objects: &Objects, entry: &SegmentEntry, prefix: u64) -> Result<Vec<u64>> {
    let segment = objects.open(&entry.object).await?;
    let Some((table, offset)) = &segment.tables.hashes else {
        return Ok(Vec::new());
    };
    let (table, start) = ((table, *offset), entry.facts.range.start);
    in_table(objects, &segment.identity, table, (prefix, start)).await
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
        .table_pages(identity, Part::TableHashPage, offset, &[place])
        .await?;
    let page = pages.first().expect("as many pages as were requested");
    let found = table
        .find(key, page)
        .map_err(|damage| Error::damaged(&identity.name, damage))?;
    Ok(found.map(|offset| start + offset).collect())
}
