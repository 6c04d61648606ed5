//! What is counted of ADFS. Alone in their process: there is one recorder, and each test has its chain.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "../../projection/tests/support/mod.rs"]
mod support;

use std::sync::LazyLock;

use chronolith_projection::{Database, Following, jobs};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use support::adfs::encode::{Row, calldata, numbered};
use support::adfs::{Act, FIRST, direct, projector, settings, update, value};
use support::{GENESIS_TIME, TestChain, database, number};

static RECORDED: LazyLock<PrometheusHandle> = LazyLock::new(|| {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).unwrap();
    handle
});

/// Guards, gaps, wraps, lanes and numbers that were counted of a chain.
fn counted(chain: u64) -> [u64; 5] {
    let text = RECORDED.render();
    [
        "chronolith_projection_guard_dropped_total{chain=\"#\",projection=\"adfs\",reason=\"malformed\"}",
        "chronolith_adfs_ring_gaps_total{chain=\"#\"}",
        "chronolith_adfs_ring_wraps_total{chain=\"#\"}",
        "chronolith_adfs_lane_mismatch_total{chain=\"#\"}",
        "chronolith_adfs_block_number_mismatch_total{chain=\"#\"}",
    ]
    .map(|name| {
        let name = name.replace('#', &chain.to_string());
        let lines = text.lines().filter(|line| line.starts_with(&name));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum()
    })
}

/// An upgrade and two feeds.
fn begin(chain: &TestChain) {
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, update(1, 1, &[(0, 8_190), (1, 5)]))]);
}

/// One of everything that is counted when it is confirmed.
fn go_on(chain: &TestChain) {
    // One continues around the end of its ring, the other leaves an index out.
    chain.send(0, &[direct(3, update(1, 2, &[(0, 8_191), (1, 7)]))]);
    chain.send(0, &[direct(4, update(1, 3, &[(0, 0), (1, 8)]))]);
    // A lane that is elsewhere.
    let row = Row {
        table_index: 0,
        lanes: [3; 16],
    };
    let odd = calldata(numbered(4), &[value(2, 9, 1)], &[row]);
    chain.send(0, &[direct(5, Act::Odd(odd, 1, 4))]);
}

/// Updates that no rule lets through: one with a number that is another, one that is no update.
fn break_rules(chain: &TestChain) {
    let other = calldata(numbered(5), &[value(2, 10, 1)], &[]);
    chain.send(0, &[direct(7, Act::Odd(other, 1, 6))]);
    chain.send(0, &[direct(6, Act::Odd(vec![1, 2, 3], 1, 7))]);
}

/// Lets every transaction that changes a table in some way fail when it is committed, or no longer.
async fn fail_commits(database: &Database, (table, change): (&str, &str), fails: bool) {
    let sql = match fails {
        true => format!(
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN RAISE EXCEPTION 'refused at the end'; END $$; \
             CREATE CONSTRAINT TRIGGER refused AFTER {change} ON {table} \
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"
        ),
        false => format!("DROP TRIGGER refused ON {table}"),
    };
    let client = database.client().await.unwrap();
    client.batch_execute(&sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_rolled_back_is_not_counted() {
    LazyLock::force(&RECORDED);
    let (_server, database) = database().await;
    let chain = TestChain::new(78).await;
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    begin(&chain);
    one.follow(&mut following).await.unwrap();
    chain.finalize(1).await;
    one.follow(&mut following).await.unwrap();
    go_on(&chain);
    one.follow(&mut following).await.unwrap();
    break_rules(&chain);

    let refused = |error: chronolith_projection::Error| {
        let message = error.to_string();
        assert!(message.contains("refused at the end"), "{message}");
    };
    let pending = ("pending_blocks", "INSERT");
    fail_commits(&database, pending, true).await;
    for _ in 0..2 {
        refused(one.follow(&mut following).await.unwrap_err());
    }
    assert_eq!(counted(78), [0; 5]);
    fail_commits(&database, pending, false).await;
    one.follow(&mut following).await.unwrap();
    assert_eq!(counted(78), [1, 0, 0, 0, 1]);

    chain.finalize(6).await;
    let safe = ("processing_state", "UPDATE OF last_safe_block");
    fail_commits(&database, safe, true).await;
    for _ in 0..2 {
        refused(one.follow(&mut following).await.unwrap_err());
    }
    assert_eq!(counted(78), [1, 0, 0, 0, 1]);
    fail_commits(&database, safe, false).await;
    one.follow(&mut following).await.unwrap();
    assert_eq!(counted(78), [1; 5], "{}", RECORDED.render());
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_and_oddities_are_counted_once() {
    LazyLock::force(&RECORDED);
    let (_server, database) = database().await;
    let chain = TestChain::new(77).await;
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    begin(&chain);
    one.follow(&mut following).await.unwrap();
    chain.finalize(1).await;
    one.follow(&mut following).await.unwrap();
    go_on(&chain);
    break_rules(&chain);
    one.follow(&mut following).await.unwrap();
    chain.finalize(6).await;
    one.follow(&mut following).await.unwrap();
    assert_eq!(counted(77), [1, 1, 1, 1, 1], "{}", RECORDED.render());
    // What another call holds is not what was stored.
    let made_up = "SELECT count(*) FROM feed_updates WHERE rb_index = 10";
    assert_eq!(number(&database, made_up).await, 0);
    // A guard is not met again by a replay, and no ring goes wrong by one.
    jobs::enqueue(&database, (77, "adfs"), (0, 6), 7)
        .await
        .unwrap();
    while one.work().await.unwrap() {}
    let again = counted(77);
    assert_eq!(again[..3], [1, 1, 1], "{}", RECORDED.render());
    assert_eq!(again[4], 1, "{}", RECORDED.render());
}
