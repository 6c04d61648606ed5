//! What operators say of versions, and may say otherwise as long as no row was made with it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "../../projection/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use chronolith_projection::{Database, Following, Projector, jobs};
use chronolith_projection_adfs::{AdfsSettings, add_version, list_versions, remove_version};
use support::adfs::{
    Act, FIRST, SECOND, STRANGER, Sent, Way, direct, projector, settings, settings_beside, stored,
    update,
};
use support::{GENESIS_TIME, TestChain, database, number};

async fn started(database: &Database, chain: &Arc<TestChain>, settings: AdfsSettings) -> Projector {
    let one = projector(database, chain, settings, "one");
    one.register(GENESIS_TIME).await.unwrap();
    one
}

async fn refused(database: &Database, chain: &Arc<TestChain>, settings: AdfsSettings, why: &str) {
    let one = projector(database, chain, settings, "two");
    let message = one.register(GENESIS_TIME).await.unwrap_err().to_string();
    assert!(message.contains(why), "{message}");
}

async fn followed(one: &Projector) {
    let mut following = Following::default();
    one.follow(&mut following).await.unwrap();
    one.release(&mut following).await.unwrap();
}

async fn paused(database: &Database, reason: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM projections WHERE paused_reason = '{reason}'");
    number(database, &sql).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_first_version_is_stays_when_there_are_more() {
    let (_server, database) = database().await;
    let chain = TestChain::new(1).await;
    chain.send(0, &[direct(1, update(1, 1, &[(0, 1)]))]);
    chain.send(0, &[]);
    let one = started(&database, &chain, settings_beside()).await;
    followed(&one).await;
    let before = stored(&database, 1).await;
    assert_eq!(before.events.len(), 1);
    // With a second version, what was said by there being one is still so, also for a replay.
    let two = started(&database, &chain, settings()).await;
    chain.finalize(1).await;
    followed(&two).await;
    jobs::enqueue(&database, (1, "adfs"), (0, 1), 2)
        .await
        .unwrap();
    while two.work().await.unwrap() {}
    assert_eq!(paused(&database, "noImplementation").await, 0);
    assert_eq!(stored(&database, 1).await.feeds.len(), 1);
    // Nobody may say otherwise behind those rows.
    let mut other = settings();
    other.initial_version = Some(2);
    refused(&database, &chain, other, "were read as version 1").await;
    let mut same = settings();
    same.initial_version = Some(1);
    started(&database, &chain, same).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_without_a_first_version_continues_when_it_is_given() {
    let (_server, database) = database().await;
    let chain = TestChain::new(2).await;
    chain.send(0, &[direct(1, update(2, 1, &[(0, 1)]))]);
    let one = started(&database, &chain, settings()).await;
    followed(&one).await;
    followed(&one).await;
    assert_eq!(paused(&database, "noImplementation").await, 1);
    assert_eq!(stored(&database, 2).await.events.len(), 0);
    let mut message = settings();
    message.initial_version = Some(2);
    let two = started(&database, &chain, message).await;
    followed(&two).await;
    assert_eq!(paused(&database, "noImplementation").await, 0);
    let versions = "SELECT max(version)::bigint FROM adfs_events";
    assert_eq!(number(&database, versions).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_compared_before_a_row_is_made_of_it() {
    let (_server, database) = database().await;
    let chain = TestChain::new(3).await;
    let mut known = settings();
    known.code_hashes = [(SECOND, [7; 32])].into();
    let one = started(&database, &chain, known.clone()).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, Act::Upgrade(SECOND))]);
    chain.send(0, &[direct(3, update(2, 1, &[(0, 1)]))]);
    let named = [(FIRST, false), (SECOND, false)];
    assert_eq!(one.implementations().await.unwrap(), named);
    // Nobody looked at the code yet: nothing is made of it, and nothing stands still.
    followed(&one).await;
    let all = stored(&database, 3).await;
    assert_eq!((all.events.len(), all.upgrades.len()), (0, 1));
    assert_eq!(paused(&database, "bytecode").await, 0);
    // Jobs wait as well.
    chain.finalize(1).await;
    followed(&one).await;
    let waits = one.work().await.unwrap_err().to_string();
    assert!(waits.contains("project from block"), "{waits}");
    assert_eq!(stored(&database, 3).await.upgrades.len(), 1);
    // It is another one.
    one.note_code(&FIRST, Some([1; 32])).await.unwrap();
    one.note_code(&SECOND, Some([8; 32])).await.unwrap();
    followed(&one).await;
    // The job would be tried again after a while.
    let client = database.client().await.unwrap();
    let now = client
        .execute("UPDATE jobs SET retry_at = now()", &[])
        .await;
    assert_eq!(now.unwrap(), 1);
    while one.work().await.unwrap() {}
    assert_eq!(paused(&database, "bytecode").await, 1);
    let message = "SELECT count(*) FROM projections WHERE paused_detail LIKE '%expectedBytecodeHash says 0x0707%'";
    assert_eq!(number(&database, message).await, 1);
    assert_eq!(stored(&database, 3).await.events.len(), 0);
    // Somebody found out why.
    known.code_hashes = [(SECOND, [8; 32])].into();
    let two = started(&database, &chain, known).await;
    followed(&two).await;
    while two.work().await.unwrap() {}
    assert_eq!(paused(&database, "bytecode").await, 0);
    let all = stored(&database, 3).await;
    assert_eq!((all.events.len(), all.upgrades.len()), (1, 2));
    let hashes = "SELECT count(*) FROM proxy_versions WHERE bytecode_hash IN \
        (decode(repeat('01', 32), 'hex'), decode(repeat('08', 32), 'hex'))";
    assert_eq!(number(&database, hashes).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_never_was_in_force_may_be_corrected() {
    let (_server, database) = database().await;
    let chain = TestChain::new(4).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    let known = settings();
    let one = started(&database, &chain, known.clone()).await;
    followed(&one).await;
    // By an operator.
    let add = |version| add_version(&database, 4, &known, (&STRANGER, version), "me");
    assert!(add(2).await.unwrap());
    let message = add(1).await.unwrap_err().to_string();
    assert!(message.contains("versions remove"), "{message}");
    let remove = |implementation| remove_version(&database, 4, implementation, "me");
    assert!(remove(&STRANGER).await.unwrap());
    assert!(!remove(&STRANGER).await.unwrap());
    assert!(add(1).await.unwrap());
    // The running projector takes what is said now.
    chain.send(0, &[direct(2, Act::Upgrade(STRANGER))]);
    chain.send(0, &[direct(3, update(1, 1, &[(0, 1)]))]);
    followed(&one).await;
    assert_eq!(stored(&database, 4).await.events.len(), 1);
    let message = remove(&STRANGER).await.unwrap_err().to_string();
    assert!(message.contains("in force since block 1"), "{message}");
    assert_eq!(list_versions(&database, Some(4)).await.unwrap().len(), 2);
    let acts = "SELECT count(*) FROM operator_acts WHERE act = 'versions remove'";
    assert_eq!(number(&database, acts).await, 1);
    // In the settings: the second one was never in force, the first one was.
    let mut other = settings();
    other.implementations.insert(SECOND, 1);
    started(&database, &chain, other.clone()).await;
    other.implementations.remove(&SECOND);
    started(&database, &chain, other.clone()).await;
    other.implementations.insert(FIRST, 2);
    refused(&database, &chain, other, "made with other settings").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_was_partly_refused_has_all_rows_when_it_is_not() {
    let (_server, database) = database().await;
    let chain = TestChain::new(5).await;
    let mut narrow = settings();
    narrow.versions.get_mut(&1).unwrap().feeds_max = 1;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    let acts = vec![update(1, 1, &[(0, 1)]), update(1, 2, &[(0, 2), (1, 2)])];
    let both = Sent {
        seed: 2,
        way: Way::Many,
        acts,
    };
    chain.send(0, &[both]);
    chain.finalize(1).await;
    let one = started(&database, &chain, narrow.clone()).await;
    followed(&one).await;
    while one.work().await.unwrap() {}
    let reported = "SELECT jsonb_array_length(decoded->'updates')::bigint FROM tx_inputs";
    assert_eq!(number(&database, reported).await, 1);
    narrow.versions.get_mut(&1).unwrap().feeds_max = 2;
    let two = started(&database, &chain, narrow).await;
    followed(&two).await;
    while two.work().await.unwrap() {}
    assert_eq!(number(&database, reported).await, 2);
    let left = "SELECT count(*) FROM quarantine";
    assert_eq!(number(&database, left).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_force_counts_before_its_upgrade_is_written_down() {
    let (_server, database) = database().await;
    let chain = TestChain::new(6).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, Act::Upgrade(STRANGER))]);
    chain.finalize(1).await;
    chain.send(0, &[direct(3, update(1, 1, &[(0, 1)]))]);
    // The newest block is there before history is: a row of an upgrade that is not.
    let known = settings();
    let one = started(&database, &chain, known.clone()).await;
    add_version(&database, 6, &known, (&STRANGER, 1), "me")
        .await
        .unwrap();
    followed(&one).await;
    let all = stored(&database, 6).await;
    assert_eq!((all.events.len(), all.upgrades.len()), (1, 0));
    let removed = remove_version(&database, 6, &STRANGER, "me").await;
    let message = removed.unwrap_err().to_string();
    assert!(message.contains("still to come"), "{message}");
    // The same where the settings said it.
    let mut named = settings();
    named.implementations.insert(STRANGER, 1);
    started(&database, &chain, named.clone()).await;
    named.implementations.remove(&STRANGER);
    refused(&database, &chain, named, "made with other settings").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_below_an_unknown_implementation_is_projected_by_any_worker() {
    let (_server, database) = database().await;
    let chain = TestChain::new(7).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, update(1, 1, &[(0, 1)]))]);
    chain.send(0, &[direct(3, Act::Upgrade(STRANGER))]);
    chain.finalize(2).await;
    chain.send(0, &[direct(4, update(1, 2, &[(0, 2)]))]);
    let one = started(&database, &chain, settings()).await;
    // The newest block is met first, and is left alone.
    followed(&one).await;
    assert_eq!(paused(&database, "unknownImplementation").await, 0);
    while one.work().await.unwrap() {}
    assert_eq!(paused(&database, "unknownImplementation").await, 1);
    let all = stored(&database, 7).await;
    assert_eq!((all.events.len(), all.upgrades.len()), (1, 1));
}
