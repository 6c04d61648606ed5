//! `chronolith backfill` of a Stellar network comes to an end: with everything, or with exit code 1 and why.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::files::{FileFaults, FileServer};
use serde_json::{Value, json};
use support::Bench;
use support::stellar::{Pond, bench};

/// How a command ends that must end, and what it says.
#[track_caller]
fn ended(bench: &Bench, words: &[&str]) -> (Option<i32>, String) {
    let before = bench.log().len();
    let status = bench.start_with(words, &[]).wait();
    (status.code(), bench.log()[before..].to_owned())
}

/// A command ends with code 1, and says all of these.
#[track_caller]
fn fails(bench: &Bench, words: &[&str], expected: &[&str]) -> String {
    let (code, said) = ended(bench, words);
    assert_eq!(code, Some(1), "{said}");
    for words in expected {
        assert!(said.contains(words), "no {words} in {said}");
    }
    said
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
    let admin = std::fs::read_to_string(bench.dir.path().join("data/admin")).unwrap();
    let asking = reqwest::Client::new().post(format!("http://{admin}/admin/v1/backfill"));
    let asking = asking.header("content-type", "application/json");
    let range = json!({ "chain": "sim", "from": 1, "to": 20 });
    let answer = asking.body(range.to_string()).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 409);
    let answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert_eq!(answer["error"]["code"], "BAD_RANGE", "{answer}");
    running.stop();
}

/// A web server lists nothing: the newest ledger of its lake is looked for from the first that is wanted.
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
    let (code, said) = ended(&bench, &words);
    assert_eq!(code, Some(0), "{said}");
    pond.assert_archived(&bench, 30..51).await;
}
