//! What cannot work is said at the start, with what to do about it, and nothing starts.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use bytes::Bytes;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use chronolith_store::{FileMeta, MetaStore as _};
use support::Bench;

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
    let output = bench.output(&["run", "--until-caught-up"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for expected in expected {
        assert!(said.contains(expected), "no `{expected}` in\n{said}");
    }
    assert!(!said.contains("SECRET"), "a secret was printed: {said}");
    assert!(!said.contains("health and metrics"), "it started: {said}");
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
            chain(31_337, NOWHERE),
            vec![
                "no endpoint can be used",
                "endpoint=127.0.0.1:1",
                "cannot connect",
            ],
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

/// One that cannot start is enough for none to, and all are told.
#[tokio::test(flavor = "multi_thread")]
async fn all_failures_are_told_together() {
    let (_, server) = serve(EvmSpec::tiny(6), 20).await;
    let url = server.url();
    let bench = bench(&[
        chain(5, &url),
        chain(31_337, &url),
        chain(7, NOWHERE),
        chain(1, &url),
    ]);
    let words = [
        "3 chains cannot start",
        "chain 5 (5): ",
        "expected=5, got=31337",
        "chain 7 (7): ",
        "cannot connect",
        "chain ethereum (1): ",
    ];
    assert_refused(&bench, &words);
}
