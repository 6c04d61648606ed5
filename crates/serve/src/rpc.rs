//! JSON-RPC as nodes speak it, one call or a batch: Ethereum's at `POST /{chainId}`, Stellar's at
//! `POST /stellar/{network}`.
//!
//! Requests are parsed no further than they are looked at, answers are written by hand, and large ones
//! are encoded while they are sent.

mod blocks;
mod logs;
mod ours;
mod reply;
mod tags;
pub(crate) mod wire;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::value::RawValue;

use crate::context::Context;
use crate::error::{ApiError, ErrorCode};
use crate::served::ServedChain;
use crate::stellar;
use crate::view::View;
pub(crate) use logs::{about, range_between};
pub(crate) use reply::Answer;
use reply::Reply;
pub(crate) use wire::Object;
use wire::Params;
pub(crate) use wire::Request;
pub(crate) use wire::{BlockTag, Fixed};

/// How much longer than a query a call may take.
const GRACE: Duration = Duration::from_secs(2);

/// An id is sent back as it came: it need not be long.
const ID_BYTES_MAX: usize = 256;

/// Whose methods are answered at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    Ethereum,
    Stellar,
}

/// A chain, and whose methods it is asked with.
#[derive(Clone, Copy)]
struct Asked<'a> {
    chain: &'a ServedChain,
    dialect: Dialect,
}

/// Answers calls of Ethereum's methods.
pub(crate) async fn serve(
    State(context): State<Context>,
    chain: Result<Path<String>, PathRejection>,
    body: Body,
) -> Response {
    let (name, dialect) = (name_in(chain), Dialect::Ethereum);
    let chain = context.served.find_named(&name);
    serve_chain(
        &context,
        (&name, chain.map(|chain| &**chain)),
        dialect,
        body,
    )
    .await
}

/// Answers calls of Stellar's methods.
pub(crate) async fn serve_stellar(
    State(context): State<Context>,
    network: Result<Path<String>, PathRejection>,
    body: Body,
) -> Response {
    let (name, dialect) = (name_in(network), Dialect::Stellar);
    let chain = context.served.find_network(&name);
    serve_chain(
        &context,
        (&name, chain.map(|chain| &**chain)),
        dialect,
        body,
    )
    .await
}

/// A name that is not even text is that of no chain.
fn name_in(path: Result<Path<String>, PathRejection>) -> String {
    path.map_or_else(|_| char::REPLACEMENT_CHARACTER.into(), |Path(name)| name)
}

/// Answers a body of one call or many.
async fn serve_chain(
    context: &Context,
    (name, chain): (&str, Option<&ServedChain>),
    dialect: Dialect,
    body: Body,
) -> Response {
    let Some(chain) = chain else {
        let shown: String = name.chars().take(40).collect();
        let error = ApiError::new(
            ErrorCode::ChainNotFound,
            format!("chain {shown} is not served here: GET /v1/chains lists those that are"),
        );
        let refused = Reply::refused(error);
        return (StatusCode::NOT_FOUND, reply::one(refused)).into_response();
    };
    let body = match context.read(body).await {
        Ok(body) => body,
        Err(error) => {
            let status = error.status();
            let refused = ApiError::new(ErrorCode::InvalidRequest, error.message);
            return (status, reply::one(Reply::refused(refused))).into_response();
        }
    };
    let (bytes, asked) = (&body.bytes, Asked { chain, dialect });
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => batch(context, asked, bytes).await,
        _ => single(context, asked, bytes).await,
    }
}

async fn single(context: &Context, asked: Asked<'_>, body: &[u8]) -> Response {
    let raw: &RawValue = match serde_json::from_slice(body) {
        Ok(raw) => raw,
        Err(error) => {
            let message = format!("parse error: {error}");
            return reply::one(Reply::refused(ApiError::new(ErrorCode::Parse, message)))
                .into_response();
        }
    };
    match call(context, asked, raw).await {
        Some(answer) => reply::one(answer).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn batch(context: &Context, asked: Asked<'_>, body: &[u8]) -> Response {
    let refused = |code, message: String| {
        let refused = Reply::refused(ApiError::new(code, message));
        reply::one(refused).into_response()
    };
    let calls: Vec<&RawValue> = match serde_json::from_slice(body) {
        Ok(calls) => calls,
        Err(error) => return refused(ErrorCode::Parse, format!("parse error: {error}")),
    };
    let (count, most) = (calls.len(), context.limits.batch);
    if count == 0 || count > most {
        let message = match count {
            0 => "empty batch".to_owned(),
            _ => format!("batch too large ({count} calls, max {most})"),
        };
        return refused(ErrorCode::InvalidRequest, message);
    }
    let (mut replies, mut bytes) = (Vec::with_capacity(count), 0);
    let began = Instant::now();
    for raw in calls {
        let full = match () {
            () if bytes > context.limits.answer_bytes => "max response bytes",
            () if began.elapsed() > context.limits.timeout => "the time of one request",
            () => "",
        };
        let answer = match full {
            "" => call(context, asked, raw).await,
            full => refuse(raw, full),
        };
        let Some(answer) = answer else {
            continue;
        };
        bytes += answer.size();
        replies.push(answer);
    }
    match replies.is_empty() {
        true => StatusCode::NO_CONTENT.into_response(),
        false => reply::many(replies).into_response(),
    }
}

/// What is left of a batch that took too much is not looked at any more.
fn refuse(raw: &RawValue, full: &str) -> Option<Reply> {
    let request = serde_json::from_str::<Object<Request<'_>>>(raw.get()).ok();
    let id = request.and_then(|Object(request)| request.id)?;
    let message = format!("the batch exceeds {full}: ask in smaller batches");
    Some(Reply::new(
        id,
        Err(ApiError::new(ErrorCode::TooLarge, message)),
    ))
}

/// Answers one call; a notification is not answered.
async fn call(context: &Context, asked: Asked<'_>, raw: &RawValue) -> Option<Reply> {
    let request = match serde_json::from_str::<Object<Request<'_>>>(raw.get()) {
        Ok(Object(request)) => request,
        Err(error) => return Some(Reply::refused(no_request(&error.to_string()))),
    };
    let wrong_version = (!request.is_version_2()).then(|| no_request("jsonrpc must be \"2.0\""));
    let Some(id) = request.id else {
        return wrong_version.map(Reply::refused);
    };
    if !is_id(id) {
        let message =
            format!("an id is a number, a text or null, and at most {ID_BYTES_MAX} bytes");
        return Some(Reply::refused(no_request(&message)));
    }
    if let Some(wrong) = wrong_version {
        return Some(Reply::new(id, Err(wrong)));
    }
    let began = Instant::now();
    // A query ends by itself before this, and then names a range that works.
    let deadline = context.limits.timeout + GRACE;
    let outcome = match tokio::time::timeout(deadline, answer(context, asked, &request)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ApiError::new(
            ErrorCode::TooLarge,
            format!("query exceeds max milliseconds {}", deadline.as_millis()),
        )),
    };
    let meters = &context.meters;
    meters.call(
        asked.chain.id,
        &request.method,
        outcome.is_ok(),
        began.elapsed(),
    );
    Some(Reply::new(id, outcome).held_by(context).await)
}

fn no_request(why: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, format!("invalid request: {why}"))
}

/// Whether it may be sent back as an id.
fn is_id(id: &RawValue) -> bool {
    let sort = id.get().bytes().next().unwrap_or(b'{');
    // Half a character can be escaped in a text, and no reader of the answer could take it.
    let is_text = sort != b'"' || serde_json::from_str::<Cow<'_, str>>(id.get()).is_ok();
    let is_sort = matches!(sort, b'"' | b'-' | b'0'..=b'9' | b'n');
    is_text && is_sort && id.get().len() <= ID_BYTES_MAX
}

/// Every method.
pub(crate) const METHODS: [&str; 15] = [
    "eth_getLogs",
    "eth_blockNumber",
    "eth_chainId",
    "net_version",
    "web3_clientVersion",
    "eth_getBlockByNumber",
    "eth_getBlockByHash",
    "eth_getTransactionByHash",
    "eth_getBlockTransactionCountByNumber",
    "eth_getBlockTransactionCountByHash",
    "eth_capabilities",
    "eth_syncing",
    "chronolith_getLogs",
    "chronolith_getCoverage",
    "chronolith_blockByTime",
];

/// Those that take no parameters.
const WITHOUT_PARAMS: [&str; 7] = [
    "eth_blockNumber",
    "eth_chainId",
    "net_version",
    "web3_clientVersion",
    "eth_capabilities",
    "eth_syncing",
    "chronolith_getCoverage",
];

/// Answers from one view; where that may be another answer in a moment, once more from a newer one.
async fn answer(
    context: &Context,
    asked: Asked<'_>,
    request: &Request<'_>,
) -> Result<Answer, ApiError> {
    let chain = asked.chain;
    match (asked.dialect, chain.stellar()) {
        (Dialect::Ethereum, None) => {}
        (Dialect::Stellar, Some(_)) => return stellar::answer(context, chain, request).await,
        _ => return Err(elsewhere(asked)),
    }
    if WITHOUT_PARAMS.contains(&&*request.method) {
        Params::read(request.params, 0)?;
    }
    if let Some(answer) = answer_of_itself(context, chain, request) {
        return answer;
    }
    let view = View::take(chain).await?;
    match dispatch(context, &view, request).await {
        Err(error) => match View::newer(chain, error.again).await? {
            Some(view) => dispatch(context, &view, request).await,
            None => Err(error),
        },
        answered => answered,
    }
}

/// The chain is of the other family: its methods are answered at another place.
fn elsewhere(asked: Asked<'_>) -> ApiError {
    let (name, path) = (&asked.chain.name, asked.chain.rpc_path());
    let theirs = match asked.dialect {
        Dialect::Ethereum => "a Stellar network",
        Dialect::Stellar => "a chain of Ethereum's family",
    };
    let message = format!("{name} is {theirs}: its methods are answered at POST {path}");
    ApiError::new(ErrorCode::MethodNotFound, message)
}

/// What needs no look at the chain.
fn answer_of_itself(
    context: &Context,
    chain: &ServedChain,
    request: &Request<'_>,
) -> Option<Result<Answer, ApiError>> {
    let text = |text: &str| Answer::Json(format!("\"{text}\"").into_bytes());
    match &*request.method {
        "eth_chainId" => Some(Ok(Answer::quantity(chain.id))),
        "net_version" => Some(Ok(text(&chain.id.to_string()))),
        "web3_clientVersion" => Some(Ok(text(&context.version))),
        known if METHODS.contains(&known) => None,
        other => {
            let shown: String = other.chars().take(80).collect();
            let message = format!("the method {shown} does not exist/is not available");
            Some(Err(ApiError::new(ErrorCode::MethodNotFound, message)))
        }
    }
}

async fn dispatch(
    context: &Context,
    view: &View<'_>,
    request: &Request<'_>,
) -> Result<Answer, ApiError> {
    let params = |most| Params::read(request.params, most);
    match &*request.method {
        "eth_getLogs" => logs::get_logs(context, view, &params(1)?).await,
        "eth_blockNumber" => Ok(Answer::quantity(view.known_head()?.number)),
        "eth_syncing" => Ok(ours::syncing(view)),
        "eth_getBlockByNumber" => blocks::by_number(view, &params(2)?).await,
        "eth_getBlockByHash" => blocks::by_hash(view, &params(2)?).await,
        "eth_getTransactionByHash" => blocks::transaction(view, &params(1)?).await,
        "eth_getBlockTransactionCountByNumber" => blocks::count_by_number(view, &params(1)?).await,
        "eth_getBlockTransactionCountByHash" => blocks::count_by_hash(view, &params(1)?).await,
        "eth_capabilities" => ours::capabilities(view),
        "chronolith_getLogs" => logs::get_page(context, view, &params(1)?).await,
        "chronolith_getCoverage" => ours::coverage(view),
        "chronolith_blockByTime" => ours::block_by_time(view, &params(1)?).await,
        other => {
            let message = format!("{other} is listed and not answered: please report it");
            Err(ApiError::new(ErrorCode::Internal, message))
        }
    }
}
