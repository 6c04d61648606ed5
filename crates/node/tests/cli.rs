//! The command line and its document say the same.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic"
)]

mod support;

use std::collections::BTreeSet;
use std::process::Command;

use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions};
use serde_json::Value;
use support::{Bench, DEPTH_5, serve};

fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    std::fs::read_to_string(path).unwrap()
}

fn help(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith"));
    let output = command.args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands below these words, as the help lists them; themselves where it lists none.
fn commands(words: &[&str]) -> Vec<String> {
    let text = help(words);
    let Some((_, list)) = text.split_once("Commands:\n") else {
        return vec![words.join(" ")];
    };
    let lines = list.lines().take_while(|line| !line.is_empty());
    // A description that is too long continues further to the right.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = names
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(!names.is_empty(), "{text}");
    let below = names.iter().filter(|name| **name != "help");
    below
        .flat_map(|name| commands(&[words, &[*name]].concat()))
        .collect()
}

#[test]
fn every_command_is_in_the_document_and_the_other_way_round() {
    let text = document();
    let headings = text
        .lines()
        .filter_map(|line| line.strip_prefix("### `chronolith "));
    let documented: BTreeSet<String> = headings
        .map(|rest| rest.trim_end_matches('`').to_owned())
        .collect();
    let commands: BTreeSet<String> = commands(&[]).into_iter().collect();
    assert!(commands.len() > 15, "{commands:?}");
    assert_eq!(documented, commands);
    // Each has an example that is right: the parser takes all of its flags.
    for name in &commands {
        let call = format!("\nchronolith {name}");
        let at = text
            .find(&call)
            .unwrap_or_else(|| panic!("no example of {name}"));
        let example = text[at + 1..].lines().next().unwrap();
        let words: Vec<&str> = name.split(' ').collect();
        let shown = help(&words);
        for flag in example
            .split_whitespace()
            .filter(|word| word.starts_with("--"))
        {
            assert!(shown.contains(flag), "{name} has no {flag}");
        }
    }
}

#[test]
fn the_description_of_the_interface_needs_no_settings() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith"));
    let output = command.args(["openapi", "--config", "/nowhere"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["openapi"], "3.1.0");
    assert!(
        printed["paths"]["/v1/chains"]["get"].is_object(),
        "{printed}"
    );
}

#[test]
fn exit_codes_are_documented_in_both_places_and_wrong_use_is_two() {
    let shown = help(&[]);
    let (_, codes) = shown
        .split_once("Exit codes:\n")
        .expect("no exit codes in the help");
    let text = document();
    for line in codes.lines() {
        let (code, meaning) = line.trim().split_once("  ").unwrap();
        assert!(text.contains(&format!("| {code} | {meaning} |")), "{line}");
    }
    assert_eq!(codes.lines().count(), 4);
    let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith"));
    let wrong = command.arg("verify").arg("--nonsense").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_get_json_too() {
    let node = EvmNode::new(EvmSpec::tiny(41), 100);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    let rewound = bench.json(&["rewind", "--json", "--to", "50", "--reason", "test"]);
    assert_eq!(
        (&rewound["head"], &rewound["headBefore"]),
        (&50.into(), &95.into())
    );
    // There is no halt to end, and what cannot be read later is no reason.
    bench.refused(&["resume", "--reason", "test"], "sim is not halted");
    bench.refused(
        &["rewind", "--to", "40", "--reason", " "],
        "the reason is empty",
    );
    // What was recorded can be read: what, why, when.
    let state = bench.json(&["state", "--json"]);
    let audit = state[0]["audit"].as_array().unwrap();
    assert_eq!(audit.len(), 1, "{state}");
    let act = audit[0]["act"].as_str().unwrap();
    assert!(act.starts_with("rewind: test"), "{act}");
    assert!(audit[0]["at"].as_u64() > Some(1_600_000_000), "{state}");
    let reported = bench.say(&["state"]);
    assert!(reported.contains("Z rewind: test"), "{reported}");
    let found = bench.json(&["gc", "--json", "--dry-run"]);
    let orphans = found["orphans"].as_array().unwrap();
    assert!(
        !orphans.is_empty() && orphans.iter().all(|one| one["bytes"].is_u64()),
        "{found}"
    );
    assert_eq!(
        (&found["removed"], &found["dryRun"]),
        (&0.into(), &true.into())
    );
    assert!(
        bench
            .say(&["gc", "--dry-run"])
            .contains(&format!("nothing names {} objects", orphans.len()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_without_an_archive_does_not_hide_the_state_of_others() {
    let node = EvmNode::new(EvmSpec::tiny(41), 100);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    let new = r#""chains": [ { "chainId": 7, "name": "new", "rpcHttp": ["http://127.0.0.1:9"], "finality": { "mode": "depth", "confirmations": 5 } }, "#;
    bench.change(r#""chains": [ "#, new);
    let output = bench.output(&["state", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("no archive of new yet"), "{message}");
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(shown[0]["chain"], "new", "{shown}");
    let why = shown[0]["archiveError"].as_str().unwrap();
    assert!(why.contains("no archive of new yet"), "{why}");
    assert_eq!(shown[1]["head"]["number"], 95, "{shown}");
    let output = bench.output(&["state"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("head      95"), "{text}");
}

/// For one release: the simulator was a command of this program.
#[test]
fn the_simulator_that_moved_is_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith"));
    let output = command.args(["sim", "serve", "--blocks", "9"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("chronolith-sim serve --blocks 9"),
        "{message}"
    );
}

/// Whoever reads may stop before the end.
#[test]
fn a_pipe_that_is_closed_ends_a_command_silently() {
    use std::io::Read as _;
    let mut command = Command::new(env!("CARGO_BIN_EXE_chronolith"));
    let piped = std::process::Stdio::piped;
    let command = command.arg("openapi").stdout(piped()).stderr(piped());
    let mut running = command.spawn().unwrap();
    let mut reading = running.stdout.take().unwrap();
    reading.read_exact(&mut [0]).unwrap();
    // There is more than a pipe holds.
    drop(reading);
    let ended = running.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}
