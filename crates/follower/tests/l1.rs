//! Blocks of an L2 become final by what the chain below has confirmed, and by nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use chronolith_follower::chain::Chain;
use chronolith_follower::settings::{Finality, FollowSettings, L1Settings};
use chronolith_model::BlockRange;
use chronolith_sim::evm::{
    EvmNode, EvmSpec, Faults, MissingMethod, RpcFault, RpcOptions, RpcServer,
};
use chronolith_source::EndpointSettings;
use support::log::Log;
use support::served::{
    assert_equals_source, error_of, serve, serve_failing, serve_with, until, until_error,
    until_head,
};
use support::{Ground, MemorySource, archived, assert_archived, following, node, wait};
use tokio::time::Instant;

const DUAL: Finality = Finality::Dual {
    l2_depth: 5,
    l1_confirmations: 3,
    max_l1_delay_seconds: 3_600,
};

#[tokio::test(start_paused = true)]
async fn nothing_is_final_before_l1_has_confirmed_it() {
    let (l2, l1) = (node(11, 100), node(12, 50));
    l2.set_finalized_depth(20);
    let (ground, source) = (Ground::new(DUAL), MemorySource::new(&[&l2]));
    let mut chain = ground.open(&source).await;
    let below = FollowSettings::of_endpoints(900, "l1", Vec::new());
    chain.share_l1(&below, Arc::new(MemorySource::new(&[&l1])));
    following(&chain, async {
        wait("the head", || chain.tail().head() == Some(l2.head())).await;
        // L1 stands still: nothing is dated, and nothing becomes final.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = archived(&chain);
        assert!(before < Some(l2.safe().number), "{before:?}");
        for _ in 0..3 {
            let safe = l2.safe().number;
            // L1 continues, a block at a time.
            let mut mined = 0;
            while archived(&chain) < Some(safe) {
                l1.mine(1);
                mined += 1;
                tokio::time::sleep(Duration::from_secs(2)).await;
                assert!(mined < 1_000, "{:?} is archived", archived(&chain));
            }
            assert!(mined >= 3, "final after {mined} blocks of L1");
            assert_eq!(archived(&chain), Some(safe));
            l2.mine(10);
            wait("the new head", || chain.tail().head() == Some(l2.head())).await;
        }
    })
    .await;
    let end = archived(&chain).unwrap() + 1;
    assert_archived(&chain.archive, &l2, BlockRange::new(0, end)).await;
}

const L1_BLOCK_TIME: Duration = Duration::from_millis(200);
const L1_ID: u64 = 31_338;
const SILENT: &str = "no recent observation of L1";

/// Both chains and their servers.
struct Layers {
    l2: EvmNode,
    l1: EvmNode,
    l1_faults: Faults,
    ground: Ground,
    _servers: [RpcServer; 2],
}

impl Layers {
    /// An L2 at 100 with its finalized block at 80 and its safe one at 90; an L1 at 50.
    async fn new() -> Self {
        let l2 = node(31, 100);
        l2.set_finalized_depth(20);
        Self::of(l2).await
    }

    /// The same with an L2 of its own.
    async fn of(l2: EvmNode) -> Self {
        let spec = EvmSpec {
            chain_id: L1_ID,
            ..EvmSpec::tiny(32)
        };
        let (l1, l1_faults) = (EvmNode::new(spec, 50), Faults::new(1));
        let servers = [serve(&l2).await, serve_failing(&l1, &l1_faults).await];
        let finality = Finality::Dual {
            l2_depth: 5,
            l1_confirmations: 3,
            max_l1_delay_seconds: 2,
        };
        let mut ground = Ground::over(&[&servers[0]], finality);
        ground.settings.l1 = Some(L1Settings {
            chain_id: L1_ID,
            endpoints: vec![EndpointSettings::new(&servers[1].url())],
        });
        Self {
            l2,
            l1,
            l1_faults,
            ground,
            _servers: servers,
        }
    }

    /// Waits until the head of the L2 was seen.
    async fn seen(&self, chain: &Chain) {
        let head = Some(self.l2.head());
        let is_seen = || chain.status().source_head.map(|(seen, _)| seen) == head;
        until(chain, "the L2's head", is_seen).await;
    }

    /// Waits until L1 was seen at its head, so that what is safe by now is dated by it.
    async fn dated(&self, chain: &Chain) {
        let head = Some(self.l1.head().number);
        let observed = || chain.l1.as_ref().unwrap().observed();
        let is_at_head = || observed().map(|observed| observed.head) == head;
        until(chain, "L1 at its head", is_at_head).await;
        self.seen(chain).await;
    }

    /// Lets L1 continue until everything that is safe by now is final.
    async fn confirm(&self, chain: &Chain) {
        self.seen(chain).await;
        let safe = self.l2.safe().number;
        // No faster than an L1 can be: after a pause, a head that ran ahead would not be believed.
        let (began, mut mined) = (Instant::now(), 0);
        until(chain, "what is safe", || {
            if began.elapsed() > L1_BLOCK_TIME * mined {
                mined += 1;
                self.l1.mine(1);
            }
            archived(chain) == Some(safe)
        })
        .await;
    }

    /// The tail continues while nothing becomes final.
    async fn assert_only_tail_continues(&self, chain: &Chain) {
        let before = archived(chain);
        let head = Some(self.l2.mine(20));
        self.seen(chain).await;
        let is_followed = || chain.tail().head() == head;
        until(chain, "the head of L2", is_followed).await;
        assert_eq!(archived(chain), before, "something became final");
    }
}

/// Waits until the status and the log report that L1 is silent, and why.
async fn until_silent(chain: &Chain, log: &Log, why: &str) {
    let is_silent = || {
        let error = error_of(chain);
        error.contains(SILENT) && error.contains(why)
    };
    until(chain, "the silence of L1", is_silent).await;
    let is_logged = log.has_with("finality_stalled", "reason", SILENT);
    assert!(is_logged, "{}", log.text());
}

#[tokio::test]
async fn an_l1_that_stalls_stops_finality_and_nothing_else() {
    let layers = Layers::new().await;
    let chain = layers.ground.open_served().await;
    let log = Log::capture();
    following(&chain, async {
        // The history below the finalized block; what is safe waits for three blocks of L1.
        until_head(&chain, 79).await;
        layers.dated(&chain).await;
        layers.l1.mine(2);
        layers.dated(&chain).await;
        assert_eq!(archived(&chain), Some(79), "two blocks were enough");
        layers.l1.mine(1);
        until_head(&chain, 90).await;
        let finalized = || chain.window().tracker.finalized().map(|block| block.number);
        until(&chain, "finality", || finalized() == Some(90)).await;
        let inclusion = chain.window().tracker.inclusion_of(90);
        assert_eq!(inclusion.unwrap().l1_number, 50);
        // It answers, but stands still.
        until_silent(&chain, &log, "its head stands at 53").await;
        layers.assert_only_tail_continues(&chain).await;
        layers.confirm(&chain).await;
        // It is down, and back.
        layers.l1_faults.always(RpcFault::Http500);
        until_silent(&chain, &log, "HTTP 500").await;
        layers.assert_only_tail_continues(&chain).await;
        layers.l1_faults.clear();
        layers.confirm(&chain).await;
        assert!(log.has("ingest_recovered"));
    })
    .await;
    let end = archived(&chain).unwrap() + 1;
    assert_equals_source(&chain, BlockRange::new(0, end)).await;
}

/// More blocks wait for L1 than there is memory for. Those that it confirms leave at once and make room, although
/// the tail is full before and after.
#[tokio::test]
async fn a_full_tail_drains_as_l1_confirms_blocks() {
    let l2 = node(33, 3_000);
    // The safe block is half as far below the head, inside of what is held.
    l2.set_finalized_depth(5_900);
    let mut layers = Layers::of(l2).await;
    layers.ground.settings.tail_bytes = 1 << 20;
    let chain = layers.ground.open_served().await;
    following(&chain, async {
        until_error(&chain, "raise tailMib").await;
        for _ in 0..3 {
            layers.l2.mine(10);
            layers.confirm(&chain).await;
            until_error(&chain, "raise tailMib").await;
        }
    })
    .await;
}

/// After a restart the confirmations are waited for once more, and an L1 that is down holds up neither the start
/// nor the tail, nor lets history through.
#[tokio::test]
async fn a_restart_waits_for_the_confirmations_again() {
    let layers = Layers::new().await;
    let chain = layers.ground.open_served().await;
    let log = Log::capture();
    following(&chain, async {
        until_head(&chain, 79).await;
        layers.confirm(&chain).await;
    })
    .await;
    drop(chain);
    layers.l1_faults.always(RpcFault::Http500);
    // Far enough for history: the finalized block is above everything that is archived.
    layers.l2.mine(40);
    let chain = layers.ground.open_served().await;
    chain.admit().await.unwrap();
    following(&chain, async {
        until_silent(&chain, &log, "HTTP 500").await;
        layers.assert_only_tail_continues(&chain).await;
        assert_eq!(archived(&chain), Some(90));
        layers.l1_faults.clear();
        layers.confirm(&chain).await;
    })
    .await;
    let end = archived(&chain).unwrap() + 1;
    assert_equals_source(&chain, BlockRange::new(0, end)).await;
}

/// Endpoints for L1 must be on it.
#[tokio::test]
async fn another_chain_as_l1_is_refused_at_the_start() {
    let mut layers = Layers::new().await;
    layers.ground.settings.l1.as_mut().unwrap().chain_id = 5;
    let chain = layers.ground.open_served().await;
    let refused = chain.admit().await.unwrap_err().to_string();
    assert!(
        refused.contains("finality.l1RpcHttp: wrong chain"),
        "{refused}"
    );
}

/// What the safe block covers may become final before its hash is met, while the walk is still below it: it was
/// fetched from any endpoint, also from one on another fork.
#[tokio::test]
async fn what_a_mark_covers_comes_from_endpoints_that_have_the_mark() {
    let mut layers = Layers::new().await;
    // One reports where the chain stands and delivers nothing, the other is on a fork above block 85.
    let missing = |name: &str| MissingMethod {
        name: name.to_owned(),
        code: -32601,
    };
    let options = RpcOptions {
        missing_methods: ["eth_getBlockReceipts", "eth_getLogs"].map(missing).into(),
        ..RpcOptions::default()
    };
    let marks = serve_with(&layers.l2, options).await;
    let fork = node(31, 100);
    fork.set_finalized_depth(20);
    fork.reorg(15);
    let stale = serve(&fork).await;
    layers.ground.set_endpoints(&[&marks, &stale]);
    let chain = layers.ground.open_served().await;
    following(&chain, async {
        until_head(&chain, 79).await;
        until_error(&chain, "another block 90 than").await;
        assert_eq!(chain.tail().len(), 0, "the fork was taken");
    })
    .await;
}
