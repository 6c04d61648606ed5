//! Answers over HTTP while the chain changes: each is of one chain, whole, and proven against every
//! block that the simulated node ever had.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_model::{Block, Hash32};
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use support::rpc::Rpc;
use support::{Bench, PATIENCE, serve};

const CONFIRMATIONS: u64 = 12;
const ROUNDS: u64 = 60;

/// A sequence of numbers, the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Every block that there ever was, by its hash.
#[derive(Default)]
struct Ever(HashMap<String, Block>);

impl Ever {
    fn note(&mut self, node: &EvmNode, from: u64) {
        for number in from..=node.head().number {
            let block = node.block(number).unwrap().to_model();
            self.0.insert(block.clock.hash.to_string(), block);
        }
    }

    /// The blocks of a range of the chain that ends with this block.
    fn chain(&self, last: &str, from: u64) -> Vec<&Block> {
        let mut chain = vec![&self.0[last]];
        while chain.last().unwrap().clock.number > from {
            let parent: Hash32 = chain.last().unwrap().clock.parent_hash;
            chain.push(&self.0[&parent.to_string()]);
        }
        chain.reverse();
        chain
    }
}

/// What identifies a log of an answer.
fn place(log: &Value) -> (String, u64, String) {
    let number = log["logIndex"].as_str().unwrap().trim_start_matches("0x");
    let index = u64::from_str_radix(number, 16).unwrap();
    let text = |field: &str| log[field].as_str().unwrap().to_owned();
    (text("blockHash"), index, text("data"))
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// Asks for logs from a block to `latest` in pages of random size, until all are there or a page is
/// refused because its block was replaced; returns the pages' logs and what they were about.
async fn ask_paged(
    rpc: &Rpc,
    dice: &mut Dice,
    from: u64,
    topic: Option<&str>,
) -> Option<(Vec<Value>, Value)> {
    let limit = 1 + dice.below(200);
    let mut filter =
        json!({ "fromBlock": format!("0x{from:x}"), "toBlock": "latest", "limit": limit });
    if let Some(topic) = topic {
        filter["topics"] = json!([[topic]]);
    }
    let first = rpc.answer("chronolith_getLogs", json!([filter])).await;
    let first = first.get("result")?.clone();
    let last = first["toBlock"].clone();
    filter["toBlock"] = json!(format!("0x{:x}", last["number"].as_u64().unwrap()));
    let mut logs: Vec<Value> = first["logs"].as_array().unwrap().clone();
    let mut page = first;
    while let Some(cursor) = page["nextCursor"].as_str().map(str::to_owned) {
        filter["cursor"] = json!(cursor);
        let answer = rpc.answer("chronolith_getLogs", json!([filter])).await;
        page = answer.get("result")?.clone();
        if page["toBlock"] != last {
            return None;
        }
        logs.extend(page["logs"].as_array().unwrap().iter().cloned());
    }
    Some((logs, last))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_during_reorgs_are_of_one_chain_and_whole() {
    let node = EvmNode::new(EvmSpec::tiny(77), 120);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(
        r#", "finality": {{ "mode": "depth", "confirmations": {CONFIRMATIONS} }}, "rpcWs": ["{}"]"#,
        server.ws_url()
    );
    let bench = Bench::new(&[server.url()], &more);
    let running = bench.start();
    let rpc = Rpc::new(bench.public());
    rpc.until_head(node.head().number).await;
    let mut ever = Ever::default();
    ever.note(&node, 0);
    let topic = node
        .block(3)
        .unwrap()
        .to_model()
        .logs
        .iter()
        .find_map(|log| log.topic(0).map(hex));
    let mut dice = Dice(7);
    let (mut compared, mut crossed, mut heads, mut replaced) = (0, 0, Vec::new(), 0);
    for round in 0..ROUNDS {
        let depth = dice.below(CONFIRMATIONS - 1);
        let from = node.head().number - depth;
        match depth {
            0 => node.mine(1 + dice.below(2)),
            depth => node.reorg(depth),
        };
        ever.note(&node, from);
        for _ in 0..12 {
            let from = node.head().number.saturating_sub(1 + dice.below(40));
            let narrow = topic.as_deref().filter(|_| dice.below(2) == 0);
            let Some((logs, last)) = ask_paged(&rpc, &mut dice, from, narrow).await else {
                replaced += 1;
                continue;
            };
            let chain = ever.chain(last["hash"].as_str().unwrap(), from);
            let wanted = chain.iter().flat_map(|block| {
                let hash = block.clock.hash.to_string();
                let logs = block.logs.iter().filter(|log| {
                    narrow.is_none_or(|topic| log.topic(0).is_some_and(|first| hex(first) == topic))
                });
                logs.map(move |log| (hash.clone(), u64::from(log.log_index()), hex(log.data())))
            });
            let wanted: Vec<_> = wanted.collect();
            let ours: Vec<_> = logs.iter().map(place).collect();
            assert_eq!(ours, wanted, "from {from} to {last}");
            compared += ours.len();
            crossed += u64::from(chain.len() as u64 > CONFIRMATIONS);
            heads.push(last["hash"].as_str().unwrap().to_owned());
        }
        // Every other reorg meets the one before while it is still being followed.
        if round % 2 == 0 {
            rpc.until_head(node.head().number).await;
        }
    }
    heads.dedup();
    println!(
        "note: {compared} logs, {crossed} answers over the seam, {} heads, {replaced} refused",
        heads.len()
    );
    assert!(
        compared > 1_000 && crossed > 20 && heads.len() > 20,
        "too little was compared"
    );
    running.stop();
}

/// Every log by `eth_getLogs`, in ranges of every size, equals the chain's; blocks by number and by
/// hash say the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_settled_chain_is_answered_exactly() {
    let node = EvmNode::new(EvmSpec::tiny(78), 150);
    let server = serve(&node, RpcOptions::default()).await;
    let more = r#", "finality": { "mode": "depth", "confirmations": 20 }, "datasets": ["headers", "logs", "tx_hashes", "transactions"]"#;
    let bench = Bench::new(&[server.url()], more);
    let running = bench.start();
    let rpc = Rpc::new(bench.public());
    let head = node.head().number;
    rpc.until_head(head).await;
    let mut dice = Dice(3);
    for _ in 0..100 {
        let from = dice.below(head + 1);
        let to = from + dice.below(head + 1 - from);
        let range = json!([{ "fromBlock": format!("0x{from:x}"), "toBlock": format!("0x{to:x}") }]);
        let logs = rpc.call("eth_getLogs", range).await;
        let ours: Vec<_> = logs.as_array().unwrap().iter().map(place).collect();
        let blocks = (from..=to).map(|number| node.block(number).unwrap().to_model());
        let wanted: Vec<_> = blocks
            .flat_map(|block| {
                let hash = block.clock.hash.to_string();
                let logs = block.logs.into_iter();
                logs.map(move |log| (hash.clone(), u64::from(log.log_index()), hex(log.data())))
            })
            .collect();
        assert_eq!(ours, wanted, "{from} to {to}");
    }
    for number in [0, 1, 17, head - 21, head - 20, head - 19, head] {
        let tag = format!("0x{number:x}");
        let by_number = rpc.call("eth_getBlockByNumber", json!([tag, true])).await;
        let hash = node
            .block(number)
            .unwrap()
            .to_model()
            .clock
            .hash
            .to_string();
        assert_eq!(by_number["hash"], hash);
        let by_hash = rpc.call("eth_getBlockByHash", json!([hash, true])).await;
        assert_eq!(by_number, by_hash);
        for tx in by_number["transactions"].as_array().unwrap() {
            let found = rpc
                .call("eth_getTransactionByHash", json!([tx["hash"]]))
                .await;
            assert_eq!(found, *tx);
        }
    }
    running.stop();
}

/// Limits are those of the settings file, and each names what works: clients cut their ranges by it.
#[tokio::test(flavor = "multi_thread")]
async fn limits_are_set_in_the_file_and_name_what_works() {
    let node = EvmNode::new(EvmSpec::tiny(79), 60);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], support::DEPTH_5);
    let limits = r#""metricsPort": 0, "limits": { "results": 40, "blockRange": 20, "batch": 2 }"#;
    bench.change(r#""metricsPort": 0"#, limits);
    let running = bench.start();
    let rpc = Rpc::new(bench.public());
    rpc.until_head(60).await;
    let range = |from: u64, to: u64| json!([{ "fromBlock": format!("0x{from:x}"), "toBlock": format!("0x{to:x}") }]);
    let wide = rpc.answer("eth_getLogs", range(0, 59)).await;
    let message = wide["error"]["message"].as_str().unwrap();
    assert_eq!(wide["error"]["code"], -32_005, "{wide}");
    let output = "query exceeds max block range 20, retry with the range 0-19";
    assert!(message.starts_with(output), "{message}");
    let full = rpc.answer("eth_getLogs", range(1, 19)).await;
    let message = full["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("query exceeds max results 40, "),
        "{message}"
    );
    let (_, hint) = message.split_once("retry with the range 1-").unwrap();
    let last: u64 = hint.split(',').next().unwrap().parse().unwrap();
    assert!(last < 19, "{message}");
    let logs = rpc.call("eth_getLogs", range(1, last)).await;
    assert!(logs.as_array().unwrap().len() <= 40);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
    let batch = format!("[{call},{call},{call}]");
    let refused = reqwest::Client::new().post(format!("{}/31337", rpc.base));
    let refused = refused
        .body(batch)
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(
        refused.contains("batch too large (3 calls, max 2)"),
        "{refused}"
    );
    running.stop();
}

/// More alternatives than are looked up are refused, unless the settings say to look at every log: then
/// archive and tail are scanned, and what is found is what the few that occur find alone.
#[tokio::test(flavor = "multi_thread")]
async fn very_many_alternatives_are_scanned_for_where_the_settings_say_so() {
    const MANY: usize = 20_000;
    let node = EvmNode::new(EvmSpec::tiny(80), 60);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], support::DEPTH_5);
    let scan = r#""metricsPort": 0, "planner": { "or_policy": "block_scan" }"#;
    bench.change(r#""metricsPort": 0"#, scan);
    let running = bench.start();
    let rpc = Rpc::new(bench.public());
    rpc.until_head(60).await;
    let whole = json!([{ "fromBlock": "earliest", "toBlock": "latest" }]);
    let all = rpc.call("eth_getLogs", whole.clone()).await;
    let all = all.as_array().unwrap();
    // The emitter of the newest log is wanted, so that the tail has some too.
    let (emitter, topic) = (&all.last().unwrap()["address"], &all[0]["topics"][0]);
    let made_up = |digits: usize| (1..MANY).map(move |at| json!(format!("0x{at:0digits$x}")));
    let many = |wanted: &Value, digits| made_up(digits).chain([wanted.clone()]).collect::<Value>();
    for (field, few, many) in [
        ("address", emitter.clone(), many(emitter, 40)),
        ("topics", json!([topic]), json!([many(topic, 64)])),
    ] {
        let mut requested = whole.clone();
        requested[0][field] = few;
        let wanted = rpc.call("eth_getLogs", requested.clone()).await;
        let found = wanted.as_array().unwrap().len();
        assert!((1..all.len()).contains(&found), "{field}: {found}");
        requested[0][field] = many;
        assert_eq!(rpc.call("eth_getLogs", requested.clone()).await, wanted);
        let page = rpc.call("chronolith_getLogs", requested).await;
        assert_eq!(page["logs"], wanted);
    }
    let values: Vec<String> = made_up(40).take(1_200).map(|one| text_of(&one)).collect();
    let path = |more: &str| format!("/v1/chains/31337/logs?fromBlock=0&limit=1000&address={more}");
    let few = rpc.get(&path(&text_of(emitter))).await;
    let many = rpc
        .get(&path(&format!("{},{}", values.join(","), text_of(emitter))))
        .await;
    assert_eq!(
        (few.0, &few.1["logs"]),
        (200, &many.1["logs"]),
        "{}",
        many.1
    );
    running.stop();
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Whether a new connection is answered; it stays open where it is.
fn answered(address: &str) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Where the other side is gone already, reading says so.
    let _ = stream.write_all(b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n");
    let mut first = [0; 1];
    let read = stream.read(&mut first);
    matches!(read, Ok(1)).then_some(stream)
}

/// One address may take so many connections as the settings say. More are closed, counted and logged
/// once, and when one ends there is room again.
#[tokio::test(flavor = "multi_thread")]
async fn connections_of_one_address_are_as_many_as_the_settings_say() {
    let node = EvmNode::new(EvmSpec::tiny(81), 20);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], support::DEPTH_5);
    let limits = r#""metricsPort": 0, "limits": { "connectionsPerPeer": 2 }"#;
    bench.change(r#""metricsPort": 0"#, limits);
    let running = bench.start();
    let address = bench.public().replace("http://", "");
    let (first, second) = (answered(&address), answered(&address));
    assert!(first.is_some() && second.is_some());
    for _ in 0..3 {
        assert!(answered(&address).is_none(), "a third connection");
    }
    bench.wait_for_listener();
    let (_, metrics) = bench.operations("/metrics").await;
    let counted = "\nchronolith_connections_refused_total 3\n";
    assert!(metrics.contains(counted), "{metrics}");
    let output = "too many connections from one address";
    assert_eq!(bench.log().matches(output).count(), 1, "{}", bench.log());
    drop(first);
    bench.wait("room for another", || answered(&address).is_some());
    running.stop();
}
