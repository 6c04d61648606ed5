//! Endpoints that contradict what is archived: when that halts the archive, when it waits for a second endpoint,
//! and when it changes nothing.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_follower::settings::{Finality, Mode};
use chronolith_model::BlockRange;
use chronolith_sim::evm::EvmNode;
use support::log::Log;
use support::served::{error_of, is_halted};
use support::{
    Ground, MemorySource, archived, assert_archived, catch_up, following, node, until_archived,
    wait,
};

const DEPTH_5: Finality = Finality::Depth(5);

/// So many nodes with one chain of 60 blocks.
fn nodes<const N: usize>(seed: u64) -> [EvmNode; N] {
    std::array::from_fn(|_| node(seed, 60))
}

fn source_of(nodes: &[EvmNode]) -> MemorySource {
    let nodes: Vec<&EvmNode> = nodes.iter().collect();
    MemorySource::new(&nodes)
}

/// Archives 55 blocks, then moves the first two endpoints to another chain: the archive halts where it is.
async fn assert_two_moved_endpoints_halt<const ENDPOINTS: usize>(seed: u64) {
    let nodes = nodes::<ENDPOINTS>(seed);
    let (ground, source) = (Ground::new(DEPTH_5), source_of(&nodes));
    let chain = ground.open(&source).await;
    following(&chain, async {
        until_archived(&chain, 55).await;
        nodes[1].reorg(30);
        nodes[0].reorg(30);
        wait("the halt", || is_halted(&chain)).await;
    })
    .await;
    assert_eq!(archived(&chain), Some(55));
}

/// All endpoints report the new chain: a final block was replaced.
#[tokio::test(start_paused = true)]
async fn two_endpoints_on_another_chain_halt() {
    assert_two_moved_endpoints_halt::<2>(23).await;
}

/// One of three is stuck and still has the final block. It must not outvote the two that moved on.
#[tokio::test(start_paused = true)]
async fn a_stuck_endpoint_does_not_prevent_a_halt() {
    assert_two_moved_endpoints_halt::<3>(26).await;
}

/// The other endpoint is down: no other endpoint can say which chain is right, and the status reports that.
#[tokio::test(start_paused = true)]
async fn a_halt_waits_for_a_second_endpoint() {
    let nodes = nodes::<2>(24);
    let (ground, source) = (Ground::new(DEPTH_5), source_of(&nodes));
    let chain = ground.open(&source).await;
    let log = Log::capture();
    following(&chain, async {
        until_archived(&chain, 55).await;
        source.set_down(1, true);
        nodes[0].reorg(30);
        let message = "waiting for a second endpoint";
        wait("the error", || error_of(&chain).contains(message)).await;
        assert!(log.has_with("ingest_failing", "error", message));
        assert!(!is_halted(&chain));
        nodes[1].reorg(30);
        source.set_down(1, false);
        wait("the halt", || is_halted(&chain)).await;
    })
    .await;
}

/// Nothing is caught up with while an operator has to act: a caller would wait forever.
#[tokio::test(start_paused = true)]
async fn catching_up_ends_at_a_halt_and_says_why() {
    let node = node(26, 60);
    let source = MemorySource::new(&[&node]);
    let mut ground = Ground::new(DEPTH_5);
    let chain = ground.open(&source).await;
    catch_up(&chain).await.unwrap();
    drop(chain);
    node.reorg(30);
    // The round that finds out, one on what is halted, and one that is bounded.
    for mode in [Mode::Auto, Mode::Auto, Mode::Backfill { end_block: 70 }] {
        ground.settings.mode = mode;
        let chain = ground.open(&source).await;
        let error = catch_up(&chain).await.unwrap_err().to_string();
        assert!(error.contains("chain sim: "), "{mode:?}: {error}");
        assert!(error.contains("replaced"), "{mode:?}: {error}");
        assert!(is_halted(&chain));
        assert_eq!(archived(&chain), Some(55));
    }
}

/// A node set back below the archive looked healthy: no lag, no error, and nothing moved.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_set_back_below_the_archive_is_reported() {
    let node = node(36, 60);
    let (ground, source) = (Ground::new(DEPTH_5), MemorySource::new(&[&node]));
    let chain = ground.open(&source).await;
    let log = Log::capture();
    following(&chain, async {
        until_archived(&chain, 55).await;
        node.rollback(30);
        let message = "newest block 30 is below block 55";
        wait("the error", || error_of(&chain).contains(message)).await;
        assert!(log.has_with("ingest_failing", "error", message));
        node.mine(40);
        until_archived(&chain, 65).await;
    })
    .await;
}

/// The anchor of history is the last settled block, which outlives reorgs at the tip: an endpoint that takes over
/// in the middle has that block, whatever its newest ones are.
#[tokio::test(start_paused = true)]
async fn a_reorg_at_the_tip_does_not_end_a_long_backfill() {
    let node = node(25, 6_000);
    let source = MemorySource::new(&[&node, &node]);
    let ground = Ground::new(DEPTH_5);
    let chain = ground.open(&source).await;
    let log = Log::capture();
    let head = following(&chain, async {
        wait("the middle of the history", || {
            source.fetched().len() > 2_500
        })
        .await;
        assert!(source.fetched().len() < 4_000, "too late");
        node.reorg(2);
        source.set_down(0, true);
        let head = node.head().number;
        until_archived(&chain, head - 5).await;
        head
    })
    .await;
    let fetches = log.events("history_fetch_started");
    assert_eq!(fetches.len(), 1, "{fetches:?}");
    // The second endpoint delivered the rest, and no block of history came twice.
    let mut fetched = source.fetched();
    fetched.retain(|number| *number < 5_990);
    let all = fetched.len();
    fetched.sort_unstable();
    fetched.dedup();
    assert_eq!((fetched.len(), all), (5_990, 5_990));
    assert_archived(&chain.archive, &node, BlockRange::new(0, head - 4)).await;
}
