//! JSON-RPC as nodes speak it, one call or a batch: Ethereum's at `POST /{chainId}`, Stellar's at
//! `POST /stellar/{network}`.
//!
//! Requests are parsed no further than they are looked at, answers are written by hand, and large ones
//! are encoded while they are sent.

mod blocks;
mod logs;
mod methods;
mod methods_own;
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

use crate::chain::ServedChain;
use crate::error::{ApiError, ErrorCode};
use crate::http::context::Context;
use crate::stellar;
pub(crate) use logs::{page_answer, range_between};
pub(crate) use methods::{Handler, METHODS, Method, from_view};
pub(crate) use reply::Answer;
use reply::Reply;
pub(crate) use wire::{BlockTag, Fixed, Object, Request};

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
struct Target<'a> {
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
    let (bytes, target) = (&body.bytes, Target { chain, dialect });
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => batch(context, target, bytes).await,
        _ => single(context, target, bytes).await,
    }
}

async fn single(context: &Context, target: Target<'_>, body: &[u8]) -> Response {
    let raw: &RawValue = match serde_json::from_slice(body) {
        Ok(raw) => raw,
        Err(error) => {
            let message = format!("parse error: {error}");
            return reply::one(Reply::refused(ApiError::new(ErrorCode::Parse, message)))
                .into_response();
        }
    };
    match call(context, target, raw).await {
        Some(answer) => reply::one(answer).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn batch(context: &Context, target: Target<'_>, body: &[u8]) -> Response {
    let refused = |code, message: String| {
        let refused = Reply::refused(ApiError::new(code, message));
        reply::one(refused).into_response()
    };
    let calls: Vec<&RawValue> = match serde_json::from_slice(body) {
        Ok(calls) => calls,
        Err(error) => return refused(ErrorCode::Parse, format!("parse error: {error}")),
    };
    let (count, max) = (calls.len(), context.limits.batch);
    if count == 0 || count > max {
        let message = match count {
            0 => "empty batch".to_owned(),
            _ => format!("batch too large ({count} calls, max {max})"),
        };
        return refused(ErrorCode::InvalidRequest, message);
    }
    let (mut replies, mut bytes) = (Vec::with_capacity(count), 0);
    let started = Instant::now();
    for raw in calls {
        let full = match () {
            () if bytes > context.limits.answer_bytes => "max response bytes",
            () if started.elapsed() > context.limits.timeout => "the time of one request",
            () => "",
        };
        let answer = match full {
            "" => call(context, target, raw).await,
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
async fn call(context: &Context, target: Target<'_>, raw: &RawValue) -> Option<Reply> {
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
    let started = Instant::now();
    // A query ends by itself before this, and then names a range that works.
    let deadline = context.limits.timeout + GRACE;
    let outcome = match tokio::time::timeout(deadline, answer(context, target, &request)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(ApiError::new(
            ErrorCode::TooLarge,
            format!("query exceeds max milliseconds {}", deadline.as_millis()),
        )),
    };
    let meters = &context.meters;
    meters.call(
        target.chain.id,
        &request.method,
        outcome.is_ok(),
        started.elapsed(),
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

/// Answers with the methods of the chain's family.
async fn answer(
    context: &Context,
    target: Target<'_>,
    request: &Request<'_>,
) -> Result<Answer, ApiError> {
    let chain = target.chain;
    match (target.dialect, chain.stellar()) {
        (Dialect::Ethereum, None) => methods::answer(context, chain, request).await,
        (Dialect::Stellar, Some(_)) => stellar::answer(context, chain, request).await,
        _ => Err(elsewhere(target)),
    }
}

/// The chain is of the other family: its methods are answered at another place.
fn elsewhere(target: Target<'_>) -> ApiError {
    let (name, path) = (&target.chain.name, target.chain.rpc_path());
    let theirs = match target.dialect {
        Dialect::Ethereum => "a Stellar network",
        Dialect::Stellar => "a chain of Ethereum's family",
    };
    let message = format!("{name} is {theirs}: its methods are answered at POST {path}");
    ApiError::new(ErrorCode::MethodNotFound, message)
}
