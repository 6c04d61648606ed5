//! API keys and the access log, with the program over HTTP.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::io::Write as _;
use std::process::Stdio;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use reqwest::header::HeaderMap;
use serde_json::{Value, json};
use support::{Bench, DEPTH_5, serve};

/// An answer as it was sent.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Status and code of an error over REST.
    fn problem(&self) -> (u16, Value) {
        (self.status, self.json()["code"].clone())
    }

    /// Status and code of an error of a call.
    fn failure(&self) -> (u16, Value) {
        (self.status, self.json()["error"]["code"].clone())
    }
}

async fn send(request: reqwest::RequestBuilder) -> Answer {
    let answer = request.send().await.unwrap();
    Answer {
        status: answer.status().as_u16(),
        headers: answer.headers().clone(),
        body: answer.bytes().await.unwrap().to_vec(),
    }
}

/// A key and its hash, as the command prints them.
fn new_key(bench: &Bench, name: &str) -> (String, String) {
    let shown = bench.say(&["keys", "new", name]);
    assert!(shown.contains(&format!("name = \"{name}\"")), "{shown}");
    let word = |start: &str| {
        let mut words = shown.split([' ', '"', '\n']);
        words
            .find(|word| word.starts_with(start))
            .unwrap()
            .to_owned()
    };
    (word("chr_"), word("sha256:"))
}

/// Whether `chronolith keys hash` takes a key, and what it prints.
fn hash_of(bench: &Bench, key: &str) -> (bool, String) {
    let mut command = bench.command(&["keys", "hash"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut input = running.stdin.take().unwrap();
    input.write_all(key.as_bytes()).unwrap();
    drop(input);
    let output = running.wait_with_output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    (output.status.success(), printed.trim().to_owned())
}

#[test]
fn the_hash_of_a_key_is_the_one_that_was_printed_with_it() {
    let bench = Bench::new(&["http://127.0.0.1:1".to_owned()], "");
    let (key, hash) = new_key(&bench, "acme");
    assert_eq!(hash_of(&bench, &format!("{key}\n")), (true, hash));
    assert!(!hash_of(&bench, "password").0, "it can be guessed");
}

/// The value of a series.
#[track_caller]
fn value(metrics: &str, series: &str) -> usize {
    let mut values = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(series)?.trim().parse().ok());
    values
        .next()
        .unwrap_or_else(|| panic!("no {series} in {metrics}"))
}

/// The lines of a log that have this value in this field.
fn lines_with(log: &str, field: &str, value: &Value) -> Vec<Value> {
    let lines = log
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line[field] == *value).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_limit_their_callers_and_every_request_is_a_line() {
    let node = EvmNode::new(EvmSpec::tiny(171), 300);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let (key, hash) = new_key(&bench, "acme");
    let (slow, slow_hash) = new_key(&bench, "slow");
    let access = bench.dir.path().join("access.log");
    // Of the second, next to nothing comes back while the test runs.
    let settings = json!({ "required": true, "keys": [
        { "name": "acme", "hash": hash },
        {
            "name": "slow", "hash": slow_hash, "requestsPerSecond": 0.0001, "requestBurst": 6,
            "bytesPerSecond": 0.001, "byteBurst": 3_000,
        },
    ] });
    let settings = format!(r#""apiKeys": {settings}, "accessLog": {access:?}, "chains""#);
    bench.change(r#""chains""#, &settings);
    let running = bench.start();
    let base = bench.public();
    let http = reqwest::Client::new();
    let get = |path: &str| http.get(format!("{base}{path}"));
    let list = || get("/v1/chains/31337/ranges");
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" });
    let post = |body: Value| http.post(format!("{base}/31337")).body(body.to_string());
    bench.wait("the archive", || bench.head() == Some(295));

    // Without a key there are health and files only.
    for path in ["/health", "/"] {
        assert_eq!(send(get(path)).await.status, 200, "{path}");
    }
    let unauthorized = (401, json!("UNAUTHORIZED"));
    assert_eq!(send(list()).await.problem(), unauthorized);
    let wrong = send(list().bearer_auth("chr_mistyped")).await;
    assert_eq!(wrong.problem(), unauthorized);
    assert_eq!(wrong.header("www-authenticate"), "Bearer");
    assert_eq!(
        send(post(call.clone())).await.failure(),
        (401, json!(-32_600))
    );
    // One without limits.
    for _ in 0..20 {
        let answer = send(list().bearer_auth(&key)).await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, ""));
    }
    // Six requests; those of a batch count.
    let first = send(list().header("x-api-key", &slow)).await;
    assert_eq!(first.status, 200);
    let policy = "\"requests\";q=6;w=60000, \"bytes\";q=3000;";
    assert!(first.header("ratelimit-policy").starts_with(policy));
    assert!(first.header("ratelimit").starts_with("\"requests\";r=5;"));
    let batch = |calls| post(Value::Array(vec![call.clone(); calls])).bearer_auth(&slow);
    let refused = send(batch(6)).await;
    assert_eq!(refused.failure(), (429, json!(-32_005)));
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 1_000);
    let second = send(batch(3)).await;
    assert_eq!(
        (second.status, second.json().as_array().map(Vec::len)),
        (200, Some(3))
    );
    assert!(second.header("ratelimit").starts_with("\"requests\";r=1;"));
    // The last one may be as large as it is, and is compressed: what was sent counts.
    let logs = get("/v1/chains/31337/logs?fromBlock=0&toBlock=290&limit=10000&format=csv");
    let logs = logs.bearer_auth(&slow).header("accept-encoding", "gzip");
    let page = send(logs).await;
    assert_eq!(
        (page.status, page.header("content-encoding")),
        (200, "gzip")
    );
    assert!(page.body.len() > 3_000, "{}", page.body.len());
    let refused = send(list().bearer_auth(&slow)).await;
    assert_eq!(refused.problem(), (429, json!("RATE_LIMITED")));
    assert_eq!(refused.json()["budget"], "bytes");

    let (_, metrics) = bench.operations("/metrics").await;
    for (series, expected) in [
        (r#"chronolith_key_requests_total{key="acme"}"#, 20),
        // One of them began the batch that was refused.
        (r#"chronolith_key_requests_total{key="slow"}"#, 6),
        (
            r#"chronolith_key_refused_total{key="slow",reason="bytes"}"#,
            1,
        ),
        (
            r#"chronolith_key_refused_total{key="slow",reason="requests"}"#,
            1,
        ),
        (
            r#"chronolith_key_refused_total{key="anonymous",reason="unauthorized"}"#,
            3,
        ),
        (
            r#"chronolith_http_requests_total{route="/v1/chains/{chainId}/ranges",status="2xx"}"#,
            21,
        ),
        (
            r#"chronolith_http_requests_total{route="/v1/chains/{chainId}/ranges",status="4xx"}"#,
            3,
        ),
        ("chronolith_access_log_dropped_total", 0),
    ] {
        assert_eq!(value(&metrics, series), expected, "{series}");
    }
    let sent = first.body.len() + second.body.len() + page.body.len();
    let counted = value(&metrics, r#"chronolith_key_bytes_total{key="slow"}"#);
    // The refusals are bytes too.
    assert!(
        (sent..sent + 2_000).contains(&counted),
        "{counted} of {sent}"
    );
    assert_log(&bench, &access, &page, || running.stop());
    let log = std::fs::read_to_string(&access).unwrap();
    for secret in [&key, &slow, "chr_", "sha256"] {
        for text in [&log, &bench.log(), &metrics] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}

/// The access log has every request.
fn assert_log(bench: &Bench, access: &std::path::Path, page: &Answer, stop: impl FnOnce()) {
    let read = || std::fs::read_to_string(access).unwrap_or_default();
    // A line is written after its answer.
    let last = || lines_with(&read(), "key", &json!("slow")).len() == 5;
    bench.wait("the last line", last);
    stop();
    let log = read();
    assert_eq!(lines_with(&log, "key", &json!("acme")).len(), 20);
    assert_eq!(lines_with(&log, "status", &json!(401)).len(), 3);
    let calls = &lines_with(&log, "calls", &json!(3))[0];
    assert_eq!(calls["rpcMethods"], json!(["eth_chainId"]));
    assert_eq!(calls["route"], "/{chainId}");
    assert_eq!(calls["chain"], "31337");
    let logged = &lines_with(&log, "path", &json!("/v1/chains/31337/logs"))[0];
    assert_eq!(logged["bytes"], page.body.len());
    assert_eq!(logged["complete"], true);
    assert_eq!(logged["requestId"], page.header("x-request-id"));
    assert!(logged["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(logged["durationMs"].as_f64().unwrap() > 0.0);
}
