//! A chain over a Portal, alone and beside endpoints: history from the one, everything else from the others.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_follower::settings::Finality;
use chronolith_model::{BlockRange, Dataset, DatasetSet, Verification};
use chronolith_sim::evm::{EvmNode, RpcServer};
use chronolith_sim::portal::{PortalFault, PortalFaults, PortalOptions, PortalServer};
use support::log::Log;
use support::served::{assert_equals_source, serve, serve_portal, until, until_head};
use support::{Ground, archived, assert_archived, following, node};

const BLOCKS: u64 = 3_000;
/// Where the range that a Portal is asked for at once does not matter.
const FEW: u64 = 1_200;
const CONFIRMATIONS: u64 = 10;

/// A chain behind a Portal: the same archive as from the node itself.
#[tokio::test]
async fn a_portal_is_followed_too() {
    let node = node(7, 500);
    node.set_finalized_depth(10);
    let portal = serve_portal(&node, &PortalFaults::new(1)).await;
    let ground = Ground::over_portal(&portal);
    let chain = ground.caught_up().await;
    let finalized = node.finalized().number;
    assert_eq!(archived(&chain), Some(finalized));
    let range = BlockRange::new(0, finalized + 1);
    assert_archived(&chain.archive, &node, range).await;
    let settings = &chain.settings;
    let kept = chain.archive.kept(settings.datasets, &settings.scope);
    let levels: Vec<_> = kept
        .iter()
        .map(|(range, proof)| (*range, proof.of_all(settings.datasets)))
        .collect();
    assert_eq!(levels, [(range, Verification::Claimed)]);
}

/// Endpoints of a node, and a Portal beside them.
struct Both {
    rpc: RpcServer,
    portal: PortalServer,
    ground: Ground,
}

impl Both {
    async fn new(node: &EvmNode, at_portal: &EvmNode, faults: &PortalFaults) -> Self {
        let (rpc, portal) = (serve(node).await, serve_portal(at_portal, faults).await);
        let mut ground = Ground::over(&[&rpc], Finality::Depth(CONFIRMATIONS));
        ground.set_portal(&portal);
        Self {
            rpc,
            portal,
            ground,
        }
    }

    fn receipts(&self) -> u64 {
        let calls = self.rpc.stats().calls;
        calls
            .get("eth_getBlockReceipts")
            .copied()
            .unwrap_or_default()
    }

    fn streams(&self) -> u64 {
        let requests = self.portal.stats().requests;
        let of = |name: &str| requests.get(name).copied().unwrap_or_default();
        of("stream") + of("finalized-stream")
    }

    /// Catches up; every block is the endpoints'.
    async fn assert_caught_up(&self, node: &EvmNode) {
        let chain = self.ground.caught_up().await;
        let head = node.head().number - CONFIRMATIONS;
        assert_eq!(archived(&chain), Some(head));
        assert_equals_source(&chain, BlockRange::new(0, head + 1)).await;
    }
}

#[tokio::test]
async fn history_comes_from_the_portal_and_the_tail_from_the_endpoints() {
    let node = node(51, BLOCKS);
    // The Portal lags: its finalized block is well below that of the endpoints.
    node.set_finalized_depth(600);
    let both = Both::new(&node, &node, &PortalFaults::new(1)).await;
    let chain = both.ground.open_served().await;
    following(&chain, async {
        until_head(&chain, BLOCKS - CONFIRMATIONS).await;
        let (receipts, streams) = (both.receipts(), both.streams());
        assert!(streams > 0, "the Portal was not asked");
        assert!(
            (10..1_100).contains(&receipts),
            "{receipts} blocks from endpoints"
        );
        // The tail is the endpoints' alone.
        let head = node.mine(30).number;
        until_head(&chain, head - CONFIRMATIONS).await;
        assert_eq!(both.streams(), streams);
        assert!(both.receipts() > receipts);
    })
    .await;
    drop(chain);
    both.assert_caught_up(&node).await;
}

/// Headers are not at the Portal: no history is requested there.
#[tokio::test]
async fn what_a_portal_does_not_have_comes_from_the_endpoints() {
    let node = node(52, 600);
    let mut both = Both::new(&node, &node, &PortalFaults::new(1)).await;
    let datasets = [Dataset::Headers, Dataset::Logs, Dataset::TxHashes];
    both.ground.settings.datasets = DatasetSet::of(&datasets);
    both.assert_caught_up(&node).await;
    assert_eq!(both.streams(), 0);
    assert!(both.receipts() >= 600);
}

/// The same genesis, another fork: not one of its blocks is archived, whatever its finalized block is.
#[tokio::test]
async fn a_portal_on_another_fork_delivers_nothing() {
    for depth in [5, 300] {
        let (right, fork) = (node(53, FEW), node(53, FEW));
        fork.reorg(FEW - 400);
        fork.set_finalized_depth(depth);
        let both = Both::new(&right, &fork, &PortalFaults::new(1)).await;
        let log = Log::capture();
        both.assert_caught_up(&right).await;
        let text = log.text();
        assert!(
            text.contains("the endpoints have another block there"),
            "{text}"
        );
        assert!(both.receipts() >= FEW - CONFIRMATIONS);
    }
}

/// What the Portal fails at comes from the endpoints, at once and completely.
#[tokio::test]
async fn endpoints_replace_a_portal_that_fails() {
    for fault in [PortalFault::WrongParent, PortalFault::Status(404)] {
        let node = node(54, FEW);
        node.set_finalized_depth(5);
        let faults = PortalFaults::new(1);
        faults.always(fault);
        let both = Both::new(&node, &node, &faults).await;
        let log = Log::capture();
        both.assert_caught_up(&node).await;
        let text = log.text();
        assert!(text.contains("history comes from the endpoints"), "{text}");
    }
}

/// A Portal left out and made up logs with a bloom that fits, and all of it was "proven by bloom".
#[tokio::test]
async fn an_inconsistent_portal_is_refused_and_the_endpoints_deliver() {
    let node = node(38, 400);
    let faults = PortalFaults::new(1);
    for (fault, _) in PortalFault::BYZANTINE {
        faults.set(fault, 50_000);
    }
    let (portal, rpc) = (serve_portal(&node, &faults).await, serve(&node).await);
    let mut ground = Ground::over(&[&rpc], Finality::Depth(5));
    ground.set_portal(&portal);
    let log = Log::capture();
    let chain = ground.caught_up().await;
    assert!(
        faults.counts().values().sum::<u64>() > 0,
        "it was consistent"
    );
    assert!(log.has_line(&["Portal", "contradicts"]), "{}", log.text());
    assert_equals_source(&chain, BlockRange::new(0, 396)).await;
}

/// A dataset that the Portal does not know, or that begins later than the first block that is wanted, says what
/// to set.
#[tokio::test]
async fn a_dataset_that_cannot_be_used_says_what_to_set() {
    let node = node(10, 40);
    let options = PortalOptions {
        start_block: 7,
        ..PortalOptions::default()
    };
    let late = PortalServer::start(node.clone(), options).await.unwrap();
    let faults = PortalFaults::new(1);
    faults.always(PortalFault::Status(404));
    let unknown = serve_portal(&node, &faults).await;
    let mut ground = Ground::over_portal(&late);
    for (ground, expected) in [
        (&ground, "set startBlock to 7"),
        (&Ground::over_portal(&unknown), "does not know the dataset"),
    ] {
        let chain = ground.open_served().await;
        let refused = chain.admit().await.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
        following(&chain, async {
            support::served::until_error(&chain, expected).await;
        })
        .await;
        assert_eq!(archived(&chain), None);
    }
    // With what it says to set, the chain continues.
    ground.settings.start_block = 7;
    let chain = ground.open_served().await;
    following(&chain, async {
        let is_whole = || {
            let seen = chain.status().source_head;
            seen.is_some_and(|(seen, _)| seen.number == 40) && chain.tail().len() == 34
        };
        until(&chain, "the dataset", is_whole).await;
        let succeeds = || chain.status().last_success.is_some();
        until(&chain, "the first good round", succeeds).await;
        assert!(chain.status().error.is_none());
    })
    .await;
}
