//! Ranges of blocks from one endpoint: requests, and blocks from the answers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chronolith_model::{
    Block, BlockMeta, BlockRange, BlockRef, Dataset, Hash32, Log, LogParts, Payload, Proof, Scope,
    Tx,
};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::{Instrument as _, Span};

use super::claims::Claims;
use super::hint::{Meaning, meaning, refuses_batches};
use super::ranges::Spans;
use super::rules::{Refusal, Rule};
use super::verify::Verifier;
use super::wire::{WholeBlock, WireBlock, WireLog, WireReceipt, hex};
use crate::backoff::Backoff;
use crate::error::{Error, Result};
use crate::jsonrpc::call::Call;
use crate::jsonrpc::endpoint::Endpoint;
use crate::jsonrpc::reply::Answer;
use crate::meters::Outcome;
use crate::source::{Fetched, Want};
use crate::spans::verify_span;

pub(crate) const GET_RECEIPTS: &str = "eth_getBlockReceipts";
pub(super) const GET_BLOCK: &str = "eth_getBlockByNumber";
pub(super) const GET_LOGS: &str = "eth_getLogs";

/// The call for a block, with whole transactions or their hashes.
pub(super) fn block_call(tag: &str, whole: bool) -> Call {
    Call::new(GET_BLOCK, format!(r#"["{tag}",{whole}]"#))
}

pub(super) fn receipts_call(number: u64) -> Call {
    Call::new(GET_RECEIPTS, format!(r#"["{}"]"#, hex(number)))
}

/// How often calls that failed are sent again, and the pauses before.
const CALL_RETRIES: u32 = 5;
const CALL_BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// How often a request that failed at once is sent again to the same endpoint.
const REQUEST_RETRIES: u32 = 3;
const FAILS_FAST: Duration = Duration::from_secs(2);
/// The longest pause of an endpoint that is waited for: another one may be healthy.
const USABLE_SOON: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Fetcher<'a> {
    pub(crate) endpoint: &'a Arc<Endpoint>,
    pub(crate) verifier: Verifier,
    pub(crate) want: &'a Want,
    pub(crate) spans: &'a Spans,
    /// A block above the range that the endpoint has; none for the tail.
    pub(crate) anchor: Option<BlockRef>,
    /// What endpoints claimed of blocks that their bloom does not clear.
    pub(crate) claims: &'a Claims,
}

impl Fetcher<'_> {
    /// The first blocks of a range with their receipts: as many as go into one request of each.
    pub(crate) async fn by_receipts(&self, range: BlockRange) -> Result<Vec<Fetched>> {
        let first = range.end.min(range.start + self.endpoint.batch() as u64);
        let numbers: Vec<u64> = (range.start..first).collect();
        self.some_by_receipts(&numbers).await
    }

    /// All of these blocks with their receipts, in order; there may be others between them.
    async fn all_by_receipts(&self, numbers: &[u64]) -> Result<Vec<Fetched>> {
        let mut fetched = Vec::with_capacity(numbers.len());
        while let Some(rest) = numbers.get(fetched.len()..).filter(|rest| !rest.is_empty()) {
            fetched.extend(self.some_by_receipts(rest).await?);
        }
        Ok(fetched)
    }

    /// The first of these blocks with their receipts: as many as go into one request of each.
    async fn some_by_receipts(&self, numbers: &[u64]) -> Result<Vec<Fetched>> {
        let most = self.spans.for_receipts() as usize;
        let most = most.min(self.endpoint.batch()).max(1);
        let mut blocks = numbers.len().min(most);
        loop {
            let (some, _) = numbers.split_at(blocks);
            match self.with_receipts_of(some).await {
                Err(Error::TooLarge { .. }) if blocks > 1 => blocks /= 2,
                fetched => return fetched,
            }
        }
    }

    async fn with_receipts_of(&self, numbers: &[u64]) -> Result<Vec<Fetched>> {
        let calls: Vec<Call> = numbers.iter().copied().map(receipts_call).collect();
        let receipts = self.request::<Vec<WireReceipt>>(&calls);
        let (mut blocks, receipts) = futures::try_join!(self.blocks_of(numbers), receipts)?;
        let keeping = blocks.iter().zip(&receipts);
        let keeping = keeping.filter(|(_, answer)| self.keeps_any(answer));
        let keeping: HashSet<u64> = keeping.map(|(block, _)| block.number()).collect();
        let has_logs = |block: &WireBlock| keeping.contains(&block.number());
        self.make_whole(&mut blocks, has_logs).await?;
        let span = self.verify_span(blocks.len());
        let proven = span.in_scope(|| self.proven(&blocks, receipts));
        span.record("outcome", Outcome::of(&proven).name());
        match proven {
            // Old nodes leave the block's own receipt out, and serve its logs where logs are requested: the
            // bloom proves that these are all. Where all logs are wanted, the blocks are a range.
            Err(Error::RuleFailed {
                rule: Rule::Bloom | Rule::ReceiptsRoot,
                ..
            }) if self.has_all_logs() && self.verifier.may_lack_block_receipts() => {
                let ends = numbers.first().zip(numbers.last());
                let (first, last) = ends.expect("one of the blocks failed a rule");
                let range = BlockRange::new(*first, *last + 1);
                Box::pin(self.by_logs(range)).await
            }
            proven => proven,
        }
    }

    fn keeps_any(&self, answer: &Answer<Vec<WireReceipt>>) -> bool {
        let receipts = answer.iter().flatten().flatten();
        let mut logs = receipts.flat_map(|receipt| &receipt.logs);
        logs.any(|log| self.keeps(log))
    }

    /// Blocks and the receipts of each put together and proven.
    fn proven(
        &self,
        blocks: &[WireBlock],
        receipts: Vec<Answer<Vec<WireReceipt>>>,
    ) -> Result<Vec<Fetched>> {
        let mut fetched = Vec::with_capacity(blocks.len());
        let mut bytes = 0;
        for (block, receipts) in blocks.iter().zip(receipts) {
            let number = block.number();
            let receipts = self.required(number, GET_RECEIPTS, receipts)?;
            let is_here = |one: &WireReceipt| one.block_hash.is_none_or(|hash| hash == block.hash);
            if !receipts.iter().all(is_here) {
                return Err(self.moved(number));
            }
            bytes += receipts.iter().map(WireReceipt::about_bytes).sum::<usize>();
            fetched.push(self.with_receipts(block, &receipts)?);
        }
        self.spans.received(blocks.len() as u64, bytes);
        self.check_links(&fetched)?;
        Ok(fetched)
    }

    fn check_links(&self, fetched: &[Fetched]) -> Result<()> {
        check_links(self.endpoint, fetched.iter().map(|one| one.block.clock))
    }

    /// The chain may have changed between two calls: the endpoint need not be wrong, but it is not an answer.
    pub(super) fn moved(&self, number: u64) -> Error {
        let reason = format!("two answers about block {number} are of different blocks");
        self.endpoint.unavailable(reason)
    }

    /// The logs of a range in one call, and its headers in batches.
    pub(crate) async fn by_logs(&self, range: BlockRange) -> Result<Vec<Fetched>> {
        let numbers: Vec<u64> = (range.start..range.end).collect();
        let (logs, blocks) = if numbers.len() <= self.endpoint.batch() {
            futures::try_join!(self.logs_of(range), self.blocks_of(&numbers))?
        } else {
            // Many requests for headers would be for nothing if the range were refused.
            let logs = self.logs_of(range).await?;
            (logs, self.blocks_of(&numbers).await?)
        };
        if self.want.datasets.contains(Dataset::Logs) {
            self.spans.answered(range.len(), logs.len());
        }
        let span = self.verify_span(blocks.len());
        let joined = self.joined(blocks, &logs).instrument(span.clone()).await;
        span.record("outcome", Outcome::of(&joined).name());
        joined
    }

    fn verify_span(&self, blocks: usize) -> Span {
        let span = verify_span(self.endpoint.chain_id, &self.endpoint.name);
        span.record("blocks", blocks);
        span
    }

    /// Blocks and their logs put together and proven.
    async fn joined(&self, blocks: Vec<WireBlock>, logs: &[WireLog]) -> Result<Vec<Fetched>> {
        let mut by_block: HashMap<u64, Vec<&WireLog>> = HashMap::new();
        for log in logs {
            by_block.entry(log.block_number).or_default().push(log);
        }
        let is_doubtful =
            |one: &&WireBlock| !by_block.contains_key(&one.number()) && self.is_doubtful(one);
        let doubtful: Vec<&WireBlock> = blocks.iter().filter(is_doubtful).collect();
        let confirmed = self.by_hash(&doubtful).await?;
        for (number, logs) in &confirmed {
            by_block.insert(*number, logs.iter().collect());
        }
        let mut fetched = Vec::with_capacity(blocks.len());
        let mut unproven = None;
        let mut rest = blocks.into_iter();
        // As many whole blocks are held as come at once, and no more.
        while rest.len() > 0 {
            let mut some: Vec<WireBlock> = rest.by_ref().take(self.endpoint.batch()).collect();
            let has_logs = |block: &WireBlock| {
                let mut logs = by_block.get(&block.number()).into_iter().flatten();
                logs.any(|log| self.keeps(log))
            };
            self.make_whole(&mut some, has_logs).await?;
            let is_open = |one: &&WireBlock| !has_logs(one) && self.is_suspicious(one);
            let open = some.iter().filter(is_open).map(WireBlock::number);
            let open: Vec<u64> = open.collect();
            let mut proven = self.proven_by_receipts(&open).await?;
            for block in &some {
                let number = block.number();
                let logs = by_block.remove(&number).unwrap_or_default();
                if logs.iter().any(|log| log.block_hash != block.hash) {
                    return Err(self.moved(number));
                }
                if let Some(one) = proven.remove(&number) {
                    fetched.push(one);
                } else if open.contains(&number) && !self.takes_as_empty(block, &confirmed) {
                    unproven = unproven.or(Some(number));
                } else {
                    fetched.push(self.with_logs(block, &logs)?);
                }
            }
        }
        if let Some(number) = by_block.keys().next() {
            return Err(self.inconsistent(*number, "a log outside the range"));
        }
        if let Some(number) = unproven {
            let endpoint = self.endpoint.name.to_string();
            return Err(Error::Unproven { endpoint, number });
        }
        self.check_links(&fetched)?;
        Ok(fetched)
    }

    /// Blocks that came without a log although their bloom allows one, by their numbers; none where the
    /// endpoint has no receipts.
    async fn proven_by_receipts(&self, open: &[u64]) -> Result<HashMap<u64, Fetched>> {
        if !self.endpoint.has(GET_RECEIPTS) {
            return Ok(HashMap::new());
        }
        let fetched = self.all_by_receipts(open).await?.into_iter();
        Ok(fetched.map(|one| (one.block.clock.number, one)).collect())
    }

    /// A block and its logs put together and proven.
    fn with_logs(&self, block: &WireBlock, logs: &[&WireLog]) -> Result<Fetched> {
        let kept = logs.iter().copied().filter(|log| self.keeps(log));
        let proof = self.verifier.logs(block, logs, self.has_all_logs());
        let proof = proof.map_err(|refusal| self.refused(block.number(), refusal))?;
        self.made(block, kept, proof)
    }

    /// Whether a log is wanted. More are requested where a scope has several entries.
    pub(super) fn keeps(&self, log: &WireLog) -> bool {
        let topic0 = log.topics.first().map(|topic| topic.as_slice());
        self.want.datasets.contains(Dataset::Logs)
            && self.want.scope.admits(log.address.as_slice(), topic0)
    }

    /// Whether all logs of each block are requested.
    fn has_all_logs(&self) -> bool {
        self.want.scope == Scope::All && self.want.datasets.contains(Dataset::Logs)
    }

    /// Whether no log came of a block whose bloom allows one of the scope: a node that is behind
    /// answers for the blocks it has and leaves out the others silently, and a hostile one leaves out all.
    pub(super) fn is_suspicious(&self, block: &WireBlock) -> bool {
        self.want.scope != Scope::All
            && self.want.datasets.contains(Dataset::Logs)
            && self.verifier.may_hold(block, &self.want.scope)
    }

    async fn logs_of(&self, range: BlockRange) -> Result<Vec<WireLog>> {
        if !self.want.datasets.contains(Dataset::Logs) {
            return Ok(Vec::new());
        }
        let (from, to) = (hex(range.start), hex(range.end - 1));
        let scope = scope_params(&self.want.scope);
        let params = format!(r#"[{{"fromBlock":"{from}","toBlock":"{to}"{scope}}}]"#);
        let logs = self.request_one(Call::new(GET_LOGS, params)).await?;
        self.required(range.start, GET_LOGS, logs)
    }

    /// The headers of blocks, with the transactions as far as they are wanted.
    pub(super) async fn blocks_of(&self, numbers: &[u64]) -> Result<Vec<WireBlock>> {
        let parts = numbers.chunks(self.endpoint.batch());
        let requests = parts.map(|part| async move {
            let kept = self.want.datasets.contains(Dataset::Transactions);
            match self.whole_transactions() {
                true if kept => self.blocks_as::<WholeBlock<true>>(part).await,
                true => self.blocks_as::<WholeBlock<false>>(part).await,
                false => self.blocks_as::<WireBlock>(part).await,
            }
        });
        let parts = futures::future::try_join_all(requests).await?;
        Ok(parts.into_iter().flatten().collect())
    }

    async fn blocks_as<T: DeserializeOwned + Into<WireBlock>>(
        &self,
        numbers: &[u64],
    ) -> Result<Vec<WireBlock>> {
        let whole = self.whole_transactions();
        let calls = numbers
            .iter()
            .map(|number| block_call(&hex(*number), whole));
        let answers = self.request::<T>(&calls.collect::<Vec<Call>>()).await?;
        let mut blocks = Vec::with_capacity(answers.len());
        for (&number, answer) in numbers.iter().zip(answers) {
            let block: WireBlock = self.required(number, GET_BLOCK, answer)?.into();
            if block.number() != number {
                let what = format!("block {} instead", block.number());
                return Err(self.inconsistent(number, what));
            }
            blocks.push(block);
        }
        Ok(blocks)
    }

    pub(super) async fn request_one<T: DeserializeOwned>(&self, call: Call) -> Result<Answer<T>> {
        let answer = self.request(&[call]).await?.pop();
        Ok(answer.expect("every call has an answer, or the request failed"))
    }

    /// Sends calls, as many in a request as the endpoint takes. Each has an answer.
    pub(super) async fn request<T: DeserializeOwned>(
        &self,
        calls: &[Call],
    ) -> Result<Vec<Answer<T>>> {
        let mut answers = Vec::with_capacity(calls.len());
        let mut failures = 0;
        while let Some(rest) = calls.get(answers.len()..).filter(|rest| !rest.is_empty()) {
            let some = rest.get(..self.endpoint.batch()).unwrap_or(rest);
            let began = Instant::now();
            let more = match self.request_once(some).await {
                // One request of a hundred that fails must not cost the others. An endpoint that
                // is slow to fail, or says when to come back, is left to the caller, which may know a better one.
                Err(Error::Unavailable {
                    retry_after: None, ..
                }) if failures < REQUEST_RETRIES
                    && began.elapsed() < FAILS_FAST
                    && self.is_usable_soon() =>
                {
                    failures += 1;
                    if let Some(until) = self.endpoint.usable_at() {
                        tokio::time::sleep_until(until).await;
                    }
                    continue;
                }
                more => more?,
            };
            if some.len() > 1 && more.iter().all(is_too_large) {
                // The request as a whole was too much, not each of its calls.
                self.endpoint.refused_batch(some.len());
                continue;
            }
            if some.len() > 1 && no_batches(&more) {
                self.endpoint.refuses_batches();
                continue;
            }
            answers.extend(more);
        }
        Ok(answers)
    }

    /// A pause may be long because of another request: a contradiction, or a `Retry-After`.
    fn is_usable_soon(&self) -> bool {
        let until = self.endpoint.usable_at();
        until.is_none_or(|until| until.duration_since(Instant::now()) < USABLE_SOON)
    }

    /// Sends calls in one request. Those that fail for no reason of their own are sent again: one
    /// bad answer in a batch is not a reason to request all of it again.
    async fn request_once<T: DeserializeOwned>(&self, calls: &[Call]) -> Result<Vec<Answer<T>>> {
        let mut answers: Vec<Answer<T>> = self.endpoint.send(calls).await?;
        if calls.len() > 1 && no_batches(&answers) {
            return Ok(answers);
        }
        let has_failed = |answer: &Answer<T>| match answer {
            // One URL may be many nodes, and some are a block behind the others.
            Ok(found) => found.is_none(),
            Err(fault) => meaning(fault) == Meaning::Failure,
        };
        let mut backoff = CALL_BACKOFF;
        for _ in 0..CALL_RETRIES {
            let failed = calls.iter().zip(&mut answers);
            let failed = failed.filter(|(_, answer)| has_failed(answer));
            let (again, failed): (Vec<Call>, Vec<&mut Answer<T>>) =
                failed.map(|(call, answer)| (call.clone(), answer)).unzip();
            if failed.is_empty() {
                break;
            }
            tokio::time::sleep(backoff.next()).await;
            let better = self.endpoint.send(&again).await?;
            for (answer, better) in failed.into_iter().zip(better) {
                *answer = better;
            }
        }
        Ok(answers)
    }

    pub(super) fn with_receipts(
        &self,
        block: &WireBlock,
        receipts: &[WireReceipt],
    ) -> Result<Fetched> {
        let proof = self.verifier.receipts(block, receipts);
        let proof = proof.map_err(|refusal| self.refused(block.number(), refusal))?;
        let logs = receipts.iter().flat_map(|receipt| &receipt.logs);
        self.made(block, logs.filter(|log| self.keeps(log)), proof)
    }

    /// A block of ours from one of theirs.
    fn made<'a>(
        &self,
        wire: &WireBlock,
        logs: impl Iterator<Item = &'a WireLog>,
        proof: Proof,
    ) -> Result<Fetched> {
        let refuse = |what: String| self.inconsistent(wire.number(), what);
        let mut named = Vec::new();
        let mut made = Vec::new();
        for log in logs {
            let topics: Vec<&[u8]> = log.topics.iter().map(|topic| topic.as_slice()).collect();
            let index = log.transaction_index as u32;
            let parts = LogParts {
                tx_index: index,
                log_index: log.log_index as u32,
                emitter: log.address.as_slice(),
                topics: &topics,
                data: &log.data,
                ..LogParts::default()
            };
            made.push(Log::new(&parts).map_err(|error| refuse(error.to_string()))?);
            let hash = Hash32(log.transaction_hash.0);
            named.push(Tx { index, hash });
        }
        let datasets = self.want.datasets;
        let txs = if datasets.contains(Dataset::TxHashes) {
            let tx = |(index, hash): (usize, &alloy_primitives::B256)| Tx {
                index: index as u32,
                hash: Hash32(hash.0),
            };
            let listed = wire.tx_hashes.iter().enumerate().map(tx);
            // Logs of the block itself come last, under its own hash.
            let own = named.pop().filter(|last| last.hash.0 == wire.hash.0);
            listed.chain(own).collect()
        } else {
            named.dedup();
            named
        };
        let bodies = if datasets.contains(Dataset::Transactions) {
            let bodies = self.bodies(wire, &txs);
            Some(bodies.ok_or_else(|| refuse("a transaction is not whole".to_owned()))?)
        } else {
            None
        };
        let proof = self.proof_of_kept(proof, &txs);
        let has_header = datasets.contains(Dataset::Headers);
        let payload = Payload {
            header: has_header.then(|| wire.kept_header().into()),
            bodies,
            raw: None,
        };
        let block = Block {
            clock: meta_of(wire),
            txs,
            logs: made,
            payload,
        };
        Ok(Fetched {
            block,
            proof,
            endpoint: self.endpoint.name.clone(),
        })
    }

    /// What was answered; `null` is a block that is not there.
    pub(super) fn required<T>(
        &self,
        number: u64,
        method: &'static str,
        answer: Answer<T>,
    ) -> Result<T> {
        let found = answer.map_err(|fault| match meaning(&fault) {
            Meaning::TooLarge(hint) => Error::TooLarge {
                endpoint: self.endpoint.name.to_string(),
                reason: fault.message,
                hint,
            },
            Meaning::NoMethod => Error::NoMethod {
                endpoint: self.endpoint.name.to_string(),
                method,
            },
            Meaning::Failure => {
                let reason = format!("{method}: {} ({})", fault.message, fault.code);
                self.endpoint.refused(reason, &fault)
            }
        })?;
        found.ok_or_else(|| self.endpoint.health.missing(number))
    }

    fn inconsistent(&self, number: u64, what: impl Into<String>) -> Error {
        self.endpoint.health.inconsistent(number, what)
    }

    fn refused(&self, number: u64, refusal: Refusal) -> Error {
        refusal.of(&self.endpoint.name, number)
    }

    /// Whether transactions of all blocks are requested whole: where they are kept, and where their root
    /// is to prove the hashes that are kept.
    pub(super) fn whole_transactions(&self) -> bool {
        let datasets = self.want.datasets;
        datasets.contains(Dataset::TxHashes)
            && (datasets.contains(Dataset::Transactions) || self.verifier.proves_transactions())
    }
}

/// Checks that each block names the one before it, where that is there.
pub(super) fn check_links(
    endpoint: &Endpoint,
    blocks: impl Iterator<Item = BlockMeta>,
) -> Result<()> {
    let mut last: Option<BlockMeta> = None;
    for block in blocks {
        let before = last
            .replace(block)
            .filter(|one| one.number + 1 == block.number);
        if before.is_some_and(|before| before.hash != block.parent_hash) {
            // The endpoint need not be wrong: the chain may have changed between two calls.
            let number = block.number;
            let reason = format!("block {number} does not follow the one before it");
            return Err(endpoint.unavailable(reason));
        }
    }
    Ok(())
}

pub(super) fn is_too_large<T>(answer: &Answer<T>) -> bool {
    let fault = answer.as_ref().err();
    fault.is_some_and(|fault| matches!(meaning(fault), Meaning::TooLarge(_)))
}

/// Whether a request of several calls was refused because it had several.
pub(super) fn no_batches<T>(answers: &[Answer<T>]) -> bool {
    let refused = |answer: &Answer<T>| answer.as_ref().is_err_and(refuses_batches);
    answers.iter().all(refused)
}

/// What a header says of its block's place.
pub(crate) fn meta_of(wire: &WireBlock) -> BlockMeta {
    BlockMeta {
        number: wire.number(),
        hash: Hash32(wire.hash.0),
        parent_hash: Hash32(wire.header().parent_hash.0),
        timestamp: wire.header().timestamp,
    }
}

/// The part of a log filter that a scope makes: emitters and first topics, each only where every
/// entry names one. It may let in more than the scope, never less; the rest is filtered here.
pub(super) fn scope_params(scope: &Scope) -> String {
    let Scope::Only(entries) = scope else {
        return String::new();
    };
    let list = |values: Option<Vec<&Bytes>>, before: &str, after: &str| {
        let mut values = values?;
        values.sort_unstable();
        values.dedup();
        let hex = |value: &&Bytes| format!("\"{}\"", alloy_primitives::hex::encode_prefixed(value));
        let values: Vec<String> = values.iter().map(hex).collect();
        Some(format!("{before}[{}]{after}", values.join(",")))
    };
    let emitters = entries.iter().map(|entry| entry.emitter.as_ref()).collect();
    let topics = entries.iter().map(|entry| entry.topic0.as_ref()).collect();
    let emitters = list(emitters, ",\"address\":", "").unwrap_or_default();
    let topics = list(topics, ",\"topics\":[", "]").unwrap_or_default();
    format!("{emitters}{topics}")
}
