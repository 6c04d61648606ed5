//! An L2 whose finality needs an L1 that the program follows too: the wiring, health and the log. Everything else
//! about L1 is tested in `crates/follower/tests/l1.rs`.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::time::{Duration, Instant};

use chronolith_sim::evm::{EvmNode, EvmSpec, FaultSizes, Faults, RpcFault, RpcOptions, RpcServer};
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

impl Layers {
    /// An L2 at 100 with its finalized block at 80 and its safe one at 90; an L1 at 50.
    async fn new() -> Self {
        let l2 = EvmNode::new(EvmSpec::tiny(31), 100);
        l2.set_finalized_depth(20);
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
        let text = format!(
            r#"{{ "dataDir": {data:?}, "listen": "127.0.0.1:0", "metricsPort": 0, "adminListen": "127.0.0.1:0", "chains": [
              {{ "chainId": 31337, "name": "sim", "rpcHttp": ["{upper}"], "pollMs": 20, "finality": {{ "mode": "dual_source",
              "l2Depth": 5, "l1Confirmations": 3, "maxL1DelaySeconds": 4, "l1ChainId": {L1_ID} }} }},
              {{ "chainId": {L1_ID}, "name": "below", "rpcHttp": ["{lower}"], "pollMs": 20,
              "finality": {{ "mode": "depth", "confirmations": 5 }} }} ] }}"#
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
            let error = chain["error"].as_str().unwrap_or_default();
            error.contains(SILENT) && error.contains(why)
        };
        self.health("the silence of L1", silent).await;
        let stalls = self.bench.has_with("finality_stalled", "reason", SILENT);
        assert!(stalls, "not in the log: {}", self.bench.log());
    }

    /// The tail continues while nothing becomes final.
    async fn assert_only_tail_continues(&self) {
        let before = self.bench.head();
        let head = self.l2.mine(20).number;
        let followed = |chain: &Value| {
            (&chain["lastSeenBlock"], &chain["lagBlocks"]) == (&head.into(), &0.into())
        };
        self.health("the head of L2", followed).await;
        assert_eq!(self.bench.head(), before, "something became final");
    }
}

/// The L1 is followed itself: its source is shared. A head below the one before dates nothing.
#[tokio::test(flavor = "multi_thread")]
async fn an_l1_that_lags_dates_nothing() {
    let layers = Layers::new().await;
    let running = layers.bench.start();
    layers
        .bench
        .wait("the history", || layers.bench.head() == Some(79));
    layers.dated().await;
    layers.confirm().await;
    let chain = layers
        .health("finality", |chain| chain["lastSafeBlock"] == 90)
        .await;
    assert_eq!(chain["lastSafeInclusion"]["l1Block"], 50, "{chain}");
    layers.l1_faults.always(RpcFault::HeadRegression);
    layers.l1.mine(15);
    layers.assert_silent("its head stands at").await;
    layers.assert_only_tail_continues().await;
    layers.l1_faults.clear();
    layers.confirm().await;
    assert!(layers.bench.has("ingest_recovered"));
    running.stop();
    let state = layers.bench.json(&["state", "--json"]);
    assert_eq!(state[1]["chain"], "below");
    assert!(state[1]["head"]["number"].as_u64().unwrap() > 45, "{state}");
}
