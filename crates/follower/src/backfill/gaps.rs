//! Mode auto: what is lacking below the head is fetched while the head is followed.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use anyhow::Result;
use chronolith_archive::Health;
use chronolith_model::{BlockRange, DatasetSet};
use tokio::sync::Semaphore;

use crate::backfill::bounded::{self, Hopeless};
use crate::chain::Chain;
use crate::ingest::{self, Trouble};

/// The pause after a failure.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often it is looked whether something is lacking, once nothing was.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Round after round, and beside them all that is lacking.
pub async fn rounds(chain: &Chain) -> Result<()> {
    let covered = chain.archive.coverage(DatasetSet::CLOCK, None);
    if chain.archive.health().head.is_none() && !covered.is_empty() {
        // A backfill was stopped before its newest range began. What it filled is not fetched again.
        bounded::begin(chain, Hopeless::TryAgain).await?;
    }
    tokio::select! {
        done = Box::pin(ingest::rounds(chain, Hopeless::TryAgain)) => done,
        never = mend(chain) => match never {},
    }
}

/// Fills what is lacking, for whoever waits for it and follows nothing meanwhile.
pub async fn mend_once(chain: &Chain) -> Result<()> {
    bounded::fill_all(chain, &Semaphore::new(1), (None, Hopeless::GiveUp)).await
}

/// Fills whatever is lacking, range by range. New blocks come first, so it is one at a time.
async fn mend(chain: &Chain) -> Infallible {
    let turns = Semaphore::new(1);
    let mut pause = PAUSE_FIRST;
    let mut trouble: Option<Trouble> = None;
    loop {
        let lacking = bounded::lacking(chain);
        let held_up = held_up(chain, &lacking);
        let why = held_up.clone().or(trouble.take().map(|it| it.to_string()));
        note(chain, &lacking, why.as_deref());
        if lacking.is_empty() || held_up.is_some() {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        }
        // A range that no source can fill must not keep those above it empty.
        for range in lacking {
            if is_halted(chain) {
                break;
            }
            let filled = bounded::fill_in_turn(chain, &turns, range, None).await;
            trouble = trouble.or(filled.err());
        }
        if trouble.is_none() {
            pause = PAUSE_FIRST;
            continue;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Why nothing is fetched for now.
fn held_up(chain: &Chain, lacking: &BTreeMap<u64, Vec<BlockRange>>) -> Option<String> {
    if is_halted(chain) {
        return Some("nothing is fetched while the archive is halted".to_owned());
    }
    let (first, last) = ends(lacking)?;
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

/// The first and the last block that are lacking.
fn ends(lacking: &BTreeMap<u64, Vec<BlockRange>>) -> Option<(u64, u64)> {
    let first = lacking.values().flatten().next()?;
    let last = lacking.values().flatten().next_back()?;
    Some((first.start, last.end.saturating_sub(1)))
}

/// Tells people what is lacking, and whoever reads the log when that changes.
fn note(chain: &Chain, lacking: &BTreeMap<u64, Vec<BlockRange>>, why: Option<&str>) {
    let name = &chain.settings.name;
    let blocks: u64 = lacking.values().flatten().map(BlockRange::len).sum();
    let said = ends(lacking).map(|(first, last)| {
        let what = format!("{blocks} blocks between {first} and {last} are lacking");
        match why {
            Some(why) => format!("{what}: {why}"),
            None => format!("{what}, they are being fetched"),
        }
    });
    let before = std::mem::replace(&mut chain.status().lacking, said.clone());
    match (said, before) {
        (Some(said), before) if before.is_none() || why.is_some() => {
            let again = before.as_ref() == Some(&said);
            match again {
                true => tracing::debug!(chain = %name, %said, "history is still lacking"),
                false => tracing::warn!(chain = %name, %said, "history is lacking"),
            }
        }
        (None, Some(_)) => tracing::info!(chain = %name, "nothing is lacking any more"),
        _ => {}
    }
}
