//! A chain is followed from its first block to its head: through reorgs, restarts, gaps and endpoints that
//! do not agree.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::time::Duration;

use chronolith_archive::Health;
use chronolith_follower::settings::Finality;
use chronolith_model::BlockRange;
use support::{
    Ground, MemorySource, archived, assert_archived, following, node, until_archived, wait,
};

const DEPTH_5: Finality = Finality::Depth(5);

#[tokio::test(start_paused = true)]
async fn final_blocks_are_archived_and_the_tail_holds_the_others() {
    let node = node(1, 600);
    let (ground, source) = (Ground::new(DEPTH_5), MemorySource::new(&[&node]));
    let chain = ground.open(&source).await;
    following(&chain, async {
        let newest = || chain.tail().head().map(|head| head.number);
        wait("the head", || newest() == Some(600)).await;
        until_archived(&chain, 595).await;
        assert_archived(&chain.archive, &node, BlockRange::new(0, 596)).await;
        assert_eq!(chain.tail().head(), Some(node.head()));
        // Block by block from there.
        for _ in 0..5 {
            let head = node.mine(1);
            wait("a new head", || chain.tail().head() == Some(head)).await;
            until_archived(&chain, head.number - 5).await;
        }
    })
    .await;
    assert_archived(&chain.archive, &node, BlockRange::new(0, 601)).await;
    assert!(chain.status().error.is_none());
    // What history brought was fetched once; where it ends, one block vouches for it.
    let mut fetched = source.fetched();
    fetched.retain(|number| *number < 590);
    let all = fetched.len();
    fetched.sort_unstable();
    fetched.dedup();
    assert_eq!((fetched.len(), all), (590, 590));
}

#[tokio::test(start_paused = true)]
async fn the_finalized_tag_decides_where_the_settings_say_so() {
    let node = node(6, 300);
    node.set_finalized_depth(20);
    let (ground, source) = (
        Ground::new(Finality::Finalized),
        MemorySource::new(&[&node]),
    );
    let chain = ground.open(&source).await;
    following(&chain, async {
        until_archived(&chain, 280).await;
        for depth in [3, 19, 1] {
            node.reorg(depth);
            node.mine(2);
            until_archived(&chain, node.finalized().number).await;
        }
    })
    .await;
    let end = node.finalized().number + 1;
    assert_archived(&chain.archive, &node, BlockRange::new(0, end)).await;
}

/// It was dropped with the first failed fetch, and answers ended at the archive until the fetch worked.
#[tokio::test(start_paused = true)]
async fn the_tail_stays_while_the_history_after_it_cannot_be_fetched() {
    let node = node(7, 100);
    let (ground, source) = (Ground::new(DEPTH_5), MemorySource::new(&[&node]));
    let chain = ground.open(&source).await;
    following(&chain, async {
        until_archived(&chain, 95).await;
        let known = chain.tail().head();
        assert_eq!(known, Some(node.head()));
        source.break_blocks(BlockRange::new(96, 161));
        node.mine(60);
        wait("the error", || chain.status().error.is_some()).await;
        assert_eq!((chain.tail().head(), archived(&chain)), (known, Some(95)));
        source.break_blocks(BlockRange::new(0, 0));
        until_archived(&chain, 155).await;
    })
    .await;
    assert_archived(&chain.archive, &node, BlockRange::new(0, 156)).await;
}

#[tokio::test(start_paused = true)]
async fn reorgs_roll_back_and_only_final_blocks_are_archived() {
    const CONFIRMATIONS: u64 = 12;
    let node = node(2, 40);
    let ground = Ground::new(Finality::Depth(CONFIRMATIONS));
    let source = MemorySource::new(&[&node]);
    let chain = ground.open(&source).await;
    let depths = [1, 2, 5, 11, 3, 12, 7];
    following(&chain, async {
        until_archived(&chain, 28).await;
        for depth in depths {
            node.reorg(depth);
            let head = node.mine(2);
            wait("the head after a reorg", || {
                chain.tail().head() == Some(head)
            })
            .await;
            until_archived(&chain, head.number - CONFIRMATIONS).await;
        }
        let head = node.mine(30);
        until_archived(&chain, head.number - CONFIRMATIONS).await;
    })
    .await;
    let seen: Vec<u64> = chain.seen.reorgs().iter().map(|one| one.depth).collect();
    assert!(!seen.is_empty() && seen.len() <= depths.len(), "{seen:?}");
    let end = node.head().number - CONFIRMATIONS + 1;
    assert_archived(&chain.archive, &node, BlockRange::new(0, end)).await;
}

#[tokio::test(start_paused = true)]
async fn a_replaced_final_block_halts_and_a_restart_does_not_end_that() {
    let node = node(4, 60);
    let (ground, source) = (Ground::new(DEPTH_5), MemorySource::new(&[&node]));
    let halted = |health: Health| matches!(health, Health::Halted(_));
    for _ in 0..2 {
        let chain = ground.open(&source).await;
        following(&chain, async {
            until_archived(&chain, 55).await;
            if !halted(chain.archive.health().health) {
                node.reorg(20);
            }
            let is_halted = || halted(chain.archive.health().health);
            wait("the halt", is_halted).await;
            wait("the word of it", || chain.status().error.is_some()).await;
        })
        .await;
        assert_eq!(archived(&chain), Some(55));
    }
}

/// Ended in the middle of history, at any fetch, it continues from what is archived: nothing is lost and at
/// most what was on its way is fetched again.
#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_of_history_continues_from_there() {
    let node = node(3, 3_000);
    let (ground, source) = (Ground::new(DEPTH_5), MemorySource::new(&[&node]));
    let mut heads = vec![None];
    for fetches in [1, 8, 2, 13, 30] {
        source.stop_after_fetches(fetches);
        let chain = ground.open(&source).await;
        following(&chain, source.stuck()).await;
        // What was handed over before is archived to its end or not at all.
        assert!(archived(&chain) >= heads[heads.len() - 1], "it went back");
        heads.push(archived(&chain));
    }
    assert!(heads[heads.len() - 1] > heads[0], "nothing came: {heads:?}");
    source.stop_after_fetches(u64::MAX);
    let chain = ground.open(&source).await;
    following(&chain, until_archived(&chain, 2_995)).await;
    assert_archived(&chain.archive, &node, BlockRange::new(0, 2_996)).await;
    // Below what was archived when a life began, nothing was fetched again.
    let fetched = source.fetched();
    for head in heads.into_iter().flatten() {
        let last = fetched.iter().rposition(|number| *number == head);
        let later = &fetched[last.unwrap() + 1..];
        let again = later.iter().filter(|number| **number < head).count();
        assert_eq!(again, 0, "below {head}");
    }
}

/// What is lacking below what is archived is fetched, while new blocks come.
#[tokio::test(start_paused = true)]
async fn gaps_below_the_head_are_filled_beside_new_blocks() {
    let node = node(5, 700);
    let (mut ground, source) = (Ground::new(DEPTH_5), MemorySource::new(&[&node]));
    ground.settings.start_block = 400;
    let chain = ground.open(&source).await;
    following(&chain, until_archived(&chain, 695)).await;
    assert_eq!(chain.missing_below(696), []);
    drop(chain);
    ground.settings.start_block = 10;
    let chain = ground.open(&source).await;
    let missing = BlockRange::new(10, 400);
    assert_eq!(chain.missing_below(696), [missing]);
    following(&chain, async {
        node.mine(20);
        until_archived(&chain, 715).await;
        let is_whole = || chain.missing_below(716).is_empty();
        wait("the gap", is_whole).await;
    })
    .await;
    assert_archived(&chain.archive, &node, BlockRange::new(10, 716)).await;
    let twice = source
        .fetched()
        .iter()
        .filter(|at| missing.contains(**at))
        .count();
    assert_eq!(twice as u64, missing.len(), "fetched more than once");
}

/// Where the rows of a database begin is perhaps known only after the chain is followed.
#[tokio::test(start_paused = true)]
async fn older_blocks_that_are_wanted_later_are_fetched_too() {
    let node = node(7, 700);
    let (mut ground, source) = (Ground::new(DEPTH_5), MemorySource::new(&[&node]));
    ground.settings.start_block = 400;
    let chain = ground.open(&source).await;
    following(&chain, async {
        // Nothing is archived yet: what lies below is perhaps not final.
        assert!(chain.want_from(300));
        assert_eq!(chain.gaps_below(400), []);
        until_archived(&chain, 695).await;
        wait("the first gap", || chain.gaps_below(696).is_empty()).await;
        assert!(chain.want_from(10));
        assert!(!chain.want_from(20), "it is wanted already");
        assert_eq!(chain.gaps_below(696), [BlockRange::new(10, 300)]);
        wait("the second gap", || chain.gaps_below(696).is_empty()).await;
    })
    .await;
    assert_archived(&chain.archive, &node, BlockRange::new(10, 696)).await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_disagree_hold_the_archive_until_they_agree() {
    let nodes = [31, 31].map(|seed| node(seed, 60));
    nodes[1].reorg(30);
    let ground = Ground::new(DEPTH_5);
    let source = MemorySource::new(&[&nodes[0], &nodes[1]]);
    let chain = ground.open(&source).await;
    following(&chain, async {
        wait("the hold", || chain.agreement.held().is_some()).await;
        // However long that takes, and however many blocks come meanwhile.
        nodes[0].mine(10);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(archived(&chain), None, "a block was archived on one word");
        let held = chain.agreement.held().unwrap();
        for name in ["node-0", "node-1"] {
            assert!(held.contains(name), "{held}");
        }
        source.replace(1, &nodes[0]);
        until_archived(&chain, 65).await;
        assert_eq!(chain.agreement.held(), None);
    })
    .await;
    assert_archived(&chain.archive, &nodes[0], BlockRange::new(0, 66)).await;
}

/// An endpoint that does not answer holds nothing up.
#[tokio::test(start_paused = true)]
async fn a_second_endpoint_stands_in_for_the_first() {
    let node = node(7, 60);
    let source = MemorySource::new(&[&node, &node]);
    let ground = Ground::new(DEPTH_5);
    let chain = ground.open(&source).await;
    following(&chain, async {
        until_archived(&chain, 55).await;
        source.set_down(0, true);
        node.mine(10);
        until_archived(&chain, 65).await;
        // Nobody answers: it is told, and continues when somebody does.
        source.set_down(1, true);
        node.mine(10);
        wait("the trouble", || chain.status().error.is_some()).await;
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(archived(&chain), Some(65));
        source.set_down(1, false);
        until_archived(&chain, 75).await;
    })
    .await;
    assert_archived(&chain.archive, &node, BlockRange::new(0, 76)).await;
}
