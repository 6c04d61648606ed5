//! An EVM chain behind JSON-RPC endpoints.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chronolith_model::{BlockClock, BlockRange, BlockRef, Dataset, Hash32, Scope};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::fetch::{Fetcher, GET_RECEIPTS, clock_of};
use super::heads::{HeadListener, Subscription};
use super::ranges::Spans;
use super::verify::{Checks, Verifier};
use super::wire::{WireBlock, hex, parse_quantity};
use crate::endpoint::{Answer, Call, Endpoint, EndpointReport, EndpointSettings};
use crate::error::{Error, Result};
use crate::pool::Pool;
use crate::source::{Fetched, Heads, Identity, Source, Want};

/// How often a range is tried on all endpoints together.
const ATTEMPTS: usize = 12;

/// Blocks of one fetch: a few requests.
const RANGE_BLOCKS: u64 = 250;

/// How logs are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// One call for the receipts of each block: they can be proven.
    Receipts,
    /// One call for the logs of many blocks, and their headers.
    Logs,
}

/// A chain and who serves it.
#[derive(Clone, Debug)]
pub struct EvmSettings {
    /// Its id; an endpoint with another is refused.
    pub chain_id: u64,
    /// Endpoints, the preferred first.
    pub endpoints: Vec<EndpointSettings>,
    /// WebSocket URLs that tell of new heads; one is used at a time.
    pub heads: Vec<String>,
    /// How logs are asked for, where the endpoint can.
    pub strategy: Strategy,
    /// What the chain lets us prove.
    pub checks: Checks,
    /// Blocks that one call for logs may span.
    pub span_max: u64,
}

/// Endpoints that serve the right chain, with the block that they were last seen to have.
type Admitted = HashMap<Arc<str>, Option<BlockRef>>;

/// Reads an EVM chain.
#[derive(Debug)]
pub struct EvmSource {
    settings: EvmSettings,
    pool: Pool,
    verifier: Verifier,
    spans: HashMap<Arc<str>, Spans>,
    heads: HeadListener,
    admitted: Mutex<Admitted>,
}

impl EvmSource {
    /// Over these endpoints. Nothing is asked yet.
    ///
    /// # Errors
    /// `Invalid` without endpoints, or with one that is no URL.
    pub fn new(settings: EvmSettings) -> Result<Self> {
        let pool = Pool::new(settings.chain_id, settings.endpoints.clone())?;
        let span =
            |endpoint: &Arc<Endpoint>| (endpoint.name.clone(), Spans::new(settings.span_max));
        Ok(Self {
            spans: pool.endpoints().iter().map(span).collect(),
            verifier: Verifier::new(settings.checks),
            heads: HeadListener::new(settings.chain_id, settings.heads.clone()),
            admitted: Mutex::default(),
            pool,
            settings,
        })
    }

    /// Asks every endpoint which chain it serves. Those that cannot be reached are left for later.
    ///
    /// # Errors
    /// `WrongChain`, or `Exhausted` where none answers.
    pub async fn check_chain(&self) -> Result<()> {
        let mut last = None;
        let mut reached = false;
        for endpoint in self.pool.endpoints() {
            match self.chain_id_of(endpoint).await {
                Ok(id) if id == self.settings.chain_id => reached = true,
                Ok(got) => {
                    return Err(Error::WrongChain {
                        endpoint: endpoint.name.to_string(),
                        expected: self.settings.chain_id,
                        got,
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) if !reached => Err(Error::Exhausted(Box::new(error))),
            _ => Ok(()),
        }
    }

    async fn chain_id_of(&self, endpoint: &Arc<Endpoint>) -> Result<u64> {
        let call = Call {
            method: "eth_chainId",
            params: "[]".to_owned(),
        };
        let answers = endpoint.send(&[call]).await?;
        let answer = answers.into_iter().next().and_then(Answer::ok);
        let id = answer.as_deref().and_then(quantity_of);
        id.ok_or_else(|| endpoint.unavailable("no chain id".to_owned()))
    }

    /// Whether an endpoint may be used: it serves this chain and, with an anchor, has that block.
    /// Asked once, and again after a failure.
    async fn admit(&self, endpoint: &Arc<Endpoint>, anchor: Option<BlockRef>) -> Result<()> {
        let known = self.lock_admitted().get(&endpoint.name).copied();
        if known.is_none() {
            let got = self.chain_id_of(endpoint).await?;
            if got != self.settings.chain_id {
                return Err(Error::WrongChain {
                    endpoint: endpoint.name.to_string(),
                    expected: self.settings.chain_id,
                    got,
                });
            }
            self.lock_admitted().insert(endpoint.name.clone(), None);
        }
        let Some(anchor) = anchor.filter(|anchor| known != Some(Some(*anchor))) else {
            return Ok(());
        };
        let there = self.header(endpoint, &hex(anchor.number)).await?;
        let there = there.map(|block| clock_of(&block).block_ref());
        if there != Some(anchor) {
            let number = anchor.number;
            let reason = format!("it has another block {number} than the one that is asked about");
            return Err(endpoint.unavailable(reason));
        }
        self.lock_admitted()
            .insert(endpoint.name.clone(), Some(anchor));
        Ok(())
    }

    fn lock_admitted(&self) -> MutexGuard<'_, Admitted> {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks one endpoint after the other until one answers.
    async fn ask_any<T>(
        &self,
        ask: impl for<'a> Fn(&'a Self, &'a Arc<Endpoint>) -> BoxFuture<'a, Result<T>>,
    ) -> Result<T> {
        let mut avoid: Vec<Arc<str>> = Vec::new();
        let mut last = Error::Invalid("no endpoint is given".to_owned());
        for _ in 0..ATTEMPTS {
            if avoid.len() == self.pool.endpoints().len() {
                avoid.clear();
            }
            let endpoint = self.pool.endpoint(&avoid).await?;
            let asked = async {
                self.admit(&endpoint, None).await?;
                ask(self, &endpoint).await
            };
            match asked.await {
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
    async fn header(&self, endpoint: &Arc<Endpoint>, tag: &str) -> Result<Option<WireBlock>> {
        let call = Call {
            method: "eth_getBlockByNumber",
            params: format!(r#"["{tag}",false]"#),
        };
        let answers = endpoint.send(&[call]).await?;
        let answer = answers.into_iter().next();
        let answer = answer.ok_or_else(|| endpoint.unavailable("no answer".to_owned()))?;
        let raw = match answer {
            Ok(raw) => raw,
            Err(fault) if is_no_such_block(&fault.message) => return Ok(None),
            Err(fault) => return Err(endpoint.unavailable(fault.message)),
        };
        if raw.get() == "null" {
            return Ok(None);
        }
        let block: WireBlock = serde_json::from_str(raw.get())
            .map_err(|error| endpoint.unavailable(error.to_string()))?;
        let lied = |what| Error::Lied {
            endpoint: endpoint.name.to_string(),
            number: block.number,
            what,
        };
        self.verifier.header(&block).map_err(lied)?;
        let other = parse_quantity(tag).filter(|asked| *asked != block.number);
        match other {
            Some(asked) => Err(lied(format!("asked for block {asked}"))),
            None => Ok(Some(block)),
        }
    }

    /// All heads of one endpoint: those of different ones do not go together.
    async fn heads_of(&self, endpoint: &Arc<Endpoint>) -> Result<Heads> {
        let block_ref = |block: WireBlock| clock_of(&block).block_ref();
        // The older first: the chain goes on between the calls.
        let finalized = self.header(endpoint, "finalized").await?.map(block_ref);
        let safe = self.header(endpoint, "safe").await?.map(block_ref);
        let head = self.header(endpoint, "latest").await?.map(block_ref);
        let head = head.ok_or_else(|| endpoint.unavailable("no newest block".to_owned()))?;
        let above = |block: Option<BlockRef>| block.is_some_and(|block| block.number > head.number);
        if above(finalized) || above(safe) {
            return Err(endpoint.unavailable("a finalized block above the newest".to_owned()));
        }
        Ok(Heads {
            head,
            finalized,
            safe,
            syncing: false,
        })
    }

    /// Which way an endpoint is asked for this.
    fn strategy(&self, endpoint: &Endpoint, want: &Want) -> Strategy {
        let logs = want.datasets.contains(Dataset::Logs);
        let narrow = want.scope != Scope::All;
        match self.settings.strategy {
            Strategy::Receipts if logs && !narrow && endpoint.has(GET_RECEIPTS) => {
                Strategy::Receipts
            }
            _ => Strategy::Logs,
        }
    }

    /// A prefix of the range from one endpoint.
    async fn prefix(
        &self,
        endpoint: &Arc<Endpoint>,
        range: BlockRange,
        want: &Want,
    ) -> Result<Vec<Fetched>> {
        let fetcher = Fetcher {
            endpoint,
            verifier: &self.verifier,
            want,
        };
        if self.strategy(endpoint, want) == Strategy::Receipts {
            return fetcher.by_receipts(range).await;
        }
        let Some(spans) = self.spans.get(&endpoint.name) else {
            return fetcher.by_logs(range).await;
        };
        let mut blocks = range.len().min(spans.span());
        loop {
            let part = BlockRange::new(range.start, range.start + blocks);
            match fetcher.by_logs(part).await {
                Ok(fetched) => {
                    spans.answered(blocks);
                    return Ok(fetched);
                }
                Err(Error::TooLarge {
                    endpoint: name,
                    reason,
                    hint,
                }) => match spans.refused(blocks, hint) {
                    Some(fewer) => blocks = fewer,
                    // Even one block is too much for it: its receipts are not.
                    None if endpoint.has(GET_RECEIPTS) => {
                        return fetcher.by_receipts(part).await;
                    }
                    None => {
                        return Err(Error::TooLarge {
                            endpoint: name,
                            reason,
                            hint: None,
                        });
                    }
                },
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes note of what went wrong with an endpoint.
    fn note(&self, endpoint: &Endpoint, error: &Error) {
        match error {
            Error::Lied { what, number, .. } => {
                endpoint.lied(&format!("block {number}: {what}"));
            }
            Error::WrongChain { .. } => endpoint.lied(&error.to_string()),
            Error::NoMethod { method, .. } => {
                tracing::info!(endpoint = %endpoint.name, method, "method missing, asking another way");
                endpoint.lacks(method);
            }
            _ => {
                self.lock_admitted().remove(&endpoint.name);
                endpoint.failed(error);
            }
        }
    }
}

/// Nodes that do not know a tag, or have nothing under it yet, say so in words of their own.
fn is_no_such_block(message: &str) -> bool {
    let message = message.to_lowercase();
    [
        "not found",
        "unknown block",
        "invalid block",
        "unsupported tag",
        "not available",
    ]
    .iter()
    .any(|part| message.contains(part))
}

#[async_trait]
impl Source for EvmSource {
    async fn identity(&self) -> Result<Identity> {
        self.check_chain().await?;
        let genesis = self.ask_any(|source, endpoint| source.header(endpoint, "0x0").boxed());
        let genesis = genesis.await?;
        Ok(Identity {
            chain_id: self.settings.chain_id,
            genesis: genesis.map(|block| Hash32(block.hash.0)),
        })
    }

    async fn heads(&self) -> Result<Heads> {
        self.ask_any(|source, endpoint| source.heads_of(endpoint).boxed())
            .await
    }

    async fn clock(&self, number: u64) -> Result<Option<BlockClock>> {
        let tag = hex(number);
        let block = self.ask_any(|source, endpoint| {
            let tag = tag.clone();
            async move { source.header(endpoint, &tag).await }.boxed()
        });
        Ok(block.await?.as_ref().map(clock_of))
    }

    async fn fetch(
        &self,
        range: BlockRange,
        want: &Want,
        anchor: Option<BlockRef>,
    ) -> Result<Vec<Fetched>> {
        let mut fetched: Vec<Fetched> = Vec::with_capacity(range.len() as usize);
        let mut avoid: Vec<Arc<str>> = Vec::new();
        let mut attempts = 0;
        while (fetched.len() as u64) < range.len() {
            let rest = BlockRange::new(range.start + fetched.len() as u64, range.end);
            if avoid.len() == self.pool.endpoints().len() {
                avoid.clear();
            }
            let endpoint = self.pool.endpoint(&avoid).await?;
            let asked = async {
                self.admit(&endpoint, anchor).await?;
                self.prefix(&endpoint, rest, want).await
            };
            let error = match asked.await {
                Ok(more) if joins(&fetched, &more) => {
                    fetched.extend(more);
                    continue;
                }
                // The chain changed between two parts: what was fetched before is stale.
                Ok(_) => {
                    fetched.clear();
                    endpoint.unavailable("two parts of a range do not join".to_owned())
                }
                Err(error) => error,
            };
            self.note(&endpoint, &error);
            // One that lacks a method is asked another way; all others are passed over.
            if !matches!(error, Error::NoMethod { .. }) {
                avoid.push(endpoint.name.clone());
            }
            attempts += 1;
            if attempts >= ATTEMPTS {
                return Err(Error::Exhausted(Box::new(error)));
            }
        }
        let proven = |one: &Fetched| one.level >= want.level;
        if let Some(weak) = fetched.iter().find(|one| !proven(one)) {
            let number = weak.block.clock.number;
            return Err(Error::Invalid(format!(
                "block {number} cannot be proven as far as is wanted (level={:?}, wanted={:?})",
                weak.level, want.level
            )));
        }
        Ok(fetched)
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

    fn blame(&self, endpoint: &str, block: BlockRef, what: &str) {
        if let Some(endpoint) = self.pool.by_name(endpoint) {
            endpoint.lied(&format!("block {}: {what}", block.number));
        }
    }

    fn endpoints(&self) -> Vec<EndpointReport> {
        self.pool.report()
    }

    fn range_blocks(&self, _want: &Want) -> u64 {
        RANGE_BLOCKS
    }

    fn concurrency(&self) -> usize {
        let endpoints = self.pool.endpoints().iter();
        endpoints
            .map(|endpoint| endpoint.settings.in_flight)
            .max()
            .unwrap_or(1)
    }
}

fn joins(before: &[Fetched], after: &[Fetched]) -> bool {
    let (Some(last), Some(first)) = (before.last(), after.first()) else {
        return true;
    };
    first.block.clock.parent_hash == last.block.clock.hash
}

fn quantity_of(raw: &RawValue) -> Option<u64> {
    let text: String = serde_json::from_str(raw.get()).ok()?;
    parse_quantity(&text)
}
