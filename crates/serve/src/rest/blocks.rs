//! `/v1/chains/{id}/blocks/{block}` and `/v1/chains/{id}/transactions/{hash}`: what `eth_getBlockByNumber`,
//! `eth_getBlockByHash` and `eth_getTransactionByHash` answer, for clients without JSON-RPC. And
//! `/v1/chains/{id}/blocks/{block}/clock`: what every chain keeps of a block, also one without headers.
//!
//! 404 means that there is no such thing. Where that is not known, because history is missing or newer blocks are
//! not indexed yet, the answer is 409.

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use chronolith_model::{BlockMeta, Hash32};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{PathParams, chain, parameters};
use crate::chain::ServedChain;
use crate::error::{ApiError, ErrorCode};
use crate::fault::Fault;
use crate::http::answer_memory::MemoryReservation;
use crate::http::body::ResponseBody;
use crate::http::context::Context;
use crate::names::Hash;
use crate::rest::log_query::tag;
use crate::rpc::blocks::{Transactions, block_by_hash, block_by_number, transaction_by_hash};
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

/// What of a block is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Its header and its transactions.
    Whole(Transactions),
    Clock,
}

/// What a path names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Block(BlockTag, Part),
    BlockByHash(Hash32, Part),
    Transaction(Hash32),
}

pub(crate) async fn get_block(
    State(context): State<Context>,
    PathParams((id, block)): PathParams<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let part = Part::Whole(read_transactions(query.as_deref())?);
    let wanted = read_block(&block, part)?;
    answer(&context, chain(&context, &id)?, wanted).await
}

pub(crate) async fn get_clock(
    State(context): State<Context>,
    PathParams((id, block)): PathParams<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    parameters(query.as_deref(), &[], &[], ErrorCode::InvalidParameter)?;
    let wanted = read_block(&block, Part::Clock)?;
    answer(&context, chain(&context, &id)?, wanted).await
}

pub(crate) async fn get_transaction(
    State(context): State<Context>,
    PathParams((id, hash)): PathParams<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    parameters(query.as_deref(), &[], &[], ErrorCode::InvalidParameter)?;
    let wanted = Wanted::Transaction(read_hash(&hash)?);
    answer(&context, chain(&context, &id)?, wanted).await
}

fn read_transactions(query: Option<&str>) -> Result<Transactions, ApiError> {
    let mut transactions = Transactions::Hashes;
    let given = parameters(query, &["transactions"], &[], ErrorCode::InvalidParameter)?;
    for (_, value) in given {
        transactions = match value.as_str() {
            "hashes" => Transactions::Hashes,
            "full" => Transactions::Whole,
            _ => return Err(invalid("transactions: want hashes or full".to_owned())),
        };
    }
    Ok(transactions)
}

/// A number, a tag or a hash.
fn read_block(text: &str, part: Part) -> Result<Wanted, ApiError> {
    if text.len() == HASH_CHARS {
        return Ok(Wanted::BlockByHash(read_hash(text)?, part));
    }
    match tag(text) {
        Ok(tag) => Ok(Wanted::Block(tag, part)),
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
) -> Result<Response, ApiError> {
    if chain.stellar().is_some() {
        let (name, path) = (&chain.name, chain.rpc_path());
        let message =
            format!("{name} is a Stellar network: its ledgers and transactions are at POST {path}");
        return Err(ApiError::new(ErrorCode::NotFound, message));
    }
    let json = match find(&View::take(chain).await?, wanted).await {
        Err(error) => find(&View::retry(chain, error).await?, wanted).await?,
        Ok(json) => json,
    };
    let mut held = MemoryReservation::default();
    context.grow(&mut held, json.len()).await?;
    let mut body = ResponseBody::default();
    body.hold(held);
    body.own_text(json);
    Ok(body.into_response())
}

async fn find(view: &View<'_>, wanted: Wanted) -> Result<Vec<u8>, ApiError> {
    let head = view.known_head()?.number;
    let id = view.chain.id;
    let (found, code, what) = match wanted {
        Wanted::Block(tag, part) => {
            let number = resolve(view, tag)?;
            let found = by_number(view, number, part).await?;
            if found.is_none() {
                known_above(view, number)?;
            }
            let what = format!("chain {id} has no block {number}, its newest is {head}");
            (found, ErrorCode::BlockNotFound, what)
        }
        Wanted::BlockByHash(hash, part) => {
            let found = by_hash(view, &hash, part).await?;
            let what = format!("no block of chain {id} through {head} has this hash");
            (found, ErrorCode::BlockNotFound, what)
        }
        Wanted::Transaction(hash) => {
            let found = transaction_by_hash(view, &hash).await?;
            let what = format!("no transaction of chain {id} through block {head} has this hash");
            (found, ErrorCode::TransactionNotFound, what)
        }
    };
    found.ok_or_else(|| ApiError::new(code, what).with(json!({ "head": head })))
}

/// As JSON; none above the head.
async fn by_number(view: &View<'_>, number: u64, part: Part) -> Result<Option<Vec<u8>>, ApiError> {
    match part {
        Part::Whole(transactions) => block_by_number(view, number, transactions).await,
        Part::Clock => {
            let clock = view.clock(number).await?;
            Ok(clock.map(|clock| BlockClock::json(view, clock)))
        }
    }
}

/// As JSON; none where no block can have the hash.
async fn by_hash(view: &View<'_>, hash: &Hash32, part: Part) -> Result<Option<Vec<u8>>, ApiError> {
    match part {
        Part::Whole(transactions) => block_by_hash(view, hash, transactions).await,
        Part::Clock => {
            let clock = view.find_block(hash).await?;
            if clock.is_none() {
                view.known_newest()?;
            }
            Ok(clock.map(|clock| BlockClock::json(view, clock)))
        }
    }
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
        let part = Part::Whole(Transactions::Hashes);
        let number = |number| Some(Wanted::Block(BlockTag::Number(number), part));
        let hash = format!("0x{}", "ab".repeat(32));
        for (text, wanted) in [
            ("0", number(0)),
            ("17", number(17)),
            ("0x11", number(17)),
            ("18446744073709551615", number(u64::MAX)),
            ("latest", Some(Wanted::Block(BlockTag::Latest, part))),
            (&hash, Some(Wanted::BlockByHash(Hash32([0xab; 32]), part))),
            (&hash.replace('b', "g"), None),
            (&hash[..65], None),
            ("-1", None),
            ("+1", None),
            ("0x011", None),
            ("newest", None),
            ("", None),
        ] {
            let read = read_block(text, part).ok();
            assert_eq!(read, wanted, "{text}");
        }
    }
}
