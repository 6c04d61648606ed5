//! A chain over real endpoints: those that are down, behind, syncing, on another chain or inconsistent, and what
//! following costs them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::time::{Duration, Instant};

use chronolith_follower::chain::Chain;
use chronolith_follower::settings::Finality;
use chronolith_model::{BlockRange, Scope, ScopeEntry};
use chronolith_sim::evm::{
    EvmNode, EvmSpec, FaultSizes, Faults, MissingMethod, RpcFault, RpcOptions,
};
use chronolith_source::Subscription;
use support::log::Log;
use support::served::{
    assert_equals_source, error_of, is_halted, name_of, serve, serve_failing, serve_with, until,
    until_error, until_head,
};
use support::{Ground, archived, assert_archived, catch_up, following, node};

const DEPTH_5: Finality = Finality::Depth(5);

/// Without a hint the next look at the head would be after the end of any test.
const NO_POLL: Duration = Duration::from_secs(600);

fn reorgs(chain: &Chain) -> usize {
    chain.seen.reorgs().len()
}

/// The hash of the archive's head is the node's.
#[track_caller]
fn assert_head(chain: &Chain, node: &EvmNode, number: u64) {
    let head = chain.archive.health().head;
    assert_eq!(head, Some(node.block(number).unwrap().block_ref()));
}

/// A node that is syncing has a chain of long ago: its deep reorg is not believed.
#[tokio::test]
async fn a_deep_reorg_of_a_node_that_is_syncing_waits_until_it_is_not() {
    let (node, faults) = (node(21, 300), Faults::new(1));
    let server = serve_failing(&node, &faults).await;
    let ground = Ground::over(&[&server], Finality::Depth(200));
    let chain = ground.open_served().await;
    let log = Log::capture();
    let head = following(&chain, async {
        until_head(&chain, 100).await;
        let asked = server.stats().calls["eth_syncing"];
        assert_eq!(
            asked, 1,
            "once at the start, not with every look at the head"
        );
        // A shallow reorg needs no question.
        node.reorg(10);
        until(&chain, "the shallow reorg", || reorgs(&chain) == 1).await;
        assert_eq!(server.stats().calls["eth_syncing"], asked);
        faults.always(RpcFault::Syncing);
        node.reorg(100);
        let message = "deep reorg from an endpoint that is syncing";
        until_error(&chain, message).await;
        assert!(log.has_with("ingest_failing", "error", message));
        assert_eq!(reorgs(&chain), 1, "it was followed");
        faults.clear();
        until(&chain, "the deep reorg", || reorgs(&chain) == 2).await;
        assert_eq!(log.count("reorg"), 2);
        let head = node.mine(10).number;
        until_head(&chain, head - 200).await;
        head
    })
    .await;
    assert_equals_source(&chain, BlockRange::new(0, head - 199)).await;
    drop(chain);
    // The log of the start says so, for operators.
    faults.always(RpcFault::Syncing);
    let chain = ground.open_served().await;
    chain.admit().await.unwrap();
    assert!(log.has_line(&["says that it is syncing"]));
}

/// The other endpoint still has the final block: no halt, the inconsistent endpoint is named and passed over, and
/// the chain continues.
#[tokio::test]
async fn one_endpoint_on_another_chain_does_not_halt() {
    let nodes = [22, 22].map(|seed| node(seed, 60));
    let servers = [serve(&nodes[0]).await, serve(&nodes[1]).await];
    let ground = Ground::over(&[&servers[0], &servers[1]], DEPTH_5);
    let chain = ground.open_served().await;
    let log = Log::capture();
    let head = following(&chain, async {
        until_head(&chain, 55).await;
        nodes[0].reorg(30);
        let head = nodes[1].mine(20).number;
        until_head(&chain, head - 5).await;
        head
    })
    .await;
    assert!(!is_halted(&chain));
    let wrong = name_of(&servers[0]);
    let reports = chain.source.endpoints();
    let report = reports.iter().find(|report| report.name == wrong).unwrap();
    assert!(report.inconsistencies > 0, "it was not noted");
    let lines = log.events("endpoint_inconsistent");
    assert!(
        lines.iter().any(|line| line["endpoint"] == wrong),
        "{lines:?}"
    );
    assert_head(&chain, &nodes[1], head - 5);
}

/// An endpoint that is down or behind has no say, and holds nothing up.
#[tokio::test]
async fn endpoints_that_are_down_or_behind_hold_nothing_up() {
    let (right, behind) = (node(32, 60), node(32, 20));
    let faults = Faults::new(1);
    faults.always(RpcFault::Http500);
    let down = serve_failing(&right, &faults).await;
    let servers = [serve(&right).await, serve(&behind).await];
    let ground = Ground::over(&[&servers[0], &servers[1], &down], DEPTH_5);
    let chain = ground.caught_up().await;
    assert_eq!(archived(&chain), Some(55));
}

/// An endpoint of another chain with the same id was asked first for everything.
#[tokio::test]
async fn an_endpoint_with_another_genesis_is_passed_over() {
    let (node, foreign) = (node(34, 60), node(35, 90));
    let (right, wrong) = (serve(&node).await, serve(&foreign).await);
    let mut ground = Ground::over(&[&right], DEPTH_5);
    drop(ground.caught_up().await);
    ground.set_endpoints(&[&wrong, &right]);
    node.mine(20);
    let log = Log::capture();
    let chain = ground.caught_up().await;
    assert!(
        log.has_line(&[&name_of(&wrong), "first block"]),
        "{}",
        log.text()
    );
    assert_eq!(archived(&chain), Some(75));
    assert_head(&chain, &node, 75);
    // With nothing that says which one is right, neither is believed.
    let fresh = Ground::over(&[&wrong, &right], DEPTH_5);
    let chain = fresh.open_served().await;
    let refused = catch_up(&chain).await.unwrap_err().to_string();
    assert!(refused.contains("different first blocks"), "{refused}");
}

/// A first endpoint that was set back kept the chain from moving, while the second one had all of it.
#[tokio::test]
async fn a_first_endpoint_that_is_set_back_is_passed_over() {
    let nodes = [39, 39].map(|seed| node(seed, 60));
    let servers = [serve(&nodes[0]).await, serve(&nodes[1]).await];
    let ground = Ground::over(&[&servers[0], &servers[1]], DEPTH_5);
    let chain = ground.open_served().await;
    following(&chain, async {
        until_head(&chain, 55).await;
        nodes[0].rollback(30);
        nodes[1].mine(20);
        until_head(&chain, 75).await;
    })
    .await;
}

/// The first endpoint refuses receipts and finds no logs: with a narrow scope the archive came out empty, although
/// the second endpoint had every log.
#[tokio::test]
async fn a_narrow_scope_is_not_emptied_by_the_first_endpoint() {
    let node = node(37, 100);
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
    let (empty, whole) = (serve_with(&node, options).await, serve(&node).await);
    let blocks = (0..=95).map(|number| node.block(number).unwrap().to_model());
    let logs: Vec<_> = blocks.flat_map(|block| block.logs).collect();
    let emitter = logs[0].emitter().to_vec();
    let there = logs.iter().filter(|log| log.emitter() == emitter).count();
    let narrow = |servers: &[&_]| {
        let mut ground = Ground::over(servers, DEPTH_5);
        ground.settings.scope = Scope::only(vec![ScopeEntry {
            emitter: Some(emitter.clone().into()),
            topic0: None,
        }]);
        ground
    };
    let chain = narrow(&[&empty, &whole]).caught_up().await;
    assert_eq!(chain.archive.health().logs, there as u64);
    // With the first one alone nothing is taken, and the reason is reported.
    let alone = narrow(&[&empty]);
    let chain = alone.open_served().await;
    let log = Log::capture();
    following(&chain, until_error(&chain, "verification to linked")).await;
    assert!(log.has_with("ingest_failing", "error", "verification to linked"));
    assert_eq!(archived(&chain), None);
    let error = error_of(&chain);
    assert!(error.contains("eth_getBlockReceipts"), "{error}");
}

/// A proxy in front answers `finalized` with its newest block. The tip was archived on its word, because the
/// other endpoint has that block too, and the next reorg of one block halted the chain.
#[tokio::test]
async fn a_tag_that_names_the_tip_does_not_make_it_final() {
    let nodes = [40, 40].map(|seed| node(seed, 60));
    nodes[0].set_finalized_depth(0);
    nodes[1].set_finalized_depth(20);
    let servers = [serve(&nodes[0]).await, serve(&nodes[1]).await];
    let ground = Ground::over(&[&servers[0], &servers[1]], Finality::Finalized);
    let chain = ground.open_served().await;
    let final_head = || Some(nodes[1].finalized().number);
    following(&chain, async {
        until(&chain, "the head", || archived(&chain) >= final_head()).await;
        assert_eq!(archived(&chain), final_head(), "the tip was archived");
        for node in &nodes {
            node.reorg(1);
            node.mine(10);
        }
        until(&chain, "new blocks", || archived(&chain) == final_head()).await;
    })
    .await;
    let end = final_head().unwrap() + 1;
    assert_equals_source(&chain, BlockRange::new(0, end)).await;
}

#[tokio::test]
async fn the_finalized_tag_is_followed_and_heads_come_over_a_socket() {
    let node = node(6, 300);
    node.set_finalized_depth(20);
    let server = serve(&node).await;
    let mut ground = Ground::over(&[&server], Finality::Finalized);
    ground.settings.heads = vec![server.ws_url()];
    ground.settings.poll = NO_POLL;
    let chain = ground.open_served().await;
    following(&chain, async {
        until_head(&chain, 280).await;
        for depth in [3, 19, 1] {
            node.reorg(depth);
            node.mine(2);
            until_head(&chain, node.finalized().number).await;
        }
        assert_eq!(chain.source.subscription(), Subscription::Connected);
    })
    .await;
    let range = BlockRange::new(0, node.finalized().number + 1);
    assert_archived(&chain.archive, &node, range).await;
}

/// A socket is only the quicker way to know of a block.
#[tokio::test]
async fn without_a_socket_the_head_is_polled() {
    let node = node(9, 40);
    let server = serve(&node).await;
    let mut ground = Ground::over(&[&server], DEPTH_5);
    ground.settings.heads = vec!["ws://127.0.0.1:1".to_owned()];
    let chain = ground.open_served().await;
    following(&chain, async {
        until_head(&chain, 35).await;
        for _ in 0..3 {
            let head = node.mine(2).number;
            until_head(&chain, head - 5).await;
        }
    })
    .await;
    assert_eq!(error_of(&chain), "");
    let subscription = chain.source.subscription();
    let is_connecting = matches!(subscription, Subscription::Connecting(_));
    assert!(is_connecting, "{subscription:?}");
}

/// What following costs: for each new block one request for the head and one for its receipts. A rule by depth
/// needs no tags, and no header is requested twice.
#[tokio::test]
async fn a_new_block_costs_three_requests() {
    const BLOCKS: u64 = 20;
    let node = EvmNode::new(EvmSpec::mainnet(8), 30);
    let server = serve(&node).await;
    // Only a hint leads to a look at the head.
    let mut ground = Ground::over(&[&server], DEPTH_5);
    ground.settings.heads = vec![server.ws_url()];
    ground.settings.poll = NO_POLL;
    let chain = ground.open_served().await;
    let followed = async |head: u64| {
        let is_seen = || {
            let seen = chain.status().source_head;
            seen.is_some_and(|(seen, _)| seen.number == head)
        };
        let is_walked = || {
            let walked = chain.window().tracker.head();
            walked.is_some_and(|walked| walked.number == head)
        };
        until(&chain, "the new head", || is_seen() && is_walked()).await;
    };
    let (before, after) = following(&chain, async {
        let is_subscribed = || server.stats().calls.contains_key("eth_subscribe");
        until_head(&chain, 25).await;
        until(&chain, "the subscription", is_subscribed).await;
        // The first head after the subscription, which may bring a look of its own.
        followed(node.mine(1).number).await;
        let before = server.stats();
        for _ in 0..BLOCKS {
            followed(node.mine(1).number).await;
        }
        (before, server.stats())
    })
    .await;
    let requests = after.http_requests - before.http_requests;
    let headers = after.calls["eth_getBlockByNumber"] - before.calls["eth_getBlockByNumber"];
    println!("{BLOCKS} blocks: {requests} requests, {headers} of them for headers");
    // Heads, the block with its transactions, receipts.
    assert!(requests <= 3 * BLOCKS + 2, "{requests} requests");
    assert!(headers <= 2 * BLOCKS + 2, "{headers} headers");
}

/// Every block comes as another one than its receipts are of, so none can be taken.
#[tokio::test]
async fn a_failed_round_is_reported_until_one_succeeds() {
    let (node, faults) = (node(23, 40), Faults::new(23));
    let server = serve_failing(&node, &faults).await;
    let ground = Ground::over(&[&server], DEPTH_5);
    let chain = ground.open_served().await;
    following(&chain, async {
        let succeeded = || chain.status().last_success;
        until(&chain, "the first good round", || succeeded().is_some()).await;
        faults.always(RpcFault::HashChange);
        let head = node.mine(1).number;
        until(&chain, "the failed round", || !error_of(&chain).is_empty()).await;
        let before = succeeded();
        faults.clear();
        until(&chain, "the recovery", || error_of(&chain).is_empty()).await;
        assert!(succeeded() > before);
        assert_eq!(chain.tail().head().map(|seen| seen.number), Some(head));
    })
    .await;
}

/// An endpoint that never answers used to look healthy for forty seconds, and the chain to be catching up.
#[tokio::test]
async fn a_source_that_hangs_is_reported_long_before_it_times_out() {
    const AFTER: Duration = Duration::from_secs(5);
    let (node, faults) = (node(22, 60), Faults::new(22));
    let server = serve_failing(&node, &faults).await;
    let ground = Ground::over(&[&server], DEPTH_5);
    let chain = ground.open_served().await;
    let requested = following(&chain, async {
        let succeeds = || chain.status().last_success.is_some();
        until(&chain, "the first good round", succeeds).await;
        faults.set_sizes(FaultSizes {
            slow_answer: Duration::from_secs(60),
            ..faults.sizes()
        });
        faults.always(RpcFault::SlowAnswer);
        // Longer than any answer takes without the fault.
        let waits = || {
            let requested = chain.status().request_started;
            requested.is_some_and(|at| at.elapsed() > Duration::from_millis(500))
        };
        until(&chain, "a request that waits", waits).await;
        chain.status().request_started.unwrap()
    })
    .await;
    let status = |now: Instant| chain.status().unanswered(now);
    assert_eq!(status(requested + AFTER - Duration::from_millis(1)), None);
    let message = status(requested + AFTER).unwrap();
    assert!(
        message.contains("the source has not answered for 5 s"),
        "{message}"
    );
}
