//! Why a request fails, on every listener: one type, rendered as JSON-RPC and as REST.
//!
//! [`Fault`] is the cause; here it gets a code, a status, a message for people and details for programs. REST has
//! two forms: problem details ([`crate::problem`]), and an object with a code and a message on the routes whose
//! errors are fixed, and for operators.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chronolith_archive::{Budget, Error as ArchiveError};
use chronolith_model::BlockRange;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::fault::{Fault, Retry};

/// Characters of a message.
const MESSAGE_MAX: usize = 400;
/// Characters of a request that a message quotes.
const EXCERPT_MAX: usize = 40;
/// What nodes say where history is missing, pruned or not. Clients of JSON-RPC match it; nobody else gets it, because
/// it is seldom true.
const MISSING_HISTORY: &str = "pruned history unavailable";

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
    /// The body of the request.
    TooLarge,
    /// The answer, or the work for it.
    QueryTooLarge,
    BodyTimeout,
    MethodNotAllowed,

    // It does not exist, or not here.
    NotFound,
    ChainNotFound,
    BlockNotFound,
    TransactionNotFound,
    /// It may be in missing history: a later backfill may change that.
    NotCovered,
    /// The client is on another fork.
    Conflict,

    // The same request may succeed later.
    NotReady,
    NotIndexedYet,
    Busy,
    /// The caller used what its key allows.
    RateLimited,
    Timeout,
    DatabaseUnavailable,
    Internal,

    /// The credentials are missing or wrong.
    Unauthorized,

    // Only the admin listener has these.
    BadRequest,
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
    /// Those of the public listener, for the description of its answers.
    pub(crate) const ALL: [Self; 24] = [
        Self::InvalidParams,
        Self::InvalidDirection,
        Self::InvalidTimestamp,
        Self::InvalidParameter,
        Self::InvalidBody,
        Self::TooManyItems,
        Self::TooLarge,
        Self::QueryTooLarge,
        Self::BodyTimeout,
        Self::MethodNotAllowed,
        Self::NotFound,
        Self::ChainNotFound,
        Self::BlockNotFound,
        Self::TransactionNotFound,
        Self::NotCovered,
        Self::Conflict,
        Self::NotReady,
        Self::NotIndexedYet,
        Self::Busy,
        Self::RateLimited,
        Self::Timeout,
        Self::DatabaseUnavailable,
        Self::Internal,
        Self::Unauthorized,
    ];

    /// The number of JSON-RPC.
    pub(crate) fn rpc(self) -> i64 {
        match self {
            Self::Parse => -32_700,
            Self::InvalidRequest | Self::Unauthorized => -32_600,
            Self::MethodNotFound => -32_601,
            Self::InvalidParams => -32_602,
            Self::ChainNotFound | Self::NotReady | Self::NotIndexedYet => -32_000,
            Self::TooLarge | Self::QueryTooLarge | Self::Busy | Self::RateLimited => -32_005,
            Self::Conflict => -32_009,
            // A tag without a block.
            Self::BlockNotFound => -39_001,
            // As the specification of `eth_getLogs` has it for pruned blocks.
            Self::NotCovered => 4_444,
            _ => -32_603,
        }
    }

    /// Status and word of REST.
    pub(crate) fn rest(self) -> (StatusCode, &'static str) {
        match self {
            Self::InvalidParams => (StatusCode::BAD_REQUEST, "INVALID_FILTER"),
            Self::InvalidDirection => (StatusCode::BAD_REQUEST, "INVALID_DIRECTION"),
            Self::InvalidTimestamp => (StatusCode::BAD_REQUEST, "INVALID_TIMESTAMP"),
            Self::InvalidParameter => (StatusCode::BAD_REQUEST, "INVALID_PARAMETER"),
            Self::InvalidPath => (StatusCode::BAD_REQUEST, "INVALID_PATH"),
            Self::InvalidBody => (StatusCode::BAD_REQUEST, "INVALID_BODY"),
            Self::TooManyItems => (StatusCode::BAD_REQUEST, "TOO_MANY_ITEMS"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE"),
            // The request is small and well formed: neither 413 nor 400 says that less of it works.
            Self::QueryTooLarge => (StatusCode::UNPROCESSABLE_ENTITY, "TOO_LARGE"),
            Self::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, "TIMEOUT"),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED"),
            Self::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            Self::ChainNotFound => (StatusCode::NOT_FOUND, "CHAIN_NOT_FOUND"),
            Self::BlockNotFound => (StatusCode::NOT_FOUND, "BLOCK_NOT_FOUND"),
            Self::TransactionNotFound => (StatusCode::NOT_FOUND, "TRANSACTION_NOT_FOUND"),
            // Not 404: it is not known that there is no such thing.
            Self::NotCovered => (StatusCode::CONFLICT, "NOT_COVERED"),
            Self::Conflict => (StatusCode::CONFLICT, "CURSOR_CONFLICT"),
            Self::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "NOT_READY"),
            Self::NotIndexedYet => (StatusCode::CONFLICT, "NOT_INDEXED_YET"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "BUSY"),
            Self::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED"),
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

    /// Whether an object with a code and a message has the details beside them. The other forms always do.
    fn shows_details(self) -> bool {
        matches!(
            self,
            Self::NotIndexedYet | Self::NotCovered | Self::DatabaseUnavailable
        )
    }

    /// After how many seconds the same request may succeed, where time alone may change that.
    fn retry_after(self) -> Option<u16> {
        match self {
            Self::Busy => Some(1),
            Self::NotReady => Some(2),
            Self::Timeout | Self::DatabaseUnavailable | Self::Unavailable => Some(5),
            _ => None,
        }
    }
}

/// A limit of one answer, or of the work for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Limit {
    Results,
    ResponseBytes,
    Candidates,
    Milliseconds,
    BlockRange,
}

impl Limit {
    /// In a message, and in the details.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Results => ("results", "results"),
            Self::ResponseBytes => ("response bytes", "responseBytes"),
            Self::Candidates => ("candidates", "candidates"),
            Self::Milliseconds => ("milliseconds", "milliseconds"),
            Self::BlockRange => ("block range", "blockRange"),
        }
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

    /// A query that needs more of a budget than there is. The message has a range that works in two spellings:
    /// clients that split ranges by themselves parse one or the other.
    pub(crate) fn exceeds(budget: Limit, limit: u64, fits: Option<BlockRange>) -> Self {
        let fits = fits.map(inclusive);
        let hint = match fits {
            Some([from, to]) => format!(
                "retry with the range {from}-{to}, this block range should work: [0x{from:x}, 0x{to:x}]"
            ),
            None => "narrow the filter".to_owned(),
        };
        let (words, name) = budget.names();
        let message = format!("query exceeds max {words} {limit}, {hint}");
        Self::new(ErrorCode::QueryTooLarge, message).with(json!({
            "budget": name,
            "limit": limit,
            "retryRange": fits,
        }))
    }

    /// A request that ran into a limit, with a message of its own.
    pub(crate) fn over(budget: Limit, limit: u64, message: impl Into<String>) -> Self {
        let (_, name) = budget.names();
        let details = json!({ "budget": name, "limit": limit });
        Self::new(ErrorCode::QueryTooLarge, message).with(details)
    }

    /// The caller used what its key allows of this budget.
    pub(crate) fn rate_limited(message: String, budget: &str, seconds: u64) -> Self {
        let details = json!({ "budget": budget, "retryAfter": seconds });
        Self::new(ErrorCode::RateLimited, message).with(details)
    }

    /// After how many seconds the same request may succeed, where time alone may change that.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        let details = self.details.as_ref();
        let own = details.and_then(|details| details.get("retryAfter")?.as_u64());
        own.or(self.code.retry_after().map(u64::from))
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
        let message = match self.code {
            ErrorCode::NotCovered => format!("{MISSING_HISTORY}: {}", self.message),
            _ => self.message.clone(),
        };
        let mut error = json!({ "code": self.code.rpc(), "message": message });
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

/// An error as a code and a message. The API description has its schema: what it holds depends on the code.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Failure(pub(crate) Map<String, Value>);

/// Why there is no answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct ErrorBody {
    error: Failure,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = self.failure();
        let mut response = (self.status(), Json(ErrorBody { error })).into_response();
        if let Some(seconds) = self.retry_after() {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // The public listener renders it again, as problem details.
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        let (retry, message) = (fault.retry(), fault.to_string());
        let error = match fault {
            Fault::Archive(error) => error.into(),
            Fault::NotKept(dataset) => {
                Self::new(ErrorCode::NotCovered, message).with(json!({ "dataset": dataset.name() }))
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
                let message = not_archived(missing, covered);
                Self::new(ErrorCode::NotCovered, message).with(json!({
                    "missing": inclusive(missing),
                    "covered": (!covered.is_empty()).then(|| inclusive(covered)),
                }))
            }
            ArchiveError::TooLarge {
                budget,
                limit,
                fits,
            } => {
                let budget = match budget {
                    Budget::Results => Limit::Results,
                    Budget::Bytes => Limit::ResponseBytes,
                    Budget::Candidates => Limit::Candidates,
                    Budget::Deadline => Limit::Milliseconds,
                };
                Self::exceeds(budget, limit, fits)
            }
            ArchiveError::NoMemory => Fault::Busy.into(),
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

/// What is missing, and what is there beside it. Missing blocks may be archived without what a request needs, such as
/// logs of all addresses.
pub(crate) fn not_archived(missing: BlockRange, covered: BlockRange) -> String {
    let blocks = |range: BlockRange| match inclusive(range) {
        [first, last] if first == last => format!("block {first} is"),
        [first, last] => format!("blocks {first} to {last} are"),
    };
    let missing = blocks(missing);
    let there = if covered.is_empty() {
        String::new()
    } else {
        format!("; {}", blocks(covered))
    };
    format!("{missing} not archived here with all that this request needs{there}")
}

/// First and last block.
fn inclusive(range: BlockRange) -> [u64; 2] {
    [range.start, range.end.saturating_sub(1)]
}

#[cfg(test)]
mod tests {
    use chronolith_model::Dataset;

    use super::*;

    /// People used to read over REST and in the console that history was pruned where it was never archived.
    #[test]
    fn only_calls_say_what_nodes_say_of_missing_history() {
        let missing = |missing, covered| ArchiveError::NotCovered { missing, covered }.into();
        let range = BlockRange::new;
        let cases: [(ApiError, &str); 3] = [
            (
                missing(range(5, 10), range(10, 21)),
                "blocks 5 to 9 are not archived here with all that this request needs; blocks 10 to 20 are",
            ),
            (
                missing(range(5, 6), range(5, 5)),
                "block 5 is not archived here with all that this request needs",
            ),
            (
                Fault::NotKept(Dataset::Transactions).into(),
                "whole transactions are not kept for this chain: add `transactions` to its datasets",
            ),
        ];
        for (error, words) in cases {
            assert_eq!(error.failure().0["message"], words);
            let call = error.rpc_json();
            let expected = format!("pruned history unavailable: {words}");
            assert_eq!(call["message"], expected);
            assert_eq!(call["code"], 4_444);
        }
        let other = ApiError::params("limit: 0").rpc_json();
        assert_eq!(other["message"], "limit: 0");
    }

    #[test]
    fn a_busy_server_is_not_reported_as_a_too_large_query() {
        let busy = ApiError::from(Fault::Busy);
        assert_eq!(busy.code.rpc(), -32_005);
        let (status, code) = busy.code.rest();
        assert_eq!((status.as_u16(), code), (503, "BUSY"));
        let large = ApiError::exceeds(Limit::Results, 5, None);
        let (status, code) = large.code.rest();
        assert_eq!((status.as_u16(), code), (422, "TOO_LARGE"));
        assert_eq!(large.code.rpc(), -32_005);
    }

    /// Programs used to find the range that works in the message alone.
    #[test]
    fn a_limit_and_what_fits_are_data_too() {
        let fits = BlockRange::new(5, 91);
        let error = ArchiveError::TooLarge {
            budget: Budget::Bytes,
            limit: 64,
            fits: Some(fits),
        };
        let error = ApiError::from(error).rpc_json();
        let message = "query exceeds max response bytes 64, retry with the range 5-90, this block range should work: [0x5, 0x5a]";
        assert_eq!(error["message"], message);
        let data = json!({ "budget": "responseBytes", "limit": 64, "retryRange": [5, 90] });
        assert_eq!(error["data"], data);
    }

    #[test]
    fn every_answer_that_says_later_says_when() {
        for code in [
            ErrorCode::Busy,
            ErrorCode::NotReady,
            ErrorCode::Timeout,
            ErrorCode::DatabaseUnavailable,
            ErrorCode::Unavailable,
        ] {
            let response = ApiError::new(code, "later").into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            let seconds = response.headers().get(header::RETRY_AFTER).unwrap();
            let seconds: u64 = seconds.to_str().unwrap().parse().unwrap();
            assert!((1..60).contains(&seconds), "{code:?}");
        }
    }
}
