//! Whole transactions of the blocks with logs that are kept: they are proven, and no other block is
//! fetched whole.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::BTreeSet;

use bytes::Bytes;
use chronolith_evm::Body;
use chronolith_model::{
    Block, BlockRange, Dataset, DatasetSet, Proof, Scope, ScopeEntry, Verification,
};
use chronolith_sim::evm::adfs::AdfsSpec;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, RangeSettings, Strategy, Tags};
use chronolith_source::{EndpointSettings, Fetched, Source, Want};

const BLOCKS: u64 = 120;

fn node() -> EvmNode {
    let mut spec = EvmSpec::mainnet(1);
    spec.content.logs_per_block = 20;
    spec.adfs = Some(AdfsSpec { upgrade_every: 50 });
    EvmNode::new(spec, BLOCKS)
}

fn want(datasets: &[Dataset], proof: Proof) -> Want {
    Want {
        datasets: DatasetSet::of(datasets),
        scope: Scope::only(vec![ScopeEntry {
            emitter: Some(Bytes::from_static(&AdfsSpec::PROXY)),
            topic0: None,
        }]),
        proof,
    }
}

struct Asked {
    fetched: Vec<Fetched>,
    /// Blocks that were asked for whole.
    whole: BTreeSet<u64>,
    bytes: u64,
}

async fn fetch(node: &EvmNode, want: &Want, checks: Checks, step: u64) -> Asked {
    let options = RpcOptions {
        keeps_requests: true,
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let source = EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: vec![EndpointSettings::new(&server.url())],
        heads: Vec::new(),
        tags: Tags::NONE,
        strategy: Strategy::Receipts,
        checks,
        ranges: RangeSettings::default(),
    })
    .unwrap();
    let mut fetched = Vec::new();
    for start in (0..BLOCKS).step_by(step as usize) {
        // As the newest header is kept while a chain is followed.
        source.heads().await.unwrap();
        let range = BlockRange::new(start, (start + step).min(BLOCKS));
        fetched.extend(source.fetch(range, want, None).await.unwrap());
    }
    let mut whole = BTreeSet::new();
    for request in server.requests() {
        let calls: serde_json::Value = serde_json::from_slice(&request).unwrap();
        let calls = calls.as_array().cloned().unwrap_or_else(|| vec![calls]);
        for call in calls {
            if call["method"] == "eth_getBlockByNumber" && call["params"][1] == true {
                let number = call["params"][0].as_str().unwrap();
                whole.insert(u64::from_str_radix(&number[2..], 16).unwrap());
            }
        }
    }
    Asked {
        fetched,
        whole,
        bytes: server.stats().bytes_out,
    }
}

fn has_updates(block: &Block) -> bool {
    let mut logs = block.logs.iter();
    logs.any(|log| log.emitter() == AdfsSpec::PROXY)
}

/// Blocks with logs of the contract, and what is kept of each.
fn check(node: &EvmNode, requested: &Asked, txs: Verification) {
    let mut with_logs = BTreeSet::new();
    for (one, number) in requested.fetched.iter().zip(0..) {
        let theirs = node.block(number).unwrap().to_model();
        let (block, expected) = (&one.block, has_updates(&theirs));
        assert_eq!(block.clock, theirs.clock);
        with_logs.extend(expected.then_some(number));
        let named: BTreeSet<u32> = block.logs.iter().map(|log| log.tx_index()).collect();
        let listed: BTreeSet<u32> = block.txs.iter().map(|tx| tx.index).collect();
        assert_eq!((listed, block.logs.is_empty()), (named, !expected));
        let bodies = block.payload.bodies.as_ref().unwrap();
        assert_eq!(bodies.len(), block.txs.len());
        for (tx, body) in block.txs.iter().zip(bodies) {
            assert_eq!(theirs.tx_hash(tx.index), Some(tx.hash));
            let hash = Body::parse(body).unwrap().hash().unwrap();
            assert_eq!(hash.0, tx.hash.0);
        }
        assert_eq!(one.proof.txs(), txs, "block {number}");
    }
    assert_eq!(requested.fetched.len() as u64, BLOCKS);
    assert_eq!(requested.whole, with_logs);
    assert!((10..BLOCKS as usize / 2).contains(&with_logs.len()));
}

/// Every block was fetched whole, with all of its transactions, for the few that matter.
#[tokio::test(flavor = "multi_thread")]
async fn blocks_without_a_kept_log_are_not_fetched_whole() {
    let node = node();
    let named = [Dataset::Logs, Dataset::Transactions];
    let linked = want(&named, Proof::LINKED);
    let requested = fetch(&node, &linked, Checks::ALL, 40).await;
    check(&node, &requested, Verification::Roots);
    let all = [Dataset::Logs, Dataset::TxHashes, Dataset::Transactions];
    let whole = fetch(&node, &want(&all, Proof::LINKED), Checks::ALL, 40).await;
    let (few, many) = (requested.bytes / BLOCKS, whole.bytes / BLOCKS);
    println!("bytes a block: {many} with all transactions, {few} with those of kept logs");
    assert_eq!(whole.whole.len() as u64, BLOCKS);
    assert!(few < many, "{few} {many}");
}

/// By receipts as well, in batches and one by one.
#[tokio::test(flavor = "multi_thread")]
async fn more_proof_takes_no_more_whole_blocks() {
    let node = node();
    let named = [Dataset::Logs, Dataset::Transactions];
    for step in [40, 1] {
        let requested = fetch(&node, &want(&named, Proof::ROOTS), Checks::ALL, step).await;
        check(&node, &requested, Verification::Roots);
    }
}

/// Where no root is checked, nothing is said to be proven.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_root_transactions_are_claimed() {
    let node = node();
    let named = [Dataset::Logs, Dataset::Transactions];
    let checks = Checks::ALL.up_to(Verification::Receipts);
    let requested = fetch(&node, &want(&named, Proof::LINKED), checks, 40).await;
    let updates = requested
        .fetched
        .iter()
        .filter(|one| !one.block.logs.is_empty());
    assert!(updates.clone().count() > 10);
    for one in updates {
        assert_eq!(one.proof.txs(), Verification::Claimed);
    }
}
