//! Logs from archive and tail as one: in order, without skip or duplicate at the seam.

use std::sync::Arc;

use chronolith_archive::{Budget, Error as ArchiveError, LogRecord};
use chronolith_model::{
    Block, BlockRange, Clause, Cursor, Dataset, Log, LogFilter, Order, Proof, Select, Verification,
};

use crate::fault::Fault;
use crate::view::View;

/// What an answer may hold.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLimits {
    pub results: usize,
    /// Bytes of logs.
    pub bytes: u64,
}

/// Logs, and whether there are more.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) logs: Vec<LogRecord>,
    /// Where the next page begins, where there is one.
    pub(crate) next: Option<Cursor>,
    /// The lowest level among the blocks looked at.
    pub(crate) level: Option<Verification>,
}

impl View<'_> {
    /// The logs of a range that a filter wants; `filter.select` is not looked at.
    pub(crate) async fn logs(
        &self,
        range: BlockRange,
        filter: &LogFilter,
        limits: AnswerLimits,
    ) -> Result<Page, Fault> {
        let split = self.tail_start().clamp(range.start, range.end);
        let archived = BlockRange::new(range.start, split);
        let above = BlockRange::new(split, range.end);
        self.check_cursor(filter, &range).await?;
        let mut page = Page {
            logs: Vec::new(),
            next: None,
            level: None,
        };
        let parts = match filter.order {
            Order::Ascending => [archived, above],
            Order::Descending => [above, archived],
        };
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            if page.next.is_some() {
                if part == archived {
                    self.check_archived(part, filter).await?;
                }
                break;
            }
            match part == archived {
                true => {
                    let taken = self.take_archived(part, filter, &mut page).await;
                    taken
                        .map_err(|fault| fits_of_whole_range(fault, &part, &range, filter.order))?;
                }
                false => {
                    let parts = (part, range);
                    self.take_from_tail(parts, filter, limits, &mut page)
                        .await?;
                }
            }
        }
        Ok(page)
    }

    /// The cursor's block must still be there, whichever part it is in.
    async fn check_cursor(&self, filter: &LogFilter, range: &BlockRange) -> Result<(), Fault> {
        let Some(cursor) = filter.cursor else {
            return Ok(());
        };
        if !range.contains(cursor.block.number) {
            let number = cursor.block.number;
            let what = format!("cursor outside the range (block={number})");
            return Err(ArchiveError::Invalid(what).into());
        }
        let clock = self.clock(cursor.block.number).await?;
        match clock.map(|clock| clock.hash) {
            Some(hash) if hash == cursor.block.hash => Ok(()),
            other => Err(ArchiveError::CursorConflict {
                cursor: cursor.block,
                archived: other.unwrap_or_default(),
            }
            .into()),
        }
    }

    /// A page that needs nothing of the archive still speaks for all of its range: where that lacks
    /// blocks, the first page says so and not the one that reaches them.
    async fn check_archived(&self, part: BlockRange, filter: &LogFilter) -> Result<(), Fault> {
        let archive = self.archive.as_ref().ok_or(Fault::Empty)?;
        let mut query = filter.clone();
        (query.select, query.cursor, query.limit) = (Select::Range(part), None, Some(1));
        archive.query(&query).await?;
        Ok(())
    }

    async fn take_archived(
        &self,
        part: BlockRange,
        filter: &LogFilter,
        page: &mut Page,
    ) -> Result<(), Fault> {
        let Some(archive) = &self.archive else {
            return Err(Fault::Empty);
        };
        let inside = filter.cursor.filter(|at| part.contains(at.block.number));
        if is_behind(&part, filter) {
            return Ok(());
        }
        let left = filter.limit.map(|limit| limit - page.logs.len());
        let mut query = filter.clone();
        (query.select, query.cursor) = (Select::Range(part), inside);
        // With nothing left to give, one more tells whether there is more.
        query.limit = left.map(|left| left.max(1));
        let found = archive.query(&query).await?;
        page.level = lower(page.level, found.level.map(Proof::logs));
        if left == Some(0) {
            page.next = cursor_of(&page.logs).filter(|_| !found.logs.is_empty());
            return Ok(());
        }
        page.next = found.next;
        match page.logs.is_empty() {
            true => page.logs = found.logs,
            false => page.logs.extend(found.logs),
        }
        Ok(())
    }

    async fn take_from_tail(
        &self,
        (part, whole): (BlockRange, BlockRange),
        filter: &LogFilter,
        limits: AnswerLimits,
        page: &mut Page,
    ) -> Result<(), Fault> {
        self.check_tail_keeps(filter, part)?;
        page.level = lower(page.level, self.tail.proof_of(part).map(Proof::logs));
        if is_behind(&part, filter) {
            return Ok(());
        }
        let limit = filter.limit.unwrap_or(usize::MAX).min(limits.results);
        // One block is always answered, whatever it holds, and a page holds one log at the least.
        let is_one_block = filter.limit.is_none() && whole.len() == 1;
        let mut bytes: u64 = page.logs.iter().map(|one| one.log.byte_len() as u64).sum();
        let blocks: Vec<&Arc<Block>> = match filter.order {
            Order::Ascending => self.tail.blocks_in(part).collect(),
            Order::Descending => self.tail.blocks_in(part).rev().collect(),
        };
        let wanted = Wanted::new(filter);
        let mut looked_at = 0;
        for block in blocks {
            looked_at += block.logs.len();
            if looked_at >= LOOK_AT_ONCE {
                looked_at = 0;
                // Others wait for this thread, and deadlines are seen only here.
                tokio::task::yield_now().await;
            }
            for log in matching(block, &wanted) {
                bytes += log.byte_len() as u64;
                let full = match () {
                    () if is_one_block || page.logs.is_empty() => None,
                    () if page.logs.len() >= limit => Some(Budget::Results),
                    () if bytes > limits.bytes => Some(Budget::Bytes),
                    () => None,
                };
                match full {
                    None => page.logs.push(record_of(block, log)?),
                    Some(budget) if filter.limit.is_none() => {
                        return Err(too_large(budget, limits, &whole, block.clock.number));
                    }
                    Some(_) => {
                        page.next = cursor_of(&page.logs);
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// The tail holds what the settings say, and nothing else.
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

/// A range that fits a part of the blocks, as one that fits all of them: newest first, what fits begins
/// with the newest block of all.
fn fits_of_whole_range(fault: Fault, part: &BlockRange, whole: &BlockRange, order: Order) -> Fault {
    match fault {
        Fault::Archive(ArchiveError::TooLarge {
            budget,
            limit,
            fits,
        }) => {
            // One block fits always; of several parts, one is less than all of them.
            let fits = fits.or(Some(*part).filter(|part| part.len() < whole.len()));
            let fits = match order {
                Order::Ascending => fits,
                Order::Descending => fits.map(|fits| BlockRange::new(fits.start, whole.end)),
            };
            ArchiveError::TooLarge {
                budget,
                limit,
                fits,
            }
            .into()
        }
        other => other,
    }
}

/// Whether the cursor lies behind all of a part, in the order of the filter.
fn is_behind(part: &BlockRange, filter: &LogFilter) -> bool {
    filter.cursor.is_some_and(|cursor| match filter.order {
        Order::Ascending => cursor.block.number >= part.end,
        Order::Descending => cursor.block.number < part.start,
    })
}

/// Logs of the tail that are looked at in one go.
const LOOK_AT_ONCE: usize = 4_096;

/// A filter whose alternatives are sorted: there may be thousands, and every log is compared.
struct Wanted<'a> {
    filter: &'a LogFilter,
    emitters: Option<Vec<&'a [u8]>>,
    topics: Vec<Option<Vec<&'a [u8]>>>,
}

impl<'a> Wanted<'a> {
    fn new(filter: &'a LogFilter) -> Self {
        let sorted = |clause: &'a Clause| match clause {
            Clause::Any => None,
            Clause::OneOf(values) => {
                let mut values: Vec<&[u8]> = values.iter().map(|value| &**value).collect();
                values.sort_unstable();
                Some(values)
            }
        };
        Self {
            filter,
            emitters: sorted(&filter.emitters),
            topics: filter.topics.iter().map(sorted).collect(),
        }
    }

    fn has(&self, log: &Log) -> bool {
        let admits = |values: &Option<Vec<&[u8]>>, value: &[u8]| {
            let values = values.as_ref();
            values.is_none_or(|values| values.binary_search(&value).is_ok())
        };
        self.filter
            .arity
            .admits(self.topics.len(), log.topic_count())
            && admits(&self.emitters, log.emitter())
            && self
                .topics
                .iter()
                .zip(log.topics())
                .all(|(values, topic)| admits(values, topic))
    }
}

/// Logs of a block that are wanted, in the order of the filter.
fn matching<'a>(block: &'a Block, wanted: &'a Wanted<'a>) -> impl Iterator<Item = &'a Log> {
    let filter = wanted.filter;
    let at = filter
        .cursor
        .filter(|cursor| cursor.block.number == block.clock.number);
    let past = filter.cursor.is_some_and(|cursor| match filter.order {
        Order::Ascending => block.clock.number < cursor.block.number,
        Order::Descending => block.clock.number > cursor.block.number,
    });
    let count = block.logs.len();
    let place = move |step: usize| match filter.order {
        Order::Ascending => step,
        Order::Descending => count - 1 - step,
    };
    let logs = (0..count).filter_map(move |step| block.logs.get(place(step)));
    logs.filter(move |log| {
        let behind = at.is_none_or(|cursor| match filter.order {
            Order::Ascending => log.log_index() > cursor.log_index,
            Order::Descending => log.log_index() < cursor.log_index,
        });
        !past && behind && wanted.has(log)
    })
}

fn record_of(block: &Block, log: &Log) -> Result<LogRecord, Fault> {
    // The tail never takes a block whose logs name transactions that it does not list.
    let lost = || ArchiveError::Internal("a log names no transaction of its block".to_owned());
    Ok(LogRecord {
        block: block.clock.block_ref(),
        timestamp: block.clock.timestamp,
        tx_hash: block.tx_hash(log.tx_index()).ok_or_else(lost)?,
        log: log.clone(),
    })
}

/// What fits, where a budget ran out in the block of this number.
fn too_large(budget: Budget, limits: AnswerLimits, whole: &BlockRange, number: u64) -> Fault {
    let limit = match budget {
        Budget::Results => limits.results as u64,
        _ => limits.bytes,
    };
    let end = number.max(whole.start.saturating_add(1));
    let fits = Some(BlockRange::new(whole.start, end));
    ArchiveError::TooLarge {
        budget,
        limit,
        fits,
    }
    .into()
}

fn cursor_of(logs: &[LogRecord]) -> Option<Cursor> {
    logs.last().map(|last| Cursor {
        block: last.block,
        log_index: last.log.log_index(),
    })
}

fn lower(a: Option<Verification>, b: Option<Verification>) -> Option<Verification> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}
