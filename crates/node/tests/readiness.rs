//! Readiness as a probe sees it, while the chain's node is healthy, slow, failing and back again. What makes a
//! chain not ready later is tested in `crates/node/src/health_server.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::time::Duration;

use chronolith_sim::evm::{EvmNode, EvmSpec, Faults, RpcFault, RpcOptions, RpcServer};
use serde_json::Value;
use support::Bench;

const DEPTH_5: &str = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_is_ready_after_its_first_good_round_and_brief_failures_change_nothing() {
    let node = EvmNode::new(EvmSpec::tiny(21), 60);
    let faults = Faults::new(21);
    let options = RpcOptions {
        delay: Duration::from_millis(500),
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let more = format!(r#"{DEPTH_5}, "rpcWs": ["{}"]"#, server.ws_url());
    let bench = Bench::new(&[server.url()], &more);
    let running = bench.start();
    bench.wait_for_listener();
    // Every answer takes a while, so the first round is still under way.
    let (code, body) = bench.operations("/health/ready").await;
    assert_eq!(code, 503, "{body}");
    let reason = "no round has ended well since the start: catching up";
    assert!(body.contains(reason), "{body}");
    let health = bench
        .until_health("the first good round", |code, _| code == 200)
        .await;
    let chain = &health["chains"][0];
    for (field, expected) in [
        ("chain", 31_337.into()),
        ("version", Value::Null),
        ("topicsWatching", Value::Null),
        ("queueDepth", 5.into()),
        ("paused", false.into()),
        ("pausedReason", Value::Null),
        ("lastSeenBlock", 60.into()),
        ("lastSafeBlock", 55.into()),
        ("lastBackfillBlock", 55.into()),
        ("notReadyReason", Value::Null),
    ] {
        assert_eq!(chain[field], expected, "{field} in {chain}");
    }
    assert_eq!(chain["rpc"]["http"], "healthy");
    let is_subscribed = |_: u16, health: &Value| health["chains"][0]["rpc"]["ws"] == "healthy";
    bench.until_health("the subscription", is_subscribed).await;
    // Old names, for one release.
    assert!(chain["lastSuccessSeconds"].is_number(), "{chain}");
    assert_eq!(chain["lastGoodRoundSeconds"], chain["lastSuccessSeconds"]);
    // A few failures in a row: shown, but no reason to take the node out of service.
    faults.always(RpcFault::Http500);
    let down = |_: u16, health: &Value| health["chains"][0]["rpc"]["http"] == "down";
    bench.until_health("the failure", down).await;
    let (code, body) = bench.operations("/health/ready").await;
    assert_eq!(code, 200, "{body}");
    // The process lives, and what is archived is still served.
    let (code, _) = bench.operations("/health/live").await;
    assert_eq!(code, 200);
    bench.json(&["logs", "--json", "--to", "30"]);
    faults.clear();
    let head = node.mine(3).number;
    bench
        .until_health("the recovery", |code, health| {
            let chain = &health["chains"][0];
            code == 200 && chain["lastSeenBlock"] == head && chain["error"].is_null()
        })
        .await;
    running.stop();
}
