//! Answers that can never change, and their tags: a client that has one gets 304, for which no log, header or
//! transaction is read.
//!
//! Such an answer is about blocks that are archived, and names them by number or hash. Blocks that are archived later
//! cannot add to it: where one was missing, it would have been an error. Acts of operators (rewind, repair, prune)
//! can change it, and change its tag.
//!
//! An answer about logs says of the newest final block what was true when it was made, which only rises. Its tag changes
//! with fills too: blocks that are proven further, or with other datasets, may have other logs.
//!
//! A block or a transaction can be read in another form later, without such an act: a backfill for more datasets
//! fetches its block again, perhaps from another endpoint, which sends other fields that no hash covers, and
//! transactions with or without `blockTimestamp`. So these answers are immutable in the cases of [`lasts`] only.

use chronolith_model::{BlockMeta, BlockRange, Dataset, DatasetSet, LogFilter, Verification};

use super::log_query::LogQuery;
use crate::http::caching::Tag;
use crate::view::View;

/// The field that lists what no hash covers. Between quotes inside of a text it would be escaped.
const UNPROVEN_FIELDS: &[u8] = b"\"unprovenFields\":";

/// What is said of a final block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// Its number, hash, parent and time.
    Clock,
    /// Its header and the hashes of its transactions.
    Hashes,
    /// Its header and its transactions.
    Whole,
    /// The transaction at this position.
    Transaction(u32),
}

/// The tag of the answer to a request about logs of these blocks; none where it may change.
pub(super) async fn tag(view: &View<'_>, query: &LogQuery, route: &str) -> Option<Tag> {
    let (first, last) = query.numbers()?;
    if !view.is_final(last) {
        return None;
    }
    let archive = view.archive.as_ref()?;
    let range = BlockRange::new(first, last.saturating_add(1));
    // Where it cannot be read, the query reports that.
    let last = view.clock(last).await.ok()??;
    let origin = archive.origin(&range, &query.filter).ok()?;
    Some(Tag::of(&[
        route.as_bytes(),
        &view.chain.id.to_le_bytes(),
        query.text().as_bytes(),
        &last.hash.0,
        &origin.0,
        acts(view).as_bytes(),
    ]))
}

/// The tag of what is said of a block; none where the block is not final.
pub(super) fn tag_of_block(view: &View<'_>, block: &BlockMeta, said: Said) -> Option<Tag> {
    if !view.is_final(block.number) {
        return None;
    }
    let (what, index) = match said {
        Said::Clock => ("clock", 0),
        Said::Hashes => ("block", 0),
        Said::Whole => ("whole block", 0),
        Said::Transaction(index) => ("transaction", index),
    };
    Some(Tag::of(&[
        what.as_bytes(),
        &view.chain.id.to_le_bytes(),
        &block.hash.0,
        &index.to_le_bytes(),
        acts(view).as_bytes(),
    ]))
}

/// Whether nothing that is archived later can change what is said of a final block.
///
/// - The header of the block was hashed: number, hash, parent and time follow from its hash.
/// - The block is held with all that sources deliver, so it is not fetched again. The chain still keeps headers:
///   without them a transaction has no `gasPrice` that follows from the base fee.
/// - Or every field follows from its hash: the hashes of its transactions are proven by the transactions root, and no
///   field of the header is unproven. A block that is fetched again can show unproven fields besides; what was said
///   stays true, and no field of it changes. Transactions themselves are not among these, because of `blockTimestamp`.
pub(super) fn lasts(view: &View<'_>, block: &BlockMeta, said: Said, json: &[u8]) -> bool {
    let Some(archive) = &view.archive else {
        return false;
    };
    if said == Said::Clock {
        let any = LogFilter::over(BlockRange::one(block.number));
        let proof = archive.proof_of(block.number, DatasetSet::CLOCK, &any);
        return proof.is_some_and(|proof| proof.of(Dataset::Clock) >= Verification::Linked);
    }
    if archive.is_whole(block.number) && view.chain.datasets.contains(Dataset::Headers) {
        return true;
    }
    said == Said::Hashes
        && archive.level_of_tx_hashes(block.number) == Some(Verification::Roots)
        && !names_unproven(json)
}

fn names_unproven(json: &[u8]) -> bool {
    let mut parts = json.windows(UNPROVEN_FIELDS.len());
    parts.any(|part| part == UNPROVEN_FIELDS)
}

/// The acts of operators that changed what was archived, as text.
fn acts(view: &View<'_>) -> String {
    let acts = view.archive.iter().flat_map(|archive| archive.audit());
    acts.map(|entry| format!("{} {}\n", entry.at, entry.act))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unproven_fields_are_seen_by_their_name_alone() {
        for (json, expected) in [
            (r#"{"hash":"0x1","unprovenFields":["size"]}"#, true),
            (r#"[{"transactions":[{"unprovenFields":["from"]}]}]"#, true),
            (r#"{"hash":"0x1","transactions":[]}"#, false),
            // A value, and a part of a text.
            (r#"{"kind":"unprovenFields"}"#, false),
            (r#"{"extra":"\"unprovenFields\":"}"#, false),
            ("", false),
        ] {
            assert_eq!(names_unproven(json.as_bytes()), expected, "{json}");
        }
    }
}
