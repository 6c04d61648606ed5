//! Readiness as a probe sees it, while the chain's node is well, slow, failing and back again.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::time::Duration;

use chronolith_sim::evm::{EvmNode, EvmSpec, FaultSizes, Faults, RpcFault, RpcOptions, RpcServer};
use serde_json::Value;
use support::Bench;

const DEPTH_5: &str = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_is_ready_after_its_first_good_round_and_a_blip_changes_nothing() {
    let node = EvmNode::new(EvmSpec::tiny(21), 60);
    let faults = Faults::new(21);
    let options = RpcOptions {
        delay: Duration::from_millis(500),
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let bench = Bench::new(&[server.url()], DEPTH_5);
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
    // A few failures in a row: shown, but no reason to take the node out of service.
    faults.always(RpcFault::Http500);
    let down = |_: u16, health: &Value| health["chains"][0]["rpc"]["http"] == "down";
    bench.until_health("the failure", down).await;
    let (code, body) = bench.operations("/health/ready").await;
    assert_eq!(code, 200, "{body}");
    faults.clear();
    let head = node.mine(3).number;
    bench
        .until_health("the recovery", |code, health| {
            code == 200 && health["chains"][0]["lastSeenBlock"] == head
        })
        .await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_round_that_fails_is_told_and_the_chain_stays_ready() {
    let node = EvmNode::new(EvmSpec::tiny(23), 40);
    let faults = Faults::new(23);
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let running = bench.start();
    bench.wait_for_listener();
    bench
        .until_health("the first good round", |code, _| code == 200)
        .await;
    // Every block comes as another one than its receipts are of, so none can be taken.
    faults.always(RpcFault::HashChange);
    node.mine(1);
    bench
        .until_health("the failed round", |code, health| {
            assert_eq!(code, 200, "{health}");
            health["chains"][0]["error"].is_string()
        })
        .await;
    faults.clear();
    bench
        .until_health("the recovery", |code, health| {
            assert_eq!(code, 200, "{health}");
            health["chains"][0]["error"].is_null()
        })
        .await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_without_a_good_round_for_long_is_not_ready_and_says_why() {
    let node = EvmNode::new(EvmSpec::tiny(22), 40);
    let faults = Faults::new(22);
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node, options).await.unwrap();
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let running = bench.start();
    bench.wait_for_listener();
    bench
        .until_health("the first good round", |code, _| code == 200)
        .await;
    faults.always(RpcFault::Http500);
    let health = bench
        .until_health("the loss of readiness", |code, _| code == 503)
        .await;
    let chain = &health["chains"][0];
    let reason = chain["notReadyReason"].as_str().unwrap();
    assert!(
        reason.starts_with("no round has ended well for 3"),
        "{reason}"
    );
    assert!(reason.contains("HTTP 500"), "{reason}");
    assert!(chain["lastSuccessSeconds"].as_u64().unwrap() >= 30);
    // Old names, for one release.
    assert_eq!(chain["lastGoodRoundSeconds"], chain["lastSuccessSeconds"]);
    assert_eq!(chain["trouble"], chain["error"]);
    // What is archived is served on, and the process lives.
    let (code, _) = bench.operations("/health/live").await;
    assert_eq!(code, 200);
    bench.json(&["logs", "--json", "--to", "30"]);
    running.stop();
}

/// A node that takes questions and never answers used to be called healthy for forty seconds, and the chain
/// to be catching up.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_hangs_is_told_long_before_it_times_out() {
    let node = EvmNode::new(EvmSpec::tiny(22), 60);
    let faults = Faults::new(22);
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node, options).await.unwrap();
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let running = bench.start();
    bench.wait_for_listener();
    bench
        .until_health("the first good round", |code, _| code == 200)
        .await;
    faults.set_sizes(FaultSizes {
        slow_answer: Duration::from_secs(60),
        ..faults.sizes()
    });
    faults.always(RpcFault::SlowAnswer);
    let hangs = |_: u16, health: &Value| {
        let chain = &health["chains"][0];
        let trouble = chain["error"].as_str().unwrap_or_default();
        chain["rpc"]["http"] == "down" && trouble.contains("the source has not answered for")
    };
    bench.until_health("the question that waits", hangs).await;
    faults.clear();
    running.stop();
}
