//! Jobs: who gets which range, and what becomes of one that fails.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_projection::{Following, jobs};
use support::{TestChain, database, number, projector};

/// A hundred and fifty final blocks, and a projector that has settled them.
async fn settled(
    database: &chronolith_projection::Database,
    id: u64,
) -> (std::sync::Arc<TestChain>, chronolith_projection::Projector) {
    let chain = TestChain::new(id).await;
    for number in 0..150 {
        chain.extend(0, &[number]);
    }
    chain.finalize(149).await;
    let one = projector(database, &chain, "one");
    one.register(support::GENESIS_TIME).await.unwrap();
    one.follow(&mut Following::default()).await.unwrap();
    (chain, one)
}

#[tokio::test(flavor = "multi_thread")]
async fn many_workers_get_ranges_that_join_and_do_not_overlap() {
    let (_server, database) = database().await;
    let (chain, one) = settled(&database, 1).await;
    let others = (0..7).map(|at| projector(&database, &chain, &format!("worker {at}")));
    let workers: Vec<_> = others.chain([one]).collect();
    let work = workers.iter().map(|worker| async {
        let mut done = 0;
        while worker.work().await.unwrap() {
            done += 1;
        }
        done
    });
    let done: Vec<u64> = futures::future::join_all(work).await;
    // 150 blocks by seven are 22 jobs, each done once.
    assert_eq!(done.iter().sum::<u64>(), 22, "{done:?}");
    let whole = "SELECT count(*) FROM projected_ranges WHERE from_block = 0 AND to_block = 149";
    assert_eq!(number(&database, whole).await, 1);
    let all = support::expected(
        &chain
            .blocks
            .lock()
            .unwrap()
            .iter()
            .map(|block| (block.clone(), "confirmed"))
            .collect::<Vec<_>>(),
    );
    assert_eq!(support::stored(&database, 1).await, all);
}

/// A row that the database refuses is not the worker's fault, and no pause mends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_keeps_failing_is_abandoned_listed_and_can_be_retried() {
    let (_server, database) = database().await;
    let (_chain, one) = settled(&database, 2).await;
    let run = async |sql: &str| {
        let client = database.client().await.unwrap();
        client.batch_execute(sql).await.unwrap();
    };
    run("ALTER TABLE fee_event_rows ADD CONSTRAINT odd CHECK (block_number <> 33) NOT VALID").await;
    for attempt in 1..=10 {
        while one.work().await.unwrap() {}
        let all = jobs::list(&database, Some(2)).await.unwrap();
        assert_eq!(all.len(), 1, "the others are done");
        assert_eq!((all[0].from_block, all[0].to_block), (28, 34));
        assert_eq!(all[0].attempts, attempt);
        let status = if attempt < 10 { "failed" } else { "dead" };
        assert_eq!(all[0].status, status);
        let error = all[0].error.as_deref().unwrap();
        assert!(error.contains("odd"), "{error}");
        // It waits longer each time; a test does not.
        assert!(all[0].retry_in_seconds > 1.0, "{all:?}");
        run("UPDATE jobs SET retry_at = now()").await;
    }
    assert!(!one.work().await.unwrap(), "a dead job is left alone");
    let whole = "SELECT complete_through FROM complete_through";
    assert_eq!(
        number(&database, whole).await,
        27,
        "and nobody is told that it is done"
    );
    run("ALTER TABLE fee_event_rows DROP CONSTRAINT odd").await;
    let id = jobs::list(&database, Some(2)).await.unwrap()[0].id;
    assert_eq!(jobs::retry(&database, Some(id), "me").await.unwrap(), 1);
    assert!(one.work().await.unwrap());
    assert_eq!(number(&database, whole).await, 149);
    assert_eq!(jobs::find(&database, id).await.unwrap(), None);
}

/// A worker that went away is waited for, and then its range is another's. When it comes back, what it
/// has under way counts for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_worker_left_behind_is_taken_first() {
    let (_server, database) = database().await;
    let (_chain, one) = settled(&database, 3).await;
    let run = async |sql: &str| {
        let client = database.client().await.unwrap();
        client.batch_execute(sql).await.unwrap();
    };
    run("UPDATE projections SET next_block = 14").await;
    run("INSERT INTO jobs (chain_id, projection, from_block, to_block, next_block, status, attempts, \
        locked_by, locked_until) VALUES \
        (3, 'fees', 0, 6, 0, 'processing', 3, 'gone', now() - interval '1 second'), \
        (3, 'fees', 7, 13, 7, 'processing', 1, 'alive', now() + interval '1 hour')")
    .await;
    assert!(one.work().await.unwrap());
    let left = jobs::list(&database, None).await.unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].locked_by.as_deref(), Some("alive"));
    while one.work().await.unwrap() {}
    // All but what somebody else works on.
    let gaps = jobs::audit_gaps(&database, None).await.unwrap();
    assert_eq!(gaps, [], "a job on its way is no gap");
    run("DELETE FROM jobs").await;
    let gaps = jobs::audit_gaps(&database, None).await.unwrap();
    assert_eq!(
        (gaps[0].from_block, gaps[0].to_block, gaps.len()),
        (7, 13, 1)
    );
}

/// One request must not make a million rows.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_too_many_jobs_is_refused_as_a_whole() {
    let (_server, database) = database().await;
    let (_chain, one) = settled(&database, 9).await;
    while one.work().await.unwrap() {}
    let client = database.client().await.unwrap();
    let far = "UPDATE processing_state SET last_safe_block = 5000000; \
        UPDATE projections SET next_block = 5000001";
    client.batch_execute(far).await.unwrap();
    let refused = jobs::replay(&database, (9, "fees"), (0, u64::MAX), 7, "me").await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("more than 100000 jobs"), "{message}");
    assert_eq!(number(&database, "SELECT count(*) FROM jobs").await, 0);
    let acts =
        "SELECT count(*) FROM operator_acts WHERE act = 'projection replay' AND operator = 'me'";
    assert_eq!(number(&database, acts).await, 0);
    let made = jobs::replay(&database, (9, "fees"), (0, u64::MAX), 50_000, "me").await;
    assert_eq!(made.unwrap(), 101);
    assert_eq!(number(&database, acts).await, 1);
}
