//! ADFS updates as large as the guards let through: exactly their rows, in the tail and in history, in a
//! bounded time; and the first feed and the first byte too many.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "../../projection/tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use chronolith_model::Block;
use chronolith_projection::{Database, Following, jobs};
use chronolith_projection_adfs::{AdfsSettings, Limits};
use support::adfs::encode::{Value, calldata, numbered};
use support::adfs::{
    Act, FIRST, SECOND, Sent, Update, Way, direct, expected, many, projector, settings, stored,
    update,
};
use support::{GENESIS_TIME, TestChain, database, number};

const FEEDS_MAX: usize = 10_000;
const CALLDATA_MAX: usize = 128 << 10;
/// Far more than it takes on a busy machine, and far less than anything that is not linear would.
const TIME_MAX: Duration = Duration::from_secs(60);

/// The limits that are usual.
fn usual() -> AdfsSettings {
    let limits = Limits::default();
    assert_eq!(limits.feeds_max as usize, FEEDS_MAX);
    assert_eq!(limits.calldata_bytes_max, CALLDATA_MAX);
    AdfsSettings {
        calldata_bytes_max: limits.calldata_bytes_max,
        ..settings()
    }
}

/// An update whose calldata is exactly so long; its last value makes up what is missing.
fn of_length(version: u32, number: u64, bytes: usize) -> Update {
    let mut made = many(version, number, 3_000, 32);
    let mut filler = Value {
        stride: 9,
        ..Value::new(7, (number % 8_192) as u16, &[])
    };
    made.feeds.push(filler.clone());
    let short = made.calldata().len();
    // The length of the value takes two bytes instead of one.
    filler.data = vec![0xdd; bytes - short - 1];
    *made.feeds.last_mut().unwrap() = filler;
    assert_eq!(made.calldata().len(), bytes);
    made
}

/// Updates at every limit, the first ones behind them, and something usual at the end.
fn fill(chain: &TestChain) {
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    let full = many(1, 10, FEEDS_MAX, 3);
    assert!(full.calldata().len() <= CALLDATA_MAX && full.rows.len() == 625);
    chain.send(0, &[direct(2, Act::Update(full))]);
    let long = of_length(1, 11, CALLDATA_MAX);
    chain.send(0, &[direct(3, Act::Update(long))]);
    // One feed too many, and one byte too many. The guard is met before anything is read.
    let mut feeds = many(1, 12, FEEDS_MAX + 1, 1);
    feeds.rows.clear();
    let (feeds, long) = (feeds.calldata(), of_length(1, 13, CALLDATA_MAX + 1));
    assert!(feeds.len() < CALLDATA_MAX);
    chain.send(0, &[direct(4, Act::Odd(feeds, 1, 12))]);
    chain.send(0, &[direct(5, Act::Odd(long.calldata(), 1, 13))]);
    // A wrapper does not count.
    let wrapped = Sent {
        seed: 6,
        way: Way::Safe,
        acts: vec![Act::Update(of_length(1, 14, CALLDATA_MAX))],
    };
    chain.send(0, &[wrapped]);
    // A longer header, and two of them in one block.
    chain.send(
        0,
        &[
            direct(7, Act::Upgrade(SECOND)),
            direct(8, Act::Update(of_length(2, 15, CALLDATA_MAX))),
            direct(9, Act::Update(many(2, 16, FEEDS_MAX, 3))),
        ],
    );
    chain.send(0, &[direct(10, update(2, 17, &[(0, 17)]))]);
}

fn with_status(chain: &TestChain, status: &'static str) -> Vec<(Block, &'static str)> {
    let blocks = chain.blocks.lock().unwrap().clone();
    blocks.into_iter().map(|block| (block, status)).collect()
}

/// Feeds and rows of the table are what takes time.
async fn rows_of(database: &Database, chain: u64) -> i64 {
    let mut all = 0;
    for table in ["feed_update_rows", "ring_buffer_update_rows"] {
        let count = format!("SELECT count(*) FROM {table} WHERE chain_id = {chain}");
        all += number(database, &count).await;
    }
    all
}

fn told(what: &str, rows: i64, took: Duration) {
    let rate = rows as f64 / took.as_secs_f64();
    println!("note: {what}: {rows} rows in {took:.2?}, {rate:.0} rows/s");
    assert!(took < TIME_MAX, "{what} took {took:?}");
}

async fn refused(database: &Database, chain: u64) -> Vec<(i64, String)> {
    let client = database.client().await.unwrap();
    let read = "SELECT block_number, reason FROM quarantine WHERE chain_id = $1 ORDER BY 1";
    let rows = client.query(read, &[&(chain as i64)]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn both() -> Vec<(i64, String)> {
    vec![
        (3, "feedsLength".to_owned()),
        (4, "calldataSize".to_owned()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_at_the_limits_become_exactly_their_rows_in_the_tail_and_in_history() {
    let (_server, database) = database().await;
    let followed = TestChain::new(61).await;
    fill(&followed);
    let one = projector(&database, &followed, usual(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    let began = Instant::now();
    one.follow(&mut following).await.unwrap();
    let took = began.elapsed();
    told("tail", rows_of(&database, 61).await, took);
    assert_eq!(refused(&database, 61).await, both());
    let pending = stored(&database, 61).await;
    assert!(pending == expected(&followed, &with_status(&followed, "pending")));
    assert_eq!(pending.feeds.len(), 2 * FEEDS_MAX + 3 * 3_001 + 1);
    followed.finalize(7).await;
    let began = Instant::now();
    one.follow(&mut following).await.unwrap();
    let took = began.elapsed();
    let confirmed = stored(&database, 61).await;
    told("newest values", confirmed.latest.len() as i64, took);
    assert!(confirmed == expected(&followed, &with_status(&followed, "confirmed")));
    assert_eq!(confirmed.latest.len(), FEEDS_MAX + 1);
    // The same from the archive, by jobs.
    let archived = TestChain::new(62).await;
    fill(&archived);
    archived.finalize(7).await;
    let two = projector(&database, &archived, usual(), "two");
    two.register(GENESIS_TIME).await.unwrap();
    two.follow(&mut Following::default()).await.unwrap();
    assert_eq!(rows_of(&database, 62).await, 0);
    let began = Instant::now();
    while two.work().await.unwrap() {}
    told("history", rows_of(&database, 62).await, began.elapsed());
    let all = stored(&database, 62).await;
    assert!(all == expected(&archived, &with_status(&archived, "confirmed")));
    assert_eq!(refused(&database, 62).await, both());
    // A replay of either writes nothing twice.
    for (chain, projector) in [(61, &one), (62, &two)] {
        let of = (chain, "adfs");
        jobs::enqueue(&database, of, (0, 7), 8).await.unwrap();
        while projector.work().await.unwrap() {}
        assert_eq!(refused(&database, chain).await, both());
    }
    assert!(stored(&database, 61).await == confirmed && stored(&database, 62).await == all);
}

/// Every event keeps the input of its transaction: a thousand updates in one of 100 KB made 100 MB of it,
/// and ten thousand would have been a hundred times as much.
#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_would_be_kept_too_often_is_refused() {
    let (_server, database) = database().await;
    let chain = TestChain::new(64).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    let way = Way::Many;
    let few = (0..100).map(|at| update(1, 10 + at, &[])).collect();
    let too_many = |at: u64| Act::Odd(calldata(numbered(1_000 + at), &[], &[]), 1, 1_000 + at);
    let too_many = (0..1_000).map(too_many).collect();
    let sent = |seed, acts| Sent { seed, way, acts };
    chain.send(0, &[sent(2, few), sent(3, too_many)]);
    chain.send(0, &[direct(4, update(1, 9_000, &[(0, 1)]))]);
    let one = projector(&database, &chain, usual(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    one.follow(&mut Following::default()).await.unwrap();
    let all = stored(&database, 64).await;
    assert!(all == expected(&chain, &with_status(&chain, "pending")));
    assert_eq!(all.events.len(), 101);
    let refused = refused(&database, 64).await;
    assert_eq!(refused, vec![(1, "calldataSize".to_owned()); 1_000]);
}
