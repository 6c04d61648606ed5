//! Tags of answers that caches keep: they change with what the answers are made from.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod stellar_support;

use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use chronolith_archive::{Archive, Fill, Provenance, Settings};
use chronolith_finality::Tail;
use chronolith_model::{Block, BlockRange, ChainId, Dataset, DatasetSet, Scope};
use chronolith_serve::http::Limits;
use chronolith_sim::evm::{EvmNode, EvmSpec};
use chronolith_stellar::Network;
use stellar_support::{Rpc, archived, as_evm, served};

const CHAIN: u64 = 31_337;
const BLOCKS: u64 = 60;

fn listen(archive: &Archive) -> Rpc {
    let tail = Tail::new(usize::MAX, None).snapshot();
    let chain = served("simulated", &Network::new("a test"), archive.clone(), tail);
    Rpc::of(vec![as_evm(CHAIN, &chain)], Limits::default(), 0)
}

/// Status, tag and body of the answer to a client that has the one with this tag.
async fn ask(rpc: &Rpc, known: &str) -> (u16, String, Vec<u8>) {
    let path = format!("/v1/chains/{CHAIN}/logs?fromBlock=1&toBlock=50&limit=1000");
    let request = Request::get(path).header(header::IF_NONE_MATCH, known);
    let answer = rpc.begin(request.body(Body::empty()).unwrap()).await;
    let (parts, body) = answer.into_parts();
    let control = parts.headers[header::CACHE_CONTROL].to_str().unwrap();
    assert!(control.ends_with("immutable"), "{control}");
    let tag = parts.headers[header::ETAG].to_str().unwrap().to_owned();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (parts.status.as_u16(), tag, body.to_vec())
}

async fn finish(mut fill: Fill, blocks: &[Block]) {
    let range = fill.range();
    let part = &blocks[range.start as usize..range.end as usize];
    fill.push(part.to_vec(), &Provenance::default())
        .await
        .unwrap();
    fill.finish().await.unwrap();
}

/// A fill is no act of an operator that is recorded: what it changed was confirmed as unchanged.
#[tokio::test]
async fn a_fill_that_changes_logs_changes_their_tag() {
    let node = EvmNode::new(EvmSpec::tiny(621), BLOCKS);
    let blocks = (0..=BLOCKS).map(|number| node.block(number).unwrap().to_model());
    let whole: Vec<Block> = blocks.collect();
    // As an endpoint may claim them, with the same hashes.
    let mut lacking = whole.clone();
    lacking.iter_mut().for_each(|block| {
        block.logs.pop();
    });
    let mut settings = Settings::evm(ChainId(CHAIN));
    settings.datasets = DatasetSet::of(&[Dataset::Logs]);
    let archive = archived(&settings, &lacking[BLOCKS as usize..]).await;
    // Logs are read from the copy that reaches further.
    for start in (0..BLOCKS).step_by(8) {
        let part = BlockRange::new(start, BLOCKS.min(start + 8));
        finish(archive.fill(part).unwrap(), &lacking).await;
    }
    let rpc = listen(&archive);
    let (status, tag, page) = ask(&rpc, "\"unknown\"").await;
    assert_eq!(status, 200);
    assert_eq!(ask(&rpc, &tag).await.0, 304);
    let range = BlockRange::new(0, BLOCKS);
    let datasets = settings.datasets.with(Dataset::TxHashes);
    let fill = archive.fill_with(range, datasets, Scope::All).unwrap();
    finish(fill, &whole).await;
    let (status, changed, other) = ask(&rpc, &tag).await;
    assert_ne!(other, page, "the fill is not read");
    assert_eq!(status, 200);
    assert_ne!(changed, tag);
}
