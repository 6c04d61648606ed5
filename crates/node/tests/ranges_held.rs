//! Transitions of ranges, held at a step by a disk that does not answer: what operators see meanwhile, a
//! kill there, and how the next program continues. Ranges of 40 ledgers from ledger 2 on.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use support::stellar::{Pond, bench};
use support::{Bench, PATIENCE};

const RANGES: &str = r#", "ranges": { "size": 40, "parallel": 2, "checkpoint": 10 }"#;

fn keys(bench: &Bench) -> Value {
    let output = bench.output(&["state", "--keys", "--json"]);
    let all: Option<Value> = serde_json::from_slice(&output.stdout).ok();
    all.map_or(Value::Null, |all| all[0]["keys"].clone())
}

/// The keys at the moment at which these of them say this.
#[track_caller]
fn wait_keys(bench: &Bench, wanted: &Value) -> Value {
    let wanted = wanted.as_object().unwrap();
    let began = Instant::now();
    loop {
        let now = keys(bench);
        if wanted.iter().all(|(name, value)| &now[name] == value) {
            return now;
        }
        let late = began.elapsed() > PATIENCE;
        assert!(!late, "{wanted:?} not in {now:#}\n{}", bench.log());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// These keys say this, and those that are null are not there.
#[track_caller]
fn assert_keys(keys: &Value, expected: &Value) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&keys[name], value, "{name} in {keys:#}");
    }
}

/// A file or a directory that cannot be opened, as on a disk that does not answer: its name leads to
/// itself. What is missing would be damage, and fail a range; this is tried again.
struct Stuck {
    path: PathBuf,
    aside: PathBuf,
}

impl Stuck {
    fn new(bench: &Bench, pond: &Pond, name: &str) -> Self {
        let chain = pond.network().chain_id();
        let blobs = format!("data/chains/{chain}/blobs");
        let path = bench.dir.path().join(blobs).join(name);
        // Outside of the archive, which lists its objects.
        let aside = bench.dir.path().join(name.replace('/', "-"));
        match path.exists() {
            true => std::fs::rename(&path, &aside).unwrap(),
            false => {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::create_dir(&aside).unwrap();
            }
        }
        std::os::unix::fs::symlink(&path, &path).unwrap();
        Self { path, aside }
    }

    fn mend(self) {
        std::fs::remove_file(&self.path).unwrap();
        std::fs::rename(&self.aside, &self.path).unwrap();
    }
}

/// Names of the objects of one sort that a range has.
fn objects(bench: &Bench, id: usize, sort: &str) -> Vec<String> {
    let shown = bench.json(&["state", "--ranges", "--json"]);
    let names = shown[0]["ranges"][id][sort].as_array().unwrap().clone();
    let names: Vec<String> = names
        .iter()
        .map(|name| name.as_str().unwrap().to_owned())
        .collect();
    assert!(!names.is_empty(), "no {sort} in {shown:#}");
    names
}

/// What people see of a range while its transition runs.
#[track_caller]
fn assert_shown(bench: &Bench, words: &[&str]) {
    let table = bench.say(&["state", "--ranges"]);
    let row = table.lines().find(|line| line.contains(words[0])).unwrap();
    for word in words {
        assert!(row.contains(word), "no {word} in {row}");
    }
}

/// A range that is complete, with nothing left of its transition and all of its checkpoints.
#[track_caller]
fn assert_complete(keys: &Value, id: u64) {
    let last = id * 40 + 41;
    let of = |key: &str| format!("range:{id}:{key}");
    assert_keys(
        keys,
        &json!({
            of("state"): "COMPLETE",
            of("ledger:phase"): "IMMUTABLE",
            of("ledger:last_committed_ledger"): last,
            of("ledger:count"): 40,
            of("txhash:phase"): "COMPLETE",
            of("txhash:last_committed_ledger"): last,
            of("txhash:rocksdb_path"): null,
            of("transition:started_at"): null,
            of("transition:ledger_status"): null,
            of("transition:txhash_status"): null,
        }),
    );
    assert!(keys[of("completed_at")].is_string(), "{keys:#}");
    let path = keys[of("txhash:recsplit_path")].as_str().unwrap();
    assert!(Path::new(path).is_file(), "{path}");
}

/// Every object of one sort that a range has, out of reach.
fn stuck_objects(bench: &Bench, pond: &Pond, id: usize, sort: &str) -> Vec<Stuck> {
    let names = objects(bench, id, sort);
    let stuck = names.iter().map(|name| Stuck::new(bench, pond, name));
    stuck.collect()
}

/// Range 3 becomes full while no table of hashes can be written, range 4 is written beside it, and the
/// program is killed.
fn killed_while_compacting(bench: &Bench, pond: &Pond) -> Value {
    let runs = Stuck::new(bench, pond, "run");
    let running = bench.start();
    wait_keys(bench, &json!({ "global:last_processed_ledger": 124 }));
    pond.grow(165);
    let compacting = wait_keys(
        bench,
        &json!({ "range:3:state": "TRANSITIONING", "global:last_processed_ledger": 164 }),
    );
    assert_keys(
        &compacting,
        &json!({
            "range:3:ledger:phase": "WRITING_LFS",
            "range:3:ledger:last_committed_ledger": 161,
            "range:3:ledger:immutable_path": null,
            "range:3:txhash:phase": "COMPACTING",
            "range:3:txhash:last_committed_ledger": 161,
            "range:3:txhash:recsplit_path": null,
            "range:3:transition:ledger_status": "in_progress",
            "range:3:transition:txhash_status": "in_progress",
            "range:3:completed_at": null,
            "range:2:transition:started_at": null,
            "range:4:state": "INGESTING",
            "range:4:ledger:last_committed_ledger": 164,
            "range:4:transition:started_at": null,
        }),
    );
    let path = compacting["range:3:txhash:rocksdb_path"].as_str().unwrap();
    assert!(Path::new(path).is_dir(), "{path}");
    let time = compacting["range:3:transition:started_at"].as_str();
    let time = time.unwrap();
    assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
    assert_shown(
        bench,
        &["122-161", "TRANSITIONING", "WRITING_LFS", "COMPACTING"],
    );
    running.kill();
    assert_eq!(keys(bench), compacting, "a crash changes nothing");
    runs.mend();
    compacting
}

/// The table of hashes is made, the packs of the range cannot be read, and the program is killed again.
fn killed_while_verifying(bench: &Bench, pond: &Pond, before: &Value) {
    let packs = stuck_objects(bench, pond, 3, "packs");
    let running = bench.start();
    let verifying = wait_keys(
        bench,
        &json!({ "range:3:txhash:phase": "VERIFYING_RECSPLIT" }),
    );
    assert_keys(
        &verifying,
        &json!({
            "range:3:state": "TRANSITIONING",
            "range:3:ledger:phase": "WRITING_LFS",
            "range:3:transition:started_at": before["range:3:transition:started_at"],
            "range:3:transition:ledger_status": "in_progress",
            "range:3:transition:txhash_status": "in_progress",
            "range:4:ledger:last_committed_ledger": 164,
        }),
    );
    assert_shown(bench, &["122-161", "TRANSITIONING", "VERIFYING_RECSPLIT"]);
    // Ingest continues beside it.
    pond.grow(168);
    let verifying = wait_keys(bench, &json!({ "global:last_processed_ledger": 167 }));
    assert_eq!(verifying["range:3:state"], "TRANSITIONING");
    running.kill();
    assert_eq!(keys(bench), verifying, "a crash changes nothing");
    packs.into_iter().for_each(Stuck::mend);
}

/// Scenario 6 of the requirement: the transition of range 3 stands at one phase after the other while range
/// 4 is written, the program is killed at each, and continues there.
#[tokio::test(flavor = "multi_thread")]
async fn scenario_6_a_transition_is_killed_at_its_phases() {
    let pond = Pond::new(38, 125);
    let bench = bench(&pond.fields(&pond.lake_field()), RANGES);
    bench.say(&["backfill", "--start-ledger", "2", "--end-ledger", "121"]);
    bench.change(r#", "ranges""#, r#", "mode": "streaming", "ranges""#);
    let compacting = killed_while_compacting(&bench, &pond);
    killed_while_verifying(&bench, &pond, &compacting);
    let run = objects(&bench, 3, "runs");
    let running = bench.start();
    let complete = wait_keys(&bench, &json!({ "range:3:state": "COMPLETE" }));
    assert_complete(&complete, 3);
    assert_eq!(objects(&bench, 3, "runs"), run, "it was made a second time");
    let created = "range:3:created_at";
    assert_eq!(complete[created], compacting[created]);
    assert_eq!(complete["range:4:state"], "INGESTING");
    running.stop();
    pond.assert_archived(&bench, 2..168).await;
    let verified = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(verified["findings"], json!([]));
}

/// The same in a backfill, whose blocks come in their last form: what is left is the hashes.
#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_is_killed_in_its_transitions() {
    let pond = Pond::new(39, 90);
    let bounds = r#", "mode": "backfill", "startBlock": 2, "endBlock": 81"#;
    let bench = bench(
        &pond.fields(&pond.lake_field()),
        &format!("{bounds}{RANGES}"),
    );
    // One pack for all that is filled into a range: several would be joined before anything else.
    bench.change(r#""checkpoint": 10"#, r#""checkpoint": 40"#);
    let runs = Stuck::new(&bench, &pond, "run");
    let running = bench.start();
    let compacting = wait_keys(
        &bench,
        &json!({ "range:0:state": "TRANSITIONING", "range:1:state": "TRANSITIONING" }),
    );
    for id in [0, 1] {
        let of = |key: &str| format!("range:{id}:{key}");
        assert_keys(
            &compacting,
            &json!({
                of("txhash:phase"): "COMPACTING",
                of("transition:ledger_status"): "in_progress",
                of("transition:txhash_status"): "in_progress",
            }),
        );
    }
    running.kill();
    runs.mend();
    // Range 0 was filled, and its packs are as they stay; they are opened when it is verified.
    let packs = stuck_objects(&bench, &pond, 0, "packs");
    let running = bench.start();
    let verifying = wait_keys(
        &bench,
        &json!({ "range:0:txhash:phase": "VERIFYING_RECSPLIT", "range:0:ledger:phase": "IMMUTABLE" }),
    );
    assert_keys(
        &verifying,
        &json!({
            "range:0:state": "TRANSITIONING",
            "range:0:completed_at": null,
            "range:0:transition:started_at": compacting["range:0:transition:started_at"],
            "range:0:transition:ledger_status": "complete",
            "range:0:transition:txhash_status": "in_progress",
        }),
    );
    assert_shown(
        &bench,
        &["2-41", "TRANSITIONING", "IMMUTABLE", "VERIFYING_RECSPLIT"],
    );
    let run = objects(&bench, 0, "runs");
    running.kill();
    packs.into_iter().for_each(Stuck::mend);
    let status = bench.start().wait();
    assert!(status.success(), "{}", bench.log());
    let done = keys(&bench);
    (0..2).for_each(|id| assert_complete(&done, id));
    assert_eq!(objects(&bench, 0, "runs"), run, "it was made a second time");
    pond.assert_archived(&bench, 2..82).await;
}
