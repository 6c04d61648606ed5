//! Keys, limits and the log, on a router of a few routes.

use std::sync::Mutex;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::*;
use crate::health::{ChainHealth, Probe};
use crate::http::limits::Limits;
use crate::http::test_client::send;
use crate::http::{Clock, HeavyWork, public_router};
use crate::rpc;

const KEY: &str = "chr_0123456789abcdef0123456789abcdef0123456789a";

struct NoChains;

impl Probe for NoChains {
    fn chains(&self) -> Vec<ChainHealth> {
        Vec::new()
    }
}

fn keys(required: bool, limits: KeyLimits) -> ApiKeys {
    ApiKeys {
        required,
        anonymous: KeyLimits::default(),
        keys: vec![ApiKey {
            name: "acme".to_owned(),
            hash: KeyHash::of(KEY),
            limits,
        }],
    }
}

/// The public router behind these keys.
fn guarded(keys: &ApiKeys, log: Option<AccessLog>) -> Router {
    let served = ServedChains::new(Vec::new());
    let (clock, heavy): (Clock, _) = (Arc::new(|| 0), HeavyWork::here());
    let access = Access::new(Some(keys), log, &served).unwrap();
    let router = public_router(served, Arc::new(NoChains), Limits::default(), clock, heavy);
    access.guard(router)
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

async fn ask(router: &Router, request: (&str, &str), headers: &[(&str, &str)]) -> Answer {
    ask_with(router, request, headers, "").await
}

async fn ask_with(
    router: &Router,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    use hyper::service::Service as _;
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let service = hyper_util::service::TowerToHyperService::new(router.clone());
    let (parts, body) = service.call(request).await.unwrap().into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    Answer {
        status: parts.status,
        headers: parts.headers,
        body: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

#[test]
fn a_hash_is_written_as_it_is_read() {
    let hash = KeyHash::of("abc");
    // As `printf abc | sha256sum` has it.
    let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hash.to_string(), text);
    assert_eq!(text.parse(), Ok(hash));
    for wrong in [
        "",
        "ba78",
        "sha256:",
        "sha256:zz",
        &text[..70],
        &format!("{text}00"),
    ] {
        assert!(wrong.parse::<KeyHash>().is_err(), "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_opens_what_is_closed_without_one() {
    let router = guarded(&keys(true, KeyLimits::default()), None);
    let bearer = format!("Bearer {KEY}");
    let (lower, basic) = (format!("bearer {KEY}"), "Basic dXNlcjpwYXNz");
    let wrong = "Bearer chr_wrong";
    for (headers, status) in [
        (vec![], 401),
        (vec![("authorization", basic)], 401),
        (vec![("authorization", wrong)], 401),
        (vec![("x-api-key", "")], 401),
        // The hash of a key is no key.
        (vec![("x-api-key", "sha256:ba7816bf")], 401),
        (vec![("authorization", &*bearer)], 200),
        (vec![("authorization", &*lower)], 200),
        (vec![("x-api-key", KEY)], 200),
        // Those of a proxy beside it.
        (vec![("authorization", basic), ("x-api-key", KEY)], 200),
    ] {
        let answer = ask(&router, ("GET", "/v1/chains"), &headers).await;
        assert_eq!(answer.status, status, "{headers:?}");
        assert_eq!(answer.header("www-authenticate") == "Bearer", status == 401);
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        assert!(!answer.body.contains("chr_"), "{}", answer.body);
    }
    // Health, files and preflights need none.
    for (method, path) in [("GET", "/health"), ("GET", "/"), ("GET", "/openapi.json")] {
        let answer = ask(&router, (method, path), &[]).await;
        assert_eq!(answer.status, 200, "{path}");
    }
    let preflight = [
        ("origin", "https://dapp.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization"),
    ];
    let answer = ask(&router, ("OPTIONS", "/1"), &preflight).await;
    assert_eq!(answer.status, 200);
    let answer = ask(&router, ("GET", "/nothing"), &[]).await;
    assert_eq!(answer.status, 401);
}

#[tokio::test(start_paused = true)]
async fn refusals_have_the_form_of_their_route() {
    let router = guarded(&keys(true, KeyLimits::default()), None);
    let answer = ask(&router, ("GET", "/v1/overview"), &[("x-request-id", "a-1")]).await;
    assert_eq!(answer.header("content-type"), "application/problem+json");
    assert_eq!(answer.header("x-request-id"), "a-1");
    assert_eq!(answer.header("cache-control"), "no-store");
    let problem = answer.json();
    assert_eq!(problem["code"], "UNAUTHORIZED");
    assert_eq!(problem["requestId"], "a-1");
    let answer = ask(&router, ("GET", "/fees"), &[]).await;
    assert!(answer.json()["error"].is_string(), "{}", answer.body);
    let answer = ask(&router, ("GET", "/v1/chains"), &[]).await;
    assert_eq!(answer.json()["error"]["code"], "UNAUTHORIZED");
    assert_eq!(answer.header("content-type"), "application/json");
    for path in ["/1", "/v1/chains/1/rpc", "/stellar/pubnet"] {
        let answer = ask(&router, ("POST", path), &[]).await;
        assert_eq!(answer.status, 401, "{path}");
        let reply = answer.json();
        assert_eq!(reply["error"]["code"], -32_600, "{reply}");
        assert_eq!(reply["id"], Value::Null);
    }
}

/// A client that was still sending its body used to see that its connection was reset, and not why.
#[tokio::test]
async fn a_client_that_sends_a_large_body_sees_why_it_is_refused() {
    let router = guarded(&keys(true, KeyLimits::default()), None);
    // More than the buffers of a connection hold.
    let body = " ".repeat(12 << 20);
    let request = format!(
        "POST /1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = send(router, &request).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert!(answer.contains("-32600"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn requests_are_limited_by_their_key() {
    let limits = KeyLimits {
        requests: Some(Rate {
            per_second: 2.0,
            burst: 4.0,
        }),
        bytes: None,
    };
    let router = guarded(&keys(false, limits), None);
    let own = [("x-api-key", KEY)];
    let list = ("GET", "/v1/chains");
    for left in (0..4).rev() {
        let answer = ask(&router, list, &own).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("ratelimit-policy"), "\"requests\";q=4;w=2");
        let seconds = (4 - left + 1) / 2;
        let expected = format!("\"requests\";r={left};t={seconds}");
        assert_eq!(answer.header("ratelimit"), expected);
    }
    let refused = ask(&router, ("GET", "/v1/overview"), &own).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(refused.header("ratelimit"), "\"requests\";r=0;t=2");
    let problem = refused.json();
    assert_eq!(
        (&problem["code"], &problem["budget"]),
        (&json!("RATE_LIMITED"), &json!("requests"))
    );
    let refused = ask(&router, ("POST", "/1"), &own).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.json()["error"]["code"], -32_005);
    // Others have limits of their own, or none.
    let other = ask(&router, list, &[]).await;
    assert_eq!(other.status, 200);
    assert_eq!(other.header("ratelimit"), "");
    tokio::time::advance(Duration::from_secs(1)).await;
    for status in [200, 200, 429] {
        assert_eq!(ask(&router, list, &own).await.status, status);
    }
}

/// What an answer takes is known when it was sent: the next one waits until it is paid for.
#[tokio::test(start_paused = true)]
async fn bytes_are_counted_as_they_are_sent() {
    let limits = KeyLimits {
        requests: None,
        bytes: Some(Rate {
            per_second: 1_000.0,
            burst: 5_000.0,
        }),
    };
    let router = guarded(&keys(true, limits), None);
    let own = [("x-api-key", KEY)];
    let compressed = [("x-api-key", KEY), ("accept-encoding", "gzip")];
    let unknown = ("GET", "/v1/nothing");
    let first = ask(&router, unknown, &own).await;
    let policy = "\"bytes\";q=5000;w=5;qu=\"content-bytes\"";
    assert_eq!(first.header("ratelimit-policy"), policy);
    let answer = ask(&router, unknown, &own).await;
    let left = 5_000 - first.body.len();
    assert!(
        answer
            .header("ratelimit")
            .starts_with(&format!("\"bytes\";r={left};"))
    );
    let mut sent = first.body.len() + answer.body.len();
    let refused = loop {
        let answer = ask(&router, unknown, &compressed).await;
        if answer.status == 429 {
            break answer;
        }
        sent += answer.body.len();
    };
    assert!((5_000..6_000).contains(&sent), "{sent}");
    let owed = sent - 5_000;
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert_eq!(seconds, (owed as u64 / 1_000) + 1);
    // Refusals cost nothing: they would keep a caller that goes on asking out for ever.
    for _ in 0..50 {
        let again = ask(&router, unknown, &own).await;
        assert_eq!(again.status, 429);
        assert_eq!(again.header("retry-after"), refused.header("retry-after"));
    }
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(ask(&router, unknown, &own).await.status, 404);
}

/// A download took all bytes as they came back, and every other request of its key was refused.
#[tokio::test(start_paused = true)]
async fn a_long_answer_leaves_half_of_the_bytes_to_others_for_a_while() {
    let limits = KeyLimits {
        requests: None,
        bytes: Some(Rate {
            per_second: 1_000.0,
            burst: 4_000.0,
        }),
    };
    let gate = Gate::new(&keys(true, limits), Instant::now());
    let mut headers = HeaderMap::new();
    headers.insert("x-api-key", KEY.parse().unwrap());
    let caller = gate.admit(&headers, Instant::now()).ok().unwrap();
    let visit = Visit::new(Some(caller.clone()));
    let waited = async || {
        let began = Instant::now();
        visit.until_turn().await;
        began.elapsed().as_secs_f64()
    };
    assert_eq!(visit.byte_burst(), Some(4_000));
    for (sent, seconds) in [(2_000, 0.0), (1_000, 1.0), (5_000, 5.0)] {
        caller.wrote(sent, Instant::now());
        let took = waited().await;
        assert!((took - seconds).abs() < 0.01, "{sent}: {took}");
    }
    // These take all that comes back, and leave a part of what is there.
    caller.wrote(1_000, Instant::now());
    let others = async {
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            caller.wrote(100, Instant::now());
        }
    };
    let (took, ()) = tokio::join!(waited(), others);
    assert!((took - 10.0).abs() < 0.2, "{took}");
}

/// A cache in front does not know who may have an answer.
#[tokio::test(start_paused = true)]
async fn shared_caches_keep_nothing_where_a_key_is_required() {
    let own = [("x-api-key", KEY)];
    for (required, control) in [(true, "private, no-cache"), (false, "no-cache")] {
        let router = guarded(&keys(required, KeyLimits::default()), None);
        let answer = ask(&router, ("GET", "/v1/chains"), &own).await;
        assert_eq!(
            (answer.status, answer.header("cache-control")),
            (StatusCode::OK, control)
        );
        let open = ask(&router, ("GET", "/app.js"), &[]).await;
        assert_eq!(open.header("cache-control"), "no-cache");
    }
}

/// What one caller has left went into the caches that answer all others.
#[tokio::test(start_paused = true)]
async fn answers_of_shared_caches_do_not_show_what_one_caller_has_left() {
    let rate = Rate {
        per_second: 1.0,
        burst: 10.0,
    };
    let limits = KeyLimits {
        requests: Some(rate),
        bytes: None,
    };
    let own = [("x-api-key", KEY)];
    let kept = "max-age=31536000, immutable";
    for (required, control, policy) in [
        (false, format!("public, {kept}"), ""),
        (true, format!("private, {kept}"), "\"requests\";q=10;w=10"),
    ] {
        let router = counting(&keys(required, limits), None);
        let answer = ask(&router, ("GET", "/v1/kept"), &own).await;
        assert_eq!(answer.header("cache-control"), control);
        assert_eq!(answer.header("ratelimit-policy"), policy, "{control}");
        assert_eq!(answer.header("ratelimit").is_empty(), policy.is_empty());
        let other = ask(&router, ("GET", "/v1/big"), &own).await;
        assert!(other.header("ratelimit").starts_with("\"requests\";r=8;"));
    }
}

/// A router whose calls are counted as the handlers of JSON-RPC do.
fn counting(keys: &ApiKeys, log: Option<AccessLog>) -> Router {
    async fn answer(visit: Option<axum::Extension<Visit>>, body: String) -> Response {
        let visit = visit.expect("the guard puts it there").0;
        let calls = body.parse().unwrap_or(1);
        if let Err(error) = visit.count_calls(calls) {
            return rpc::refused(error);
        }
        for at in 0..calls {
            visit.called(if at == 0 {
                "eth_chainId"
            } else {
                "eth_getLogs"
            });
        }
        vec![b'x'; 100].into_response()
    }
    let kept = [(header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
    let served = ServedChains::new(Vec::new());
    let access = Access::new(Some(keys), log, &served).unwrap();
    let router = Router::new()
        .route("/{chainId}", post(answer))
        .route("/v1/kept", get(move || async move { (kept, "logs") }))
        .route("/v1/big", get(|| async { vec![b'y'; 100_000] }));
    access.guard(router)
}

#[tokio::test(start_paused = true)]
async fn each_call_of_a_batch_is_a_request() {
    let limits = KeyLimits {
        requests: Some(Rate {
            per_second: 1.0,
            burst: 10.0,
        }),
        bytes: None,
    };
    let router = counting(&keys(true, limits), None);
    let own = [("x-api-key", KEY)];
    for (calls, status, left) in [
        (7, 200, 3),
        (2, 200, 1),
        (1, 200, 0),
        (1, 429, 0),
        (5, 429, 0),
    ] {
        let answer = ask_with(&router, ("POST", "/1"), &own, &calls.to_string()).await;
        assert_eq!(answer.status, status, "{calls}");
        let expected = format!("\"requests\";r={left};");
        assert!(answer.header("ratelimit").starts_with(&expected), "{calls}");
    }
    // A batch of which the first call would pass costs nothing, and passes after the time that its refusal names.
    tokio::time::advance(Duration::from_secs(2)).await;
    for _ in 0..2 {
        let answer = ask_with(&router, ("POST", "/1"), &own, "5").await;
        assert_eq!(answer.status, 429);
        assert!(answer.header("ratelimit").starts_with("\"requests\";r=2;"));
        assert_eq!(answer.header("retry-after"), "3");
    }
    tokio::time::advance(Duration::from_secs(3)).await;
    let answer = ask_with(&router, ("POST", "/1"), &own, "5").await;
    assert_eq!(answer.status, 200);
    tokio::time::advance(Duration::from_secs(60)).await;
    // One that no wait helps says so.
    let answer = ask_with(&router, ("POST", "/1"), &own, "11").await;
    assert_eq!(answer.status, 413);
    assert_eq!(answer.header("retry-after"), "");
    let message = answer.json()["error"]["message"].to_string();
    assert!(message.contains("send smaller batches"), "{message}");
}

/// A thousand times in one lookup and 32 chains in one query used to be a request each.
#[tokio::test(start_paused = true)]
async fn each_time_of_a_lookup_and_each_chain_of_a_query_is_a_request() {
    let limits = KeyLimits {
        requests: Some(Rate {
            per_second: 1.0,
            burst: 10.0,
        }),
        bytes: None,
    };
    let own = [("x-api-key", KEY)];
    let item = r#"{"chainId":1,"time":0,"direction":"after"}"#;
    let items = |count: usize| format!(r#"{{"items":[{}]}}"#, vec![item; count].join(","));
    let chains = |count: usize| {
        let ids: Vec<String> = (1..=count).map(|id| id.to_string()).collect();
        format!("/v1/logs?chains={}", ids.join(","))
    };
    let router = guarded(&keys(true, limits), None);
    for (count, status, left) in [
        (6, 200, 4),
        (5, 429, 4),
        (0, 200, 3),
        (11, 413, 3),
        (3, 200, 0),
    ] {
        let request = ("POST", "/v1/blocks/by-time");
        let answer = ask_with(&router, request, &own, &items(count)).await;
        assert_eq!(answer.status, status, "{count}: {}", answer.body);
        let expected = format!("\"requests\";r={left};");
        assert!(answer.header("ratelimit").starts_with(&expected), "{count}");
    }
    let router = guarded(&keys(true, limits), None);
    for (count, status, left) in [
        (6, 200, 4),
        (5, 429, 4),
        (1, 200, 3),
        (11, 413, 3),
        (3, 200, 0),
    ] {
        let answer = ask(&router, ("GET", &chains(count)), &own).await;
        assert_eq!(answer.status, status, "{count}: {}", answer.body);
        let expected = format!("\"requests\";r={left};");
        assert!(answer.header("ratelimit").starts_with(&expected), "{count}");
    }
}

/// Takes what is written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn log() -> (AccessLog, LogLines) {
    AccessLog::new(Arc::new(|| 1_600_000_000_123))
}

/// The lines of a log whose router is gone.
fn lines(waiting: LogLines) -> Vec<Value> {
    let written = Written::default();
    waiting.write_to(written.clone());
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(!text.contains(KEY), "{text}");
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn every_answer_is_a_line_without_its_key() {
    let (log, waiting) = log();
    let router = counting(&keys(true, KeyLimits::default()), Some(log));
    let own = [
        ("authorization", &*format!("Bearer {KEY}")),
        ("x-request-id", "r-1"),
        ("x-forwarded-for", "203.0.113.7"),
    ];
    ask_with(&router, ("POST", "/1?key=secret"), &own, "3").await;
    ask(&router, ("GET", "/v1/big"), &[("x-api-key", "wrong")]).await;
    // A path of another API, with a key in it.
    ask(&router, ("GET", &format!("/v2/{KEY}")), &own).await;
    ask(&router, ("HEAD", "/v1/big"), &own).await;
    drop(router);
    let lines = lines(waiting);
    let [called, refused, lost, head] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    assert_eq!(
        *called,
        json!({
            "time": "2020-09-13T12:26:40.123Z", "requestId": "r-1", "peer": null, "method": "POST",
            "route": "/{chainId}", "path": null, "status": 200, "bytes": 100, "complete": true,
            "durationMs": 0.0, "key": "acme", "forwardedFor": "203.0.113.7", "calls": 3,
            "rpcMethods": ["eth_chainId", "eth_getLogs"],
        })
    );
    assert_eq!(
        (&refused["status"], refused.get("key")),
        (&json!(401), None)
    );
    assert_eq!(refused["path"], "/v1/big");
    assert_eq!(
        (&lost["status"], &lost["path"]),
        (&json!(404), &Value::Null)
    );
    assert_eq!(
        (&head["bytes"], &head["complete"]),
        (&json!(0), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_to_its_end_is_logged_as_cut() {
    let (log, waiting) = log();
    let router = counting(&keys(false, KeyLimits::default()), Some(log));
    use hyper::service::Service as _;
    let request = Request::builder()
        .uri("/v1/big")
        .body(Body::empty())
        .unwrap();
    let service = hyper_util::service::TowerToHyperService::new(router);
    let response = service.call(request).await.unwrap();
    assert_eq!(response.headers()[header::CONTENT_LENGTH], "100000");
    drop((response, service));
    let lines = lines(waiting);
    assert_eq!(
        (&lines[0]["complete"], &lines[0]["bytes"]),
        (&json!(false), &json!(0))
    );
    assert_eq!(lines[0]["key"], "anonymous");
}

/// A disk that takes nothing must not hold up answers.
#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_lines_and_delays_nobody() {
    let (log, waiting) = log();
    let router = counting(&keys(false, KeyLimits::default()), Some(log));
    let more = 8_192 + 10;
    for _ in 0..more {
        assert_eq!(ask(&router, ("GET", "/no/where"), &[]).await.status, 404);
    }
    drop(router);
    assert_eq!(lines(waiting).len(), 8_192);
}
