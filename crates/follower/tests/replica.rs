//! A replica beside the process that writes: it shows new states within a second, and the newest blocks in a
//! tail of its own.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::time::Duration;

use chronolith_follower::replica;
use chronolith_follower::settings::Finality;
use chronolith_model::BlockRange;
use support::{
    Ground, MemorySource, archived, assert_archived, following, node, until_archived, wait,
};
use tokio::time::Instant;

/// How soon a reader must see what the writer published.
const WITHIN: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_replica_shows_new_states_within_a_second_and_its_own_tail() {
    let node = node(21, 100);
    let (ground, source) = (Ground::new(Finality::Depth(5)), MemorySource::new(&[&node]));
    let writer = ground.open(&source).await;
    following(&writer, until_archived(&writer, 95)).await;
    let reader = ground.open_replica(&source).await;
    let changes = async {
        wait("the reader's tail", || {
            reader.tail().head() == Some(node.head())
        })
        .await;
        assert_eq!(archived(&reader), Some(95));
        for depth in [3, 1, 4] {
            node.reorg(depth);
            let head = node.mine(2);
            until_archived(&writer, head.number - 5).await;
            let published = Instant::now();
            until_archived(&reader, head.number - 5).await;
            let took = published.elapsed();
            assert!(took < WITHIN, "{took:?}");
            wait("the reader's head", || reader.tail().head() == Some(head)).await;
        }
    };
    let reading = async {
        tokio::select! {
            () = replica::run(&reader) => {}
            () = changes => {}
        }
    };
    Box::pin(following(&writer, reading)).await;
    let end = node.head().number - 4;
    assert_archived(&reader.archive, &node, BlockRange::new(0, end)).await;
    // The reader wrote nothing, and continues where the writer ends.
    drop(writer);
    assert_archived(&reader.archive, &node, BlockRange::new(0, end)).await;
}
