//! The admin listener: operations on a running node.
//!
//! It listens on the machine itself by default. Every request needs a token: the one that the node makes at its start,
//! which only its user can read, or the one of the settings. A request that changes something must be JSON by its
//! content type, which a web page cannot send without permission.

pub mod operation;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, to_bytes};
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

/// The one path that needs no token.
const PROOF: &str = "/admin/v1/proof";
const CHALLENGE_BYTES_MAX: usize = 128;

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

/// The tokens that are accepted.
#[derive(Clone)]
pub struct Tokens {
    /// That of this node, whose possession it proves.
    pub own: Arc<str>,
    /// That of the settings.
    pub set: Option<Arc<str>>,
}

/// What shows to another holder of a token that one has it too, without showing the token.
#[must_use]
pub fn proof(token: &str, challenge: &str) -> String {
    let key = blake3::derive_key("chronolith admin listener, proof", token.as_bytes());
    blake3::keyed_hash(&key, challenge.as_bytes()).to_string()
}

#[derive(Clone)]
struct Context {
    operator: Arc<dyn Operator>,
    tokens: Tokens,
    /// Every route, for the answer to a path that is none of them.
    routes: Arc<str>,
}

/// A method and a path below `/admin/v1/`.
struct Route {
    method: Method,
    path: &'static str,
    handler: MethodRouter<Context>,
}

/// `/admin/v1/…`. Every request needs a token, except the one for a proof.
pub fn admin_router(operator: Arc<dyn Operator>, tokens: Tokens) -> Router {
    let routes = routes();
    let context = Context {
        operator,
        tokens,
        routes: describe(&routes).into(),
    };
    routes
        .into_iter()
        .fold(Router::new(), |router, route| {
            router.route(&format!("/admin/v1/{}", route.path), route.handler)
        })
        .route(PROOF, get(prove))
        .route("/admin/v1/{name}", post(unknown))
        .route("/admin/v1/{group}/{name}", any(unknown))
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(context.clone(), authorize))
        .layer(panics::catch_panics())
        .with_state(context)
}

/// Every route. Those that only read are requested with GET.
#[rustfmt::skip]
fn routes() -> Vec<Route> {
    use {ChainOperation as Chain, ProjectionOperation as Projection};
    let chain = Operation::Chain;
    vec![
        read("state", get(|State(context): State<Context>| async move { json(&context.operator.state()) })),
        read("jobs", get(|State(context): State<Context>| async move { json(&context.operator.jobs()) })),
        chain_post("backfill", Operation::Backfill),
        chain_post("resume", move |body| chain(Chain::Resume(body))),
        chain_post("rewind", move |body| chain(Chain::Rewind(body))),
        chain_post("prune", move |body| chain(Chain::Prune(body))),
        chain_post("gc", move |body| chain(Chain::Gc(body))),
        chain_post("range-retry", move |body| chain(Chain::RetryRange(body))),
        projection_get("db/status", Projection::Status),
        projection_get("projection/state", Projection::Status),
        projection_post("projection/resume", Projection::Resume),
        projection_post("projection/replay", Projection::Replay),
        projection_get("jobs/list", Projection::Jobs),
        projection_get("jobs/explain", Projection::Explain),
        projection_post("jobs/retry", Projection::Retry),
        projection_post("jobs/audit", Projection::Audit),
        projection_get("locks/list", Projection::Locks),
        projection_post("locks/release", Projection::Release),
        projection_post("partitions/create", Projection::CreatePartitions),
        projection_post("partitions/prune", Projection::PrunePartitions),
        projection_get("versions/list", Projection::Versions),
        projection_post("versions/add", Projection::AddVersion),
        projection_post("versions/remove", Projection::RemoveVersion),
    ]
}

fn describe(routes: &[Route]) -> String {
    let paths = |method: Method| {
        let paths = routes.iter().filter(|route| route.method == method);
        paths.map(|route| route.path).collect::<Vec<_>>().join(", ")
    };
    let (read, write) = (paths(Method::GET), paths(Method::POST));
    format!("below /admin/v1/ there are GET {read}; POST {write}")
}

fn read(path: &'static str, handler: MethodRouter<Context>) -> Route {
    Route {
        method: Method::GET,
        path,
        handler,
    }
}

fn write(path: &'static str, handler: MethodRouter<Context>) -> Route {
    Route {
        method: Method::POST,
        ..read(path, handler)
    }
}

fn chain_post<T: DeserializeOwned + 'static>(
    path: &'static str,
    operation: impl Fn(T) -> Operation + Copy + Send + Sync + 'static,
) -> Route {
    let handler = move |State(context): State<Context>, request: Request| async move {
        let params = serde_json::from_slice(&body(request).await?).map_err(bad_request)?;
        execute(&context, operation(params)).await
    };
    write(path, post(handler))
}

fn projection_post<T: DeserializeOwned + 'static>(
    path: &'static str,
    operation: fn(T) -> ProjectionOperation,
) -> Route {
    let handler = move |State(context): State<Context>, request: Request| async move {
        let value: Value = serde_json::from_slice(&body(request).await?).map_err(bad_request)?;
        let params = serde_json::from_value(value).map_err(bad_request)?;
        execute(&context, Operation::Projection(operation(params))).await
    };
    let refuse = async |request: Request| method_not_allowed(&request, "POST");
    write(path, post(handler).fallback(refuse))
}

fn projection_get<T: DeserializeOwned + 'static>(
    path: &'static str,
    operation: fn(T) -> ProjectionOperation,
) -> Route {
    let handler = move |State(context): State<Context>, RawQuery(query): RawQuery| async move {
        let value = query_object(query.as_deref()).map_err(bad_request)?;
        let params = serde_json::from_value(value).map_err(bad_request)?;
        execute(&context, Operation::Projection(operation(params))).await
    };
    let refuse = async |request: Request| method_not_allowed(&request, "GET");
    read(path, get(handler).fallback(refuse))
}

async fn execute(context: &Context, operation: Operation) -> Result<Response, ApiError> {
    let done = context.operator.execute(operation).await?;
    Ok(json(&done))
}

/// The body of a request that changes something.
async fn body(request: Request) -> Result<Bytes, ApiError> {
    check_json(request.headers())?;
    let body = to_bytes(request.into_body(), BODY_BYTES_MAX).await;
    let message = "the body is incomplete or too long";
    body.map_err(|_| error(ErrorCode::TooLarge, message))
}

fn check_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.to_str());
    if matches!(kind, Some(Ok(kind)) if kind.starts_with("application/json")) {
        return Ok(());
    }
    let message = "send the body as Content-Type: application/json";
    Err(error(ErrorCode::NotJson, message))
}

/// A query string as an object of texts. A parameter that is given twice is an error: one of the values
/// would be ignored.
fn query_object(query: Option<&str>) -> Result<Value, String> {
    let mut all = Map::new();
    for (name, value) in form_urlencoded::parse(query.unwrap_or("").as_bytes()) {
        let given = all.insert(name.to_string(), Value::String(value.into_owned()));
        if given.is_some() {
            return Err(format!("the parameter `{name}` is given twice"));
        }
    }
    Ok(Value::Object(all))
}

fn method_not_allowed(request: &Request, allowed: &str) -> ApiError {
    let checked = if request.method() == Method::GET {
        let query = query_object(request.uri().query());
        query.map(|_| ()).map_err(bad_request)
    } else {
        check_json(request.headers())
    };
    let message = format!("request this with {allowed}");
    checked
        .err()
        .unwrap_or_else(|| error(ErrorCode::MethodNotAllowed, message))
}

/// A path of the admin API that is not an operation.
async fn unknown(State(context): State<Context>, request: Request) -> ApiError {
    if request.method() != Method::GET
        && let Err(error) = check_json(request.headers())
    {
        return error;
    }
    not_found(State(context)).await
}

async fn not_found(State(context): State<Context>) -> ApiError {
    error(ErrorCode::NotFound, &*context.routes)
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

/// Proves that this is the node with its token.
async fn prove(
    State(context): State<Context>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let query = query_object(query.as_deref()).map_err(bad_request)?;
    let challenge = query.get("challenge").and_then(Value::as_str);
    let challenge = challenge.filter(|text| (1..=CHALLENGE_BYTES_MAX).contains(&text.len()));
    let message = "send a challenge of at most 128 bytes";
    let challenge = challenge.ok_or_else(|| bad_request(message))?;
    let proof = proof(&context.tokens.own, challenge);
    Ok(json(&serde_json::json!({ "proof": proof })))
}

/// Refuses a request without a token.
async fn authorize(State(context): State<Context>, request: Request, next: Next) -> Response {
    let authorization = request.headers().get(header::AUTHORIZATION);
    let given = authorization.and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let Tokens { own, set } = &context.tokens;
    let accepted = [Some(own), set.as_ref()];
    let is_token = |given: &[u8]| {
        // Both are compared in any case.
        let same =
            accepted.map(|token| token.is_some_and(|token| is_same(given, token.as_bytes())));
        same.contains(&true)
    };
    if request.uri().path() == PROOF || given.is_some_and(is_token) {
        return next.run(request).await;
    }
    let message = "send a token as Authorization: Bearer …, that of adminToken or of the file admin-token in the data directory";
    error(ErrorCode::Unauthorized, message).into_response()
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

    fn tokens() -> Tokens {
        Tokens {
            own: "own".into(),
            set: Some("set".into()),
        }
    }

    /// Every program and container of the machine used to be an operator.
    #[tokio::test]
    async fn no_request_is_an_operators_without_a_token() {
        for (path, token, status) in [
            ("state", "", 401),
            ("state", "authorization: Bearer \r\n", 401),
            ("state", "authorization: Bearer ow\r\n", 401),
            ("state", "authorization: Bearer own\r\n", 200),
            ("state", "authorization: Bearer set\r\n", 200),
            ("state", "authorization: Basic own\r\n", 401),
            ("proof", "", 400),
            ("proof?challenge=abc", "", 200),
            ("nothing", "", 401),
        ] {
            let request = format!(
                "GET /admin/v1/{path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{token}\r\n"
            );
            let answer = send(admin_router(Arc::new(Echo), tokens()), &request).await;
            let head = format!("HTTP/1.1 {status}");
            assert!(answer.starts_with(&head), "{path} {token}: {answer}");
            if path.contains("abc") {
                assert!(answer.contains(&proof("own", "abc")), "{answer}");
            }
        }
        assert_ne!(proof("own", "abc"), proof("own", "abd"));
        assert_ne!(proof("own", "abc"), proof("set", "abc"));
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

    async fn request(method: &Method, path: &str, body: &str) -> String {
        let request = format!(
            "{method} /admin/v1/{path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\
             authorization: Bearer own\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        send(admin_router(Arc::new(Echo), tokens()), &request).await
    }

    /// The public listener allows pages of other origins; this one allows none, not even one with the token.
    #[tokio::test]
    async fn a_preflight_of_a_browser_is_refused() {
        let preflight = "OPTIONS /admin/v1/rewind HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
            Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,content-type\r\n\
            Origin: https://dapp.example\r\n\r\n";
        let answer = send(admin_router(Arc::new(Echo), tokens()), preflight).await;
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
        assert!(!answer.contains("access-control-"), "{answer}");
    }

    #[tokio::test]
    async fn paths_are_named_as_commands() {
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
            (Method::GET, "jobs/retry", "", 405, "request this with POST"),
            (
                Method::POST,
                "locks/list",
                "{}",
                405,
                "request this with GET",
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
            let answer = request(&method, path, body).await;
            let head = format!("HTTP/1.1 {status}");
            assert!(answer.starts_with(&head), "{method} {path}: {answer}");
            assert!(answer.contains(message), "{method} {path}: {answer}");
        }
    }

    #[test]
    fn a_query_has_each_parameter_once() {
        use serde_json::json;
        assert_eq!(query_object(None), Ok(json!({})));
        assert_eq!(
            query_object(Some("chain=a%20b&id=1")),
            Ok(json!({ "chain": "a b", "id": "1" }))
        );
        assert!(query_object(Some("chain=a&chain=b")).is_err());
    }
}
