//! What is remembered of a reorg: both branches, block by block.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_follower::chain::Chain;
use chronolith_follower::counters::{BRANCH_MAX, Reorg};
use chronolith_follower::settings::Finality;
use chronolith_model::BlockRef;
use chronolith_sim::evm::EvmNode;
use support::{Ground, MemorySource, following, node, wait};

/// The blocks of a node from a height on.
fn blocks(node: &EvmNode, from: u64, count: usize) -> Vec<BlockRef> {
    let block = |number| node.block(number).unwrap().block_ref();
    (from..).take(count).map(block).collect()
}

/// Follows until the tail ends at the node's head.
async fn until_head(chain: &Chain, node: &EvmNode) {
    wait("the head", || chain.tail().head() == Some(node.head())).await;
}

/// Replaces blocks of the node and waits for it; returns the last reorg, and which blocks were replaced.
async fn reorg(chain: &Chain, node: &EvmNode, depth: u64) -> (Reorg, Vec<BlockRef>) {
    let first = node.head().number + 1 - depth;
    let before = blocks(node, first, depth as usize);
    node.reorg(depth);
    until_head(chain, node).await;
    (chain.seen.reorgs()[0].clone(), before)
}

#[tokio::test(start_paused = true)]
async fn both_branches_of_a_reorg_are_remembered_as_far_as_it_goes() {
    let node = node(21, 200);
    let ground = Ground::new(Finality::Depth(100));
    let source = MemorySource::new(&[&node]);
    let chain = ground.open(&source).await;
    following(&chain, async {
        until_head(&chain, &node).await;
        for depth in [1, 2, 7, 40] {
            let (seen, before) = reorg(&chain, &node, depth).await;
            let kept = before.len().min(BRANCH_MAX);
            assert_eq!(seen.depth, depth);
            assert_eq!(seen.from, before[before.len() - 1]);
            assert_eq!(seen.dropped, before[..kept]);
            let first = before[0].number;
            assert_eq!(seen.to, blocks(&node, first - 1, 1)[0]);
            assert_eq!(seen.adopted, blocks(&node, first, kept));
            // What comes later is on the branch, and took no block's place.
            node.mine(3);
            until_head(&chain, &node).await;
            assert_eq!(chain.seen.reorgs()[0].adopted, seen.adopted);
        }
    })
    .await;
    assert_eq!(chain.seen.reorgs().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_branch_that_is_replaced_in_turn_is_dropped_in_the_next_reorg_and_stays_adopted_in_the_last()
 {
    let node = node(22, 60);
    let ground = Ground::new(Finality::Depth(30));
    let source = MemorySource::new(&[&node]);
    let chain = ground.open(&source).await;
    following(&chain, async {
        until_head(&chain, &node).await;
        let (first, _) = reorg(&chain, &node, 3).await;
        let second_branch = first.adopted.clone();
        let (last, before) = reorg(&chain, &node, 3).await;
        assert_eq!(last.dropped, before);
        // The node's branch is one longer than what it replaced.
        assert_eq!(last.dropped[..2], second_branch[1..]);
        assert_eq!(last.to, second_branch[0]);
        let all = chain.seen.reorgs();
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].adopted, second_branch);
    })
    .await;
}
