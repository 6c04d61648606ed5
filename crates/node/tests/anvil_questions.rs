//! Random questions over HTTP against receipts taken from Anvil, at rest and while blocks are replaced.
//! `scripts/need anvil` installs it; `CHRONOLITH_ANVIL` names another one.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use support::rpc::Rpc;
use support::{Bench, PATIENCE, real_node::RealNode};

/// So many blocks are archived below the head: questions go over both.
const CONFIRMATIONS: u64 = 40;
const ROUNDS: u64 = 8;
const QUESTIONS: usize = 60;

/// A chain as the node's receipts tell of it: hash and logs of each block.
#[derive(Clone)]
struct Receipts(Vec<(String, Vec<Value>)>);

impl Receipts {
    async fn of(anvil: &RealNode) -> Self {
        let mut blocks = Vec::new();
        for number in 0..=anvil.head().await {
            let tag = format!("0x{number:x}");
            let block = anvil
                .call("eth_getBlockByNumber", json!([tag, false]))
                .await;
            let receipts = anvil.call("eth_getBlockReceipts", json!([tag])).await;
            let logs = receipts.as_array().unwrap().iter();
            let logs = logs.flat_map(|receipt| receipt["logs"].as_array().unwrap().clone());
            blocks.push((block["hash"].as_str().unwrap().to_owned(), logs.collect()));
        }
        Self(blocks)
    }

    fn head(&self) -> usize {
        self.0.len() - 1
    }

    /// The logs of these blocks that a filter wants, found by looking at every one.
    fn matching(&self, from: usize, to: usize, filter: &Value) -> Vec<Value> {
        let logs = self.0[from..=to].iter().flat_map(|(_, logs)| logs);
        logs.filter(|log| wants(filter, log)).map(fields).collect()
    }
}

/// Whether a filter wants a log: the words of the JSON-RPC specification, one by one.
fn wants(filter: &Value, log: &Value) -> bool {
    let one_of = |wanted: &Value, found: &Value| match wanted {
        Value::Null => true,
        Value::Array(values) => values.is_empty() || values.contains(found),
        value => value == found,
    };
    let topics = log["topics"].as_array().unwrap();
    let wanted = filter["topics"].as_array().cloned().unwrap_or_default();
    one_of(&filter["address"], &log["address"])
        && wanted.len() <= topics.len()
        && wanted
            .iter()
            .zip(topics)
            .all(|(wanted, found)| one_of(wanted, found))
}

/// What must be equal of a log.
fn fields(log: &Value) -> Value {
    let names = [
        "address",
        "topics",
        "data",
        "blockNumber",
        "blockHash",
        "transactionHash",
        "transactionIndex",
        "logIndex",
        "removed",
    ];
    names
        .iter()
        .map(|&name| (name.to_owned(), log[name].clone()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// A question that is answered by some of the chain's logs, or by none.
fn question(chance: &mut StdRng, chain: &Receipts) -> Value {
    let logs: Vec<&Value> = chain.0.iter().flat_map(|(_, logs)| logs).collect();
    let log = logs[chance.random_range(0..logs.len())];
    let absent = json!(format!("0x{}", "ee".repeat(32)));
    let mut topic = |at: usize| match chance.random_range(0..5) {
        0 => json!(null),
        1 => json!([log["topics"][at], absent]),
        2 => json!([]),
        3 if at == 1 => json!(
            logs.iter()
                .step_by(3)
                .map(|log| &log["topics"][1])
                .collect::<Vec<_>>()
        ),
        _ => log["topics"][at].clone(),
    };
    let topics = [topic(0), topic(1)];
    let kept = chance.random_range(0..=2);
    let address = match chance.random_range(0..4) {
        0 => json!(null),
        1 => json!([log["address"], "0x00000000000000000000000000000000000000c1"]),
        2 => json!("0x00000000000000000000000000000000000000c1"),
        _ => log["address"].clone(),
    };
    json!({ "address": address, "topics": topics[..kept] })
}

#[tokio::test(flavor = "multi_thread")]
async fn random_questions_equal_the_receipts_at_rest_and_while_blocks_are_replaced() {
    let Some(anvil) = RealNode::anvil().await else {
        return;
    };
    anvil.mine(90, 3).await;
    let more = format!(r#", "finality": {{ "mode": "depth", "confirmations": {CONFIRMATIONS} }}"#);
    let bench = Bench::new(std::slice::from_ref(&anvil.url), &more);
    let running = bench.start();
    bench.wait("the archive", || bench.head().is_some());
    let rpc = Rpc::new(bench.public());
    let mut chance = StdRng::seed_from_u64(4);
    let (mut at_rest, mut meanwhile, mut both_chains) = (0, 0, BTreeSet::new());
    let mut chain = Receipts::of(&anvil).await;
    for round in 0..ROUNDS {
        until_hash(&rpc, &chain).await;
        for _ in 0..QUESTIONS {
            let mut requested = question(&mut chance, &chain);
            let from = chance.random_range(0..=chain.head());
            let to = chance.random_range(from..=chain.head());
            requested["fromBlock"] = json!(format!("0x{from:x}"));
            requested["toBlock"] = json!(format!("0x{to:x}"));
            let answer = rpc.call("eth_getLogs", json!([requested])).await;
            let answer: Vec<Value> = answer.as_array().unwrap().iter().map(fields).collect();
            assert_eq!(answer, chain.matching(from, to, &requested), "{requested}");
            at_rest += answer.len();
        }
        // Questions continue while blocks are replaced: each answer is of one chain, and whole.
        let depth = chance.random_range(1..CONFIRMATIONS);
        let requested = question(&mut chance, &chain);
        let replaced = Cell::new(false);
        let replace = async {
            anvil.replace(depth).await;
            anvil.mine(2 + round % 3, 2).await;
            replaced.set(true);
        };
        let asking = ask_until(&rpc, &requested, &anvil, &replaced);
        let (answers, ()) = tokio::join!(asking, replace);
        let next = Receipts::of(&anvil).await;
        for answer in answers {
            both_chains.insert(assert_of_one(&answer, &requested, [&chain, &next]));
            meanwhile += 1;
        }
        chain = next;
    }
    println!(
        "note: {at_rest} logs at rest and {meanwhile} answers meanwhile equal Anvil's receipts"
    );
    assert!(at_rest > 1_000, "only {at_rest} logs were compared");
    assert_eq!(
        both_chains.len(),
        2,
        "no answer from before, or none from after"
    );
    running.stop();
}

/// Waits until the newest block served is the chain's.
async fn until_hash(rpc: &Rpc, chain: &Receipts) {
    let (began, wanted) = (Instant::now(), &chain.0[chain.head()].0);
    loop {
        let block = rpc
            .answer("eth_getBlockByNumber", json!(["latest", false]))
            .await;
        if block["result"]["hash"] == **wanted {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{block}, wanted {wanted}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Asks for all that a filter wants, again and again, until the replaced chain is served.
async fn ask_until(
    rpc: &Rpc,
    requested: &Value,
    anvil: &RealNode,
    replaced: &Cell<bool>,
) -> Vec<Value> {
    let began = Instant::now();
    let mut requested = requested.clone();
    requested["fromBlock"] = json!("earliest");
    requested["toBlock"] = json!("latest");
    let mut answers = Vec::new();
    loop {
        let answer = rpc.call("chronolith_getLogs", json!([requested])).await;
        let reached = answer["toBlock"]["number"].as_u64();
        answers.push(answer);
        if replaced.get() && reached == Some(anvil.head().await) {
            return answers;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "the replaced chain is not served"
        );
    }
}

/// The answer is the whole of one of the chains, up to the block it names. Returns whether that is the
/// second one.
fn assert_of_one(answer: &Value, requested: &Value, chains: [&Receipts; 2]) -> bool {
    let to = answer["toBlock"]["number"].as_u64().unwrap() as usize;
    let of = |chain: &&Receipts| {
        chain
            .0
            .get(to)
            .is_some_and(|(hash, _)| answer["toBlock"]["hash"] == **hash)
    };
    let at = chains
        .iter()
        .position(of)
        .expect("a block of neither chain");
    assert_eq!(answer["nextCursor"], Value::Null);
    let logs: Vec<Value> = answer["logs"]
        .as_array()
        .unwrap()
        .iter()
        .map(fields)
        .collect();
    assert_eq!(logs, chains[at].matching(0, to, requested), "{requested}");
    at == 1
}
