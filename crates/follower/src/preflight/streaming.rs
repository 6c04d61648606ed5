//! Mode streaming: nothing is followed over a gap.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail, ensure};
use chronolith_archive::{Geometry, RangeReport, RangeState};
use chronolith_model::{BlockRange, ErrorKind};

use crate::chain::Chain;
use crate::ranges::Ranges;
use crate::settings::Mode;
use crate::{BACKOFF, ingest};

/// Whole ranges above the head that are named: the message is for people.
const NAMED_MAX: usize = 100;

/// Refuses to start where a range below the newest one is not complete, or whole ranges are missing.
pub async fn check(chain: &Chain) -> Result<()> {
    if chain.settings.mode != Mode::Streaming {
        return Ok(());
    }
    chain.source.note_next(chain.archive_next());
    let heads = if chain.is_admitted() {
        match chain.source.heads().await {
            // A core reports nothing before its first ledger.
            Err(error) if chain.has_core() && error.kind() == ErrorKind::Unavailable => None,
            heads => Some(heads.context("cannot request the chain's head")?),
        }
    } else {
        // The source is down: only the archive is checked here, and the rest by `wait`.
        None
    };
    let settled = heads.and_then(|heads| ingest::settled(chain, &heads));
    let settled = settled.map(|(settled, _)| settled);
    let ranges = Ranges::of(&chain.archive, &chain.ran).await;
    let start = chain.settings.start_block;
    let Some(head) = ranges.head else {
        let newest = heads.map(|heads| heads.head.number);
        let end = settled.or(newest).map(|end| end.to_string());
        let end = end.unwrap_or_else(|| "<the newest that is closed>".to_owned());
        bail!(
            "Cannot start streaming mode - the archive is empty\n\nAction required: Run backfill with \
             --start-ledger {start} --end-ledger {end}"
        );
    };
    let missing = chain.gaps_below(head.saturating_add(1));
    let found = Found {
        geometry: ranges.geometry,
        start,
        head,
        settled: settled.unwrap_or(head),
        missing: &missing,
    };
    let bad = found.incomplete(&ranges.all);
    let name = &chain.settings.name;
    ensure!(bad.is_empty(), "{}", found.message(&bad, name));
    Ok(())
}

/// Waits for a source that did not answer at the start, then does the checks that need it.
///
/// # Errors
/// There is a gap.
pub async fn wait(chain: &Chain) -> Result<()> {
    if chain.is_admitted() {
        return Ok(());
    }
    let mut backoff = BACKOFF;
    while let Err(error) = chain.admit().await {
        ingest::report(chain, &error);
        chain.control.run_waiting().await;
        tokio::select! {
            () = tokio::time::sleep(backoff.next()) => {}
            () = chain.control.requested() => {}
        }
    }
    check(chain).await
}

/// What a gap is looked for in.
struct Found<'a> {
    geometry: Geometry,
    /// The first block that is wanted.
    start: u64,
    /// The newest archived block.
    head: u64,
    /// The newest final block of the source.
    settled: u64,
    /// Blocks that are missing between the first and the newest one.
    missing: &'a [BlockRange],
}

impl Found<'_> {
    /// Ranges over which nothing is followed.
    fn incomplete(&self, known: &[RangeReport]) -> Vec<RangeReport> {
        let id_of = |block| self.geometry.id_of(block).unwrap_or(0);
        let (first, newest) = (id_of(self.start), id_of(self.head));
        let report = |id: u64| {
            let known = known.iter().find(|range| range.id == id).cloned();
            known.unwrap_or_else(|| RangeReport::pending(self.geometry, id))
        };
        let below = (first..=newest).map(report);
        let mut bad: Vec<RangeReport> = below.filter(|range| self.is_gap(range)).collect();
        // Ingest continues the newest range and the next one: only whole ranges are a gap.
        let above = (newest.saturating_add(1)..).map(report);
        let whole = above.take_while(|range| range.last <= self.settled);
        bad.extend(whole.take(NAMED_MAX));
        bad
    }

    fn is_gap(&self, range: &RangeReport) -> bool {
        let blocks = self.geometry.blocks_of(range.id);
        let mut missing = self.missing.iter();
        if missing.any(|gap| gap.intersect(&blocks).is_some()) {
            return true;
        }
        // The range that the next block belongs to.
        let next = self.head.saturating_add(1);
        let next = self.geometry.id_of(next).unwrap_or(0);
        match range.state {
            RangeState::Complete => false,
            RangeState::Pending | RangeState::Failed => true,
            // One that is cut by the first block that is wanted misses nothing, and is never complete.
            RangeState::Ingesting => range.id != next && blocks.start >= self.start,
            // Every block is there, and the transition continues beside the newest range: it may be one
            // that was archived before ranges were kept.
            RangeState::Transitioning => false,
        }
    }

    /// The message for the operator.
    fn message(&self, bad: &[RangeReport], chain: &str) -> String {
        let mut message = "Cannot start streaming mode - incomplete ranges detected:\n".to_owned();
        let mut end = self.head;
        for range in bad {
            let RangeReport {
                id, first, last, ..
            } = range;
            let state = range.state.name();
            let committed = range.last_committed;
            let committed = committed.map_or("none".to_owned(), |block| block.to_string());
            // Writing to a string does not fail.
            let _ = writeln!(
                message,
                "  Range {id} (ledgers {first}-{last}): state={state}, last_committed={committed}"
            );
            end = end.max(*last);
        }
        // A range that holds the head is not full yet.
        let end = if self.geometry.id_of(self.head) == self.geometry.id_of(end) {
            self.head
        } else {
            end
        };
        let _ = write!(
            message,
            "\nAction required: Re-run backfill with --start-ledger {} --end-ledger {end}",
            self.start
        );
        let failed = bad.iter().filter(|range| range.state == RangeState::Failed);
        for RangeReport { id, failure, .. } in failed {
            let failure = failure.as_ref();
            let cause = failure.map_or("", |failure| failure.cause.as_str());
            let _ = write!(
                message,
                "\nRange {id} failed: {cause}. Repair it, then `chronolith range retry --chain {chain} {id}`"
            );
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry = Geometry {
        first: 2,
        size: 10_000_000,
    };

    fn ranges(states: &[RangeState]) -> Vec<RangeReport> {
        let one = |(id, &state): (usize, &RangeState)| RangeReport {
            state,
            ..RangeReport::pending(GEOMETRY, id as u64)
        };
        states.iter().enumerate().map(one).collect()
    }

    fn bad(known: &[RangeReport], head: u64, settled: u64) -> Vec<u64> {
        let found = Found {
            geometry: GEOMETRY,
            start: 2,
            head,
            settled,
            missing: &[],
        };
        let bad = found.incomplete(known);
        bad.iter().map(|range| range.id).collect()
    }

    use RangeState::{Complete, Failed, Ingesting, Pending, Transitioning};

    /// The message of the requirement, sign by sign.
    #[test]
    fn the_message_is_that_of_the_requirement() {
        let mut known = ranges(&[Complete, Ingesting, Complete]);
        known[1].last_committed = Some(15_000_000);
        let found = Found {
            geometry: GEOMETRY,
            start: 2,
            head: 30_000_001,
            settled: 30_500_000,
            missing: &[BlockRange::new(15_000_001, 20_000_002)],
        };
        let bad = found.incomplete(&known);
        assert_eq!(
            found.message(&bad, "pubnet"),
            "Cannot start streaming mode - incomplete ranges detected:\n  \
             Range 1 (ledgers 10000002-20000001): state=INGESTING, last_committed=15000000\n\n\
             Action required: Re-run backfill with --start-ledger 2 --end-ledger 30000001"
        );
    }

    #[test]
    fn what_is_no_gap() {
        let all = ranges(&[Complete, Complete, Complete]);
        assert_eq!(bad(&all, 30_000_001, 39_999_999), [0; 0]);
        // The last range is being written, and the one below it is on its way.
        let all = ranges(&[Complete, Complete, Complete, Transitioning, Ingesting]);
        assert_eq!(bad(&all, 40_500_000, 40_500_100), [0; 0]);
        let all = ranges(&[Complete, Complete, Complete, Transitioning]);
        assert_eq!(bad(&all, 40_000_001, 40_000_001), [0; 0]);
        // Every range of an archive from before ranges were kept is yet to be verified.
        let all = ranges(&[Transitioning, Transitioning, Transitioning, Ingesting]);
        assert_eq!(bad(&all, 35_000_000, 35_000_000), [0; 0]);
        // A few blocks on both sides of a border passed meanwhile.
        let all = ranges(&[Complete, Ingesting]);
        assert_eq!(bad(&all, 20_000_000, 20_000_100), [0; 0]);
    }

    #[test]
    fn what_is_a_gap() {
        let all = ranges(&[Complete, Failed, Complete]);
        assert_eq!(bad(&all, 30_000_001, 30_000_001), [1]);
        let all = ranges(&[Complete, Pending, Complete]);
        assert_eq!(bad(&all, 30_000_001, 30_000_001), [1]);
        assert_eq!(
            bad(&all[2..], 30_000_001, 30_000_001),
            [0, 1],
            "not known at all"
        );
        let one_missing = Found {
            geometry: GEOMETRY,
            start: 2,
            head: 35_000_000,
            settled: 35_000_000,
            missing: &[BlockRange::new(12_000_000, 12_000_001)],
        };
        let all = ranges(&[Transitioning, Transitioning, Transitioning, Ingesting]);
        assert_eq!(
            one_missing.incomplete(&all).len(),
            1,
            "one block is missing"
        );
        let all = ranges(&[Complete, Complete, Failed]);
        assert_eq!(bad(&all, 30_000_001, 30_000_001), [2], "the newest one too");
        // A whole range came meanwhile.
        let all = ranges(&[Complete, Complete, Ingesting]);
        assert_eq!(bad(&all, 25_000_000, 40_000_001), [3]);
    }

    #[test]
    fn a_failed_range_is_named_with_the_way_out() {
        let mut known = ranges(&[Complete, Failed, Complete]);
        known[1].last_committed = Some(20_000_001);
        let found = Found {
            geometry: GEOMETRY,
            start: 2,
            head: 30_000_001,
            settled: 30_000_001,
            missing: &[],
        };
        let message = found.message(&found.incomplete(&known), "pubnet");
        assert!(
            message.contains("state=FAILED, last_committed=20000001\n"),
            "{message}"
        );
        assert!(
            message.contains("`chronolith range retry --chain pubnet 1`"),
            "{message}"
        );
    }
}
