//! A key in a URL is shown nowhere, also where it stands in the host: not on the public listener, not in
//! metrics, not in the log.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::sync::atomic::Ordering;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use serde_json::{Value, json};
use support::echo::{Echo, WORD};
use support::rpc::Rpc;
use support::{Bench, DEPTH_5, serve};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_a_host_is_never_printed() {
    const KEY: &str = "0f3c9a7b55de";
    let node = EvmNode::new(EvmSpec::tiny(91), 40);
    let server = serve(&node, RpcOptions::default()).await;
    // Nobody has these hosts, so that their failures are told too.
    let urls = [
        format!("https://{KEY}.provider.example/v3"),
        format!("https://eu.{KEY}.provider.example:8443"),
        server.url(),
    ];
    let bench = Bench::new(&urls, DEPTH_5);
    let running = bench.start();
    let rpc = Rpc::new(bench.public());
    rpc.until_head(40).await;
    let (_, overview) = rpc.get("/v1/overview").await;
    let endpoints = overview["chains"][0]["endpoints"].as_array().unwrap();
    let names: Vec<_> = endpoints.iter().map(|one| one["name"].clone()).collect();
    let expected = [
        json!("endpoint 1"),
        json!("endpoint 2"),
        json!("endpoint 3"),
    ];
    assert_eq!(names, expected, "{overview}");
    let reported = endpoints
        .iter()
        .filter(|one| one["lastError"] == "unreachable");
    assert_eq!(reported.count(), 2, "no failure was told: {overview}");
    let state = bench.json(&["state", "--json"]);
    let endpoints = state[0]["endpoints"].as_array().unwrap();
    let names: Vec<_> = endpoints.iter().map(|one| one["name"].clone()).collect();
    let address = server.url().replace("http://", "").replace('/', "");
    let expected = [
        json!("…provider.example"),
        json!("…provider.example:8443"),
        json!(address),
    ];
    assert_eq!(names, expected, "{state}");
    let (_, health) = rpc.get("/health").await;
    bench.wait_for_listener();
    let (_, metrics) = bench.operations("/metrics").await;
    assert!(metrics.contains("…provider.example"), "{metrics}");
    let log = bench.log();
    let state = state.to_string();
    for shown in [
        overview.to_string(),
        health.to_string(),
        metrics,
        log,
        state,
    ] {
        assert!(!shown.contains(KEY), "{shown}");
    }
    assert!(
        !overview.to_string().contains("provider.example"),
        "{overview}"
    );
    running.stop();
}

/// What anybody can read over HTTP.
const PUBLIC: [&str; 11] = [
    "/v1/overview",
    "/health",
    "/v1/chains",
    "/v1/chains/31337",
    "/v1/chains/31337/ranges",
    "/v1/chains/31337/blocks/latest",
    "/v1/chains/31337/logs",
    "/v1/chains/31337/block/before/1600000500",
    "/v1/logs?chains=31337",
    "/v1/indexing-status",
    "/v1/projections",
];

/// An endpoint that repeats its request gave away the key in its URL: decoded, in other case, cut, and as the
/// header of user and password. What a provider says, and where it is, was public.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_says_is_neither_public_nor_has_it_a_key() {
    const SECRETS: [&str; 6] = [
        "pathkey",
        "slash",
        "querykey",
        "userkey1",
        "passkey2",
        // "USERKEY1:PASSKEY2"
        "vvnfuktfwte6uefu",
    ];
    let echo = Echo::start().await;
    let address = echo.address.to_string();
    let url = format!("http://USERKEY1:PASSKEY2@{address}/v2/PATHKEY%2B123%2Fslash?k=QueryKey9");
    let bench = Bench::new(&[url], DEPTH_5);
    let running = bench.start();
    let rpc = Rpc::new(bench.public());
    bench.wait("every spelling", || {
        echo.answered.load(Ordering::SeqCst) > 3
    });
    let failing = |_, health: &Value| health["chains"][0]["error"].is_string();
    let health = bench.until_health("the error", failing).await;
    let error = health["chains"][0]["error"].as_str().unwrap();
    assert!(error.starts_with("the source failed: "), "{error}");
    let mut public = Vec::new();
    for path in PUBLIC {
        public.push((path, rpc.get(path).await.1.to_string()));
    }
    for method in ["eth_blockNumber", "eth_syncing", "eth_getLogs"] {
        let params = json!([{ "fromBlock": "latest" }]);
        public.push((method, rpc.answer(method, params).await.to_string()));
    }
    for path in ["/health", "/health/ready"] {
        public.push((path, bench.operations(path).await.1));
    }
    for (from, text) in &public {
        assert!(!text.contains(WORD), "{from}: {text}");
        assert!(!text.contains(&address), "{from}: {text}");
    }
    let (_, overview) = rpc.get("/v1/overview").await;
    let endpoint = &overview["chains"][0]["endpoints"][0];
    assert_eq!(endpoint["name"], "endpoint 1");
    let kind = endpoint["lastError"].as_str().unwrap();
    assert!(
        ["HTTP 401", "request refused"].contains(&kind),
        "{overview}"
    );
    // Operators see what it said, and where it is.
    let state = bench.say(&["state", "--json"]);
    let text = bench.say(&["state"]);
    for shown in [&state, &text] {
        assert!(shown.contains(WORD) && shown.contains(&address), "{shown}");
    }
    let (_, metrics) = bench.operations("/metrics").await;
    running.stop();
    let log = bench.log();
    assert!(log.contains(WORD), "{log}");
    assert!(log.to_lowercase().contains("basic [hidden]"), "{log}");
    let operators = [
        ("state", state),
        ("text", text),
        ("metrics", metrics),
        ("log", log),
    ];
    for (from, text) in operators.iter().chain(&public) {
        let text = text.to_lowercase();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} in {from}: {text}");
        }
    }
}
