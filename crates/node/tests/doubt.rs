//! What the program does not believe on the first word of one endpoint.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::evm::{EvmNode, EvmSpec, Faults, RpcFault, RpcOptions, RpcServer};
use support::Bench;

const REORG: &str = "\"message\":\"reorg\"";

/// A node that is syncing shows a chain of long ago: a deep reorg on its word is none.
#[tokio::test(flavor = "multi_thread")]
async fn a_deep_reorg_of_a_node_that_is_syncing_waits_until_it_is_not() {
    let node = EvmNode::new(EvmSpec::tiny(21), 300);
    let faults = Faults::new(1);
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let depth = r#", "finality": { "mode": "depth", "confirmations": 200 }"#;
    let bench = Bench::new(&[server.url()], depth);
    let running = bench.start();
    bench.wait("the first head", || bench.head() == Some(100));
    let asked = server.stats().calls["eth_syncing"];
    assert_eq!(
        asked, 1,
        "once at the start, not with every look at the head"
    );
    // A shallow reorg needs no question.
    node.reorg(10);
    bench.wait("the shallow reorg", || {
        bench.log().matches(REORG).count() == 1
    });
    assert_eq!(server.stats().calls["eth_syncing"], asked);
    faults.always(RpcFault::Syncing);
    node.reorg(100);
    let said = "deep reorg from an endpoint that is syncing";
    bench.wait("the doubt", || bench.log().contains(said));
    let (code, health) = bench.operations("/health").await;
    assert!(code == 503 && health.contains(said), "{health}");
    assert_eq!(bench.log().matches(REORG).count(), 1, "it was followed");
    faults.clear();
    bench.wait("the deep reorg", || bench.log().matches(REORG).count() == 2);
    let head = node.mine(10).number;
    bench.wait("the head after it", || bench.head() == Some(head - 200));
    running.stop();
    let compared = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
    // At the start it is told, for people.
    faults.always(RpcFault::Syncing);
    let told = bench.output(&["run", "--until-caught-up"]);
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("says that it is syncing"), "{told}");
}
