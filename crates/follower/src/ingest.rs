//! The whole system on one page: a chain's way from its endpoints into the archive.
//!
//! ```text
//!  endpoints ─► source ─► verify ─► tracker ─┬─► tail     not final, may roll back
//!               fetch      prove     accept  └─► archive  final, never changes
//! ```
//!
//! A round asks where the chain stands, fetches the final history that is missing straight into the
//! archive, walks the rest block by block into the tail, and moves what has become final from there
//! into the archive. A block leaves the tail only when a published state of the archive holds it.

use std::time::{Duration, Instant};

use chronolith_archive::{Error as ArchiveError, Health};
use chronolith_finality::{Observation, ReportedBlock, Stall};
use chronolith_model::{BlockRange, BlockRef, DatasetSet, ErrorKind, Proof, Scope};
use chronolith_source::{Heads, Want};
use tracing::Instrument as _;
use tracing::field::Empty;

use crate::BACKOFF;
use crate::backfill::retry_policy::{OnFatal, RetryBudget};
use crate::backfill::{append, bounded, gaps};
use crate::chain::{Chain, Severity};
use crate::clock::now;
use crate::error::FollowError;
use crate::pace::Pace;
use crate::preflight::{agreement, streaming};
use crate::settings::{Finality, Mode};
use crate::{maintenance, walk};

/// A source that contradicts itself for this long needs an operator.
const LASTS_AFTER: Duration = Duration::from_secs(120);

/// Follows a chain forever, or to the end where its mode has one. Every failure is reported and retried:
/// one chain's error never affects another, and what is archived is still served.
pub async fn run(chain: &Chain) -> anyhow::Result<()> {
    if chain.settings.mode == Mode::Streaming {
        streaming::wait(chain).await?;
    }
    // A backfill that can never end fails at once.
    if chain.end_block().is_some()
        && let Err(error) = chain.admit().await
        && error.kind() == ErrorKind::Invalid
    {
        anyhow::bail!("chain {}: {error}", chain.settings.name);
    }
    let work = Box::pin(async {
        match chain.end_block() {
            Some(_) => Box::pin(bounded::run(chain, OnFatal::Retry)).await,
            None if chain.settings.mode == Mode::Auto => {
                maintenance::beside(chain, Box::pin(gaps::rounds(chain))).await
            }
            None => maintenance::beside(chain, Box::pin(rounds(chain, OnFatal::Retry))).await,
        }
    });
    tokio::select! {
        () = chain.source.listen() => Ok(()),
        done = beside_l1(chain, work) => done,
    }
}

/// Works while the chain below, where there is one, is followed beside it.
pub async fn beside_l1<T>(chain: &Chain, work: impl Future<Output = T>) -> T {
    let Some(l1) = &chain.l1 else {
        return work.await;
    };
    tokio::select! {
        done = work => done,
        never = l1.follow() => match never {},
    }
}

/// Round after round: after each hint of a new head, and as often as is set without one.
pub async fn rounds(chain: &Chain, on_fatal: OnFatal) -> anyhow::Result<()> {
    let mut hints = chain.source.hints();
    let mut backoff = BACKOFF;
    let mut budget = RetryBudget::default();
    let mut pace = Pace::default();
    loop {
        hints.mark_unchanged();
        chain.control.run_waiting().await;
        let next = walk::next_block(chain);
        match round(chain).await {
            Ok(()) if chain.is_complete() => return Ok(()),
            Ok(()) => {
                report_stall(chain);
                backoff.reset();
                let pause = pace.pause_after(&chain.settings, behind(chain, next));
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    Ok(()) = hints.changed() => {}
                    () = chain.control.requested() => {}
                }
            }
            Err(FollowError::Interrupted) => {}
            Err(error) if on_fatal == OnFatal::Exit && is_fatal(chain, &error) => {
                anyhow::bail!("chain {}: {error}", chain.settings.name);
            }
            Err(error) => {
                report(chain, &error);
                // The next head may come with more that is final, and that makes room.
                let is_full = matches!(error, FollowError::TailFull(_));
                if chain.end_block().is_some() {
                    budget.spend(chain, &[error], chain.archive_next(), on_fatal)?;
                }
                let pause = backoff.next();
                let wait = if is_full { chain.settings.poll } else { pause };
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    Ok(()) = hints.changed(), if is_full => {}
                    () = chain.control.requested() => {}
                }
            }
        }
    }
}

/// How many blocks there were to fetch from this one on.
fn behind(chain: &Chain, next: u64) -> u64 {
    let head = chain.status().source_head;
    head.map_or(0, |(head, _)| {
        head.number.saturating_add(1).saturating_sub(next)
    })
}

/// One round, and what is known of the chain after it.
pub async fn round(chain: &Chain) -> Result<(), FollowError> {
    let span = tracing::debug_span!("round", chain = chain.settings.chain_id, outcome = Empty);
    let done = catch_up(chain).instrument(span.clone()).await;
    let outcome = if done.is_ok() { "success" } else { "error" };
    span.record("outcome", outcome);
    match &done {
        Ok(()) => {
            let mut status = chain.status();
            status.last_success = Some(Instant::now());
            status.failing_since = None;
            drop(status);
            chain.meters.good_rounds.increment(1);
        }
        Err(_) => chain.meters.failed_rounds.increment(1),
    }
    done
}

/// From where the chain was to where it is now.
async fn catch_up(chain: &Chain) -> Result<(), FollowError> {
    if chain.is_at_end() {
        return chain.maintenance.check();
    }
    chain.source.note_next(walk::next_block(chain));
    if let Some(head) = chain.archive.health().head {
        chain.source.note_archived(head.number);
    }
    let heads = chain.heads().await?;
    if let Health::Halted(halt) = chain.archive.health().health {
        // A halted archive takes no block, so none is fetched. The status still has the source's head.
        chain.note_source_head(heads.head);
        let reason = halt.reason;
        return Err(ArchiveError::Halted { reason }.into());
    }
    chain.note_source_head(heads.head);
    check_not_set_back(chain, &heads)?;
    if let Some(l1) = &chain.l1 {
        l1.note_safe(heads.safe);
        l1.wait_once().await;
    }
    let next = walk::next_block(chain);
    if next <= heads.head.number {
        chain.note_missing(next);
    }
    // What is final by now leaves the tail first: a full one has no room for the walk.
    finalize(chain, &observe(chain, &heads)).await?;
    if let Some(history) = missing_history(chain, &heads).await? {
        agreement::check(chain, history.anchor).await?;
        let before = chain.archive.health().head;
        let filled = Box::pin(append::run(chain, &history)).await;
        chain.note_archived();
        // Also after a failure: what was archived before it lies below everything known. Where nothing was, the
        // blocks of the tail are still the newest known ones.
        let reset = if chain.archive.health().head == before {
            Ok(())
        } else {
            chain.reset_window()
        };
        filled?;
        reset?;
        if chain.is_at_end() {
            return chain.maintenance.check();
        }
    }
    // The walk asks for what a mark covers: it must be the newest one, an old one may be replaced.
    let seen = observe(chain, &heads);
    chain.window().tracker.note(&seen);
    walk::to_head(chain, &heads).await?;
    finalize(chain, &observe(chain, &heads)).await?;
    chain.maintenance.check()
}

/// A source whose newest block is below the archive has nothing new: it was set back or is syncing. The
/// archive takes nothing back for it, and the operator should know at once.
fn check_not_set_back(chain: &Chain, heads: &Heads) -> Result<(), FollowError> {
    let head = chain.archive.health().head;
    let Some(head) = head.filter(|head| head.number > heads.head.number) else {
        return Ok(());
    };
    Err(FollowError::Unsettled(format!(
        "the source's newest block {} is below block {}, which is archived: the node was set back or is syncing; nothing is taken back, repair the node or give another endpoint",
        heads.head.number, head.number
    )))
}

/// Final blocks to fetch, and a block that endpoints must have to deliver them.
pub struct History {
    pub range: BlockRange,
    pub anchor: BlockRef,
}

/// Blocks that are final by now and lie above everything we know: their order is settled, so they are
/// fetched many at a time. What is in the tail below them is fetched again.
async fn missing_history(chain: &Chain, heads: &Heads) -> Result<Option<History>, FollowError> {
    // Nothing becomes final while L1 is silent, however it is fetched.
    if chain.l1_is_silent() {
        return Ok(None);
    }
    let Some((settled, named)) = settled(chain, heads) else {
        return Ok(None);
    };
    // One more than is wanted: it vouches for the last and is not archived.
    let beyond = chain.end_block().map(|end| end.saturating_add(1));
    let settled = beyond.map_or(settled, |beyond| beyond.min(settled));
    let head = chain.window().tracker.head();
    if head.is_some_and(|head| settled <= head.number) {
        return Ok(None);
    }
    let next = chain.archive_next();
    let range = BlockRange::new(next, settled.saturating_add(1).max(next));
    // The last of them is left to the walk.
    if range.len() <= 1 {
        return Ok(None);
    }
    let anchor = match named {
        Some(named) => named,
        None => below_head(chain, settled, heads.head).await?,
    };
    Ok(Some(History { range, anchor }))
}

/// The height below which all is final, and the block that vouches for it where the heads name one.
pub fn settled(chain: &Chain, heads: &Heads) -> Option<(u64, Option<BlockRef>)> {
    let named = |block: BlockRef| (block.number, Some(block));
    match chain.settings.finality {
        // Its head would be replaced by every reorg at the tip, long before the history is fetched.
        Finality::Depth(confirmations) => {
            let settled = heads.head.number.checked_sub(confirmations)?;
            Some((settled, None))
        }
        Finality::Finalized => heads.finalized.map(named),
        Finality::Safe => heads.safe.map(named),
        Finality::Dual { l2_depth, .. } => {
            let deep = heads.head.number.checked_sub(l2_depth)?;
            let finalized = heads.finalized?;
            Some((finalized.number.min(deep), Some(finalized)))
        }
    }
}

/// The block at a height on the chain of this head, from an endpoint that has the head: an endpoint on another
/// fork counts its own confirmations.
pub async fn below_head(
    chain: &Chain,
    number: u64,
    head: BlockRef,
) -> Result<BlockRef, FollowError> {
    let want = Want {
        datasets: DatasetSet::CLOCK,
        scope: Scope::All,
        proof: Proof::CLAIMED,
    };
    let range = BlockRange::one(number);
    let fetched = chain.source.fetch(range, &want, Some(head)).await?;
    let gone = || FollowError::Unsettled(format!("block {number} is not there any more"));
    let block = fetched.first().map(|one| one.block.clock.block_ref());
    block.ok_or_else(gone)
}

/// What the heads mean to this chain's rule, as an observation of now.
pub fn observe(chain: &Chain, heads: &Heads) -> Observation {
    if let Some(l1) = &chain.l1 {
        // It was made a while ago: the tracker must know when.
        let seen = l1.seen();
        chain.window().tracker.note(&seen);
        return Observation::at(now());
    }
    let mark = |block: Option<BlockRef>| block.map(ReportedBlock::from);
    let finalized = match chain.settings.finality {
        Finality::Safe => heads.safe,
        _ => heads.finalized,
    };
    Observation {
        finalized: mark(finalized),
        safe: mark(heads.safe),
        // A chain without one below is its own.
        l1_head: Some(heads.head.number),
        now: now(),
    }
}

/// Moves what is final from the tail into the archive.
pub async fn finalize(chain: &Chain, seen: &Observation) -> Result<(), FollowError> {
    chain.window().tracker.observe(seen);
    let finalized = chain.window().tracker.finalized();
    let Some(finalized) = finalized else {
        return Ok(());
    };
    let next = chain.archive_next();
    let tail = chain.tail();
    let last = chain.end_block().unwrap_or(u64::MAX).min(finalized.number);
    let range = BlockRange::new(next, last.saturating_add(1).max(next));
    let newest = tail.blocks_in(range).last();
    if let Some(newest) = newest.map(|block| block.clock.block_ref()) {
        agreement::check(chain, newest).await?;
    }
    append::append_proven(chain, tail.proven_in(range).cloned()).await?;
    if let Some(head) = chain.archive.health().head {
        chain.window().tail.drop_through(head.number);
        chain.note_moved();
    }
    Ok(())
}

/// Blocks may come without any becoming final: the status and the log say why.
fn report_stall(chain: &Chain) {
    let stall = chain.window().tracker.stalled(now());
    let both = stall.map(|stall| match &chain.l1 {
        Some(l1) if matches!(stall, Stall::L1Silent { .. }) => {
            let (reason, public) = l1.reason();
            (format!("{stall}: {reason}"), format!("{stall}: {public}"))
        }
        _ => (stall.to_string(), stall.to_string()),
    });
    let reason = both.as_ref().map(|(reason, _)| reason.clone());
    let before = chain.status().set_error(both);
    let name = &chain.settings.name;
    // What L1 says of itself changes while it is silent; that it is silent is logged once.
    let known = |stall: &Stall| {
        let before = before.as_deref();
        before.is_some_and(|before| before.starts_with(&stall.to_string()))
    };
    match (stall, reason) {
        (Some(stall), Some(reason)) if !known(&stall) => {
            tracing::warn!(event = "finality_stalled", chain = %name, %reason, "finality stalled");
        }
        (None, _) if before.is_some() => {
            tracing::info!(event = "ingest_recovered", chain = %name, "ingest recovered")
        }
        _ => {}
    }
}

/// Whether no later round can succeed until an operator acts. A block that does not fit is the endpoint's
/// fault, and another one may have the right one.
pub fn is_fatal(chain: &Chain, error: &FollowError) -> bool {
    let halted = matches!(chain.archive.health().health, Health::Halted(_));
    let does_not_fit = matches!(
        error,
        FollowError::Archive(
            ArchiveError::BadParent { .. }
                | ArchiveError::BadBlock { .. }
                | ArchiveError::Gap { .. }
        )
    );
    // A job of the archive that panicked does so again.
    let is_bug = matches!(
        error,
        FollowError::Archive(ArchiveError::Internal(_))
            | FollowError::Maintenance {
                kind: ErrorKind::Internal,
                ..
            }
    );
    halted || is_bug || (error.kind() == ErrorKind::Invalid && !does_not_fit)
}

/// Shows an error in the status, and logs it where it is new.
pub fn report(chain: &Chain, error: &FollowError) {
    let name = &chain.settings.name;
    let message = error.to_string();
    let (again, severity) = {
        let mut status = chain.status();
        let known = status.set_error(Some((message.clone(), error.public_text())));
        let since = *status.failing_since.get_or_insert_with(Instant::now);
        let severity = severity(error, since.elapsed());
        let before = status.logged_as.replace(severity);
        let same = known.as_deref() == Some(message.as_str());
        (same && before == Some(severity), severity)
    };
    match severity {
        _ if again => tracing::debug!(chain = %name, %error, "ingest still failing"),
        Severity::Error => {
            tracing::error!(event = "ingest_stopped", chain = %name, %error, "ingest stopped, still serving");
        }
        Severity::Warning => {
            tracing::warn!(event = "ingest_failing", chain = %name, %error, "ingest failing, retrying");
        }
    }
}

/// How an error is logged after this long without a good round. A source that contradicts itself may be
/// right with the next answer, so that is an error only once it lasts.
fn severity(error: &FollowError, lasted: Duration) -> Severity {
    match (error, error.kind()) {
        (FollowError::Source(_), ErrorKind::Disagreement) if lasted < LASTS_AFTER => {
            Severity::Warning
        }
        (_, ErrorKind::Disagreement | ErrorKind::Corrupt | ErrorKind::Internal)
        | (FollowError::Source(_) | FollowError::Refused(_), ErrorKind::Invalid) => Severity::Error,
        _ => Severity::Warning,
    }
}

#[cfg(test)]
mod tests {
    use chronolith_source::Error as SourceError;

    use super::*;

    /// A Portal that sends one wrong line and the right one half a minute later needs no operator.
    #[test]
    fn a_contradiction_is_an_error_only_once_it_lasts() {
        let wrong = || {
            FollowError::Source(SourceError::Inconsistent {
                endpoint: "a".to_owned(),
                number: 7,
                what: "its hash".to_owned(),
            })
        };
        let halted = FollowError::Maintenance {
            kind: ErrorKind::Disagreement,
            message: "a final block was replaced".to_owned(),
        };
        let brief = LASTS_AFTER / 2;
        for (error, lasted, expected) in [
            (wrong(), brief, Severity::Warning),
            (wrong(), LASTS_AFTER, Severity::Error),
            (halted, Duration::ZERO, Severity::Error),
            (
                FollowError::Refused("another chain".to_owned()),
                Duration::ZERO,
                Severity::Error,
            ),
            (
                FollowError::Unsettled("a fork".to_owned()),
                LASTS_AFTER * 100,
                Severity::Warning,
            ),
        ] {
            assert_eq!(severity(&error, lasted), expected, "{error:?} {lasted:?}");
        }
    }
}
