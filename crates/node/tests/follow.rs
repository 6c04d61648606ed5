//! The program against simulated nodes: it is started, killed and asked like a user would.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::time::Instant;

use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, EvmSpec, Faults, RpcFault, RpcOptions};
use chronolith_sim::portal::{PortalOptions, PortalServer};
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
    let said = String::from_utf8_lossy(&unread.stderr).into_owned();
    assert!(said.contains("2023-11-14T22:13:20Z"), "{said}");
    // Beyond what is archived is an error, never a shorter answer.
    let beyond = bench.output(&["logs", "--to", "600"]);
    let said = String::from_utf8_lossy(&beyond.stderr).into_owned();
    assert!(
        !beyond.status.success() && said.contains("not covered"),
        "{said}"
    );
    // The same again changes nothing.
    let before = bench.json(&["state", "--json"]);
    bench.say(&["run", "--until-caught-up"]);
    let after = bench.json(&["state", "--json"]);
    assert_eq!(before[0]["head"], after[0]["head"]);
    assert_eq!(before[0]["logs"], after[0]["logs"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reorgs_roll_back_and_only_final_blocks_are_archived() {
    let node = EvmNode::new(EvmSpec::tiny(2), 40);
    let server = serve(&node, RpcOptions::default()).await;
    let bench = Bench::new(
        &[server.url()],
        r#", "finality": { "mode": "depth", "confirmations": 12 }"#,
    );
    let running = bench.start();
    bench.wait("the first head", || bench.head() == Some(28));
    bench.until_health("readiness", |code, _| code == 200).await;
    for depth in [1, 2, 5, 11, 3, 12, 7] {
        let head = node.reorg(depth);
        node.mine(2);
        bench.wait("the head after a reorg", || {
            bench.head() == Some(head.number + 2 - 12)
        });
    }
    let head = node.mine(30).number;
    bench.wait("the last head", || bench.head() == Some(head - 12));
    running.stop();
    assert_equals(&bench, &node, BlockRange::new(0, head - 11));
    assert!(bench.has("reorg"), "no reorg was seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_instant_it_goes_on_and_nothing_is_lost_or_twice() {
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
    let honest = serve(&node, RpcOptions::default()).await;
    let urls = [servers[0].url(), servers[1].url(), honest.url()];
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
    // It is durable, and what is archived is served on.
    assert!(halted());
    bench.json(&["logs", "--json", "--to", "40"]);
    assert!(bench.say(&["state"]).contains("chronolith rewind"));
    let told = bench.count("ingest_stopped");
    let running = bench.start();
    bench.wait("the restart to meet the halt", || {
        bench.count("ingest_stopped") > told
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

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_work_is_said_at_the_start() {
    let node = EvmNode::new(
        EvmSpec {
            chain_id: 5,
            ..EvmSpec::tiny(5)
        },
        3,
    );
    let server = serve(&node, RpcOptions::default()).await;
    let refused = |bench: &Bench, expected: &str| {
        let output = bench.output(&["run"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(expected),
            "{said}"
        );
    };
    refused(&Bench::new(&[server.url()], ""), "wrong chain");
    // Nobody answers there, and the log has no key.
    let silent = Bench::new(&["http://127.0.0.1:1/KEY".to_owned()], "");
    let output = silent.output(&["run", "--until-caught-up"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = said.contains("the source cannot be used");
    assert!(!output.status.success() && told, "{said}");
    assert!(!said.contains("KEY"), "a secret was printed: {said}");
    let typo = Bench::new(&[server.url()], r#", "startBlok": 5"#);
    refused(&typo, "unknown field `startBlok`");
    // A data directory that cannot be written.
    let bench = Bench::new(&[server.url()], "");
    std::fs::write(bench.dir.path().join("data"), "a file").unwrap();
    let right = EvmNode::new(EvmSpec::tiny(5), 3);
    let server = serve(&right, RpcOptions::default()).await;
    let text = std::fs::read_to_string(&bench.config).unwrap();
    let at = text.find("http://").unwrap();
    let end = at + text[at..].find('"').unwrap();
    std::fs::write(
        &bench.config,
        format!("{}{}{}", &text[..at], server.url(), &text[end..]),
    )
    .unwrap();
    refused(&bench, "cannot write to the data directory");
    let none = bench.output(&["state"]);
    assert!(!none.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_finalized_tag_is_followed_and_heads_come_over_a_socket() {
    let node = EvmNode::new(EvmSpec::tiny(6), 300);
    node.set_finalized_depth(20);
    let server = serve(&node, RpcOptions::default()).await;
    let socket = server.ws_url();
    // Polling alone would take a minute for each step.
    let more = format!(r#", "finality": {{ "mode": "finalized" }}, "rpcWs": ["{socket}"]"#);
    let bench = Bench::new(&[server.url()], &more);
    let text = std::fs::read_to_string(&bench.config).unwrap();
    std::fs::write(
        &bench.config,
        text.replace("\"pollMs\": 20", "\"pollMs\": 600000"),
    )
    .unwrap();
    let running = bench.start();
    bench.wait("the finalized block", || bench.head() == Some(280));
    for depth in [3, 19, 1] {
        node.reorg(depth);
        node.mine(2);
        let finalized = node.finalized().number;
        bench.wait("the finalized block after a reorg", || {
            bench.head() == Some(finalized)
        });
    }
    let (_, health) = bench.operations("/health").await;
    assert!(health.contains("\"ws\":\"healthy\""), "{health}");
    running.stop();
    assert_equals(
        &bench,
        &node,
        BlockRange::new(0, node.finalized().number + 1),
    );
}

/// A socket is only the quicker way to know of a block.
#[tokio::test(flavor = "multi_thread")]
async fn where_no_socket_can_be_had_the_head_is_polled() {
    let node = EvmNode::new(EvmSpec::tiny(9), 40);
    let server = serve(&node, RpcOptions::default()).await;
    let more = format!(r#"{DEPTH_5}, "rpcWs": ["ws://127.0.0.1:1"]"#);
    let bench = Bench::new(&[server.url()], &more);
    let running = bench.start();
    bench.wait("the history", || bench.head() == Some(35));
    for _ in 0..3 {
        let head = node.mine(2).number;
        bench.wait("a mined block", || bench.head() == Some(head - 5));
    }
    let (code, health) = bench.operations("/health").await;
    assert_eq!(code, 200, "{health}");
    assert!(health.contains("\"ws\":\"connecting\""), "{health}");
    running.stop();
}

/// What following costs: for each new block one request for the head and one for its receipts. A rule
/// by depth asks for no tags, and no header is asked for twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_block_costs_three_requests() {
    const BLOCKS: u64 = 20;
    let node = EvmNode::new(EvmSpec::mainnet(8), 30);
    let server = serve(&node, RpcOptions::default()).await;
    // Only a hint leads to a look at the head.
    let more = format!(r#"{DEPTH_5}, "rpcWs": ["{}"]"#, server.ws_url());
    let bench = Bench::new(&[server.url()], &more);
    let text = std::fs::read_to_string(&bench.config).unwrap();
    let text = text.replace("\"pollMs\": 20", "\"pollMs\": 600000");
    std::fs::write(&bench.config, text).unwrap();
    let running = bench.start();
    let subscribed = || server.stats().calls.contains_key("eth_subscribe");
    bench.wait("the history", || bench.head() == Some(25) && subscribed());
    let followed = async |head: u64| {
        let began = Instant::now();
        let wanted = format!("\"lastSeenBlock\":{head},");
        loop {
            let (_, health) = bench.operations("/health").await;
            if health.contains(&wanted) && health.contains("\"lagBlocks\":0") {
                return;
            }
            assert!(began.elapsed() < support::PATIENCE, "{health}");
        }
    };
    // The first head after the subscription, which may bring a look of its own.
    followed(node.mine(1).number).await;
    let before = server.stats();
    for _ in 0..BLOCKS {
        followed(node.mine(1).number).await;
    }
    let after = server.stats();
    running.stop();
    let requests = after.http_requests - before.http_requests;
    let headers = after.calls["eth_getBlockByNumber"] - before.calls["eth_getBlockByNumber"];
    println!("{BLOCKS} blocks: {requests} requests, {headers} of them for headers");
    // Heads, the block with its transactions, receipts.
    assert!(requests <= 3 * BLOCKS + 2, "{requests} requests");
    assert!(headers <= 2 * BLOCKS + 2, "{headers} headers");
}

/// A chain behind a Portal: the same archive as from the node itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_portal_is_followed_too() {
    let node = EvmNode::new(EvmSpec::tiny(7), 500);
    node.set_finalized_depth(10);
    let server = PortalServer::start(node.clone(), PortalOptions::default())
        .await
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (base, dataset) = server
        .url()
        .trim_end_matches('/')
        .rsplit_once('/')
        .map(|(base, dataset)| (base.to_owned(), dataset.to_owned()))
        .unwrap();
    let config = dir.path().join("chronolith.json");
    let data = dir.path().join("data");
    let text = format!(
        r#"{{ "dataDir": {data:?}, "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0", "chains": [ {{ "chainId": 31337, "name": "sim", "pollMs": 20, "portal": {{ "url": "{base}", "dataset": "{dataset}" }} }} ] }}"#
    );
    std::fs::write(&config, text).unwrap();
    let bench = Bench { dir, config };
    bench.say(&["run", "--until-caught-up"]);
    let finalized = node.finalized().number;
    assert_eq!(bench.head(), Some(finalized));
    assert_equals(&bench, &node, BlockRange::new(0, finalized + 1));
    let state = bench.json(&["state", "--json"]);
    assert_eq!(state[0]["covered"][0]["level"], "claimed");
}
