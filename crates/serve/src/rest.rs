//! REST: chains, their progress, their blocks and transactions, their blocks by time, their logs.

pub(crate) mod blocks;
pub(crate) mod chains;
pub(crate) mod download;
mod final_answers;
pub(crate) mod history;
mod log_query;
pub(crate) mod logs;
pub(crate) mod logs_of_chains;
pub(crate) mod overview;
mod pages;
pub(crate) mod projections;
pub(crate) mod ranges;
pub(crate) mod times;

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use chronolith_model::Order;
use serde::de::DeserializeOwned;

use crate::chain::ServedChain;
use crate::error::{ApiError, ErrorCode, excerpt};
use crate::http::context::Context;

/// Bytes of the query string in a link to the next page: proxies refuse long headers.
const LINK_BYTES_MAX: usize = 2 << 10;

/// Says in the headers of a page where the next one is. Its query string may be left out: the cursor says it too.
pub(crate) fn put_next(headers: &mut HeaderMap, cursor: &str, query: Option<&str>) {
    let query = query.filter(|query| query.len() <= LINK_BYTES_MAX);
    let link =
        query.and_then(|query| HeaderValue::try_from(format!("<?{query}>; rel=\"next\"")).ok());
    headers.extend(link.map(|link| (header::LINK, link)));
    let cursor = HeaderValue::try_from(cursor).ok();
    headers.extend(cursor.map(|cursor| (logs::NEXT_CURSOR, cursor)));
}

/// The chain with the id of a path.
pub(crate) fn chain<'a>(context: &'a Context, id: &str) -> Result<&'a ServedChain, ApiError> {
    let found = context.served.find_named(id);
    found
        .map(|chain| &**chain)
        .ok_or_else(|| no_chain(context, id))
}

/// There are no data of a chain.
fn no_chain(context: &Context, id: &str) -> ApiError {
    ApiError::new(ErrorCode::ChainNotFound, context.served.why_not_found(id))
}

/// The parameters of a path. One that is not UTF-8 is refused like any other wrong value.
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let rejection = match Path::from_request_parts(parts, state).await {
            Ok(Path(params)) => return Ok(Self(params)),
            Err(rejection) => rejection,
        };
        let name = match &rejection {
            PathRejection::FailedToDeserializePathParams(error) => match error.kind() {
                ErrorKind::InvalidUtf8InPathParam { key } => key.as_str(),
                _ => "",
            },
            _ => "",
        };
        let value = char::REPLACEMENT_CHARACTER;
        let (code, message) = match name {
            "chainId" => {
                let message = format!("chain {value} not found");
                return Err(ApiError::new(ErrorCode::ChainNotFound, message));
            }
            "direction" => (
                ErrorCode::InvalidDirection,
                format!("invalid direction: {value}"),
            ),
            "time" => (
                ErrorCode::InvalidTimestamp,
                format!("invalid timestamp: {value}"),
            ),
            "block" | "hash" => (
                ErrorCode::InvalidParameter,
                format!("{name}: it is not UTF-8"),
            ),
            _ => (ErrorCode::InvalidPath, rejection.body_text()),
        };
        Err(ApiError::new(code, message))
    }
}

/// The parameters of a query string. Each must be known, and only those of `lists` may be given more than
/// once: one of two values would be ignored.
pub(crate) fn parameters(
    query: Option<&str>,
    known: &[&str],
    lists: &[&str],
    code: ErrorCode,
) -> Result<Vec<(String, String)>, ApiError> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, value) in form_urlencoded::parse(query.unwrap_or("").as_bytes()) {
        if !known.contains(&&*name) {
            let (name, known) = (excerpt(&name), known.join(", "));
            let message = format!("unknown parameter `{name}`: there are {known}");
            return Err(ApiError::new(code, message));
        }
        if !lists.contains(&&*name) && all.iter().any(|(given, _)| *given == name) {
            let message = format!("the parameter `{name}` is given twice");
            return Err(ApiError::new(code, message));
        }
        all.push((name.into_owned(), value.into_owned()));
    }
    Ok(all)
}

/// The parameter `order`.
pub(crate) fn order(value: &str) -> Result<Order, String> {
    match value {
        "asc" => Ok(Order::Ascending),
        "desc" => Ok(Order::Descending),
        _ => Err("want asc or desc".to_owned()),
    }
}

/// No such path.
pub(crate) async fn not_found() -> ApiError {
    let message = "not found: /docs lists all paths";
    ApiError::new(ErrorCode::NotFound, message)
}

/// Any word may be the id of a chain: a browser that requests a page there gets 404.
pub(crate) async fn chain_method_not_allowed(method: Method) -> ApiError {
    match method {
        Method::GET | Method::HEAD => not_found().await,
        _ => method_not_allowed().await,
    }
}

pub(crate) async fn method_not_allowed() -> ApiError {
    let message = "method not allowed: /docs lists the methods of each path";
    ApiError::new(ErrorCode::MethodNotAllowed, message)
}
