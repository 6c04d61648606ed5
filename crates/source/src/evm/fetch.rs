//! Ranges of blocks from one endpoint: what to ask for, and blocks from the answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use alloy_rlp::Encodable;
use bytes::Bytes;
use chronolith_model::{
    Block, BlockClock, BlockRange, Dataset, Hash32, Log, LogParts, Payload, Scope, Tx, Verification,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tracing::{Instrument as _, Span};

use super::hint::{Meaning, meaning};
use super::verify::Verifier;
use super::wire::{WireBlock, WireLog, WireReceipt, hex};
use crate::endpoint::{Answer, Call, Endpoint, verify_span};
use crate::error::{Error, Result};
use crate::meters::Outcome;
use crate::source::{Fetched, Want};

pub(crate) const GET_RECEIPTS: &str = "eth_getBlockReceipts";
const GET_BLOCK: &str = "eth_getBlockByNumber";
const GET_LOGS: &str = "eth_getLogs";

/// How often calls that failed are sent again, and the pause before the first time; it doubles.
const CALL_RETRIES: u32 = 5;
const CALL_PAUSE: Duration = Duration::from_millis(50);

/// Fetches from one endpoint.
#[derive(Debug)]
pub(crate) struct Fetcher<'a> {
    pub(crate) endpoint: &'a Arc<Endpoint>,
    pub(crate) verifier: &'a Verifier,
    pub(crate) want: &'a Want,
}

impl Fetcher<'_> {
    /// Blocks with their receipts, one call for each, several in a request; fewer where that is too
    /// much for the endpoint.
    pub(crate) async fn by_receipts(&self, range: BlockRange) -> Result<Vec<Fetched>> {
        let mut fetched = Vec::with_capacity(range.len() as usize);
        let mut step = (self.endpoint.settings.batch as u64 / 2).max(1);
        let mut at = range.start;
        while at < range.end {
            let part = BlockRange::new(at, at.saturating_add(step).min(range.end));
            match self.some_by_receipts(part).await {
                Ok(more) => fetched.extend(more),
                Err(Error::TooLarge { .. }) if step > 1 => {
                    step /= 2;
                    continue;
                }
                Err(error) => return Err(error),
            }
            at = part.end;
        }
        self.check_links(&fetched)?;
        Ok(fetched)
    }

    async fn some_by_receipts(&self, range: BlockRange) -> Result<Vec<Fetched>> {
        let mut calls = self.block_calls(range);
        calls.extend((range.start..range.end).map(|number| Call {
            method: GET_RECEIPTS,
            params: format!(r#"["{}"]"#, hex(number)),
        }));
        let answers = self.ask(&calls).await?;
        let span = self.verify_span(range.len() as usize);
        let proven = span.in_scope(|| self.proven(range, answers));
        span.record("outcome", Outcome::of(&proven).name());
        proven
    }

    /// Blocks from answers: first all blocks of the range, then the receipts of each.
    fn proven(&self, range: BlockRange, mut answers: Vec<Answer>) -> Result<Vec<Fetched>> {
        let receipts = answers.split_off(range.len() as usize);
        let mut fetched = Vec::with_capacity(range.len() as usize);
        for ((number, block), receipts) in (range.start..range.end).zip(answers).zip(receipts) {
            let block: WireBlock = self.required(number, GET_BLOCK, block)?;
            let receipts: Vec<WireReceipt> = self.required(number, GET_RECEIPTS, receipts)?;
            let here =
                |receipt: &WireReceipt| receipt.block_hash.is_none_or(|hash| hash == block.hash);
            if !receipts.iter().all(here) {
                return Err(self.moved(number));
            }
            fetched.push(self.with_receipts(number, &block, &receipts)?);
        }
        Ok(fetched)
    }

    /// The chain may have changed between two calls: no lie, but no answer either.
    fn moved(&self, number: u64) -> Error {
        let reason = format!("two answers about block {number} are of different blocks");
        self.endpoint.unavailable(reason)
    }

    /// Headers in batches, and the logs of all of them in one call.
    pub(crate) async fn by_logs(&self, range: BlockRange) -> Result<Vec<Fetched>> {
        let logs = self.logs_of(range);
        let blocks = self.blocks_of(range);
        let (logs, blocks) = futures::try_join!(logs, blocks)?;
        let span = self.verify_span(blocks.len());
        let joined = self.joined(&blocks, &logs).instrument(span.clone()).await;
        span.record("outcome", Outcome::of(&joined).name());
        joined
    }

    fn verify_span(&self, blocks: usize) -> Span {
        let span = verify_span(self.endpoint.chain_id, &self.endpoint.name);
        span.record("blocks", blocks);
        span
    }

    /// Blocks and their logs put together and proven.
    async fn joined(&self, blocks: &[WireBlock], logs: &[WireLog]) -> Result<Vec<Fetched>> {
        let mut by_block: HashMap<u64, Vec<&WireLog>> = HashMap::new();
        for log in logs {
            by_block.entry(log.block_number).or_default().push(log);
        }
        let mut fetched = Vec::with_capacity(blocks.len());
        for block in blocks {
            let logs = by_block.remove(&block.number).unwrap_or_default();
            if logs.iter().any(|log| log.block_hash != block.hash) {
                return Err(self.moved(block.number));
            }
            let kept = logs.iter().copied().filter(|log| self.keeps(log));
            if kept.clone().next().is_none() && self.is_suspicious(block) {
                fetched.extend(self.some_by_receipts(BlockRange::one(block.number)).await?);
                continue;
            }
            let all = self.has_all_logs();
            let level = self.verifier.logs(block, &logs, all);
            let level = level.map_err(|what| self.lied(block.number, what))?;
            fetched.push(self.made(block, kept, level)?);
        }
        if let Some(number) = by_block.keys().next() {
            return Err(self.lied(*number, "a log outside the range".to_owned()));
        }
        self.check_links(&fetched)?;
        Ok(fetched)
    }

    /// Whether a log is wanted. An endpoint is asked for more where a scope has several entries.
    fn keeps(&self, log: &WireLog) -> bool {
        let topic0 = log.topics.first().map(|topic| topic.as_slice());
        self.want.datasets.contains(Dataset::Logs)
            && self.want.scope.admits(log.address.as_slice(), topic0)
    }

    /// Whether all logs of each block are asked for.
    fn has_all_logs(&self) -> bool {
        self.want.scope == Scope::All && self.want.datasets.contains(Dataset::Logs)
    }

    /// Whether no log came of a block whose bloom allows one of the scope: a node that is behind
    /// answers for the blocks it has and leaves out the others without a word.
    fn is_suspicious(&self, block: &WireBlock) -> bool {
        self.want.scope != Scope::All
            && self.want.datasets.contains(Dataset::Logs)
            && self.verifier.may_hold(block, &self.want.scope)
            && self.endpoint.has(GET_RECEIPTS)
    }

    async fn logs_of(&self, range: BlockRange) -> Result<Vec<WireLog>> {
        if !self.want.datasets.contains(Dataset::Logs) {
            return Ok(Vec::new());
        }
        let (from, to) = (hex(range.start), hex(range.end - 1));
        let scope = scope_params(&self.want.scope);
        let call = Call {
            method: GET_LOGS,
            params: format!(r#"[{{"fromBlock":"{from}","toBlock":"{to}"{scope}}}]"#),
        };
        let answer = self.ask(std::slice::from_ref(&call)).await?;
        let answer = answer.into_iter().next();
        let answer = answer.ok_or_else(|| self.endpoint.unavailable("no answer".to_owned()))?;
        self.required(range.start, GET_LOGS, answer)
    }

    async fn blocks_of(&self, range: BlockRange) -> Result<Vec<WireBlock>> {
        let step = (self.endpoint.settings.batch as u64).max(1);
        let starts = (range.start..range.end).step_by(step as usize);
        let parts = starts.map(|start| BlockRange::new(start, (start + step).min(range.end)));
        let asked = parts.map(|part| async move {
            let answers = self.ask(&self.block_calls(part)).await?;
            let blocks = (part.start..part.end).zip(answers);
            blocks
                .map(|(number, answer)| self.required(number, GET_BLOCK, answer))
                .collect::<Result<Vec<WireBlock>>>()
        });
        let parts = futures::future::try_join_all(asked).await?;
        let blocks: Vec<WireBlock> = parts.into_iter().flatten().collect();
        for (number, block) in (range.start..range.end).zip(&blocks) {
            if block.number != number {
                return Err(self.lied(number, format!("block {} instead", block.number)));
            }
        }
        Ok(blocks)
    }

    /// Sends calls. Those that fail for no reason of their own are sent again: one bad answer in a
    /// batch is no reason to ask for all of it once more.
    async fn ask(&self, calls: &[Call]) -> Result<Vec<Answer>> {
        let mut answers = Vec::with_capacity(calls.len());
        for some in calls.chunks(self.endpoint.settings.batch.max(1)) {
            answers.extend(self.ask_once(some).await?);
        }
        Ok(answers)
    }

    async fn ask_once(&self, calls: &[Call]) -> Result<Vec<Answer>> {
        let mut answers = self.endpoint.send(calls).await?;
        let in_trouble = |answer: &Answer| match answer {
            // Behind one URL there are many nodes, and some are a block behind the others.
            Ok(raw) => raw.get() == "null",
            Err(fault) => meaning(fault) == Meaning::Trouble,
        };
        for attempt in 0..CALL_RETRIES {
            let failed = answers.iter().enumerate();
            let failed = failed.filter(|(_, answer)| in_trouble(answer));
            let failed: Vec<usize> = failed.map(|(at, _)| at).collect();
            if failed.is_empty() {
                break;
            }
            tokio::time::sleep(CALL_PAUSE * 2_u32.pow(attempt)).await;
            let again: Vec<Call> = failed
                .iter()
                .filter_map(|&at| calls.get(at).cloned())
                .collect();
            let better = self.endpoint.send(&again).await?;
            for (at, answer) in failed.into_iter().zip(better) {
                answers
                    .get_mut(at)
                    .into_iter()
                    .for_each(|place| *place = answer.clone());
            }
        }
        Ok(answers)
    }

    fn block_calls(&self, range: BlockRange) -> Vec<Call> {
        let whole = self.want.datasets.contains(Dataset::Transactions);
        let call = |number| Call {
            method: GET_BLOCK,
            params: format!(r#"["{}",{whole}]"#, hex(number)),
        };
        (range.start..range.end).map(call).collect()
    }

    fn with_receipts(
        &self,
        number: u64,
        block: &WireBlock,
        receipts: &[WireReceipt],
    ) -> Result<Fetched> {
        if block.number != number {
            return Err(self.lied(number, format!("block {} instead", block.number)));
        }
        let level = self.verifier.receipts(block, receipts);
        let level = level.map_err(|what| self.lied(number, what))?;
        let logs = receipts.iter().flat_map(|receipt| &receipt.logs);
        self.made(block, logs.filter(|log| self.keeps(log)), level)
    }

    /// A block of ours from one of theirs.
    fn made<'a>(
        &self,
        wire: &WireBlock,
        logs: impl Iterator<Item = &'a WireLog>,
        level: Verification,
    ) -> Result<Fetched> {
        let refuse = |what: &str| self.lied(wire.number, what.to_owned());
        let mut named = Vec::new();
        let mut made = Vec::new();
        for log in logs {
            let topics: Vec<&[u8]> = log.topics.iter().map(|topic| topic.as_slice()).collect();
            let (tx_index, log_index) = (log.transaction_index as u32, log.log_index as u32);
            let parts = LogParts {
                tx_index,
                log_index,
                emitter: log.address.as_slice(),
                topics: &topics,
                data: &log.data,
                ..LogParts::default()
            };
            made.push(Log::new(&parts).map_err(|error| refuse(&error.to_string()))?);
            let hash = Hash32(log.transaction_hash.0);
            named.push(Tx {
                index: tx_index,
                hash,
            });
        }
        let datasets = self.want.datasets;
        let hashes = wire.tx_hashes();
        let hashes = hashes.ok_or_else(|| refuse("a transaction has no hash"))?;
        let txs = if datasets.contains(Dataset::TxHashes) {
            let tx = |(index, hash): (usize, &alloy_primitives::B256)| Tx {
                index: index as u32,
                hash: Hash32(hash.0),
            };
            hashes.iter().enumerate().map(tx).collect()
        } else {
            named.dedup();
            named
        };
        let body = |raw: &RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
        let payload = Payload {
            header: datasets.contains(Dataset::Headers).then(|| {
                let mut out = Vec::new();
                wire.header().encode(&mut out);
                out.into()
            }),
            bodies: datasets
                .contains(Dataset::Transactions)
                .then(|| wire.transactions.iter().map(|raw| body(raw)).collect()),
            raw: None,
        };
        let block = Block {
            clock: clock_of(wire),
            txs,
            logs: made,
            payload,
        };
        Ok(Fetched {
            block,
            level,
            endpoint: self.endpoint.name.clone(),
        })
    }

    fn check_links(&self, fetched: &[Fetched]) -> Result<()> {
        for pair in fetched.windows(2) {
            let [before, after] = pair else { continue };
            if after.block.clock.parent_hash != before.block.clock.hash {
                // Not a lie: the chain may have changed between two calls.
                let number = after.block.clock.number;
                let reason = format!("block {number} does not follow the one before it");
                return Err(self.endpoint.unavailable(reason));
            }
        }
        Ok(())
    }

    /// A parsed answer; `null` is a block that is not there.
    pub(crate) fn required<T: DeserializeOwned>(
        &self,
        number: u64,
        method: &'static str,
        answer: Answer,
    ) -> Result<T> {
        let raw = answer.map_err(|fault| match meaning(&fault) {
            Meaning::TooLarge(hint) => Error::TooLarge {
                endpoint: self.endpoint.name.to_string(),
                reason: fault.message,
                hint,
            },
            Meaning::NoMethod => Error::NoMethod {
                endpoint: self.endpoint.name.to_string(),
                method,
            },
            Meaning::Trouble => self
                .endpoint
                .unavailable(format!("{method}: {} ({})", fault.message, fault.code)),
        })?;
        if raw.get() == "null" {
            return Err(Error::Missing {
                endpoint: self.endpoint.name.to_string(),
                number,
            });
        }
        serde_json::from_str(raw.get())
            .map_err(|error| self.endpoint.unavailable(format!("{method}: {error}")))
    }

    fn lied(&self, number: u64, what: String) -> Error {
        Error::Lied {
            endpoint: self.endpoint.name.to_string(),
            number,
            what,
        }
    }
}

/// What a header says of its block's place.
pub(crate) fn clock_of(wire: &WireBlock) -> BlockClock {
    BlockClock {
        number: wire.number,
        hash: Hash32(wire.hash.0),
        parent_hash: Hash32(wire.parent_hash.0),
        timestamp: wire.timestamp,
    }
}

/// The part of a log filter that a scope makes: emitters and first topics, each only where every
/// entry names one. It may let in more than the scope, never less; the rest is filtered here.
fn scope_params(scope: &Scope) -> String {
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
