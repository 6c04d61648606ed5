//! The listener for acts: what an operator asks of a node that runs.
//!
//! It listens on the machine itself unless told otherwise, and then a token is needed. A request that
//! changes something must say that it is JSON, which no web page can do without being allowed to; and
//! without a token nothing is taken from a page that reaches this machine by a name of its own.

mod projections;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::panics;

use projections::NoAct;
pub use projections::{
    LockOf, OfChain, OfProjection, OneJob, PartitionsOf, ProjectionAct, Prune, ReplayRange,
    SomeJob, VersionOf,
};

/// Bytes of a request: nothing that can be asked for is longer.
const BODY_BYTES_MAX: usize = 64 << 10;

/// An answer that takes a while.
pub type Later<'a> = Pin<Box<dyn Future<Output = Result<Value, Refusal>> + Send + 'a>>;

/// Why an act was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub code: &'static str,
    /// What to do next, for people.
    pub message: String,
}

impl Refusal {
    /// Which status says the same as the word.
    fn status(&self) -> StatusCode {
        match self.code {
            "BAD_REQUEST" => StatusCode::BAD_REQUEST,
            "NOT_FOUND" => StatusCode::NOT_FOUND,
            "UNAVAILABLE" => StatusCode::SERVICE_UNAVAILABLE,
            "FAILED" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::CONFLICT,
        }
    }
}

/// What an operator may ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// Fetch what coverage lacks in a range.
    Backfill(Range),
    Resume(ResumeHow),
    /// Drop all blocks above one.
    Rewind(RewindTo),
    /// Let go of the oldest blocks.
    Prune(PruneBelow),
    Gc(Collect),
    /// Try the transition of a range again that failed.
    RetryRange(OneRange),
    Projection(ProjectionAct),
}

/// Blocks of a chain.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Name or id of the chain.
    #[serde(deserialize_with = "projections::some_name")]
    pub chain: String,
    /// First block.
    pub from: u64,
    /// Last block.
    pub to: u64,
}

/// Which chain, and why.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// Name or id of the chain.
    #[serde(deserialize_with = "projections::some_name")]
    pub chain: String,
    /// For those who look later; it is recorded.
    pub reason: String,
    /// Who wants it, for the record.
    #[serde(default)]
    pub by: Option<String>,
}

/// Which chain, why, and what becomes of what a rebuild of its state left undecided.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ResumeHow {
    /// Name or id of the chain.
    #[serde(deserialize_with = "projections::some_name")]
    pub chain: String,
    /// For those who look later; it is recorded.
    pub reason: String,
    /// Who wants it, for the record.
    #[serde(default)]
    pub by: Option<String>,
    /// Let garbage collection remove the undecided objects.
    #[serde(default)]
    pub drop_undecided: bool,
}

/// Up to where, and why.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PruneBelow {
    /// Name or id of the chain.
    #[serde(deserialize_with = "projections::some_name")]
    pub chain: String,
    /// The first block that stays.
    pub below: u64,
    /// For those who look later; it is recorded.
    pub reason: String,
    /// Who wants it, for the record.
    #[serde(default)]
    pub by: Option<String>,
}

/// Down to where, and why.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewindTo {
    /// Name or id of the chain.
    #[serde(deserialize_with = "projections::some_name")]
    pub chain: String,
    /// The last block that stays.
    pub to: u64,
    /// For those who look later; it is recorded.
    pub reason: String,
    /// Who wants it, for the record.
    #[serde(default)]
    pub by: Option<String>,
}

/// Which chain's garbage.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Collect {
    /// Name or id of the chain.
    #[serde(deserialize_with = "projections::some_name")]
    pub chain: String,
    /// Only show what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// A range of a chain's history, and why.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneRange {
    /// Name or id of the chain.
    #[serde(deserialize_with = "projections::some_name")]
    pub chain: String,
    pub id: u64,
    /// For those who look later; it is recorded.
    pub reason: String,
    /// Who wants it, for the record.
    #[serde(default)]
    pub by: Option<String>,
}

/// Whoever runs the chains.
pub trait Operator: Send + Sync {
    /// How everything is.
    fn state(&self) -> Value;
    /// Long acts, with how far they are.
    fn jobs(&self) -> Value;
    /// Does it, or begins it where it is long.
    fn act(&self, act: Act) -> Later<'_>;
}

#[derive(Clone)]
struct Context {
    operator: Arc<dyn Operator>,
    token: Option<Arc<str>>,
}

/// `/admin/v1/…`. With a token, every request needs it.
pub fn admin(operator: Arc<dyn Operator>, token: Option<&str>) -> Router {
    let context = Context {
        operator,
        token: token.map(Arc::from),
    };
    Router::new()
        .route("/admin/v1/state", get(state))
        .route("/admin/v1/jobs", get(jobs))
        .route("/admin/v1/{act}", post(act))
        .route("/admin/v1/{of}/{act}", any(projection))
        .fallback(nothing)
        .layer(middleware::from_fn_with_state(context.clone(), admitted))
        .layer(panics::caught())
        .with_state(context)
}

/// Lets nobody through without the token.
async fn admitted(State(context): State<Context>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    match &context.token {
        Some(token) if given.is_none_or(|given| !is_same(given, token.as_bytes())) => refused(
            StatusCode::UNAUTHORIZED,
            "UNAUTHORIZED",
            "send the token of adminToken as Authorization: Bearer …",
        ),
        None if !is_of_this_machine(request.headers()) => refused(
            StatusCode::FORBIDDEN,
            "FORBIDDEN",
            "a web page, or a name that is not this machine's: ask by address, or set adminToken",
        ),
        _ => next.run(request).await,
    }
}

/// Without a token whoever is on this machine is believed, but not a page in a browser there: that tells
/// where it is from, and a name of its own that leads here is neither an address nor `localhost`.
fn is_of_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).map(|host| host.to_str());
    let host = match host {
        None => return !headers.contains_key(header::ORIGIN),
        Some(Err(_)) => return false,
        Some(Ok(host)) => host,
    };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let is_named = name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok();
    is_named && !headers.contains_key(header::ORIGIN)
}

/// Takes equally long whatever is given, so that nobody learns the token from how long it took.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differing = given.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && differing == 0
}

async fn state(State(context): State<Context>) -> Response {
    answer(StatusCode::OK, &context.operator.state())
}

async fn jobs(State(context): State<Context>) -> Response {
    answer(StatusCode::OK, &context.operator.jobs())
}

async fn act(
    State(context): State<Context>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !is_json(&headers) {
        return not_json();
    }
    let act = match name.as_str() {
        "backfill" => read(&body).map(Act::Backfill),
        "resume" => read(&body).map(Act::Resume),
        "rewind" => read(&body).map(Act::Rewind),
        "prune" => read(&body).map(Act::Prune),
        "gc" => read(&body).map(Act::Gc),
        "range-retry" => read(&body).map(Act::RetryRange),
        _ => return nothing().await,
    };
    let act = match act {
        Ok(act) => act,
        Err(message) => return refused(StatusCode::BAD_REQUEST, "BAD_REQUEST", &message),
    };
    perform(&context, act).await
}

/// An act on projections; those that only look may be asked for with GET.
async fn projection(
    State(context): State<Context>,
    Path((of, act)): Path<(String, String)>,
    method: Method,
    request: Request,
) -> Response {
    let path = format!("{of}/{act}");
    let given = match method {
        Method::GET => projections::query(request.uri().query()),
        _ if !is_json(request.headers()) => return not_json(),
        _ => match to_bytes(request.into_body(), BODY_BYTES_MAX).await {
            Ok(body) => read(&body).map_err(NoAct::Bad),
            Err(_) => {
                let message = "the body did not come whole, or is too long";
                return refused(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", message);
            }
        },
    };
    match given.and_then(|given| projections::read(&method, &path, given)) {
        Ok(act) => perform(&context, Act::Projection(act)).await,
        Err(NoAct::Unknown) => nothing().await,
        Err(NoAct::Method(wanted)) => {
            let message = format!("ask for this with {wanted}");
            refused(
                StatusCode::METHOD_NOT_ALLOWED,
                "METHOD_NOT_ALLOWED",
                &message,
            )
        }
        Err(NoAct::Bad(message)) => refused(StatusCode::BAD_REQUEST, "BAD_REQUEST", &message),
    }
}

async fn perform(context: &Context, act: Act) -> Response {
    match context.operator.act(act).await {
        Ok(done) => answer(StatusCode::OK, &done),
        Err(refusal) => refused(refusal.status(), refusal.code, &refusal.message),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.starts_with("application/json")
}

fn not_json() -> Response {
    let message = "send the body as Content-Type: application/json";
    refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "NOT_JSON", message)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

async fn nothing() -> Response {
    let message = "there are GET /admin/v1/state and jobs, POST backfill, resume, rewind, gc and \
        range-retry; and of \
        projections, by the words of each command, GET db/status, projection/state, jobs/list, \
        jobs/explain, locks/list, versions/list, POST projection/resume, projection/replay, jobs/retry, \
        jobs/audit, locks/release, partitions/create, partitions/prune, versions/add, \
        versions/remove";
    refused(StatusCode::NOT_FOUND, "NOT_FOUND", message)
}

fn refused(status: StatusCode, code: &str, message: &str) -> Response {
    answer(
        status,
        &json!({ "error": { "code": code, "message": message } }),
    )
}

fn answer(status: StatusCode, value: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, value.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_compared_whole() {
        for (given, same) in [
            ("abc", true),
            ("abd", false),
            ("ab", false),
            ("abcd", false),
        ] {
            assert_eq!(is_same(given.as_bytes(), b"abc"), same, "{given}");
        }
        assert!(!is_same(b"", b"abc"));
    }

    #[test]
    fn a_page_in_a_browser_is_nobody_of_this_machine() {
        let asked = |pairs: &[(header::HeaderName, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                headers.insert(name, value.parse().unwrap());
            }
            is_of_this_machine(&headers)
        };
        for host in [
            "127.0.0.1:9465",
            "localhost:9465",
            "LOCALHOST",
            "[::1]:9465",
            "10.0.0.7",
        ] {
            assert!(asked(&[(header::HOST, host)]), "{host}");
            let origin = (header::ORIGIN, "http://evil.example");
            assert!(!asked(&[(header::HOST, host), origin]), "{host}");
        }
        for host in [
            "evil.example:9465",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
        ] {
            assert!(!asked(&[(header::HOST, host)]), "{host}");
        }
        assert!(asked(&[]));
    }
}
