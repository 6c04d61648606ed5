//! Ranges as operators see and handle them: keys, tables, HTTP and metrics while a backfill runs, crashes at any
//! moment, and a range that failed. Ranges of 40 blocks from block 0 on. The other scenarios of the requirement run
//! in-process: `crates/follower/tests/range_scenarios.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::time::Duration;

use chronolith_model::{BlockRange, Log};
use chronolith_serve::times::parse_time;
use chronolith_sim::evm::{EvmNode, EvmSpec, RpcOptions, RpcServer};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use support::ranges::{
    Keys, assert_complete, assert_keys, counts, keys, set_mode, state_of, wait_keys,
};
use support::{Bench, Running, assert_equals, events, serve};

fn backfill(start: u64, end: u64) -> String {
    format!(r#""mode": "backfill", "startBlock": {start}, "endBlock": {end}"#)
}

/// The times of a complete range as numbers, and as text in the old form.
fn assert_times(range: &Value) {
    for name in ["created", "completed"] {
        let old = range[format!("{name}At")].as_str().unwrap();
        let seconds = parse_time(old).unwrap().seconds;
        assert_eq!(range[format!("{name}Timestamp")], seconds, "{range}");
    }
    assert_eq!(range["transitionStartedTimestamp"], Value::Null);
}

const STREAMING: &str = r#""mode": "streaming", "startBlock": 0"#;

/// A chain with ranges of 40 blocks, of which those with five others on them are final.
async fn bench(node: &EvmNode, mode: &str, delay_ms: u64) -> (RpcServer, Bench) {
    let options = RpcOptions {
        delay: Duration::from_millis(delay_ms),
        ..RpcOptions::default()
    };
    let server = serve(node, options).await;
    let more = format!(
        r#", {mode}, "finality": {{ "confirmations": 5 }}, "ranges": {{ "size": 40, "parallel": 2, "checkpoint": 10 }}"#
    );
    let bench = Bench::new(&[server.url()], &more);
    (server, bench)
}

#[track_caller]
fn ended(running: Running, bench: &Bench) {
    assert!(running.wait().success(), "{}", bench.log());
}

/// What a whole run with this mode logs; it must exit with this code.
#[track_caller]
fn run(bench: &Bench, code: i32) -> String {
    let output = bench.output(&["run"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    stderr
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// Logs of blocks as the public API answers with them.
fn logs_of(node: &EvmNode, range: BlockRange) -> Vec<Value> {
    let blocks = (range.start..range.end).map(|number| node.block(number).unwrap().to_model());
    let logs = blocks.flat_map(|block| {
        let of_log = |log: &Log| {
            json!({
                "blockNumber": format!("{:#x}", block.clock.number),
                "blockHash": block.clock.hash.to_string(),
                "transactionHash": block.tx_hash(log.tx_index()).unwrap().to_string(),
                "logIndex": format!("{:#x}", log.log_index()),
                "address": hex(log.emitter()),
                "topics": log.topics().map(hex).collect::<Vec<_>>(),
                "data": hex(log.data()),
            })
        };
        block.logs.iter().map(of_log).collect::<Vec<_>>()
    });
    logs.collect()
}

/// Queries are answered during a backfill, and ranges are public.
async fn assert_served(bench: &Bench, node: &EvmNode) {
    let public = bench.public();
    let get = async |path: &str| -> Value {
        let answer = reqwest::get(format!("{public}{path}")).await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    };
    let answer = get("/v1/chains/31337/logs?fromBlock=10&toBlock=12&limit=1000").await;
    let made = logs_of(node, BlockRange::new(10, 13));
    let logs = answer["logs"].as_array();
    let logs = logs.unwrap_or_else(|| panic!("{answer}"));
    assert!(!made.is_empty() && logs.len() == made.len(), "{answer}");
    for (log, made) in logs.iter().zip(&made) {
        for (name, value) in made.as_object().unwrap() {
            assert_eq!(&log[name], value, "{name} of {log}");
        }
    }
    let listed = get("/v1/chains/31337/ranges").await;
    assert_eq!(listed["mode"], "backfill");
    assert_eq!(listed["ranges"].as_array().unwrap().len(), 3);
    assert_eq!(listed["ranges"][0]["state"], "INGESTING");
    assert_eq!(listed["ranges"][0]["lastCommitted"], 30);
    assert_eq!(listed["ranges"][2]["state"], "PENDING");
    let (_, metrics) = bench.operations("/metrics").await;
    for line in [
        r#"chronolith_ranges{chain="31337",state="INGESTING"} 1"#,
        r#"chronolith_ranges{chain="31337",state="PENDING"} 2"#,
        r#"chronolith_ranges{chain="31337",state="FAILED"} 0"#,
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_is_served_while_it_runs() {
    // Nothing is final yet: the plan is all there is.
    let node = EvmNode::new(EvmSpec::tiny(71), 4);
    let (_server, bench) = bench(&node, &backfill(0, 119), 0).await;
    let running = bench.start();
    let planned = wait_keys(&bench, "the plan", |keys| keys.contains_key("global:mode"));
    assert_eq!(
        Value::Object(planned),
        json!({
            "global:mode": "backfill",
            "global:backfill_start_ledger": 0,
            "global:backfill_end_ledger": 119,
            "range:0:state": "PENDING", "range:0:start_ledger": 0, "range:0:end_ledger": 39,
            "range:1:state": "PENDING", "range:1:start_ledger": 40, "range:1:end_ledger": 79,
            "range:2:state": "PENDING", "range:2:start_ledger": 80, "range:2:end_ledger": 119,
        })
    );
    // During ingestion of range 0, at a checkpoint.
    node.mine(31);
    let now = wait_keys(&bench, "the checkpoint", |keys| {
        keys.get("range:0:ledger:last_committed_ledger") == Some(&json!(30))
    });
    assert_keys(
        &now,
        &json!({
            "range:0:state": "INGESTING",
            "range:0:ledger:phase": "INGESTING",
            "range:0:ledger:count": 31,
            "range:0:txhash:phase": "INGESTING",
            "range:0:txhash:last_committed_ledger": 30,
            "range:0:txhash:cf_counts": counts(&node, BlockRange::new(0, 31)),
            "range:0:completed_at": null,
            "range:0:ledger:immutable_path": null,
            "range:0:transition:started_at": null,
            "range:1:state": "PENDING",
            "range:1:ledger:phase": null,
        }),
    );
    assert_served(&bench, &node).await;
    node.mine(109);
    ended(running, &bench);
    let last = keys(&bench).unwrap();
    (0..3).for_each(|id| assert_complete(&last, id));
    assert_eq!(last["global:mode"], "backfill");
    assert_eq!(last.get("range:3:state"), None);
    assert_equals(&bench, &node, BlockRange::new(0, 120));
    // The same again has nothing to do, and ends well.
    run(&bench, 0);
    assert_eq!(keys(&bench).unwrap(), last);
}

/// The order and the form of lines.
#[tokio::test(flavor = "multi_thread")]
async fn keys_are_printed_in_the_order_of_the_requirement() {
    let node = EvmNode::new(EvmSpec::tiny(72), 80);
    let (_server, bench) = bench(&node, &backfill(0, 49), 0).await;
    let stderr = run(&bench, 0);
    let cut = events(&stderr, "range_cut_by_bounds");
    assert_eq!((cut.len(), &cut[0]["range"]), (1, &json!(1)), "{stderr}");
    let printed = bench.say(&["state", "--keys"]);
    let names: Vec<&str> = printed
        .lines()
        .map(|line| line.split_once(" = ").unwrap().0)
        .collect();
    let of_range = |id: u64, keys: &[&str]| -> Vec<String> {
        let of = |key: &&str| format!("range:{id}:{key}");
        keys.iter().map(of).collect()
    };
    let mut expected: Vec<String> = ["mode", "backfill_start_ledger", "backfill_end_ledger"]
        .iter()
        .map(|key| format!("global:{key}"))
        .collect();
    expected.extend(of_range(
        0,
        &[
            "state",
            "start_ledger",
            "end_ledger",
            "created_at",
            "completed_at",
            "ledger:phase",
            "ledger:last_committed_ledger",
            "ledger:count",
            "ledger:immutable_path",
            "txhash:phase",
            "txhash:last_committed_ledger",
            "txhash:cf_counts",
            "txhash:recsplit_path",
        ],
    ));
    expected.extend(of_range(
        1,
        &[
            "state",
            "start_ledger",
            "end_ledger",
            "created_at",
            "ledger:phase",
            "ledger:last_committed_ledger",
            "ledger:count",
            "txhash:phase",
            "txhash:last_committed_ledger",
            "txhash:cf_counts",
            "txhash:rocksdb_path",
        ],
    ));
    assert_eq!(names, expected);
    assert!(
        printed.contains("range:1:state = \"INGESTING\"\n"),
        "{printed}"
    );
    assert!(printed.contains("range:1:ledger:count = 10\n"), "{printed}");
    assert!(printed.contains(r#"cf_counts = {"0": "#), "{printed}");
    // The table has the same.
    let table = bench.say(&["state", "--ranges"]);
    for words in ["0-39", "COMPLETE", "IMMUTABLE", "40-79", "10 (25%)"] {
        assert!(table.contains(words), "no {words} in {table}");
    }
    let listed = bench.json(&["state", "--ranges", "--json"]);
    assert_eq!(listed[0]["mode"], "backfill");
    assert_eq!(listed[0]["ranges"][0]["state"], "COMPLETE");
    assert_times(&listed[0]["ranges"][0]);
    assert_eq!(listed[0]["ranges"][1]["lastCommitted"], 49);
    assert_eq!(listed[0]["ranges"][1]["failure"], Value::Null);
}

/// Keys without what differs from run to run.
fn timeless(mut keys: Keys) -> Keys {
    keys.retain(|name, _| !name.ends_with("_at") && !name.ends_with("_path"));
    keys
}

const KILLS: u64 = 24;
const KILL_STEPS: u64 = 40;

/// Kills at steps of writes, and where they came.
struct Kills {
    random: StdRng,
    /// Lives that archived a block.
    progressed: u64,
    /// Lives that left a transition behind.
    in_transition: u64,
}

impl Kills {
    /// One life: it follows, blocks come, and it is killed at a step of its writes.
    fn one(&mut self, bench: &Bench, node: &EvmNode) {
        let before = bench.head();
        let step = self.random.random_range(1..KILL_STEPS);
        bench.crash_at(step, || {
            // One after the other, however slow the machine is.
            if bench.head() == Some(node.head().number - 5) {
                node.mine(1);
            }
        });
        // What the next life finds. A whole range that nothing is archived of would be a gap.
        if node.head().number < bench.head().unwrap() + 20 {
            node.mine(self.random.random_range(0..5));
        }
        self.progressed += u64::from(bench.head() > before);
        let now = keys(bench).unwrap();
        let states = (0..).map(|id| state_of(&now, id));
        let states: Vec<_> = states.take_while(|state| *state != "none").collect();
        self.in_transition += u64::from(states.contains(&"TRANSITIONING"));
        // Nothing but the newest two is anything but complete, so it always starts again.
        let mut old = states.iter().rev().skip(2);
        assert!(old.all(|state| *state == "COMPLETE"), "{states:?}");
    }
}

/// Killed at steps of its writes, in ingest and in transitions, it ends with what a clean run ends with.
#[tokio::test(flavor = "multi_thread")]
async fn scenario_6_crashes_at_random_moments() {
    let node = EvmNode::new(EvmSpec::tiny(76), 125);
    let (_server, bench) = bench(&node, STREAMING, 2).await;
    bench.say(&["backfill", "--start-ledger", "0", "--end-ledger", "119"]);
    let mut kills = Kills {
        random: StdRng::seed_from_u64(76),
        progressed: 0,
        in_transition: 0,
    };
    for _ in 0..KILLS {
        kills.one(&bench, &node);
    }
    assert!(
        kills.progressed >= 3 && kills.in_transition >= 1,
        "too few kills hit work: this proved nothing"
    );
    let head = node.head().number - 5;
    let serving = || bench.count("public_listening");
    let before = serving();
    let running = bench.start();
    bench.wait("the listener", || serving() > before);
    let settled = |keys: &Keys| {
        let newest = (head + 1) / 40;
        let done = (0..newest).all(|id| state_of(keys, id) == "COMPLETE");
        done && keys.get("global:last_processed_ledger") == Some(&json!(head))
    };
    let crashed = wait_keys(&bench, "the head", settled);
    assert_eq!(crashed["global:mode"], "streaming");
    running.stop();
    assert_equals(&bench, &node, BlockRange::new(0, head + 1));
    let verified = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(verified["findings"], json!([]));
    // A clean run of the same chain.
    let (_server, clean) = self::bench(&node, r#""mode": "auto", "startBlock": 0"#, 0).await;
    clean.say(&["run", "--until-caught-up"]);
    let mut clean = timeless(keys(&clean).unwrap());
    let mut crashed = timeless(crashed);
    for keys in [&mut clean, &mut crashed] {
        keys.retain(|name, _| !name.starts_with("global:backfill"));
    }
    assert_eq!(crashed, clean);
}

/// A range that cannot become complete says why; the others continue, and there is a way out.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_range_is_named_and_tried_again() {
    let node = EvmNode::new(EvmSpec::tiny(77), 200);
    let (_server, bench) = bench(&node, &backfill(80, 119), 0).await;
    run(&bench, 0);
    set_mode(&bench, &backfill(0, 59));
    run(&bench, 0);
    // A segment of range 1, which is not full yet, is damaged.
    let listed = bench.json(&["state", "--ranges", "--json"]);
    let segments = listed[0]["ranges"][1]["segments"].as_array().unwrap();
    let name = segments[0].as_str().unwrap();
    let path = bench.chain_dir().join("blobs").join(name);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    set_mode(&bench, &backfill(0, 119));
    let stderr = run(&bench, 1);
    assert!(
        stderr.contains("range 1 (blocks 40-79) is FAILED"),
        "{stderr}"
    );
    assert!(
        stderr.contains("`chronolith range retry --chain sim 1`"),
        "{stderr}"
    );
    let now = keys(&bench).unwrap();
    assert_eq!(
        (state_of(&now, 0), state_of(&now, 1), state_of(&now, 2)),
        ("COMPLETE", "FAILED", "COMPLETE")
    );
    // Nothing runs, so no key of a transition is there.
    let of_transition: Vec<_> = now
        .keys()
        .filter(|name| name.contains(":transition:"))
        .collect();
    assert!(of_transition.is_empty(), "{of_transition:?}");
    let table = bench.say(&["state", "--ranges"]);
    assert!(table.contains("failed in "), "{table}");
    set_mode(&bench, STREAMING);
    let stderr = run(&bench, 1);
    assert!(
        stderr.contains("Range 1 (ledgers 40-79): state=FAILED, last_committed=79"),
        "{stderr}"
    );
    bench.say(&["repair"]);
    let retried = bench.json(&["range", "retry", "1", "--json"]);
    assert_eq!(retried["state"], "COMPLETE");
    bench.refused(&["range", "retry", "1"], "did not fail");
    let now = keys(&bench).unwrap();
    (0..3).for_each(|id| assert_complete(&now, id));
    assert_equals(&bench, &node, BlockRange::new(0, 120));
}
