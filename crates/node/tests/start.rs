//! What cannot work is reported at the start, with what to do about it. A source that is down, or is another
//! chain's, stops its own chain only; everything else that is wrong keeps the program from starting. What is
//! checked of one chain is tested in `crates/follower/tests/preflight.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::net::SocketAddr;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use serde_json::{Value, json};
use support::Bench;
use support::rpc::Rpc;

const DEPTH: &str = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;
const NOWHERE: &str = "http://127.0.0.1:1/SECRET";
const CATCH_UP: &[&str] = &["run", "--until-caught-up"];

async fn serve(spec: EvmSpec, blocks: u64) -> (EvmNode, RpcServer) {
    let node = EvmNode::new(spec, blocks);
    let server = RpcServer::start(node.clone(), RpcOptions::default()).await;
    (node, server.unwrap())
}

/// A settings file with these entries of chains.
fn bench(chains: &[String]) -> Bench {
    let bench = Bench::new(&[], "");
    let (data, chains) = (bench.dir.path().join("data"), chains.join(","));
    let text = format!(
        r#"{{ "dataDir": {data:?}, "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0", "chains": [{chains}] }}"#
    );
    std::fs::write(&bench.config, text).unwrap();
    bench
}

fn chain(id: u64, url: &str) -> String {
    format!(r#"{{ "chainId": {id}, "rpcHttp": ["{url}"], "pollMs": 20 {DEPTH} }}"#)
}

/// The program does not start, whether it is to follow or to catch up. It exits with 1 and prints all of this,
/// without a secret.
#[track_caller]
fn assert_refused(bench: &Bench, expected: &[&str]) {
    for words in [&["run"][..], CATCH_UP] {
        let printed = assert_fails(bench, words, expected);
        let listeners = support::events(&printed, "health_listening");
        assert!(listeners.is_empty(), "it started: {printed}");
    }
}

/// A command exits with 1 and prints all of this, without a secret.
#[track_caller]
fn assert_fails(bench: &Bench, words: &[&str], expected: &[&str]) -> String {
    let output = bench.output(words);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{words:?}: {printed}");
    for expected in expected {
        assert!(printed.contains(expected), "no `{expected}` in\n{printed}");
    }
    assert!(
        !printed.contains("SECRET"),
        "a secret was printed: {printed}"
    );
    printed
}

fn genesis_of(node: &EvmNode) -> String {
    node.block(0).unwrap().hash.to_string()
}

/// Each kind of failure that only one chain has, and its message.
#[tokio::test(flavor = "multi_thread")]
async fn every_failure_says_what_to_do() {
    let (_, right) = serve(EvmSpec::tiny(1), 20).await;
    let (fake, fake_server) = {
        let spec = EvmSpec {
            chain_id: 1,
            ..EvmSpec::tiny(2)
        };
        serve(spec, 20).await
    };
    let known = "0xd4e56740f876aef8c010b86a40d5f56745a118d0906a34e69aec8c0db1cb8fa3";
    let (right, fake_url) = (right.url(), fake_server.url());
    for (entry, expected) in [
        (
            chain(5, &right),
            vec!["chain 5 (5)", "wrong chain", "expected=5, got=31337"],
        ),
        (
            chain(1, &fake_url),
            vec![
                "another chain with the same id",
                &genesis_of(&fake),
                known,
                "right endpoint",
            ],
        ),
        (
            chain(31_337, &right).replace("pollMs", "polMs"),
            vec!["chronolith.json", "chains[0].polMs: unknown field"],
        ),
    ] {
        assert_refused(&bench(&[entry]), &expected);
    }
    // A caller that waits for the end gets the reason; a node that follows would continue to ask.
    let words = [
        "the source cannot be used",
        "endpoint=127.0.0.1:1",
        "cannot connect",
    ];
    assert_fails(&bench(&[chain(31_337, NOWHERE)]), CATCH_UP, &words);
    let taken = bench(&[chain(31_337, &right)]);
    std::fs::write(taken.dir.path().join("data"), "a file").unwrap();
    let data = taken.dir.path().join("data");
    assert_refused(
        &taken,
        &["cannot write to the data directory", data.to_str().unwrap()],
    );
    assert!(!taken.output(&["state"]).status.success());
}

/// What one chain is asked for is not there, which used to keep every other chain from starting.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_whose_source_is_wrong_stops_no_other() {
    let (_, server) = serve(EvmSpec::tiny(6), 20).await;
    let url = server.url();
    let bench = bench(&[
        chain(5, &url),
        chain(31_337, &url),
        chain(7, NOWHERE),
        chain(1, &url),
    ]);
    let words = [
        "chain 5 (5): ",
        "expected=5, got=31337",
        "chain 7 (7): ",
        "cannot connect",
        "chain ethereum (1): ",
    ];
    assert_fails(&bench, CATCH_UP, &words);
    let states = bench.json(&["state", "--json"]);
    assert_eq!(state_of(&states, 31_337)["head"]["number"], 15);
    assert!(state_of(&states, 5)["head"].is_null());
    // Where none can ever be followed and nothing is archived, nothing starts.
    let none = self::bench(&[chain(5, &url), chain(1, &url)]);
    assert_refused(
        &none,
        &["no chain can be followed", "expected=5", "expected=1"],
    );
}

/// The sources of all chains belong to other chains after a restart. That was a full outage: nothing was served, though
/// it was archived.
#[tokio::test(flavor = "multi_thread")]
async fn archives_are_served_though_the_sources_of_all_chains_are_wrong() {
    let other_id = EvmSpec {
        chain_id: 31_338,
        ..EvmSpec::tiny(10)
    };
    for (spec, expected) in [
        (EvmSpec::tiny(11), "of another chain"),
        (other_id, "expected=31337, got=31338"),
    ] {
        assert_served_beside(&EvmNode::new(spec, 60), expected).await;
    }
}

/// An archive is served while the source of all chains is another node, and every place has this reason.
async fn assert_served_beside(other: &EvmNode, expected: &str) {
    let (node, server) = serve(EvmSpec::tiny(10), 40).await;
    let at = address(&server);
    // The second chain never had the right source: nothing of it is archived.
    let bench = bench(&[chain(31_337, &server.url()), chain(5, &server.url())]);
    assert_fails(&bench, CATCH_UP, &["expected=5, got=31337"]);
    server.shutdown().await.unwrap();
    let _wrong = serve_again(at, other).await;
    let mut running = bench.start();
    let refused = |code: u16, health: &Value| {
        let is_refused = |id| {
            let error = health_of(health, id)["error"].as_str();
            error.is_some_and(|error| error.starts_with("the source failed: "))
        };
        code == 503 && is_refused(31_337) && is_refused(5)
    };
    let health = bench
        .until_health("that both sources are wrong", refused)
        .await;
    let chain = health_of(&health, 31_337);
    assert!(chain["notReadyReason"].is_string(), "{health}");
    assert_eq!(chain["lastBackfillBlock"], 35, "{health}");
    bench.wait("the reason of the state", || {
        let states = bench.json(&["state", "--json"]);
        let error = state_of(&states, 31_337)["error"].as_str();
        error.is_some_and(|error| error.contains(expected))
    });
    assert!(bench.has_with("ingest_stopped", "error", expected));
    assert!(bench.has_with("ingest_stopped", "error", "expected=5, got="));
    assert_serves(&bench, &node).await;
    assert!(running.is_alive(), "it ended");
    running.stop();
    // A caller that waits for the end learns that there is none.
    assert_fails(&bench, CATCH_UP, &["the source cannot be used", expected]);
    let states = bench.json(&["state", "--json"]);
    assert_eq!(state_of(&states, 31_337)["head"]["number"], 35);
    assert!(state_of(&states, 5)["head"].is_null(), "{states}");
}

/// Logs over JSON-RPC and a block over REST are those of the node.
async fn assert_serves(bench: &Bench, node: &EvmNode) {
    let rpc = Rpc::new(bench.public());
    let range = json!([{ "fromBlock": "0x0", "toBlock": "0x23" }]);
    let logs = rpc.call("eth_getLogs", range).await;
    let logs_of = |at| node.block(at).unwrap().to_model().logs.len();
    let expected: usize = (0..=35).map(logs_of).sum();
    assert!(expected > 0, "the node has no logs");
    assert_eq!(logs.as_array().unwrap().len(), expected);
    let (status, block) = rpc.get("/v1/chains/31337/blocks/20").await;
    assert_eq!(status, 200, "{block}");
    assert_eq!(block["hash"], node.block(20).unwrap().hash.to_string());
}

fn state_of(states: &Value, id: u64) -> &Value {
    let states = states.as_array().unwrap();
    states.iter().find(|one| one["chainId"] == id).unwrap()
}

/// A chain's part of the health.
fn health_of(health: &Value, id: u64) -> &Value {
    let chains = health["chains"].as_array().unwrap();
    chains.iter().find(|one| one["chain"] == id).unwrap()
}

/// The server's address, to be used again.
fn address(server: &RpcServer) -> SocketAddr {
    let url = server.url();
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    address.parse().unwrap()
}

async fn serve_again(at: SocketAddr, node: &EvmNode) -> RpcServer {
    let server = RpcServer::start_at(at, node.clone(), RpcOptions::default()).await;
    server.unwrap()
}

/// One provider is down while the node is restarted. That was a full outage: no chain was followed, and
/// nothing was served. Now its own chain waits for it, serves what it has and says so; when the provider is
/// back with another chain nothing of it is taken, and with the right one the chain catches up.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_down_at_the_start_stops_no_chain() {
    let (one, first) = serve(EvmSpec::tiny(7), 40).await;
    let spec = |seed| EvmSpec {
        chain_id: 31_338,
        ..EvmSpec::tiny(seed)
    };
    let (two, second) = serve(spec(8), 40).await;
    let bench = bench(&[chain(31_337, &first.url()), chain(31_338, &second.url())]);
    bench.say(&["run", "--until-caught-up"]);
    let at = address(&second);
    second.shutdown().await.unwrap();
    let running = bench.start();
    bench.wait_for_listener();
    one.mine(10);
    let health = bench
        .until_health("the chain whose provider is there", |_, health| {
            health_of(health, 31_337)["lastBackfillBlock"] == 45
                && health_of(health, 31_338)["error"].is_string()
        })
        .await;
    let waits = health_of(&health, 31_338);
    let reports = |field: &str, what: &str| waits[field].as_str().unwrap().contains(what);
    assert!(reports("error", "failed: unreachable"), "{waits}");
    assert!(reports("notReadyReason", "since the start"), "{waits}");
    assert_eq!(waits["lastBackfillBlock"], 35);
    let states = bench.json(&["state", "--json"]);
    let error = state_of(&states, 31_338)["error"].as_str();
    assert!(error.unwrap().contains("cannot connect"), "{states}");
    assert!(state_of(&states, 31_337)["error"].is_null(), "{states}");
    // What is archived is served.
    let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByNumber", "params": ["0x14", false] });
    let request = reqwest::Client::new().post(format!("{}/31338", bench.public()));
    let request = request.header("content-type", "application/json");
    let answer = request.body(ask.to_string()).send().await.unwrap();
    let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    let hash = &answer["result"]["hash"];
    assert_eq!(*hash, two.block(20).unwrap().hash.to_string(), "{answer}");
    // Somebody else answers there by now: the same id, another genesis.
    let (other, spare) = serve(spec(9), 60).await;
    spare.shutdown().await.unwrap();
    let wrong = serve_again(at, &other).await;
    let refused = |_, health: &Value| {
        let error = health_of(health, 31_338)["error"].as_str();
        error.is_some_and(|error| error.contains("settings do not fit"))
    };
    bench
        .until_health("that the chain is another one", refused)
        .await;
    let log = bench.log();
    let mut lines = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let logged = |line: &Value| {
        line["level"] == "ERROR"
            && line["fields"]["error"]
                .to_string()
                .contains("another chain")
    };
    assert!(lines.any(|line: Value| logged(&line)), "{log}");
    wrong.shutdown().await.unwrap();
    two.mine(10);
    let _right = serve_again(at, &two).await;
    let caught_up = |_, health: &Value| health_of(health, 31_338)["lastBackfillBlock"] == 45;
    bench.until_health("the right chain", caught_up).await;
    running.stop();
    let states = bench.json(&["state", "--json"]);
    for (id, node) in [(31_337, &one), (31_338, &two)] {
        let head = &state_of(&states, id)["head"];
        assert_eq!(head["hash"], node.block(45).unwrap().hash.to_string());
    }
    bench.say(&["verify", "--chain", "31338", "--against-source"]);
}
