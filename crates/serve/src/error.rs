//! Why a request fails, on every listener: one type, rendered as JSON-RPC and as REST.
//!
//! [`Fault`] is the cause; here it gets a code, a status and a message for clients.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use chronolith_archive::{Budget, Error as ArchiveError};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::fault::{Fault, Retry};

/// Characters of a message.
const MESSAGE_MAX: usize = 400;
/// Characters of a request that a message quotes.
const EXCERPT_MAX: usize = 40;

/// The kind of failure that a client sees. JSON-RPC has a number for each, REST a status and a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorCode {
    // The request cannot be parsed or is invalid.
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    InvalidDirection,
    InvalidTimestamp,
    InvalidParameter,
    InvalidPath,
    InvalidBody,
    TooManyItems,
    TooLarge,
    BodyTimeout,
    MethodNotAllowed,

    // It does not exist, or not here.
    NotFound,
    ChainNotFound,
    BlockNotFound,
    NotCovered,
    /// Around a time; a later backfill may change that.
    TimeNotCovered,
    /// The client is on another fork.
    Conflict,

    // The same request may succeed later.
    NotReady,
    NotIndexedYet,
    Busy,
    Timeout,
    DatabaseUnavailable,
    Internal,

    // Only the admin listener has these.
    BadRequest,
    Unauthorized,
    Forbidden,
    NotJson,
    UnknownChain,
    BadRange,
    JobRunning,
    Stopping,
    NoReason,
    Refused,
    NoDatabase,
    Schema,
    Unavailable,
    Failed,
}

impl ErrorCode {
    /// The number of JSON-RPC.
    fn rpc(self) -> i64 {
        match self {
            Self::Parse => -32_700,
            Self::InvalidRequest => -32_600,
            Self::MethodNotFound => -32_601,
            Self::InvalidParams => -32_602,
            Self::ChainNotFound | Self::NotReady | Self::NotIndexedYet => -32_000,
            Self::TooLarge | Self::Busy => -32_005,
            Self::Conflict => -32_009,
            // A tag without a block.
            Self::BlockNotFound => -39_001,
            // As the specification of `eth_getLogs` has it for pruned blocks.
            Self::NotCovered | Self::TimeNotCovered => 4_444,
            _ => -32_603,
        }
    }

    /// Status and word of REST.
    fn rest(self) -> (StatusCode, &'static str) {
        match self {
            Self::InvalidParams => (StatusCode::BAD_REQUEST, "INVALID_FILTER"),
            Self::InvalidDirection => (StatusCode::BAD_REQUEST, "INVALID_DIRECTION"),
            Self::InvalidTimestamp => (StatusCode::BAD_REQUEST, "INVALID_TIMESTAMP"),
            Self::InvalidParameter => (StatusCode::BAD_REQUEST, "INVALID_PARAMETER"),
            Self::InvalidPath => (StatusCode::BAD_REQUEST, "INVALID_PATH"),
            Self::InvalidBody => (StatusCode::BAD_REQUEST, "INVALID_BODY"),
            Self::TooManyItems => (StatusCode::BAD_REQUEST, "TOO_MANY_ITEMS"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE"),
            Self::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, "TIMEOUT"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
            Self::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            Self::ChainNotFound => (StatusCode::NOT_FOUND, "CHAIN_NOT_FOUND"),
            Self::BlockNotFound => (StatusCode::NOT_FOUND, "BLOCK_NOT_FOUND"),
            Self::NotCovered => (StatusCode::NOT_FOUND, "NOT_COVERED"),
            Self::TimeNotCovered => (StatusCode::CONFLICT, "NOT_COVERED"),
            Self::Conflict => (StatusCode::CONFLICT, "CURSOR_CONFLICT"),
            Self::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "NOT_READY"),
            Self::NotIndexedYet => (StatusCode::CONFLICT, "NOT_INDEXED_YET"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "BUSY"),
            Self::Timeout => (StatusCode::SERVICE_UNAVAILABLE, "TIMEOUT"),
            Self::DatabaseUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "DATABASE_UNAVAILABLE"),
            Self::Parse | Self::InvalidRequest | Self::MethodNotFound | Self::Internal => {
                (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR")
            }
            Self::BadRequest => (StatusCode::BAD_REQUEST, "BAD_REQUEST"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "UNAUTHORIZED"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "FORBIDDEN"),
            Self::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "NOT_JSON"),
            Self::UnknownChain => (StatusCode::CONFLICT, "UNKNOWN_CHAIN"),
            Self::BadRange => (StatusCode::CONFLICT, "BAD_RANGE"),
            Self::JobRunning => (StatusCode::CONFLICT, "BUSY"),
            Self::Stopping => (StatusCode::CONFLICT, "STOPPING"),
            Self::NoReason => (StatusCode::CONFLICT, "INVALID"),
            Self::Refused => (StatusCode::CONFLICT, "REFUSED"),
            Self::NoDatabase => (StatusCode::CONFLICT, "NO_DATABASE"),
            Self::Schema => (StatusCode::CONFLICT, "SCHEMA"),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
            Self::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "FAILED"),
        }
    }

    /// Whether REST includes the details beside the message. JSON-RPC always does.
    fn shows_details(self) -> bool {
        matches!(
            self,
            Self::NotIndexedYet | Self::TimeNotCovered | Self::DatabaseUnavailable
        )
    }
}

/// The error that a client gets.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    /// For programs.
    pub(crate) details: Option<Value>,
    /// Whether the same request may succeed a moment later.
    pub(crate) retry: Retry,
}

/// Truncates a long message: it may quote the request.
pub(crate) fn brief(message: impl Into<String>) -> String {
    let mut message: String = message.into();
    if let Some((end, _)) = message.char_indices().nth(MESSAGE_MAX) {
        message.truncate(end);
        message.push('…');
    }
    message
}

/// The start of a text of the request, for a message.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_MAX).collect()
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::for_operator(code, brief(message))
    }

    /// With a message of any length, for operators.
    pub fn for_operator(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: None,
            retry: Retry::No,
        }
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidParams, message)
    }

    pub(crate) fn unknown_block() -> Self {
        Self::new(ErrorCode::NotReady, "Block not found.")
    }

    pub(crate) fn with(self, details: Value) -> Self {
        let details = Some(details);
        Self { details, ..self }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.code.rest().0
    }

    /// The error object of JSON-RPC.
    pub(crate) fn rpc_json(&self) -> Value {
        let mut error = json!({ "code": self.code.rpc(), "message": self.message });
        if let (Some(details), Some(fields)) = (&self.details, error.as_object_mut()) {
            fields.insert("data".to_owned(), details.clone());
        }
        error
    }

    /// The error object of REST.
    pub(crate) fn failure(&self) -> Failure {
        let mut error = match &self.details {
            Some(Value::Object(details)) if self.code.shows_details() => details.clone(),
            _ => Map::new(),
        };
        error.insert("code".to_owned(), self.code.rest().1.into());
        error.insert("message".to_owned(), self.message.clone().into());
        Failure(error)
    }
}

/// The error object of REST. The API description has its schema: what it holds depends on the code.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Failure(Map<String, Value>);

/// Why there is no answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct ErrorBody {
    error: Failure,
}

impl From<ApiError> for ErrorBody {
    fn from(error: ApiError) -> Self {
        let error = error.failure();
        Self { error }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status(), Json(ErrorBody::from(self))).into_response()
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        let (retry, message) = (fault.retry(), fault.to_string());
        let error = match fault {
            Fault::Archive(error) => error.into(),
            Fault::NotKept(_) => {
                let message = format!("pruned history unavailable: {message}");
                Self::new(ErrorCode::NotCovered, message)
            }
            Fault::Unsettled | Fault::Empty => Self::new(ErrorCode::NotReady, message),
            Fault::NotYet {
                indexed,
                source_head,
            } => Self::new(ErrorCode::NotIndexedYet, message)
                .with(json!({ "indexedUpTo": indexed, "sourceHead": source_head })),
            Fault::Busy => Self::new(ErrorCode::Busy, message),
        };
        Self { retry, ..error }
    }
}

impl From<ArchiveError> for ApiError {
    fn from(error: ArchiveError) -> Self {
        let message = error.to_string();
        match error {
            ArchiveError::NotCovered { missing, covered } => {
                let message = format!("pruned history unavailable: {message}");
                Self::new(ErrorCode::NotCovered, message).with(json!({
                    "missing": [missing.start, missing.end.saturating_sub(1)],
                    "covered": (!covered.is_empty()).then(|| [covered.start, covered.end - 1]),
                }))
            }
            ArchiveError::TooLarge {
                budget,
                limit,
                fits,
            } => {
                let budget = match budget {
                    Budget::Results => "max results",
                    Budget::Bytes => "max response bytes",
                    Budget::Candidates => "max candidates",
                    Budget::Deadline => "max milliseconds",
                };
                let hint = fits.map_or_else(
                    || "narrow the filter".to_owned(),
                    |fits| retry_hint(fits.start, fits.end.saturating_sub(1)),
                );
                let message = format!("query exceeds {budget} {limit}, {hint}");
                Self::new(ErrorCode::TooLarge, message)
            }
            ArchiveError::UnknownBlock { .. } => Self::unknown_block(),
            ArchiveError::Invalid(_) | ArchiveError::TooBroad { .. } => Self::params(message),
            ArchiveError::CursorConflict { cursor, archived } => {
                Self::new(ErrorCode::Conflict, message).with(json!({
                    "number": cursor.number,
                    "expected": cursor.hash.to_string(),
                    "hash": archived.to_string(),
                }))
            }
            error => {
                // The cause may name files, which clients must not see: it is logged.
                tracing::error!(error = %message, "cannot read the archive");
                let message = "the archive cannot be read right now: see the log";
                Self {
                    retry: Fault::Archive(error).retry(),
                    ..Self::new(ErrorCode::Internal, message)
                }
            }
        }
    }
}

/// A range that works, in two spellings: clients that split ranges by themselves parse one or the other.
pub(crate) fn retry_hint(from: u64, to: u64) -> String {
    format!(
        "retry with the range {from}-{to}, this block range should work: [0x{from:x}, 0x{to:x}]"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_is_not_reported_as_a_too_large_query() {
        let busy = ApiError::from(Fault::Busy);
        assert_eq!(busy.code.rpc(), -32_005);
        let (status, code) = busy.code.rest();
        assert_eq!((status.as_u16(), code), (503, "BUSY"));
        let large = ApiError::new(ErrorCode::TooLarge, "query exceeds max results");
        let (status, code) = large.code.rest();
        assert_eq!((status.as_u16(), code), (413, "TOO_LARGE"));
        assert_eq!(large.code.rpc(), -32_005);
    }
}
