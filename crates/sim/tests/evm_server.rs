//! The simulated node on the wire, seen by a raw client: what it serves proves itself, filters
//! and limits are those of real nodes, reorgs and new heads are told.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod wire;

use std::time::{Duration, Instant};

use alloy_consensus::proofs::calculate_receipt_root;
use alloy_consensus::{Eip658Value, Header, Receipt, ReceiptEnvelope, ReceiptWithBloom};
use alloy_primitives::{Address, B64, B256, Bloom, Bytes, LogData, U256};
use chronolith_model::BlockRange;
use chronolith_sim::evm::{Era, EvmNode, EvmSpec, MissingMethod, RateLimit, RpcOptions, RpcServer};
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use wire::{call, hex, number, post, request, result};

async fn start(spec: EvmSpec, blocks: u64) -> (EvmNode, RpcServer) {
    with(spec, blocks, RpcOptions::default()).await
}

async fn with(spec: EvmSpec, blocks: u64, options: RpcOptions) -> (EvmNode, RpcServer) {
    let node = EvmNode::new(spec, blocks);
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    (node, server)
}

fn data(value: &Value) -> Vec<u8> {
    let digits = value.as_str().unwrap().strip_prefix("0x").unwrap();
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn hash(value: &Value) -> B256 {
    B256::from_slice(&data(value))
}

fn header(block: &Value) -> Header {
    let optional = |key: &str| block.get(key).map(number);
    let optional_hash = |key: &str| block.get(key).map(hash);
    Header {
        parent_hash: hash(&block["parentHash"]),
        ommers_hash: hash(&block["sha3Uncles"]),
        beneficiary: Address::from_slice(&data(&block["miner"])),
        state_root: hash(&block["stateRoot"]),
        transactions_root: hash(&block["transactionsRoot"]),
        receipts_root: hash(&block["receiptsRoot"]),
        logs_bloom: Bloom::from_slice(&data(&block["logsBloom"])),
        difficulty: U256::from(number(&block["difficulty"])),
        number: number(&block["number"]),
        gas_limit: number(&block["gasLimit"]),
        gas_used: number(&block["gasUsed"]),
        timestamp: number(&block["timestamp"]),
        extra_data: Bytes::from(data(&block["extraData"])),
        mix_hash: hash(&block["mixHash"]),
        nonce: B64::from_slice(&data(&block["nonce"])),
        base_fee_per_gas: optional("baseFeePerGas"),
        withdrawals_root: optional_hash("withdrawalsRoot"),
        blob_gas_used: optional("blobGasUsed"),
        excess_blob_gas: optional("excessBlobGas"),
        parent_beacon_block_root: optional_hash("parentBeaconBlockRoot"),
        requests_hash: optional_hash("requestsHash"),
        ..Header::default()
    }
}

fn receipt(value: &Value) -> ReceiptEnvelope {
    let log = |log: &Value| alloy_primitives::Log {
        address: Address::from_slice(&data(&log["address"])),
        data: LogData::new(
            log["topics"].as_array().unwrap().iter().map(hash).collect(),
            data(&log["data"]).into(),
        )
        .unwrap(),
    };
    let receipt: ReceiptWithBloom<Receipt> = Receipt {
        status: Eip658Value::Eip658(number(&value["status"]) == 1),
        cumulative_gas_used: number(&value["cumulativeGasUsed"]),
        logs: value["logs"].as_array().unwrap().iter().map(log).collect(),
    }
    .into();
    assert_eq!(
        receipt.logs_bloom,
        Bloom::from_slice(&data(&value["logsBloom"]))
    );
    match number(&value["type"]) {
        0 => ReceiptEnvelope::Legacy(receipt),
        2 => ReceiptEnvelope::Eip1559(receipt),
        other => panic!("type {other}"),
    }
}

/// Where a log says that it is, and what it must have besides.
fn check_place(log: &Value, block: &Value) {
    for (of_log, of_block) in [
        ("blockHash", "hash"),
        ("blockNumber", "number"),
        ("blockTimestamp", "timestamp"),
    ] {
        assert_eq!(log[of_log], block[of_block]);
    }
    assert_eq!(log["removed"], false);
    let index = number(&log["transactionIndex"]) as usize;
    assert_eq!(log["transactionHash"], block["transactions"][index]);
}

#[tokio::test]
async fn what_is_served_proves_itself() {
    for era in [Era::London, Era::Cancun, Era::Prague] {
        let spec = EvmSpec {
            era,
            ..EvmSpec::tiny(1)
        };
        let (node, server) = start(spec, 40).await;
        let url = server.url();
        let mut parent = json!(format!("0x{}", "0".repeat(64)));
        let mut logs_seen = 0;
        for at in 0..=40 {
            let block = result(&url, "eth_getBlockByNumber", json!([hex(at), false])).await;
            assert_eq!(hash(&block["hash"]), header(&block).hash_slow());
            assert_eq!(block["parentHash"], parent);
            parent = block["hash"].clone();
            let by_hash = result(&url, "eth_getBlockByHash", json!([block["hash"], false])).await;
            assert_eq!(by_hash, block);
            let receipts = result(&url, "eth_getBlockReceipts", json!([hex(at)])).await;
            let by_hash = result(&url, "eth_getBlockReceipts", json!([block["hash"]])).await;
            assert_eq!(by_hash, receipts);
            let receipts = receipts.as_array().unwrap();
            assert_eq!(
                receipts.len(),
                block["transactions"].as_array().unwrap().len()
            );
            let envelopes: Vec<_> = receipts.iter().map(receipt).collect();
            assert_eq!(
                hash(&block["receiptsRoot"]),
                calculate_receipt_root(&envelopes)
            );
            let bloom = envelopes
                .iter()
                .fold(Bloom::ZERO, |bloom, one| bloom | *one.logs_bloom());
            assert_eq!(Bloom::from_slice(&data(&block["logsBloom"])), bloom);
            let logs = receipts
                .iter()
                .flat_map(|one| one["logs"].as_array().unwrap());
            for (index, log) in logs.enumerate() {
                check_place(log, &block);
                assert_eq!(number(&log["logIndex"]), index as u64);
                logs_seen += 1;
            }
        }
        let oracle = node.oracle(BlockRange::new(0, 41));
        let expected: usize = oracle.blocks().map(|block| block.logs.len()).sum();
        assert!(logs_seen == expected && expected > 0);
    }
}

/// The logs of all receipts of a range: what any filter is compared with.
async fn all_logs(url: &str, from: u64, to: u64) -> Vec<Value> {
    let mut logs = Vec::new();
    for at in from..=to {
        let receipts = result(url, "eth_getBlockReceipts", json!([hex(at)])).await;
        for receipt in receipts.as_array().unwrap() {
            logs.extend(receipt["logs"].as_array().unwrap().iter().cloned());
        }
    }
    logs
}

/// The filter as a sentence: OR inside, AND across, at least as many topics as positions.
fn wants(filter: &Value, log: &Value) -> bool {
    let admits = |wanted: &Value, value: &Value| match wanted {
        Value::Null => true,
        Value::Array(list) => {
            list.is_empty() || list.contains(&Value::Null) || list.contains(value)
        }
        one => one == value,
    };
    let topics = filter["topics"].as_array().cloned().unwrap_or_default();
    let has = log["topics"].as_array().unwrap();
    admits(&filter["address"], &log["address"])
        && topics.len() <= has.len()
        && topics
            .iter()
            .zip(has)
            .all(|(wanted, topic)| admits(wanted, topic))
}

#[tokio::test]
async fn get_logs_is_a_filter_over_receipts() {
    let (node, server) = start(EvmSpec::tiny(2), 60).await;
    let url = server.url();
    let all = all_logs(&url, 0, 60).await;
    let (a, b) = (&all[0]["address"], &all[all.len() - 1]["address"]);
    let rich = all
        .iter()
        .find(|log| log["topics"].as_array().unwrap().len() == 4)
        .unwrap();
    let (t0, t1, t3) = (&rich["topics"][0], &rich["topics"][1], &rich["topics"][3]);
    let absent = json!(format!("0x{}", "77".repeat(32)));
    let filters = [
        json!({}),
        json!({ "address": a }),
        json!({ "address": [a, b, a] }),
        json!({ "address": [], "topics": [] }),
        json!({ "address": null, "topics": [null] }),
        json!({ "topics": [t0] }),
        json!({ "topics": [[t0, t1]] }),
        json!({ "topics": [t0, null] }),
        json!({ "topics": [[], [t1]] }),
        json!({ "topics": [[t0, null], t1] }),
        json!({ "topics": [null, null, null, t3] }),
        json!({ "topics": [null, null, null, null] }),
        json!({ "address": rich["address"], "topics": [t0, t1] }),
        json!({ "topics": [absent] }),
    ];
    for filter in filters {
        for (from, to) in [(0, 60), (7, 7), (13, 41)] {
            let mut requested = filter.clone();
            requested["fromBlock"] = json!(hex(from));
            requested["toBlock"] = json!(hex(to));
            let found = result(&url, "eth_getLogs", json!([requested])).await;
            let inside = |log: &&Value| (from..=to).contains(&number(&log["blockNumber"]));
            let expected: Vec<_> = all
                .iter()
                .filter(inside)
                .filter(|log| wants(&filter, log))
                .collect();
            let found: Vec<_> = found.as_array().unwrap().iter().collect();
            assert_eq!(found, expected, "{requested}");
        }
    }
    let at = json!(node.block(60).unwrap().hash.to_string());
    let by_hash = result(&url, "eth_getLogs", json!([{ "blockHash": at }])).await;
    assert_eq!(by_hash, result(&url, "eth_getLogs", json!([{}])).await);
}

#[tokio::test]
async fn bad_filters_are_refused_as_by_real_nodes() {
    let (node, server) = start(EvmSpec::tiny(3), 20).await;
    let url = server.url();
    let known = node.head().hash.to_string();
    let topic = format!("0x{}", "11".repeat(32));
    let cases = [
        (
            json!([{ "fromBlock": "0x0", "toBlock": "0x15" }]),
            -32602,
            "beyond current head",
        ),
        (
            json!([{ "fromBlock": "0x15" }]),
            -32602,
            "beyond current head",
        ),
        (
            json!([{ "fromBlock": "0x5", "toBlock": "0x4" }]),
            -32602,
            "invalid block range",
        ),
        (
            json!([{ "blockHash": known, "toBlock": "0x4" }]),
            -32602,
            "cannot specify both",
        ),
        (json!([{ "blockHash": topic }]), -32000, "unknown block"),
        (json!([{ "fromBlock": "pending" }]), -32602, "pending logs"),
        (
            json!([{ "topics": [topic, topic, topic, topic, topic] }]),
            -32602,
            "max topics",
        ),
        (json!([{ "topics": ["0x11"] }]), -32602, "32 bytes"),
        (json!([{ "address": topic }]), -32602, "20 bytes"),
        (json!([{ "fromBlock": "12" }]), -32602, "0x prefix"),
        (json!([]), -32602, "missing value"),
    ];
    for (params, code, message) in cases {
        let answer = call(&url, "eth_getLogs", params.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{params}: {answer}");
        let output = answer["error"]["message"].as_str().unwrap();
        assert!(output.contains(message), "{params}: {output}");
    }
}

#[tokio::test]
async fn limits_name_a_range_that_works() {
    let options = RpcOptions {
        max_block_range: Some(30),
        max_results: Some(40),
        ..RpcOptions::default()
    };
    let (_, server) = with(EvmSpec::tiny(4), 100, options).await;
    let url = server.url();
    let range = |from, to| json!([{ "fromBlock": hex(from), "toBlock": hex(to) }]);
    let answer = call(&url, "eth_getLogs", range(0, 30)).await;
    assert_eq!(
        answer["error"]["message"],
        "query exceeds max block range 30"
    );
    let (mut from, mut refused, mut logs) = (0, 0, 0);
    while from <= 100 {
        let mut to = (from + 29).min(100);
        loop {
            let answer = call(&url, "eth_getLogs", range(from, to)).await;
            if let Some(found) = answer["result"].as_array() {
                logs += found.len();
                break;
            }
            let output = answer["error"]["message"].as_str().unwrap();
            let smaller =
                output.strip_prefix("query exceeds max results 40, retry with the range ");
            let (first, last) = smaller.unwrap().split_once('-').unwrap();
            assert_eq!(first.parse::<u64>().unwrap(), from);
            let last: u64 = last.parse().unwrap();
            assert!(last < to, "{output}");
            to = last;
            refused += 1;
        }
        from = to + 1;
    }
    assert!(refused > 0);
    assert_eq!(logs, all_logs(&url, 0, 100).await.len());
    let stats = server.stats();
    assert_eq!(stats.refused_for_blocks, 1);
    assert_eq!(stats.refused_for_results, refused);
}

#[tokio::test]
async fn a_reorg_replaces_hashes_and_old_ones_answer_null() {
    let (node, server) = start(EvmSpec::tiny(5), 30).await;
    let url = server.url();
    let busy = (20..=30)
        .rev()
        .find_map(|at| node.block(at).filter(|block| !block.logs.is_empty()));
    let old = busy.unwrap();
    let (old_hash, old_tx) = (old.hash.to_string(), old.txs[0].hash.to_string());
    let receipt = result(&url, "eth_getTransactionReceipt", json!([old_tx])).await;
    assert_eq!(receipt["blockHash"], json!(old_hash));
    node.reorg(12);
    let at = json!(hex(old.header.number));
    let new = result(&url, "eth_getBlockByNumber", json!([at, false])).await;
    assert_ne!(new["hash"], json!(old_hash));
    for (method, param) in [
        ("eth_getBlockByHash", &old_hash),
        ("eth_getBlockReceipts", &old_hash),
        ("eth_getTransactionReceipt", &old_tx),
    ] {
        assert_eq!(
            result(&url, method, json!([param])).await,
            Value::Null,
            "{method}"
        );
    }
    let block = node.block(31).unwrap();
    assert_eq!(
        number(&result(&url, "eth_blockNumber", json!([])).await),
        31
    );
    for tx in &block.txs {
        let receipt = result(
            &url,
            "eth_getTransactionReceipt",
            json!([tx.hash.to_string()]),
        )
        .await;
        assert_eq!(receipt["blockHash"], json!(block.hash.to_string()));
    }
}

#[tokio::test]
async fn tags_and_small_methods_answer() {
    let (node, server) = start(EvmSpec::tiny(6), 100).await;
    node.set_finalized_depth(20);
    let url = server.url();
    for (tag, expected) in [
        ("latest", 100),
        ("pending", 100),
        ("safe", 90),
        ("finalized", 80),
        ("earliest", 0),
        ("0x7", 7),
    ] {
        let block = result(&url, "eth_getBlockByNumber", json!([tag, true])).await;
        assert_eq!(number(&block["number"]), expected, "{tag}");
        let txs = block["transactions"].as_array().unwrap();
        assert_eq!(txs.len(), node.block(expected).unwrap().txs.len());
        assert!(txs.iter().all(|tx| tx["blockHash"] == block["hash"]));
    }
    let nothing = result(&url, "eth_getBlockByNumber", json!(["0x65", false])).await;
    assert_eq!(nothing, Value::Null);
    assert_eq!(result(&url, "eth_chainId", json!([])).await, "0x7a69");
    assert_eq!(result(&url, "net_version", json!([])).await, "31337");
    assert_eq!(result(&url, "eth_syncing", json!([])).await, false);
    assert!(
        result(&url, "web3_clientVersion", json!([]))
            .await
            .is_string()
    );
}

#[tokio::test]
async fn batches_keep_their_ids_and_bad_requests_are_reported() {
    let options = RpcOptions {
        missing_methods: vec![MissingMethod {
            name: "eth_getBlockReceipts".to_owned(),
            code: -32004,
        }],
        ..RpcOptions::default()
    };
    let (_, server) = with(EvmSpec::tiny(7), 5, options).await;
    let url = server.url();
    let batch = json!([
        { "jsonrpc": "2.0", "id": "a", "method": "eth_blockNumber", "params": [] },
        { "jsonrpc": "2.0", "id": 7, "method": "eth_noSuch" },
        { "jsonrpc": "2.0", "id": 8, "method": "eth_getBlockReceipts", "params": ["0x1"] },
        { "id": 9 },
    ]);
    let answer = post(&url, &batch.to_string()).await.json();
    assert_eq!(
        answer[0],
        json!({ "jsonrpc": "2.0", "id": "a", "result": "0x5" })
    );
    for (at, id, code) in [(1, 7, -32601), (2, 8, -32004), (3, 9, -32600)] {
        assert_eq!(
            (&answer[at]["id"], &answer[at]["error"]["code"]),
            (&json!(id), &json!(code))
        );
    }
    for (text, code) in [("{", -32700), ("[]", -32600), ("3", -32600)] {
        assert_eq!(
            post(&url, text).await.json()["error"]["code"],
            code,
            "{text}"
        );
    }
    let over_http = call(&url, "eth_subscribe", json!(["newHeads"])).await;
    assert_eq!(over_http["error"]["code"], -32601);
    let stats = server.stats();
    assert_eq!(
        (stats.calls["eth_blockNumber"], stats.calls["other"]),
        (1, 1)
    );
    assert_eq!(stats.http_requests, 5);
    assert!(stats.bytes_out > 0);
}

#[tokio::test]
async fn too_many_calls_are_refused() {
    for retry_after_seconds in [None, Some(2)] {
        let options = RpcOptions {
            rate_limit: Some(RateLimit {
                calls_per_second: 3,
                retry_after_seconds,
            }),
            ..RpcOptions::default()
        };
        let (_, server) = with(EvmSpec::tiny(8), 1, options).await;
        let text = request("eth_blockNumber", &json!([]));
        let mut refused = None;
        // A second may end in between; a refusal must come all the same.
        for _ in 0..1_000 {
            let reply = post(&server.url(), &text).await;
            if reply.status != 200 {
                refused = Some(reply);
                break;
            }
        }
        let refused = refused.unwrap();
        assert_eq!(refused.status, 429);
        let wanted = retry_after_seconds.map(|seconds| seconds.to_string());
        assert_eq!(refused.header("retry-after"), wanted.as_deref());
    }
}

#[tokio::test]
async fn every_answer_takes_its_delay() {
    let options = RpcOptions {
        delay: Duration::from_millis(30),
        ..RpcOptions::default()
    };
    let (_, server) = with(EvmSpec::tiny(9), 1, options).await;
    let began = Instant::now();
    result(&server.url(), "eth_blockNumber", json!([])).await;
    assert!(began.elapsed() >= Duration::from_millis(30));
}

async fn next(socket: &mut WebSocketStream<MaybeTlsStream<TcpStream>>) -> Value {
    let message = socket.next().await.unwrap().unwrap();
    serde_json::from_str(message.to_text().unwrap()).unwrap()
}

#[tokio::test]
async fn new_heads_arrive_for_mined_and_reorged_blocks() {
    let (node, server) = start(EvmSpec::tiny(10), 10).await;
    let (mut socket, _) = tokio_tungstenite::connect_async(server.ws_url())
        .await
        .unwrap();
    let subscribe = request("eth_subscribe", &json!(["newHeads"]));
    socket.send(Message::text(subscribe)).await.unwrap();
    let id = next(&mut socket).await["result"].clone();
    node.mine(2);
    node.reorg(3);
    // 11 and 12, then 10, 11, 12 again and 13.
    for expected in [11, 12, 10, 11, 12, 13] {
        let reported = next(&mut socket).await;
        assert_eq!(reported["params"]["subscription"], id);
        let head = &reported["params"]["result"];
        assert_eq!(number(&head["number"]), expected);
        assert_eq!(hash(&head["hash"]), header(head).hash_slow());
    }
    assert_eq!(node.head().number, 13);
    // A rollback is told to nobody: the next message is the answer to the next call.
    node.rollback(2);
    let ask = request("eth_blockNumber", &json!([]));
    socket.send(Message::text(ask)).await.unwrap();
    assert_eq!(next(&mut socket).await["result"], "0xb");
    let stop = request("eth_unsubscribe", &json!([id]));
    socket.send(Message::text(stop.clone())).await.unwrap();
    assert_eq!(next(&mut socket).await["result"], true);
    node.mine(1);
    socket.send(Message::text(stop)).await.unwrap();
    assert_eq!(next(&mut socket).await["error"]["code"], -32000);
    // The connection ends with the server.
    server.shutdown().await.unwrap();
    while let Some(Ok(_)) = socket.next().await {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_listens_at_the_given_address() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = free.local_addr().unwrap();
    let node = EvmNode::new(EvmSpec::tiny(9), 5);
    let taken = RpcServer::start_at(at, node.clone(), RpcOptions::default()).await;
    assert!(taken.is_err(), "the port is taken");
    drop(free);
    let server = RpcServer::start_at(at, node, RpcOptions::default())
        .await
        .unwrap();
    assert_eq!(server.url(), format!("http://{at}/"));
    assert_eq!(
        result(&server.url(), "eth_blockNumber", json!([])).await,
        "0x5"
    );
}
