//! What cannot work is said at the start, with what to do about it. A source that is down, or is another
//! chain's, stops its own chain only; everything else that is wrong keeps the program from starting.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::net::SocketAddr;

use bytes::Bytes;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use chronolith_sim::portal::{PortalFault, PortalFaults, PortalOptions, PortalServer};
use chronolith_store::{FileMeta, MetaStore as _};
use serde_json::{Value, json};
use support::{Bench, Running};

const DEPTH: &str = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;
const NOWHERE: &str = "http://127.0.0.1:1/SECRET";

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

/// The program does not start, exits with 1 and says all of this, without a secret.
#[track_caller]
fn assert_refused(bench: &Bench, expected: &[&str]) {
    let said = assert_fails(bench, expected);
    let listeners = support::events(&said, "health_listening");
    assert!(listeners.is_empty(), "it started: {said}");
}

/// A run to its end exits with 1 and says all of this, without a secret.
#[track_caller]
fn assert_fails(bench: &Bench, expected: &[&str]) -> String {
    let output = bench.output(&["run", "--until-caught-up"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for expected in expected {
        assert!(said.contains(expected), "no `{expected}` in\n{said}");
    }
    assert!(!said.contains("SECRET"), "a secret was printed: {said}");
    said
}

fn genesis_of(node: &EvmNode) -> String {
    node.block(0).unwrap().hash.to_string()
}

/// Each kind of failure that only one chain has, and its words.
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
    // Who waits for the end is told that nobody answers; a node that follows would continue asking.
    let words = [
        "the source cannot be used",
        "endpoint=127.0.0.1:1",
        "cannot connect",
    ];
    assert_fails(&bench(&[chain(31_337, NOWHERE)]), &words);
    let taken = bench(&[chain(31_337, &right)]);
    std::fs::write(taken.dir.path().join("data"), "a file").unwrap();
    let data = taken.dir.path().join("data");
    assert_refused(
        &taken,
        &["cannot write to the data directory", data.to_str().unwrap()],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_is_of_one_chain_for_ever() {
    let (first, server) = serve(EvmSpec::tiny(3), 40).await;
    let (second, other) = serve(EvmSpec::tiny(4), 60).await;
    let bench = bench(&[chain(31_337, &server.url())]);
    bench.say(&["run", "--until-caught-up"]);
    let path = bench.dir.path().join("data/chains/31337/genesis");
    let kept = std::fs::read_to_string(&path).unwrap();
    assert_eq!(kept.trim(), genesis_of(&first));
    // The same id, another chain: with blocks to take or without, nothing is taken.
    let text = std::fs::read_to_string(&bench.config).unwrap();
    std::fs::write(&bench.config, text.replace(&server.url(), &other.url())).unwrap();
    let hashes = [genesis_of(&first), genesis_of(&second)];
    let words = [
        &hashes[0],
        &hashes[1],
        "right endpoint",
        "another data directory",
    ];
    assert_refused(&bench, &words);
    assert_eq!(bench.head(), Some(35));
    assert!(bench.json(&["state", "--json"])[0]["halted"].is_null());
    // A damaged note is no note.
    std::fs::write(&path, "0x12\n").unwrap();
    assert_refused(&bench, &["genesis is damaged", "remove it"]);
    std::fs::write(&path, kept).unwrap();
    std::fs::write(&bench.config, text).unwrap();
    bench.say(&["run", "--until-caught-up"]);
}

/// A state that a newer version wrote is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_format_from_the_future_is_refused() {
    let (_, server) = serve(EvmSpec::tiny(5), 20).await;
    let bench = bench(&[chain(31_337, &server.url())]);
    bench.say(&["run", "--until-caught-up"]);
    let dir = bench.dir.path().join("data/chains/31337");
    let before = {
        let meta = FileMeta::open_writer(&dir).unwrap();
        let state = meta.load().await.unwrap().unwrap();
        let mut bytes = state.bytes.to_vec();
        // Behind the magic and the version that wrote it: the version that may read it.
        bytes[10] = 99;
        meta.swap(Some(state.version), Bytes::from(bytes))
            .await
            .unwrap();
        std::fs::read(dir.join("state")).unwrap()
    };
    assert_refused(
        &bench,
        &["written by a newer version", dir.to_str().unwrap()],
    );
    assert_eq!(std::fs::read(dir.join("state")).unwrap(), before);
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
    assert_fails(&bench, &words);
    let states = bench.json(&["state", "--json"]);
    assert_eq!(state_of(&states, 31_337)["head"]["number"], 15);
    assert!(state_of(&states, 5)["head"].is_null());
    // Where none can ever be followed, nothing starts.
    let none = self::bench(&[chain(5, &url), chain(1, &url)]);
    assert_refused(
        &none,
        &["no chain can be followed", "expected=5", "expected=1"],
    );
}

/// Starts the program and waits for its listener for operators, the so manieth of this log.
fn start(bench: &Bench, times: usize) -> Running {
    let running = bench.start();
    let told = || bench.count("health_listening") >= times;
    bench.wait("the listener", told);
    running
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
    let running = start(&bench, 1);
    one.mine(10);
    let health = bench
        .until_health("the chain whose provider is there", |_, health| {
            health_of(health, 31_337)["lastBackfillBlock"] == 45
                && health_of(health, 31_338)["error"].is_string()
        })
        .await;
    let waits = health_of(&health, 31_338);
    let said = |field: &str, what: &str| waits[field].as_str().unwrap().contains(what);
    assert!(said("error", "cannot connect"), "{waits}");
    assert!(said("notReadyReason", "since the start"), "{waits}");
    assert_eq!(waits["lastBackfillBlock"], 35);
    let states = bench.json(&["state", "--json"]);
    let trouble = state_of(&states, 31_338)["error"].as_str();
    assert!(trouble.unwrap().contains("cannot connect"), "{states}");
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
        let trouble = health_of(health, 31_338)["error"].as_str();
        trouble.is_some_and(|said| said.contains("another chain"))
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

/// A dataset that a Portal does not know, or that begins later than the first block that is wanted, stops
/// its own chain, and says what to set.
#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_that_cannot_be_used_stops_no_other_chain() {
    let (one, server) = serve(EvmSpec::tiny(10), 40).await;
    let options = PortalOptions {
        start_block: 7,
        ..PortalOptions::default()
    };
    let late = PortalServer::start(one.clone(), options).await.unwrap();
    let faults = PortalFaults::new(1);
    faults.always(PortalFault::Status(404));
    let options = PortalOptions {
        faults,
        ..PortalOptions::default()
    };
    let unknown = PortalServer::start(one, options).await.unwrap();
    let portal = |id: u64, server: &PortalServer| {
        let url = server.url();
        let (url, dataset) = url.trim_end_matches('/').rsplit_once('/').unwrap();
        format!(
            r#"{{ "chainId": {id}, "portal": {{ "url": "{url}", "dataset": "{dataset}" }}, "pollMs": 20 }}"#
        )
    };
    let bench = bench(&[
        portal(31_338, &late),
        portal(31_339, &unknown),
        chain(31_337, &server.url()),
    ]);
    let running = start(&bench, 1);
    let health = bench
        .until_health("the other chain", |_, health| {
            let said = |id| health_of(health, id)["error"].is_string();
            health_of(health, 31_337)["lastBackfillBlock"] == 35 && said(31_338) && said(31_339)
        })
        .await;
    let trouble = |id| health_of(&health, id)["error"].as_str().unwrap();
    assert!(trouble(31_338).contains("set startBlock to 7"), "{health}");
    assert!(
        trouble(31_339).contains("does not know the dataset"),
        "{health}"
    );
    running.stop();
    // With what it says to set, the chain continues.
    bench.change(
        r#""chainId": 31338,"#,
        r#""chainId": 31338, "startBlock": 7,"#,
    );
    let running = start(&bench, 2);
    bench
        .until_health("the dataset that begins later", |_, health| {
            let chain = health_of(health, 31_338);
            chain["error"].is_null() && chain["lastSeenBlock"] == 40 && chain["queueDepth"] == 34
        })
        .await;
    running.stop();
}

/// A note of how the chain was run last is no reason not to run it.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_note_of_the_last_run_is_set_aside() {
    let (_, server) = serve(EvmSpec::tiny(11), 20).await;
    let bench = bench(&[chain(31_337, &server.url())]);
    bench.say(&["run", "--until-caught-up"]);
    let dir = bench.dir.path().join("data/chains/31337");
    std::fs::write(dir.join("run"), [0, 1, 2]).unwrap();
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(std::fs::read(dir.join("run.damaged")).unwrap(), [0, 1, 2]);
    assert!(
        std::fs::read_to_string(dir.join("run"))
            .unwrap()
            .starts_with('{')
    );
}
