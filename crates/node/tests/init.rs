//! `chronolith init`: answers on standard input or as flags make a settings file that loads and runs.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Output, Stdio};

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use chronolith_sim::portal::{PortalDatasets, PortalOptions};
use serde_json::{Value, json};
use support::{Bench, serve};

/// A command with these lines on standard input.
fn with_input(bench: &Bench, words: &[&str], lines: &str) -> Output {
    let mut command = bench.plain(words, &[]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    child.wait_with_output().unwrap()
}

#[track_caller]
fn answered(bench: &Bench, words: &[&str], lines: &str) -> String {
    let output = with_input(bench, words, lines);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?} {lines:?}: {errors}");
    let printed = String::from_utf8(output.stdout).unwrap();
    if words == ["init"] {
        assert!(
            errors.contains("no terminal: answers are read from it"),
            "{errors}"
        );
    }
    printed
}

#[track_caller]
fn refused(bench: &Bench, words: &[&str], lines: &str, expected: &str) {
    let output = with_input(bench, words, lines);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(1),
        "{words:?} {lines:?}: {errors}"
    );
    assert!(errors.contains(expected), "{words:?} {lines:?}: {errors}");
    assert!(!errors.contains("SECRET"), "{errors}");
}

fn file(bench: &Bench) -> Value {
    serde_json::from_str(&std::fs::read_to_string(&bench.config).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_for_a_node_make_a_file_that_runs() {
    let node = EvmNode::new(EvmSpec::tiny(5), 100);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::without_file();
    let lines = format!("{}\n\nlogs\n./history 8081\n", server.url());
    let printed = answered(&bench, &["init"], &lines);
    // Four questions, each with its default.
    for question in [
        "Which chains?",
        "Blocks from where?",
        "What to keep?",
        "Where?",
    ] {
        assert_eq!(printed.matches(question).count(), 1, "{printed}");
    }
    for default in ["[all]", "[rpc]", "[logs]", "[./data 8080]"] {
        assert!(printed.contains(default), "{printed}");
    }
    assert!(printed.ends_with("Next: chronolith run\n"), "{printed}");
    let written = file(&bench);
    assert_eq!(
        written["chains"],
        json!([
            { "chainId": 31_337, "rpcHttp": [server.url()], "datasets": ["logs"] }
        ])
    );
    assert_eq!(
        (&written["dataDir"], &written["listen"]),
        (&json!("./history"), &json!("0.0.0.0:8081"))
    );
    // URLs hold keys.
    let mode = std::fs::metadata(&bench.config)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    let checked = bench.say_plain(&["config", "check"], &[]);
    assert!(
        checked.starts_with("chronolith.json is fine. Data goes to ./history."),
        "{checked}"
    );
    bench.say_plain(&["run", "--until-caught-up"], &[]);
    let state: Value = serde_json::from_str(&bench.say_plain(&["state", "--json"], &[])).unwrap();
    // A chain that is not known is final at a depth of 64 blocks.
    assert_eq!(state[0]["head"]["number"], 36, "{state}");
    // It is there now.
    refused(
        &bench,
        &["init"],
        &lines,
        "chronolith.json is there: --force replaces it",
    );
    assert_eq!(file(&bench), written);
    answered(&bench, &["init", "--force"], &lines.replace("8081", "8082"));
    assert_eq!(file(&bench)["listen"], "0.0.0.0:8082");
    // URLs carry keys: nobody else may read it, also where others could read the one before.
    let path = bench.dir.path().join("chronolith.json");
    let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode));
    mode(0o644).unwrap();
    answered(&bench, &["init", "--force"], &lines);
    let permissions = std::fs::metadata(&path).unwrap().permissions();
    assert_eq!(permissions.mode() & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_answer_without_a_question() {
    let node = EvmNode::new(EvmSpec::tiny(6), 60);
    node.set_finalized_depth(10);
    let options = PortalOptions {
        dataset: Some("monad-mainnet".to_owned()),
        ..PortalOptions::default()
    };
    let portal = PortalDatasets::start(vec![(node.clone(), options)])
        .await
        .unwrap();
    let bench = Bench::without_file();
    let url = portal.url();
    let words = [
        "init",
        "--chains",
        "monad",
        "--from",
        "portal",
        "--keep",
        "clock",
        "--data-dir",
        "d",
        "--portal-url",
        &url,
        "--config",
        "other.json",
    ];
    let printed = answered(&bench, &words, "");
    assert!(!printed.contains('?'), "{printed}");
    assert!(
        printed.ends_with("Next: chronolith run --config other.json\n"),
        "{printed}"
    );
    bench.say_plain(&["run", "--until-caught-up", "--config", "other.json"], &[]);
    let state = bench.say_plain(&["state", "--json", "--config", "other.json"], &[]);
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!(
        state[0]["head"]["number"],
        node.finalized().number,
        "{state}"
    );
}

/// A node that reports another chain than those that were named: its chain was followed beside them.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_chain_that_was_not_named_is_refused() {
    let node = EvmNode::new(EvmSpec::tiny(7), 20);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::without_file();
    let expected = "31337: a node of this chain is given, and the chain is not asked for";
    let lines = format!("base\nportal,{}\nlogs\n\n", server.url());
    refused(&bench, &["init"], &lines, expected);
    assert!(!bench.config.exists());
    answered(&bench, &["init"], &lines.replace("base", "base,31337"));
    assert_eq!(file(&bench)["chains"].as_array().unwrap().len(), 2);
}

/// Nothing on standard input is the default of each question.
#[test]
fn no_answer_is_the_default() {
    let bench = Bench::without_file();
    let printed = answered(&bench, &["init"], "");
    assert!(
        printed.contains("block times of 30 chains into ./data, port 8080"),
        "{printed}"
    );
    let checked = bench.say_plain(&["config", "check"], &[]);
    assert_eq!(checked.matches("from a Portal").count(), 30, "{checked}");
}

#[test]
fn answers_that_cannot_be_used_are_named_and_nothing_is_written() {
    let bench = Bench::without_file();
    for (lines, expected) in [
        ("atlantis\n", "`atlantis` is no known chain"),
        ("base\nn.example/SECRET\n", "want portal, the URL of a node"),
        ("base\nhttps://exa mple/SECRET\n", "want portal"),
        ("base\nrpc\n", "give the URLs of your nodes"),
        ("base\nportal\nsome\n", "want clock, logs or everything"),
        ("base\nportal\nlogs\n./d 70000\n", "`70000` is no port"),
        (
            "http://127.0.0.1:1/SECRET\n\n",
            "does not say which chain it has: give CHAIN=URL",
        ),
    ] {
        refused(&bench, &["init"], lines, expected);
        assert!(!bench.config.exists(), "{lines:?}");
    }
    let toml = ["init", "--config", "a.toml"];
    refused(&bench, &toml, "", "does not end in .toml");
    // A second file would leave open which one counts.
    std::fs::write(bench.dir.path().join("chronolith.toml"), "").unwrap();
    refused(&bench, &["init"], "", ".toml");
}
