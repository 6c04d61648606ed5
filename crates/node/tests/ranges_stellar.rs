//! Ranges of a Stellar network: counted from ledger 2, from backfill to streaming.
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

#[tokio::test(flavor = "multi_thread")]
async fn a_network_goes_from_backfill_to_streaming() {
    let pond = Pond::new(34, 130);
    let bench = bench(&pond.fields(&pond.lake_field()), RANGES);
    bench.say(&["backfill", "--start-ledger", "2", "--end-ledger", "121"]);
    let complete = keys(&bench);
    for (id, first, last) in [(0, 2, 41), (1, 42, 81), (2, 82, 121)] {
        let of = |key: &str| complete[format!("range:{id}:{key}")].clone();
        assert_eq!(of("state"), "COMPLETE");
        assert_eq!(
            (of("start_ledger"), of("end_ledger")),
            (json!(first), json!(last))
        );
        assert_eq!(
            (of("ledger:count"), of("txhash:last_committed_ledger")),
            (json!(40), json!(last))
        );
        // The hash of a transaction and, where it pays for another one's fees, the inner one.
        let mut expected = [0_u64; 16];
        for number in first..=last {
            for tx in &pond.chain.ledger(number).txs {
                for hash in [Some(tx.hash), tx.inner_hash].into_iter().flatten() {
                    expected[usize::from(hash.0[0] >> 4)] += 1;
                }
            }
        }
        let counted = of("txhash:cf_counts");
        let counted: Vec<u64> = (0..16)
            .map(|digit: u32| counted[format!("{digit:x}")].as_u64().unwrap())
            .collect();
        assert_eq!(counted, expected);
    }
    assert_eq!(complete["range:3:state"], Value::Null);
    bench.change(r#", "ranges""#, r#", "mode": "streaming", "ranges""#);
    let running = bench.start();
    bench.wait("the newest ledger", || {
        keys(&bench)["global:last_processed_ledger"] == 129
    });
    let now = keys(&bench);
    assert_eq!(now["global:mode"], "streaming");
    assert_eq!(now["range:3:state"], "INGESTING");
    assert_eq!(now["range:3:start_ledger"], 122);
    assert_eq!(now["range:3:ledger:last_committed_ledger"], 129);
    // Over the border.
    pond.grow(163);
    bench.wait("the border", || keys(&bench)["range:3:state"] == "COMPLETE");
    bench.wait("the next range", || {
        keys(&bench)["range:4:ledger:last_committed_ledger"] == 162
    });
    running.stop();
    pond.assert_archived(&bench, 2..163).await;
    bench.say(&["verify", "--against-source"]);
}

/// What the running program answers to a method of Stellar RPC.
async fn ask(bench: &Bench, method: &str, params: Value) -> Value {
    let asked = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let asking = reqwest::Client::new().post(format!("{}/stellar/sim", bench.public()));
    let asking = asking.header("content-type", "application/json");
    let answer = asking.body(asked.to_string()).send().await.unwrap();
    let mut answer: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    assert!(answer["error"].is_null(), "{method}: {answer}");
    answer["result"].take()
}

/// The bounds of a backfill lie behind the lake's end, so it waits: it says how far it is, and what it has is
/// served.
#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_tells_its_mode_and_serves_what_it_has() {
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
    let told: Vec<Value> = (ranges.iter())
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
    assert_eq!(Value::Array(told), expected, "{status}");
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

/// More is kept than before, and the source ends where the archive does: nobody has the block behind.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_by_now_is_filled_in_up_to_the_end_of_a_lake() {
    let pond = Pond::new(35, 60);
    let few = r#", "datasets": ["logs", "tx_hashes"]"#;
    let bench = bench(&pond.fields(&pond.lake_field()), few);
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(bench.head(), Some(59));
    bench.change(few, "");
    let words = ["backfill", "--from", "2", "--to", "59", "--json"];
    assert_eq!(bench.json(&words)["filledBlocks"], 58);
    pond.assert_archived(&bench, 2..60).await;
}

/// The end of a range was archived and nothing below it: the range said COMPLETE with a fraction of its ledgers,
/// and streaming refused to start because it was not. It is INGESTING until its first ledger is there.
#[test]
fn a_range_that_is_cut_at_its_start_is_not_complete() {
    let pond = Pond::new(36, 130);
    let bench = bench(&pond.fields(&pond.lake_field()), RANGES);
    bench.say(&["backfill", "--start-ledger", "30", "--end-ledger", "41"]);
    let cut = keys(&bench);
    assert_eq!(cut["range:0:state"], "INGESTING", "{cut}");
    assert_eq!(cut["range:0:ledger:phase"], "INGESTING", "{cut}");
    assert_eq!(cut["range:0:ledger:count"], 12, "{cut}");
    assert_eq!(cut["range:0:completed_at"], Value::Null, "{cut}");
    bench.change(r#", "ranges""#, r#", "mode": "streaming", "ranges""#);
    bench.refused(&["run"], "Range 0 (ledgers 2-41): state=INGESTING");
    bench.change(r#", "mode": "streaming", "ranges""#, r#", "ranges""#);
    let said = bench.say(&["backfill", "--start-ledger", "2", "--end-ledger", "41"]);
    assert!(said.contains("28 were fetched, 12 were there"), "{said}");
    let whole = keys(&bench);
    assert_eq!(whole["range:0:state"], "COMPLETE", "{whole}");
    assert!(whole["range:0:completed_at"].is_string(), "{whole}");
    // Where the settings want no more of it, nothing is missing: it stays cut, and is followed from.
    let later = bench_from(&pond, 30);
    later.say(&["run", "--until-caught-up"]);
    assert_eq!(keys(&later)["range:0:state"], "INGESTING");
    later.change(r#", "ranges""#, r#", "mode": "streaming", "ranges""#);
    let running = later.start();
    later.wait("streaming", || later.has("following"));
    assert_eq!(keys(&later)["global:mode"], "streaming");
    running.stop();
}

fn bench_from(pond: &Pond, first: u32) -> Bench {
    let more = format!(r#", "startBlock": {first}{RANGES}"#);
    bench(&pond.fields(&pond.lake_field()), &more)
}

/// Asked for ledgers above the newest, `backfill` fetched all between as well, and counted those that were asked
/// for. It says first what else would have to be fetched, and how to ask for it.
#[test]
fn a_backfill_fetches_what_was_asked_for() {
    let pond = Pond::new(37, 130);
    let bench = bench(&pond.fields(&pond.lake_field()), RANGES);
    let said = bench.say(&["backfill", "--start-ledger", "2", "--end-ledger", "41"]);
    assert!(said.contains("40 were fetched, 0 were there"), "{said}");
    let words = ["backfill", "--start-ledger", "82", "--end-ledger", "121"];
    bench.refused(
        &words,
        "40 ledgers between it and 82 would have to be fetched as well",
    );
    bench.refused(&words, "--start-ledger 42 --end-ledger 121");
    assert_eq!(bench.head(), Some(41));
    let said = bench.say(&["backfill", "--start-ledger", "42", "--end-ledger", "121"]);
    assert!(said.contains("80 were fetched, 0 were there"), "{said}");
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
