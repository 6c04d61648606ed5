//! A range of blocks on its way, in many parts at a time and in order.

use std::collections::VecDeque;
use std::sync::Arc;

use chronolith_model::{BlockRange, BlockRef};
use chronolith_source::{Fetched, Source, Want};
use tokio::task::JoinSet;
use tracing::Instrument as _;

use crate::error::FollowError;

/// Parts of a range on their way, each in a task of its own: they are fetched, parsed and proven while
/// the ones before them are archived.
pub(crate) struct Fetches {
    source: Arc<dyn Source>,
    want: Want,
    anchor: Option<BlockRef>,
    /// In the order of the chain.
    under_way: VecDeque<Part>,
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
        range: BlockRange,
        anchor: Option<BlockRef>,
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
    pub(crate) async fn next(&mut self) -> Option<Result<Vec<Fetched>, FollowError>> {
        self.start();
        let mut part = self.under_way.pop_front()?;
        let fetched = match part.task.join_next().await? {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(error)) => return Some(Err(error.into())),
            Err(error) => return Some(Err(FollowError::Other(error.to_string()))),
        };
        let next = part.range.start + fetched.len() as u64;
        if fetched.is_empty() {
            let what = format!("no block came for {}", part.range);
            return Some(Err(FollowError::Unsettled(what)));
        }
        if next < part.range.end && self.under_way.is_empty() {
            // To be cut again, by what is known now.
            self.rest = BlockRange::new(next, self.rest.end);
        } else if next < part.range.end {
            self.fetch_left(BlockRange::new(next, part.range.end));
        }
        self.start();
        Some(Ok(fetched))
    }

    /// Fetches what a part left over, in as many parts as are useful: everything after it waits.
    fn fetch_left(&mut self, mut left: BlockRange) {
        let plan = self.source.plan_at(left.start, &self.want);
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
        while !self.rest.is_empty() {
            // What follows may come from elsewhere, and in fewer parts at a time.
            let plan = self.source.plan_at(self.rest.start, &self.want);
            if self.under_way.len() >= plan.at_once.max(1) {
                break;
            }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;
    use chronolith_model::{Block, BlockMeta, DatasetSet, Hash32, Payload, Proof, Scope};
    use chronolith_source::{
        EndpointBlock, EndpointReport, Error, Heads, Identity, Plan, Result, Subscription,
    };
    use tokio::sync::{Barrier, watch};

    use super::*;

    /// The first block that is had one part at a time.
    const SEAM: u64 = 75;
    const AT_ONCE: usize = 4;
    const PATIENCE: Duration = Duration::from_secs(30);

    /// Old blocks from many places, new ones from one that has them in order.
    #[derive(Debug)]
    struct TwoPlaces {
        /// Opens when as many fetches of old blocks are under way as are useful.
        all_under_way: Barrier,
        of_new: AtomicUsize,
        hints: watch::Sender<u64>,
    }

    fn block(number: u64) -> Fetched {
        Fetched {
            block: Block {
                clock: BlockMeta {
                    number,
                    hash: Hash32([number as u8; 32]),
                    parent_hash: Hash32([number.wrapping_sub(1) as u8; 32]),
                    timestamp: number,
                },
                txs: Vec::new(),
                logs: Vec::new(),
                payload: Payload::default(),
            },
            proof: Proof::LINKED,
            endpoint: "sim".into(),
        }
    }

    #[async_trait]
    impl Source for TwoPlaces {
        async fn fetch_some(
            &self,
            range: BlockRange,
            _want: &Want,
            _anchor: Option<BlockRef>,
        ) -> Result<Vec<Fetched>> {
            let mut end = range.end;
            if range.start < SEAM {
                let all = tokio::time::timeout(PATIENCE, self.all_under_way.wait());
                all.await
                    .map_err(|_| Error::Invalid("one at a time".to_owned()))?;
                end = end.min(SEAM);
            } else {
                let others = self.of_new.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                self.of_new.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(others, 0, "{range} passes another one");
            }
            Ok((range.start..end).map(block).collect())
        }

        /// The reader of new blocks is far ahead of this range.
        fn plan(&self, want: &Want) -> Plan {
            self.plan_at(SEAM, want)
        }

        fn plan_at(&self, start: u64, _want: &Want) -> Plan {
            Plan {
                blocks: 10,
                at_once: if start < SEAM { AT_ONCE } else { 1 },
            }
        }

        async fn identity(&self) -> Result<Identity> {
            Err(Error::Invalid("not used here".to_owned()))
        }

        async fn heads(&self) -> Result<Heads> {
            Err(Error::Invalid("not used here".to_owned()))
        }

        async fn clock(&self, _number: u64) -> Result<Option<BlockMeta>> {
            Ok(None)
        }

        async fn block_at_each_endpoint(&self, _number: u64) -> Vec<EndpointBlock> {
            Vec::new()
        }

        async fn syncing(&self, _endpoint: &str) -> Result<bool> {
            Ok(false)
        }

        async fn listen(&self) {}

        fn hints(&self) -> watch::Receiver<u64> {
            self.hints.subscribe()
        }

        fn subscription(&self) -> Subscription {
            Subscription::Off
        }

        fn report_bad(&self, _endpoint: &str, _block: BlockRef, _what: &str) {}

        fn endpoints(&self) -> Vec<EndpointReport> {
            Vec::new()
        }
    }

    /// Parts were cut by where new blocks come from, whichever blocks were requested.
    #[tokio::test(flavor = "multi_thread")]
    async fn each_part_is_fetched_as_suits_where_it_comes_from() {
        let source: Arc<dyn Source> = Arc::new(TwoPlaces {
            all_under_way: Barrier::new(AT_ONCE),
            of_new: AtomicUsize::new(0),
            hints: watch::Sender::new(0),
        });
        let want = Want {
            datasets: DatasetSet::CLOCK,
            scope: Scope::All,
            proof: Proof::LINKED,
        };
        let range = BlockRange::new(0, 120);
        let mut fetches = Fetches::new(&source, &want, range, None);
        let mut numbers = Vec::new();
        while let Some(fetched) = fetches.next().await {
            let fetched = fetched.unwrap();
            numbers.extend(fetched.iter().map(|one| one.block.clock.number));
        }
        assert_eq!(numbers, (range.start..range.end).collect::<Vec<_>>());
    }
}
