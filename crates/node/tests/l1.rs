//! An L2 whose finality needs its L1: two simulated nodes, of which the lower one stalls, lags, is
//! down and comes back.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::time::{Duration, Instant};

use chronolith_sim::evm::{
    EvmNode, EvmSpec, FaultSizes, Faults, MissingMethod, RpcFault, RpcOptions, RpcServer,
};
use serde_json::Value;
use support::{Bench, PATIENCE};

const L1_BLOCK_TIME: Duration = Duration::from_millis(200);
const L1_ID: u64 = 31_338;
const SILENT: &str = "no recent observation of L1";

/// Both chains, their servers and the program's settings.
struct Layers {
    l2: EvmNode,
    l1: EvmNode,
    l1_faults: Faults,
    bench: Bench,
    _servers: [RpcServer; 2],
}

/// Who tells the head of L1.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Teller {
    Endpoints,
    Chain,
}

impl Layers {
    /// An L2 at 100 with its finalized block at 80 and its safe one at 90; an L1 at 50.
    async fn new(teller: Teller) -> Self {
        let l2 = EvmNode::new(EvmSpec::tiny(31), 100);
        l2.set_finalized_depth(20);
        Self::of(l2, teller, "").await
    }

    /// The same with an L2 of its own, and more settings of it.
    async fn of(l2: EvmNode, teller: Teller, more: &str) -> Self {
        let spec = EvmSpec {
            chain_id: L1_ID,
            ..EvmSpec::tiny(32)
        };
        let l1 = EvmNode::new(spec, 50);
        let l1_faults = Faults::new(1);
        l1_faults.set_sizes(FaultSizes {
            regression_blocks: 20,
            ..l1_faults.sizes()
        });
        let options = RpcOptions {
            faults: l1_faults.clone(),
            ..RpcOptions::default()
        };
        let upper = RpcServer::start(l2.clone(), RpcOptions::default());
        let lower = RpcServer::start(l1.clone(), options);
        let servers = [upper.await.unwrap(), lower.await.unwrap()];
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("chronolith.json");
        let data = dir.path().join("data");
        let (upper, lower) = (servers[0].url(), servers[1].url());
        let (told, chain) = match teller {
            Teller::Endpoints => (format!(r#", "l1RpcHttp": ["{lower}"]"#), String::new()),
            Teller::Chain => {
                let depth = r#""finality": { "mode": "depth", "confirmations": 5 }"#;
                let entry = format!(
                    r#", {{ "chainId": {L1_ID}, "name": "below", "rpcHttp": ["{lower}"], "pollMs": 20, {depth} }}"#
                );
                (String::new(), entry)
            }
        };
        let text = format!(
            r#"{{ "dataDir": {data:?}, "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0", "chains": [ {{ "chainId": 31337, "name": "sim",
              "rpcHttp": ["{upper}"], "pollMs": 20, "finality": {{ "mode": "dual_source", "l2Depth": 5,
              "l1Confirmations": 3, "maxL1DelaySeconds": 4, "l1ChainId": {L1_ID} {told} }} {more} }} {chain} ] }}"#
        );
        std::fs::write(&config, text).unwrap();
        Self {
            l2,
            l1,
            l1_faults,
            bench: Bench { dir, config },
            _servers: servers,
        }
    }

    /// The L2's part of the health, once it is as wanted.
    async fn health(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let (_, text) = self.bench.operations("/health").await;
            let health: Value = serde_json::from_str(&text).unwrap();
            let chain = health["chains"][0].clone();
            if wanted(&chain) {
                return chain;
            }
            assert!(
                began.elapsed() < PATIENCE,
                "{what}: {health}\n{}",
                self.bench.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until L1 was seen at its head, so that what is safe by now is dated by it.
    async fn dated(&self) {
        let (head, safe) = (self.l1.head().number, self.l2.head().number);
        let seen = |chain: &Value| chain["l1"]["head"] == head && chain["lastSeenBlock"] == safe;
        self.health("L1 at its head", seen).await;
    }

    /// Lets L1 continue until everything that is safe by now is final.
    async fn confirm(&self) {
        let head = self.l2.head().number;
        let seen = |chain: &Value| chain["lastSeenBlock"] == head;
        self.health("the L2's head", seen).await;
        let safe = self.l2.safe().number;
        // No faster than an L1 can be: after a pause, a head that ran ahead would not be believed.
        let (began, mut mined) = (Instant::now(), 0);
        self.bench.wait("what is safe", || {
            if began.elapsed() > L1_BLOCK_TIME * mined {
                mined += 1;
                self.l1.mine(1);
            }
            self.bench.head() == Some(safe)
        });
    }

    async fn assert_silent(&self, why: &str) {
        let silent = |chain: &Value| {
            let trouble = chain["error"].as_str().unwrap_or_default();
            trouble.contains(SILENT) && trouble.contains(why)
        };
        self.health("the silence of L1", silent).await;
        let stalls = self.bench.has_with("finality_stalled", "reason", SILENT);
        assert!(stalls, "not in the log: {}", self.bench.log());
    }

    /// The tail continues while nothing becomes final.
    async fn assert_only_tail_goes_on(&self) {
        let before = self.bench.head();
        let head = self.l2.mine(20).number;
        let followed = |chain: &Value| {
            (&chain["lastSeenBlock"], &chain["lagBlocks"]) == (&head.into(), &0.into())
        };
        self.health("the head of L2", followed).await;
        assert_eq!(self.bench.head(), before, "something became final");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_l1_that_stalls_stops_finality_and_nothing_else() {
    let layers = Layers::new(Teller::Endpoints).await;
    let running = layers.bench.start();
    // The history below the finalized block; what is safe waits for three blocks of L1.
    layers
        .bench
        .wait("the history", || layers.bench.head() == Some(79));
    layers.dated().await;
    layers.l1.mine(2);
    layers.dated().await;
    assert_eq!(layers.bench.head(), Some(79), "two blocks were enough");
    layers.l1.mine(1);
    layers
        .bench
        .wait("what is safe", || layers.bench.head() == Some(90));
    let chain = layers
        .health("well", |chain| chain["lastSafeBlock"] == 90)
        .await;
    assert_eq!(chain["lastSafeInclusion"]["l1Block"], 50, "{chain}");
    // It answers, but stands still.
    layers.assert_silent("its head stands at 53").await;
    layers.assert_only_tail_goes_on().await;
    layers.confirm().await;
    // It is down, and back.
    layers.l1_faults.always(RpcFault::Http500);
    layers.assert_silent("HTTP 500").await;
    layers.assert_only_tail_goes_on().await;
    layers.l1_faults.clear();
    layers.confirm().await;
    assert!(layers.bench.has("ingest_recovered"));
    running.stop();
    let compared = layers
        .bench
        .json(&["verify", "--json", "--against-source", "--chain", "sim"]);
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
}

/// More blocks wait for L1 than there is memory for. Those that it confirms leave at once and make room,
/// although the tail is full before and after.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_tail_drains_as_l1_confirms_blocks() {
    let l2 = EvmNode::new(EvmSpec::tiny(33), 3_000);
    // The safe block is half as far behind the head, inside of what is held.
    l2.set_finalized_depth(5_900);
    let layers = Layers::of(l2, Teller::Endpoints, r#", "tailMib": 1"#).await;
    let running = layers.bench.start();
    layers.bench.wait_for_listener();
    let full = |chain: &Value| {
        let trouble = chain["error"].as_str().unwrap_or_default();
        trouble.contains("raise tailMib")
    };
    layers.health("a full tail", full).await;
    for _ in 0..3 {
        layers.l2.mine(10);
        layers.confirm().await;
        layers.health("a full tail", full).await;
    }
    running.stop();
}

/// The L1 is followed itself: its source is shared. A head below the one before dates nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_l1_that_lags_dates_nothing() {
    let layers = Layers::new(Teller::Chain).await;
    let running = layers.bench.start();
    layers
        .bench
        .wait("the history", || layers.bench.head() == Some(79));
    layers.confirm().await;
    layers.l1_faults.always(RpcFault::HeadRegression);
    layers.l1.mine(15);
    layers.assert_silent("its head stands at").await;
    layers.assert_only_tail_goes_on().await;
    layers.l1_faults.clear();
    layers.confirm().await;
    running.stop();
    let state = layers.bench.json(&["state", "--json"]);
    assert_eq!(state[1]["chain"], "below");
    assert!(state[1]["head"]["number"].as_u64().unwrap() > 45, "{state}");
}

/// After a restart the confirmations are waited for once more, and an L1 that is down holds up
/// neither the start nor the tail, nor lets history through.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_waits_for_the_confirmations_again() {
    let layers = Layers::new(Teller::Endpoints).await;
    let running = layers.bench.start();
    layers
        .bench
        .wait("the history", || layers.bench.head() == Some(79));
    layers.confirm().await;
    running.kill();
    layers.l1_faults.always(RpcFault::Http500);
    // Far enough for history: the finalized block is above everything that is archived.
    layers.l2.mine(40);
    let running = layers.bench.start();
    let told = || layers.bench.count("health_listening");
    layers.bench.wait("the restart", || told() == 2);
    layers.assert_silent("HTTP 500").await;
    layers.assert_only_tail_goes_on().await;
    assert_eq!(layers.bench.head(), Some(90));
    layers.l1_faults.clear();
    layers.confirm().await;
    running.stop();
    let compared = layers.bench.json(&["verify", "--json", "--against-source"]);
    assert_eq!(compared["findings"].as_array().unwrap().len(), 0);
}

/// Whoever is given for L1 must be on it.
#[tokio::test(flavor = "multi_thread")]
async fn another_chain_as_l1_is_refused_at_the_start() {
    let layers = Layers::new(Teller::Endpoints).await;
    let text = std::fs::read_to_string(&layers.bench.config).unwrap();
    let other = text.replace(r#""l1ChainId": 31338"#, r#""l1ChainId": 5"#);
    std::fs::write(&layers.bench.config, other).unwrap();
    let output = layers.bench.output(&["run"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("finality.l1RpcHttp: wrong chain"), "{said}");
}

/// What the safe block covers may become final before its hash is met, while the walk is still below
/// it: it was fetched from any endpoint, also from one on another fork.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_mark_covers_comes_from_endpoints_that_have_the_mark() {
    let layers = Layers::new(Teller::Endpoints).await;
    // One says where the chain stands and delivers nothing, the other is on a fork above block 85.
    let missing = |name: &str| MissingMethod {
        name: name.to_owned(),
        code: -32601,
    };
    let options = RpcOptions {
        missing_methods: ["eth_getBlockReceipts", "eth_getLogs"].map(missing).into(),
        ..RpcOptions::default()
    };
    let teller = RpcServer::start(layers.l2.clone(), options).await.unwrap();
    let fork = EvmNode::new(EvmSpec::tiny(31), 100);
    fork.set_finalized_depth(20);
    fork.reorg(15);
    let stale = RpcServer::start(fork, RpcOptions::default()).await.unwrap();
    let both = format!(r#"["{}","{}"]"#, teller.url(), stale.url());
    let one = format!(r#"["{}"]"#, layers._servers[0].url());
    layers.bench.change(&one, &both);
    let running = layers.bench.start();
    layers
        .bench
        .wait("the history", || layers.bench.head() == Some(79));
    let refused = |chain: &Value| chain.to_string().contains("another block 90 than");
    let health = layers.health("the refusal", refused).await;
    assert_eq!(health["queueDepth"], 0, "the fork was taken: {health}");
    running.stop();
}
