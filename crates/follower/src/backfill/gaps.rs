//! Mode auto: history that is missing below the head is fetched while the head is followed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use anyhow::Result;
use chronolith_archive::Health;
use chronolith_model::{BlockRange, DatasetSet};
use tokio::sync::watch;

use crate::BACKOFF;
use crate::backfill::bounded;
use crate::backfill::retry_policy::OnFatal;
use crate::chain::Chain;
use crate::error::FollowError;
use crate::ingest;

/// How often coverage is checked for gaps, once there was none.
const CHECK_EVERY: Duration = Duration::from_secs(60);

/// Follows the head, and fills gaps beside it.
pub async fn rounds(chain: &Chain) -> Result<()> {
    let covered = chain.archive.coverage(DatasetSet::CLOCK, None);
    if chain.archive.health().head.is_none() && !covered.is_empty() {
        // A backfill was stopped before its newest range began. What it filled is not fetched again.
        bounded::begin(chain, OnFatal::Retry).await?;
    }
    tokio::select! {
        done = Box::pin(ingest::rounds(chain, OnFatal::Retry)) => done,
        never = fill_gaps(chain) => match never {},
    }
}

/// Fills every gap, for a caller that waits for it and follows nothing meanwhile.
pub async fn fill_once(chain: &Chain) -> Result<()> {
    let (_slots, one) = watch::channel(1);
    bounded::fill_all(chain, one, None, OnFatal::Exit).await
}

/// Fills gaps forever, one range at a time: new blocks come first.
async fn fill_gaps(chain: &Chain) -> Infallible {
    let mut backoff = BACKOFF;
    let mut error: Option<FollowError> = None;
    loop {
        let missing = bounded::missing(chain);
        let blocked = blocked(chain, &missing);
        let failed = error
            .take()
            .map(|error| (error.to_string(), error.public_text()));
        let why = blocked.clone().map(|why| (why.clone(), why)).or(failed);
        note(chain, &missing, why);
        if missing.is_empty() || blocked.is_some() {
            tokio::select! {
                () = tokio::time::sleep(CHECK_EVERY) => {}
                () = chain.more_is_wanted() => {}
            }
            continue;
        }
        // A range that no source can fill must not keep those above it empty.
        for (id, gaps) in missing {
            if is_halted(chain) {
                break;
            }
            let filled = bounded::fill_range(chain, id, gaps, None).await;
            error = error.or(filled.err());
        }
        if error.is_none() {
            backoff.reset();
        } else {
            tokio::time::sleep(backoff.next()).await;
        }
    }
}

/// Why nothing is fetched for now.
fn blocked(chain: &Chain, missing: &BTreeMap<u64, Vec<BlockRange>>) -> Option<String> {
    if is_halted(chain) {
        return Some("nothing is fetched while the archive is halted".to_owned());
    }
    let (first, last) = ends(missing)?;
    chain
        .is_core_alone()
        .then(|| core_is_busy(&chain.settings.name, first, last))
}

fn is_halted(chain: &Chain) -> bool {
    matches!(chain.archive.health().health, Health::Halted(_))
}

/// What to do where a core cannot bring history, because it follows the network.
pub fn core_is_busy(chain: &str, from: u64, to: u64) -> String {
    format!(
        "the only core follows the network and cannot fetch history beside it: stop the node and run \
         `chronolith backfill --chain {chain} --from {from} --to {to}`, or give the chain a lake"
    )
}

/// The first and the last block that are missing.
fn ends(missing: &BTreeMap<u64, Vec<BlockRange>>) -> Option<(u64, u64)> {
    let first = missing.values().flatten().next()?;
    let last = missing.values().flatten().next_back()?;
    Some((first.start, last.end.saturating_sub(1)))
}

/// Shows what is missing in the status, and logs changes of it.
fn note(chain: &Chain, missing: &BTreeMap<u64, Vec<BlockRange>>, why: Option<(String, String)>) {
    let (why, public_why) = why.unzip();
    let name = &chain.settings.name;
    let blocks: u64 = missing.values().flatten().map(BlockRange::len).sum();
    let summary_with = |why: Option<&String>| {
        ends(missing).map(|(first, last)| {
            let what = format!("{blocks} blocks between {first} and {last} are missing");
            match why {
                Some(why) => format!("{what}: {why}"),
                None => format!("{what}, they are being fetched"),
            }
        })
    };
    let summary = summary_with(why.as_ref());
    let before = {
        let mut status = chain.status();
        status.public_gaps = summary_with(public_why.as_ref());
        std::mem::replace(&mut status.gaps, summary.clone())
    };
    match (summary, before) {
        (Some(summary), before) if before.is_none() || why.is_some() => {
            if before.as_ref() == Some(&summary) {
                tracing::debug!(chain = %name, %summary, "history still has gaps")
            } else {
                tracing::warn!(event = "history_has_gaps", chain = %name, %summary, "history has gaps")
            }
        }
        (None, Some(_)) => tracing::info!(event = "gaps_filled", chain = %name, "gaps filled"),
        _ => {}
    }
}
