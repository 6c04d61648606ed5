//! Events in the order of their ids, from several log queries.
//!
//! Logs are ordered by ledger, then by transaction; ids order the events of a ledger differently. So the
//! events of a ledger are returned when every query has read all of it, and never in part.

use chronolith_archive::{Error as ArchiveError, LogRecord};
use chronolith_model::{BlockRange, Cursor, LogFilter};
use chronolith_stellar::{EventId, EventPlace};
use futures::future::try_join_all;

use super::broken;
use super::filter::Filters;
use crate::fault::Fault;
use crate::http::answer_memory::MemoryReservation;
use crate::http::context::Context;
use crate::view::View;

/// A matching event.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) id: EventId,
    pub(super) place: EventPlace,
    pub(super) record: LogRecord,
}

/// One log query on its way through the ledgers.
struct LogScan {
    filter: LogFilter,
    /// Everything below this ledger is read.
    through: u64,
    /// Where its next page begins.
    next: Option<Cursor>,
}

/// What to scan for.
#[derive(Clone, Copy)]
pub(super) struct ScanParams<'a> {
    pub(super) filters: &'a Filters,
    pub(super) range: BlockRange,
    /// Events up to this one belong to earlier pages.
    pub(super) after: Option<EventId>,
    /// Logs of one query. A few more than needed: the last ledger of a page is rarely complete.
    pub(super) page_size: usize,
}

/// Several log queries over one range, and their events.
pub(super) struct Scan<'a> {
    context: &'a Context,
    view: &'a View<'a>,
    params: ScanParams<'a>,
    scans: Vec<LogScan>,
    /// Events of ledgers that are not complete yet, in no order.
    pending: Vec<Event>,
    /// Memory of the events.
    held: Vec<MemoryReservation>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(context: &'a Context, view: &'a View<'a>, params: ScanParams<'a>) -> Self {
        let scan = |filter: LogFilter| LogScan {
            filter: LogFilter {
                limit: Some(params.page_size),
                ..filter
            },
            through: params.range.start,
            next: None,
        };
        let filters = params.filters.log_filters(params.range);
        Self {
            context,
            view,
            params,
            scans: filters.into_iter().map(scan).collect(),
            pending: Vec::new(),
            held: Vec::new(),
        }
    }

    /// The memory of the returned events.
    pub(super) fn into_held(self) -> Vec<MemoryReservation> {
        self.held
    }

    /// The first ledger that is not complete; the end of the range where all are.
    pub(super) fn through(&self) -> u64 {
        let through = self.scans.iter().map(|scan| scan.through);
        through.min().unwrap_or(self.params.range.end)
    }

    /// Continues the queries that are least far; returns the events of the ledgers that are complete now, in order.
    pub(super) async fn step(&mut self) -> Result<Vec<Event>, Fault> {
        let (context, view, range) = (self.context, self.view, self.params.range);
        let least = self.through();
        let scans = self.scans.iter_mut();
        let slowest = scans.filter(|scan| scan.through == least && least < range.end);
        let pages = slowest.map(|scan| scan.step(context, view, range));
        for (records, held) in try_join_all(pages).await? {
            self.held.push(held);
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
        if !self
            .params
            .filters
            .admit(&record.log, place.more_topics.len())
        {
            return Ok(());
        }
        let ledger = u32::try_from(number)
            .map_err(|_| broken(number, "its number has more than 32 bits"))?;
        let id = place.id(ledger);
        if self.params.after.is_none_or(|after| id > after) {
            self.pending.push(Event { id, place, record });
        }
        Ok(())
    }
}

impl LogScan {
    /// Reads the next page.
    async fn step(
        &mut self,
        context: &Context,
        view: &View<'_>,
        range: BlockRange,
    ) -> Result<(Vec<LogRecord>, MemoryReservation), Fault> {
        self.filter.cursor = self.next;
        let (page, held) = context.query(view, range, &self.filter).await?;
        self.next = page.next;
        self.through = match page.next {
            // This ledger may have more.
            Some(next) => next.block.number,
            None => range.end,
        };
        Ok((page.logs, held))
    }
}

/// Whether a limit was exceeded: fewer ledgers may stay within it.
pub(super) fn is_too_large(fault: &Fault) -> bool {
    matches!(fault, Fault::Archive(ArchiveError::TooLarge { .. }))
}

/// The ledgers before the first missing one, where there are any.
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
