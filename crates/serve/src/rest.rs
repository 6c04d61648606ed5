//! REST: chains, their blocks by time, their logs, and how far everything is.

pub(crate) mod chains;
pub(crate) mod logs;
pub(crate) mod overview;
pub(crate) mod projections;
pub(crate) mod ranges;
pub(crate) mod times;

use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::Method;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use crate::chain::ServedChain;
use crate::error::{ApiError, ErrorCode};
use crate::http::context::Context;

/// The chain with an id as it stands in a path.
pub(crate) fn chain<'a>(context: &'a Context, id: &str) -> Result<&'a ServedChain, ApiError> {
    let found = context.served.find_named(id);
    found.map(|chain| &**chain).ok_or_else(|| no_chain(id))
}

fn no_chain(id: &str) -> ApiError {
    let shown: String = id.chars().take(40).collect();
    let message = format!("chain {shown} not found");
    ApiError::new(ErrorCode::ChainNotFound, message)
}

/// What stands in a path. What is not even text there is refused like any other wrong value.
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = Path::from_request_parts(parts, state).await;
        read.map(|Path(at)| Self(at)).map_err(|rejection| {
            let name = match &rejection {
                PathRejection::FailedToDeserializePathParams(error) => match error.kind() {
                    ErrorKind::InvalidUtf8InPathParam { key } => key.as_str(),
                    _ => "",
                },
                _ => "",
            };
            let shown = char::REPLACEMENT_CHARACTER;
            match name {
                "chainId" => no_chain(&shown.to_string()),
                "direction" => ApiError::new(
                    ErrorCode::InvalidDirection,
                    format!("invalid direction: {shown}"),
                ),
                "time" => ApiError::new(
                    ErrorCode::InvalidTimestamp,
                    format!("invalid timestamp: {shown}"),
                ),
                _ => ApiError::new(ErrorCode::InvalidPath, rejection.body_text()),
            }
        })
    }
}

/// The parameters of a query string, of which each must be known, and only those of `lists` may stand
/// there more than once: of two values one would be passed over.
pub(crate) fn parameters(
    query: Option<&str>,
    known: &[&str],
    lists: &[&str],
    code: ErrorCode,
) -> Result<Vec<(String, String)>, ApiError> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if !known.contains(&&*name) {
            let shown: String = name.chars().take(40).collect();
            let message = format!(
                "unknown parameter `{shown}`: there are {}",
                known.join(", ")
            );
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

/// No such place.
pub(crate) async fn not_found() -> ApiError {
    let message = "there is nothing here: /docs shows what there is";
    ApiError::new(ErrorCode::NotFound, message)
}

/// Any word may stand where a chain's id does: whoever looks for a page there is told that there is none.
pub(crate) async fn chain_method_not_allowed(method: Method) -> ApiError {
    match method {
        Method::GET | Method::HEAD => not_found().await,
        _ => method_not_allowed().await,
    }
}

/// A place, but not for this method.
pub(crate) async fn method_not_allowed() -> ApiError {
    let message = "this place does not know that method: /docs shows which it does";
    ApiError::new(ErrorCode::MethodNotAllowed, message)
}
