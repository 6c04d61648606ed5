//! JSON-RPC, one call or a batch: Ethereum's methods at `POST /{chainId}`, Stellar's at
//! `POST /stellar/{network}`.
//!
//! Requests are parsed no further than needed, answers are written by hand, and large ones are encoded
//! while they are sent.

pub(crate) mod blocks;
mod logs;
mod methods;
mod methods_own;
mod reply;
pub(crate) mod tags;
pub(crate) mod wire;

use std::borrow::Cow;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::chain::ServedChain;
use crate::error::{ApiError, ErrorCode, Limit, excerpt};
use crate::http::access::Visit;
use crate::http::body::ResponseBody;
use crate::http::context::Context;
use crate::http::heavy::in_place;
use crate::http::request_body::discard;
use crate::metrics::label_of;
use crate::stellar;
pub(crate) use logs::{PageScope, page_answer, range_between};
pub(crate) use methods::{Handler, METHODS, Method, from_view};
pub(crate) use reply::Answer;
use reply::Reply;
pub(crate) use wire::{BlockTag, Fixed, Object, Request, TOPICS_MAX};

/// How much longer than a query a call may take.
const GRACE: Duration = Duration::from_secs(2);

/// JSON above this takes long to parse.
const LONG_JSON: usize = 64 << 10;

/// Bytes of an id: it is sent back unchanged.
const ID_BYTES_MAX: usize = 256;

/// Whose methods a path has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    Ethereum,
    Stellar,
}

/// A chain, and whose methods the client calls.
#[derive(Clone, Copy)]
struct Target<'a> {
    chain: &'a ServedChain,
    dialect: Dialect,
    /// Where calls are counted for keys or the log.
    visit: Option<&'a Visit>,
}

/// Whether calls are answered at a route.
pub(crate) fn is_path(route: &str) -> bool {
    matches!(
        route,
        "/{chainId}" | "/v1/chains/{chainId}/rpc" | "/stellar/{network}"
    )
}

/// The answer to a body of which no call is executed.
pub(crate) fn refused(error: ApiError) -> Response {
    let (status, retry_after) = (error.status(), error.retry_after());
    let mut response = (status, refusal(error)).into_response();
    if let Some(seconds) = retry_after {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Answers calls of Ethereum's methods.
pub(crate) async fn serve(
    State(context): State<Context>,
    chain: Result<Path<String>, PathRejection>,
    visit: Option<Extension<Visit>>,
    body: Body,
) -> Response {
    serve_chain(&context, (Dialect::Ethereum, chain), visit, body).await
}

/// Answers calls of Stellar's methods.
pub(crate) async fn serve_stellar(
    State(context): State<Context>,
    network: Result<Path<String>, PathRejection>,
    visit: Option<Extension<Visit>>,
    body: Body,
) -> Response {
    serve_chain(&context, (Dialect::Stellar, network), visit, body).await
}

/// Answers a body of one call or several.
async fn serve_chain(
    context: &Context,
    (dialect, path): (Dialect, Result<Path<String>, PathRejection>),
    visit: Option<Extension<Visit>>,
    body: Body,
) -> Response {
    // A name that is not UTF-8 is that of no chain.
    let name = path.map_or_else(|_| char::REPLACEMENT_CHARACTER.into(), |Path(name)| name);
    let chain = match dialect {
        Dialect::Ethereum => context.served.find_named(&name),
        Dialect::Stellar => context.served.find_network(&name),
    };
    let Some(chain) = chain else {
        let message = match context.served.known_named(&name) {
            Some(_) => context.served.why_not_found(&name),
            None => format!(
                "chain {} is not served here: GET /v1/chains lists those that are",
                excerpt(&name)
            ),
        };
        let error = ApiError::new(ErrorCode::ChainNotFound, message);
        discard(body).await;
        return (StatusCode::NOT_FOUND, refusal(error)).into_response();
    };
    let body = match context.read(body).await {
        Ok(body) => body,
        Err(error) => {
            let status = error.status();
            let refused = ApiError::new(ErrorCode::InvalidRequest, error.message);
            return (status, refusal(refused)).into_response();
        }
    };
    let bytes = &body.bytes;
    let visit = visit.as_ref().map(|Extension(visit)| visit);
    let target = Target {
        chain,
        dialect,
        visit,
    };
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => batch(context, target, bytes).await,
        _ => single(context, target, bytes).await,
    }
}

/// The body of an error without an id.
fn refusal(error: ApiError) -> ResponseBody {
    reply::one(Reply::refused(error))
}

/// Parses JSON. Other connections do not wait for a long one.
fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> serde_json::Result<T> {
    match json.len() > LONG_JSON {
        true => in_place(|| serde_json::from_slice(json)),
        false => serde_json::from_slice(json),
    }
}

async fn single(context: &Context, target: Target<'_>, body: &[u8]) -> Response {
    let raw: &RawValue = match parse(body) {
        Ok(raw) => raw,
        Err(error) => {
            let message = format!("parse error: {error}");
            return refusal(ApiError::new(ErrorCode::Parse, message)).into_response();
        }
    };
    match call(context, target, raw).await {
        Some(reply) => reply::one(reply.held_by(context).await).into_response(),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn batch(context: &Context, target: Target<'_>, body: &[u8]) -> Response {
    let refused = |code, message: String| refusal(ApiError::new(code, message)).into_response();
    let calls: Vec<&RawValue> = match parse(body) {
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
    let counted = target
        .visit
        .map_or(Ok(()), |visit| visit.count_calls(count));
    if let Err(error) = counted {
        return self::refused(error);
    }
    let (mut replies, mut bytes) = (Vec::with_capacity(count), 0);
    let started = Instant::now();
    for raw in calls {
        let (answer_bytes, timeout) = (context.limits.answer_bytes, context.limits.timeout);
        let reply = if bytes > answer_bytes {
            let message = "the batch exceeds max response bytes: send smaller batches";
            refuse(
                raw,
                ApiError::over(Limit::ResponseBytes, answer_bytes as u64, message),
            )
        } else if started.elapsed() > timeout {
            let message = "the batch exceeds the time of one request: send smaller batches";
            refuse(
                raw,
                ApiError::over(Limit::Milliseconds, millis(timeout), message),
            )
        } else {
            call(context, target, raw).await
        };
        if let Some(reply) = reply {
            let reply = reply.held_by(context).await;
            bytes += reply.size();
            replies.push(reply);
        }
    }
    if replies.is_empty() {
        return StatusCode::NO_CONTENT.into_response();
    }
    reply::many(replies).into_response()
}

/// Refuses a call of a batch that exceeds a limit.
fn refuse(raw: &RawValue, error: ApiError) -> Option<Reply> {
    let request = serde_json::from_str::<Object<Request<'_>>>(raw.get()).ok();
    let id = request.and_then(|Object(request)| request.id)?;
    Some(Reply::new(id, Err(error)))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Answers one call; a notification is not answered.
async fn call(context: &Context, target: Target<'_>, raw: &RawValue) -> Option<Reply> {
    let request = match parse::<Object<Request<'_>>>(raw.get().as_bytes()) {
        Ok(Object(request)) => request,
        Err(error) => return Some(Reply::refused(no_request(&error.to_string()))),
    };
    let wrong_version = (!request.is_version_2()).then(|| no_request("jsonrpc must be \"2.0\""));
    let Some(id) = request.id else {
        return wrong_version.map(Reply::refused);
    };
    if !is_id(id) {
        let message =
            format!("an id must be a number, a string or null, of at most {ID_BYTES_MAX} bytes");
        return Some(Reply::refused(no_request(&message)));
    }
    if let Some(wrong) = wrong_version {
        return Some(Reply::new(id, Err(wrong)));
    }
    if let Some(visit) = target.visit {
        visit.called(label_of(&request.method));
    }
    let started = Instant::now();
    // A query times out before this, and its error names a range that works.
    let deadline = context.limits.timeout + GRACE;
    let answered = tokio::time::timeout(deadline, answer(context, target, &request)).await;
    let outcome = answered.unwrap_or_else(|_| {
        let limit = millis(deadline);
        let message = format!("query exceeds max milliseconds {limit}");
        Err(ApiError::over(Limit::Milliseconds, limit, message))
    });
    context.meters.call(
        target.chain.id,
        &request.method,
        outcome.is_ok(),
        started.elapsed(),
    );
    Some(Reply::new(id, outcome))
}

fn no_request(why: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, format!("invalid request: {why}"))
}

/// Whether it is a valid id, which is sent back.
fn is_id(id: &RawValue) -> bool {
    let Some(first) = id.get().bytes().next() else {
        return false;
    };
    // A string can hold an escaped half of a character, which no client could parse in the answer.
    let is_text = first != b'"' || serde_json::from_str::<Cow<'_, str>>(id.get()).is_ok();
    let is_scalar = matches!(first, b'"' | b'-' | b'0'..=b'9' | b'n');
    is_text && is_scalar && id.get().len() <= ID_BYTES_MAX
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
        _ => Err(wrong_family(target)),
    }
}

/// The chain is of the other family: its methods have another path.
fn wrong_family(target: Target<'_>) -> ApiError {
    let (name, path) = (&target.chain.name, target.chain.rpc_path());
    let theirs = match target.dialect {
        Dialect::Ethereum => "a Stellar network",
        Dialect::Stellar => "an EVM chain",
    };
    let message = format!("{name} is {theirs}: its methods are at POST {path}");
    ApiError::new(ErrorCode::MethodNotFound, message)
}
