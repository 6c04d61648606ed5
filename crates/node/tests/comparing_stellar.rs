//! `verify --against-source` and `repair --dry-run --against-source` of a Stellar network, beside the node that
//! runs its core: findings are reported, and what was not compared.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::path::PathBuf;

use serde_json::{Value, json};
use support::Bench;
use support::stellar::{Pond, bench};

const VERIFY: [&str; 3] = ["verify", "--against-source", "--json"];
const REPAIR: [&str; 4] = ["repair", "--dry-run", "--against-source", "--json"];

/// How a command ends, what it answers, and what it logs.
fn answered(bench: &Bench, words: &[&str]) -> (Option<i32>, Value, String) {
    let output = bench.output(words);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), answer, stderr)
}

/// Flips a bit of the first object of a sort; returns where it is, and what it was.
fn damage(bench: &Bench, pond: &Pond, sort: &str) -> (PathBuf, Vec<u8>) {
    let listed = bench.json(&["state", "--ranges", "--json"]);
    let name = listed[0]["ranges"][0][sort][0].as_str().unwrap();
    let chain = pond.network().chain_id();
    let blobs = format!("data/chains/{chain}/blobs");
    let path = bench.dir.path().join(blobs).join(name);
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    (path, whole)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_is_compared_with_as_far_as_it_goes() {
    let pond = Pond::new(66, 60);
    let core = pond.core_field("head = 70\nledgerMs = 20");
    let fields = pond.fields(&format!("{}, {core}", pond.lake_field()));
    let bench = bench(&fields, "");
    let running = bench.start();
    bench.wait("ledgers of core", || bench.head() > Some(75));
    for words in [&VERIFY[..], &REPAIR] {
        let (code, answer, stderr) = answered(&bench, words);
        assert_eq!(code, Some(0), "{words:?}: {stderr}");
        assert_eq!(answer["findings"], json!([]));
        let left_out = &answer["notCompared"];
        assert_eq!(left_out["from"], 60, "{answer}");
        assert_eq!(left_out["to"], answer["to"], "{answer}");
        let why = left_out["why"].as_str().unwrap();
        assert!(why.contains("the lake ends before them"), "{why}");
    }
    let report = bench.say(&["verify", "--against-source"]);
    assert!(report.contains("blocks 60 to "), "{report}");
    assert!(report.contains("were not compared"), "{report}");
    // All that was requested was compared.
    let words = [&VERIFY[..], &["--to", "59"]].concat();
    let (code, answer, stderr) = answered(&bench, &words);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(answer["notCompared"], Value::Null);
    running.stop();
    bench.say(&["verify", "--against-source"]);
}

/// The comparison fails, and what was found before is reported beside the error.
#[tokio::test(flavor = "multi_thread")]
async fn findings_are_reported_beside_an_error() {
    let pond = Pond::new(67, 60);
    // No ledger closes while the test runs: packs stay as they are.
    let core = pond.core_field("head = 60\nledgerMs = 600000");
    let alone = bench(&pond.fields(&core), "");
    let running = alone.start();
    alone.wait("ledgers of core", || alone.head() == Some(60));
    damage(&alone, &pond, "packs");
    for words in [&VERIFY[..], &REPAIR] {
        let (code, answer, stderr) = answered(&alone, words);
        assert_eq!(code, Some(1), "{words:?}: {stderr}");
        assert!(stderr.contains("another process runs a core"), "{stderr}");
        assert!(
            !answer["objects"].as_array().unwrap().is_empty(),
            "{answer}"
        );
        assert_eq!(answer["notCompared"]["from"], 2, "{answer}");
    }
    running.stop();
    // A lake with a wrong object: what lies before it was compared.
    let bench = bench(&pond.fields(&pond.lake_field()), "");
    bench.say(&["run", "--until-caught-up"]);
    std::fs::remove_file(pond.lake.path(40)).unwrap();
    let (code, answer, stderr) = answered(&bench, &VERIFY);
    assert_eq!(code, Some(1), "{stderr}");
    let key = pond.lake.layout().key(40);
    assert!(stderr.contains(&key), "{stderr}");
    assert_eq!(answer["findings"], json!([]), "{answer}");
    assert!(answer["contentRoot"].is_string(), "{answer}");
    assert_eq!(answer["notCompared"]["to"], 59, "{answer}");
}
