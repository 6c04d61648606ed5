//! The program against simulated nodes: it is started, killed and asked like a user would.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, EvmSpec, Faults, RpcFault, RpcOptions};
use serde_json::Value;
use support::{Bench, DEPTH_5, assert_equals, serve};

#[tokio::test(flavor = "multi_thread")]
async fn history_is_caught_up_and_every_command_answers() {
    let node = EvmNode::new(EvmSpec::tiny(1), 600);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(bench.head(), Some(595));
    assert_equals(&bench, &node, BlockRange::new(0, 596));

    let state = bench.json(&["state", "--json"]);
    assert_eq!(state[0]["covered"][0]["level"], "roots");
    let verified = bench.json(&["verify", "--json"]);
    assert_eq!(verified["findings"].as_array().unwrap().len(), 0);
    assert_eq!(verified["to"], 595);
    let compared = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
    // A source that has gone another way since is found out, block by block, with an exit code.
    let other = EvmNode::new(EvmSpec::tiny(99), 600);
    let elsewhere = serve(&other, RpcOptions::default()).await;
    let text = std::fs::read_to_string(&bench.config).unwrap();
    std::fs::write(&bench.config, text.replace(&server.url(), &elsewhere.url())).unwrap();
    let differs = bench.output(&["verify", "--json", "--against-source", "--to", "20"]);
    assert_eq!(differs.status.code(), Some(3));
    let differs: Value = serde_json::from_slice(&differs.stdout).unwrap();
    assert_eq!(differs["findings"].as_array().unwrap().len(), 21);
    std::fs::write(&bench.config, text).unwrap();
    let clock = node.block(77).unwrap().to_model().clock;
    let found = bench.json(&[
        "block-at",
        &clock.timestamp.to_string(),
        "--json",
        "--after",
    ]);
    assert!(found["number"].as_u64().unwrap() <= 77);
    assert_eq!(found["timestamp"], clock.timestamp);
    // The same moment as people write it; a fraction of a second later is another block.
    let time = chronolith_serve::times::utc(clock.timestamp).unwrap();
    assert_eq!(bench.json(&["block-at", &time, "--json", "--after"]), found);
    let later = time.replace('Z', ".5Z");
    let later = bench.json(&["block-at", &later, "--json", "--after"]);
    assert!(later["timestamp"].as_u64().unwrap() > clock.timestamp);
    let unread = bench.output(&["block-at", "yesterday"]);
    let stderr = String::from_utf8_lossy(&unread.stderr).into_owned();
    assert!(stderr.contains("2023-11-14T22:13:20Z"), "{stderr}");
    // Beyond what is archived is an error, never a shorter answer.
    let beyond = bench.output(&["logs", "--to", "600"]);
    let stderr = String::from_utf8_lossy(&beyond.stderr).into_owned();
    assert!(
        !beyond.status.success() && stderr.contains("not covered"),
        "{stderr}"
    );
    // The same again changes nothing.
    let before = bench.json(&["state", "--json"]);
    bench.say(&["run", "--until-caught-up"]);
    let after = bench.json(&["state", "--json"]);
    assert_eq!(before[0]["head"], after[0]["head"]);
    assert_eq!(before[0]["logs"], after[0]["logs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_instant_it_continues_and_nothing_is_lost_or_twice() {
    let node = EvmNode::new(EvmSpec::tiny(3), 1_500);
    let faults = Faults::new(5);
    for fault in [
        RpcFault::RpcError,
        RpcFault::Http500,
        RpcFault::NullBlock,
        RpcFault::MissingLog,
    ] {
        faults.set(fault, 20_000);
    }
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let servers = [
        serve(&node, options.clone()).await,
        serve(&node, options).await,
    ];
    let reliable = serve(&node, RpcOptions::default()).await;
    let urls = [servers[0].url(), servers[1].url(), reliable.url()];
    let bench = Bench::new(&urls, DEPTH_5);
    let mut progressed = 0;
    // The first steps belong to the start, the others to ingest.
    for (round, step) in [1, 3, 8, 13, 21, 34, 55, 89].into_iter().enumerate() {
        let before = bench.head();
        bench.crash_at(step, || {
            node.mine(1);
        });
        progressed += u64::from(bench.head() > before);
        node.mine(15);
        if round % 2 == 1 {
            node.reorg(4);
        }
    }
    assert!(
        progressed >= 4,
        "too few lives archived a block: this proved nothing"
    );
    faults.clear();
    bench.say(&["run", "--until-caught-up"]);
    let head = node.head().number - 5;
    assert_eq!(bench.head(), Some(head));
    assert_equals(&bench, &node, BlockRange::new(0, head + 1));
    let verified = bench.json(&["verify", "--json"]);
    assert_eq!(verified["findings"].as_array().unwrap().len(), 0);
    assert!(faults.injected().len() >= 3, "{:?}", faults.injected());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_final_block_halts_until_an_operator_acts() {
    let node = EvmNode::new(EvmSpec::tiny(4), 60);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(&[server.url()], DEPTH_5);
    let running = bench.start();
    bench.wait("the first head", || bench.head() == Some(55));
    node.reorg(20);
    let halted = || bench.json(&["state", "--json"])[0]["halted"].is_string();
    bench.wait("the halt", halted);
    let (code, health) = bench.operations("/health").await;
    assert_eq!(code, 503, "{health}");
    assert!(
        health.contains("\"paused\":true") && health.contains("replaced"),
        "{health}"
    );
    let (code, _) = bench.operations("/health/live").await;
    assert_eq!(code, 200);
    let (_, metrics) = bench.operations("/metrics").await;
    for line in [
        "chronolith_halted{chain=\"31337\"} 1",
        "chronolith_archived_block{chain=\"31337\"} 55",
        "chronolith_endpoint_requests_total{chain=\"31337\"",
        "chronolith_archive_",
    ] {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }
    running.stop();
    // It is durable, a run that has an end fails, and what is archived is still served.
    assert!(halted());
    bench.refused(&["run", "--until-caught-up"], "chain sim: ");
    bench.json(&["logs", "--json", "--to", "40"]);
    assert!(bench.say(&["state"]).contains("chronolith rewind"));
    let before = bench.count("ingest_stopped");
    let running = bench.start();
    bench.wait("the restart to meet the halt", || {
        bench.count("ingest_stopped") > before
    });
    assert!(bench.has_with("ingest_stopped", "error", "halted"));
    running.stop();
    assert!(halted(), "a restart ended the halt");
    // The operator decides for the new chain.
    bench.say(&["rewind", "--to", "39", "--reason", "test"]);
    bench.say(&["run", "--until-caught-up"]);
    let head = node.head().number - 5;
    assert_equals(&bench, &node, BlockRange::new(0, head + 1));
}
