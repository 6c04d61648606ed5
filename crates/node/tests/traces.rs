//! Spans as a collector gets them, and what happens where there is none.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use chronolith_sim::evm::{EvmNode, EvmSpec, FeesSpec, RpcOptions, RpcServer};
use chronolith_sim::portal::{PortalOptions, PortalServer};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use support::Bench;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const DEPTH_5: &str = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;

/// A collector that keeps what it gets.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Bytes>>>);

impl Collector {
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let kept = self.0.clone();
        let take = move |headers: HeaderMap, body: Bytes| {
            assert_eq!(headers["content-type"], "application/x-protobuf");
            kept.lock().unwrap().push(body);
            async {}
        };
        let router = Router::new().route("/v1/traces", post(take));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        url
    }

    fn bytes(&self) -> Vec<Bytes> {
        self.0.lock().unwrap().clone()
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.bytes().into_iter();
        let requests = requests.map(|body| ExportTraceServiceRequest::decode(body).unwrap());
        let resources = requests.flat_map(|request| request.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }
}

/// The attributes of a span, as text.
fn attributes(span: &Span) -> HashMap<String, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = span.attributes.iter().filter_map(|pair| {
        let value = pair.value.as_ref()?.value.as_ref()?;
        Some((pair.key.clone(), text(value)))
    });
    pairs.collect()
}

fn start(bench: &Bench, collector: &str) -> support::Running {
    bench.start_with(&["run"], &[(ENDPOINT, collector)])
}

type Attributes<'a> = Vec<(&'static str, &'a str)>;

/// A span of every sort, and what is known of it.
fn wanted(host: &str) -> Vec<(&'static str, Attributes<'_>)> {
    vec![
        ("round", vec![("chain", "31337"), ("outcome", "success")]),
        (
            "rpc",
            vec![
                ("chain", "31337"),
                ("endpoint", host),
                ("methods", "eth_getBlockReceipts"),
                ("calls", "100"),
                ("outcome", "success"),
            ],
        ),
        (
            "verify",
            vec![
                ("chain", "31337"),
                ("endpoint", host),
                ("blocks", "100"),
                ("outcome", "success"),
            ],
        ),
        (
            "archive.append",
            vec![("chain", "31337"), ("blocks", "1"), ("outcome", "success")],
        ),
        (
            "archive.publish",
            vec![("chain", "31337"), ("edits", "1"), ("outcome", "success")],
        ),
        (
            "archive.merge",
            vec![("chain", "31337"), ("outcome", "success")],
        ),
    ]
}

/// No secret, no URL and no parameter is in what was sent.
#[track_caller]
fn assert_clean(collector: &Collector) {
    for body in collector.bytes() {
        let text = String::from_utf8_lossy(&body);
        assert!(!text.contains("SECRET"), "a secret was sent: {text}");
        assert!(!text.contains("://"), "a URL was sent: {text}");
    }
    let parameters = |span: &Span| {
        attributes(span)
            .into_values()
            .any(|text| text.contains("0x"))
    };
    assert!(
        !collector.spans().iter().any(parameters),
        "parameters were sent"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_every_sort_arrive_and_no_secret_is_in_them() {
    let node = EvmNode::new(EvmSpec::tiny(41), 300);
    let server = RpcServer::start(node.clone(), RpcOptions::default())
        .await
        .unwrap();
    let host = server.url().replace("http://", "").replace('/', "");
    let url = format!("http://SECRETuser:SECRETword@{host}/?key=SECRETkey");
    let bench = Bench::new(&[url], DEPTH_5);
    let collector = Collector::default();
    let running = start(&bench, &collector.start().await);
    let mut head = 300;
    for _ in 0..40 {
        bench.wait("the head", || bench.head() == Some(head - 5));
        head = node.mine(1).number;
    }
    bench.wait("the last head", || bench.head() == Some(head - 5));
    running.stop();

    let spans = collector.spans();
    let named = |name: &str| {
        let found: Vec<&Span> = spans.iter().filter(|span| span.name == name).collect();
        assert!(!found.is_empty(), "no span is called {name}");
        found
    };
    for (name, wanted) in wanted(&host) {
        let fits = |span: &&Span| {
            let has = attributes(span);
            let right = |(key, value): &(&str, &str)| has.get(*key).is_some_and(|got| got == value);
            wanted.iter().all(right) && span.end_time_unix_nano > span.start_time_unix_nano
        };
        let found = named(name);
        let all: Vec<_> = found.iter().map(|span| attributes(span)).collect();
        assert!(found.into_iter().any(|span| fits(&span)), "{name}: {all:?}");
    }
    // A request belongs to the round that made it.
    let rounds: Vec<&[u8]> = named("round").iter().map(|span| &*span.trace_id).collect();
    let within = |span: &&&Span| rounds.contains(&&*span.trace_id);
    assert!(named("rpc").iter().filter(within).count() > 40);
    // None is lost, also of those that were not sent yet when it was told to stop.
    let appended = named("archive.append").into_iter().map(attributes);
    let appended: u64 = appended
        .map(|has| has["blocks"].parse::<u64>().unwrap())
        .sum();
    assert_eq!(appended, head - 4);
    assert_clean(&collector);
    assert!(!bench.log().contains("SECRET"), "a secret was logged");
}

/// Rows are decoded, written and confirmed.
#[tokio::test(flavor = "multi_thread")]
async fn spans_of_projections_arrive_too() {
    let mut spec = EvmSpec::tiny(46);
    spec.fees = Some(FeesSpec::per_thousand_blocks(1_500));
    let node = EvmNode::new(spec, 120);
    let server = RpcServer::start(node, RpcOptions::default()).await.unwrap();
    let fees = r#", "finality": { "mode": "depth", "confirmations": 5 },
        "fees": { "contracts": ["0xbd6c7b0d2f68c2b7805d88388319cfb6ecb50ea9"] }"#;
    let bench = Bench::new(&[server.url()], fees);
    let database = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    let collector = Collector::default();
    let address = collector.start().await;
    for words in [&["db", "init"][..], &["run", "--until-caught-up"]] {
        let mut command = bench.command(words);
        command.env("PG_URL", &database.url).env(ENDPOINT, &address);
        assert!(command.status().unwrap().success(), "{words:?}");
    }
    let spans = collector.spans();
    let has = |name: &str, wanted: &[(&str, &str)]| {
        let mut named = spans.iter().filter(|span| span.name == name);
        let fits = |span: &Span| {
            let has = attributes(span);
            wanted
                .iter()
                .all(|(key, value)| has.get(*key).is_some_and(|got| got == value))
        };
        assert!(named.any(fits), "no {name} with {wanted:?}");
    };
    has(
        "decode",
        &[("chain", "31337"), ("projection", "fees"), ("logs", "1")],
    );
    for op in ["insert", "confirm", "backfill"] {
        has(
            "database",
            &[("chain", "31337"), ("op", op), ("outcome", "success")],
        );
    }
    assert_clean(&collector);
}

/// A Portal is asked by path, and its lines are proven as they come.
#[tokio::test(flavor = "multi_thread")]
async fn spans_of_a_portal_arrive_too() {
    let node = EvmNode::new(EvmSpec::tiny(44), 100);
    node.set_finalized_depth(10);
    let server = PortalServer::start(node, PortalOptions::default())
        .await
        .unwrap();
    let url = server.url();
    let (base, dataset) = url.trim_end_matches('/').rsplit_once('/').unwrap();
    let bench = Bench::new(&[], "");
    let data = bench.dir.path().join("data");
    let text = format!(
        r#"{{ "dataDir": {data:?}, "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0", "chains": [ {{ "chainId": 31337, "portal": {{ "url": "{base}", "dataset": "{dataset}" }} }} ] }}"#
    );
    std::fs::write(&bench.config, text).unwrap();
    let collector = Collector::default();
    let mut command = bench.command(&["run", "--until-caught-up"]);
    let address = collector.start().await;
    assert!(command.env(ENDPOINT, address).status().unwrap().success());
    let spans = collector.spans();
    let has = |name: &str, key: &str, value: &str| {
        let named = spans.iter().filter(|span| span.name == name);
        let mut values = named.filter_map(|span| attributes(span).remove(key));
        assert!(
            values.any(|got| got == value),
            "no {name} with {key}={value}"
        );
    };
    has("rpc", "methods", "finalized-stream");
    has("rpc", "outcome", "success");
    has("verify", "chain", "31337");
    has("verify", "outcome", "success");
    let proven = spans.iter().filter(|span| span.name == "verify");
    let blocks = proven.map(|span| {
        let keys = span.attributes.iter().filter(|pair| pair.key == "blocks");
        assert_eq!(keys.count(), 1, "recorded more than once");
        attributes(span)["blocks"].parse::<u64>().unwrap()
    });
    assert!(blocks.sum::<u64>() >= 91);
    for body in collector.bytes() {
        assert!(!String::from_utf8_lossy(&body).contains("://"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_collector_chains_are_followed_on_after_one_warning() {
    let node = EvmNode::new(EvmSpec::tiny(42), 100);
    let server = RpcServer::start(node.clone(), RpcOptions::default())
        .await
        .unwrap();
    let bench = Bench::new(&[server.url()], DEPTH_5);
    // Every connection is closed at once.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let collector = format!("http://{}/SECRET", closed.local_addr().unwrap());
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    std::thread::spawn(move || {
        for connection in closed.incoming() {
            drop(connection);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let running = start(&bench, &collector);
    let warnings = || bench.count("spans_refused");
    bench.wait("the warning", || warnings() == 1);
    // Further batches of spans fail without a further warning.
    let mut head = node.head().number;
    for batch in 1..=3 {
        let before = attempts.load(Ordering::Relaxed);
        head = node.mine(3).number;
        bench.wait("the head", || bench.head() == Some(head - 5));
        bench.wait(&format!("batch {batch}"), || {
            attempts.load(Ordering::Relaxed) > before
        });
    }
    running.stop_in_time();
    assert_eq!(warnings(), 1, "{}", bench.log());
    assert!(!bench.log().contains("SECRET"), "{}", bench.log());
    let verified = bench.json(&["verify", "--json"]);
    assert_eq!(verified["to"], head - 5);
    assert_eq!(verified["findings"].as_array().unwrap().len(), 0);
}

/// A collector that takes connections and never answers must not hold up anything either.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_collector_holds_up_nothing() {
    let node = EvmNode::new(EvmSpec::tiny(43), 100);
    let server = RpcServer::start(node.clone(), RpcOptions::default())
        .await
        .unwrap();
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let running = start(&bench, &format!("http://{}", silent.local_addr().unwrap()));
    for _ in 0..10 {
        let head = node.mine(3).number;
        bench.wait("the head", || bench.head() == Some(head - 5));
    }
    running.stop_in_time();
}

#[test]
fn an_address_that_is_none_is_refused_by_name_and_not_shown() {
    let bench = Bench::new(&["http://127.0.0.1:1".to_owned()], "");
    for bad in ["SECRET", "ftp://SECRET.example", "http://"] {
        let output = bench.command(&["run"]).env(ENDPOINT, bad).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{bad} was taken");
        assert!(
            message.contains("error: OTEL_EXPORTER_OTLP_ENDPOINT: not an"),
            "{message}"
        );
        assert!(!message.contains("SECRET"), "{message}");
    }
}
