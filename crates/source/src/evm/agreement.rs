//! Whether endpoints agree on a block: on the chain's first one, and on one that is about to be archived.
//!
//! A hash that fits its header says that a block is whole, not that it is the chain's. Only a second
//! endpoint can say that.

use std::sync::Arc;
use std::time::Duration;

use chronolith_model::Hash32;
use futures::FutureExt as _;
use tokio::time::timeout;

use super::fetch::{block_call, meta_of};
use super::reader::Reader;
use super::rules::Checks;
use super::source::EvmSource;
use super::verify::Verifier;
use super::wire::{WireBlock, hex};
use crate::error::{Error, Result};
use crate::evm::chains::known_genesis;
use crate::failure::FailureClass;
use crate::jsonrpc::endpoint::Endpoint;
use crate::jsonrpc::reply::Answer;
use crate::source::{EndpointBlock, Heads};

/// How long an endpoint may take to answer which block it has: the others wait for it.
pub(super) const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(5);

impl EvmSource {
    /// The answer of an endpoint; none where it fails, which is noted, also by taking too long.
    pub(super) async fn in_time<T>(
        &self,
        endpoint: &Endpoint,
        request: impl Future<Output = Result<T>>,
    ) -> Option<T> {
        let late = |_| {
            let error = endpoint.unavailable("no answer in time");
            Err(error.classed(FailureClass::TimedOut))
        };
        let answer = timeout(ENDPOINT_TIMEOUT, request).await;
        let answer = answer.unwrap_or_else(late);
        answer.inspect_err(|error| self.note(endpoint, error)).ok()
    }

    /// The block that healthy endpoints, and these, have at a height. One that is down, slow or behind is
    /// left out. Nothing is requested where there is no second endpoint.
    pub(super) async fn blocks_at_healthy(
        &self,
        number: u64,
        also: &[Arc<str>],
    ) -> Vec<EndpointBlock> {
        let endpoints = self.pool.endpoints();
        if endpoints.len() < 2 {
            return Vec::new();
        }
        let is_due = |one: &&Arc<Endpoint>| one.is_healthy() || also.contains(&one.name);
        let requests = endpoints.iter().filter(is_due).map(|endpoint| async move {
            let block = self.block_at(endpoint, number);
            self.in_time(endpoint, block).await.flatten()
        });
        let blocks = futures::future::join_all(requests).await;
        blocks.into_iter().flatten().collect()
    }

    /// The heads of the first healthy endpoint that reaches this block.
    pub(super) async fn heads_from(&self, number: u64) -> Option<Heads> {
        let endpoints = self.pool.endpoints().iter();
        for endpoint in endpoints.filter(|one| one.is_healthy()) {
            let request = async {
                self.admit(endpoint, None).await?;
                self.heads_of(endpoint).await
            };
            match timeout(ENDPOINT_TIMEOUT, request).await {
                Ok(Ok(heads)) if heads.head.number >= number => return Some(heads),
                Ok(Err(error)) => self.note(endpoint, &error),
                Ok(Ok(_)) | Err(_) => {}
            }
        }
        None
    }

    /// The block that one endpoint has at a height; none where it has none there.
    pub(super) async fn block_at(
        &self,
        endpoint: &Arc<Endpoint>,
        number: u64,
    ) -> Result<Option<EndpointBlock>> {
        self.admit(endpoint, None).await?;
        let header = self.header(endpoint, &hex(number)).await?;
        Ok(header.map(|header| EndpointBlock {
            endpoint: endpoint.name.clone(),
            block: meta_of(&header).block_ref(),
        }))
    }

    /// The hash of the first block, where it is known already.
    fn expected_genesis(&self) -> Option<Hash32> {
        let known = self.genesis.get().copied();
        known.or_else(|| known_genesis(self.settings.chain_id))
    }

    /// Refuses an endpoint whose first block is not the chain's. One that does not serve that block
    /// is believed. Compared once for each.
    ///
    /// # Errors
    /// `WrongGenesis`, or that the endpoint does not answer.
    pub(super) async fn compare_genesis(&self, endpoint: &Arc<Endpoint>) -> Result<()> {
        let Some(expected) = self.expected_genesis() else {
            return Ok(());
        };
        if self.compared.lock().contains(&endpoint.name) {
            return Ok(());
        }
        let Ok(got) = self.genesis_of(endpoint).await? else {
            // It refuses the request: compared the next time it is admitted.
            return Ok(());
        };
        if let Some(got) = got.filter(|got| *got != expected) {
            return Err(Error::WrongGenesis {
                endpoint: endpoint.name.to_string(),
                expected,
                got,
            });
        }
        self.compared.lock().insert(endpoint.name.clone());
        Ok(())
    }

    /// The chain's first block by all endpoints that answer; none where none of them serves it.
    /// Those that have another one than is expected are passed over.
    ///
    /// # Errors
    /// `Invalid` where endpoints differ and nothing says which of them are right.
    pub(super) async fn agreed_genesis(&self) -> Result<Option<Hash32>> {
        let answers = self.first_blocks().await;
        if answers.is_empty() {
            // One after the other, as often as it takes.
            let first = self.first_answer(None, |source, endpoint| {
                source.readable_first_block(endpoint).boxed()
            });
            return first.await;
        }
        let served = answers.into_iter();
        let served = served.filter_map(|(one, hash)| Some((one, hash?)));
        let served: Vec<(&Arc<Endpoint>, Hash32)> = served.collect();
        let Some((first, found)) = served.first().copied() else {
            return Ok(None);
        };
        let Some(expected) = self.expected_genesis() else {
            if let Some((other, theirs)) = served.iter().find(|(_, hash)| *hash != found) {
                return Err(Error::Invalid(format!(
                    "endpoints have different first blocks, and nothing says which is the chain's: {} has {found}, {} has {theirs}; remove those of another chain from rpcHttp",
                    first.name, other.name
                )));
            }
            self.genesis.get_or_init(|| found);
            return Ok(Some(found));
        };
        let is_there = served.iter().any(|(_, got)| *got == expected);
        for (endpoint, got) in &served {
            // With no endpoint on the chain, the caller reports it, and all are tried again soon.
            if is_there && *got != expected {
                self.admitted.lock().remove(&endpoint.name);
                let error = Error::WrongGenesis {
                    endpoint: endpoint.name.to_string(),
                    expected,
                    got: *got,
                };
                self.note(endpoint, &error);
            }
        }
        Ok(Some(if is_there { expected } else { found }))
    }

    /// The first block by every endpoint of this chain that answers; none where it serves none.
    /// Those that do not answer are compared with the next request.
    async fn first_blocks(&self) -> Vec<(&Arc<Endpoint>, Option<Hash32>)> {
        let is_admitted = |one: &&Arc<Endpoint>| self.admitted.lock().contains_key(&one.name);
        let admitted = self.pool.endpoints().iter().filter(is_admitted);
        let requests = admitted.map(|endpoint| async move {
            let answer = timeout(ENDPOINT_TIMEOUT, self.genesis_of(endpoint)).await;
            if let Ok(Ok(Ok(first))) = answer {
                return Some((endpoint, first));
            }
            self.admitted.lock().remove(&endpoint.name);
            None
        });
        let answers = futures::future::join_all(requests).await;
        answers.into_iter().flatten().collect()
    }

    async fn readable_first_block(&self, endpoint: &Arc<Endpoint>) -> Result<Option<Hash32>> {
        let verifier = &Verifier::new(Checks::NONE);
        let block = Reader { endpoint, verifier }.header("0x0").await?;
        Ok(block.map(|block| Hash32(block.hash.0)))
    }

    /// Only its name counts: first blocks have headers that no later block has.
    async fn genesis_of(&self, endpoint: &Arc<Endpoint>) -> Result<Answer<Hash32>> {
        let answer: Answer<WireBlock> = endpoint.send_one(block_call("0x0", false)).await?;
        Ok(answer.map(|block| block.map(|block| Hash32(block.hash.0))))
    }
}
