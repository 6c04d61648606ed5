//! A chain with an ADFS contract and nothing said of what to keep: the contract's logs and transactions are
//! fetched, proven and kept, and what is not kept is never answered with null or with less.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::collections::BTreeSet;

use chronolith_model::{Block, BlockRange};
use chronolith_sim::evm::adfs::{AdfsSpec, AdfsWhat};
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use serde_json::{Value, json};
use support::projected::{Setup, named};
use support::rpc::Rpc;
use support::{Bench, DEPTH_5, serve};

const BLOCKS: u64 = 200;

struct Followed {
    setup: Setup,
    server: RpcServer,
}

/// Follows a chain with updates to its end.
async fn follow(more: &str) -> Followed {
    let mut spec = EvmSpec::mainnet(9);
    spec.content.logs_per_block = 60;
    spec.adfs = Some(AdfsSpec { upgrade_every: 60 });
    let node = EvmNode::new(spec, BLOCKS);
    let options = RpcOptions {
        keeps_requests: true,
        ..RpcOptions::default()
    };
    let server = serve(&node, options).await;
    let contract = format!(
        r#"{DEPTH_5}, "contractAddress": "0xadadadadadadadadadadadadadadadadadadadad", "topicNames": {{
        "1": "DataFeedsUpdated(uint256)", "2": "DataFeedsUpdated(uint256,address)" }} {more}"#
    );
    let bench = Bench::new(&[server.url()], &contract);
    let [first, second] = AdfsSpec::IMPLEMENTATIONS.map(|address| hex(&address));
    let versions = format!(
        r#""versions": {{ "1": {{ "hasBlockNumber": true }}, "2": {{ "hasBlockNumber": false,
        "extraFields": ["sourceAccumulator", "destinationAccumulator"] }} }}, "implVersionMap": {{
        "{first}": {{ "version": 1 }}, "{second}": {{ "version": 2 }} }}, "chains""#
    );
    bench.change(r#""chains""#, &versions);
    let database = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    let setup = Setup::of(database, node, bench);
    setup.json(&["db", "init", "--json"]);
    Followed { setup, server }
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// Blocks that were asked for with whole transactions.
fn asked_whole(server: &RpcServer) -> BTreeSet<u64> {
    let mut whole = BTreeSet::new();
    for request in server.requests() {
        let calls: Value = serde_json::from_slice(&request).unwrap();
        let calls = calls.as_array().cloned().unwrap_or_else(|| vec![calls]);
        for call in calls {
            if call["method"] == "eth_getBlockByNumber" && call["params"][1] == true {
                let number = call["params"][0].as_str().unwrap();
                whole.insert(u64::from_str_radix(&number[2..], 16).unwrap());
            }
        }
    }
    whole
}

fn is_ours(block: &Block, index: u32) -> bool {
    let mut logs = block.logs.iter();
    logs.any(|log| log.emitter() == AdfsSpec::PROXY && log.tx_index() == index)
}

/// Every block was fetched and kept with all of its transactions.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_transactions_of_the_contract_are_fetched_and_kept() {
    let Followed { setup, server } = follow("").await;
    let running = setup.start();
    let through = setup.node.head().number - 5;
    setup
        .until_state("everything projected", |chain| {
            named(chain, "adfs")["completeThrough"] == through
        })
        .await;
    let range = BlockRange::new(0, through + 6);
    let events = setup.node.adfs(range);
    let with_logs: BTreeSet<u64> = events.iter().map(|one| one.place.block_number).collect();
    let updates = events
        .iter()
        .filter(|one| matches!(one.what, AdfsWhat::Updated { .. }));
    let expected = updates.clone().count();
    assert!(expected > 20, "{expected}");
    let sql = "SELECT count(*)::text FROM adfs_events WHERE calldata_level = 'roots'";
    setup
        .until_count("every update", sql, &[expected.to_string()])
        .await;
    let all = setup.column("SELECT count(*)::text FROM adfs_events").await;
    assert_eq!(all, [expected.to_string()]);
    assert_eq!(asked_whole(&server), with_logs);
    assert!(with_logs.len() as u64 * 2 < BLOCKS, "{}", with_logs.len());
    println!("bytes a block: {}", server.stats().bytes_out / BLOCKS);
    let rpc = Rpc::new(setup.bench.public());
    let (mut known, mut unknown) = (0, 0);
    for number in (0..=through + 5)
        .step_by(7)
        .chain(through - 3..=through + 5)
    {
        let block = setup.node.block(number).unwrap().to_model();
        for whole in [true, false] {
            let requested = json!([format!("0x{number:x}"), whole]);
            let answer = rpc.answer("eth_getBlockByNumber", requested).await;
            assert_eq!(answer["error"]["code"], 4444, "{answer}");
        }
        for tx in &block.txs {
            let hash = tx.hash.to_string();
            let answer = rpc.answer("eth_getTransactionByHash", json!([hash])).await;
            if is_ours(&block, tx.index) {
                assert_eq!(answer["result"]["hash"], hash, "{answer}");
                assert_eq!(answer["result"]["transactionIndex"], hex_number(tx.index));
                known += 1;
            } else {
                assert_eq!(answer["error"]["code"], 4444, "{answer}");
                unknown += 1;
            }
        }
    }
    assert!(known > 5 && unknown > 50, "{known} {unknown}");
    let coverage = rpc.call("chronolith_getCoverage", json!([])).await;
    for dataset in ["clock", "logs", "transactions"] {
        let intervals = &coverage["finalized"][dataset];
        assert_eq!(covered_through(intervals), Some(through), "{coverage}");
    }
    running.stop();
    let verified = setup.json(&["verify", "--json", "--against-source"]);
    assert_eq!(verified["findings"], json!([]), "{verified}");
}

/// The last block of intervals that begin at block 0 and leave none out. What the contract's chain archived was
/// reported as nothing: all logs, and all transactions, are not kept.
fn covered_through(intervals: &Value) -> Option<u64> {
    let mut last: Option<u64> = None;
    for interval in intervals.as_array().unwrap() {
        let next = last.map_or(0, |last| last + 1);
        assert_eq!(interval["from"], next, "{intervals}");
        last = interval["to"].as_u64();
    }
    last
}

fn hex_number(value: u32) -> String {
    format!("0x{value:x}")
}

/// What is asked for in so many words is kept, and served.
#[tokio::test(flavor = "multi_thread")]
async fn everything_is_kept_where_the_settings_say_so() {
    let more = r#", "datasets": ["headers", "logs", "tx_hashes"]"#;
    let Followed { setup, server } = follow(more).await;
    let running = setup.start();
    let through = setup.node.head().number - 5;
    setup
        .until_state("everything projected", |chain| {
            named(chain, "adfs")["completeThrough"] == through
        })
        .await;
    println!("bytes a block: {}", server.stats().bytes_out / BLOCKS);
    assert!(asked_whole(&server).len() as u64 >= BLOCKS);
    let rpc = Rpc::new(setup.bench.public());
    for number in [7, through, through + 5] {
        let requested = json!([format!("0x{number:x}"), true]);
        let block = rpc.call("eth_getBlockByNumber", requested).await;
        let txs = setup.node.block(number).unwrap().to_model().txs.len();
        assert_eq!(block["transactions"].as_array().unwrap().len(), txs);
    }
    running.stop();
}
