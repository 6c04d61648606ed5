//! The life of ranges, as the requirement of the Stellar meta store walks through it: six scenarios with
//! its keys at its moments, on ranges of 40 blocks from block 0 on.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::time::Duration;

use chronolith_model::{BlockRange, Log};
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

/// What a whole run with this mode says; it must exit with this code.
#[track_caller]
fn run(bench: &Bench, code: i32) -> String {
    let output = bench.output(&["run"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

/// Logs of blocks as everybody is told of them.
fn logs_of(node: &EvmNode, range: BlockRange) -> Vec<Value> {
    let blocks = (range.start..range.end).map(|number| node.block(number).unwrap().to_model());
    let told = blocks.flat_map(|block| {
        let tell = |log: &Log| {
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
        block.logs.iter().map(tell).collect::<Vec<_>>()
    });
    told.collect()
}

/// Queries are answered during a backfill, and ranges are shown to everybody.
async fn assert_served(bench: &Bench, node: &EvmNode) {
    let public = bench.public();
    let get = async |path: &str| -> Value {
        let answer = reqwest::get(format!("{public}{path}")).await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    };
    let told = get("/v1/chains/31337/logs?fromBlock=10&toBlock=12&limit=1000").await;
    let made = logs_of(node, BlockRange::new(10, 13));
    let logs = told["logs"].as_array().unwrap_or_else(|| panic!("{told}"));
    assert!(!made.is_empty() && logs.len() == made.len(), "{told}");
    for (log, made) in logs.iter().zip(&made) {
        for (name, value) in made.as_object().unwrap() {
            assert_eq!(&log[name], value, "{name} of {log}");
        }
    }
    let shown = get("/v1/chains/31337/ranges").await;
    assert_eq!(shown["mode"], "backfill");
    assert_eq!(shown["ranges"].as_array().unwrap().len(), 3);
    assert_eq!(shown["ranges"][0]["state"], "INGESTING");
    assert_eq!(shown["ranges"][0]["lastCommitted"], 30);
    assert_eq!(shown["ranges"][2]["state"], "PENDING");
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
async fn scenario_1_a_fresh_backfill() {
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
    // During ingestion of range 0, at two checkpoints.
    let mut head = node.head().number;
    for last in [20, 30] {
        head = node.mine(last + 5 - head).number;
        let now = wait_keys(&bench, "the checkpoint", |keys| {
            keys.get("range:0:ledger:last_committed_ledger") == Some(&json!(last))
        });
        assert_keys(
            &now,
            &json!({
                "range:0:state": "INGESTING",
                "range:0:ledger:phase": "INGESTING",
                "range:0:ledger:count": last + 1,
                "range:0:txhash:phase": "INGESTING",
                "range:0:txhash:last_committed_ledger": last,
                "range:0:txhash:cf_counts": counts(&node, BlockRange::new(0, last + 1)),
                "range:0:completed_at": null,
                "range:0:ledger:immutable_path": null,
                "range:0:transition:started_at": null,
                "range:1:state": "PENDING",
                "range:1:ledger:phase": null,
            }),
        );
    }
    assert_served(&bench, &node).await;
    // Its last block begins the transition, whatever comes then.
    node.mine(44 - head);
    let now = wait_keys(&bench, "range 0", |keys| state_of(keys, 0) == "COMPLETE");
    assert_complete(&now, 0);
    assert_eq!(
        now["range:0:txhash:cf_counts"],
        counts(&node, BlockRange::new(0, 40))
    );
    assert_eq!(state_of(&now, 1), "PENDING");
    node.mine(100);
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
    let said = run(&bench, 0);
    let cut = events(&said, "range_cut_by_bounds");
    assert_eq!((cut.len(), &cut[0]["range"]), (1, &json!(1)), "{said}");
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
    // People are shown the same as a table.
    let table = bench.say(&["state", "--ranges"]);
    for words in ["0-39", "COMPLETE", "IMMUTABLE", "40-79", "10 (25%)"] {
        assert!(table.contains(words), "no {words} in {table}");
    }
    let shown = bench.json(&["state", "--ranges", "--json"]);
    assert_eq!(shown[0]["mode"], "backfill");
    assert_eq!(shown[0]["ranges"][0]["state"], "COMPLETE");
    assert_eq!(shown[0]["ranges"][1]["lastCommitted"], 49);
    assert_eq!(shown[0]["ranges"][1]["failure"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_2_a_crash_during_backfill() {
    let node = EvmNode::new(EvmSpec::tiny(73), 200);
    // One block at a time from a slow node, so that there is time to come between. Only logs are asked for by
    // ranges whose length is set.
    let (server, bench) = bench(&node, &backfill(0, 119), 200).await;
    bench.change(
        r#""ranges""#,
        r#""strategy": "logs", "backfill": { "initialRange": 1, "minRange": 1, "maxRange": 1 }, "ranges""#,
    );
    let running = bench.start();
    wait_keys(&bench, "a checkpoint of range 0", |keys| {
        state_of(keys, 0) == "INGESTING"
    });
    running.kill();
    let crashed = keys(&bench).unwrap();
    assert_eq!(state_of(&crashed, 0), "INGESTING", "killed too late");
    let committed = &crashed["range:0:ledger:last_committed_ledger"];
    let committed = committed.as_u64().unwrap();
    assert_eq!((committed + 1) % 10, 0, "{committed} is no checkpoint");
    assert_eq!(crashed["range:0:txhash:last_committed_ledger"], committed);
    let before = bench.count("filled");
    let running = bench.start();
    ended(running, &bench);
    // It continued with the block after the checkpoint.
    let filled = bench.events("filled").split_off(before);
    let first = filled
        .iter()
        .map(|fill| fill["from"].as_u64().unwrap())
        .min();
    assert_eq!(first, Some(committed + 1), "{filled:?}");
    let asked = server.stats().calls["eth_getLogs"];
    assert!(asked >= 120, "{asked} requests for 120 blocks");
    let last = keys(&bench).unwrap();
    (0..3).for_each(|id| assert_complete(&last, id));
    assert_equals(&bench, &node, BlockRange::new(0, 120));
}

/// The last block of range 3, and the first one of range 4.
fn cross(node: &EvmNode, processed: impl Fn(u64) -> Keys) {
    // The last block of the range ends it, and opens the next one.
    node.mine(1);
    let now = processed(159);
    assert!(
        ["TRANSITIONING", "COMPLETE"].contains(&state_of(&now, 3)),
        "{now:#?}"
    );
    assert_keys(
        &now,
        &json!({
            "range:3:ledger:last_committed_ledger": 159,
            "range:3:txhash:last_committed_ledger": 159,
            "range:4:state": "INGESTING",
            "range:4:start_ledger": 160,
            "range:4:end_ledger": 199,
            "range:4:ledger:phase": "INGESTING",
            "range:4:txhash:phase": "INGESTING",
            "range:4:ledger:last_committed_ledger": null,
        }),
    );
    node.mine(1);
    let now = processed(160);
    assert_keys(
        &now,
        &json!({
            "range:4:ledger:last_committed_ledger": 160,
            "range:4:txhash:last_committed_ledger": 160,
        }),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn scenarios_3_and_4_streaming_over_a_border() {
    let node = EvmNode::new(EvmSpec::tiny(74), 124);
    let (_server, bench) = bench(&node, STREAMING, 0).await;
    let said = run(&bench, 1);
    assert!(
        said.contains("Cannot start streaming mode - the archive is empty"),
        "{said}"
    );
    assert!(said.contains("--start-ledger 0 --end-ledger 119"), "{said}");
    bench.say(&["backfill", "--start-ledger", "0", "--end-ledger", "119"]);
    let running = bench.start();
    let now = wait_keys(&bench, "mode streaming", |keys| {
        keys["global:mode"] == "streaming"
    });
    assert_keys(
        &now,
        &json!({
            "global:last_processed_ledger": 119,
            "range:3:state": "INGESTING",
            "range:3:start_ledger": 120,
            "range:3:end_ledger": 159,
            "range:3:ledger:phase": "INGESTING",
            "range:3:txhash:phase": "INGESTING",
            "range:3:ledger:last_committed_ledger": null,
            "global:backfill_end_ledger": 119,
        }),
    );
    (0..3).for_each(|id| assert_complete(&now, id));
    // One block before the border.
    node.mine(39);
    let processed = |last: u64| {
        wait_keys(&bench, "the next block", |keys| {
            keys["global:last_processed_ledger"] == json!(last)
        })
    };
    let now = processed(158);
    assert_keys(
        &now,
        &json!({
            "range:3:state": "INGESTING",
            "range:3:ledger:last_committed_ledger": 158,
            "range:3:txhash:last_committed_ledger": 158,
            "range:4:state": null,
        }),
    );
    cross(&node, processed);
    let now = wait_keys(&bench, "range 3", |keys| state_of(keys, 3) == "COMPLETE");
    assert_complete(&now, 3);
    running.stop();
    assert_equals(&bench, &node, BlockRange::new(0, 161));
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_5_a_gap_is_told_and_mended() {
    let node = EvmNode::new(EvmSpec::tiny(75), 125);
    let (_server, bench) = bench(&node, &backfill(80, 119), 0).await;
    run(&bench, 0);
    set_mode(&bench, &backfill(0, 59));
    run(&bench, 0);
    set_mode(&bench, STREAMING);
    let said = run(&bench, 1);
    let message = "Cannot start streaming mode - incomplete ranges detected:\n  \
                   Range 1 (ledgers 40-79): state=INGESTING, last_committed=59\n\n\
                   Action required: Re-run backfill with --start-ledger 0 --end-ledger 119\n";
    assert!(said.contains(message), "{said}");
    let now = keys(&bench).unwrap();
    assert_keys(
        &now,
        &json!({
            "global:mode": "backfill",
            "range:0:state": "COMPLETE",
            "range:1:state": "INGESTING",
            "range:1:ledger:last_committed_ledger": 59,
            "range:2:state": "COMPLETE",
        }),
    );
    // What it says helps.
    let words = [
        "backfill",
        "--start-ledger",
        "0",
        "--end-ledger",
        "119",
        "--json",
    ];
    assert_eq!(bench.json(&words)["filledBlocks"], 20);
    let running = bench.start();
    node.mine(1);
    wait_keys(&bench, "the next block", |keys| {
        let processed = keys.get("global:last_processed_ledger");
        processed.and_then(Value::as_u64) >= Some(120)
    });
    running.stop();
    // More than a whole range passed meanwhile.
    node.mine(100);
    let said = run(&bench, 1);
    assert!(
        said.contains("Range 4 (ledgers 160-199): state=PENDING, last_committed=none"),
        "{said}"
    );
    assert!(said.contains("--start-ledger 0 --end-ledger 199"), "{said}");
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
    let shown = bench.json(&["state", "--ranges", "--json"]);
    let segments = shown[0]["ranges"][1]["segments"].as_array().unwrap();
    let name = segments[0].as_str().unwrap();
    let path = bench.chain_dir().join("blobs").join(name);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    set_mode(&bench, &backfill(0, 119));
    let said = run(&bench, 1);
    assert!(said.contains("range 1 (blocks 40-79) is FAILED"), "{said}");
    assert!(
        said.contains("`chronolith range retry --chain sim 1`"),
        "{said}"
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
    let said = run(&bench, 1);
    assert!(
        said.contains("Range 1 (ledgers 40-79): state=FAILED, last_committed=79"),
        "{said}"
    );
    bench.say(&["repair"]);
    let retried = bench.json(&["range", "retry", "1", "--json"]);
    assert_eq!(retried["state"], "COMPLETE");
    bench.refused(&["range", "retry", "1"], "did not fail");
    let now = keys(&bench).unwrap();
    (0..3).for_each(|id| assert_complete(&now, id));
    assert_equals(&bench, &node, BlockRange::new(0, 120));
}
