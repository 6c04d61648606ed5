//! The admin listener: operations on a running node.
//!
//! It listens on the machine itself by default; any other address needs a token. A request that changes
//! something must be JSON by its content type, which a web page cannot send without permission; and
//! without a token no page that reaches this machine by a name of its own is served.

pub mod operation;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{ApiError, ErrorCode};
use crate::http::panics;
use operation::{ChainOperation, Operation, ProjectionOperation};

/// Bytes of a request: every operation is shorter.
const BODY_BYTES_MAX: usize = 64 << 10;

/// The result of an operation, later.
pub type OperationFuture<'a> = Pin<Box<dyn Future<Output = Result<Value, ApiError>> + Send + 'a>>;

/// The node that executes operations.
pub trait Operator: Send + Sync {
    /// The status of all chains.
    fn state(&self) -> Value;
    /// Long operations and their progress.
    fn jobs(&self) -> Value;
    /// Executes an operation, or starts it where it is long.
    fn execute(&self, operation: Operation) -> OperationFuture<'_>;
}

#[derive(Clone)]
struct Context {
    operator: Arc<dyn Operator>,
    token: Option<Arc<str>>,
}

/// `/admin/v1/…`. With a token, every request needs it.
pub fn admin_router(operator: Arc<dyn Operator>, token: Option<&str>) -> Router {
    let context = Context {
        operator,
        token: token.map(Arc::from),
    };
    let state = |State(context): State<Context>| async move { json(&context.operator.state()) };
    let jobs = |State(context): State<Context>| async move { json(&context.operator.jobs()) };
    operations()
        .into_iter()
        .fold(Router::new(), |router, (path, answer)| {
            router.route(&format!("/admin/v1/{path}"), answer)
        })
        .route("/admin/v1/state", get(state))
        .route("/admin/v1/jobs", get(jobs))
        .route("/admin/v1/{name}", post(unknown))
        .route("/admin/v1/{group}/{name}", any(unknown))
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(context.clone(), authorize))
        .layer(panics::catch_panics())
        .with_state(context)
}

/// Every operation and its path. Those that only read are requested with GET.
fn operations() -> [(&'static str, MethodRouter<Context>); 21] {
    use {ChainOperation as Chain, ProjectionOperation as Projection};
    let chain = Operation::Chain;
    [
        ("backfill", chain_post(Operation::Backfill)),
        ("resume", chain_post(move |body| chain(Chain::Resume(body)))),
        ("rewind", chain_post(move |body| chain(Chain::Rewind(body)))),
        ("prune", chain_post(move |body| chain(Chain::Prune(body)))),
        ("gc", chain_post(move |body| chain(Chain::Gc(body)))),
        (
            "range-retry",
            chain_post(move |body| chain(Chain::RetryRange(body))),
        ),
        ("db/status", projection_get(Projection::Status)),
        ("projection/state", projection_get(Projection::Status)),
        ("projection/resume", projection_post(Projection::Resume)),
        ("projection/replay", projection_post(Projection::Replay)),
        ("jobs/list", projection_get(Projection::Jobs)),
        ("jobs/explain", projection_get(Projection::Explain)),
        ("jobs/retry", projection_post(Projection::Retry)),
        ("jobs/audit", projection_post(Projection::Audit)),
        ("locks/list", projection_get(Projection::Locks)),
        ("locks/release", projection_post(Projection::Release)),
        (
            "partitions/create",
            projection_post(Projection::CreatePartitions),
        ),
        (
            "partitions/prune",
            projection_post(Projection::PrunePartitions),
        ),
        ("versions/list", projection_get(Projection::Versions)),
        ("versions/add", projection_post(Projection::AddVersion)),
        (
            "versions/remove",
            projection_post(Projection::RemoveVersion),
        ),
    ]
}

fn chain_post<T: DeserializeOwned + 'static>(
    operation: impl Fn(T) -> Operation + Copy + Send + Sync + 'static,
) -> MethodRouter<Context> {
    post(
        move |State(context): State<Context>, request: Request| async move {
            let body = body(request).await?;
            let read = serde_json::from_slice(&body).map_err(bad_request)?;
            execute(&context, operation(read)).await
        },
    )
}

fn projection_post<T: DeserializeOwned + 'static>(
    operation: fn(T) -> ProjectionOperation,
) -> MethodRouter<Context> {
    let answer = move |State(context): State<Context>, request: Request| async move {
        let body = body(request).await?;
        let value: Value = serde_json::from_slice(&body).map_err(bad_request)?;
        let read = serde_json::from_value(value).map_err(bad_request)?;
        execute(&context, Operation::Projection(operation(read))).await
    };
    post(answer).fallback(async |method: Method, request: Request| {
        method_not_allowed(&method, &request, "POST")
    })
}

fn projection_get<T: DeserializeOwned + 'static>(
    operation: fn(T) -> ProjectionOperation,
) -> MethodRouter<Context> {
    let answer = move |State(context): State<Context>, RawQuery(query): RawQuery| async move {
        let read = query_object(query.as_deref()).map_err(bad_request)?;
        let read = serde_json::from_value(read).map_err(bad_request)?;
        execute(&context, Operation::Projection(operation(read))).await
    };
    get(answer).fallback(async |method: Method, request: Request| {
        method_not_allowed(&method, &request, "GET")
    })
}

async fn execute(context: &Context, operation: Operation) -> Result<Response, ApiError> {
    let done = context.operator.execute(operation).await?;
    Ok(json(&done))
}

/// The body of a request that changes something.
async fn body(request: Request) -> Result<axum::body::Bytes, ApiError> {
    check_json(request.headers())?;
    let body = to_bytes(request.into_body(), BODY_BYTES_MAX).await;
    body.map_err(|_| {
        let message = "the body did not come whole, or is too long";
        error(ErrorCode::TooLarge, message)
    })
}

fn check_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match kind.starts_with("application/json") {
        true => Ok(()),
        false => {
            let message = "send the body as Content-Type: application/json";
            Err(error(ErrorCode::NotJson, message))
        }
    }
}

/// A query as an object of texts; a second value of one name would be ignored.
fn query_object(text: Option<&str>) -> Result<Value, String> {
    let mut all = Map::new();
    for (name, value) in form_urlencoded::parse(text.unwrap_or_default().as_bytes()) {
        let given = all.insert(name.to_string(), Value::String(value.into_owned()));
        if given.is_some() {
            return Err(format!("the parameter `{name}` is given twice"));
        }
    }
    Ok(Value::Object(all))
}

fn method_not_allowed(method: &Method, request: &Request, wanted: &str) -> ApiError {
    let checked = match *method {
        Method::GET => query_object(request.uri().query())
            .map(|_| ())
            .map_err(bad_request),
        _ => check_json(request.headers()),
    };
    let message = format!("ask for this with {wanted}");
    checked
        .err()
        .unwrap_or_else(|| error(ErrorCode::MethodNotAllowed, message))
}

/// No such operation.
async fn unknown(request: Request) -> ApiError {
    match *request.method() {
        Method::GET => {}
        _ => {
            if let Err(error) = check_json(request.headers()) {
                return error;
            }
        }
    }
    not_found().await
}

async fn not_found() -> ApiError {
    let message = "there are GET /admin/v1/state and jobs, POST backfill, resume, rewind, gc and \
        range-retry; and of \
        projections, by the words of each command, GET db/status, projection/state, jobs/list, \
        jobs/explain, locks/list, versions/list, POST projection/resume, projection/replay, jobs/retry, \
        jobs/audit, locks/release, partitions/create, partitions/prune, versions/add, \
        versions/remove";
    error(ErrorCode::NotFound, message)
}

fn bad_request(why: impl ToString) -> ApiError {
    error(ErrorCode::BadRequest, why.to_string())
}

fn error(code: ErrorCode, message: impl Into<String>) -> ApiError {
    ApiError::for_operator(code, message)
}

fn json(value: &Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, value.to_string()).into_response()
}

/// Refuses requests without the token.
async fn authorize(State(context): State<Context>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    match &context.token {
        Some(token) if given.is_none_or(|given| !is_same(given, token.as_bytes())) => error(
            ErrorCode::Unauthorized,
            "send the token of adminToken as Authorization: Bearer …",
        )
        .into_response(),
        None if !is_of_this_machine(request.headers()) => error(
            ErrorCode::Forbidden,
            "a web page, or a name that is not this machine's: ask by address, or set adminToken",
        )
        .into_response(),
        _ => next.run(request).await,
    }
}

/// Without a token every local client is trusted, but not a page in a local browser: that sends its
/// origin, and a name of its own that resolves here is neither an address nor `localhost`.
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

/// Takes the same time for every input, so that timing does not reveal the token.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differing = given.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::test_client::send;

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

    /// Repeats the operation that was read.
    struct Echo;

    impl Operator for Echo {
        fn state(&self) -> Value {
            Value::Null
        }

        fn jobs(&self) -> Value {
            Value::Null
        }

        fn execute(&self, operation: Operation) -> OperationFuture<'_> {
            Box::pin(async move { Ok(format!("{operation:?}").into()) })
        }
    }

    async fn ask(method: &Method, path: &str, body: &str) -> String {
        let request = format!(
            "{method} /admin/v1/{path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        send(admin_router(Arc::new(Echo), None), &request).await
    }

    #[tokio::test]
    async fn paths_are_the_words_of_commands() {
        for (method, path, body, status, message) in [
            (
                Method::GET,
                "jobs/list?chain=31337",
                "",
                200,
                r#"Jobs(OfChain { chain: Some(\"31337\") })"#,
            ),
            (
                Method::POST,
                "jobs/audit",
                r#"{"chain":31337}"#,
                200,
                r#"Audit(OfChain { chain: Some(\"31337\") })"#,
            ),
            (
                Method::GET,
                "jobs/explain?id=17",
                "",
                200,
                "Explain(OneJob { id: 17 })",
            ),
            (
                Method::POST,
                "jobs/retry",
                "{}",
                200,
                "Retry(SomeJob { id: None })",
            ),
            (Method::GET, "jobs/retry", "", 405, "ask for this with POST"),
            (
                Method::POST,
                "locks/list",
                "{}",
                405,
                "ask for this with GET",
            ),
            (Method::POST, "locks/break", "{}", 404, "NOT_FOUND"),
            (Method::GET, "jobs/explain?id=x", "", 400, "number of a job"),
            (Method::GET, "jobs/explain", "", 400, "missing field"),
            (Method::GET, "locks/list?chian=x", "", 400, "unknown field"),
            (
                Method::POST,
                "jobs/audit",
                r#"{"chain":[1]}"#,
                400,
                "its name or its id",
            ),
            (Method::POST, "jobs/audit", r#""x""#, 400, "invalid type"),
        ] {
            let answer = ask(&method, path, body).await;
            let head = format!("HTTP/1.1 {status}");
            assert!(answer.starts_with(&head), "{method} {path}: {answer}");
            assert!(answer.contains(message), "{method} {path}: {answer}");
        }
    }

    #[test]
    fn a_query_says_everything_once() {
        use serde_json::json;
        assert_eq!(query_object(None), Ok(json!({})));
        assert_eq!(
            query_object(Some("chain=a%20b&id=1")),
            Ok(json!({ "chain": "a b", "id": "1" }))
        );
        assert!(query_object(Some("chain=a&chain=b")).is_err());
    }
}
