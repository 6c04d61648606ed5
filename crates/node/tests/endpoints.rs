//! What the program reports of its endpoints: that they disagree, or that there is only one.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::Value;
use support::Bench;

const DEPTH: &str = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;

async fn serve(node: &EvmNode) -> RpcServer {
    RpcServer::start(node.clone(), RpcOptions::default())
        .await
        .unwrap()
}

fn name(server: &RpcServer) -> String {
    let url = server.url();
    url.trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned()
}

fn state(bench: &Bench) -> Value {
    bench.json(&["state", "--json"])[0].clone()
}

/// The first endpoint alone decided which chain it is: two endpoints on different forks, and the fork of
/// the first was archived without a message.
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_on_different_forks_hold_the_archive_until_they_agree() {
    let nodes = [31, 31].map(|seed| EvmNode::new(EvmSpec::tiny(seed), 60));
    nodes[1].reorg(30);
    let servers = [serve(&nodes[0]).await, serve(&nodes[1]).await];
    let bench = Bench::new(&[servers[0].url(), servers[1].url()], DEPTH);
    let running = bench.start();
    bench.wait("the hold", || bench.has("archiving_held"));
    assert_eq!(bench.head(), None, "one endpoint was enough");
    let shown = state(&bench);
    assert!(shown["trusts"].is_null(), "{shown}");
    let held = shown["held"].as_str().unwrap().to_owned();
    let (_, health) = bench.operations("/health").await;
    let log = bench.log();
    for text in [&held, &log] {
        for server in &servers {
            assert!(text.contains(&name(server)), "{text}");
        }
    }
    // Who they are is for operators.
    for server in &servers {
        assert!(!health.contains(&name(server)), "{health}");
    }
    assert!(health.contains("the endpoints disagree"), "{health}");
    let (_, health) = bench.operations("/health").await;
    let health: Value = serde_json::from_str(&health).unwrap();
    let chain = &health["chains"][0];
    assert!(chain["error"].is_string(), "{chain}");
    // Its name before, for one release.
    assert_eq!(chain["trouble"], chain["error"]);
    assert!(bench.say(&["state"]).contains("HELD"));
    let (_, metrics) = bench.operations("/metrics").await;
    let gauge = r#"chronolith_archiving_held{chain="31337"} 1"#;
    assert!(metrics.contains(gauge), "{metrics}");
    // By both names, for one release.
    for name in ["inconsistencies", "lies"] {
        let counter = format!("chronolith_endpoint_{name}_total{{chain=\"31337\"");
        assert!(metrics.contains(&counter), "no {counter} in\n{metrics}");
    }
    // The first one comes to the other's chain: archiving continues without an operator.
    nodes[0].reorg(30);
    bench.wait("the archive", || {
        bench.head() == Some(nodes[1].head().number - 5)
    });
    bench.wait("the end of the hold", || state(&bench)["held"].is_null());
    running.stop();
    let compared = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
}

/// With one endpoint nothing can be compared, and `state` reports that.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_endpoint_is_believed_and_state_reports_it() {
    let node = EvmNode::new(EvmSpec::tiny(33), 60);
    let server = serve(&node).await;
    let bench = Bench::new(&[server.url()], DEPTH);
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(state(&bench)["trusts"], "one endpoint's word");
    assert!(bench.say(&["state"]).contains("one endpoint's word"));
}
