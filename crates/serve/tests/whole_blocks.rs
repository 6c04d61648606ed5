//! Blocks with whole transactions are made a few at a time, as answers to queries are.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar_support;

use chronolith_archive::Settings;
use chronolith_finality::Tail;
use chronolith_model::ChainId;
use chronolith_serve::http::Limits;
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_stellar::Network;
use serde_json::json;
use stellar_support::{Rpc, archived, as_evm, served};

const CHAIN: u64 = 31_337;
const BLOCKS: u64 = 20;

/// A listener whose tail has all blocks.
async fn serve(queries_at_once: usize) -> Rpc {
    let node = EvmNode::new(EvmSpec::tiny(614), BLOCKS);
    let mut tail = Tail::new(usize::MAX, None);
    for number in 0..=BLOCKS {
        let made = node.block(number).unwrap();
        let mut block = made.to_model();
        let bodies = made.txs.iter().map(|tx| tx.encoded(node.chain_id()).into());
        block.payload.bodies = Some(bodies.collect());
        block.payload.header = Some(made.encoded_header());
        tail.push(block).unwrap();
    }
    let archive = archived(&Settings::evm(ChainId(CHAIN)), &[]).await;
    let network = Network::new("a test");
    let chain = served("simulated", &network, archive, tail.snapshot());
    let limits = Limits {
        queries_at_once,
        ..Limits::default()
    };
    let mut rpc = Rpc::of(vec![as_evm(CHAIN, &chain)], limits, 0);
    rpc.place = format!("/{CHAIN}");
    rpc
}

/// Any number of them used to be made at once, and each has megabytes.
#[tokio::test(start_paused = true)]
async fn blocks_with_whole_transactions_wait_for_their_turn() {
    let rpc = serve(0).await;
    let path = format!("/v1/chains/{CHAIN}/blocks/7");
    let (status, block) = rpc.get(&path).await;
    assert_eq!(status, 200, "{block}");
    let (status, error) = rpc.get(&format!("{path}?transactions=full")).await;
    assert_eq!((status, &error["code"]), (503, &json!("BUSY")));
    for (method, which) in [
        ("eth_getBlockByNumber", json!("0x7")),
        ("eth_getBlockByHash", block["hash"].clone()),
    ] {
        assert_eq!(rpc.result(method, json!([which, false])).await, block);
        let (code, message) = rpc.refused(method, json!([which, true])).await;
        assert_eq!(code, -32_005, "{method}: {message}");
    }
}

#[tokio::test]
async fn a_block_has_the_same_transactions_whole() {
    let rpc = serve(1).await;
    let mut count = 0;
    for number in 0..=BLOCKS {
        let path = format!("/v1/chains/{CHAIN}/blocks/{number}");
        let (_, block) = rpc.get(&path).await;
        let (status, whole) = rpc.get(&format!("{path}?transactions=full")).await;
        assert_eq!(status, 200, "{whole}");
        let params = json!([format!("0x{number:x}"), true]);
        assert_eq!(rpc.result("eth_getBlockByNumber", params).await, whole);
        let hashes = block["transactions"].as_array().unwrap();
        let transactions = whole["transactions"].as_array().unwrap();
        let own: Vec<_> = transactions.iter().map(|one| one["hash"].clone()).collect();
        assert_eq!(own, *hashes, "block {number}");
        count += own.len();
    }
    assert!(count > 0, "no block has transactions");
}
