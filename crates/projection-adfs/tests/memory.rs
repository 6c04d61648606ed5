//! A history of ADFS updates as large as the guards let through, in bounded memory. Alone in its process:
//! memory is the process's.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "../../projection/tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Instant;

use chronolith_projection::Following;
use chronolith_projection_adfs::{AdfsSettings, Limits};
use support::adfs::{Act, FIRST, adfs, direct, many, settings};
use support::{GENESIS_TIME, TestChain, database, number, projector_of};

const BLOCKS: u64 = 32;
const FEEDS_MAX: usize = 10_000;
/// What may be needed beside what there was. The whole history at once would take half as much again.
const MEMORY_MAX: usize = 112 << 20;

/// The most memory that this process had since it was last asked; none where nobody tells.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    Some(kib << 10)
}

/// A history of full blocks, more of it than may be in memory as rows.
async fn long_history() -> Arc<TestChain> {
    let chain = TestChain::new(63).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    for block in 1..=BLOCKS {
        let full = Act::Update(many(1, 100 + block, FEEDS_MAX, 3));
        chain.send(0, &[direct(10 + block, full)]);
        chain.finalize(block).await;
    }
    chain
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_of_full_blocks_takes_no_more_memory_than_a_few_of_them() {
    let (_server, database) = database().await;
    let chain = long_history().await;
    let settings = AdfsSettings {
        calldata_bytes_max: Limits::default().calldata_bytes_max,
        ..settings()
    };
    let projections = vec![adfs(&database, &chain, settings)];
    let one = projector_of(&database, &chain, projections, BLOCKS + 1, "one");
    one.register(GENESIS_TIME).await.unwrap();
    one.follow(&mut Following::default()).await.unwrap();
    let before = peak().and_then(|_| peak());
    let began = Instant::now();
    while one.work().await.unwrap() {}
    let took = began.elapsed();
    let after = peak();
    let rows = number(&database, "SELECT count(*) FROM feed_updates").await;
    assert_eq!(rows, BLOCKS as i64 * FEEDS_MAX as i64);
    let rate = rows as f64 / took.as_secs_f64();
    println!("note: {rows} values of full blocks in {took:.2?}, {rate:.0} values/s");
    let (Some(before), Some(after)) = (before, after) else {
        println!("skipped: nobody tells how much memory this process takes");
        return;
    };
    let grown = after.saturating_sub(before);
    println!("note: {} MiB more than before", grown >> 20);
    assert!(grown < MEMORY_MAX, "{} MiB", grown >> 20);
}
