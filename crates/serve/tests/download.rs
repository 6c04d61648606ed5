//! Downloads of logs beyond the budget of one query: they are read in smaller parts, and nothing is missing.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar_support;

use chronolith_archive::Settings;
use chronolith_finality::Tail;
use chronolith_model::{Block, ChainId};
use chronolith_serve::http::Limits;
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_stellar::Network;
use serde_json::Value;
use stellar_support::{Rpc, archived, as_evm, served};

const CHAIN: u64 = 31_337;
const BLOCKS: u64 = 150;

async fn serve(blocks: &[Block], candidates: u64) -> Rpc {
    let mut settings = Settings::evm(ChainId(CHAIN));
    settings.seal.grid_blocks = 32;
    settings.seal.range_blocks = 320;
    settings.seal.weight = 40;
    settings.limits.candidates_max = candidates;
    let archive = archived(&settings, blocks).await;
    let head = blocks.last().map(|block| block.clock.block_ref());
    let tail = Tail::new(usize::MAX, head).snapshot();
    let chain = served("simulated", &Network::new("a test"), archive, tail);
    Rpc::of(vec![as_evm(CHAIN, &chain)], Limits::default(), 0)
}

/// The lines of a download, and of those the last.
async fn download(rpc: &Rpc, query: &str) -> (u16, Vec<Value>, Value) {
    let path = format!("/v1/chains/{CHAIN}/logs/download?{query}");
    let (status, text) = rpc.text(&path).await;
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let mut lines: Vec<Value> = lines.collect();
    let last = lines.pop().unwrap_or_default();
    (status, lines, last)
}

#[tokio::test]
async fn a_query_beyond_its_budget_is_read_in_parts() {
    let node = EvmNode::new(EvmSpec::tiny(612), BLOCKS);
    let blocks = (0..=BLOCKS).map(|number| node.block(number).unwrap().to_model());
    let blocks: Vec<Block> = blocks.collect();
    let (whole, small) = (serve(&blocks, 50_000_000).await, serve(&blocks, 60).await);
    let (status, all, last) = download(&whole, "").await;
    assert_eq!((status, &last["complete"]), (200, &Value::Bool(true)));
    assert_eq!(
        all.len(),
        blocks.iter().map(|block| block.logs.len()).sum::<usize>()
    );
    let topic = all[0]["topics"][0].as_str().unwrap();
    for query in [
        String::new(),
        "order=desc".to_owned(),
        format!("topic0={topic}"),
        format!("topic0={topic}&order=desc&fromBlock=9&toBlock=140"),
    ] {
        let path = format!("/v1/chains/{CHAIN}/logs?fromBlock=0&toBlock=150&limit=10000&{query}");
        if !query.contains("fromBlock") {
            let (status, error) = small.get(&path).await;
            assert_eq!((status, &error["budget"]), (422, &"candidates".into()));
        }
        let (_, expected, _) = download(&whole, &query).await;
        let (status, logs, last) = download(&small, &query).await;
        assert_eq!(status, 200, "{query}");
        assert!(logs == expected, "{query}: {} logs", logs.len());
        assert_eq!(last["count"], expected.len(), "{query}");
    }
}
