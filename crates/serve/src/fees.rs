//! `/fees`: events of fee contracts from the database, as the fee document specifies and as lists with
//! filters.
//!
//! A request with the parameters of the fee document alone is answered exactly as it specifies. One that
//! names an integrator by address, or has any other filter, gets a list with a cursor and its coverage.
//! Errors have the body of the document in both: `{"error": "…"}`.

mod cursor;
mod dto;
mod legacy;
mod request;

pub(crate) use request::LIMIT_MAX;

use std::any::Any;
use std::future::Future;
use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Json, Router};
use chronolith_model::ErrorKind;
use chronolith_projection::{Database, Error};
use chronolith_projection_fees as fees;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use tokio::time::Instant;
use tower_http::catch_panic::CatchPanicLayer;

use crate::error::ApiError;
use crate::http::context::Context;
use crate::metrics;
use crate::seldom::Seldom;

/// How long an answer may take, with connecting to the database and all statements.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// After this many seconds the database may answer again, as in other errors that say so.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("5");

/// Failures of the database: each request has one while it is away.
static FAILURES: Seldom = Seldom::new();

/// The error of a request for fees.
#[derive(Clone, PartialEq, Eq, Debug)]
struct FeesError {
    status: StatusCode,
    message: String,
}

impl FeesError {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { status, message }
    }

    fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// The document's message for any failure of the server.
    fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error")
    }

    fn timeout() -> Self {
        let message = "the database does not answer in time: retry, or request less";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

/// Why there are no fees, in the form of the fee document.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeesError")]
struct ErrorBody {
    /// Words for people.
    error: String,
}

impl IntoResponse for FeesError {
    /// On either listener: that of the fee document has no layer that adds headers.
    fn into_response(self) -> Response {
        let (status, error) = (self.status, self.message);
        let mut response = (status, Json(ErrorBody { error })).into_response();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

impl From<ApiError> for FeesError {
    fn from(error: ApiError) -> Self {
        Self::new(error.status(), error.message)
    }
}

/// Errors of the database are logged: they may name what clients must not see.
impl From<Error> for FeesError {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Invalid => Self::bad(error.to_string()),
            ErrorKind::Unavailable => {
                if let Some(unlogged) = FAILURES.due(Instant::now()) {
                    tracing::warn!(%error, unlogged, "cannot read fees");
                }
                Self::timeout()
            }
            _ => {
                if let Some(unlogged) = FAILURES.due(Instant::now()) {
                    tracing::error!(%error, unlogged, "cannot read fees");
                }
                Self::internal()
            }
        }
    }
}

/// The router of the fee document: `/` and `/fees`, and nothing else.
pub fn fees_router(database: Option<Database>) -> Router {
    let fees = |State(database): State<Option<Database>>, RawQuery(query): RawQuery| async move {
        let database = require(database.as_ref())?;
        legacy::answer(database, &request::pairs(query.as_deref())).await
    };
    Router::new()
        .route("/", get(|| async { "Api Running" }))
        .route("/fees", get(fees))
        .with_state(database)
        .fallback(not_found)
        .method_not_allowed_fallback(not_found)
        .layer(catch_panics())
}

/// Adds the schemas of the answers.
pub(crate) fn describe(to: &mut SchemaGenerator) {
    to.subschema_for::<legacy::Page>();
    to.subschema_for::<dto::Event>();
    to.subschema_for::<dto::Total>();
    to.subschema_for::<dto::Coverage>();
    to.subschema_for::<ErrorBody>();
}

/// The routes on the public listener.
pub(crate) fn routes() -> [(&'static str, MethodRouter<Context>); 2] {
    [
        ("/fees", route(get(get_fees))),
        ("/fees/totals", route(get(get_totals))),
    ]
}

fn route(answer: MethodRouter<Context>) -> MethodRouter<Context> {
    answer.fallback(method_not_allowed).layer(catch_panics())
}

async fn get_fees(
    State(context): State<Context>,
    RawQuery(query): RawQuery,
) -> Result<Response, FeesError> {
    let database = require(context.served.fees.as_ref())?;
    let pairs = request::pairs(query.as_deref());
    if !request::is_list(&pairs) {
        let page = legacy::answer(database, &pairs).await?;
        return Ok(page.into_response());
    }
    let request = request::parse(query.as_deref())?;
    let list = with_timeout(fees::list(database, &request)).await?;
    dto::respond(query.as_deref(), &request, &list, dto::event)
}

async fn get_totals(
    State(context): State<Context>,
    RawQuery(query): RawQuery,
) -> Result<Response, FeesError> {
    let database = require(context.served.fees.as_ref())?;
    let request = request::parse(query.as_deref())?;
    let list = with_timeout(fees::totals(database, &request)).await?;
    dto::respond(query.as_deref(), &request, &list, dto::total)
}

fn require(database: Option<&Database>) -> Result<&Database, FeesError> {
    let message = "no fees are served here: configure a database (PG_URL, or PG_READONLY_URL for reading) \
        and a chain with a projection of fees";
    database.ok_or_else(|| FeesError::new(StatusCode::NOT_FOUND, message))
}

async fn with_timeout<T>(
    read: impl Future<Output = chronolith_projection::Result<T>>,
) -> Result<T, FeesError> {
    match tokio::time::timeout(TIMEOUT, read).await {
        Ok(read) => Ok(read?),
        Err(_) => {
            if let Some(unlogged) = FAILURES.due(Instant::now()) {
                tracing::warn!(limit = ?TIMEOUT, unlogged, "reading fees timed out");
            }
            Err(FeesError::timeout())
        }
    }
}

async fn not_found() -> FeesError {
    FeesError::new(StatusCode::NOT_FOUND, "Not found")
}

async fn method_not_allowed() -> FeesError {
    let message = "method not allowed: /docs lists the methods of each path";
    FeesError::new(StatusCode::METHOD_NOT_ALLOWED, message)
}

/// A panic has the document's message too.
fn catch_panics() -> CatchPanicLayer<fn(Box<dyn Any + Send>) -> Response> {
    let panicked = |_: Box<dyn Any + Send>| {
        metrics::panicked();
        FeesError::internal().into_response()
    };
    CatchPanicLayer::custom(panicked as fn(_) -> _)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;
    use crate::fault::Fault;

    #[test]
    fn only_an_error_that_passes_says_when_to_retry() {
        for (error, status, seconds) in [
            (FeesError::timeout(), 503, Some("5")),
            (ApiError::from(Fault::Busy).into(), 503, Some("5")),
            (
                ApiError::new(ErrorCode::InvalidParams, "wrong").into(),
                400,
                None,
            ),
            (FeesError::internal(), 500, None),
            (FeesError::bad("wrong"), 400, None),
        ] {
            let response = error.into_response();
            assert_eq!(response.status().as_u16(), status);
            let given = response.headers().get(header::RETRY_AFTER);
            let given = given.map(|value| value.to_str().unwrap());
            assert_eq!(given, seconds, "{status}");
        }
    }
}
