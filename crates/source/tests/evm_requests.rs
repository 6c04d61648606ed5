//! How much is asked of a node for a stretch of history, whatever it allows at once.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use chronolith_model::{
    Block, BlockRange, Dataset, DatasetSet, Log, Payload, Proof, Scope, ScopeEntry, Verification,
};
use chronolith_sim::evm::{EvmNode, EvmSpec, Faults, RpcFault, RpcOptions, RpcServer};
use chronolith_source::evm::{Checks, EvmSettings, EvmSource, RangeSettings, Strategy, Tags};
use chronolith_source::{EndpointSettings, Source, Want};

const BLOCKS: u64 = 3_000;

/// Fetches the whole chain as a node does, and returns how many requests that took.
async fn fetch(node: &EvmNode, options: RpcOptions, strategy: Strategy) -> u64 {
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let source = EvmSource::new(EvmSettings {
        chain_id: 31_337,
        endpoints: vec![EndpointSettings::new(&server.url())],
        heads: Vec::new(),
        tags: Tags::NONE,
        strategy,
        // Whole transactions would make other requests of it.
        checks: Checks::ALL.up_to(Verification::Receipts),
        ranges: RangeSettings::default(),
    })
    .unwrap();
    let want = Want {
        datasets: DatasetSet::of(&[Dataset::Logs, Dataset::TxHashes]),
        scope: Scope::All,
        proof: Proof::LINKED,
    };
    let end = node.head().number;
    let mut next = 0;
    while next < end {
        let blocks = source.plan(&want).blocks;
        let range = BlockRange::new(next, (next + blocks).min(end));
        let fetched = source.fetch_some(range, &want, None).await.unwrap();
        assert!(!fetched.is_empty() && fetched.len() as u64 <= range.len());
        for one in fetched {
            let expected = Block {
                payload: Payload::default(),
                ..node.block(next).unwrap().to_model()
            };
            assert_eq!(one.block, expected, "block {next}");
            next += 1;
        }
    }
    server.stats().http_requests
}

/// Requests that fail cost what they asked for and no more: an endpoint that fails every fifth time
/// could otherwise never deliver a range of dozens of requests.
#[tokio::test(flavor = "multi_thread")]
async fn what_came_before_a_failure_is_kept() {
    let node = EvmNode::new(EvmSpec::tiny(1), 600);
    for (strategy, least) in [(Strategy::Receipts, 100), (Strategy::Logs, 56)] {
        let faults = Faults::new(3);
        faults.set(RpcFault::Http500, 200_000);
        let options = RpcOptions {
            max_batch: Some(12),
            max_block_range: Some(100),
            faults: faults.clone(),
            ..RpcOptions::default()
        };
        let sent = fetch(&node, options, strategy).await;
        assert!(faults.injected()["http_500"] > 5, "{strategy:?}");
        assert!((least..2 * least).contains(&sent), "{strategy:?}: {sent}");
    }
}

fn dense() -> EvmNode {
    let mut spec = EvmSpec::mainnet(1);
    spec.content.logs_per_block = 20;
    EvmNode::new(spec, BLOCKS)
}

#[tokio::test(flavor = "multi_thread")]
async fn not_many_more_requests_are_sent_than_the_limits_need() {
    let node = dense();
    // Of 20 logs a block, 1,000 are in 50 blocks: 60 calls for logs, and 30 batches of headers.
    let options = RpcOptions {
        max_block_range: Some(2_000),
        max_results: Some(1_000),
        max_batch: Some(100),
        ..RpcOptions::default()
    };
    let sent = fetch(&node, options, Strategy::Logs).await;
    assert!((90..=145).contains(&sent), "{sent} requests for logs");
    // Headers and receipts of 100 blocks in a request each.
    let sent = fetch(&node, RpcOptions::default(), Strategy::Receipts).await;
    assert!((60..=66).contains(&sent), "{sent} requests for receipts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_few_calls_at_once_is_sent_few() {
    let node = dense();
    for strategy in [Strategy::Logs, Strategy::Receipts] {
        let options = RpcOptions {
            max_batch: Some(7),
            ..RpcOptions::default()
        };
        let sent = fetch(&node, options, strategy).await;
        // 100 calls, 50, 25 and 12 are too many; 6 are not. Those under way together learn together.
        let calls = BLOCKS * if strategy == Strategy::Logs { 1 } else { 2 };
        let least = calls.div_ceil(6);
        assert!(
            (least..least + least / 2).contains(&sent),
            "{sent} requests, least {least}"
        );
    }
}

/// Such a node was asked for batches forever, and no range ever came from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_refuses_batches_is_sent_single_calls() {
    let node = EvmNode::new(EvmSpec::tiny(4), 60);
    for (strategy, single) in [(Strategy::Logs, 1 + 60), (Strategy::Receipts, 2 * 60)] {
        let options = RpcOptions {
            no_batches: true,
            ..RpcOptions::default()
        };
        let sent = fetch(&node, options, strategy).await;
        // Its chain id, each call alone, and the batches by which it is learned.
        assert!((single..single + 4).contains(&sent), "{strategy:?}: {sent}");
    }
}

/// Ten thousand whole blocks were held at once, and as many headers where nothing told how heavy
/// they are.
#[tokio::test(flavor = "multi_thread")]
async fn parts_of_whole_blocks_are_small() {
    let node = EvmNode::new(EvmSpec::tiny(5), 300);
    let options = RpcOptions::default();
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let (logs, bodies) = (Dataset::Logs, Dataset::Transactions);
    for (datasets, planned, fetched) in [
        (&[logs, bodies][..], 100, 100),
        (&[bodies], 100, 100),
        (&[Dataset::Headers], 2_000, 300),
        (&[logs], 2_000, 300),
    ] {
        let source = EvmSource::new(EvmSettings {
            chain_id: 31_337,
            endpoints: vec![EndpointSettings::new(&server.url())],
            heads: Vec::new(),
            tags: Tags::NONE,
            strategy: Strategy::Logs,
            // Whole transactions would make other requests of it.
            checks: Checks::ALL.up_to(Verification::Receipts),
            ranges: RangeSettings::default(),
        })
        .unwrap();
        let want = Want {
            datasets: DatasetSet::of(datasets),
            scope: Scope::All,
            proof: Proof::LINKED,
        };
        assert_eq!(source.plan(&want).blocks, planned, "{datasets:?}");
        let range = BlockRange::new(0, 300);
        let blocks = source.fetch_some(range, &want, None).await.unwrap();
        assert_eq!(blocks.len(), fetched, "{datasets:?}");
    }
}

/// A scope that no log of the first blocks is of, and that the blooms of many of them allow.
fn bloom_only(node: &EvmNode, blocks: u64) -> Scope {
    let pair = |log: &Log| {
        let topic0 = log.topics().next().map(Bytes::copy_from_slice);
        Some((Bytes::copy_from_slice(log.emitter()), topic0?))
    };
    let logs = (0..blocks).flat_map(|number| node.block(number).unwrap().to_model().logs);
    let pairs: Vec<(Bytes, Bytes)> = logs.filter_map(|log| pair(&log)).collect();
    let mut by_emitter: BTreeMap<&Bytes, BTreeSet<&Bytes>> = BTreeMap::new();
    let mut counts: BTreeMap<&Bytes, usize> = BTreeMap::new();
    for (emitter, topic0) in &pairs {
        by_emitter.entry(emitter).or_default().insert(topic0);
        *counts.entry(emitter).or_default() += 1;
        *counts.entry(topic0).or_default() += 1;
    }
    let often = |value: &&Bytes| counts[*value] > 100;
    let topics: BTreeSet<&Bytes> = pairs.iter().map(|pair| &pair.1).filter(often).collect();
    let emitters = by_emitter.iter().filter(|(emitter, _)| often(emitter));
    let entries = emitters.flat_map(|(emitter, own)| {
        topics.difference(own).map(|topic0| ScopeEntry {
            emitter: Some((*emitter).clone()),
            topic0: Some((*topic0).clone()),
        })
    });
    Scope::only(entries.collect())
}

/// Each block whose bloom allows a log of the scope took two requests of its own.
#[tokio::test(flavor = "multi_thread")]
async fn receipts_of_blocks_in_doubt_are_requested_together() {
    let node = dense();
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
        strategy: Strategy::Logs,
        checks: Checks::ALL.up_to(Verification::Receipts),
        ranges: RangeSettings::default(),
    })
    .unwrap();
    let want = Want {
        datasets: DatasetSet::of(&[Dataset::Logs]),
        scope: bloom_only(&node, 500),
        proof: Proof::LINKED,
    };
    let range = BlockRange::new(0, 500);
    let fetched = source.fetch(range, &want, None).await.unwrap();
    assert_eq!(fetched.len() as u64, range.len());
    assert!(fetched.iter().all(|one| one.block.logs.is_empty()));
    let proven = |one: &&chronolith_source::Fetched| one.proof.logs() == Verification::Receipts;
    let by_receipts = fetched.iter().filter(proven).count();
    assert!(by_receipts > 50, "{by_receipts} blocks were in doubt");
    let requests = server.requests();
    let of_receipts = requests.iter().filter(|request| {
        let text = String::from_utf8_lossy(request);
        text.contains("eth_getBlockReceipts")
    });
    // 500 blocks are five batches, and the first ranges may be smaller.
    let sent = of_receipts.count();
    assert!((1..=8).contains(&sent), "{sent} requests");
}
