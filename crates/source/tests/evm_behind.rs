//! An endpoint of many nodes, some of which are behind: a block is taken without logs only where it
//! has none.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use bytes::Bytes;
use chronolith_model::{BlockRange, BlockRef, Dataset, DatasetSet, Proof, Scope, ScopeEntry};
use chronolith_sim::evm::{
    EvmNode, EvmSpec, Faults, MissingMethod, RpcFault, RpcOptions, RpcServer,
};
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, RangeSettings, Strategy, Tags};
use chronolith_source::{EndpointSettings, Fetched, Result, Source, Want};

const BLOCKS: u64 = 40;

fn options(faults: &Faults) -> RpcOptions {
    RpcOptions {
        missing_methods: vec![MissingMethod {
            name: "eth_getBlockReceipts".to_owned(),
            code: -32601,
        }],
        faults: faults.clone(),
        ..RpcOptions::default()
    }
}

async fn serve(node: &EvmNode, options: RpcOptions) -> RpcServer {
    RpcServer::start(node.clone(), options).await.unwrap()
}

fn source(server: &RpcServer, bloom: bool) -> EvmSource {
    EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: vec![EndpointSettings::new(&server.url())],
        heads: Vec::new(),
        tags: Tags::NONE,
        strategy: Strategy::Logs,
        checks: Checks {
            bloom,
            receipts_root: false,
            ..Checks::ALL
        },
        ranges: RangeSettings::default(),
    })
    .unwrap()
}

fn want(scope: &Scope) -> Want {
    Want {
        datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
        scope: scope.clone(),
        proof: Proof::LINKED,
    }
}

/// A scope of one emitter of the chain.
fn narrow(node: &EvmNode) -> Scope {
    let blocks = (0..=BLOCKS).map(|number| node.block(number).unwrap().to_model());
    let log = blocks.flat_map(|block| block.logs).next().unwrap();
    Scope::only(vec![ScopeEntry {
        emitter: Some(Bytes::copy_from_slice(log.emitter())),
        topic0: None,
    }])
}

/// How many logs of this scope came of those that there are.
fn kept(node: &EvmNode, scope: &Scope, fetched: &[Fetched]) -> (usize, usize) {
    let (mut came, mut there) = (0, 0);
    for one in fetched {
        let whole = node.block(one.block.clock.number).unwrap().to_model();
        let logs = whole.logs.iter();
        there += logs
            .filter(|log| scope.admits(log.emitter(), log.topic(0)))
            .count();
        came += one.block.logs.len();
    }
    (came, there)
}

/// The chain in parts of this many blocks.
async fn fetch(
    source: &EvmSource,
    scope: &Scope,
    step: u64,
    anchor: Option<BlockRef>,
) -> Result<Vec<Fetched>> {
    let mut fetched = Vec::new();
    for start in (0..=BLOCKS).step_by(step as usize) {
        let range = BlockRange::new(start, (start + step).min(BLOCKS + 1));
        fetched.extend(source.fetch(range, &want(scope), anchor).await?);
    }
    Ok(fetched)
}

/// Headers came from a node that has the block and its logs from one that does not: the block was
/// taken without them.
#[tokio::test(flavor = "multi_thread")]
async fn the_tail_loses_no_logs_to_a_node_that_is_behind() {
    let node = EvmNode::new(EvmSpec::tiny(1), BLOCKS);
    for (scope, bloom) in [
        (Scope::All, false),
        (narrow(&node), false),
        (narrow(&node), true),
    ] {
        for step in [1, 7] {
            let faults = Faults::new(step);
            faults.set(RpcFault::LogsBehind, 400_000);
            let server = serve(&node, options(&faults)).await;
            let fetched = fetch(&source(&server, bloom), &scope, step, None).await;
            let (came, there) = kept(&node, &scope, &fetched.unwrap());
            assert_eq!(came, there, "{scope:?}, bloom={bloom}, step={step}");
            assert!(there > 0 && faults.injected()["logs_behind"] > 0);
        }
    }
}

/// Where all nodes are behind, there is an error and no block.
#[tokio::test(start_paused = true)]
async fn a_block_whose_logs_no_endpoint_has_is_no_answer() {
    let node = EvmNode::new(EvmSpec::tiny(2), BLOCKS);
    let faults = Faults::new(1);
    faults.always(RpcFault::LogsBehind);
    let server = serve(&node, options(&faults)).await;
    let source = source(&server, false);
    let error = fetch(&source, &Scope::All, 5, None).await.unwrap_err();
    assert!(error.to_string().contains("unknown block"), "{error}");
}

/// Only the tail is confirmed, a batch at a time, and nothing that is known to be empty.
#[tokio::test(flavor = "multi_thread")]
async fn few_calls_confirm_the_tail_and_none_history() {
    let node = EvmNode::new(EvmSpec::tiny(3), BLOCKS);
    let empty = (0..=BLOCKS).map(|number| node.block(number).unwrap());
    let doubtful = empty.filter(|block| block.logs.is_empty() && !block.txs.is_empty());
    let doubtful = doubtful.count() as u64;
    assert!(doubtful > 0);
    for (anchor, bloom, confirmed) in [
        (None, false, doubtful),
        (Some(node.head()), false, 0),
        (None, true, 0),
    ] {
        let server = serve(&node, options(&Faults::new(1))).await;
        let source = source(&server, bloom);
        fetch(&source, &Scope::All, BLOCKS + 1, anchor)
            .await
            .unwrap();
        let stats = server.stats();
        assert_eq!(stats.calls["eth_getLogs"], 1 + confirmed);
        // The chain's id, logs, headers, the anchor; one more for all that is confirmed.
        assert!(stats.http_requests <= 4, "{stats:?}");
    }
}

/// Some do not take a hash: they are asked once, and believed as far as before.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_no_hashes_gets_one_query_with_them() {
    let node = EvmNode::new(EvmSpec::tiny(3), BLOCKS);
    let options = RpcOptions {
        no_block_hashes: true,
        ..options(&Faults::new(1))
    };
    let server = serve(&node, options).await;
    let source = source(&server, false);
    let scope = Scope::All;
    let fetched = fetch(&source, &scope, BLOCKS + 1, None).await.unwrap();
    let (came, there) = kept(&node, &scope, &fetched);
    assert_eq!(came, there);
    let before = server.stats().calls["eth_getLogs"];
    fetch(&source, &scope, BLOCKS + 1, None).await.unwrap();
    assert_eq!(server.stats().calls["eth_getLogs"] - before, 1);
}
