//! `chronolith range retry` through a node that runs: a range that failed becomes complete, and a wrong request is
//! refused with what to do. Ranges of 40 ledgers from ledger 2 on.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::path::PathBuf;

use serde_json::Value;
use support::Bench;
use support::stellar::{Pond, bench};

const RANGES: &str = r#", "ranges": { "size": 40, "parallel": 2, "checkpoint": 10 }"#;

fn state_of(bench: &Bench, id: usize) -> Value {
    bench.json(&["state", "--ranges", "--json"])[0]["ranges"][id]["state"].clone()
}

/// A segment of range 1, which holds some of its ledgers.
fn segment(bench: &Bench, pond: &Pond) -> PathBuf {
    let listed = bench.json(&["state", "--ranges", "--json"]);
    let name = listed[0]["ranges"][1]["segments"][0].as_str().unwrap();
    let chain = pond.network().chain_id();
    let blobs = format!("data/chains/{chain}/blobs");
    bench.dir.path().join(blobs).join(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_range_is_tried_again_by_the_node_that_runs() {
    let pond = Pond::new(40, 130);
    let bench = bench(&pond.fields(&pond.lake_field()), RANGES);
    // Range 1 gets its first half: nothing vouches for its end yet, so that no command would fill it.
    for (start, end) in [(82, 121), (2, 61)] {
        let bounds = format!(r#", "mode": "backfill", "startBlock": {start}, "endBlock": {end}"#);
        bench.change(RANGES, &format!("{bounds}{RANGES}"));
        bench.say(&["run"]);
        bench.change(&bounds, "");
    }
    let path = segment(&bench, &pond);
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let words = ["backfill", "--start-ledger", "62", "--end-ledger", "81"];
    bench.refused(&words, "range 1 (blocks 42-81) is FAILED");
    assert_eq!(state_of(&bench, 1), "FAILED");

    let running = bench.start();
    bench.wait("the head", || bench.head() == Some(129));
    assert_eq!(state_of(&bench, 1), "FAILED", "a start is no way out");
    for (id, reason) in [
        (
            "9",
            "there is no range 9, the last is 3: `chronolith state --chain sim --ranges` lists them",
        ),
        (
            "0",
            "range 0 did not fail, it is COMPLETE: there is nothing to try again",
        ),
        (
            "3",
            "range 3 did not fail, it is INGESTING: its missing blocks are fetched by `chronolith run` or \
             `chronolith backfill`",
        ),
    ] {
        bench.refused(&["range", "retry", id], reason);
    }
    // What is damaged still fails it again.
    let failed = || bench.count("range_transition_failed");
    assert_eq!(failed(), 0);
    let answer = bench.say(&["range", "retry", "1"]);
    assert!(answer.contains("range 1 is tried again by the node that runs"));
    bench.wait("the failure", || failed() == 1);
    bench.wait("the failed state", || state_of(&bench, 1) == "FAILED");
    std::fs::write(&path, &whole).unwrap();
    let words = ["range", "retry", "1", "--reason", "repaired", "--json"];
    assert_eq!(bench.json(&words)["id"], 1);
    bench.wait("range 1", || state_of(&bench, 1) == "COMPLETE");
    bench.refused(&["range", "retry", "1"], "it is COMPLETE");
    // A node that cannot be reached keeps others away.
    std::fs::remove_file(bench.dir.path().join("data/admin")).unwrap();
    let words = ["range", "retry", "1"];
    bench.refused(&words, "stop the node that follows this chain first");
    running.stop();
    bench.refused(&words, "range 1 did not fail, it is COMPLETE");
    bench.refused(&["range", "retry", "9"], "there is no range 9");
    pond.assert_archived(&bench, 2..130).await;
    bench.say(&["verify", "--against-source"]);
}
