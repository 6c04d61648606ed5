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
use support::{Bench, DEPTH_5, Running, serve};

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
    let (key, hash) = bench.new_key("acme");
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

/// A program with two keys.
struct Service {
    bench: Bench,
    base: String,
    http: reqwest::Client,
    /// Without limits.
    key: String,
    /// Six requests and 3,000 bytes, and next to nothing comes back while a test runs.
    slow: String,
}

/// The three answers that the limited key got.
struct Used {
    first: Answer,
    second: Answer,
    page: Answer,
}

impl Service {
    fn start(bench: Bench) -> (Self, Running) {
        let (key, hash) = bench.new_key("acme");
        let (slow, slow_hash) = bench.new_key("slow");
        let settings = json!({ "required": true, "keys": [
            { "name": "acme", "hash": hash },
            {
                "name": "slow", "hash": slow_hash, "requestsPerSecond": 0.0001, "requestBurst": 6,
                "bytesPerSecond": 0.001, "byteBurst": 3_000,
            },
        ] });
        let log = bench.dir.path().join("access.log");
        let settings = format!(r#""apiKeys": {settings}, "accessLog": {log:?}, "chains""#);
        bench.change(r#""chains""#, &settings);
        let running = bench.start();
        let service = Self {
            base: bench.public(),
            // It must show what was sent.
            http: reqwest::Client::builder()
                .no_gzip()
                .no_zstd()
                .build()
                .unwrap(),
            bench,
            key,
            slow,
        };
        (service, running)
    }

    fn log(&self) -> String {
        let path = self.bench.dir.path().join("access.log");
        std::fs::read_to_string(path).unwrap_or_default()
    }

    fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.get(format!("{}{path}", self.base))
    }

    fn list(&self) -> reqwest::RequestBuilder {
        self.get("/v1/chains/31337/ranges")
    }

    /// A call, or a batch of as many.
    fn call(&self, batch: Option<usize>) -> reqwest::RequestBuilder {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" });
        let body = match batch {
            Some(calls) => Value::Array(vec![call; calls]),
            None => call,
        };
        let request = self.http.post(format!("{}/31337", self.base));
        request.body(body.to_string())
    }

    /// Without a key there are health and files only.
    async fn refuse_strangers(&self) {
        for path in ["/health", "/"] {
            assert_eq!(send(self.get(path)).await.status, 200, "{path}");
        }
        let unauthorized = (401, json!("UNAUTHORIZED"));
        assert_eq!(send(self.list()).await.problem(), unauthorized);
        let wrong = send(self.list().bearer_auth("chr_mistyped")).await;
        assert_eq!(wrong.problem(), unauthorized);
        assert_eq!(wrong.header("www-authenticate"), "Bearer");
        let call = send(self.call(None)).await;
        assert_eq!(call.failure(), (401, json!(-32_600)));
    }

    /// Uses up what the limited key allows.
    async fn use_up(&self) -> Used {
        let first = send(self.list().header("x-api-key", &self.slow)).await;
        assert_eq!(first.status, 200);
        let policy = "\"requests\";q=6;w=60000, \"bytes\";q=3000;";
        assert!(first.header("ratelimit-policy").starts_with(policy));
        assert!(first.header("ratelimit").starts_with("\"requests\";r=5;"));
        // Calls of a batch count.
        let refused = send(self.call(Some(6)).bearer_auth(&self.slow)).await;
        assert_eq!(refused.failure(), (429, json!(-32_005)));
        assert!(refused.header("retry-after").parse::<u64>().unwrap() > 1_000);
        let second = send(self.call(Some(3)).bearer_auth(&self.slow)).await;
        assert_eq!(second.status, 200);
        assert_eq!(second.json().as_array().map(Vec::len), Some(3));
        // The batch that was refused took nothing.
        assert!(second.header("ratelimit").starts_with("\"requests\";r=2;"));
        // The last one may be as large as it is, and is compressed: what was sent counts.
        let logs = "/v1/chains/31337/logs?fromBlock=0&toBlock=290&limit=10000&format=csv";
        let logs = self.get(logs).bearer_auth(&self.slow);
        let page = send(logs.header("accept-encoding", "gzip")).await;
        assert_eq!(page.status, 200);
        assert_eq!(page.header("content-encoding"), "gzip");
        assert!(page.body.len() > 3_000, "{}", page.body.len());
        let refused = send(self.list().bearer_auth(&self.slow)).await;
        assert_eq!(refused.problem(), (429, json!("RATE_LIMITED")));
        assert_eq!(refused.json()["budget"], "bytes");
        Used {
            first,
            second,
            page,
        }
    }
}

#[track_caller]
fn assert_metrics(metrics: &str, used: &Used) {
    let ranges = |class: &str| {
        format!(
            r#"chronolith_http_requests_total{{route="/v1/chains/{{chainId}}/ranges",status="{class}"}}"#
        )
    };
    let of = |what: &str, labels: &str| format!("chronolith_key_{what}_total{{{labels}}}");
    for (series, expected) in [
        (of("requests", r#"key="acme""#), 20),
        // One of them began the batch that was refused.
        (of("requests", r#"key="slow""#), 6),
        (of("refused", r#"key="slow",reason="bytes""#), 1),
        (of("refused", r#"key="slow",reason="requests""#), 1),
        (of("refused", r#"key="anonymous",reason="unauthorized""#), 3),
        (ranges("2xx"), 21),
        (ranges("4xx"), 3),
        ("chronolith_access_log_dropped_total".to_owned(), 0),
    ] {
        assert_eq!(value(metrics, &series), expected, "{series}");
    }
    let answers = [&used.first, &used.second, &used.page];
    let sent: usize = answers.iter().map(|answer| answer.body.len()).sum();
    let counted = value(metrics, &of("bytes", r#"key="slow""#));
    // The batch that its handler refused counts, and the refusals at the gate do not.
    let refused = counted - sent;
    assert!((1..300).contains(&refused), "{counted} of {sent}");
}

#[track_caller]
fn assert_log(log: &str, page: &Answer) {
    assert_eq!(lines_with(log, "key", &json!("acme")).len(), 20);
    assert_eq!(lines_with(log, "status", &json!(401)).len(), 3);
    let calls = &lines_with(log, "calls", &json!(3))[0];
    assert_eq!(calls["rpcMethods"], json!(["eth_chainId"]));
    assert_eq!(calls["route"], "/{chainId}");
    assert_eq!(calls["chain"], "31337");
    let logged = &lines_with(log, "path", &json!("/v1/chains/31337/logs"))[0];
    assert_eq!(logged["bytes"], page.body.len());
    assert_eq!(logged["complete"], true);
    assert_eq!(logged["requestId"], page.header("x-request-id"));
    assert!(logged["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
    assert!(logged["durationMs"].as_f64().unwrap() > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_limit_their_callers_and_every_request_is_a_line() {
    let node = EvmNode::new(EvmSpec::tiny(171), 300);
    let server = serve(&node, RpcOptions::default()).await;
    let (service, running) = Service::start(Bench::new(&[server.url()], DEPTH_5));
    let bench = &service.bench;
    bench.wait("the archive", || bench.head() == Some(295));
    service.refuse_strangers().await;
    for _ in 0..20 {
        let answer = send(service.list().bearer_auth(&service.key)).await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, ""));
    }
    let used = service.use_up().await;
    let (_, metrics) = bench.operations("/metrics").await;
    assert_metrics(&metrics, &used);
    // A line is written after its answer.
    bench.wait("the last line", || {
        lines_with(&service.log(), "key", &json!("slow")).len() == 5
    });
    running.stop();
    let log = service.log();
    assert_log(&log, &used.page);
    for secret in [&*service.key, &service.slow, "chr_", "sha256"] {
        for text in [&log, &bench.log(), &metrics] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
