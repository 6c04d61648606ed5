//! Ranges of a Stellar network as operators and clients see them. From backfill to streaming:
//! `crates/follower/tests/range_ledgers.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use support::Bench;
use support::stellar::{Pond, bench};

const RANGES: &str = r#", "ranges": { "size": 40, "parallel": 3, "checkpoint": 10 }"#;

fn keys(bench: &Bench) -> Value {
    bench.json(&["state", "--keys", "--json"])[0]["keys"].clone()
}

/// What the running program answers to a method of Stellar RPC.
async fn ask(bench: &Bench, method: &str, params: Value) -> Value {
    let requested = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let asking = reqwest::Client::new().post(format!("{}/stellar/sim", bench.public()));
    let asking = asking.header("content-type", "application/json");
    let answer = asking.body(requested.to_string()).send().await.unwrap();
    let mut answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert!(answer["error"].is_null(), "{method}: {answer}");
    answer["result"].take()
}

/// The bounds of a backfill lie above the lake's end, so it waits: it reports how far it is, and what it has is
/// served.
#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_reports_its_mode_and_serves_what_it_has() {
    let pond = Pond::new(36, 60);
    let bounded = format!(r#", "mode": "backfill", "startBlock": 2, "endBlock": 121{RANGES}"#);
    let bench = bench(&pond.fields(&pond.lake_field()), &bounded);
    let mut running = bench.start();
    bench.wait("the end of the lake", || {
        let output = bench.output(&["state", "--keys", "--json"]);
        let now: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let now = &now[0]["keys"];
        now["range:0:state"] == "COMPLETE"
            && now["range:1:ledger:last_committed_ledger"].as_u64() >= Some(51)
    });
    let status = ask(&bench, "getStatus", json!({})).await;
    assert_eq!(status["mode"], "backfill", "{status}");
    let ranges = status["ranges"].as_array().unwrap();
    let reported: Vec<Value> = (ranges.iter())
        .map(|range| {
            json!([
                range["range_id"],
                range["state"],
                range["start_ledger"],
                range["end_ledger"]
            ])
        })
        .collect();
    let expected = json!([
        [0, "COMPLETE", 2, 41],
        [1, "INGESTING", 42, 81],
        [2, "PENDING", 82, 121],
    ]);
    assert_eq!(Value::Array(reported), expected, "{status}");
    assert_eq!(ranges[0]["count"], 40);
    // A transaction of the range that is complete, and one of that which is not.
    for ledgers in [2..42, 42..52] {
        let mut made = ledgers.map(|number| pond.chain.ledger(number));
        let made = made.find(|made| !made.txs.is_empty()).unwrap();
        let hash = made.txs[0].hash.to_string()[2..].to_owned();
        let found = ask(&bench, "getTransaction", json!({ "hash": hash })).await;
        assert_eq!(found["txHash"], hash, "{found}");
        assert_eq!(found["ledger"], made.sequence, "{found}");
        let envelope = STANDARD.encode(&made.txs[0].envelope);
        assert_eq!(found["envelopeXdr"], envelope, "{found}");
    }
    assert!(running.is_alive(), "it did not wait: {}", bench.log());
    pond.grow(130);
    assert!(running.wait().success(), "{}", bench.log());
    pond.assert_archived(&bench, 2..122).await;
}

/// With ledgers above the newest, `backfill` fetched all between as well, and counted the requested ones alone. It
/// reports first what else would have to be fetched, and the command that does so.
#[test]
fn a_backfill_fetches_what_was_requested() {
    let pond = Pond::new(37, 130);
    let bench = bench(&pond.fields(&pond.lake_field()), RANGES);
    let message = bench.say(&["backfill", "--start-ledger", "2", "--end-ledger", "41"]);
    assert!(
        message.contains("40 were fetched, 0 were there"),
        "{message}"
    );
    let words = ["backfill", "--start-ledger", "82", "--end-ledger", "121"];
    bench.refused(
        &words,
        "40 ledgers between it and 82 would have to be fetched as well",
    );
    bench.refused(&words, "--start-ledger 42 --end-ledger 121");
    assert_eq!(bench.head(), Some(41));
    let message = bench.say(&["backfill", "--start-ledger", "42", "--end-ledger", "121"]);
    assert!(
        message.contains("80 were fetched, 0 were there"),
        "{message}"
    );
    assert_eq!(bench.head(), Some(121));
}

/// A backfill that fails at its start leaves a new archive that says what it is for.
#[test]
fn a_new_archive_says_that_it_is_backfilled() {
    let pond = Pond::new(38, 30);
    let bench = bench(&pond.fields(&pond.lake_field()), RANGES);
    let words = ["backfill", "--start-ledger", "2", "--end-ledger", "41"];
    bench.refused(&words, "only final blocks are filled in");
    assert_eq!(keys(&bench)["global:mode"], "backfill");
}
