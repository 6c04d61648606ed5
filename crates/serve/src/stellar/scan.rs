//! Events in the order of their ids, out of several questions to archive and tail.
//!
//! The archive answers ledger by ledger, and in a ledger by transactions; ids order the events of a ledger
//! otherwise. So a ledger is handed on when every question has answered all of it, and never in part.

use chronolith_archive::{Error as ArchiveError, LogRecord};
use chronolith_model::{BlockRange, Cursor, LogFilter};
use chronolith_stellar::{EventId, EventPlace};
use futures::future::try_join_all;
use tokio::sync::OwnedSemaphorePermit;

use super::broken;
use super::filter::Filters;
use crate::fault::Fault;
use crate::http::context::Context;
use crate::view::View;

/// An event that is wanted.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) id: EventId,
    pub(super) place: EventPlace,
    pub(super) record: LogRecord,
}

/// One question on its way through the ledgers.
struct LogScan {
    filter: LogFilter,
    /// Everything below this ledger was found.
    through: u64,
    /// Where its next page begins, where there is one.
    next: Option<Cursor>,
}

/// Several of them, and what they found.
pub(super) struct Scan<'a> {
    context: &'a Context,
    view: &'a View<'a>,
    filters: &'a Filters,
    range: BlockRange,
    scans: Vec<LogScan>,
    /// What was found and not handed on, in no order.
    pending: Vec<Event>,
    /// Memory for what was found.
    held: Vec<OwnedSemaphorePermit>,
    /// Events up to here were handed on by an earlier call.
    after: Option<EventId>,
}

impl<'a> Scan<'a> {
    /// Through a range of ledgers, behind an event. A page of an answer should hold a little more than is
    /// wanted: the last ledger of a page is rarely whole.
    pub(super) fn new(
        (context, view): (&'a Context, &'a View<'a>),
        filters: &'a Filters,
        (range, after): (BlockRange, Option<EventId>),
        page: usize,
    ) -> Self {
        let scan = |filter: LogFilter| LogScan {
            filter: LogFilter {
                limit: Some(page),
                ..filter
            },
            through: range.start,
            next: None,
        };
        Self {
            context,
            view,
            filters,
            range,
            scans: filters.log_filters(range).into_iter().map(scan).collect(),
            pending: Vec::new(),
            held: Vec::new(),
            after,
        }
    }

    /// The memory of what was handed on.
    pub(super) fn into_held(self) -> Vec<OwnedSemaphorePermit> {
        self.held
    }

    /// The first ledger that is not whole yet; the end of the range where all are.
    pub(super) fn through(&self) -> u64 {
        let through = self.scans.iter().map(|scan| scan.through);
        through.min().unwrap_or(self.range.end)
    }

    /// Asks on where the least is known; hands on the events of the ledgers that became whole, in order.
    pub(super) async fn step(&mut self) -> Result<Vec<Event>, Fault> {
        let (context, view, range) = (self.context, self.view, self.range);
        let least = self.through();
        let slow = self.scans.iter_mut();
        let slow = slow.filter(|scan| scan.through == least && least < range.end);
        let pages = slow.map(|scan| scan.step(context, view, range));
        for (records, held) in try_join_all(pages).await? {
            self.held.extend(held);
            for record in records {
                self.take(record)?;
            }
        }
        let through = self.through();
        let (mut whole, rest): (Vec<Event>, Vec<Event>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|event| event.record.block.number < through);
        self.pending = rest;
        whole.sort_unstable_by_key(|event| event.id);
        whole.dedup_by_key(|event| event.id);
        Ok(whole)
    }

    fn take(&mut self, record: LogRecord) -> Result<(), Fault> {
        let number = record.block.number;
        let place = EventPlace::read(&record.log).map_err(|fault| broken(number, fault))?;
        if !self.filters.admit(&record.log, place.more_topics.len()) {
            return Ok(());
        }
        let ledger = u32::try_from(number).map_err(|_| broken(number, "no such number"))?;
        let id = place.id(ledger);
        if self.after.is_none_or(|after| id > after) {
            self.pending.push(Event { id, place, record });
        }
        Ok(())
    }
}

impl LogScan {
    /// The next page of its answer.
    async fn step(
        &mut self,
        context: &Context,
        view: &View<'_>,
        range: BlockRange,
    ) -> Result<(Vec<LogRecord>, Option<OwnedSemaphorePermit>), Fault> {
        self.filter.cursor = self.next;
        let (page, held) = context.query(view, range, &self.filter).await?;
        self.next = page.next;
        self.through = match page.next {
            // There may be more of this ledger.
            Some(next) => next.block.number,
            None => range.end,
        };
        Ok((page.logs, held))
    }
}

/// Whether an answer did not come in its limits. With fewer ledgers to look through it may.
pub(super) fn is_too_large(fault: &Fault) -> bool {
    matches!(fault, Fault::Archive(ArchiveError::TooLarge { .. }))
}

/// The ledgers before the first that is lacking, where there are any.
pub(super) fn before_gap(fault: &Fault, range: BlockRange) -> Option<BlockRange> {
    let Fault::Archive(ArchiveError::NotCovered { missing, .. }) = fault else {
        return None;
    };
    let less = BlockRange::new(range.start, missing.start.max(range.start));
    Some(less).filter(|less| !less.is_empty() && less.len() < range.len())
}

/// Fewer ledgers, where there are several: those that fit, or half of them.
pub(super) fn smaller(fault: &Fault, range: BlockRange) -> Option<BlockRange> {
    let Fault::Archive(ArchiveError::TooLarge { fits, .. }) = fault else {
        return None;
    };
    let half = range.start + range.len() / 2;
    let end = fits.map_or(half, |fits| fits.end.min(half.max(range.start + 1)));
    let less = BlockRange::new(range.start, end.max(range.start));
    Some(less).filter(|less| !less.is_empty() && less.len() < range.len())
}
