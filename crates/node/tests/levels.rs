//! How levels are reported: where they are lower than the chain allows, why, and the level of the newest blocks.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::evm::{EvmNode, EvmSpec, Faults, RpcFault, RpcOptions};
use serde_json::{Value, json};
use support::rpc::Rpc;
use support::{Bench, serve};

const DEPTH: &str = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;

/// Only the log and a metric reported that a rule was dropped, and `state` called a chain whole whose
/// receipts could not be proven.
#[tokio::test(flavor = "multi_thread")]
async fn state_and_health_say_which_rules_were_dropped() {
    let node = EvmNode::new(EvmSpec::tiny(91), 60);
    // Both show the same other data: no bloom tells, and the receipts root does not fit.
    let faults = Faults::new(1);
    faults.always(RpcFault::ChangedData);
    let options = || RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let servers = [serve(&node, options()).await, serve(&node, options()).await];
    let bench = Bench::new(&[servers[0].url(), servers[1].url()], DEPTH);
    let running = bench.start();
    bench.wait("the archive", || bench.head() == Some(55));
    let shown = bench.json(&["state", "--json"])[0].clone();
    let dropped = shown["droppedRules"].as_array().unwrap();
    assert_eq!(dropped.len(), 1, "{shown}");
    assert_eq!(dropped[0]["rule"], "receipts root");
    assert!(dropped[0]["block"].as_u64().unwrap() <= 60);
    assert!(
        dropped[0]["what"]
            .as_str()
            .unwrap()
            .contains("receipts hash to")
    );
    assert_eq!(shown["allowed"]["logs"], "roots");
    let levels = &shown["covered"].as_array().unwrap().last().unwrap()["levels"];
    assert_eq!(
        (&levels["logs"], &levels["tx_hashes"]),
        (&json!("bloom"), &json!("roots"))
    );
    let text = bench.say(&["state"]);
    assert!(
        text.contains("DROPPED   rule receipts root: block "),
        "{text}"
    );
    assert!(
        text.contains("downgraded: the chain allows logs roots\n"),
        "{text}"
    );
    let (_, health) = bench.operations("/health").await;
    let health: Value = serde_json::from_str(&health).unwrap();
    // Details may have names that the endpoint chose: they are for operators.
    let mut public = shown["droppedRules"].clone();
    public[0]["what"] = json!("see `chronolith state`");
    assert_eq!(health["chains"][0]["droppedRules"], public);
    running.stop();
    // It is a matter of the process: none runs.
    let shown = bench.json(&["state", "--json"])[0].clone();
    assert_eq!(shown["droppedRules"], json!([]));
}

/// Transaction hashes that were not proven were not called downgraded, because only logs were looked at, and
/// only up to `receipts`.
#[tokio::test(flavor = "multi_thread")]
async fn state_compares_every_dataset_with_what_the_chain_allows() {
    let node = EvmNode::new(EvmSpec::tiny(92), 30);
    let server = serve(&node, RpcOptions::default()).await;
    let receipts = format!(r#"{DEPTH}, "verification": "receipts""#);
    let bench = Bench::new(&[server.url()], &receipts);
    bench.say(&["run", "--until-caught-up"]);
    // As far as the settings ask for.
    let text = bench.say(&["state"]);
    assert!(
        text.contains("logs receipts, tx_hashes claimed\n"),
        "{text}"
    );
    bench.change(r#", "verification": "receipts""#, "");
    let text = bench.say(&["state"]);
    let expected = "downgraded: the chain allows logs roots, tx_hashes roots\n";
    assert!(text.contains(expected), "{text}");
    let shown = bench.json(&["state", "--json"])[0].clone();
    let allowed =
        json!({ "clock": "linked", "headers": "linked", "logs": "roots", "tx_hashes": "roots" });
    assert_eq!(shown["allowed"], allowed);
}

/// Blocks that wait for finality were reported at the level that the settings demand, `claimed` where they
/// demand none, though each was proven before it was taken.
#[tokio::test(flavor = "multi_thread")]
async fn answers_carry_the_level_to_which_the_newest_blocks_were_proven() {
    for (more, level) in [
        ("", "roots"),
        (r#", "strategy": "logs", "verification": "bloom""#, "bloom"),
        (r#", "verification": "linked""#, "linked"),
    ] {
        let node = EvmNode::new(EvmSpec::tiny(93), 30);
        let server = serve(&node, RpcOptions::default()).await;
        let bench = Bench::new(&[server.url()], &format!("{DEPTH}{more}"));
        let running = bench.start();
        let rpc = Rpc::new(bench.public());
        rpc.until_head(30).await;
        let newest = json!([{ "fromBlock": "0x1e", "toBlock": "latest" }]);
        let page = rpc.call("chronolith_getLogs", newest).await;
        assert_eq!(page["level"], level, "{more}");
        let across = json!([{ "fromBlock": "0x1", "toBlock": "latest", "limit": 10000 }]);
        let page = rpc.call("chronolith_getLogs", across).await;
        assert_eq!(page["level"], level, "{more}");
        let (_, page) = rpc
            .get("/v1/chains/31337/logs?fromBlock=30&toBlock=30")
            .await;
        assert_eq!(page["level"], level, "{more}");
        let covered = rpc.call("chronolith_getCoverage", json!([])).await;
        assert_eq!(covered["tail"]["level"], level, "{more}: {covered}");
        running.stop();
    }
}
