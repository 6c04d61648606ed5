//! A range of blocks on its way, in many parts at a time and in order.

use std::collections::VecDeque;
use std::sync::Arc;

use chronolith_model::{BlockRange, BlockRef};
use chronolith_source::{Fetched, Source, Want};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::ingest::Trouble;

/// Parts of a range on their way, each in a task of its own: they are fetched, parsed and proven while
/// the ones before them are archived.
pub(crate) struct Fetches {
    source: Arc<dyn Source>,
    want: Want,
    anchor: Option<BlockRef>,
    /// In the order of the chain.
    under_way: VecDeque<Part>,
    /// What nobody fetches yet.
    rest: BlockRange,
}

struct Part {
    range: BlockRange,
    /// A set of one: it ends its task when it is dropped.
    task: JoinSet<chronolith_source::Result<Vec<Fetched>>>,
}

impl Fetches {
    /// Blocks of a range; with an anchor, only from endpoints that have that block.
    pub(crate) fn new(
        source: &Arc<dyn Source>,
        want: &Want,
        (range, anchor): (BlockRange, Option<BlockRef>),
    ) -> Self {
        Self {
            source: source.clone(),
            want: want.clone(),
            anchor,
            under_way: VecDeque::new(),
            rest: range,
        }
    }

    /// The blocks that come next; none at the end of the range.
    pub(crate) async fn next(&mut self) -> Option<Result<Vec<Fetched>, Trouble>> {
        self.start();
        let mut part = self.under_way.pop_front()?;
        let fetched = match part.task.join_next().await? {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(error)) => return Some(Err(error.into())),
            Err(error) => return Some(Err(Trouble::Other(error.to_string()))),
        };
        let next = part.range.start + fetched.len() as u64;
        if fetched.is_empty() {
            let what = format!("no block came for {}", part.range);
            return Some(Err(Trouble::Unsettled(what)));
        }
        if next < part.range.end && self.under_way.is_empty() {
            // To be cut anew, by what is known now.
            self.rest = BlockRange::new(next, self.rest.end);
        } else if next < part.range.end {
            self.fetch_left(BlockRange::new(next, part.range.end));
        }
        self.start();
        Some(Ok(fetched))
    }

    /// Fetches what a part left over, in as many parts as are useful: everything behind waits for it.
    fn fetch_left(&mut self, mut left: BlockRange) {
        let plan = self.source.plan(&self.want);
        let mut cut = Vec::new();
        while left.len() > plan.blocks.max(1) && cut.len() + 1 < plan.at_once {
            let (first, rest) = (left.start, left.start + plan.blocks.max(1));
            cut.push(BlockRange::new(first, rest));
            left = BlockRange::new(rest, left.end);
        }
        cut.push(left);
        for range in cut.into_iter().rev() {
            let part = self.fetch(range);
            self.under_way.push_front(part);
        }
    }

    /// Starts as many fetches as are useful at the same time.
    fn start(&mut self) {
        let plan = self.source.plan(&self.want);
        while self.under_way.len() < plan.at_once.max(1) && !self.rest.is_empty() {
            let end = self.rest.start.saturating_add(plan.blocks.max(1));
            let range = BlockRange::new(self.rest.start, end.min(self.rest.end));
            self.rest = BlockRange::new(range.end, self.rest.end);
            let part = self.fetch(range);
            self.under_way.push_back(part);
        }
    }

    fn fetch(&self, range: BlockRange) -> Part {
        let (source, want, anchor) = (self.source.clone(), self.want.clone(), self.anchor);
        let mut task = JoinSet::new();
        let fetch = async move { source.fetch_some(range, &want, anchor).await };
        task.spawn(fetch.in_current_span());
        Part { range, task }
    }
}
