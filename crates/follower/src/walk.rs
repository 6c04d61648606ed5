//! The hash-linked walk from what is known to the source's head.

use std::collections::HashMap;
use std::sync::Arc;

use chronolith_finality::{
    Endpoint, Fault, Observation, Settings as WindowSettings, Step, TailError,
};
use chronolith_model::{BlockRange, BlockRef, Hash32};
use chronolith_source::{Fetched, Heads};

use crate::backfill::append::proven;
use crate::chain::{Chain, Held, Window};
use crate::clock::now;
use crate::counters::Reorg;
use crate::error::FollowError;
use crate::settings::Finality;
use crate::{dispute, ingest, replica};

/// Blocks that are requested at once. As many may also be held beside a full tail.
const STEP_BLOCKS: u64 = 64;
/// How far back a fork is looked for before the round fails.
const BACK_MAX: usize = 4_096;

/// Walks to the source's head. What becomes final on the way is archived on the way, so that the
/// tail stays small however large the lag is.
pub async fn to_head(chain: &Chain, heads: &Heads) -> Result<(), FollowError> {
    if replaced(chain, heads.head) {
        let at_head = fetch(chain, BlockRange::one(heads.head.number)).await?;
        offer_all(chain, heads, at_head).await?;
    }
    loop {
        let next = next_block(chain);
        if next > heads.head.number {
            return Ok(());
        }
        if chain.control.is_requested() {
            return Err(FollowError::Interrupted);
        }
        let fetched = match take_held(chain, heads) {
            Some(held) => held,
            None => {
                let end = next.saturating_add(step_blocks(chain));
                let end = end.min(heads.head.number.saturating_add(1));
                fetch_below_mark(chain, BlockRange::new(next, end)).await?
            }
        };
        offer_all(chain, heads, fetched).await?;
        if !chain.is_replica {
            ingest::finalize(chain, &ingest::observe(chain, heads)).await?;
        }
    }
}

/// The block above everything that we know.
pub fn next_block(chain: &Chain) -> u64 {
    let head = chain.window().tracker.head();
    head.map_or_else(|| chain.begins_at(), |head| head.number.saturating_add(1))
}

/// How many blocks to fetch next: as many as fit, by the average size of those that wait. One
/// is fetched in any case; if it does not fit, it is held until it does.
fn step_blocks(chain: &Chain) -> u64 {
    let window = chain.window();
    let places = WindowSettings::default()
        .window_blocks_max
        .saturating_sub(window.tracker.window_blocks());
    let average = window.tail.bytes().div_ceil(window.tail.len().max(1));
    let fitting = window
        .tail
        .bytes_free()
        .checked_div(average)
        .unwrap_or(usize::MAX);
    (places.min(fitting) as u64).clamp(1, STEP_BLOCKS)
}

/// The newest block that the source reports final in the way that this chain's rule counts.
fn vouched(chain: &Chain, heads: &Heads) -> Option<u64> {
    let mark = match chain.settings.finality {
        Finality::Depth(_) => None,
        Finality::Finalized => heads.finalized,
        Finality::Safe | Finality::Dual { .. } => heads.safe,
    };
    mark.map(|block| block.number)
}

/// The blocks that found no room before, where they can still be offered: they extend what is known, and
/// the source has not reported their heights final since they were fetched. A block that came before such a
/// mark may be on a fork that the mark is not on, so it is fetched again.
fn take_held(chain: &Chain, heads: &Heads) -> Option<Vec<Fetched>> {
    let mut window = chain.window();
    let held = std::mem::take(&mut window.held);
    let (first, last) = (held.blocks.first()?, held.blocks.last()?);
    let head = window.tracker.head();
    let extends = head.is_none_or(|head| head.hash == first.block.clock.parent_hash);
    let is_there = last.block.clock.number <= heads.head.number;
    let vouched = vouched(chain, heads);
    let newly_vouched = |one: &Fetched| {
        let number = Some(one.block.clock.number);
        number > held.vouched && number <= vouched
    };
    let usable = extends && is_there && !held.blocks.iter().any(newly_vouched);
    usable.then_some(held.blocks)
}

/// Archives what is final by now. Returns whether that made room.
async fn make_room(chain: &Chain, heads: &Heads) -> Result<bool, FollowError> {
    let waiting = || {
        let window = chain.window();
        (window.tail.len(), window.tracker.window_blocks())
    };
    let before = waiting();
    if chain.is_replica {
        replica::align(chain).await?
    } else {
        ingest::finalize(chain, &ingest::observe(chain, heads)).await?
    }
    Ok(waiting() < before)
}

/// Whether the block that the source calls its head is at a height that we know another block of.
fn replaced(chain: &Chain, head: BlockRef) -> bool {
    let known = chain.window().tracker.hash_at(head.number);
    known.is_some_and(|known| known != head.hash)
}

/// Blocks that a finality report covers are final once they are offered: only endpoints that have its very
/// block are used for them. Returns none above it, so that the rest is fetched without.
async fn fetch_below_mark(chain: &Chain, range: BlockRange) -> Result<Vec<Fetched>, FollowError> {
    let mark = chain.window().tracker.newest_reported();
    let mark = mark.and_then(|mark| {
        let (number, hash) = (mark.number, mark.hash?);
        (number >= range.start).then_some(BlockRef { number, hash })
    });
    let Some(mark) = mark else {
        return fetch(chain, range).await;
    };
    let range = BlockRange::new(range.start, range.end.min(mark.number.saturating_add(1)));
    Ok(chain.source.fetch(range, &chain.want, Some(mark)).await?)
}

async fn fetch(chain: &Chain, range: BlockRange) -> Result<Vec<Fetched>, FollowError> {
    Ok(chain.source.fetch(range, &chain.want, None).await?)
}

/// Offers blocks in order, going back where they stand on a fork.
async fn offer_all(chain: &Chain, heads: &Heads, fetched: Vec<Fetched>) -> Result<(), FollowError> {
    // The next to offer is the last.
    let mut due: Vec<Fetched> = fetched.into_iter().rev().collect();
    let mut syncing = HashMap::new();
    while let Some(one) = due.pop() {
        let shown_by = Endpoint {
            head: heads.head.number,
            syncing: is_deep_reorg(chain, &one) && is_syncing(chain, &one, &mut syncing).await?,
        };
        let number = one.block.clock.number;
        let Some((one, why)) = offer(chain, &shown_by, one)? else {
            chain.note_there(number);
            continue;
        };
        match why {
            NotTaken::NoRoom(why) => {
                due.push(one);
                if !make_room(chain, heads).await? {
                    chain.meters.tail_full.increment(1);
                    due.reverse();
                    chain.window().held = Held {
                        blocks: due,
                        vouched: vouched(chain, heads),
                    };
                    return Err(FollowError::TailFull(why));
                }
            }
            NotTaken::Before { number, hash } => {
                chain.note_missing(number);
                due.push(one);
                if due.len() > BACK_MAX {
                    let what = "a fork is longer than can be followed";
                    return Err(FollowError::Unsettled(what.to_owned()));
                }
                let before = fetch(chain, BlockRange::one(number)).await?;
                let other = |one: &Fetched| hash.is_some_and(|hash| hash != one.block.clock.hash);
                if before.iter().any(other) {
                    // The fork is gone again, or endpoints are on different ones: the next round tries again.
                    let what = format!("block {number} is another one by now");
                    return Err(FollowError::Unsettled(what));
                }
                due.extend(before);
            }
            NotTaken::Violation => return Err(violation(chain, &one).await),
        }
    }
    Ok(())
}

/// Whether a block would replace more of our blocks than an endpoint may that is syncing or below our head.
fn is_deep_reorg(chain: &Chain, one: &Fetched) -> bool {
    let clock = &one.block.clock;
    let tracker = &chain.window().tracker;
    let known = tracker.hash_at(clock.number);
    let worst = Endpoint {
        head: 0,
        syncing: true,
    };
    let depth = tracker.reorg_depth(clock.number);
    known.is_some_and(|known| known != clock.hash) && tracker.allows_reorg(depth, &worst).is_err()
}

/// Whether the endpoint of a block reports that it is syncing; requested once in a walk.
async fn is_syncing(
    chain: &Chain,
    one: &Fetched,
    known: &mut HashMap<Arc<str>, bool>,
) -> Result<bool, FollowError> {
    if let Some(syncing) = known.get(&one.endpoint) {
        return Ok(*syncing);
    }
    let syncing = chain.source.syncing(&one.endpoint).await?;
    known.insert(one.endpoint.clone(), syncing);
    Ok(syncing)
}

/// Why a block was not taken.
enum NotTaken {
    /// Too much waits for finality already, for this reason.
    NoRoom(String),
    /// This block must come first.
    Before { number: u64, hash: Option<Hash32> },
    /// It replaces a final block.
    Violation,
}

/// Offers a block to tracker and tail. One that they do not take comes back with the reason.
fn offer(
    chain: &Chain,
    shown_by: &Endpoint,
    one: Fetched,
) -> Result<Option<(Fetched, NotTaken)>, FollowError> {
    let mut window = chain.window();
    let window = &mut *window;
    let clock = &one.block.clock;
    let head = window.tracker.head();
    let extends = head.is_none_or(|head| head.hash == clock.parent_hash);
    if extends && !window.tail.has_room(&one.block) {
        let (blocks, mib) = (window.tail.len(), chain.settings.tail_bytes >> 20);
        let why = format!(
            "the blocks that wait for finality fill the memory for them: no new block is accepted until \
             some are final; raise tailMib if this lasts (blocks={blocks}, tailMib={mib})"
        );
        return Ok(Some((one, NotTaken::NoRoom(why))));
    }
    let depth = window.tracker.reorg_depth(clock.number);
    let known = window.tracker.hash_at(clock.number);
    if known.is_some_and(|known| known != clock.hash) {
        let allowed = window.tracker.allows_reorg(depth, shown_by);
        allowed.map_err(|refused| FollowError::Unsettled(refused.to_string()))?;
    }
    let steps = match window.tracker.accept(clock) {
        Ok(steps) => steps,
        Err(Fault::ParentUnknown { wanted, hash }) => {
            let (number, hash) = (wanted, Some(hash));
            return Ok(Some((one, NotTaken::Before { number, hash })));
        }
        Err(Fault::Gap { expected, .. }) => {
            let (number, hash) = (expected, None);
            return Ok(Some((one, NotTaken::Before { number, hash })));
        }
        Err(Fault::FinalityViolation { .. } | Fault::Below { .. }) => {
            return Ok(Some((one, NotTaken::Violation)));
        }
        Err(fault @ Fault::WindowFull { .. }) => {
            return Ok(Some((one, NotTaken::NoRoom(fault.to_string()))));
        }
    };
    let done = follow(chain, window, steps, one);
    // Depth alone may make something final with each block.
    window.tracker.observe(&Observation::at(now()));
    chain.note_moved();
    done.map(|()| None)
}

/// Brings the tail to where the tracker is.
fn follow(
    chain: &Chain,
    window: &mut Window,
    steps: Vec<Step>,
    one: Fetched,
) -> Result<(), FollowError> {
    let mut due = Some(proven(one));
    for step in steps {
        let done = match step {
            Step::Extend(_) => {
                let one = due.take().expect("a block is accepted once");
                chain.seen.note_blocks(std::iter::once(&*one.block));
                chain.seen.note_head(&one.block.clock);
                window.tail.push(one)
            }
            Step::Rollback { to } => roll_back(chain, window, to),
            Step::Finalize(_) => Ok(()),
        };
        if let Err(error) = done {
            // Tracker and tail differ: both start again above the archive.
            *window = chain.window_above_archive()?;
            return Err(FollowError::Unsettled(error.to_string()));
        }
    }
    Ok(())
}

/// Drops every block above one, and reports the reorg.
fn roll_back(chain: &Chain, window: &mut Window, to: BlockRef) -> Result<(), TailError> {
    let gone = window.tail.rollback(to)?;
    let blocks = gone.len();
    let dropped = gone.iter().map(|block| block.clock.block_ref());
    if let Some(reorg) = Reorg::of(dropped, to, now()) {
        chain.seen.note_reorg(reorg);
    }
    tracing::info!(event = "reorg", chain = %chain.settings.name, to = to.number, blocks, "reorg");
    chain.meters.reorgs.increment(1);
    chain.meters.reorg_depth.record(blocks as f64);
    Ok(())
}

/// A final block was replaced, or an endpoint claims so: the block at the archive's head decides. If that
/// is another one at every endpoint, the archive halts.
async fn violation(chain: &Chain, one: &Fetched) -> FollowError {
    if let Err(error) = dispute::head(chain, &one.endpoint).await {
        return error;
    }
    let what = "it contradicts a final block that others confirm";
    chain
        .source
        .report_bad(&one.endpoint, one.block.clock.block_ref(), what);
    let number = one.block.clock.number;
    FollowError::Disagreement(format!(
        "block {number}: {what} (endpoint={})",
        one.endpoint
    ))
}
