//! Two that write the same range at the same time.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a database that it cannot see into"
)]

mod support;

use std::time::{Duration, Instant};

use chronolith_projection::{Following, jobs};
use support::{GENESIS_TIME, TestChain, database, number, projector, stored};

const PATIENCE: Duration = Duration::from_secs(30);

/// A range without rows is written without asking whether each is there. One that comes meanwhile must
/// cost nothing but that question.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_comes_while_a_range_is_written_does_no_harm() {
    let (_server, database) = database().await;
    let chain = TestChain::new(7).await;
    for block in 0..6 {
        chain.extend(0, &[block, 100 + block]);
    }
    chain.finalize(5).await;
    let projector = projector(&database, &chain, "one");
    projector.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    projector.follow(&mut following).await.unwrap();
    while projector.work().await.unwrap() {}
    let whole = stored(&database, 7).await;
    assert!(whole.len() >= 12, "{whole:?}");
    let mut other = database.client().await.unwrap();
    let aside = "CREATE TABLE aside AS SELECT * FROM fee_event_rows; DELETE FROM fee_event_rows";
    other.batch_execute(aside).await.unwrap();
    let made = jobs::enqueue(&database, (7, "fees"), (0, 5), 100).await;
    assert_eq!(made.unwrap(), 1);
    // Nobody sees this row yet, and whoever writes it too has to wait.
    let tx = other.transaction().await.unwrap();
    let one = "INSERT INTO fee_event_rows SELECT * FROM aside ORDER BY block_number DESC, log_index LIMIT 1";
    assert_eq!(tx.execute(one, &[]).await.unwrap(), 1);
    let commit = async {
        let began = Instant::now();
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        while number(&database, waiting).await == 0 {
            assert!(began.elapsed() < PATIENCE, "nobody waits for the row");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tx.commit().await.unwrap();
    };
    let (worked, ()) = tokio::join!(projector.work(), commit);
    assert!(worked.unwrap());
    assert_eq!(stored(&database, 7).await, whole);
    assert_eq!(number(&database, "SELECT count(*) FROM jobs").await, 0);
}
