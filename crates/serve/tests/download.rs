//! Downloads of logs: beyond the budget of one query they are read in smaller parts and nothing is missing, and where
//! their blocks are taken back meanwhile they are cut.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar_support;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::response::Response;
use chronolith_archive::{Archive, AuditEntry, Provenance, Settings};
use chronolith_finality::Tail;
use chronolith_model::{Block, ChainId};
use chronolith_serve::http::Limits;
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_stellar::Network;
use serde_json::Value;
use stellar_support::{Rpc, archived, as_evm, served};

const CHAIN: u64 = 31_337;
const BLOCKS: u64 = 150;

/// The first blocks of a chain, through its newest one.
fn blocks_of(node: &EvmNode) -> Vec<Block> {
    let blocks = (0..=node.head().number).map(|number| node.block(number).unwrap().to_model());
    blocks.collect()
}

async fn serve(blocks: &[Block], candidates: u64) -> Rpc {
    serve_archive(blocks, candidates, Limits::default()).await.0
}

/// A listener, and the archive that it answers from.
async fn serve_archive(blocks: &[Block], candidates: u64, limits: Limits) -> (Rpc, Archive) {
    let mut settings = Settings::evm(ChainId(CHAIN));
    settings.seal.grid_blocks = 32;
    settings.seal.range_blocks = 320;
    settings.seal.weight = 40;
    settings.limits.candidates_max = candidates;
    let archive = archived(&settings, blocks).await;
    let head = blocks.last().map(|block| block.clock.block_ref());
    let tail = Tail::new(usize::MAX, head).snapshot();
    let chain = served("simulated", &Network::new("a test"), archive.clone(), tail);
    (Rpc::of(vec![as_evm(CHAIN, &chain)], limits, 0), archive)
}

/// A download of which the first page is read.
async fn begin(rpc: &Rpc, query: &str) -> Response {
    let path = format!("/v1/chains/{CHAIN}/logs/download?{query}");
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = rpc.begin(request).await;
    assert_eq!(response.status(), 200, "{query}");
    response
}

/// The rest of a download; none where it is cut.
async fn rest_of(response: Response) -> Option<String> {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.ok()?;
    Some(String::from_utf8(bytes.to_vec()).unwrap())
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
    let blocks = blocks_of(&EvmNode::new(EvmSpec::tiny(612), BLOCKS));
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

/// Takes back every block after this one, and puts others there.
async fn replace(archive: &Archive, to: u64, others: &[Block]) {
    let act = "rewind".to_owned();
    archive.rewind(to, AuditEntry { at: 1, act }).await.unwrap();
    for blocks in others.chunks(7) {
        let ingested = archive.ingest_finalized_blocks(blocks.to_vec(), &Provenance::default());
        ingested.await.unwrap();
    }
}

/// Each page has a view of its own: a download that had begun ended as if it were complete, without the blocks that a
/// rewind took back, or with others that came in their place.
#[tokio::test]
async fn a_download_is_cut_where_its_blocks_are_taken_back() {
    const KEPT: u64 = 100;
    let node = EvmNode::new(EvmSpec::tiny(613), BLOCKS);
    let blocks = blocks_of(&node);
    node.reorg(BLOCKS - KEPT);
    let replaced = blocks_of(&node);
    let after = KEPT as usize + 1;
    let (none, same, others): (&[Block], _, _) = (&[], &blocks[after..], &replaced[after..]);
    let mut limits = Limits::default();
    // The first page ends long before the blocks that are taken back.
    limits.answers.results = 20;
    for (put, order, is_whole) in [
        (none, "asc", false),
        (none, "desc", false),
        (others, "asc", false),
        (others, "desc", false),
        (same, "asc", true),
        (same, "desc", true),
    ] {
        let (rpc, archive) = serve_archive(&blocks, 50_000_000, limits).await;
        let query = format!("order={order}");
        let whole = rest_of(begin(&rpc, &query).await).await.unwrap();
        assert!(whole.lines().count() > 10 * 20, "too few pages");
        let begun = begin(&rpc, &query).await;
        replace(&archive, KEPT, put).await;
        let rest = rest_of(begun).await;
        let put = put.len();
        assert_eq!(rest.is_some(), is_whole, "{order}, {put} blocks");
        assert!(rest.is_none_or(|rest| rest == whole), "{order}");
    }
}
