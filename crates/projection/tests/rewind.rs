//! What operators take back: blocks that were final, and a whole projection.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::sync::Arc;

use chronolith_model::Block;
use chronolith_projection::{Database, Following, Order, Projector, jobs, reset, rewind};
use chronolith_projection_adfs::AdfsSettings;
use support::adfs::{
    Act, FIRST, SECOND, direct, expected, settings, settings_beside, stored, update,
};
use support::{GENESIS_TIME, TestChain, database, number, projector_of};

const ORDER: Order<'static> = Order {
    operator: "me",
    reason: "a test",
};

/// Fees and ADFS of a chain.
fn both(database: &Database, chain: &Arc<TestChain>, adfs: AdfsSettings) -> Projector {
    let all = vec![
        support::fees(chain),
        support::adfs::adfs(database, chain, adfs),
    ];
    projector_of(database, chain, all, 3, "one")
}

fn fill(chain: &TestChain) {
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, update(1, 1, &[(0, 1)]))]);
    chain.extend(0, &[101, 107]);
    again(chain);
    chain.extend(0, &[103]);
    chain.send(0, &[direct(4, Act::Upgrade(SECOND))]);
    chain.send(0, &[direct(5, update(2, 3, &[(0, 3)]))]);
}

/// The block that is the same after all.
fn again(chain: &TestChain) {
    chain.send(0, &[direct(3, update(1, 2, &[(0, 2), (1, 7)]))]);
}

async fn caught_up(one: &Projector, following: &mut Following) {
    one.follow(following).await.unwrap();
    while one.work().await.unwrap() {}
}

/// A chain of which everything is final and projected.
async fn final_chain(database: &Database, id: u64) -> (Arc<TestChain>, Projector, Following) {
    let chain = TestChain::new(id).await;
    fill(&chain);
    chain.finalize(6).await;
    let one = both(database, &chain, settings());
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    caught_up(&one, &mut following).await;
    (chain, one, following)
}

/// What was final before, what is now, and how many blocks were dropped.
async fn taken_back(database: &Database, chain: &TestChain) -> (i64, i64, u64) {
    let taken = rewind(database, chain.id, &chain.archive, ORDER).await;
    let taken = taken.unwrap();
    (taken.safe_before, taken.safe_now, taken.dropped_blocks)
}

fn with(blocks: &[Block], status: &'static str) -> Vec<(Block, &'static str)> {
    blocks.iter().map(|block| (block.clone(), status)).collect()
}

async fn fees(database: &Database) -> [i64; 3] {
    let mut all = [0; 3];
    for (count, status) in all.iter_mut().zip(["pending", "confirmed", "dropped"]) {
        let sql = format!("SELECT count(*) FROM fee_events WHERE status = '{status}'");
        *count = number(database, &sql).await;
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn final_blocks_are_taken_back_and_come_again_or_do_not() {
    let (_server, database) = database().await;
    let (chain, one, mut following) = final_chain(&database, 1).await;
    let blocks = chain.blocks.lock().unwrap().clone();
    assert_eq!(
        stored(&database, 1).await,
        expected(&chain, &with(&blocks, "confirmed"))
    );
    let rows = fees(&database).await[1];
    assert!(rows >= 3, "{rows}");

    // The archive alone: nothing is written, and it is said how far the database is.
    chain.rewind(2).await;
    let round = one.follow(&mut following).await.unwrap();
    assert_eq!((round.waiting, round.behind), (true, Some(6)));
    assert_eq!(fees(&database).await[1], rows);

    let taken = taken_back(&database, &chain).await;
    assert_eq!(taken, (6, 2, 4));
    let (kept, gone) = blocks.split_at(3);
    let all = [with(kept, "confirmed"), with(gone, "dropped")].concat();
    let now = stored(&database, 1).await;
    assert_eq!(now, expected(&chain, &all));
    assert_eq!((now.latest.len(), now.upgrades.len()), (1, 1));
    let [_, confirmed, dropped] = fees(&database).await;
    assert!(confirmed > 0 && dropped > 0 && confirmed + dropped == rows);
    let through = "SELECT count(*) FROM complete_through WHERE complete_through = 2";
    assert_eq!(number(&database, through).await, 2);
    assert_eq!(taken_back(&database, &chain).await, (2, 2, 0));

    // The first block comes again, the others do not; a transaction of theirs does, in another block.
    again(&chain);
    chain.extend(1, &[103, 109]);
    chain.send(1, &[direct(6, update(1, 3, &[(0, 3)]))]);
    let round = one.follow(&mut following).await.unwrap();
    assert_eq!((round.waiting, round.behind), (false, None));
    chain.finalize(4).await;
    caught_up(&one, &mut following).await;
    let now = chain.blocks.lock().unwrap().clone();
    let dropped = with(&gone[1..], "dropped");
    let all = [
        with(&now[..5], "confirmed"),
        with(&now[5..], "pending"),
        dropped,
    ]
    .concat();
    assert_eq!(stored(&database, 1).await, expected(&chain, &all));
    chain.finalize(5).await;
    caught_up(&one, &mut following).await;
    let dropped = with(&gone[1..], "dropped");
    let all = [with(&now, "confirmed"), dropped].concat();
    assert_eq!(stored(&database, 1).await, expected(&chain, &all));
    let twice = "SELECT count(*) FROM (SELECT FROM fee_events WHERE status <> 'dropped' \
        GROUP BY chain_id, tx_hash, log_index, position HAVING count(*) > 1) twice";
    assert_eq!(number(&database, twice).await, 0);
    assert_eq!(jobs::audit_gaps(&database, None).await.unwrap(), Vec::new());
    let acts = "SELECT count(*) FROM operator_acts WHERE act = 'rewind' AND operator = 'me' \
        AND detail->>'reason' = 'a test' AND detail->>'droppedBlocks' = '4'";
    assert_eq!(number(&database, acts).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_after_a_rewind_is_made_by_jobs_and_old_jobs_end_at_it() {
    let (_server, database) = database().await;
    let (chain, one, _) = final_chain(&database, 2).await;
    // One that somebody works on reaches beyond the block, another is all behind it.
    for range in [(0, 6), (5, 6)] {
        jobs::enqueue(&database, (2, "fees"), range, 7)
            .await
            .unwrap();
    }
    let client = database.client().await.unwrap();
    let claim = "UPDATE jobs SET status = 'processing', next_block = 5, locked_by = 'zombie' \
        RETURNING token";
    let tokens = client.query(claim, &[]).await.unwrap();
    let tokens: Vec<i64> = tokens.iter().map(|row| row.get(0)).collect();
    drop(client);
    chain.rewind(3).await;
    assert_eq!(taken_back(&database, &chain).await.1, 3);
    let left = jobs::list(&database, Some(2)).await.unwrap();
    let left: Vec<_> = left
        .iter()
        .map(|job| (job.from_block, job.to_block, job.status.as_str()))
        .collect();
    assert_eq!(left, [(0, 3, "pending")]);
    let same = "SELECT count(*) FROM jobs WHERE token = ANY($1)";
    let client = database.client().await.unwrap();
    let same: i64 = client.query_one(same, &[&tokens]).await.unwrap().get(0);
    assert_eq!(same, 0);
    drop(client);
    // All of it is archived again before anybody looks.
    chain.extend(0, &[103]);
    chain.extend(2, &[113, 119]);
    chain.finalize(5).await;
    let mut following = Following::default();
    one.release_all().await.unwrap();
    caught_up(&one, &mut following).await;
    let now = chain.blocks.lock().unwrap().clone();
    let confirmed = "SELECT count(DISTINCT block_hash) FROM fee_events WHERE status = 'confirmed'";
    assert_eq!(number(&database, confirmed).await, 3);
    let right = "SELECT count(*) FROM fee_events WHERE status = 'confirmed' AND block_number = 5 \
        AND block_hash <> $1";
    let client = database.client().await.unwrap();
    let hash = now[5].clock.hash;
    let wrong: i64 = client
        .query_one(right, &[&hash.as_bytes().as_slice()])
        .await
        .unwrap()
        .get(0);
    assert_eq!(wrong, 0);
    let whole = "SELECT count(*) FROM complete_through WHERE complete_through = 5";
    assert_eq!(number(&database, whole).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_is_rebuilt_with_other_settings_and_others_are_left_alone() {
    let (_server, database) = database().await;
    let (chain, other) = (TestChain::new(3).await, TestChain::new(4).await);
    for chain in [&chain, &other] {
        chain.send(0, &[direct(1, update(1, 1, &[(0, 1)]))]);
        chain.extend(0, &[101]);
        chain.finalize(1).await;
        let one = both(&database, chain, settings_beside());
        one.register(GENESIS_TIME).await.unwrap();
        let mut following = Following::default();
        caught_up(&one, &mut following).await;
        let refused = reset(&database, chain.id, "adfs", ORDER).await;
        let message = refused.unwrap_err().to_string();
        assert!(message.contains("stop it first"), "{message}");
        one.release(&mut following).await.unwrap();
    }
    let unknown = reset(&database, 3, "prices", ORDER).await;
    assert!(unknown.is_err());
    let before = (fees(&database).await, stored(&database, 4).await);
    // The contract is another one: rows of the old one must not be beside its rows.
    let mut changed = settings_beside();
    changed.start_block = 1;
    let two = both(&database, &chain, changed.clone());
    let message = two.register(GENESIS_TIME).await.unwrap_err().to_string();
    assert!(message.contains("projection reset"), "{message}");
    assert!(reset(&database, 3, "adfs", ORDER).await.unwrap().known);
    assert!(!reset(&database, 3, "adfs", ORDER).await.unwrap().known);
    assert_eq!(stored(&database, 3).await, Default::default());
    assert_eq!((fees(&database).await, stored(&database, 4).await), before);
    two.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    caught_up(&two, &mut following).await;
    assert_eq!(stored(&database, 3).await, Default::default());
    two.release(&mut following).await.unwrap();
    // And once more, with what was there at first.
    reset(&database, 3, "adfs", ORDER).await.unwrap();
    let three = both(&database, &chain, settings_beside());
    three.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    caught_up(&three, &mut following).await;
    assert_eq!(stored(&database, 3).await.events.len(), 1);
    assert_eq!(fees(&database).await, before.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_missed_a_rewind_goes_back_to_where_both_agree() {
    let (_server, database) = database().await;
    let (chain, one, mut following) = final_chain(&database, 5).await;
    let old = chain.blocks.lock().unwrap().clone();
    // The archive is rewound and grows beyond where it was; where the old chain had no rows it has some.
    chain.rewind(1).await;
    chain.send(1, &[]);
    chain.extend(1, &[121]);
    chain.send(1, &[direct(7, update(1, 9, &[(0, 2)]))]);
    chain.send(1, &[]);
    chain.extend(1, &[137]);
    chain.extend(1, &[127]);
    chain.finalize(7).await;
    let message = one.follow(&mut following).await.unwrap_err().to_string();
    assert!(
        message.contains("chronolith projection rewind"),
        "{message}"
    );
    let (before, now, dropped) = taken_back(&database, &chain).await;
    assert_eq!((before, now, dropped), (6, 1, 5));
    caught_up(&one, &mut following).await;
    let new = chain.blocks.lock().unwrap().clone();
    let all = [with(&new, "confirmed"), with(&old[2..], "dropped")].concat();
    assert_eq!(stored(&database, 5).await, expected(&chain, &all));
    assert_eq!(fees(&database).await[1], 3);
    let whole = "SELECT count(*) FROM complete_through WHERE complete_through = 7";
    assert_eq!(number(&database, whole).await, 2);
    // Whoever holds a lease loses it with what is taken back, and continues with the next round.
    chain.rewind(5).await;
    taken_back(&database, &chain).await;
    chain.extend(2, &[139]);
    chain.extend(2, &[131]);
    chain.extend(2, &[143]);
    let fenced = one.follow(&mut following).await.unwrap_err().to_string();
    assert!(fenced.contains("lease"), "{fenced}");
    one.register(GENESIS_TIME).await.unwrap();
    chain.finalize(8).await;
    caught_up(&one, &mut following).await;
    assert_eq!(fees(&database).await[1], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_away_while_a_projection_was_reset_writes_nothing() {
    let (_server, database) = database().await;
    let chain = TestChain::new(6).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    let one = both(&database, &chain, settings_beside());
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    one.follow(&mut following).await.unwrap();
    one.release(&mut following).await.unwrap();
    reset(&database, 6, "adfs", ORDER).await.unwrap();
    chain.send(0, &[direct(2, update(1, 2, &[(0, 2)]))]);
    let round = one.follow(&mut following).await;
    assert_eq!(stored(&database, 6).await, Default::default());
    let message = round.unwrap_err().to_string();
    assert!(message.contains("with these settings"), "{message}");
}
