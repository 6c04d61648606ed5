//! `/v1/chains/{id}/blocks/{block}` and `/v1/chains/{id}/transactions/{hash}`: what `eth_getBlockByNumber`,
//! `eth_getBlockByHash` and `eth_getTransactionByHash` answer, for clients without JSON-RPC. Number, hash, parent and
//! time of a block are answered for Stellar networks too; the rest of a ledger is for Stellar RPC.
//!
//! 404 means that there is no such thing. Where that is not known, because history is missing or newer blocks are
//! not indexed yet, the answer is 409.

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use chronolith_model::{BlockMeta, Hash32};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::final_answers::{self, Said};
use super::{PathParams, chain, parameters};
use crate::chain::ServedChain;
use crate::error::{ApiError, ErrorCode};
use crate::fault::Fault;
use crate::http::body::ResponseBody;
use crate::http::context::Context;
use crate::names::Hash;
use crate::rest::log_query::tag;
use crate::rpc::blocks::{
    Transactions, block_json, find_block, find_transaction, transaction_json,
};
use crate::rpc::tags::resolve;
use crate::rpc::{BlockTag, Fixed};
use crate::view::View;

/// Characters of a hash as 0x and digits.
const HASH_CHARS: usize = 66;

/// What is always kept of a block.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlockClock {
    /// Its number.
    number: u64,
    hash: Hash,
    parent_hash: Hash,
    /// Its time, in seconds since 1970.
    timestamp: u64,
    /// Whether it is archived, so that no reorg can replace it.
    finalized: bool,
}

impl BlockClock {
    fn new(view: &View<'_>, clock: BlockMeta) -> Self {
        Self {
            number: clock.number,
            hash: clock.hash.into(),
            parent_hash: clock.parent_hash.into(),
            timestamp: clock.timestamp,
            finalized: clock.number < view.tail_start(),
        }
    }

    fn json(view: &View<'_>, clock: BlockMeta) -> Vec<u8> {
        let json = serde_json::to_vec(&Self::new(view, clock));
        json.expect("numbers and texts serialize, and memory takes them")
    }
}

/// What a path names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Block(BlockTag, Said),
    BlockByHash(Hash32, Said),
    Transaction(Hash32),
}

impl Wanted {
    /// Whether it names the same at any time, as a tag such as `latest` does not.
    fn is_fixed(self) -> bool {
        match self {
            Self::Block(tag, _) => matches!(tag, BlockTag::Number(_)),
            Self::BlockByHash(..) | Self::Transaction(_) => true,
        }
    }

    /// Whether it is about what every chain keeps of a block alone.
    fn is_clock(self) -> bool {
        matches!(
            self,
            Self::Block(_, Said::Clock) | Self::BlockByHash(_, Said::Clock)
        )
    }
}

/// The block that a request names, and what is said of it.
#[derive(Clone, Copy, Debug)]
struct Found {
    block: BlockMeta,
    said: Said,
}

pub(crate) async fn get_block(
    State(context): State<Context>,
    PathParams((id, block)): PathParams<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wanted = read_block(&block, read_transactions(query.as_deref())?)?;
    answer(&context, chain(&context, &id)?, wanted, &headers).await
}

pub(crate) async fn get_clock(
    State(context): State<Context>,
    PathParams((id, block)): PathParams<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    parameters(query.as_deref(), &[], &[], ErrorCode::InvalidParameter)?;
    let wanted = read_block(&block, Said::Clock)?;
    answer(&context, chain(&context, &id)?, wanted, &headers).await
}

pub(crate) async fn get_transaction(
    State(context): State<Context>,
    PathParams((id, hash)): PathParams<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    parameters(query.as_deref(), &[], &[], ErrorCode::InvalidParameter)?;
    let wanted = Wanted::Transaction(read_hash(&hash)?);
    answer(&context, chain(&context, &id)?, wanted, &headers).await
}

fn read_transactions(query: Option<&str>) -> Result<Said, ApiError> {
    let mut transactions = Said::Hashes;
    let given = parameters(query, &["transactions"], &[], ErrorCode::InvalidParameter)?;
    for (_, value) in given {
        transactions = match value.as_str() {
            "hashes" => Said::Hashes,
            "full" => Said::Whole,
            _ => return Err(invalid("transactions: want hashes or full".to_owned())),
        };
    }
    Ok(transactions)
}

/// A number, a tag or a hash.
fn read_block(text: &str, said: Said) -> Result<Wanted, ApiError> {
    if text.len() == HASH_CHARS {
        return Ok(Wanted::BlockByHash(read_hash(text)?, said));
    }
    match tag(text) {
        Ok(tag) => Ok(Wanted::Block(tag, said)),
        Err(message) => Err(invalid(format!("block: {message}"))),
    }
}

fn read_hash(text: &str) -> Result<Hash32, ApiError> {
    let hash = Fixed::<32>::parse(text);
    hash.map(Hash32::from)
        .map_err(|message| invalid(format!("hash: {message}")))
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ErrorCode::InvalidParameter, message)
}

async fn answer(
    context: &Context,
    chain: &ServedChain,
    wanted: Wanted,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    if chain.stellar().is_some() && !wanted.is_clock() {
        let (name, path) = (&chain.name, chain.rpc_path());
        let message = format!(
            "{name} is a Stellar network: its ledgers and transactions are at POST {path}, \
             number, hash, parent and time of a ledger at /v1/chains/{name}/blocks/{{block}}/clock"
        );
        return Err(ApiError::new(ErrorCode::NotFound, message));
    }
    match respond(context, &View::take(chain).await?, wanted, headers).await {
        Err(error) => {
            let view = View::retry(chain, error).await?;
            respond(context, &view, wanted, headers).await
        }
        answered => answered,
    }
}

async fn respond(
    context: &Context,
    view: &View<'_>,
    wanted: Wanted,
    headers: &HeaderMap,
) -> Result<Response, ApiError> {
    let Found { block, said } = find(view, wanted).await?;
    let tag = final_answers::tag_of_block(view, &block, said).filter(|_| wanted.is_fixed());
    if let Some(known) = tag.as_ref().filter(|tag| tag.is_known(headers)) {
        return Ok(known.clone().not_modified());
    }
    let mut found = match said {
        Said::Clock => BlockClock::json(view, block).into(),
        Said::Hashes => block_json(context, view, block, Transactions::Hashes).await?,
        Said::Whole => block_json(context, view, block, Transactions::Whole).await?,
        Said::Transaction(index) => transaction_json(view, block, index).await?.into(),
    };
    let tag = tag.filter(|_| final_answers::lasts(view, &block, said, &found.text));
    // Whole blocks hold theirs already.
    let mut held = std::mem::take(&mut found.reservation);
    context.grow(&mut held, found.size()).await?;
    let mut body = ResponseBody::default();
    body.hold(held);
    body.bytes(found);
    let mut response = body.into_response();
    if let Some(tag) = tag {
        tag.put(&mut response);
    }
    Ok(response)
}

async fn find(view: &View<'_>, wanted: Wanted) -> Result<Found, ApiError> {
    let head = view.known_head()?.number;
    let id = view.chain.id;
    let (found, code, what) = match wanted {
        Wanted::Block(tag, said) => {
            let number = resolve(view, tag)?;
            let block = view.clock(number).await?;
            if block.is_none() {
                known_above(view, number)?;
            }
            let what = format!("chain {id} has no block {number}, its newest is {head}");
            let found = block.map(|block| Found { block, said });
            (found, ErrorCode::BlockNotFound, what)
        }
        Wanted::BlockByHash(hash, said) => {
            let block = find_block(view, &hash).await?;
            let what = format!("no block of chain {id} through {head} has this hash");
            let found = block.map(|block| Found { block, said });
            (found, ErrorCode::BlockNotFound, what)
        }
        Wanted::Transaction(hash) => {
            let found = find_transaction(view, &hash).await?;
            let what = format!("no transaction of chain {id} through block {head} has this hash");
            let found = found.map(|(block, index)| Found {
                block,
                said: Said::Transaction(index),
            });
            (found, ErrorCode::TransactionNotFound, what)
        }
    };
    found.ok_or_else(|| ApiError::new(code, what).with(json!({ "head": head })))
}

/// An error where a block above ours may exist: the source has it, or is not known.
fn known_above(view: &View<'_>, number: u64) -> Result<(), ApiError> {
    let Err(fault) = view.known_newest() else {
        return Ok(());
    };
    let Fault::NotYet {
        indexed,
        source_head,
    } = fault
    else {
        return Err(fault.into());
    };
    if source_head.is_some_and(|head| head < number) {
        return Ok(());
    }
    let message = format!("block {number} is not indexed yet, the newest is {indexed}: retry");
    Err(ApiError {
        message,
        ..ApiError::from(fault)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_block_by_number_tag_or_hash() {
        let number = |number| Some(Wanted::Block(BlockTag::Number(number), Said::Hashes));
        let hash = format!("0x{}", "ab".repeat(32));
        for (text, wanted) in [
            ("0", number(0)),
            ("17", number(17)),
            ("0x11", number(17)),
            ("18446744073709551615", number(u64::MAX)),
            (
                "latest",
                Some(Wanted::Block(BlockTag::Latest, Said::Hashes)),
            ),
            (
                &hash,
                Some(Wanted::BlockByHash(Hash32([0xab; 32]), Said::Hashes)),
            ),
            (&hash.replace('b', "g"), None),
            (&hash[..65], None),
            ("-1", None),
            ("+1", None),
            ("0x011", None),
            ("newest", None),
            ("", None),
        ] {
            let read = read_block(text, Said::Hashes).ok();
            assert_eq!(read, wanted, "{text}");
            let is_fixed = read.is_some_and(Wanted::is_fixed);
            assert_eq!(is_fixed, wanted.is_some() && text != "latest", "{text}");
        }
    }
}
