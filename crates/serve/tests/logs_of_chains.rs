//! `/v1/logs`: one answer for several chains stays within the limits of one answer.
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

const BLOCKS: u64 = 60;

/// Serves one archive as this many chains.
async fn serve(chains: u64, limits: Limits) -> Rpc {
    let node = EvmNode::new(EvmSpec::tiny(620), BLOCKS);
    let blocks = (0..=BLOCKS).map(|number| node.block(number).unwrap().to_model());
    let blocks: Vec<Block> = blocks.collect();
    let archive = archived(&Settings::evm(ChainId(1)), &blocks).await;
    let tail = Tail::new(usize::MAX, None).snapshot();
    let chain = served("simulated", &Network::new("a test"), archive, tail);
    let chains = (1..=chains).map(|id| as_evm(id, &chain));
    Rpc::of(chains.collect(), limits, 0)
}

/// The results for all of these chains.
async fn results(rpc: &Rpc, chains: u64, more: &str) -> Vec<Value> {
    let ids: Vec<String> = (1..=chains).map(|id| id.to_string()).collect();
    let path = format!(
        "/v1/logs?fromBlock=0&toBlock={BLOCKS}&chains={}{more}",
        ids.join(",")
    );
    let (status, answer) = rpc.get(&path).await;
    assert_eq!(status, 200, "{answer}");
    let results = answer["results"].as_array().unwrap().clone();
    let named: Vec<u64> = results
        .iter()
        .map(|one| one["chainId"].as_u64().unwrap())
        .collect();
    assert_eq!(named, (1..=chains).collect::<Vec<_>>());
    results
}

fn logs_of(result: &Value) -> Option<usize> {
    result["logs"].as_array().map(Vec::len)
}

/// Only the number of logs was limited: 32 chains together had as many bytes as 32 answers.
#[tokio::test]
async fn all_chains_together_have_the_bytes_of_one_answer() {
    let most = serve(4, Limits::default()).await;
    let pages = results(&most, 4, "&limit=30").await;
    assert!(pages.iter().all(|page| logs_of(page) == Some(30)));
    let bytes = pages[0].to_string().len();
    // The bytes of a page are estimated, up to half too high.
    for (answer_bytes, fit) in [(1, 1), (bytes * 59 / 20, 2), (bytes * 8, 4)] {
        let limits = Limits {
            answer_bytes,
            ..Limits::default()
        };
        let few = results(&serve(4, limits).await, 4, "&limit=30").await;
        assert_eq!(few[..fit], pages[..fit], "{answer_bytes}");
        for page in &few[fit..] {
            let error = &page["error"];
            assert_eq!(error["code"], "TOO_LARGE", "{page}");
            assert_eq!(error["budget"], "responseBytes", "{page}");
        }
    }
}

/// Where answers are small, the default of 100 logs of each chain is more than all of them may have: a request without
/// `limit` was refused for it.
#[tokio::test]
async fn the_default_limit_fits_any_number_of_chains() {
    let mut limits = Limits::default();
    limits.answers.results = 60;
    let rpc = serve(5, limits).await;
    for (chains, logs) in [(1, 60), (2, 30), (5, 12)] {
        for page in results(&rpc, chains, "").await {
            assert_eq!(logs_of(&page), Some(logs), "{chains}: {page}");
        }
    }
    let refused = rpc.get("/v1/logs?chains=1,2&limit=31").await;
    assert_eq!(refused.0, 400, "{}", refused.1);
}
