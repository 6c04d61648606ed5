//! `chronolith serve` beside the process that writes: new states are served, with --follow the newest blocks
//! too. That a state shows within a second is proven under paused time (`follower/tests/replica.rs`).
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::time::{Duration, Instant};

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use serde_json::json;
use support::rpc::Rpc;
use support::{Bench, DEPTH_5, PATIENCE, serve};

#[tokio::test(flavor = "multi_thread")]
async fn readers_follow_what_another_process_writes() {
    let node = EvmNode::new(EvmSpec::tiny(31), 100);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.refused(&["serve"], "there is no archive");
    let writer = bench.start();
    let written = Rpc::new(bench.public());
    written.until_head(100).await;
    bench.wait("the archive", || bench.head() == Some(95));
    let reader = bench.start_with(&["serve"], &[]);
    bench.wait("the reader", || bench.has("archives_served"));
    bench.wait("its listener", || bench.public() != written.base);
    let read = Rpc::new(bench.public());
    assert_eq!(read.head().await, Some(95), "no tail");
    let follower = bench.start_with(&["serve", "--follow"], &[]);
    bench.wait("its listener", || {
        let now = bench.public();
        now != written.base && now != read.base
    });
    let followed = Rpc::new(bench.public());
    followed.until_head(100).await;
    for _ in 0..5 {
        node.reorg(3);
        let head = node.head().number;
        written.until_head(head).await;
        followed.until_head(head).await;
        bench.wait("the archive", || bench.head() == Some(head - 5));
        read.until_head(head - 5).await;
        let range = json!([{ "fromBlock": "earliest", "toBlock": "latest" }]);
        let tip = written.call("eth_getLogs", range.clone()).await;
        assert_eq!(followed.call("eth_getLogs", range.clone()).await, tip);
        let archived = json!([{ "fromBlock": "earliest", "toBlock": "finalized" }]);
        let archived = written.call("eth_getLogs", archived).await;
        assert_eq!(read.call("eth_getLogs", range).await, archived);
    }
    // A reader knows no source: whether there is a later block it cannot say.
    let (status, answer) = read.get("/v1/chains/31337/block/before/99999999999").await;
    assert_eq!(
        (status, &answer["error"]["code"]),
        (409, &json!("NOT_INDEXED_YET"))
    );
    assert_eq!(answer["error"]["indexedUpTo"], node.head().number - 5);
    assert_unknown_hash(&read, node.head().number - 5, [&written, &followed]).await;
    for (rpc, lag) in [(&written, 0), (&read, 5), (&followed, 0)] {
        assert_samples(rpc, node.head().number - lag).await;
    }
    // The writer ends; readers continue.
    writer.stop();
    assert_eq!(read.head().await, Some(node.head().number - 5));
    // What an operator takes back is final nowhere any more, tail or not.
    bench.say(&["rewind", "--to", "60", "--reason", "a test"]);
    read.until_head(60).await;
    followed
        .until(
            "eth_getBlockByNumber",
            json!(["finalized", false]),
            |block| block["number"] == "0x3c",
        )
        .await;
    followed.until_head(node.head().number).await;
    let whole = json!([{ "fromBlock": "earliest", "toBlock": "latest" }]);
    let logs = followed.call("eth_getLogs", whole).await;
    let blocks = (0..=node.head().number).map(|number| node.block(number).unwrap().to_model());
    let wanted: usize = blocks.map(|block| block.logs.len()).sum();
    assert_eq!(logs.as_array().unwrap().len(), wanted);
    reader.stop();
    follower.stop();
}

/// Whether a later block has a hash a reader cannot say either; whoever follows the source can.
async fn assert_unknown_hash(reader: &Rpc, head: u64, knowing: [&Rpc; 2]) {
    let unknown = json!([format!("0x{}", "11".repeat(32)), false]);
    let answer = reader.answer("eth_getBlockByHash", unknown.clone()).await;
    assert_eq!(answer["error"]["code"], -32_000, "{answer}");
    let data = json!({ "indexedUpTo": head, "sourceHead": null });
    assert_eq!(answer["error"]["data"], data, "{answer}");
    for knowing in knowing {
        let found = knowing.call("eth_getBlockByHash", unknown.clone()).await;
        assert_eq!(found, json!(null));
    }
}

/// Charts have samples of every process, of its own heads.
async fn assert_samples(rpc: &Rpc, head: u64) {
    let began = Instant::now();
    let history = loop {
        let (status, history) = rpc.get("/v1/chains/31337/history").await;
        assert_eq!(status, 200, "{history}");
        let samples = history["samples"].as_array().unwrap();
        if !samples.is_empty() {
            break history;
        }
        assert!(began.elapsed() < PATIENCE, "no sample: {history}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(history["chainId"], 31_337);
    for sample in history["samples"].as_array().unwrap() {
        let number = |field: &str| sample[field].as_u64().unwrap();
        assert!(number("at") > 1_700_000_000, "{sample}");
        assert!(number("head") <= head, "{sample}");
        assert!(number("archived") <= number("head"), "{sample}");
        assert!(
            number("lagSeconds") > 0,
            "the simulated chain is of 2020: {sample}"
        );
        assert!(sample["blocks"].is_u64(), "{sample}");
    }
}
