//! Blocks of an L2 become final by what the chain below has confirmed, and by nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use chronolith_follower::settings::{Finality, FollowSettings};
use chronolith_model::BlockRange;
use support::{Ground, MemorySource, archived, assert_archived, following, node, wait};

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
