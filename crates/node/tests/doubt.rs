//! What the program does not believe on the first word of one endpoint.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use chronolith_sim::evm::{EvmNode, EvmSpec, Faults, RpcFault, RpcOptions, RpcServer};
use support::Bench;

/// A node that is syncing shows a chain of long ago: a deep reorg on its word is none.
#[tokio::test(flavor = "multi_thread")]
async fn a_deep_reorg_of_a_node_that_is_syncing_waits_until_it_is_not() {
    let node = EvmNode::new(EvmSpec::tiny(21), 300);
    let faults = Faults::new(1);
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let depth = r#", "finality": { "mode": "depth", "confirmations": 200 }"#;
    let bench = Bench::new(&[server.url()], depth);
    let running = bench.start();
    bench.wait("the first head", || bench.head() == Some(100));
    let asked = server.stats().calls["eth_syncing"];
    assert_eq!(
        asked, 1,
        "once at the start, not with every look at the head"
    );
    // A shallow reorg needs no question.
    node.reorg(10);
    bench.wait("the shallow reorg", || bench.count("reorg") == 1);
    assert_eq!(server.stats().calls["eth_syncing"], asked);
    faults.always(RpcFault::Syncing);
    node.reorg(100);
    let said = "deep reorg from an endpoint that is syncing";
    bench.wait("the doubt", || {
        bench.has_with("ingest_failing", "error", said)
    });
    let (_, health) = bench.operations("/health").await;
    assert!(health.contains(said), "{health}");
    assert_eq!(bench.count("reorg"), 1, "it was followed");
    faults.clear();
    bench.wait("the deep reorg", || bench.count("reorg") == 2);
    let head = node.mine(10).number;
    bench.wait("the head after it", || bench.head() == Some(head - 200));
    running.stop();
    let compared = bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
    // At the start it is told, for people.
    faults.always(RpcFault::Syncing);
    let told = bench.output(&["run", "--until-caught-up"]);
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("says that it is syncing"), "{told}");
}

/// Two endpoints with one chain, of which the first then goes another way below what is final.
struct Pair {
    nodes: [EvmNode; 2],
    faults: [Faults; 2],
    bench: Bench,
    _servers: [RpcServer; 2],
}

impl Pair {
    async fn new(seed: u64) -> Self {
        let nodes = [seed, seed].map(|seed| EvmNode::new(EvmSpec::tiny(seed), 60));
        let faults = [1, 2].map(Faults::new);
        let serve = |at: usize| {
            let faults: Faults = faults[at].clone();
            let options = RpcOptions {
                faults,
                ..RpcOptions::default()
            };
            RpcServer::start(nodes[at].clone(), options)
        };
        let servers = [serve(0).await.unwrap(), serve(1).await.unwrap()];
        let depth = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;
        let urls = [servers[0].url(), servers[1].url()];
        Self {
            bench: Bench::new(&urls, depth),
            nodes,
            faults,
            _servers: servers,
        }
    }

    fn halted(&self) -> bool {
        self.bench.json(&["state", "--json"])[0]["halted"].is_string()
    }

    /// How often the first endpoint was caught.
    async fn lies(&self) -> u64 {
        let (_, metrics) = self.bench.operations("/metrics").await;
        let name = self._servers[0].url();
        let name = name.trim_start_matches("http://").trim_end_matches('/');
        let of = |line: &&str| {
            line.starts_with("chronolith_endpoint_inconsistencies") && line.contains(name)
        };
        let line = metrics.lines().find(of).unwrap_or_default();
        line.rsplit(' ')
            .next()
            .and_then(|count| count.parse().ok())
            .unwrap_or(0)
    }
}

/// The other endpoint still has the final block: no halt, the liar is named and benched, and the
/// chain continues.
#[tokio::test(flavor = "multi_thread")]
async fn one_endpoint_on_another_chain_does_not_halt() {
    let pair = Pair::new(22).await;
    let running = pair.bench.start();
    pair.bench
        .wait("the first head", || pair.bench.head() == Some(55));
    pair.nodes[0].reorg(30);
    let head = pair.nodes[1].mine(20).number;
    pair.bench.wait("the head of the other", || {
        pair.bench.head() == Some(head - 5)
    });
    assert!(!pair.halted());
    assert!(pair.lies().await > 0, "the liar was not benched");
    let liar = pair._servers[0].url();
    let liar = liar.trim_start_matches("http://").trim_end_matches('/');
    let told = pair.bench.events("endpoint_inconsistent");
    assert!(told.iter().any(|line| line["endpoint"] == liar), "{told:?}");
    running.stop();
    let block = pair.bench.json(&["state", "--json"])[0]["head"]["hash"].clone();
    assert_eq!(
        block,
        pair.nodes[1].block(head - 5).unwrap().hash.to_string()
    );
}

/// All endpoints tell of the new chain: a final block was replaced.
#[tokio::test(flavor = "multi_thread")]
async fn two_endpoints_on_another_chain_halt() {
    let pair = Pair::new(23).await;
    let running = pair.bench.start();
    pair.bench
        .wait("the first head", || pair.bench.head() == Some(55));
    // Before anybody can ask in between: the second first, which is asked only when the first fails.
    pair.nodes[1].reorg(30);
    pair.nodes[0].reorg(30);
    pair.bench.wait("the halt", || pair.halted());
    running.stop();
    assert_eq!(pair.bench.head(), Some(55));
}

/// One of three is stuck and still has the final block. It must not outvote the two that moved on.
#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_endpoint_does_not_prevent_a_halt() {
    let nodes = [26, 26, 26].map(|seed| EvmNode::new(EvmSpec::tiny(seed), 60));
    let mut servers = Vec::new();
    for node in &nodes {
        let server = RpcServer::start(node.clone(), RpcOptions::default()).await;
        servers.push(server.unwrap());
    }
    let urls: Vec<String> = servers.iter().map(RpcServer::url).collect();
    let depth = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;
    let bench = Bench::new(&urls, depth);
    let running = bench.start();
    bench.wait("the first head", || bench.head() == Some(55));
    // The preferred one last: it is asked for heads.
    nodes[1].reorg(30);
    nodes[0].reorg(30);
    let halted = || bench.json(&["state", "--json"])[0]["halted"].is_string();
    bench.wait("the halt", halted);
    running.stop();
    assert_eq!(bench.head(), Some(55));
}

/// Nothing is caught up with while a human has to look: waiting for it would never end.
#[tokio::test(flavor = "multi_thread")]
async fn catching_up_ends_at_a_halt_and_says_why() {
    let node = EvmNode::new(EvmSpec::tiny(26), 60);
    let server = RpcServer::start(node.clone(), RpcOptions::default());
    let server = server.await.unwrap();
    let more = r#", "mode": "auto", "finality": { "mode": "depth", "confirmations": 5 }"#;
    let bench = Bench::new(&[server.url()], more);
    bench.say(&["run", "--until-caught-up"]);
    node.reorg(30);
    // The round that finds out, one on what is halted, and one that is bounded.
    for mode in [
        r#""mode": "auto""#,
        r#""mode": "auto" "#,
        r#""mode": "backfill", "startBlock": 0, "endBlock": 70"#,
    ] {
        bench.change(r#""mode": "auto""#, mode);
        let log = std::fs::read(bench.dir.path().join("log")).unwrap_or_default();
        let running = bench.start_with(&["run", "--until-caught-up"], &[]);
        assert_eq!(running.wait().code(), Some(1), "{mode}");
        let said = bench.log()[log.len()..].to_owned();
        let error = said.lines().find(|line| line.starts_with("error: "));
        let error = error.unwrap_or_else(|| panic!("no error in {said}"));
        assert!(error.contains("chain sim: "), "{error}");
        assert!(error.contains("replaced"), "{error}");
    }
    assert!(bench.json(&["state", "--json"])[0]["halted"].is_string());
    assert_eq!(bench.head(), Some(55));
}

/// The other endpoint is down: nobody can say who is right, and that is said.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_opinion_is_waited_for() {
    let pair = Pair::new(24).await;
    let running = pair.bench.start();
    pair.bench
        .wait("the first head", || pair.bench.head() == Some(55));
    pair.faults[1].always(RpcFault::Http500);
    pair.nodes[0].reorg(30);
    let said = "waiting for a second endpoint";
    pair.bench.wait("the doubt", || {
        pair.bench.has_with("ingest_failing", "error", said)
    });
    assert!(!pair.halted());
    pair.nodes[1].reorg(30);
    pair.faults[1].clear();
    pair.bench.wait("the halt", || pair.halted());
    running.stop();
}

/// History whose anchor is the last settled block outlives reorgs at the tip: an endpoint that takes
/// over in the middle has that block, whatever its newest ones are.
#[tokio::test(flavor = "multi_thread")]
async fn a_reorg_at_the_tip_does_not_end_a_long_backfill() {
    let node = EvmNode::new(EvmSpec::tiny(25), 6_000);
    let faults = Faults::new(1);
    let slow = |faults: Faults| RpcOptions {
        delay: std::time::Duration::from_millis(30),
        faults,
        ..RpcOptions::default()
    };
    let first = RpcServer::start(node.clone(), slow(faults.clone()))
        .await
        .unwrap();
    let second = RpcServer::start(node.clone(), slow(Faults::new(2)))
        .await
        .unwrap();
    let depth = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;
    let bench = Bench::new(&[first.url(), second.url()], depth);
    let running = bench.start();
    let receipts = |server: &RpcServer| {
        let calls = server.stats().calls;
        calls
            .get("eth_getBlockReceipts")
            .copied()
            .unwrap_or_default()
    };
    bench.wait("the middle of the history", || receipts(&first) > 500);
    node.reorg(2);
    faults.always(RpcFault::Http500);
    let head = node.head().number;
    bench.wait("the head", || bench.head() == Some(head - 5));
    running.stop();
    assert!(
        receipts(&second) > 1_000,
        "the second endpoint was not needed"
    );
    let fetches = bench.events("history_fetch_started");
    assert_eq!(fetches.len(), 1, "{fetches:?}");
    let compared = bench.json(&["verify", "--json", "--to", "400"]);
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
}
