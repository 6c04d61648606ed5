//! Events in the order of their ids, from several log queries.
//!
//! Logs are ordered by ledger, then by transaction; ids order the events of a ledger differently. So the
//! events of a ledger are returned when every query has read all of it, and never in part.
//!
//! Memory is counted for the events that are kept. That of the pages they come from is given back: most of their logs
//! may be rejected, and a scan reads any number of pages.

use bytes::Bytes;
use chronolith_archive::{Error as ArchiveError, LogRecord};
use chronolith_model::{BlockRange, Cursor, LogFilter};
use chronolith_stellar::{EventId, EventPlace};
use futures::future::try_join_all;

use super::broken;
use super::filter::Filters;
use crate::fault::{Fault, Retry};
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

/// What an event takes in memory beside its bytes: itself, and the head of the allocation.
const EVENT_BYTES: usize = size_of::<Event>() + 32;

impl Event {
    /// About how many bytes it takes in memory.
    fn bytes(&self) -> usize {
        let more_topics = self.place.more_topics.len() * size_of::<Bytes>();
        EVENT_BYTES + more_topics + self.record.log.byte_len()
    }
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
    /// Bytes of the events that were returned.
    returned: usize,
    /// Memory of pending and returned events.
    held: MemoryReservation,
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
            returned: 0,
            held: MemoryReservation::default(),
        }
    }

    /// The memory of the returned events.
    pub(super) fn into_held(self) -> MemoryReservation {
        self.held
    }

    /// The first ledger that is not complete; the end of the range where all are.
    pub(super) fn through(&self) -> u64 {
        let through = self.scans.iter().map(|scan| scan.through);
        through.min().unwrap_or(self.params.range.end)
    }

    /// Continues the queries that are least far; returns the events of the ledgers that are complete now, in order.
    /// After a fault the scan is over: some of its queries may have gone on.
    pub(super) async fn step(&mut self) -> Result<Vec<Event>, Fault> {
        let (context, view, range) = (self.context, self.view, self.params.range);
        let least = self.through();
        let scans = self.scans.iter_mut();
        let slowest = scans.filter(|scan| scan.through == least && least < range.end);
        let pages = slowest.map(|scan| scan.step(context, view, range));
        let mut held_by_pages = Vec::new();
        for (records, held) in try_join_all(pages).await? {
            held_by_pages.push(held);
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
        self.returned += whole.iter().map(Event::bytes).sum::<usize>();
        self.hold_events(held_by_pages).await?;
        Ok(whole)
    }

    /// Holds memory for the events that are kept, instead of that for whole pages.
    async fn hold_events(&mut self, held_by_pages: Vec<MemoryReservation>) -> Result<(), Fault> {
        let pending: usize = self.pending.iter().map(Event::bytes).sum();
        let kept = self.returned + pending;
        if !self.context.try_grow(&mut self.held, kept) {
            // The pages themselves may have what is missing.
            drop(held_by_pages);
            self.context.grow(&mut self.held, kept).await?;
        }
        Ok(())
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

/// What follows a fault of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// The page ends with the ledgers that are complete: the client continues behind them.
    End,
    /// Another scan, of fewer ledgers.
    Retry(BlockRange),
    Fail,
}

/// What follows a fault of a scan of these ledgers, which are complete below `through`.
pub(super) fn after_fault(fault: &Fault, range: BlockRange, through: u64) -> Next {
    let is_short_of_room = is_too_large(fault) || fault.retry() == Retry::LessBusy;
    if is_short_of_room && through > range.start {
        return Next::End;
    }
    let less = smaller(fault, range).or_else(|| before_gap(fault, range));
    less.map_or(Next::Fail, Next::Retry)
}

/// Whether a limit was exceeded: fewer ledgers may stay within it.
fn is_too_large(fault: &Fault) -> bool {
    matches!(fault, Fault::Archive(ArchiveError::TooLarge { .. }))
}

/// The ledgers before the first missing one, where there are any.
fn before_gap(fault: &Fault, range: BlockRange) -> Option<BlockRange> {
    let Fault::Archive(ArchiveError::NotCovered { missing, .. }) = fault else {
        return None;
    };
    let less = BlockRange::new(range.start, missing.start.max(range.start));
    Some(less).filter(|less| !less.is_empty() && less.len() < range.len())
}

/// Fewer ledgers, where there are several: those that fit, or half of them.
fn smaller(fault: &Fault, range: BlockRange) -> Option<BlockRange> {
    let Fault::Archive(ArchiveError::TooLarge { fits, .. }) = fault else {
        return None;
    };
    let half = range.start + range.len() / 2;
    let end = fits.map_or(half, |fits| fits.end.min(half.max(range.start + 1)));
    let less = BlockRange::new(range.start, end.max(range.start));
    Some(less).filter(|less| !less.is_empty() && less.len() < range.len())
}

#[cfg(test)]
mod tests {
    use chronolith_archive::Budget;

    use super::*;

    /// A call that ran out of memory used to be an error after any number of complete ledgers.
    #[test]
    fn a_page_ends_where_the_next_ledgers_have_no_room() {
        let range = BlockRange::new(10, 20);
        let too_large = || {
            Fault::Archive(ArchiveError::TooLarge {
                budget: Budget::Candidates,
                limit: 5,
                fits: None,
            })
        };
        let gap_from = |start| {
            Fault::Archive(ArchiveError::NotCovered {
                missing: BlockRange::new(start, 20),
                covered: BlockRange::new(10, start),
            })
        };
        for (fault, through, next) in [
            (Fault::Busy, 10, Next::Fail),
            (Fault::Busy, 12, Next::End),
            (Fault::Archive(ArchiveError::NoMemory), 10, Next::Fail),
            (Fault::Archive(ArchiveError::NoMemory), 12, Next::End),
            (too_large(), 10, Next::Retry(BlockRange::new(10, 15))),
            (too_large(), 12, Next::End),
            (gap_from(14), 12, Next::Retry(BlockRange::new(10, 14))),
            (gap_from(10), 10, Next::Fail),
            (Fault::Empty, 12, Next::Fail),
        ] {
            assert_eq!(
                after_fault(&fault, range, through),
                next,
                "{fault}: {through}"
            );
        }
    }
}
