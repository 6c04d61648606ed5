//! REST: chains, their blocks by time, their logs, and how far everything is.

pub(crate) mod chains;
pub(crate) mod logs;
pub(crate) mod overview;
pub(crate) mod projections;
pub(crate) mod ranges;
pub(crate) mod times;

use axum::Json;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::fault::Again;
use crate::rpc::{RpcError, error as codes};
use crate::served::ServedChain;

/// Why there is no answer: a status, a word for programs, and words for people.
#[derive(Clone, Debug)]
pub(crate) struct RestError {
    status: StatusCode,
    code: &'static str,
    message: String,
    more: Map<String, Value>,
}

impl RestError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: codes::brief(message),
            more: Map::new(),
        }
    }

    pub(crate) fn bad(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Adds a field for programs.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Beside what is known all the same, where one of several things cannot be told.
    pub(crate) fn beside(&self, mut known: Value) -> Value {
        if let (Value::Object(known), Value::Object(error)) = (&mut known, self.as_json()) {
            known.extend(error);
        }
        known
    }

    /// As it stands in a body.
    pub(crate) fn as_json(&self) -> Value {
        let mut error = self.more.clone();
        error.insert("code".to_owned(), self.code.into());
        error.insert("message".to_owned(), self.message.clone().into());
        json!({ "error": error })
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        (self.status, Json(self.as_json())).into_response()
    }
}

/// The same errors as over JSON-RPC, with codes that people who use REST expect.
impl From<RpcError> for RestError {
    fn from(error: RpcError) -> Self {
        let (status, code) = match error.code {
            codes::INVALID_PARAMS => (StatusCode::BAD_REQUEST, "INVALID_FILTER"),
            codes::LIMIT if error.again == Again::LessBusy => {
                (StatusCode::SERVICE_UNAVAILABLE, "BUSY")
            }
            codes::LIMIT => (StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE"),
            codes::PRUNED => (StatusCode::NOT_FOUND, "NOT_COVERED"),
            codes::UNKNOWN_TAG => (StatusCode::NOT_FOUND, "BLOCK_NOT_FOUND"),
            codes::CONFLICT => (StatusCode::CONFLICT, "CURSOR_CONFLICT"),
            codes::SERVER => (StatusCode::SERVICE_UNAVAILABLE, "NOT_READY"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR"),
        };
        Self::new(status, code, error.message)
    }
}

/// The chain with an id as it stands in a path.
pub(crate) fn chain<'a>(context: &'a Context, id: &str) -> Result<&'a ServedChain, RestError> {
    let found = context.served.find_named(id);
    found.map(|chain| &**chain).ok_or_else(|| no_chain(id))
}

fn no_chain(id: &str) -> RestError {
    let shown: String = id.chars().take(40).collect();
    let message = format!("chain {shown} not found");
    RestError::new(StatusCode::NOT_FOUND, "CHAIN_NOT_FOUND", message)
}

/// What stands in a path. What is not even text there is refused like any other wrong value.
pub(crate) struct At<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = RestError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, RestError> {
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
                "direction" => {
                    RestError::bad("INVALID_DIRECTION", format!("invalid direction: {shown}"))
                }
                "time" => {
                    RestError::bad("INVALID_TIMESTAMP", format!("invalid timestamp: {shown}"))
                }
                _ => RestError::bad("INVALID_PATH", rejection.body_text()),
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
    code: &'static str,
) -> Result<Vec<(String, String)>, RestError> {
    let mut all: Vec<(String, String)> = Vec::new();
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if !known.contains(&&*name) {
            let shown: String = name.chars().take(40).collect();
            let message = format!(
                "unknown parameter `{shown}`: there are {}",
                known.join(", ")
            );
            return Err(RestError::bad(code, message));
        }
        if !lists.contains(&&*name) && all.iter().any(|(given, _)| *given == name) {
            let message = format!("the parameter `{name}` is given twice");
            return Err(RestError::bad(code, message));
        }
        all.push((name.into_owned(), value.into_owned()));
    }
    Ok(all)
}

/// No such place.
pub(crate) async fn nothing() -> RestError {
    let message = "there is nothing here: /docs shows what there is";
    RestError::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
}

/// Any word may stand where a chain's id does: whoever looks for a page there is told that there is none.
pub(crate) async fn wrong_method_of_chain(method: Method) -> RestError {
    match method {
        Method::GET | Method::HEAD => nothing().await,
        _ => wrong_method().await,
    }
}

/// A place, but not for this method.
pub(crate) async fn wrong_method() -> RestError {
    let message = "this place does not know that method: /docs shows which it does";
    RestError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "METHOD_NOT_ALLOWED",
        message,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;

    #[test]
    fn whoever_comes_at_a_bad_moment_is_told_to_come_again_and_not_to_ask_for_less() {
        let busy = RpcError::from(Fault::Busy);
        assert_eq!(busy.code, codes::LIMIT);
        let busy = RestError::from(busy);
        assert_eq!((busy.status.as_u16(), busy.code), (503, "BUSY"));
        let large = RestError::from(RpcError::new(codes::LIMIT, "query exceeds max results"));
        assert_eq!((large.status.as_u16(), large.code), (413, "TOO_LARGE"));
    }
}
