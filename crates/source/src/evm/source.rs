//! An EVM chain read from JSON-RPC endpoints.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use chronolith_model::{BlockMeta, BlockRange, BlockRef, Dataset, Hash32, Scope, Verification};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::claims::Claims;
use super::elsewhere::Elsewhere;
use super::evidence::Evidence;
use super::fetch::{Fetcher, GET_RECEIPTS, meta_of};
use super::finals::Finals;
use super::heads::HeadListener;
use super::ranges::{RangeSettings, Spans};
use super::reader::{Reader, Tags};
use super::recent::Recent;
use super::rules::{Checks, Rule};
use super::strength::Downgrades;
use super::verify::Verifier;
use super::wire::{WireBlock, hex, parse_quantity};
use crate::error::{Error, Result};
use crate::health::EndpointReport;
use crate::jsonrpc::call::Call;
use crate::jsonrpc::endpoint::Endpoint;
use crate::jsonrpc::pool::{PassedOver, Pool};
use crate::jsonrpc::reply::Answer;
use crate::jsonrpc::settings::EndpointSettings;
use crate::source::{
    DroppedRule, EndpointBlock, Fetched, Heads, Identity, Plan, Source, Subscription, Want,
};

/// How often a range is tried on all endpoints together.
pub(super) const ATTEMPTS: usize = 12;
/// Blocks of one part where no logs show how much there is in them.
const UNWEIGHED_BLOCKS_MAX: u64 = 2_000;
/// Requests for headers that one part of history takes.
const PART_REQUESTS_MAX: u64 = 20;

/// How logs are requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// One call for the receipts of each block: they can be proven.
    Receipts,
    /// One call for the logs of many blocks, and their headers.
    Logs,
}

/// A chain and who serves it.
#[derive(Clone)]
pub struct EvmSettings {
    /// Its id; an endpoint with another is refused.
    pub chain_id: u64,
    pub endpoints: Vec<EndpointSettings>,
    /// WebSocket URLs that announce new heads; one is used at a time.
    pub heads: Vec<String>,
    /// Which tags are requested with the heads: each is a call more.
    pub tags: Tags,
    /// How logs are requested, where the endpoint can.
    pub strategy: Strategy,
    /// What the chain lets us prove.
    pub checks: Checks,
    /// How much history is requested at once.
    pub ranges: RangeSettings,
}

impl std::fmt::Debug for EvmSettings {
    /// Without the URLs, which may carry keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EvmSettings")
            .field("chain_id", &self.chain_id)
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

/// Endpoints that serve the right chain, with the block that they were last seen to have.
type Admitted = HashMap<Arc<str>, Option<BlockRef>>;

#[derive(Debug)]
pub struct EvmSource {
    pub(super) settings: EvmSettings,
    pub(super) pool: Pool,
    pub(super) verifier: Verifier,
    spans: HashMap<Arc<str>, Spans>,
    heads: HeadListener,
    recent: Recent,
    pub(super) evidence: Evidence,
    pub(super) elsewhere: Elsewhere,
    pub(super) admitted: Mutex<Admitted>,
    /// The chain's first block, once it is known.
    pub(super) genesis: OnceLock<Hash32>,
    /// Endpoints whose first block is not another one.
    pub(super) compared: Mutex<HashSet<Arc<str>>>,
    pub(super) downgrades: Downgrades,
    pub(super) archived: AtomicU64,
    pub(super) finals: Finals,
}

impl EvmSource {
    /// Over these endpoints. Nothing is requested yet.
    ///
    /// # Errors
    /// `Invalid` without endpoints, or with one that is not a valid URL.
    pub fn new(settings: EvmSettings) -> Result<Self> {
        let pool = Pool::new(settings.chain_id, settings.endpoints.clone())?;
        let span = |endpoint: &Arc<Endpoint>| {
            let parts = parts_at_once(endpoint.settings.in_flight);
            (endpoint.name.clone(), Spans::new(settings.ranges, parts))
        };
        // The metric is there before a rule is dropped.
        for rule in Rule::ALL {
            crate::meters::rule_dropped(settings.chain_id, rule.name()).set(0.0);
        }
        Ok(Self {
            spans: pool.endpoints().iter().map(span).collect(),
            verifier: Verifier::new(settings.checks),
            heads: HeadListener::new(settings.chain_id, settings.heads.clone()),
            recent: Recent::default(),
            evidence: Evidence::default(),
            elsewhere: Elsewhere::default(),
            admitted: Mutex::default(),
            genesis: OnceLock::new(),
            compared: Mutex::default(),
            downgrades: Downgrades::new(settings.chain_id),
            archived: AtomicU64::default(),
            finals: Finals::default(),
            pool,
            settings,
        })
    }

    /// Requests from every endpoint which chain it serves. Those that cannot be reached are left for later,
    /// those of another chain are named and passed over.
    ///
    /// # Errors
    /// `Exhausted` where none of this chain answers and one does not answer at all, `WrongChain` where all
    /// serve other chains.
    pub async fn check_chain(&self) -> Result<()> {
        let (mut silent, mut wrong) = (None, None);
        let mut reached = false;
        for endpoint in self.pool.endpoints() {
            match self.chain_id_of(endpoint).await {
                Ok(id) if id == self.settings.chain_id => {
                    reached = true;
                    let mut admitted = self.admitted.lock();
                    admitted.entry(endpoint.name.clone()).or_default();
                }
                Ok(got) => {
                    let error = self.wrong_chain(endpoint, got);
                    self.note(endpoint, &error);
                    wrong = Some(error);
                }
                Err(error) => silent = Some(error),
            }
        }
        match (silent, wrong) {
            _ if reached => Ok(()),
            // It may be of this chain: that one serves another says nothing of it.
            (Some(error), _) => Err(Error::Exhausted(Box::new(error))),
            (None, Some(error)) => Err(error),
            (None, None) => Ok(()),
        }
    }

    fn wrong_chain(&self, endpoint: &Endpoint, got: u64) -> Error {
        Error::WrongChain {
            endpoint: endpoint.name.to_string(),
            expected: self.settings.chain_id,
            got,
        }
    }

    async fn chain_id_of(&self, endpoint: &Arc<Endpoint>) -> Result<u64> {
        let call = Call::new("eth_chainId", "[]");
        let answer: Answer<String> = endpoint.send_one(call).await?;
        let answer = answer.map_err(|fault| {
            let reason = format!("eth_chainId: {} ({})", fault.message, fault.code);
            endpoint.refused(reason, &fault)
        })?;
        let id = answer.as_deref().and_then(parse_quantity);
        id.ok_or_else(|| endpoint.unavailable("no chain id"))
    }

    /// Whether an endpoint may be used: it serves this chain and, with an anchor, has that block.
    /// Checked once, and again after a failure.
    pub(super) async fn admit(
        &self,
        endpoint: &Arc<Endpoint>,
        anchor: Option<BlockRef>,
    ) -> Result<()> {
        let known = self.admitted.lock().get(&endpoint.name).copied();
        if known.is_none() {
            let got = self.chain_id_of(endpoint).await?;
            if got != self.settings.chain_id {
                return Err(self.wrong_chain(endpoint, got));
            }
            self.compare_genesis(endpoint).await?;
            self.admitted.lock().insert(endpoint.name.clone(), None);
        }
        let Some(anchor) = anchor.filter(|anchor| known != Some(Some(*anchor))) else {
            return Ok(());
        };
        let there = self.header(endpoint, &hex(anchor.number)).await?;
        let there = there.map(|block| meta_of(&block).block_ref());
        if there != Some(anchor) {
            let number = anchor.number;
            let reason = format!("it has another block {number} than the anchor");
            return Err(endpoint.unavailable(reason));
        }
        let name = endpoint.name.clone();
        self.admitted.lock().insert(name, Some(anchor));
        Ok(())
    }

    /// Sends a request to one endpoint after the other until one answers; with an anchor, only to those that
    /// have it.
    pub(super) async fn first_answer<T>(
        &self,
        anchor: Option<BlockRef>,
        request: impl for<'a> Fn(&'a Self, &'a Arc<Endpoint>) -> BoxFuture<'a, Result<T>>,
    ) -> Result<T> {
        let mut avoid: Vec<Arc<str>> = Vec::new();
        let mut last = Error::Invalid("no endpoint is given".to_owned());
        for _ in 0..ATTEMPTS {
            if avoid.len() == self.pool.endpoints().len() {
                avoid.clear();
            }
            let passed = PassedOver {
                failed: &avoid,
                unfit: &[],
            };
            let endpoint = self.pool.endpoint(&passed).await?;
            let answer = async {
                self.admit(&endpoint, anchor).await?;
                request(self, &endpoint).await
            };
            match answer.await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    self.note(&endpoint, &error);
                    avoid.push(endpoint.name.clone());
                    last = error;
                }
            }
        }
        Err(Error::Exhausted(Box::new(last)))
    }

    /// A block's header from one endpoint; none where there is no such block or tag.
    pub(super) async fn header(
        &self,
        endpoint: &Arc<Endpoint>,
        tag: &str,
    ) -> Result<Option<WireBlock>> {
        self.reader(endpoint).header(tag).await
    }

    pub(super) fn reader<'a>(&'a self, endpoint: &'a Arc<Endpoint>) -> Reader<'a> {
        let verifier = &self.verifier;
        Reader { endpoint, verifier }
    }

    /// All heads of one endpoint. The newest header is kept for the fetch of that block.
    pub(super) async fn heads_of(&self, endpoint: &Arc<Endpoint>) -> Result<Heads> {
        let (heads, newest) = self.reader(endpoint).heads(self.settings.tags).await?;
        self.recent.keep(endpoint, newest);
        Ok(heads)
    }

    /// How this is requested from an endpoint.
    pub(super) fn strategy(&self, endpoint: &Endpoint, want: &Want) -> Strategy {
        let logs = want.datasets.contains(Dataset::Logs);
        // A narrow scope is requested by its logs, unless more is demanded than those can prove.
        let narrow = want.scope != Scope::All && want.proof.logs() <= Verification::Linked;
        match self.settings.strategy {
            Strategy::Receipts if logs && !narrow && endpoint.has(GET_RECEIPTS) => {
                Strategy::Receipts
            }
            _ => Strategy::Logs,
        }
    }

    /// How many blocks to request the logs of: they are held together, with all that is wanted.
    fn part_blocks(&self, endpoint: &Endpoint, spans: &Spans, want: &Want) -> u64 {
        let blocks = spans.for_logs();
        let hashes = want.datasets.contains(Dataset::TxHashes);
        let bodies = want.datasets.contains(Dataset::Transactions);
        // With all logs, nearly every transaction is one that logs name.
        let whole = hashes && self.verifier.proves_transactions();
        if whole || bodies && (hashes || want.scope == Scope::All) {
            return blocks.min(endpoint.batch() as u64);
        }
        // A part comes whole or not at all: the more requests it takes, the less often it does.
        let blocks = blocks.min(PART_REQUESTS_MAX * endpoint.batch() as u64);
        if want.datasets.contains(Dataset::Logs) {
            blocks
        } else {
            blocks.min(UNWEIGHED_BLOCKS_MAX)
        }
    }

    /// Reads ranges from one endpoint.
    pub(super) fn fetcher<'a>(
        &'a self,
        endpoint: &'a Arc<Endpoint>,
        want: &'a Want,
        anchor: Option<BlockRef>,
        claims: &'a Claims,
    ) -> Fetcher<'a> {
        Fetcher {
            endpoint,
            verifier: self.verifier.of_one_fetch(),
            want,
            spans: self.spans_of(endpoint),
            anchor,
            claims,
        }
    }

    fn spans_of(&self, endpoint: &Endpoint) -> &Spans {
        let spans = self.spans.get(&endpoint.name);
        spans.expect("every endpoint of the pool has spans")
    }

    /// The first blocks of a range from one endpoint.
    pub(super) async fn prefix(
        &self,
        fetcher: &Fetcher<'_>,
        range: BlockRange,
        strategy: Strategy,
    ) -> Result<Vec<Fetched>> {
        let Fetcher {
            endpoint,
            want,
            spans,
            ..
        } = *fetcher;
        if strategy == Strategy::Receipts {
            // A header holds no whole transactions.
            if !fetcher.whole_transactions()
                && let Some(header) = self.recent.take(endpoint, range)
                && let Some(fetched) = fetcher.of_header(header).await?
            {
                return Ok(vec![fetched]);
            }
            return fetcher.by_receipts(range).await;
        }
        let mut blocks = range.len().min(self.part_blocks(endpoint, spans, want));
        loop {
            let part = BlockRange::new(range.start, range.start + blocks);
            match fetcher.by_logs(part).await {
                Err(Error::TooLarge { reason, hint, .. }) => match spans.refused(blocks, hint) {
                    Some(fewer) => blocks = fewer,
                    // Even one block is too much for it: its receipts are not.
                    None if endpoint.has(GET_RECEIPTS) => {
                        return fetcher.by_receipts(part).await;
                    }
                    None => return Err(endpoint.health.too_large(reason)),
                },
                fetched => return fetched,
            }
        }
    }

    /// Takes note of what went wrong with an endpoint.
    pub(super) fn note(&self, endpoint: &Endpoint, error: &Error) {
        match error {
            Error::Inconsistent { what, number, .. } => {
                endpoint.report_bad(&format!("block {number}: {what}"));
            }
            Error::WrongChain { .. } | Error::WrongGenesis { .. } => {
                endpoint.report_bad(&error.to_string());
            }
            Error::Unproven { number, .. } => {
                tracing::debug!(endpoint = %endpoint.name, number, "block not taken: its logs are not proven");
            }
            Error::RuleFailed { .. } => self.rule_failed(endpoint, error),
            Error::NoMethod { method, .. } if *method == GET_RECEIPTS => {
                if endpoint.is_missing(method) {
                    tracing::info!(event = "method_missing", endpoint = %endpoint.name, method, "method missing, using another");
                }
            }
            _ => {
                self.admitted.lock().remove(&endpoint.name);
                endpoint.failed(error);
            }
        }
    }
}

#[async_trait]
impl Source for EvmSource {
    async fn identity(&self) -> Result<Identity> {
        if self.admitted.lock().is_empty() {
            self.check_chain().await?;
        }
        let genesis = self.agreed_genesis().await?;
        Ok(Identity {
            chain_id: self.settings.chain_id,
            genesis,
        })
    }

    fn expect_genesis(&self, genesis: Hash32) {
        self.genesis.get_or_init(|| genesis);
    }

    async fn heads(&self) -> Result<Heads> {
        self.agreed_heads().await
    }

    fn note_archived(&self, number: u64) {
        self.archived.store(number, Ordering::Relaxed);
    }

    async fn clock(&self, number: u64) -> Result<Option<BlockMeta>> {
        let tag = hex(number);
        let block = self.first_answer(None, |source, endpoint| {
            let tag = tag.clone();
            async move { source.header(endpoint, &tag).await }.boxed()
        });
        Ok(block.await?.as_ref().map(meta_of))
    }

    async fn block_at_each_endpoint(&self, number: u64) -> Vec<EndpointBlock> {
        let endpoints = self.pool.endpoints().iter();
        let requests = endpoints.map(|endpoint| self.block_at(endpoint, number));
        let blocks = futures::future::join_all(requests).await;
        blocks.into_iter().filter_map(|block| block.ok()?).collect()
    }

    async fn block_at_healthy_endpoints(
        &self,
        number: u64,
        also: &[Arc<str>],
    ) -> Vec<EndpointBlock> {
        self.blocks_at_healthy(number, also).await
    }

    async fn syncing(&self, endpoint: &str) -> Result<bool> {
        let unknown = || Error::Invalid("no endpoint has this name".to_owned());
        let endpoint = self.pool.by_name(endpoint).ok_or_else(unknown)?;
        self.reader(endpoint).syncing().await
    }

    async fn code(&self, address: [u8; 20]) -> Result<Option<Vec<u8>>> {
        let endpoint = self.pool.endpoint(&PassedOver::default()).await?;
        self.reader(&endpoint).code(address).await
    }

    async fn fetch_some(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        self.first_of(range, want, anchor).await
    }

    async fn listen(&self) {
        self.heads.listen().await;
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.heads.hints()
    }

    fn subscription(&self) -> Subscription {
        self.heads.state()
    }

    fn report_bad(&self, endpoint: &str, block: BlockRef, what: &str) {
        if let Some(endpoint) = self.pool.by_name(endpoint) {
            endpoint.report_bad(&format!("block {}: {what}", block.number));
        }
    }

    fn dropped_rules(&self) -> Vec<DroppedRule> {
        self.evidence.dropped()
    }

    fn endpoints(&self) -> Vec<EndpointReport> {
        self.pool.report()
    }

    fn plan(&self, want: &Want) -> Plan {
        let endpoints = self.pool.endpoints();
        let healthy = endpoints.iter().find(|one| one.is_healthy());
        let endpoint = healthy.or(endpoints.first());
        let endpoint = endpoint.expect("a pool has an endpoint");
        let spans = self.spans_of(endpoint);
        let (batch, in_flight) = (endpoint.batch() as u64, endpoint.settings.in_flight);
        match self.strategy(endpoint, want) {
            Strategy::Receipts => Plan {
                blocks: spans.for_receipts().min(batch),
                // Headers and receipts are two requests.
                at_once: parts_at_once(in_flight),
            },
            Strategy::Logs => {
                let blocks = self.part_blocks(endpoint, spans, want);
                let requests = 1 + blocks.div_ceil(batch) as usize;
                // While one waits for its logs and one for its last headers, a third fills the gaps.
                let at_once = in_flight / requests + 3;
                // Many guesses would be refused together.
                let at_once = if spans.is_known() { at_once } else { 1 };
                Plan { blocks, at_once }
            }
        }
    }
}

/// Parts of history that keep this many requests in flight, where each is two.
fn parts_at_once(in_flight: usize) -> usize {
    in_flight.div_ceil(2) + 1
}
