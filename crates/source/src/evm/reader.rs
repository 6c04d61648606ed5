//! Headers from one endpoint: single ones, and its newest block with the tags that a rule needs.
//!
//! Heads are requested in one request. Those of different endpoints do not go together, and neither
//! do those that contradict each other: an endpoint may be many nodes at one URL.

use std::sync::Arc;

use alloy_primitives::{Bytes, hex};
use chronolith_model::BlockRef;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::fetch::{block_call, is_too_large, meta_of, no_batches};
use super::hint::{Meaning, meaning};
use super::verify::Verifier;
use super::wire::{WireBlock, parse_quantity};
use crate::error::{Error, Result};
use crate::jsonrpc::call::Call;
use crate::jsonrpc::endpoint::{Endpoint, NO_ANSWER};
use crate::jsonrpc::reply::Answer;
use crate::source::Heads;

/// The JSON-RPC error code of an invalid parameter: for a tag, the node does not know it.
pub(super) const INVALID_PARAMS: i64 = -32_602;

/// Which tags are requested beside the newest block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tags {
    /// `finalized`.
    pub finalized: bool,
    /// `safe`.
    pub safe: bool,
}

impl Tags {
    /// Nothing but the newest block.
    pub const NONE: Self = Self {
        finalized: false,
        safe: false,
    };
    pub const ALL: Self = Self {
        finalized: true,
        safe: true,
    };

    /// The older first: the chain continues while they are answered.
    fn names(self) -> Vec<&'static str> {
        let names = [
            (self.finalized, "finalized"),
            (self.safe, "safe"),
            (true, "latest"),
        ];
        let names = names.into_iter().filter(|(has, _)| *has);
        names.map(|(_, name)| name).collect()
    }
}

/// Reads headers from one endpoint.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) endpoint: &'a Arc<Endpoint>,
    pub(crate) verifier: &'a Verifier,
}

impl Reader<'_> {
    /// A block's header; none where there is no such block or tag.
    pub(crate) async fn header(&self, tag: &str) -> Result<Option<WireBlock>> {
        self.read(tag, self.endpoint.send_one(block_call(tag, false)).await?)
    }

    /// The heads of the endpoint, with the header of its newest block.
    pub(crate) async fn heads(&self, tags: Tags) -> Result<(Heads, WireBlock)> {
        let names = tags.names();
        if names.len() > 1
            && self.endpoint.batch() >= names.len()
            && let Some(blocks) = self.together(&names).await?
        {
            let heads = self.heads_from(tags, blocks);
            // Several nodes may have answered one batch: requested in order, even they agree.
            if heads.is_ok() {
                return heads;
            }
        }
        let mut blocks = Vec::with_capacity(names.len());
        for name in names {
            blocks.push(self.header(name).await?);
        }
        self.heads_from(tags, blocks)
    }

    /// Whether the endpoint reports that it is syncing. One without the method is not.
    pub(crate) async fn syncing(&self) -> Result<bool> {
        let answer = self.optional(Call::new("eth_syncing", "[]")).await?;
        Ok(answer.is_some_and(|raw: Box<RawValue>| raw.get() != "false"))
    }

    /// The code at an address; none where the endpoint does not have the method.
    pub(crate) async fn code(&self, address: [u8; 20]) -> Result<Option<Vec<u8>>> {
        let params = format!(r#"["{}","latest"]"#, hex::encode_prefixed(address));
        let code: Option<Bytes> = self.optional(Call::new("eth_getCode", params)).await?;
        Ok(code.map(|code| code.to_vec()))
    }

    /// The answer to a call; none where the endpoint does not have the method.
    async fn optional<T: DeserializeOwned>(&self, call: Call) -> Result<Option<T>> {
        match self.endpoint.send_one(call).await? {
            Ok(answer) => Ok(answer),
            Err(fault) if meaning(&fault) == Meaning::NoMethod => Ok(None),
            Err(fault) => Err(self.endpoint.refused(&fault.message, &fault)),
        }
    }

    /// All of them in one request; none where that was not answered as several calls.
    async fn together(&self, names: &[&str]) -> Result<Option<Vec<Option<WireBlock>>>> {
        let calls: Vec<Call> = names.iter().map(|name| block_call(name, false)).collect();
        let answers: Vec<Answer<WireBlock>> = match self.endpoint.send(&calls).await {
            Ok(answers) => answers,
            // A page of a proxy says nothing about batches: the next one is tried again.
            Err(Error::Unavailable { reason, .. }) if reason.starts_with(NO_ANSWER) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        if answers.iter().all(is_too_large) {
            self.endpoint.refused_batch(names.len());
        } else if no_batches(&answers) {
            self.endpoint.refuses_batches();
        }
        if answers.iter().all(Answer::is_err) {
            return Ok(None);
        }
        let read = names.iter().zip(answers);
        let blocks = read.map(|(name, answer)| self.read(name, answer));
        blocks.collect::<Result<Vec<_>>>().map(Some)
    }

    fn heads_from(&self, tags: Tags, blocks: Vec<Option<WireBlock>>) -> Result<(Heads, WireBlock)> {
        let mut blocks = blocks.into_iter();
        let block_ref = |block: WireBlock| meta_of(&block).block_ref();
        let mut tag = |has: bool| {
            has.then(|| blocks.next().flatten().map(block_ref))
                .flatten()
        };
        let (finalized, safe) = (tag(tags.finalized), tag(tags.safe));
        let newest = blocks.next().flatten();
        let newest = newest.ok_or_else(|| self.endpoint.unavailable("no newest block"))?;
        let head = meta_of(&newest).block_ref();
        let above = |block: Option<BlockRef>| block.is_some_and(|block| block.number > head.number);
        if above(finalized) || above(safe) {
            let reason = "a finalized or safe block above the newest".to_owned();
            return Err(self.endpoint.unavailable(reason));
        }
        let heads = Heads {
            head,
            finalized,
            safe,
        };
        Ok((heads, newest))
    }

    fn read(&self, tag: &str, answer: Answer<WireBlock>) -> Result<Option<WireBlock>> {
        let requested = parse_quantity(tag);
        let block = match answer {
            Ok(Some(block)) => block,
            Ok(None) => return Ok(None),
            Err(fault) if is_no_such_block(&fault.message) => return Ok(None),
            Err(fault) if requested.is_none() && fault.code == INVALID_PARAMS => return Ok(None),
            Err(fault) => return Err(self.endpoint.refused(&fault.message, &fault)),
        };
        let hashed = self.verifier.header(&block);
        hashed.map_err(|refusal| refusal.of(&self.endpoint.name, block.number()))?;
        if let Some(requested) = requested.filter(|number| *number != block.number()) {
            let what = format!("another block than the requested {requested}");
            return Err(self.endpoint.health.inconsistent(block.number(), what));
        }
        Ok(Some(block))
    }
}

/// Nodes that do not know a tag, or have nothing under it yet, have different words for that.
fn is_no_such_block(message: &str) -> bool {
    let message = message.to_lowercase();
    [
        "not found",
        "unknown block",
        "invalid block",
        "unsupported tag",
        "not available",
        "pruned",
    ]
    .iter()
    .any(|part| message.contains(part))
}
