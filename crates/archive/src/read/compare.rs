//! A block from elsewhere against the archived one, in all that is kept of it.

use chronolith_model::{Block, BlockRange, Dataset, Payload};

use super::objects::Objects;
use super::payload;
use crate::error::{Error, Result};
use crate::format::digest::digest_of;
use crate::state::catalog::PackContent;
use crate::state::snapshot::Snapshot;
use crate::tools::inspect::StoredObject;
use crate::write::check::normalise;
use crate::write::seal::Kept;

/// The first thing in which two blocks of one height differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Difference {
    /// They are not the same block.
    Block,
    Logs,
    /// Other transactions, or others with a hash that is kept.
    Transactions,
    Header,
    Bodies,
    /// Other raw bytes.
    Raw,
}

/// Where the archived block differs from another one; what is not kept of it is not compared.
pub(crate) async fn difference(
    objects: &Objects,
    snapshot: &Snapshot,
    theirs: &Block,
    kept: &Kept,
) -> Result<Option<Difference>> {
    let number = theirs.clock.number;
    let entry = snapshot
        .best_kept(number, kept.datasets, &kept.scope)
        .ok_or_else(|| Error::not_covered(BlockRange::one(number)))?;
    let segment = objects.open(&entry.object).await?;
    let mut ours = objects.block(&segment, number).await?;
    let ours_kept = Kept::of(&entry.facts);
    ours.payload = kept_payload(objects, snapshot, number, (kept, &ours_kept)).await?;
    normalise(&mut ours, kept);
    let mut theirs = theirs.clone();
    normalise(&mut theirs, kept);
    Ok(match () {
        () if ours.clock != theirs.clock => Some(Difference::Block),
        () if ours.logs != theirs.logs => Some(Difference::Logs),
        () if ours.txs != theirs.txs => Some(Difference::Transactions),
        () if ours.payload.header != theirs.payload.header => Some(Difference::Header),
        () if ours.payload.bodies != theirs.payload.bodies => Some(Difference::Bodies),
        () if ours.payload.raw != theirs.payload.raw => Some(Difference::Raw),
        () => None,
    })
}

/// The first pack that holds other payload of a block than the digest of a segment is over.
pub(crate) async fn misfit(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
) -> Result<Option<StoredObject>> {
    for entry in snapshot.holding(number) {
        let content = PackContent::of(&entry.facts);
        let mut packs = snapshot.packs();
        let pack = packs.find(|pack| pack.range.contains(number) && pack.content == content);
        let Some(pack) = pack else {
            continue;
        };
        let segment = objects.open(&entry.object).await?;
        let mut block = objects.block(&segment, number).await?;
        block.payload = objects.payload(pack, number).await?;
        if digest_of(&block) != objects.digest(&segment, number).await? {
            return Ok(Some(pack.described()));
        }
    }
    Ok(None)
}

/// All payload that is kept of a block, which may lie in several packs.
async fn kept_payload(
    objects: &Objects,
    snapshot: &Snapshot,
    number: u64,
    (kept, ours): (&Kept, &Kept),
) -> Result<Payload> {
    let mut all = Payload::default();
    for dataset in kept.datasets.iter() {
        let held = match dataset {
            Dataset::Clock | Dataset::Logs | Dataset::TxHashes => continue,
            // One for each transaction that the segment lists.
            Dataset::Transactions if ours.datasets.bodies_by_logs() => {
                payload::payload_of(objects, snapshot, number, &ours.packed()).await?
            }
            Dataset::Headers | Dataset::Transactions | Dataset::Payload => {
                payload::payload(objects, snapshot, number, dataset).await?
            }
        };
        match dataset {
            Dataset::Headers => all.header = held.header,
            Dataset::Transactions => all.bodies = held.bodies,
            _ => all.raw = held.raw,
        }
    }
    Ok(all)
}
