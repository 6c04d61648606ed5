//! A source in memory over simulated nodes, and a chain that follows it. No socket and no process: with
//! tokio's clock paused the same test does the same on every machine, and waits for nothing. Where the real
//! source matters, `served` has it over servers of this process.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "each test file uses its own part, and a test may panic"
)]

pub mod log;
pub mod ranges;
pub mod served;
pub mod start;
pub mod stellar;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chronolith_archive::Archive;
use chronolith_follower::chain::Chain;
use chronolith_follower::ingest;
use chronolith_follower::location::ArchiveLocation;
use chronolith_follower::settings::{Finality, FollowSettings};
use chronolith_model::{
    BlockMeta, BlockRange, BlockRef, Dataset, DatasetSet, LogFilter, Proof, Scope,
};
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_source::{
    EndpointBlock, EndpointReport, Error, FailureClass, Fetched, Heads, Identity, Plan, Result,
    Source, Want,
};
use tempfile::TempDir;
use tokio::sync::watch;

/// How long anything may take by the paused clock. Nothing takes that long by a real one.
const PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// Blocks that come with one fetch.
pub const FETCH_BLOCKS: u64 = 50;

/// How long a fetch takes by the paused clock.
const FETCH_TIME: Duration = Duration::from_millis(100);

/// Endpoints in memory, the preferred first. Clones are the same source.
#[derive(Clone, Debug)]
pub struct MemorySource(Arc<Inner>);

struct Inner {
    nodes: Mutex<Vec<EvmNode>>,
    down: Mutex<BTreeSet<usize>>,
    /// Fetches that are still answered; the next one never is.
    fetches_left: AtomicU64,
    /// Blocks that the source cannot deliver before an operator acts.
    broken: Mutex<Option<BlockRange>>,
    is_stuck: watch::Sender<bool>,
    fetched: Mutex<Vec<u64>>,
    reported: Mutex<Vec<String>>,
    hints: watch::Sender<u64>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

fn name(at: usize) -> Arc<str> {
    format!("node-{at}").into()
}

impl MemorySource {
    pub fn new(nodes: &[&EvmNode]) -> Self {
        Self(Arc::new(Inner {
            nodes: Mutex::new(nodes.iter().map(|node| (*node).clone()).collect()),
            down: Mutex::default(),
            fetches_left: AtomicU64::new(u64::MAX),
            broken: Mutex::default(),
            is_stuck: watch::Sender::new(false),
            fetched: Mutex::default(),
            reported: Mutex::default(),
            hints: watch::Sender::new(0),
        }))
    }

    /// Answers so many fetches more. The next one waits forever.
    pub fn stop_after_fetches(&self, count: u64) {
        self.0.fetches_left.store(count, Ordering::SeqCst);
        self.0.is_stuck.send_replace(false);
    }

    /// Fails fetches of these blocks until an operator acts.
    pub fn break_blocks(&self, blocks: BlockRange) {
        *self.0.broken.lock().unwrap() = Some(blocks);
    }

    /// Waits until a fetch waits forever.
    pub async fn stuck(&self) {
        let mut stuck = self.0.is_stuck.subscribe();
        stuck.wait_for(|stuck| *stuck).await.unwrap();
    }

    /// Puts another node behind an endpoint.
    pub fn replace(&self, at: usize, node: &EvmNode) {
        self.0.nodes.lock().unwrap()[at] = node.clone();
    }

    pub fn set_down(&self, at: usize, is_down: bool) {
        let mut down = self.0.down.lock().unwrap();
        if is_down {
            down.insert(at);
        } else {
            down.remove(&at);
        }
    }

    /// The numbers of all blocks that were fetched, each as often as that happened.
    pub fn fetched(&self) -> Vec<u64> {
        self.0.fetched.lock().unwrap().clone()
    }

    /// Endpoints that were reported for blocks that do not fit.
    pub fn reported(&self) -> Vec<String> {
        self.0.reported.lock().unwrap().clone()
    }

    /// Nodes that answer.
    fn up(&self) -> Vec<(usize, EvmNode)> {
        let (nodes, down) = (self.0.nodes.lock().unwrap(), self.0.down.lock().unwrap());
        let nodes = nodes.iter().cloned().enumerate();
        nodes.filter(|(at, _)| !down.contains(at)).collect()
    }

    fn first(&self) -> Result<EvmNode> {
        let first = self.up().into_iter().next();
        first.map(|(_, node)| node).ok_or_else(unavailable)
    }

    fn opinions(&self, number: u64) -> Vec<EndpointBlock> {
        let opinion = |(at, node): (usize, EvmNode)| {
            let block = node.block(number)?.block_ref();
            let endpoint = name(at);
            Some(EndpointBlock { endpoint, block })
        };
        self.up().into_iter().filter_map(opinion).collect()
    }
}

fn unavailable() -> Error {
    Error::Unavailable {
        endpoint: "memory".to_owned(),
        reason: "no endpoint answers".to_owned(),
        class: FailureClass::Unreachable,
        retry_after: None,
    }
}

#[async_trait]
impl Source for MemorySource {
    async fn identity(&self) -> Result<Identity> {
        let node = self.first()?;
        let genesis = node.block(0).map(|block| block.block_ref().hash);
        let chain_id = node.chain_id();
        Ok(Identity { chain_id, genesis })
    }

    async fn heads(&self) -> Result<Heads> {
        let node = self.first()?;
        Ok(Heads {
            head: node.head(),
            finalized: Some(node.finalized()),
            safe: Some(node.safe()),
        })
    }

    async fn clock(&self, number: u64) -> Result<Option<BlockMeta>> {
        let block = self.first()?.block(number);
        Ok(block.map(|block| block.to_model().clock))
    }

    async fn block_at_each_endpoint(&self, number: u64) -> Vec<EndpointBlock> {
        self.opinions(number)
    }

    async fn block_at_healthy_endpoints(
        &self,
        number: u64,
        _also: &[Arc<str>],
    ) -> Vec<EndpointBlock> {
        self.opinions(number)
    }

    async fn fetch_some(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        let left = self.0.fetches_left.load(Ordering::SeqCst);
        if left == 0 {
            self.0.is_stuck.send_replace(true);
            return std::future::pending().await;
        }
        self.0.fetches_left.store(left - 1, Ordering::SeqCst);
        tokio::time::sleep(FETCH_TIME).await;
        let broken = *self.0.broken.lock().unwrap();
        if broken.is_some_and(|broken| broken.contains(range.start)) {
            return Err(Error::Stuck {
                endpoint: "memory".to_owned(),
                reason: "broken".to_owned(),
            });
        }
        let has_anchor = |node: &EvmNode| {
            let at = |anchor: BlockRef| node.block(anchor.number).map(|block| block.block_ref());
            anchor.is_none_or(|anchor| at(anchor) == Some(anchor))
        };
        let mut nodes = self.up().into_iter();
        let (at, node) = nodes
            .find(|(_, node)| has_anchor(node))
            .ok_or_else(unavailable)?;
        let end = range.end.min(range.start + FETCH_BLOCKS);
        let has_headers = want.datasets.contains(Dataset::Headers);
        let blocks: Vec<Fetched> = (range.start..end)
            .map_while(|number| node.block(number))
            .map(|sent| {
                let mut block = sent.to_model();
                block.payload.header = has_headers.then(|| sent.encoded_header());
                Fetched {
                    block,
                    proof: Proof::ROOTS,
                    endpoint: name(at),
                }
            })
            .collect();
        let numbers = blocks.iter().map(|one| one.block.clock.number);
        self.0.fetched.lock().unwrap().extend(numbers);
        if blocks.is_empty() {
            return Err(unavailable());
        }
        Ok(blocks)
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.0.hints.subscribe()
    }

    fn report_bad(&self, endpoint: &str, _block: BlockRef, _what: &str) {
        self.0.reported.lock().unwrap().push(endpoint.to_owned());
    }

    fn endpoints(&self) -> Vec<EndpointReport> {
        let down = self.0.down.lock().unwrap();
        let report = |at: usize| EndpointReport {
            name: name(at).to_string(),
            requests: 0,
            failures: 0,
            inconsistencies: 0,
            backing_off: down.contains(&at),
            last_error: down.contains(&at).then(|| "down".to_owned()),
            last_failure: down.contains(&at).then_some(FailureClass::Unreachable),
        };
        (0..self.0.nodes.lock().unwrap().len())
            .map(report)
            .collect()
    }

    fn plan(&self, _want: &Want) -> Plan {
        Plan {
            blocks: FETCH_BLOCKS,
            at_once: 1,
        }
    }
}

/// A directory with the archive of a simulated chain.
pub struct Ground {
    pub dir: TempDir,
    pub settings: FollowSettings,
}

impl Ground {
    pub fn new(finality: Finality) -> Self {
        let mut settings = FollowSettings::of_endpoints(31_337, "sim", Vec::new());
        settings.finality = finality;
        settings.datasets = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]);
        let dir = tempfile::tempdir().unwrap();
        Self { dir, settings }
    }

    pub fn place(&self) -> ArchiveLocation {
        place(self.dir.path())
    }

    /// Opens the archive to write it, as a start of the program does. A chain that was dropped amid a write
    /// keeps the directory until that write is over: a process would have taken it along.
    pub async fn open(&self, source: &MemorySource) -> Chain {
        let source: Arc<dyn Source> = Arc::new(source.clone());
        let place = self.place();
        opened(PATIENCE, || {
            let (settings, place, source) = (self.settings.clone(), &place, source.clone());
            Chain::open_from(settings, place, Some(source))
        })
        .await
    }

    /// Opens it beside the process that writes it.
    pub async fn open_replica(&self, source: &MemorySource) -> Chain {
        let source = Arc::new(source.clone());
        let place = self.place();
        let opened = Chain::open_replica_from(self.settings.clone(), &place, source);
        opened.await.unwrap()
    }
}

/// What opens within this time.
async fn opened<T: Future<Output = anyhow::Result<Chain>>>(
    patience: Duration,
    mut open: impl FnMut() -> T,
) -> Chain {
    let mut last = None;
    let opening = async {
        loop {
            match open().await {
                Ok(chain) => return chain,
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let opened = tokio::time::timeout(patience, opening).await;
    opened.unwrap_or_else(|_| panic!("it does not open: {last:?}"))
}

/// Does what `chronolith run --until-caught-up` does.
pub async fn catch_up(chain: &Chain) -> anyhow::Result<()> {
    chain.admit().await?;
    Box::pin(chronolith_follower::catch_up::run(chain)).await
}

fn place(dir: &Path) -> ArchiveLocation {
    ArchiveLocation::Directory(dir.join("archive"))
}

pub fn node(seed: u64, blocks: u64) -> EvmNode {
    EvmNode::new(EvmSpec::tiny(seed), blocks)
}

/// Waits by the paused clock.
pub async fn wait(what: &str, mut reached: impl FnMut() -> bool) {
    let waiting = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "{what} was not reached");
}

/// Follows a chain while something else happens.
pub async fn following<T>(chain: &Chain, meanwhile: impl Future<Output = T>) -> T {
    tokio::select! {
        ended = Box::pin(ingest::run(chain)) => panic!("it ended: {ended:?}"),
        done = meanwhile => done,
    }
}

pub fn archived(chain: &Chain) -> Option<u64> {
    chain.archive.health().head.map(|head| head.number)
}

pub async fn until_archived(chain: &Chain, number: u64) {
    wait("the archive's head", || archived(chain) == Some(number)).await;
}

/// Blocks that are compared at once: an answer holds 10,000 logs at the most.
const COMPARE_BLOCKS: u64 = 200;

/// Every log of a range of the archive is the node's, in order, each once, every block is the node's with its
/// transactions where these are kept, and no object is damaged.
pub async fn assert_archived(archive: &Archive, node: &EvmNode, range: BlockRange) {
    let mut compared = 0;
    let with_hashes = DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]);
    let has_hashes = archive.missing(range, with_hashes, &Scope::All).is_empty();
    let kept = if has_hashes {
        with_hashes
    } else {
        DatasetSet::of(&[Dataset::Logs])
    };
    let starts = (range.start..range.end).step_by(COMPARE_BLOCKS as usize);
    for start in starts {
        let part = BlockRange::new(start, range.end.min(start + COMPARE_BLOCKS));
        let mut filter = LogFilter::over(part);
        filter.limit = Some(1_000_000);
        let page = archive.query_finalized(&filter).await.unwrap();
        let (expected, _) = node.oracle(part).query(&filter);
        let found = page.logs.iter();
        let found: Vec<_> = found
            .map(|one| (one.block.number, one.log.clone()))
            .collect();
        assert_eq!(
            found.len(),
            expected.len(),
            "logs missing or twice in {part}"
        );
        assert_eq!(found, expected);
        assert!(!page.has_more);
        compared += found.len();
        let block = node.block(part.end - 1).unwrap().block_ref();
        let found = archive.block_by_hash(&block.hash).await.unwrap();
        assert_eq!(found.map(|clock| clock.block_ref()), Some(block));
        for number in part.start..part.end {
            let block = node.block(number).unwrap().to_model();
            let difference = archive.difference(&block, kept, &Scope::All).await;
            assert_eq!(difference.unwrap(), None, "block {number}");
        }
    }
    assert!(compared > 0, "nothing was compared");
    let damaged = archive.inspect(range, &mut |_| {}).await.unwrap();
    assert!(damaged.is_empty(), "{} damaged objects", damaged.len());
}
