//! Logs of archive and tail as one list: in order, without gap or duplicate where the two meet.

use std::sync::Arc;

use chronolith_archive::{
    AnswerMemory as ArchiveMemory, Budget, Error as ArchiveError, LogMatcher, LogRecord,
    after_cursor, check_cursor,
};
use chronolith_model::{
    Block, BlockRange, Cursor, Dataset, Log, LogFilter, Order, Proof, Select, Verification,
};

use crate::fault::Fault;
use crate::http::answer_memory::{AnswerMemory, MemoryReservation};
use crate::http::limits::AnswerLimits;
use crate::view::View;

/// Logs, and where the next page begins.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) logs: Vec<LogRecord>,
    /// None where there are no more logs.
    pub(crate) next: Option<Cursor>,
    /// The lowest level among the blocks that the page covers.
    pub(crate) level: Option<Verification>,
}

impl Page {
    fn lower_level(&mut self, level: Option<Verification>) {
        self.level = self.level.into_iter().chain(level).min();
    }

    /// Bytes of its logs.
    fn bytes(&self) -> u64 {
        self.logs.iter().map(|one| one.log.byte_len() as u64).sum()
    }

    fn end(&self) -> Option<Cursor> {
        self.logs.last().map(LogRecord::cursor)
    }
}

/// What a log takes in memory beside its bytes: the record, and the head of the allocation.
const RECORD_BYTES: usize = size_of::<LogRecord>() + 32;

/// The memory of a page: it is counted while logs are found, or many large pages at once would take any amount
/// until they are whole.
pub(crate) struct PageMemory {
    memory: AnswerMemory,
    pub(crate) held: MemoryReservation,
    /// Logs and bytes of the tail, beside those that the archive finds.
    before: (usize, u64),
    /// What there was no memory for.
    pub(crate) missed: Missed,
}

/// What is held for a page of which only the first logs are known.
const GUESSED_BYTES_MAX: usize = 16 << 20;

/// Logs for which there was no memory, and what they take.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Missed {
    logs: usize,
    pub(crate) bytes: usize,
}

impl Missed {
    /// What a page of at most this many logs and bytes takes where the other logs are like these, and somewhat more. Not
    /// much more than is known, where that is a lot: what a page holds and does not need, others wait for.
    pub(crate) fn page_bytes(&self, logs_max: usize, bytes_max: u64) -> usize {
        let mean = self.bytes / self.logs.max(1);
        let rest = logs_max.saturating_sub(self.logs).saturating_mul(mean);
        let whole = self.bytes.saturating_add(rest);
        let whole = whole.saturating_add(whole / 4);
        let known = self.bytes.saturating_mul(4).max(GUESSED_BYTES_MAX);
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let possible = bytes_max.saturating_add(logs_max.saturating_mul(RECORD_BYTES));
        whole.min(known).min(possible)
    }
}

impl PageMemory {
    /// What is held already counts for it.
    pub(crate) fn new(memory: AnswerMemory, held: MemoryReservation) -> Self {
        Self {
            memory,
            held,
            before: (0, 0),
            missed: Missed::default(),
        }
    }

    /// Holds memory for a whole page, and no more.
    pub(crate) fn hold_page(&mut self, page: &Page) -> Result<(), Fault> {
        self.before = (0, 0);
        let (logs, bytes) = (page.logs.len(), page.bytes());
        if !self.hold(logs, bytes) {
            return Err(ArchiveError::NoMemory.into());
        }
        self.held.trim(self.bytes_of(logs, bytes));
        Ok(())
    }

    /// What logs take in memory.
    fn bytes_of(&self, logs: usize, bytes: u64) -> usize {
        let (logs, bytes) = (self.before.0 + logs, self.before.1 + bytes);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        bytes.saturating_add(logs * RECORD_BYTES)
    }
}

impl ArchiveMemory for PageMemory {
    fn hold(&mut self, logs: usize, bytes: u64) -> bool {
        let bytes = self.bytes_of(logs, bytes);
        let is_held = self.memory.try_grow_to_all(&mut self.held, bytes);
        if !is_held {
            let logs = self.before.0 + logs;
            self.missed = Missed { logs, bytes };
        }
        is_held
    }
}

/// A query over archive and tail.
struct Query<'a> {
    filter: &'a LogFilter,
    range: BlockRange,
    /// The blocks of the range that the cursor leaves.
    rest: BlockRange,
    limits: AnswerLimits,
}

impl View<'_> {
    /// The logs of a range that match a filter; `filter.select` is ignored.
    pub(crate) async fn logs(
        &self,
        range: BlockRange,
        filter: &LogFilter,
        limits: AnswerLimits,
        memory: &mut PageMemory,
    ) -> Result<Page, Fault> {
        self.check_indexed(range)?;
        let split = self.tail_start().clamp(range.start, range.end);
        let archived = BlockRange::new(range.start, split);
        let above = BlockRange::new(split, range.end);
        let mut rest = range;
        if let Some(cursor) = &filter.cursor {
            check_cursor(cursor, &range, async |number| {
                Ok::<_, Fault>(self.clock(number).await?.map(|clock| clock.hash))
            })
            .await?;
            rest = after_cursor(&range, cursor, filter.order);
        }
        let query = Query {
            filter,
            range,
            rest,
            limits,
        };
        let mut page = Page::default();
        let parts = match filter.order {
            Order::Ascending => [archived, above],
            Order::Descending => [above, archived],
        };
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let is_archived = part == archived;
            if page.next.is_some() {
                if is_archived {
                    self.check_archived(part, filter).await?;
                }
                break;
            }
            if is_archived {
                let taken = self.take_archived(&query, part, &mut page, memory).await;
                taken.map_err(|fault| query.fits_of_whole_range(fault, &part))?;
            } else {
                self.take_from_tail(&query, part, &mut page).await?;
            }
        }
        Ok(page)
    }

    /// A range ends at or below the head. Handlers refuse others in their own words; here blocks above the head would be
    /// passed over, as if they had no logs.
    fn check_indexed(&self, range: BlockRange) -> Result<(), Fault> {
        if range.is_empty() {
            return Ok(());
        }
        let end = self.known_head()?.number.saturating_add(1);
        if range.end <= end {
            return Ok(());
        }
        let missing = BlockRange::new(range.start.max(end), range.end);
        let covered = BlockRange::new(missing.start, missing.start);
        Err(ArchiveError::NotCovered { missing, covered }.into())
    }

    /// A page that needs no block of the archive still covers all of its range: where blocks are missing
    /// there, the first page is an error already, and not only the one that reaches them.
    async fn check_archived(&self, part: BlockRange, filter: &LogFilter) -> Result<(), Fault> {
        let archive = self.archive.as_ref().ok_or(Fault::Empty)?;
        let query = LogFilter {
            select: Select::Range(part),
            cursor: None,
            limit: Some(1),
            ..filter.clone()
        };
        archive.query(&query).await?;
        Ok(())
    }

    async fn take_archived(
        &self,
        query: &Query<'_>,
        part: BlockRange,
        page: &mut Page,
        memory: &mut PageMemory,
    ) -> Result<(), Fault> {
        let archive = self.archive.as_ref().ok_or(Fault::Empty)?;
        if part.intersect(&query.rest).is_none() {
            return Ok(());
        }
        let filter = query.filter;
        let left = filter.limit.map(|limit| limit - page.logs.len());
        let filter = LogFilter {
            select: Select::Range(part),
            cursor: filter.cursor.filter(|at| part.contains(at.block.number)),
            // On a full page, one more log shows whether there is a next page.
            limit: left.map(|left| left.max(1)),
            ..filter.clone()
        };
        memory.before = (page.logs.len(), page.bytes());
        let found = archive.query_within(&filter, memory).await?;
        page.lower_level(found.level.map(Proof::logs));
        if left == Some(0) {
            page.next = page.end().filter(|_| !found.logs.is_empty());
            return Ok(());
        }
        page.next = found.next;
        if page.logs.is_empty() {
            page.logs = found.logs;
        } else {
            page.logs.extend(found.logs);
        }
        Ok(())
    }

    async fn take_from_tail(
        &self,
        query: &Query<'_>,
        part: BlockRange,
        page: &mut Page,
    ) -> Result<(), Fault> {
        let (filter, limits) = (query.filter, query.limits);
        self.check_tail_keeps(filter, part)?;
        page.lower_level(self.tail.proof_of(part).map(Proof::logs));
        if part.intersect(&query.rest).is_none() {
            return Ok(());
        }
        let limit = filter.limit.unwrap_or(usize::MAX).min(limits.results);
        // One block is always answered, whatever it holds, and a page holds at least one log.
        let is_one_block = filter.limit.is_none() && query.range.len() == 1;
        let mut bytes = page.bytes();
        let blocks: Vec<&Arc<Block>> = match filter.order {
            Order::Ascending => self.tail.blocks_in(part).collect(),
            Order::Descending => self.tail.blocks_in(part).rev().collect(),
        };
        let matcher = LogMatcher::new(filter);
        let mut checked = 0;
        for block in blocks {
            checked += block.logs.len();
            if checked >= YIELD_AFTER_LOGS {
                checked = 0;
                // Other tasks need this thread, and a deadline only ends what awaits.
                tokio::task::yield_now().await;
            }
            for log in matching(block, &matcher, filter.order) {
                bytes += log.byte_len() as u64;
                let full = if is_one_block || page.logs.is_empty() {
                    None
                } else if page.logs.len() >= limit {
                    Some(Budget::Results)
                } else {
                    (bytes > limits.bytes).then_some(Budget::Bytes)
                };
                match full {
                    None => page.logs.push(record_of(block, log)?),
                    Some(budget) if filter.limit.is_none() => {
                        return Err(query.too_large(budget, block.clock.number));
                    }
                    Some(_) => {
                        page.next = page.end();
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// The tail holds what the settings name, and nothing else.
    fn check_tail_keeps(&self, filter: &LogFilter, part: BlockRange) -> Result<(), Fault> {
        if !self.chain.datasets.contains(Dataset::Logs) {
            return Err(Fault::NotKept(Dataset::Logs));
        }
        if self.chain.scope.proves(filter) {
            return Ok(());
        }
        let covered = BlockRange::new(part.start, part.start);
        let missing = part;
        Err(ArchiveError::NotCovered { missing, covered }.into())
    }
}

impl Query<'_> {
    /// Extends the range that fits a part of the blocks to all of them: in descending order, what fits
    /// begins with the newest block of the whole range.
    fn fits_of_whole_range(&self, fault: Fault, part: &BlockRange) -> Fault {
        let Fault::Archive(ArchiveError::TooLarge {
            budget,
            limit,
            fits,
        }) = fault
        else {
            return fault;
        };
        // One block always fits; one of two parts is less than the whole range.
        let fits = fits.or(Some(*part).filter(|part| part.len() < self.range.len()));
        let fits = match self.filter.order {
            Order::Ascending => fits,
            Order::Descending => fits.map(|fits| BlockRange::new(fits.start, self.range.end)),
        };
        ArchiveError::TooLarge {
            budget,
            limit,
            fits,
        }
        .into()
    }

    /// A budget ran out in the block with this number.
    fn too_large(&self, budget: Budget, number: u64) -> Fault {
        let limit = match budget {
            Budget::Results => self.limits.results as u64,
            _ => self.limits.bytes,
        };
        let start = self.range.start;
        let end = number.max(start.saturating_add(1));
        ArchiveError::TooLarge {
            budget,
            limit,
            fits: Some(BlockRange::new(start, end)),
        }
        .into()
    }
}

/// Logs of the tail that are checked before other tasks run.
const YIELD_AFTER_LOGS: usize = 4_096;

/// The matching logs of a block, in this order.
fn matching<'a>(
    block: &'a Block,
    matcher: &'a LogMatcher,
    order: Order,
) -> impl Iterator<Item = &'a Log> {
    let (ascending, descending) = match order {
        Order::Ascending => (Some(block.logs.iter()), None),
        Order::Descending => (None, Some(block.logs.iter().rev())),
    };
    let logs = ascending
        .into_iter()
        .flatten()
        .chain(descending.into_iter().flatten());
    logs.filter(|log| matcher.matches(block.clock.number, log))
}

fn record_of(block: &Block, log: &Log) -> Result<LogRecord, Fault> {
    // The tail refuses a block whose logs name transactions that it does not list.
    let lost = || ArchiveError::Internal("a log names no transaction of its block".to_owned());
    Ok(LogRecord {
        block: block.clock.block_ref(),
        timestamp: block.clock.timestamp,
        tx_hash: block.tx_hash(log.tx_index()).ok_or_else(lost)?,
        log: log.clone(),
    })
}

#[cfg(test)]
mod tests;
