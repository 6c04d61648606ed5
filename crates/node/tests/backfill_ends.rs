//! `chronolith backfill` of a Stellar network comes to an end: with everything, or with exit code 1 and why.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::fs::File;

use chronolith_sim::files::{FileFaults, FileServer};
use serde_json::{Value, json};
use support::Bench;
use support::stellar::{Pond, bench};

const RANGES: &str = r#", "ranges": { "size": 40, "parallel": 2, "checkpoint": 10 }"#;

/// How a command ends that must end, and what it logs.
#[track_caller]
fn ended(bench: &Bench, words: &[&str]) -> (Option<i32>, String) {
    let before = bench.log().len();
    let status = bench.start_with(words, &[]).wait();
    (status.code(), bench.log()[before..].to_owned())
}

/// A command ends with code 1, and logs all of these.
#[track_caller]
fn fails(bench: &Bench, words: &[&str], expected: &[&str]) -> String {
    let (code, logged) = ended(bench, words);
    assert_eq!(code, Some(1), "{logged}");
    for words in expected {
        assert!(logged.contains(words), "no {words} in {logged}");
    }
    logged
}

fn states(bench: &Bench) -> Vec<String> {
    let listed = bench.json(&["state", "--ranges", "--json"]);
    let ranges = listed[0]["ranges"].as_array().unwrap().iter();
    ranges
        .map(|range| range["state"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_no_ledger_has_are_refused() {
    let pond = Pond::new(60, 30);
    let bench = bench(&pond.fields(&pond.lake_field()), "");
    let refused = |bench: &Bench| {
        for start in ["0", "1"] {
            let words = ["backfill", "--start-ledger", start, "--end-ledger", "20"];
            let first = format!("--start-ledger {start}: the first ledger is 2");
            let sums = "range 0 holds ledgers (0 × 10000000) + 2 = 2 to ((0 + 1) × 10000000) + 2 - 1 = 10000001";
            fails(bench, &words, &[&first, sums]);
        }
        let words = [
            "backfill",
            "--start-ledger",
            "2",
            "--end-ledger",
            "4294967296",
        ];
        let last =
            "--end-ledger 4294967296: ledgers have 32-bit numbers, and the last is 4294967295";
        fails(bench, &words, &[last]);
    };
    refused(&bench);
    bench.say(&["run", "--until-caught-up"]);
    // The same where a node runs, by command and over its listener.
    let running = bench.start();
    bench.public();
    refused(&bench);
    let (admin, token) = bench.admin();
    let asking = reqwest::Client::new().post(format!("http://{admin}/admin/v1/backfill"));
    let asking = asking
        .header("content-type", "application/json")
        .bearer_auth(token);
    let range = json!({ "chain": "sim", "from": 1, "to": 20 });
    let answer = asking.body(range.to_string()).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 409);
    let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert_eq!(answer["error"]["code"], "BAD_RANGE", "{answer}");
    running.stop();
}

/// A web server lists nothing: the newest ledger of its lake is searched for from the first that is wanted.
#[tokio::test(flavor = "multi_thread")]
async fn a_lake_may_begin_above_the_first_ledger_of_the_chain() {
    let pond = Pond::new(61, 60);
    for ledger in 2..30 {
        std::fs::remove_file(pond.lake.path(ledger)).unwrap();
    }
    let server = FileServer::start(pond.lake.directory(), FileFaults::default()).await;
    let server = server.unwrap();
    let lake = format!(r#""lake": {{ "url": {:?} }}"#, server.url());
    let bench = bench(&pond.fields(&lake), "");
    let words = ["backfill", "--start-ledger", "30", "--end-ledger", "50"];
    let (code, logged) = ended(&bench, &words);
    assert_eq!(code, Some(0), "{logged}");
    pond.assert_archived(&bench, 30..51).await;
}

/// A core whose directory another process holds brings nothing: the command ends and reports it.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_another_process_holds_is_not_waited_for() {
    let pond = Pond::new(62, 60);
    let core = pond.core_field("");
    let chain = pond.network().chain_id();
    let alone = bench(&pond.fields(&core), "");
    let with_lake = bench(
        &pond.fields(&format!("{}, {core}", pond.lake_field())),
        RANGES,
    );
    let words = ["backfill", "--start-ledger", "2", "--end-ledger", "79"];
    for bench in [&alone, &with_lake] {
        let dir = bench.dir.path().join(format!("data/chains/{chain}/core"));
        std::fs::create_dir_all(&dir).unwrap();
        let lock = File::create(dir.join("lock")).unwrap();
        lock.lock().unwrap();
        fails(bench, &words, &["another process runs a core there"]);
        drop(lock);
    }
    // What the lake has is archived all the same.
    assert_eq!(states(&with_lake)[0], "COMPLETE");
    for bench in [&alone, &with_lake] {
        let (code, logged) = ended(bench, &words);
        assert_eq!(code, Some(0), "{logged}");
        pond.assert_archived(bench, 2..80).await;
    }
    // What it waits for is logged.
    let log = alone.log();
    let waits = |line: &&str| line.contains(r#""waiting for core""#) && line.contains("WARN");
    assert!(log.lines().any(|line| waits(&line)), "{log}");
}

/// An object is missing in the middle of a lake: what else there is comes, and then the command ends. In either
/// range, and in both: `crates/follower/tests/lake.rs`.
#[tokio::test(flavor = "multi_thread")]
async fn a_gap_in_a_lake_ends_a_backfill() {
    let pond = Pond::new(63, 90);
    let whole = std::fs::read(pond.lake.path(30)).unwrap();
    std::fs::remove_file(pond.lake.path(30)).unwrap();
    let bench = bench(&pond.fields(&pond.lake_field()), RANGES);
    let words = ["backfill", "--start-ledger", "2", "--end-ledger", "81"];
    let key = pond.lake.layout().key(30);
    let gap = format!("object {key} is missing, and the lake continues to ledger 89");
    fails(&bench, &words, &[&gap, "not every range is complete"]);
    assert_eq!(states(&bench), ["INGESTING", "COMPLETE"]);
    // Once the object is there, the same command continues from there.
    std::fs::write(pond.lake.path(30), whole).unwrap();
    let (code, stderr) = ended(&bench, &words);
    assert_eq!(code, Some(0), "{stderr}");
    pond.assert_archived(&bench, 2..82).await;
}

/// A ledger that has not closed yet: core cannot catch up with it, however often it tries.
#[tokio::test(flavor = "multi_thread")]
async fn a_core_that_brings_nothing_ends_a_backfill() {
    let pond = Pond::new(65, 60);
    let core = pond.core_field("[[faults]]\nkind = \"die\"\ntimes = 1000");
    let bench = bench(&pond.fields(&core), "");
    let words = ["backfill", "--start-ledger", "2", "--end-ledger", "79"];
    let why = [
        "times in a row and brought no ledger",
        "that has not closed yet",
    ];
    fails(&bench, &words, &why);
}
