//! A chain whose blocks have logs of their own, as Celo's before it became a rollup: archived whole, and
//! served without a transaction that is none.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_model::{BlockRange, Hash32};
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use serde_json::{Value, json};
use support::rpc::Rpc;
use support::{Bench, assert_equals, serve};

/// A test network of Celo's old chain: its id says that blocks may have logs of their own.
const ALFAJORES: u64 = 44_787;
const CONFIRMATIONS: u64 = 5;

async fn call(rpc: &Rpc, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (_, answer) = rpc.post(&format!("/{ALFAJORES}"), &body).await;
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

/// No such block could be archived where transaction hashes are kept, which is the default.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_with_logs_of_their_own_are_archived_and_served() {
    for datasets in [
        "",
        r#", "datasets": ["headers", "logs", "tx_hashes", "transactions"]"#,
    ] {
        let spec = EvmSpec {
            chain_id: ALFAJORES,
            own_logs_every: 3,
            ..EvmSpec::tiny(72)
        };
        let node = EvmNode::new(spec, 50);
        let server = serve(&node, RpcOptions::default()).await;
        let depth = format!(
            r#", "finality": {{ "mode": "depth", "confirmations": {CONFIRMATIONS} }}{datasets}"#
        );
        let bench = Bench::new(&[server.url()], &depth);
        bench.change("\"chainId\": 31337", &format!("\"chainId\": {ALFAJORES}"));
        let running = bench.start();
        let final_head = node.head().number - CONFIRMATIONS;
        bench.wait("the archive", || bench.head() == Some(final_head));
        let rpc = Rpc::new(bench.public());
        // One block of the archive, one of the tail.
        let blocks = |range: std::ops::Range<u64>| {
            let blocks = range.map(|number| node.block(number).unwrap());
            let mut odd = blocks.filter(|one| one.own_receipt().is_some() && !one.txs.is_empty());
            odd.next().unwrap()
        };
        for block in [blocks(0..final_head), blocks(final_head + 1..51)] {
            assert_served(&rpc, &block.to_model(), block.hash, datasets).await;
        }
        running.stop();
        assert_equals(&bench, &node, BlockRange::new(0, final_head + 1));
        let verified = bench.json(&["verify", "--json", "--against-source"]);
        assert_eq!(verified["findings"], json!([]), "{verified}");
        assert_eq!(verified["level"], "roots");
    }
}

async fn assert_served(rpc: &Rpc, block: &chronolith_model::Block, hash: Hash32, datasets: &str) {
    let own = block.logs.iter();
    let own = own.filter(|log| block.tx_hash(log.tx_index()) == Some(hash));
    let transactions = block.txs.len() - 1;
    let logs = call(
        rpc,
        "eth_getLogs",
        json!([{ "blockHash": hash.to_string() }]),
    )
    .await;
    let logs = logs.as_array().unwrap();
    assert_eq!(logs.len(), block.logs.len());
    let named = logs.iter();
    let named = named.filter(|log| log["transactionHash"] == hash.to_string());
    let named: Vec<&Value> = named.collect();
    assert!(!named.is_empty() && named.len() == own.count());
    for log in named {
        assert_eq!(log["transactionIndex"], format!("0x{transactions:x}"));
    }
    let shown = call(rpc, "eth_getBlockByHash", json!([hash.to_string(), false])).await;
    let shown = shown["transactions"].as_array().unwrap().clone();
    assert_eq!(shown.len(), transactions);
    assert!(!shown.contains(&json!(hash.to_string())));
    let count = call(
        rpc,
        "eth_getBlockTransactionCountByHash",
        json!([hash.to_string()]),
    );
    assert_eq!(count.await, format!("0x{transactions:x}"));
    if datasets.is_empty() {
        return;
    }
    let whole = call(rpc, "eth_getBlockByHash", json!([hash.to_string(), true])).await;
    assert_eq!(
        whole["transactions"].as_array().unwrap().len(),
        transactions
    );
    // It names a block and no transaction, whatever logs say.
    let none = call(rpc, "eth_getTransactionByHash", json!([hash.to_string()])).await;
    assert_eq!(none, Value::Null);
    let first = block.txs[0].hash.to_string();
    let found = call(rpc, "eth_getTransactionByHash", json!([first])).await;
    assert_eq!(
        (&found["hash"], &found["transactionIndex"]),
        (&json!(first), &json!("0x0"))
    );
}
