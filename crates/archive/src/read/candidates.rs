//! Which rows of a segment may match: clauses intersected, rarest first, page by page.

use std::sync::Arc;

use chronolith_model::Order;

use super::objects::{Objects, OpenSegment};
use super::postings::Postings;
use super::rows::Hashes;
use crate::error::Result;
use crate::format::page::{self, Ids, PAGE_IDS};
use crate::format::postings::PageRef;
use crate::format::term::Term;

/// What a row costs that need not have been looked at (its frame read and unpacked), what a page of
/// postings costs to read and decode, and what one in memory costs: tenths of a microsecond, as
/// measured on files in the system's cache.
const ROW_COST: u64 = 50;
const PAGE_COST: u64 = 60;
const PAGE_IN_MEMORY_COST: u64 = 3;
/// More lists than this are joined first, or each id would be looked up in each of them.
const JOIN_LISTS: usize = 4;
/// The first step looks at this many pages or rows, each later one at twice as many.
const FIRST_PAGES: usize = 1;
const PAGES_MAX: usize = 16;
const FIRST_ROWS: u32 = 1024;
const ROWS_MAX: u32 = 1 << 16;

/// One clause of a filter in one segment.
#[derive(Debug)]
struct Lists {
    lists: Vec<Arc<Postings>>,
    count: u64,
}

impl Lists {
    fn all_short(&self) -> bool {
        self.lists
            .iter()
            .all(|list| matches!(**list, Postings::Short(_)))
    }

    /// Ids of all short lists inside the bounds, rising, without duplicates.
    fn short_ids(&self, (start, end): (u32, u32)) -> Vec<u32> {
        let mut ids = Vec::new();
        for list in &self.lists {
            if let Postings::Short(list) = &**list {
                let from = list.partition_point(|&id| id < start);
                ids.extend(list.iter().skip(from).take_while(|&&id| id < end));
            }
        }
        if self.lists.len() > 1 {
            ids.sort_unstable();
            ids.dedup();
        }
        ids
    }

    /// The pages of long lists among these page numbers.
    fn pages<'a>(&'a self, numbers: &'a [u32]) -> impl Iterator<Item = PageRef> + 'a {
        let of_list = |list: &'a Arc<Postings>| numbers.iter().filter_map(|&at| list.page(at));
        self.lists.iter().flat_map(of_list).copied()
    }

    /// All pages that any list has inside the bounds.
    fn page_numbers(&self, (start, end): (u32, u32)) -> Vec<u32> {
        let mut numbers = Vec::new();
        for list in &self.lists {
            match &**list {
                Postings::Short(ids) => numbers.extend(ids.iter().map(|id| id / PAGE_IDS)),
                Postings::Long { pages, .. } => {
                    numbers.extend(pages.iter().map(|place| place.page))
                }
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers.retain(|&at| at >= start / PAGE_IDS && at <= (end.saturating_sub(1)) / PAGE_IDS);
        numbers
    }
}

/// Rows of one segment that may match, found step by step.
#[derive(Debug)]
pub(crate) struct Candidates {
    bounds: (u32, u32),
    order: Order,
    /// Clauses that narrow, rarest first.
    clauses: Vec<Lists>,
    pending: Pending,
    step: usize,
    /// Whether some clause was left to the exact check, so that candidates may well not match.
    unsure: bool,
}

#[derive(Debug)]
enum Pending {
    /// All at once.
    Ids(Vec<u32>),
    /// Pages to look at, in the order they are looked at, the next one last.
    Pages(Vec<u32>),
    /// No clause: every row in the bounds.
    Rows(u32, u32),
}

impl Candidates {
    /// Plans one segment: looks up the terms and decides which clauses are worth applying.
    pub(crate) async fn plan(
        objects: &Objects,
        segment: &OpenSegment,
        clauses: &[Vec<Term>],
        bounds: (u32, u32),
        order: Order,
    ) -> Result<Self> {
        let nothing = Self {
            bounds,
            order,
            clauses: Vec::new(),
            pending: Pending::Ids(Vec::new()),
            step: 0,
            unsure: false,
        };
        if bounds.0 >= bounds.1 {
            return Ok(nothing);
        }
        if clauses.is_empty() {
            return Ok(Self {
                pending: Pending::Rows(bounds.0, bounds.1),
                ..nothing
            });
        }
        let terms: Vec<Term> = clauses.iter().flatten().copied().collect();
        let mut found = objects.postings(segment, &terms).await?.into_iter();
        let mut planned = Vec::with_capacity(clauses.len());
        for clause in clauses {
            let lists: Vec<_> = found.by_ref().take(clause.len()).flatten().collect();
            let count: u64 = lists.iter().map(|list| list.count()).sum();
            planned.push(Lists { lists, count });
        }
        for clause in &planned {
            objects.meters.clause_logs.record(clause.count as f64);
        }
        planned.sort_by_key(|clause| clause.count);
        let Some(driver) = planned.first().filter(|driver| driver.count > 0) else {
            return Ok(nothing);
        };
        let pending = if driver.all_short() {
            Pending::Ids(driver.short_ids(bounds))
        } else {
            let mut pages = driver.page_numbers(bounds);
            if order == Order::Ascending {
                pages.reverse();
            }
            Pending::Pages(pages)
        };
        Ok(Self {
            clauses: planned,
            pending,
            ..nothing
        })
    }

    /// How many rows can be candidates at most.
    pub(crate) fn rows_max(&self) -> u64 {
        match (&self.pending, self.clauses.first()) {
            (Pending::Ids(ids), _) => ids.len() as u64,
            (Pending::Pages(_), Some(driver)) => driver.count,
            (Pending::Pages(_), None) => 0,
            (Pending::Rows(start, end), _) => u64::from(end - start),
        }
    }

    /// When the transaction hashes of candidates are best requested.
    pub(crate) fn hashes(&self) -> Hashes {
        if self.unsure {
            Hashes::Afterwards
        } else {
            Hashes::AtOnce
        }
    }

    /// The next candidates in the query's order; none when there are no more.
    pub(crate) async fn next(
        &mut self,
        objects: &Objects,
        segment: &OpenSegment,
    ) -> Result<Option<Vec<u32>>> {
        self.step += 1;
        let mut ids = match &mut self.pending {
            Pending::Ids(ids) if ids.is_empty() => return Ok(None),
            Pending::Ids(ids) => {
                let ids = std::mem::take(ids);
                self.narrow(objects, segment, ids).await?
            }
            Pending::Rows(start, end) => {
                let size = (FIRST_ROWS << (self.step - 1).min(6))
                    .min(ROWS_MAX)
                    .min(*end - *start);
                if size == 0 {
                    return Ok(None);
                }
                let (from, to) = match self.order {
                    Order::Ascending => {
                        *start += size;
                        (*start - size, *start)
                    }
                    Order::Descending => {
                        *end -= size;
                        (*end, *end + size)
                    }
                };
                rows_between(segment, from, to)
            }
            Pending::Pages(pages) => {
                let size = (FIRST_PAGES << (self.step - 1).min(6)).min(PAGES_MAX);
                let from = pages.len().saturating_sub(size);
                let mut numbers = pages.split_off(from);
                if numbers.is_empty() {
                    return Ok(None);
                }
                numbers.sort_unstable();
                self.scan_pages(objects, segment, &numbers).await?
            }
        };
        if self.order == Order::Descending {
            ids.reverse();
        }
        Ok(Some(ids))
    }

    /// Drops ids that another clause rules out. A clause too common to be worth its pages is left
    /// to the exact check.
    async fn narrow(
        &mut self,
        objects: &Objects,
        segment: &OpenSegment,
        mut ids: Vec<u32>,
    ) -> Result<Vec<u32>> {
        let rows = segment.tables.facts.logs.max(1);
        for clause in self.clauses.iter().skip(1) {
            if ids.is_empty() {
                break;
            }
            let shorts = clause.short_ids(self.bounds);
            if clause.all_short() {
                ids.retain(|id| shorts.binary_search(id).is_ok());
                continue;
            }
            let mut numbers: Vec<u32> = ids.iter().map(|id| id / PAGE_IDS).collect();
            numbers.dedup();
            let mut places: Vec<PageRef> = clause.pages(&numbers).collect();
            let gained = ids.len() as u64 * rows.saturating_sub(clause.count) / rows;
            places.sort_unstable_by_key(|place| place.start);
            let in_memory = objects.pages_in_memory(segment, &places);
            let cost = (places.len() - in_memory) as u64 * PAGE_COST
                + in_memory as u64 * PAGE_IN_MEMORY_COST;
            if gained * ROW_COST <= cost {
                self.unsure = true;
                continue;
            }
            let pages = objects.posting_pages(segment, &places).await?;
            let mut by_page: Vec<(u32, Arc<Ids>)> = places
                .iter()
                .zip(pages)
                .map(|(place, ids)| (place.page, ids))
                .collect();
            by_page.sort_by_key(|(page, _)| *page);
            if by_page.len() > numbers.len() * JOIN_LISTS {
                by_page = join_lists(by_page);
            }
            ids.retain(|&id| {
                let from = by_page.partition_point(|(page, _)| *page < id / PAGE_IDS);
                let same = by_page
                    .iter()
                    .skip(from)
                    .take_while(|(page, _)| *page == id / PAGE_IDS);
                shorts.binary_search(&id).is_ok()
                    || same.into_iter().any(|(_, ids)| ids.contains(id as u16))
            });
        }
        Ok(ids)
    }

    /// Intersects all clauses on a few pages.
    async fn scan_pages(
        &mut self,
        objects: &Objects,
        segment: &OpenSegment,
        numbers: &[u32],
    ) -> Result<Vec<u32>> {
        let driver = self.clauses.first();
        let driver = driver.expect("pages are those of the first clause");
        let mut places: Vec<PageRef> = driver.pages(numbers).collect();
        places.sort_unstable_by_key(|place| place.start);
        let pages = objects.posting_pages(segment, &places).await?;
        let shorts = driver.short_ids(self.bounds);
        let mut ids = Vec::new();
        for &number in numbers {
            let base = number * PAGE_IDS;
            let mut here: Vec<&Ids> = Vec::new();
            let of_page = places
                .iter()
                .zip(&pages)
                .filter(|(place, _)| place.page == number);
            here.extend(of_page.map(|(_, ids)| &**ids));
            let from = shorts.partition_point(|&id| id < base);
            let short: Vec<u16> = shorts
                .iter()
                .skip(from)
                .take_while(|&&id| id / PAGE_IDS == number)
                .map(|&id| id as u16)
                .collect();
            let short = Ids::from_sorted(short);
            let start = self.bounds.0.saturating_sub(base);
            let end = (self.bounds.1 - base).min(PAGE_IDS);
            let mut locals = Vec::new();
            match here.as_slice() {
                [only] if short.len() == 0 => only.collect_range(start, end, &mut locals),
                _ => {
                    let all = page::union(here.into_iter().chain([&short]));
                    all.collect_range(start, end, &mut locals);
                }
            }
            ids.extend(locals.into_iter().map(|local| base + u32::from(local)));
        }
        self.narrow(objects, segment, ids).await
    }
}

/// The lists of each page, sorted by page, as one.
fn join_lists(by_page: Vec<(u32, Arc<Ids>)>) -> Vec<(u32, Arc<Ids>)> {
    let joined = by_page.chunk_by(|a, b| a.0 == b.0).map(|same| {
        let (number, _) = *same.first().expect("a chunk has at least one element");
        let ids = page::union(same.iter().map(|(_, ids)| &**ids));
        (number, Arc::new(ids))
    });
    joined.collect()
}

/// The ids in the bounds that rows have: between stretches some are left free.
fn rows_between(segment: &OpenSegment, from: u32, to: u32) -> Vec<u32> {
    let stretches = &segment.tables.stretches;
    let first = stretches.partition_point(|placed| placed.first_id + placed.stretch.rows <= from);
    let mut ids = Vec::new();
    for placed in stretches
        .iter()
        .skip(first)
        .take_while(|placed| placed.first_id < to)
    {
        let end = (placed.first_id + placed.stretch.rows).min(to);
        ids.extend(placed.first_id.max(from)..end);
    }
    ids
}
