//! Mode backfill: a bounded part of history, several ranges at a time.
//!
//! The newest range is ingested upwards as any chain is; those below it are filled beside it, each from
//! its first block on, and published after every checkpoint. After a crash what coverage lacks is all that
//! is left to do.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, bail};
use chronolith_archive::{RangeReport, RangeState};
use chronolith_model::{BlockRange, BlockRef};
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Semaphore;

use crate::backfill::fill::{Refill, Told};
use crate::backfill::retry_policy::{Left, Part, Patience};
use crate::chain::Chain;
use crate::ingest::{self, Trouble};
use crate::maintenance;
use crate::preflight::agreement;
use crate::progress::Progress;
use crate::ranges::Ranges;

/// The pause after a failure.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What happens where no later try can end well either, until a human acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hopeless {
    /// It is told and tried again: somebody may act while the program runs.
    TryAgain,
    GiveUp,
}

/// Archives everything between the chain's bounds. Fails where a range did not become complete.
pub async fn run(chain: &Chain, hopeless: Hopeless) -> Result<()> {
    let given_up = maintenance::beside(chain, Box::pin(fetch(chain, hopeless))).await?;
    settle(chain, hopeless).await?;
    judge(chain, &given_up).await
}

/// Fetches all that comes, and returns why the rest was given up.
async fn fetch(chain: &Chain, hopeless: Hopeless) -> Result<Vec<String>> {
    let anchor = begin(chain, hopeless).await?;
    let parallel = match chain.is_core_alone() {
        true => 1,
        false => chain.settings.plan.parallel,
    };
    // Ingest has one of the turns until it is at the end.
    let turns = Semaphore::new(parallel.saturating_sub(1));
    let left = Left::default();
    // Boxed: both are large, and a thread of the runtime has a small stack.
    let ingest = async {
        let done = Box::pin(ingest::rounds(chain, hopeless)).await;
        left.note(chain, Part::Ingest, done)
    };
    let fills = async {
        let done = Box::pin(fill_all(chain, &turns, (anchor, hopeless))).await;
        left.note(chain, Part::Fills, done)
    };
    let work = async { tokio::try_join!(ingest, fills) };
    tokio::select! {
        done = work => done.map(|_| ())?,
        () = left.is_all(chain) => {}
        never = hand_on(chain, &turns, &left) => match never {},
    }
    Ok(left.causes())
}

/// Gives the turn of ingest to the fills, once it has nothing more to do than to wait.
async fn hand_on(chain: &Chain, turns: &Semaphore, left: &Left) -> Infallible {
    let mut moves = chain.moves();
    // One that waits for new ledgers keeps its core.
    let rests = || !chain.is_core_alone() && chain.status().good_round.is_some();
    let is_over = || left.has(Part::Ingest);
    let waits = || chain.is_at_end() || rests() || is_over();
    while !waits() {
        // A round that ends well may move nothing.
        let _ = tokio::time::timeout(chain.settings.poll, moves.changed()).await;
    }
    turns.add_permits(1);
    while !is_over() {
        let _ = tokio::time::timeout(chain.settings.poll, moves.changed()).await;
    }
    // Rounds do what operators ask for, and there are none any more.
    loop {
        chain.control.requested().await;
        chain.control.run_waiting().await;
    }
}

/// Decides where ingest begins: with the newest range that has a final block. Returns a block that whoever
/// delivers older ones must have.
pub async fn begin(chain: &Chain, hopeless: Hopeless) -> Result<Option<BlockRef>> {
    if chain.is_core_alone() {
        // Its ledgers come in order, so nothing is gained by another one.
        chain.begin_at(first_lacking(chain, chain.settings.start_block));
        return Ok(None);
    }
    let mut pause = PAUSE_FIRST;
    let mut patience = Patience::default();
    while chain.archive.health().head.is_none() {
        let trouble = match settled(chain).await {
            Ok(Some((newest, anchor))) => {
                chain.begin_at(first_block(chain, newest));
                return Ok(Some(anchor));
            }
            Ok(None) => {
                let start = chain.settings.start_block;
                let what = format!("the source has no final block from block {start} on so far");
                Trouble::Unsettled(what)
            }
            Err(trouble) => trouble,
        };
        tell(chain, Some(&trouble), hopeless)?;
        if chain.end_block().is_some() {
            patience.check(chain, &[trouble], (0, hopeless))?;
        }
        chain.control.run_waiting().await;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Ok(None)
}

/// The newest final block that is wanted by its number, and the one that vouches for it.
async fn settled(chain: &Chain) -> Result<Option<(u64, BlockRef)>, Trouble> {
    chain.source.note_next(chain.archive_next());
    let heads = chain.heads().await?;
    let Some((settled, named)) = ingest::settled(chain, &heads) else {
        return Ok(None);
    };
    let newest = chain.end_block().unwrap_or(settled).min(settled);
    let anchor = match named {
        Some(named) => named,
        None => ingest::below_head(chain, settled, heads.head).await?,
    };
    agreement::check(chain, anchor).await?;
    Ok((newest >= chain.settings.start_block).then_some((newest, anchor)))
}

/// The first block of the newest range that was not filled before.
fn first_block(chain: &Chain, newest: u64) -> u64 {
    let geometry = chain.archive.geometry();
    let start = chain.settings.start_block;
    let first = geometry.id_of(newest).map(|id| geometry.first_of(id));
    first_lacking(chain, first.unwrap_or(start).max(start))
}

/// The first block from this one on that was not filled before.
fn first_lacking(chain: &Chain, first: u64) -> u64 {
    let pinned = chain.archive.pin();
    let around = pinned.and_then(|pinned| pinned.covered_around(first));
    around.map_or(first, |range| range.end)
}

/// Tells of trouble, and gives up where that was asked for and nothing else would help.
fn tell(chain: &Chain, trouble: Option<&Trouble>, hopeless: Hopeless) -> Result<()> {
    let Some(trouble) = trouble else {
        return Ok(());
    };
    if hopeless == Hopeless::GiveUp && ingest::is_hopeless(chain, trouble) {
        bail!("chain {}: {trouble}", chain.settings.name);
    }
    ingest::report(chain, trouble);
    Ok(())
}

/// Fills all ranges below where ingest began, the lowest first, as many at a time as there are turns.
pub async fn fill_all(
    chain: &Chain,
    turns: &Semaphore,
    (anchor, hopeless): (Option<BlockRef>, Hopeless),
) -> Result<()> {
    let mut pause = PAUSE_FIRST;
    let mut patience = Patience::default();
    loop {
        let lacking = lacking(chain);
        if lacking.is_empty() {
            return Ok(());
        }
        let blocks: u64 = lacking.values().flatten().map(BlockRange::len).sum();
        let mut fills = FuturesUnordered::new();
        for gaps in lacking {
            fills.push(fill_in_turn(chain, turns, gaps, anchor));
        }
        let mut failed = Vec::new();
        while let Some(done) = fills.next().await {
            tell(chain, done.as_ref().err(), hopeless)?;
            failed.extend(done.err());
        }
        if !failed.is_empty() {
            patience.check(chain, &failed, (blocks, hopeless))?;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        } else {
            pause = PAUSE_FIRST;
        }
    }
}

/// What is lacking below where ingest is, by range. Without an end, only blocks that are not there at all
/// are: those that came before more was kept are fetched again when somebody asks for it.
pub fn lacking(chain: &Chain) -> BTreeMap<u64, Vec<BlockRange>> {
    let next = chain.archive_next();
    let gaps = match chain.end_block() {
        Some(end) => chain.lacking_below(next.min(end.saturating_add(1))),
        None => chain.holes_below(next),
    };
    let geometry = chain.archive.geometry();
    let mut by_range: BTreeMap<u64, Vec<BlockRange>> = BTreeMap::new();
    for gap in gaps {
        let mut at = gap.start;
        while at < gap.end {
            let id = geometry.id_of(at).unwrap_or(0);
            let end = geometry.blocks_of(id).end.max(at + 1).min(gap.end);
            by_range
                .entry(id)
                .or_default()
                .push(BlockRange::new(at, end));
            at = end;
        }
    }
    by_range
}

pub async fn fill_in_turn(
    chain: &Chain,
    turns: &Semaphore,
    (id, gaps): (u64, Vec<BlockRange>),
    anchor: Option<BlockRef>,
) -> Result<(), Trouble> {
    // The semaphore is never closed.
    let _turn = turns.acquire().await.ok();
    let refill = Refill {
        chain: &chain.settings,
        archive: &chain.archive,
        source: &chain.source,
    };
    let progress = Progress::in_log(format!("range {id}"), &chain.settings.name);
    let all: u64 = gaps.iter().map(BlockRange::len).sum();
    let moved = || chain.note_moved();
    let mut told = Told::new(progress, all, &moved);
    // One that no source can fill must not keep the others empty.
    let mut done = Ok(());
    for gap in gaps {
        done = done.and(refill.fill_gap(gap, anchor, &mut told).await);
    }
    done
}

/// Brings everything that is full into its last form.
async fn settle(chain: &Chain, hopeless: Hopeless) -> Result<()> {
    let mut pause = PAUSE_FIRST;
    loop {
        chain.control.run_waiting().await;
        let Err(trouble) = maintenance::settle(chain).await else {
            return Ok(());
        };
        tell(chain, Some(&trouble), hopeless)?;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Whether every range between the bounds is complete; one that they cut holds all that is wanted of it.
async fn judge(chain: &Chain, given_up: &[String]) -> Result<()> {
    let (name, start) = (&chain.settings.name, chain.settings.start_block);
    let end = chain.end_block().unwrap_or(u64::MAX);
    let ranges = Ranges::of(&chain.archive, &chain.ran).await;
    let lacking = chain.lacking_below(end.saturating_add(1));
    let mut bad = String::new();
    for range in ranges.between(start, end) {
        let RangeReport {
            id, first, last, ..
        } = range;
        let is_cut = *first < start || *last > end;
        let blocks = BlockRange::new(*first, last.saturating_add(1));
        let is_there = lacking.iter().all(|gap| gap.intersect(&blocks).is_none());
        let state = range.state.name();
        match range.state {
            RangeState::Complete if is_there => {}
            RangeState::Failed => {
                let cause = range
                    .failure
                    .as_ref()
                    .map_or("", |failure| failure.cause.as_str());
                let _ = write!(
                    bad,
                    "\n  range {id} (blocks {first}-{last}) is FAILED: {cause}; mend it, then \
                     `chronolith range retry --chain {name} {id}`"
                );
            }
            _ if is_cut && is_there => {
                tracing::info!(chain = %name, range = id, state, first, last, end, "the bounds cut this range: all that is wanted of it is archived");
            }
            _ => {
                let _ = write!(bad, "\n  range {id} (blocks {first}-{last}) is {state}");
            }
        }
    }
    for cause in given_up {
        let _ = write!(bad, "\n  given up: {cause}");
    }
    match bad.is_empty() {
        true => {
            tracing::info!(chain = %name, start, end, "every block that is wanted is archived");
            Ok(())
        }
        false => bail!("chain {name}: not every range is complete:{bad}"),
    }
}
