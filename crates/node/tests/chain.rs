//! `chronolith chain`: what an endpoint's chain allows to prove, and blocks written to files.
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

async fn serve() -> RpcServer {
    let node = EvmNode::new(EvmSpec::mainnet(3), 60);
    RpcServer::start(node, RpcOptions::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_says_which_roots_hold() {
    let server = serve().await;
    let bench = Bench::new(&[], "");
    let output = bench.output(&["chain", "probe", &server.url(), "--json"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["chainId"], 31_337);
    assert_eq!(answer["verification"], "roots");
    let blocks = answer["blocks"].as_array().unwrap();
    assert!(blocks.len() >= 5, "{answer}");
    for block in blocks {
        assert_eq!(block["headerForm"], "ethereum", "{block}");
        assert_eq!(block["transactionsRoot"], true, "{block}");
    }
    let table = bench.output(&["chain", "probe", &server.url(), "--block", "7"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("verification: roots"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_blocks_are_what_the_endpoint_showed() {
    let server = serve().await;
    let bench = Bench::new(&[], "");
    let out = bench.dir.path().join("recorded");
    let dir = out.to_str().unwrap();
    let output = bench.output(&[
        "chain",
        "record",
        &server.url(),
        "--block",
        "9",
        "--out",
        dir,
    ]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let read = |what: &str| {
        let text = std::fs::read_to_string(out.join(format!("31337/9.{what}.json"))).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    assert_eq!(read("block")["number"], "0x9");
    let txs = read("block")["transactions"].as_array().unwrap().len();
    assert_eq!(read("receipts").as_array().unwrap().len(), txs);
    let missing = bench.output(&[
        "chain",
        "record",
        &server.url(),
        "--block",
        "999",
        "--out",
        dir,
    ]);
    assert_eq!(missing.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(stderr.contains("block 999"), "{stderr}");
}
