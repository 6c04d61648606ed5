//! Mode backfill: a bounded part of history, several ranges at a time.
//!
//! The newest range is ingested upwards as any chain is; those below it are filled beside it, each from
//! its first block on, and published after every checkpoint. After a crash, what
//! coverage does not hold is all that is left to do.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Write as _;

use anyhow::{Error, Result, bail, ensure};
use chronolith_archive::{RangeReport, RangeState};
use chronolith_model::{BlockRange, BlockRef};
use futures::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::watch;

use crate::backfill::fill::{Filler, Filling};
use crate::backfill::retry_policy::{Abandoned, OnFatal, RetryBudget};
use crate::chain::Chain;
use crate::error::FollowError;
use crate::ingest;
use crate::preflight::agreement;
use crate::progress::Progress;
use crate::ranges::Ranges;
use crate::{BACKOFF, maintenance};

/// Archives everything between the chain's bounds. Fails where a range did not become complete.
pub async fn run(chain: &Chain, on_fatal: OnFatal) -> Result<()> {
    let abandoned = maintenance::beside(chain, Box::pin(fetch(chain, on_fatal))).await?;
    settle(chain, on_fatal).await?;
    judge(chain, &abandoned).await
}

/// Who fetches, and how many ranges are filled at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Ingest fetches history beside the fills: it has one of their slots.
    Ingesting,
    /// Ingest only waits, for new blocks or for the fills: the fills have every slot.
    FillsOnly,
    /// Ingest has ended. Its rounds perform what operators request; here nothing else would.
    Draining,
}

/// One of the two that work beside each other.
#[derive(Debug)]
enum Part {
    Working,
    Done,
    /// It needs an operator. The other continues.
    Abandoned(String),
}

impl Part {
    /// What a part has come to. Any error but one that ends this part alone ends both.
    fn ended(chain: &Chain, done: Result<()>) -> Result<Self> {
        let cause = match done.map_err(Error::downcast::<Abandoned>) {
            Ok(()) => return Ok(Self::Done),
            Err(Err(error)) => return Err(error),
            Err(Ok(abandoned)) => abandoned.to_string(),
        };
        let name = &chain.settings.name;
        tracing::error!(chain = %name, %cause, "part of the history abandoned, operator action required");
        Ok(Self::Abandoned(cause))
    }

    fn is_working(&self) -> bool {
        matches!(self, Self::Working)
    }
}

/// Fetches all that comes, and returns why the rest was abandoned.
async fn fetch(chain: &Chain, on_fatal: OnFatal) -> Result<Vec<String>> {
    let anchor = begin(chain, on_fatal).await?;
    let parallel = if chain.is_core_alone() {
        1
    } else {
        chain.settings.ranges.parallel
    };
    let (slots, free) = watch::channel(parallel.saturating_sub(1));
    // Boxed: both are large, and a thread of the runtime has a small stack.
    let mut ingesting = Box::pin(ingest::rounds(chain, on_fatal));
    let mut filling = Box::pin(fill_all(chain, free, anchor, on_fatal));
    let mut operating = Box::pin(operate(chain));
    let (mut ingest, mut fills) = (Part::Working, Part::Working);
    let mut phase = Phase::Ingesting;
    let mut moves = chain.moves();
    loop {
        let is_over = match (&ingest, &fills) {
            // Ingest has no end while blocks below it are missing.
            (Part::Working, Part::Abandoned(_)) => chain.is_at_end(),
            (ingest, fills) => !ingest.is_working() && !fills.is_working(),
        };
        if is_over {
            return Ok(causes([ingest, fills]));
        }
        if phase == Phase::Ingesting && (!ingest.is_working() || ingest_waits(chain)) {
            phase = Phase::FillsOnly;
            slots.send_replace(parallel);
        }
        if !ingest.is_working() {
            phase = Phase::Draining;
        }
        tokio::select! {
            done = &mut ingesting, if ingest.is_working() => ingest = Part::ended(chain, done)?,
            done = &mut filling, if fills.is_working() => fills = Part::ended(chain, done)?,
            never = &mut operating, if phase == Phase::Draining => match never {},
            // A round that ends well may move nothing.
            _ = tokio::time::timeout(chain.settings.poll, moves.changed()) => {}
        }
    }
}

/// Performs what operators request, beside the fills: an operation may wait for a lock that a fill holds.
async fn operate(chain: &Chain) -> Infallible {
    loop {
        chain.control.requested().await;
        chain.control.run_waiting().await;
    }
}

/// Whether ingest has nothing more to do than to wait. One that waits for new ledgers keeps its core.
fn ingest_waits(chain: &Chain) -> bool {
    let rests = !chain.is_core_alone() && chain.status().last_success.is_some();
    chain.is_at_end() || rests
}

/// Why parts were abandoned, each cause once.
fn causes(parts: [Part; 2]) -> Vec<String> {
    let cause = |part: Part| match part {
        Part::Abandoned(cause) => Some(cause),
        Part::Working | Part::Done => None,
    };
    let mut causes: Vec<String> = parts.into_iter().filter_map(cause).collect();
    causes.dedup();
    causes
}

/// Decides where ingest begins: with the newest range that has a final block. Returns a block that
/// endpoints must have to deliver older ones.
pub(super) async fn begin(chain: &Chain, on_fatal: OnFatal) -> Result<Option<BlockRef>> {
    if chain.is_core_alone() {
        // Its ledgers come in order, so nothing is gained by another one.
        chain.begin_at(first_missing(chain, chain.settings.start_block));
        return Ok(None);
    }
    let mut backoff = BACKOFF;
    let mut budget = RetryBudget::default();
    while chain.archive.health().head.is_none() {
        let error = match settled(chain).await {
            Ok(Some((newest, anchor))) => {
                chain.begin_at(first_block(chain, newest));
                return Ok(Some(anchor));
            }
            Ok(None) => {
                let start = chain.settings.start_block;
                let what = format!("the source has no final block from block {start} on so far");
                FollowError::Unsettled(what)
            }
            Err(error) => error,
        };
        report(chain, &error, on_fatal)?;
        if chain.end_block().is_some() {
            budget.spend(chain, &[error], 0, on_fatal)?;
        }
        chain.control.run_waiting().await;
        tokio::time::sleep(backoff.next()).await;
    }
    Ok(None)
}

/// The newest final block that is wanted by its number, and the one that vouches for it.
async fn settled(chain: &Chain) -> Result<Option<(u64, BlockRef)>, FollowError> {
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
    first_missing(chain, first.unwrap_or(start).max(start))
}

/// The first block from this one on that was not filled before.
fn first_missing(chain: &Chain, first: u64) -> u64 {
    let pinned = chain.archive.pin();
    let around = pinned.and_then(|pinned| pinned.covered_around(first));
    around.map_or(first, |range| range.end)
}

/// Reports an error, or fails with it where nothing but an operator would help and the caller does not wait for one.
fn report(chain: &Chain, error: &FollowError, on_fatal: OnFatal) -> Result<()> {
    if on_fatal == OnFatal::Exit && ingest::is_fatal(chain, error) {
        bail!("chain {}: {error}", chain.settings.name);
    }
    ingest::report(chain, error);
    Ok(())
}

/// Fills all ranges below where ingest began, the lowest first, as many at a time as there are slots.
pub(super) async fn fill_all(
    chain: &Chain,
    mut slots: watch::Receiver<usize>,
    anchor: Option<BlockRef>,
    on_fatal: OnFatal,
) -> Result<()> {
    let mut backoff = BACKOFF;
    let mut budget = RetryBudget::default();
    loop {
        let missing = missing(chain);
        if missing.is_empty() {
            return Ok(());
        }
        let blocks: u64 = missing.values().flatten().map(BlockRange::len).sum();
        let mut waiting = missing.into_iter();
        let mut running = FuturesUnordered::new();
        let mut errors = Vec::new();
        loop {
            let free = slots.borrow_and_update().saturating_sub(running.len());
            let next = waiting.by_ref().take(free);
            running.extend(next.map(|(id, gaps)| fill_range(chain, id, gaps, anchor)));
            if running.is_empty() && waiting.len() == 0 {
                break;
            }
            tokio::select! {
                Some(done) = running.next() => if let Err(error) = done {
                    report(chain, &error, on_fatal)?;
                    errors.push(error);
                },
                Ok(()) = slots.changed() => {}
            }
        }
        if errors.is_empty() {
            backoff.reset();
        } else {
            budget.spend(chain, &errors, blocks, on_fatal)?;
            tokio::time::sleep(backoff.next()).await;
        }
    }
}

/// What is missing below where ingest is, by range. Without an end, only blocks that are not there at all
/// are: those that came before more was kept are fetched again when an operator requests it.
pub(super) fn missing(chain: &Chain) -> BTreeMap<u64, Vec<BlockRange>> {
    let next = chain.archive_next();
    let gaps = match chain.end_block() {
        Some(end) => chain.missing_below(next.min(end.saturating_add(1))),
        None => chain.gaps_below(next),
    };
    let geometry = chain.archive.geometry();
    let mut by_range: BTreeMap<u64, Vec<BlockRange>> = BTreeMap::new();
    for gap in gaps {
        let mut at = gap.start;
        while at < gap.end {
            let id = geometry.id_of(at).unwrap_or(0);
            let end = geometry.blocks_of(id).end.max(at + 1).min(gap.end);
            let gaps = by_range.entry(id).or_default();
            gaps.push(BlockRange::new(at, end));
            at = end;
        }
    }
    by_range
}

/// Fills the gaps of one range.
pub(super) async fn fill_range(
    chain: &Chain,
    id: u64,
    gaps: Vec<BlockRange>,
    anchor: Option<BlockRef>,
) -> Result<(), FollowError> {
    let filler = Filler {
        chain: &chain.settings,
        archive: &chain.archive,
        source: &chain.source,
    };
    let progress = Progress::in_log(format!("range {id}"), &chain.settings.name);
    let all: u64 = gaps.iter().map(BlockRange::len).sum();
    let moved = || chain.note_moved();
    let mut filling = Filling::new(progress, all, &moved);
    // A gap that no source can fill must not keep the others empty.
    let mut done = Ok(());
    for gap in gaps {
        done = done.and(filler.fill_gap(gap, anchor, &mut filling).await);
    }
    done
}

/// Brings everything that is full into its last form.
async fn settle(chain: &Chain, on_fatal: OnFatal) -> Result<()> {
    let mut backoff = BACKOFF;
    loop {
        chain.control.run_waiting().await;
        let Err(error) = maintenance::settle(chain).await else {
            return Ok(());
        };
        report(chain, &error, on_fatal)?;
        tokio::time::sleep(backoff.next()).await;
    }
}

/// Whether every range between the bounds is complete; one that they cut holds all that is wanted of it.
async fn judge(chain: &Chain, abandoned: &[String]) -> Result<()> {
    let (name, start) = (&chain.settings.name, chain.settings.start_block);
    let end = chain.end_block().unwrap_or(u64::MAX);
    let ranges = Ranges::of(&chain.archive, &chain.ran).await;
    let missing = chain.missing_below(end.saturating_add(1));
    let mut bad = String::new();
    for range in ranges.between(start, end) {
        let RangeReport {
            id, first, last, ..
        } = range;
        let is_cut = *first < start || *last > end;
        let blocks = BlockRange::new(*first, last.saturating_add(1));
        let is_there = missing.iter().all(|gap| gap.intersect(&blocks).is_none());
        let state = range.state.name();
        match range.state {
            RangeState::Complete if is_there => {}
            RangeState::Failed => {
                let failure = range.failure.as_ref();
                let cause = failure.map_or("", |failure| failure.cause.as_str());
                let _ = write!(
                    bad,
                    "\n  range {id} (blocks {first}-{last}) is FAILED: {cause}; repair it, then \
                     `chronolith range retry --chain {name} {id}`"
                );
            }
            _ if is_cut && is_there => {
                tracing::info!(event = "range_cut_by_bounds", chain = %name, range = id, state, first, last, end, "range is cut by the bounds, every requested block of it is archived");
            }
            _ => {
                let _ = write!(bad, "\n  range {id} (blocks {first}-{last}) is {state}");
            }
        }
    }
    for cause in abandoned {
        let _ = write!(bad, "\n  abandoned: {cause}");
    }
    ensure!(
        bad.is_empty(),
        "chain {name}: not every range is complete:{bad}"
    );
    tracing::info!(chain = %name, start, end, "every requested block is archived");
    Ok(())
}
