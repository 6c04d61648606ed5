//! The log query engine: segments in order, candidates of each, the exact check, the limits.

use std::sync::Arc;
use std::time::Duration;

use chronolith_model::{
    BlockRange, BlockRef, Cursor, Dataset, DatasetSet, Hash32, Log, LogFilter, Order, Proof, Select,
};
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::time::Instant;

use super::candidates::Candidates;
use super::matcher::Matcher;
use super::objects::{Objects, OpenSegment};
use super::rows::{Hashes, LogRecord};
use crate::error::{Budget, Error, Result};
use crate::settings::QueryLimits;
use crate::state::snapshot::{Need, Piece, Snapshot};

/// Rows that are unpacked together at most, and for the first time.
const ROWS_PER_STEP: usize = 8192;
const FIRST_ROWS: usize = 1024;
/// What rows that are unpacked together should not exceed.
const BYTES_PER_STEP: u64 = 4 << 20;
/// How long a query may compute before others get their turn.
const TURN: Duration = Duration::from_millis(1);
/// Pieces that may hold this many rows, and not more than are wanted, are read while others are
/// planned: their rows are few, and all of them will be wanted.
const ROWS_AHEAD_MAX: usize = 1024;

/// The answer to a log query.
#[derive(Clone, Debug)]
pub struct LogPage {
    /// The logs, in the order requested.
    pub logs: Vec<LogRecord>,
    /// Whether there are more after the last one.
    pub has_more: bool,
    /// Where the next page begins, where there is one.
    pub next: Option<Cursor>,
    /// The blocks that were looked at.
    pub range: BlockRange,
    /// The newest archived block at the time.
    pub head: Option<BlockRef>,
    /// The lowest verification level among the blocks looked at.
    pub level: Option<Proof>,
    pub cost: QueryCost,
}

/// What a query cost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryCost {
    pub segments: u64,
    /// Rows that were unpacked and checked.
    pub candidates: u64,
    /// Bytes of logs in the answer.
    pub bytes: u64,
}

/// The memory that the logs of an answer take while it is made.
pub trait AnswerMemory: Send {
    /// Holds memory for this many logs with this many bytes in total; false where there is none right now.
    fn hold(&mut self, logs: usize, bytes: u64) -> bool;
}

/// Memory that nothing counts.
#[derive(Clone, Copy, Debug)]
pub struct Uncounted;

impl AnswerMemory for Uncounted {
    fn hold(&mut self, _logs: usize, _bytes: u64) -> bool {
        true
    }
}

/// A piece with what is known about it: perhaps its first candidates and the logs among them.
struct Planned {
    segment: Arc<OpenSegment>,
    candidates: Candidates,
    ahead: Option<(Vec<u32>, Vec<LogRecord>)>,
}

/// A query on its way.
struct Run<'a, M> {
    objects: &'a Objects,
    limits: &'a QueryLimits,
    memory: &'a mut M,
    matcher: Arc<Matcher>,
    order: Order,
    range: BlockRange,
    /// The blocks of it that the cursor leaves.
    rest: BlockRange,
    /// How many logs may be returned, and whether more than that is an error.
    limit: usize,
    strict: bool,
    deadline: Instant,
    /// When others had their turn last.
    turn_began: Instant,
    logs: Vec<LogRecord>,
    cost: QueryCost,
}

/// Answers a filter from a snapshot.
pub(crate) async fn query<M: AnswerMemory>(
    objects: &Objects,
    snapshot: &Snapshot,
    filter: &LogFilter,
    limits: &QueryLimits,
    memory: &mut M,
) -> Result<LogPage> {
    let range = resolve(objects, snapshot, filter).await?;
    let matcher = Matcher::new(filter, limits)?;
    if filter.limit == Some(0) {
        return Err(Error::Invalid("limit must be at least 1".to_owned()));
    }
    let need = Need {
        datasets: DatasetSet::of(&[Dataset::Logs]),
        filter: Some(filter),
    };
    let mut pieces = snapshot.select(&range, &need)?;
    let level = pieces
        .iter()
        .filter_map(|piece| piece.entry.facts.level_within(&piece.range))
        .reduce(Proof::lower);
    let mut rest = range;
    if let Some(cursor) = filter.cursor {
        check_cursor(&cursor, &range, async |number| {
            let clock = super::lookup::block_by_number(objects, snapshot, number).await?;
            Ok::<_, Error>(Some(clock.hash))
        })
        .await?;
        rest = after_cursor(&range, &cursor, filter.order);
        let clip = |piece: Piece| {
            piece
                .range
                .intersect(&rest)
                .map(|range| Piece { range, ..piece })
        };
        pieces = pieces.into_iter().filter_map(clip).collect();
    }
    if filter.order == Order::Descending {
        pieces.reverse();
    }
    let mut run = Run {
        objects,
        limits,
        memory,
        order: filter.order,
        matcher: Arc::new(matcher),
        range,
        rest,
        limit: filter.limit.unwrap_or(usize::MAX).min(limits.results_max),
        strict: filter.limit.is_none(),
        deadline: Instant::now() + limits.timeout,
        turn_began: Instant::now(),
        logs: Vec::new(),
        cost: QueryCost::default(),
    };
    let has_more = !run.matcher.matches_nothing && run.within_deadline(pieces).await?;
    let next = run.logs.last().filter(|_| has_more).map(LogRecord::cursor);
    let (logs, cost) = (run.logs, run.cost);
    Ok(LogPage {
        logs,
        has_more,
        next,
        range,
        head: snapshot.head(),
        level,
        cost,
    })
}

async fn resolve(objects: &Objects, snapshot: &Snapshot, filter: &LogFilter) -> Result<BlockRange> {
    match &filter.select {
        Select::Range(range) => Ok(*range),
        Select::Block(hash) => {
            let found = super::hashes::block_by_hash(objects, snapshot, hash).await?;
            let found = found.ok_or(Error::UnknownBlock { hash: *hash })?;
            Ok(BlockRange::one(found.number))
        }
    }
}

/// Checks that the block of a cursor lies in a range and is still the block with its number. `hash_of`
/// looks up the hash of a block by its number; none where there is no such block.
///
/// # Errors
/// [`Error::Invalid`] outside the range, [`Error::CursorConflict`] where the block was replaced, and what
/// `hash_of` returns.
pub async fn check_cursor<E: From<Error>>(
    cursor: &Cursor,
    range: &BlockRange,
    hash_of: impl AsyncFnOnce(u64) -> std::result::Result<Option<Hash32>, E>,
) -> std::result::Result<(), E> {
    let BlockRef { number, hash } = cursor.block;
    if !range.contains(number) {
        let message = format!("cursor outside the range (block={number})");
        return Err(Error::Invalid(message).into());
    }
    let archived = hash_of(number).await?;
    if archived == Some(hash) {
        return Ok(());
    }
    Err(Error::CursorConflict {
        cursor: cursor.block,
        // Zeros for a block that no longer exists.
        archived: archived.unwrap_or(Hash32::ZERO),
    }
    .into())
}

/// The blocks of a range that can hold logs after a cursor in it.
#[must_use]
pub fn after_cursor(range: &BlockRange, cursor: &Cursor, order: Order) -> BlockRange {
    match order {
        Order::Ascending => BlockRange::new(cursor.block.number, range.end),
        Order::Descending => BlockRange::new(range.start, cursor.block.number + 1),
    }
}

impl<M: AnswerMemory> Run<'_, M> {
    /// Goes through the pieces until the deadline, whatever it is that takes the time.
    async fn within_deadline(&mut self, pieces: Vec<Piece>) -> Result<bool> {
        let deadline = self.deadline;
        match tokio::time::timeout_at(deadline, self.all(pieces)).await {
            Ok(answer) => answer,
            Err(_) => {
                let middle = self.range.start + self.range.len() / 2;
                let limit = self.limits.timeout.as_millis() as u64;
                Err(self.too_large(Budget::Deadline, limit, middle))
            }
        }
    }

    /// Goes through the pieces; returns whether there are more logs than were wanted.
    async fn all(&mut self, pieces: Vec<Piece>) -> Result<bool> {
        let objects = self.objects;
        let matcher = self.matcher.clone();
        let clauses = &matcher.clauses;
        let order = self.order;
        let rows_ahead = self.limit.min(ROWS_AHEAD_MAX) as u64;
        let plan = |piece: Piece| {
            let matcher = &matcher;
            async move {
                let segment = objects.open(&piece.entry.object).await?;
                let bounds = segment.tables.ids_of(&piece.range);
                let terms = clauses.terms(segment.tables.facts.term_key);
                let plan = Candidates::plan(objects, &segment, &terms, bounds, order);
                let mut candidates = plan.await?;
                let mut ahead = None;
                if candidates.rows_max() <= rows_ahead {
                    // Default: there are no candidates left.
                    let ids = candidates
                        .next(objects, &segment)
                        .await?
                        .unwrap_or_default();
                    let keep = |number: u64, log: &Log| matcher.exact.matches(number, log);
                    let mut logs = Vec::new();
                    let rows = (ids.as_slice(), candidates.hashes());
                    objects.records(&segment, rows, keep, &mut logs).await?;
                    ahead = Some((ids, logs));
                }
                Ok::<_, Error>(Planned {
                    segment,
                    candidates,
                    ahead,
                })
            }
        };
        // What is in memory rules most segments out, without planning them.
        let mut kept = Vec::with_capacity(pieces.len());
        for piece in pieces {
            if objects.ruled_out(&piece.entry.object, clauses) {
                self.cost.segments += 1;
            } else {
                kept.push(piece);
            }
        }
        // Plans run ahead of the piece being read, so that their reads overlap.
        let planned = stream::iter(kept)
            .map(plan)
            .buffered(self.limits.concurrency.max(1));
        let mut planned = std::pin::pin!(planned);
        while let Some(piece) = planned.try_next().await? {
            let (segment, mut candidates) = (piece.segment, piece.candidates);
            self.cost.segments += 1;
            self.check_deadline(segment.tables.facts.range.start)?;
            self.let_others_in().await;
            if let Some((ids, logs)) = piece.ahead
                && self
                    .take_ahead((&segment, &ids, candidates.hashes()), logs)
                    .await?
            {
                return Ok(true);
            }
            while let Some(ids) = candidates.next(objects, &segment).await? {
                if self.take(&segment, &ids, candidates.hashes()).await? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether only one block is left after the cursor: that is always answered, whatever it holds.
    fn is_one_block(&self) -> bool {
        self.rest.len() == 1
    }

    /// Checks candidates until one too many matches; returns whether that happened.
    async fn take(
        &mut self,
        segment: &Arc<OpenSegment>,
        ids: &[u32],
        hashes: Hashes,
    ) -> Result<bool> {
        let mut rest = ids;
        while !rest.is_empty() {
            let wanted = self.limit.saturating_add(1).saturating_sub(self.logs.len());
            // One candidate more than the budget allows shows in which block it ran out.
            let budget = self
                .limits
                .candidates_max
                .saturating_sub(self.cost.candidates);
            let budget = usize::try_from(budget)
                .unwrap_or(usize::MAX)
                .saturating_add(1);
            let budget = if self.is_one_block() {
                usize::MAX
            } else {
                budget
            };
            let size = wanted.min(budget).clamp(1, self.rows_per_step());
            let (step, behind) = rest.split_at(size.min(rest.len()));
            rest = behind;
            self.cost.candidates += step.len() as u64;
            let taken = self.logs.len();
            let (objects, matcher) = (self.objects, self.matcher.clone());
            let keep = |number: u64, log: &Log| matcher.exact.matches(number, log);
            objects
                .records(segment, (step, hashes), keep, &mut self.logs)
                .await?;
            let is_full = self.count_from(taken)?;
            self.hold()?;
            if is_full {
                return Ok(true);
            }
            let at = step.last().and_then(|&id| segment.tables.blocks.of_row(id));
            let at = at.map_or(self.range.start, |entry| segment.tables.number(entry.place));
            self.check_deadline(at)?;
            let limit = self.limits.candidates_max;
            if self.cost.candidates > limit && !self.is_one_block() {
                return Err(self.too_large(Budget::Candidates, limit, at));
            }
            self.let_others_in().await;
        }
        Ok(false)
    }

    /// What is in memory need not be waited for, so without this others would wait for the whole query.
    async fn let_others_in(&mut self) {
        if self.turn_began.elapsed() >= TURN {
            tokio::task::yield_now().await;
            self.turn_began = Instant::now();
        }
    }

    /// Takes the logs of candidates that were read already; returns whether there was one too many.
    async fn take_ahead(
        &mut self,
        (segment, ids, hashes): (&Arc<OpenSegment>, &[u32], Hashes),
        mut logs: Vec<LogRecord>,
    ) -> Result<bool> {
        let candidates = self.cost.candidates + ids.len() as u64;
        if candidates > self.limits.candidates_max {
            // Only reading in order shows where exactly the budget ends.
            return self.take(segment, ids, hashes).await;
        }
        self.cost.candidates = candidates;
        let taken = self.logs.len();
        self.logs.append(&mut logs);
        let is_full = self.count_from(taken)?;
        self.hold()?;
        Ok(is_full)
    }

    /// How many rows are unpacked together: fewer where logs are large.
    fn rows_per_step(&self) -> usize {
        let logs = self.logs.len() as u64;
        if logs == 0 {
            return FIRST_ROWS;
        }
        let mean = (self.cost.bytes / logs).max(1);
        ((BYTES_PER_STEP / mean) as usize).clamp(1, ROWS_PER_STEP)
    }

    /// Counts the memory of the logs so far.
    fn hold(&mut self) -> Result<()> {
        match self.memory.hold(self.logs.len(), self.cost.bytes) {
            true => Ok(()),
            false => Err(Error::NoMemory),
        }
    }

    /// Counts the logs from this place on; cuts them off and returns true where the answer is full.
    fn count_from(&mut self, place: usize) -> Result<bool> {
        for at in place..self.logs.len() {
            if self.is_full(at)? {
                self.logs.truncate(at);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the answer is full before the log at this place, which is counted if it is not:
    /// the end of a page, or an error where all logs were requested.
    fn is_full(&mut self, at: usize) -> Result<bool> {
        let next = self.logs.get(at).expect("the place is that of a log");
        let bytes = self.cost.bytes + next.log.byte_len() as u64;
        let budget = if at >= self.limit {
            Some(Budget::Results)
        } else {
            (bytes > self.limits.bytes_max && at > 0).then_some(Budget::Bytes)
        };
        let budget = budget.filter(|_| !self.strict || !self.is_one_block());
        let Some(budget) = budget else {
            self.cost.bytes = bytes;
            return Ok(false);
        };
        if !self.strict {
            return Ok(true);
        }
        let limit = match budget {
            Budget::Bytes => self.limits.bytes_max,
            _ => self.limit as u64,
        };
        Err(self.too_large(budget, limit, next.block.number))
    }

    fn check_deadline(&self, at: u64) -> Result<()> {
        if Instant::now() <= self.deadline {
            return Ok(());
        }
        let limit = self.limits.timeout.as_millis() as u64;
        Err(self.too_large(Budget::Deadline, limit, at))
    }

    /// The error for a budget that ran out in this block, with the range before it. A single block
    /// has no budget for results, bytes and candidates, so there is always one that
    /// fits, and it holds the cursor's block.
    fn too_large(&self, budget: Budget, limit: u64, at: u64) -> Error {
        let fits = match self.order {
            Order::Ascending => BlockRange::new(self.range.start, at.max(self.rest.start + 1)),
            Order::Descending => BlockRange::new((at + 1).min(self.rest.end - 1), self.range.end),
        };
        let fits = Some(fits).filter(|fits| fits.len() < self.range.len());
        Error::TooLarge {
            budget,
            limit,
            fits,
        }
    }
}
