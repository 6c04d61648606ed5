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

fn states(bench: &Bench) -> Vec<String> {
    let shown = bench.json(&["state", "--ranges", "--json"]);
    let ranges = shown[0]["ranges"].as_array().unwrap().iter();
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

/// A core whose directory another process holds brings nothing: whoever waits at a command is told.
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
        let (code, said) = ended(bench, &words);
        assert_eq!(code, Some(0), "{said}");
        pond.assert_archived(bench, 2..80).await;
    }
    // What it waits for is told.
    let log = alone.log();
    let waits = |line: &&str| line.contains(r#""waiting for core""#) && line.contains("WARN");
    assert!(log.lines().any(|line| waits(&line)), "{log}");
}

/// An object is missing in the middle of a lake: what else there is comes, and then the command ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_hole_in_a_lake_ends_a_backfill_when_the_rest_is_there() {
    // In a range that is filled, in the newest one, and in both; one range at a time, and two.
    for (missing, parallel, expected) in [
        (&[30][..], 2, ["INGESTING", "COMPLETE"]),
        (&[60], 1, ["COMPLETE", "INGESTING"]),
        (&[30, 60], 2, ["INGESTING", "INGESTING"]),
    ] {
        let pond = Pond::new(63, 90);
        let whole = |ledger: &u32| std::fs::read(pond.lake.path(*ledger)).unwrap();
        let objects: Vec<Vec<u8>> = missing.iter().map(whole).collect();
        for ledger in missing {
            std::fs::remove_file(pond.lake.path(*ledger)).unwrap();
        }
        let ranges = RANGES.replace(r#""parallel": 2"#, &format!(r#""parallel": {parallel}"#));
        let bench = bench(&pond.fields(&pond.lake_field()), &ranges);
        let words = ["backfill", "--start-ledger", "2", "--end-ledger", "81"];
        let key = pond.lake.layout().key(missing[0]);
        let hole = format!("object {key} is missing, and the lake continues to ledger 89");
        fails(&bench, &words, &[&hole, "not every range is complete"]);
        assert_eq!(states(&bench), expected, "without {missing:?}");
        // Mended, the same command continues from there.
        for (ledger, bytes) in missing.iter().zip(&objects) {
            std::fs::write(pond.lake.path(*ledger), bytes).unwrap();
        }
        let (code, said) = ended(&bench, &words);
        assert_eq!(code, Some(0), "{said}");
        pond.assert_archived(&bench, 2..82).await;
    }
}

/// The same in mode backfill, where a lake that is merely behind is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn mode_backfill_waits_for_a_lake_that_is_behind_and_not_for_a_hole() {
    let pond = Pond::new(64, 50);
    let bounds = r#", "mode": "backfill", "startBlock": 2, "endBlock": 81"#;
    let bench = bench(
        &pond.fields(&pond.lake_field()),
        &format!("{bounds}{RANGES}"),
    );
    let running = bench.start();
    bench.wait("the end of the lake", || bench.head() >= Some(48));
    pond.grow(90);
    assert!(running.wait().success(), "{}", bench.log());
    let holed = support::stellar::bench(
        &pond.fields(&pond.lake_field()),
        &format!("{bounds}{RANGES}"),
    );
    std::fs::remove_file(pond.lake.path(30)).unwrap();
    let key = pond.lake.layout().key(30);
    fails(&holed, &["run"], &[&format!("object {key} is missing")]);
    assert_eq!(states(&holed), ["INGESTING", "COMPLETE"]);
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
