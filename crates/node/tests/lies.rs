//! Sources that lie, or tell of another chain: what is not archived on their word, and what is said.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::evm::{
    EvmNode, EvmSpec, Faults, MissingMethod, RpcFault, RpcOptions, RpcServer,
};
use chronolith_sim::portal::{PortalFault, PortalFaults, PortalOptions, PortalServer};
use support::Bench;

const DEPTH: &str = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;

async fn serve(node: &EvmNode) -> RpcServer {
    RpcServer::start(node.clone(), RpcOptions::default())
        .await
        .unwrap()
}

fn name(server: &RpcServer) -> String {
    let url = server.url();
    url.trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned()
}

fn state(bench: &Bench) -> serde_json::Value {
    bench.json(&["state", "--json"])[0].clone()
}

/// The first endpoint alone said which chain it is: two endpoints on different forks, and the fork of
/// the first was archived without a word.
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_on_different_forks_hold_the_archive_until_they_agree() {
    let nodes = [31, 31].map(|seed| EvmNode::new(EvmSpec::tiny(seed), 60));
    nodes[1].reorg(30);
    let servers = [serve(&nodes[0]).await, serve(&nodes[1]).await];
    let bench = Bench::new(&[servers[0].url(), servers[1].url()], DEPTH);
    let running = bench.start();
    bench.wait("the hold", || bench.has("archiving_held"));
    assert_eq!(bench.head(), None, "a block was archived on one word");
    let held = state(&bench)["held"].as_str().unwrap().to_owned();
    let (_, health) = bench.operations("/health").await;
    let log = bench.log();
    for said in [&held, &health, &log] {
        for server in &servers {
            assert!(said.contains(&name(server)), "{said}");
        }
    }
    assert!(bench.say(&["state"]).contains("HELD"));
    let (_, metrics) = bench.operations("/metrics").await;
    let gauge = r#"chronolith_archiving_held{chain="31337"} 1"#;
    assert!(metrics.contains(gauge), "{metrics}");
    // The first one comes to the other's chain: what was held continues by itself.
    nodes[0].reorg(30);
    bench.wait("the archive", || {
        bench.head() == Some(nodes[1].head().number - 5)
    });
    bench.wait("the end of the hold", || state(&bench)["held"].is_null());
    running.stop();
    let compared = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
}

/// An endpoint that is down or behind has no say, and holds nothing up.
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_are_down_or_behind_hold_nothing_up() {
    let node = EvmNode::new(EvmSpec::tiny(32), 60);
    let behind = EvmNode::new(EvmSpec::tiny(32), 20);
    let faults = Faults::new(1);
    faults.always(RpcFault::Http500);
    let options = RpcOptions {
        faults,
        ..RpcOptions::default()
    };
    let down = RpcServer::start(node.clone(), options).await.unwrap();
    let servers = [serve(&node).await, serve(&behind).await];
    let urls = [servers[0].url(), servers[1].url(), down.url()];
    let bench = Bench::new(&urls, DEPTH);
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(bench.head(), Some(55));
    assert!(state(&bench)["trusts"].is_null());
}

/// With one endpoint nothing can be compared, and `state` says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_lone_endpoint_is_believed_and_state_says_so() {
    let node = EvmNode::new(EvmSpec::tiny(33), 60);
    let server = serve(&node).await;
    let bench = Bench::new(&[server.url()], DEPTH);
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(state(&bench)["trusts"], "one endpoint's word");
    assert!(bench.say(&["state"]).contains("one endpoint's word"));
}

/// An endpoint of another chain with the same id was asked first for everything.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_with_another_genesis_is_passed_over() {
    let (node, foreign) = (
        EvmNode::new(EvmSpec::tiny(34), 60),
        EvmNode::new(EvmSpec::tiny(35), 90),
    );
    let (right, wrong) = (serve(&node).await, serve(&foreign).await);
    let bench = Bench::new(&[right.url()], DEPTH);
    bench.say(&["run", "--until-caught-up"]);
    let both = format!(r#""{}","{}""#, wrong.url(), right.url());
    bench.change(&format!(r#""{}""#, right.url()), &both);
    node.mine(20);
    let output = bench.output(&["run", "--until-caught-up"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let told = |line: &&str| line.contains(&name(&wrong)) && line.contains("first block");
    assert!(said.lines().any(|line| told(&line)), "{said}");
    assert_eq!(bench.head(), Some(75));
    let hash = state(&bench)["head"]["hash"].clone();
    assert_eq!(hash, node.block(75).unwrap().hash.to_string());
    // With nothing to tell who is right, neither is believed.
    let fresh = Bench::new(&[wrong.url(), right.url()], DEPTH);
    fresh.refused(&["run", "--until-caught-up"], "different first blocks");
}

/// A node set back below the archive looked healthy: no lag, no trouble, and nothing moved.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_set_back_below_the_archive_shows_in_health() {
    let node = EvmNode::new(EvmSpec::tiny(36), 60);
    let server = serve(&node).await;
    let bench = Bench::new(&[server.url()], DEPTH);
    let running = bench.start();
    bench.wait("the head", || bench.head() == Some(55));
    node.rollback(30);
    let said = "newest block 30 is below block 55";
    bench.wait("the error", || {
        bench.has_with("ingest_failing", "error", said)
    });
    let (_, health) = bench.operations("/health").await;
    assert!(health.contains(said), "{health}");
    node.mine(40);
    bench.wait("the way on", || bench.head() == Some(65));
    running.stop();
}

/// A first endpoint that was set back kept the chain from moving, while the second one had all of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_endpoint_that_is_set_back_is_passed_over() {
    let nodes = [39, 39].map(|seed| EvmNode::new(EvmSpec::tiny(seed), 60));
    let servers = [serve(&nodes[0]).await, serve(&nodes[1]).await];
    let bench = Bench::new(&[servers[0].url(), servers[1].url()], DEPTH);
    let running = bench.start();
    bench.wait("the head", || bench.head() == Some(55));
    nodes[0].rollback(30);
    nodes[1].mine(20);
    bench.wait("the head of the other", || bench.head() == Some(75));
    running.stop();
}

/// The first endpoint refuses receipts and finds no logs: with a narrow scope the archive came out
/// empty, although the second endpoint had every log.
#[tokio::test(flavor = "multi_thread")]
async fn a_narrow_scope_is_not_emptied_by_the_first_endpoint() {
    let node = EvmNode::new(EvmSpec::tiny(37), 100);
    let faults = Faults::new(1);
    faults.always(RpcFault::EmptyLogs);
    let options = RpcOptions {
        missing_methods: vec![MissingMethod {
            name: "eth_getBlockReceipts".to_owned(),
            code: -32601,
        }],
        faults,
        ..RpcOptions::default()
    };
    let liar = RpcServer::start(node.clone(), options).await.unwrap();
    let honest = serve(&node).await;
    let blocks = (0..=95).map(|number| node.block(number).unwrap().to_model());
    let logs: Vec<_> = blocks.flat_map(|block| block.logs).collect();
    let emitter = logs[0].emitter().to_vec();
    let there = logs.iter().filter(|log| log.emitter() == emitter).count();
    let hex: String = emitter.iter().map(|byte| format!("{byte:02x}")).collect();
    let narrow = format!(r#"{DEPTH}, "logs": {{ "addresses": ["0x{hex}"] }}"#);
    let bench = Bench::new(&[liar.url(), honest.url()], &narrow);
    bench.say(&["run", "--until-caught-up"]);
    assert_eq!(state(&bench)["logs"], there);
    // With the liar alone nothing is taken, and the reason is told.
    let alone = Bench::new(&[liar.url()], &narrow);
    let running = alone.start();
    alone.wait("the reason", || {
        alone.has_with("ingest_failing", "error", "verification to linked")
    });
    assert_eq!(alone.head(), None);
    let (_, health) = alone.operations("/health").await;
    assert!(health.contains("eth_getBlockReceipts"), "{health}");
    running.stop();
}

/// A Portal left out and made up logs with a bloom that fits, and all of it was "proven by bloom".
#[tokio::test(flavor = "multi_thread")]
async fn a_lying_portal_is_refused_and_the_endpoints_deliver() {
    let node = EvmNode::new(EvmSpec::tiny(38), 400);
    let faults = PortalFaults::new(1);
    for (lie, _) in PortalFault::BYZANTINE {
        faults.set(lie, 50_000);
    }
    let options = PortalOptions {
        faults: faults.clone(),
        ..PortalOptions::default()
    };
    let portal = PortalServer::start(node.clone(), options).await.unwrap();
    let rpc = serve(&node).await;
    let url = portal.url();
    let (base, dataset) = url.rsplit_once('/').unwrap();
    let settings = format!(r#"{DEPTH}, "portal": {{ "url": "{base}", "dataset": "{dataset}" }}"#);
    let bench = Bench::new(&[rpc.url()], &settings);
    let output = bench.output(&["run", "--until-caught-up"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(faults.counts().values().sum::<u64>() > 0, "it never lied");
    let named = |line: &&str| line.contains("Portal") && line.contains("contradicts");
    assert!(said.lines().any(|line| named(&line)), "{said}");
    let compared = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
    // Alone it is its own word: a setting that asks for more is refused.
    let alone = format!(
        r#", "verification": "bloom", "portal": {{ "url": "{base}", "dataset": "{dataset}" }}"#
    );
    let alone = Bench::new(&[], &alone);
    alone.refused(
        &["run", "--until-caught-up"],
        "a Portal alone proves nothing",
    );
}

/// A proxy in front answers `finalized` with its newest block. The tip was archived on its word, because the
/// other endpoint has that block too, and the next reorg of one block halted the chain.
#[tokio::test(flavor = "multi_thread")]
async fn a_tag_that_names_the_tip_does_not_make_it_final() {
    let nodes = [40, 40].map(|seed| EvmNode::new(EvmSpec::tiny(seed), 60));
    nodes[0].set_finalized_depth(0);
    nodes[1].set_finalized_depth(20);
    let servers = [serve(&nodes[0]).await, serve(&nodes[1]).await];
    let finalized = r#", "finality": { "mode": "finalized" }"#;
    let bench = Bench::new(&[servers[0].url(), servers[1].url()], finalized);
    let running = bench.start();
    let final_head = || Some(nodes[1].finalized().number);
    bench.wait("the head", || bench.head() >= final_head());
    assert_eq!(bench.head(), final_head(), "the tip was archived");
    for node in &nodes {
        node.reorg(1);
        node.mine(10);
    }
    bench.wait("the way on", || bench.head() == final_head());
    running.stop();
    let compared = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
}
