//! What is counted of ADFS. Alone in its process: there is one recorder.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_projection::{Following, jobs};
use metrics_exporter_prometheus::PrometheusBuilder;
use support::adfs::encode::{Row, calldata, numbered};
use support::adfs::{Act, FIRST, direct, projector, settings, update, value};
use support::{GENESIS_TIME, TestChain, database, number};

#[tokio::test(flavor = "multi_thread")]
async fn guards_and_oddities_are_counted_once() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).unwrap();
    let count = |name: &str| {
        let text = handle.render();
        let lines = text.lines().filter(|line| line.starts_with(name));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum::<u64>()
    };
    let (_server, database) = database().await;
    let chain = TestChain::new(77).await;
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, update(1, 1, &[(0, 8_190), (1, 5)]))]);
    one.follow(&mut following).await.unwrap();
    chain.finalize(1).await;
    one.follow(&mut following).await.unwrap();
    // One goes on around the end of its ring, the other leaves an index out.
    chain.send(0, &[direct(3, update(1, 2, &[(0, 8_191), (1, 7)]))]);
    chain.send(0, &[direct(4, update(1, 3, &[(0, 0), (1, 8)]))]);
    // A lane that is elsewhere.
    let row = Row {
        table_index: 0,
        lanes: [3; 16],
    };
    let odd = calldata(numbered(4), &[value(2, 9, 1)], &[row]);
    chain.send(0, &[direct(5, Act::Odd(odd, 1, 4))]);
    // A number that is another.
    let other = calldata(numbered(5), &[value(2, 10, 1)], &[]);
    chain.send(0, &[direct(7, Act::Odd(other, 1, 6))]);
    // And one that no rule lets through.
    chain.send(0, &[direct(6, Act::Odd(vec![1, 2, 3], 1, 7))]);
    one.follow(&mut following).await.unwrap();
    chain.finalize(6).await;
    one.follow(&mut following).await.unwrap();
    let counted = || {
        [
            "chronolith_projection_guard_dropped_total{chain=\"77\",projection=\"adfs\",reason=\"malformed\"}",
            "chronolith_adfs_ring_gaps_total{chain=\"77\"}",
            "chronolith_adfs_ring_wraps_total{chain=\"77\"}",
            "chronolith_adfs_lane_mismatch_total{chain=\"77\"}",
            "chronolith_adfs_block_number_mismatch_total{chain=\"77\"}",
        ]
        .map(count)
    };
    assert_eq!(counted(), [1, 1, 1, 1, 1], "{}", handle.render());
    // What another call holds is not what was stored.
    let made_up = "SELECT count(*) FROM feed_updates WHERE rb_index = 10";
    assert_eq!(number(&database, made_up).await, 0);
    // A guard is not met again by a replay, and no ring goes wrong by one.
    jobs::enqueue(&database, (77, "adfs"), (0, 6), 7)
        .await
        .unwrap();
    while one.work().await.unwrap() {}
    let again = counted();
    assert_eq!(again[..3], [1, 1, 1], "{}", handle.render());
    assert_eq!(again[4], 1, "{}", handle.render());
}
