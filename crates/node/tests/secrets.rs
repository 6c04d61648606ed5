//! A key in a URL is shown nowhere, also where it stands in the host: not on the public listener, not in
//! metrics, not in the log.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use serde_json::json;
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
    let address = server.url().replace("http://", "").replace('/', "");
    let expected = [
        json!("…provider.example"),
        json!("…provider.example:8443"),
        json!(address),
    ];
    assert_eq!(names, expected, "{overview}");
    let reported = endpoints.iter().filter(|one| one["lastError"].is_string());
    assert_eq!(reported.count(), 2, "no failure was told: {overview}");
    let (_, health) = rpc.get("/health").await;
    bench.wait_for_listener();
    let (_, metrics) = bench.operations("/metrics").await;
    assert!(metrics.contains("…provider.example"), "{metrics}");
    let log = bench.log();
    for shown in [overview.to_string(), health.to_string(), metrics, log] {
        assert!(!shown.contains(KEY), "{shown}");
    }
    running.stop();
}
