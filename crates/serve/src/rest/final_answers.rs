//! Answers about logs that can never change, and their tags: a client that has one gets 304, for which no log is
//! read.
//!
//! Such an answer is about blocks that are archived, and names the first and the last of them by number. Blocks that
//! are archived later cannot add to it: where one was missing, it would have been an error. It says of the newest
//! final block and of the level what was true when it was made; both only rise. Acts of operators (rewind, repair,
//! prune) can change it, and change its tag.

use super::log_query::LogQuery;
use crate::http::caching::Tag;
use crate::view::View;

/// The tag of the answer to a request about logs of these blocks; none where it may change.
pub(super) async fn tag(view: &View<'_>, query: &LogQuery, route: &str) -> Option<Tag> {
    let last = query.numbers()?.1;
    if !view.is_final(last) {
        return None;
    }
    // Where it cannot be read, the query reports that.
    let last = view.clock(last).await.ok()??;
    let acts: Vec<String> = view
        .archive
        .iter()
        .flat_map(|archive| archive.audit())
        .map(|entry| format!("{} {}\n", entry.at, entry.act))
        .collect();
    Some(Tag::of(&[
        route.as_bytes(),
        &view.chain.id.to_le_bytes(),
        query.text().as_bytes(),
        &last.hash.0,
        acts.concat().as_bytes(),
    ]))
}
