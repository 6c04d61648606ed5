//! From which of several copies of a block its logs are read.
//!
//! A fill with other datasets lies beside what is there, and one that proves more replaces it: neither is an act of an
//! operator, and both can change which logs are found. Merges change no copy, and nothing here.

use chronolith_model::{BlockRange, Dataset, DatasetSet, Hash32, LogFilter};

use crate::error::Result;
use crate::format::facts::encode_scope;
use crate::state::snapshot::{Need, Snapshot};

/// A hash over what is kept of each block that a filter's logs are read from, and how far it is proven.
///
/// # Errors
/// `NotCovered` where any block of the range is missing.
pub(crate) fn origin(
    snapshot: &Snapshot,
    range: &BlockRange,
    filter: &LogFilter,
) -> Result<Hash32> {
    let need = Need {
        datasets: DatasetSet::of(&[Dataset::Logs]),
        filter: Some(filter),
    };
    let pieces = snapshot.select(range, &need)?;
    let (mut hasher, mut last) = (blake3::Hasher::new(), None);
    for piece in &pieces {
        let facts = &piece.entry.facts;
        let mut start = facts.range.start;
        for &(end, level) in &facts.levels {
            let part = BlockRange::new(start, end).intersect(&piece.range);
            start = end;
            let copy = (facts.datasets, &facts.scope, level);
            // However segments are cut, blocks of one copy count once.
            let Some(part) = part.filter(|_| last != Some(copy)) else {
                continue;
            };
            last = Some(copy);
            let mut kept = vec![facts.datasets.bits(), level.to_byte()];
            encode_scope(&facts.scope, &mut kept);
            hasher.update(&part.start.to_le_bytes());
            hasher.update(&(kept.len() as u64).to_le_bytes());
            hasher.update(&kept);
        }
    }
    Ok(Hash32(*hasher.finalize().as_bytes()))
}
