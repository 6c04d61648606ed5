//! The engine with fee events: from blocks to tables, through reorgs, restarts and take-overs.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::sync::Arc;

use chronolith_model::Block;
use chronolith_projection::{Database, Error, Following, jobs, leases, partitions};
use chronolith_projection_fees::{FeeContract, Fees};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use support::{KINDS, TestChain, database, expected, number, projector, projector_of, stored};

async fn work_all(projector: &chronolith_projection::Projector) {
    while projector.work().await.unwrap() {}
}

/// Blocks of the chain as it is, with the status that they must have.
fn on_chain(chain: &TestChain) -> Vec<(Block, &'static str)> {
    let head = chain.archive.health().head.map(|head| head.number);
    let blocks = chain.blocks.lock().unwrap().clone();
    let status = |block: &Block| match head.is_some_and(|head| block.clock.number <= head) {
        true => "confirmed",
        false => "pending",
    };
    blocks
        .into_iter()
        .map(|block| (block.clone(), status(&block)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_pending_then_confirmed_or_dropped_and_never_deleted() {
    let (_server, database) = database().await;
    let chain = TestChain::new(31_337).await;
    let one = projector(&database, &chain, "one");
    one.register(support::GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    for number in 0..10 {
        chain.extend(0, &[number, 100 + number]);
    }
    one.follow(&mut following).await.unwrap();
    assert_eq!(stored(&database, 31_337).await, expected(&on_chain(&chain)));
    // Three blocks are replaced; a transaction of the old ones is mined again, later, over the end of
    // the month.
    let mut gone: Vec<(Block, &str)> = on_chain(&chain).split_off(7);
    for (_, status) in &mut gone {
        *status = "dropped";
    }
    chain.roll_back(3);
    chain.extend(1, &[50]);
    one.follow(&mut following).await.unwrap();
    let all = |gone: &[(Block, &'static str)]| [on_chain(&chain), gone.to_vec()].concat();
    assert_eq!(stored(&database, 31_337).await, expected(&all(&gone)));
    for number in 8..80 {
        let txs = if number == 70 {
            vec![8, 108]
        } else {
            vec![200 + number]
        };
        chain.extend(1, &txs);
    }
    one.follow(&mut following).await.unwrap();
    assert_eq!(stored(&database, 31_337).await, expected(&all(&gone)));
    chain.finalize(75).await;
    let round = one.follow(&mut following).await.unwrap();
    assert!(round.confirmed > 60, "{round:?}");
    assert_eq!(stored(&database, 31_337).await, expected(&all(&gone)));
    // Nothing is left for jobs: the newest blocks were followed.
    assert!(!one.work().await.unwrap());
    assert_eq!(number(&database, "SELECT count(*) FROM jobs").await, 0);
    let ranges = "SELECT count(*) FROM projected_ranges WHERE from_block = 0 AND to_block = 75";
    assert_eq!(number(&database, ranges).await, 1);
    // What is complete is written down with the safe block, and so may be behind, never ahead.
    let cursors = "SELECT count(*) FROM processing_state WHERE last_seen_block = 79 \
        AND last_safe_block = 75 AND last_backfill_block <= 75";
    assert_eq!(number(&database, cursors).await, 1);
    // The same transaction and log, once in a dropped block and once on the chain, in two partitions.
    let natural = "SELECT count(*) FROM (SELECT chain_id, tx_hash, log_index, position FROM fee_events \
        WHERE status <> 'dropped' GROUP BY 1, 2, 3, 4 HAVING count(*) > 1) twice";
    assert_eq!(number(&database, natural).await, 0);
    let both = "SELECT count(DISTINCT tableoid) FROM fee_event_rows \
        WHERE tx_hash IN (SELECT tx_hash FROM fee_event_rows GROUP BY 1 HAVING count(DISTINCT block_hash) > 1)";
    assert_eq!(number(&database, both).await, 2);
    // A log with the event's topic that is no such event is written down once, and is no row.
    let odd = "SELECT count(*) FROM quarantine WHERE reason = 'malformed'";
    assert!(number(&database, odd).await > 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_comes_back_is_not_dropped_any_more() {
    let (_server, database) = database().await;
    let chain = TestChain::new(5).await;
    let one = projector(&database, &chain, "one");
    one.register(support::GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    chain.extend(0, &[1]);
    for back_and_forth in 0..3 {
        let first = chain.extend(0, &[2]);
        chain.extend(0, &[3]);
        one.follow(&mut following).await.unwrap();
        let rows = stored(&database, 5).await;
        let alive = rows.iter().filter(|row| row.6 == "pending").count();
        assert_eq!(alive, expected(&on_chain(&chain)).len(), "{back_and_forth}");
        chain.roll_back(2);
        let second = chain.extend(1, &[4]);
        one.follow(&mut following).await.unwrap();
        let rows = stored(&database, 5).await;
        let status = |block: &Block| {
            let hash = support::hex(block.clock.hash.as_bytes());
            let row = rows.iter().find(|row| row.1 == hash).unwrap();
            row.6.clone()
        };
        assert_eq!(
            (status(&first), status(&second)),
            ("dropped".into(), "pending".into()),
            "{back_and_forth}"
        );
        chain.roll_back(1);
    }
    // It is final before anybody looks again.
    let first = chain.extend(0, &[2]);
    chain.finalize(first.clock.number).await;
    one.follow(&mut following).await.unwrap();
    let rows = stored(&database, 5).await;
    let confirmed = rows.iter().filter(|row| row.6 == "confirmed").count();
    assert_eq!(confirmed, expected(&on_chain(&chain)).len());
}

#[tokio::test(flavor = "multi_thread")]
async fn history_comes_from_jobs_and_any_replay_changes_nothing() {
    let (_server, database) = database().await;
    let chain = TestChain::new(9).await;
    for number in 0..200 {
        chain.extend(0, &[number, 1_000 + number]);
    }
    chain.finalize(180).await;
    let one = projector(&database, &chain, "one");
    one.register(support::GENESIS_TIME).await.unwrap();
    // Nothing is handed out before it is known to be final.
    assert!(!one.work().await.unwrap());
    let mut following = Following::default();
    one.follow(&mut following).await.unwrap();
    // Nothing is said to be whole before it is: the jobs come from the first block on, or from others.
    let whole = "SELECT coalesce(complete_through, -1) FROM complete_through";
    assert_eq!(number(&database, whole).await, -1);
    assert!(one.work().await.unwrap());
    assert_eq!(number(&database, whole).await, 6);
    work_all(&one).await;
    assert_eq!(number(&database, whole).await, 180);
    let rows = stored(&database, 9).await;
    assert_eq!(rows, expected(&on_chain(&chain)));
    assert_eq!(jobs::audit_gaps(&database, None).await.unwrap(), []);
    for (from, to) in [(0, 1_000), (3, 3), (50, 90)] {
        assert!(
            jobs::enqueue(&database, (9, "fees"), (from, to), 11)
                .await
                .unwrap()
                > 0
        );
        work_all(&one).await;
        assert_eq!(stored(&database, 9).await, rows, "{from} to {to}");
    }
    let ranges = "SELECT count(*) FROM projected_ranges";
    assert_eq!(number(&database, ranges).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happened_while_no_node_ran_is_settled() {
    let (_server, database) = database().await;
    let chain = TestChain::new(10).await;
    let one = projector(&database, &chain, "one");
    one.register(support::GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    for number in 0..20 {
        chain.extend(0, &[number]);
    }
    chain.finalize(9).await;
    one.follow(&mut following).await.unwrap();
    one.release(&mut following).await.unwrap();
    // While nobody looks, five blocks are replaced, and all but two of the new ones become final.
    let mut gone: Vec<(Block, &str)> = on_chain(&chain).split_off(15);
    gone.iter_mut().for_each(|(_, status)| *status = "dropped");
    chain.roll_back(5);
    for number in 15..40 {
        chain.extend(1, &[300 + number]);
    }
    chain.finalize(37).await;
    let two = projector(&database, &chain, "two");
    two.register(support::GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    // Its tail is not there yet when it begins.
    chain.lose_tail(Some(37));
    two.follow(&mut following).await.unwrap();
    work_all(&two).await;
    chain.lose_tail(None);
    two.follow(&mut following).await.unwrap();
    let all = [on_chain(&chain), gone].concat();
    assert_eq!(stored(&database, 10).await, expected(&all));
}

/// A process that begins again knows a part of a new fork at first. A transaction of a pending block that
/// is above that part, and gone, may be in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_is_never_there_twice() {
    let (_server, database) = database().await;
    let chain = TestChain::new(13).await;
    let one = projector(&database, &chain, "one");
    one.register(support::GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    for txs in [&[][..], &[], &[], &[1]] {
        chain.extend(0, txs);
    }
    one.follow(&mut following).await.unwrap();
    chain.roll_back(2);
    for txs in [&[1][..], &[], &[2]] {
        chain.extend(1, txs);
    }
    let twice = "SELECT count(*) FROM (SELECT tx_hash FROM fee_events WHERE status <> 'dropped' \
        GROUP BY tx_hash, log_index HAVING count(*) > 1) twice";
    let mut following = Following::default();
    one.release_all().await.unwrap();
    for known in 1..=4 {
        chain.lose_tail(Some(known));
        one.follow(&mut following).await.unwrap();
        assert_eq!(number(&database, twice).await, 0, "through {known}");
    }
    let rows = stored(&database, 13).await;
    let alive: Vec<_> = rows.into_iter().filter(|row| row.6 != "dropped").collect();
    assert_eq!(alive, expected(&on_chain(&chain)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lost_its_lease_writes_nothing_and_releasing_works_from_anywhere() {
    let (_server, database) = database().await;
    let chain = TestChain::new(11).await;
    let (one, two) = (
        projector(&database, &chain, "one"),
        projector(&database, &chain, "two"),
    );
    one.register(support::GENESIS_TIME).await.unwrap();
    two.register(support::GENESIS_TIME).await.unwrap();
    let (mut first, mut second) = (Following::default(), Following::default());
    chain.extend(0, &[1]);
    assert!(!one.follow(&mut first).await.unwrap().waiting);
    assert!(two.follow(&mut second).await.unwrap().waiting);
    let held = leases::list(&database, Some(11)).await.unwrap();
    assert_eq!(held.len(), 2);
    assert!(
        held.iter()
            .all(|lease| lease.holder.as_deref() == Some("one")),
        "{held:?}"
    );
    let kinds = [leases::LeaseKind::Writer, leases::LeaseKind::Finality];
    for kind in kinds {
        assert!(leases::release(&database, 11, kind, "me").await.unwrap());
        assert!(!leases::release(&database, 11, kind, "me").await.unwrap());
    }
    assert!(!two.follow(&mut second).await.unwrap().waiting);
    chain.extend(0, &[2]);
    let error = one.follow(&mut first).await.unwrap_err();
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    assert!(one.follow(&mut first).await.unwrap().waiting);
    two.follow(&mut second).await.unwrap();
    assert_eq!(stored(&database, 11).await, expected(&on_chain(&chain)));
    let acts = "SELECT count(*) FROM operator_acts WHERE act = 'locks release'";
    assert_eq!(number(&database, acts).await, 2);
    // One after the other, by the history that nobody can take back.
    let epochs = "SELECT count(*) - max(epoch) FROM lease_history WHERE kind = 'writer'";
    assert_eq!(number(&database, epochs).await, 0);
}

/// A database of one environment and a node of another: the same id, and other blocks.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_another_chain_writes_nothing() {
    let (_server, database) = database().await;
    let (chain, other) = (TestChain::new(14).await, TestChain::new(14).await);
    for number in 0..8 {
        chain.extend(0, &[number]);
        other.extend(1, &[100 + number]);
    }
    chain.finalize(3).await;
    other.finalize(5).await;
    let one = projector(&database, &chain, "one");
    one.register(support::GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    one.follow(&mut following).await.unwrap();
    work_all(&one).await;
    one.release(&mut following).await.unwrap();
    let before = stored(&database, 14).await;
    assert_eq!(before, expected(&on_chain(&chain)));
    let two = projector(&database, &other, "two");
    two.register(support::GENESIS_TIME).await.unwrap();
    let error = two.follow(&mut Following::default()).await.unwrap_err();
    assert!(matches!(error, Error::Conflict(_)), "{error}");
    jobs::enqueue(&database, (14, "fees"), (0, 3), 4)
        .await
        .unwrap();
    let error = two.work().await.unwrap_err();
    assert!(error.to_string().contains("another chain"), "{error}");
    assert_eq!(stored(&database, 14).await, before);
    // It stands in nobody's way.
    chain.finalize(6).await;
    one.follow(&mut following).await.unwrap();
    work_all(&one).await;
    assert_eq!(stored(&database, 14).await, expected(&on_chain(&chain)));
}

/// Where the database did not answer at the start, its rows were refused forever although another first block was
/// for a first run only.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_earlier_run_keep_their_first_block() {
    let (_server, database) = database().await;
    let chain = TestChain::new(16).await;
    for number in 0..9 {
        chain.extend(0, &[number]);
    }
    let from = |from_block| {
        let contract = FeeContract {
            address: support::CONTRACT,
            from_block,
        };
        Fees::new(16, vec![contract]).unwrap()
    };
    let made =
        |fees: Fees, holder: &str| projector_of(&database, &chain, vec![Arc::new(fees)], 7, holder);
    let first = made(from(2), "first");
    first.register(support::GENESIS_TIME).await.unwrap();
    for from_block in [0, 5] {
        let changed = made(from(from_block), "changed");
        let error = changed.register(support::GENESIS_TIME).await.unwrap_err();
        assert!(matches!(error, Error::Conflict(_)), "{error}");
        let later = made(from(from_block).of_first_run(), "later");
        assert_eq!(later.start_block(), Some(from_block));
        later.register(support::GENESIS_TIME).await.unwrap();
        assert_eq!(later.start_block(), Some(2));
        later.check_settings().await.unwrap();
        let mut following = Following::default();
        later.follow(&mut following).await.unwrap();
        let rows = expected(&on_chain(&chain)[2..]);
        assert_eq!(stored(&database, 16).await, rows);
        later.release(&mut following).await.unwrap();
    }
    // A worker takes them as they are, too.
    let worker = made(from(5).of_first_run(), "worker");
    worker.check_settings().await.unwrap();
    let other = made(from(5), "other");
    assert!(other.check_settings().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_cannot_write_and_versions_must_fit() {
    let (server, database) = database().await;
    database.check_version().await.unwrap();
    let reader = Database::reader(&server.url, 1, KINDS).unwrap();
    let client = reader.client().await.unwrap();
    for read in [
        "SELECT count(*) FROM fee_events",
        "SELECT version FROM metadata.schema_version",
    ] {
        client.query(read, &[]).await.unwrap();
    }
    // Also where it may begin a transaction that writes.
    client
        .batch_execute("SET default_transaction_read_only = off")
        .await
        .unwrap();
    for write in [
        "INSERT INTO chains VALUES (1, 'a')",
        "UPDATE processing_state SET last_safe_block = 9",
        "DELETE FROM fee_event_rows",
        "TRUNCATE fee_event_rows",
        "DROP VIEW fee_events",
        "CREATE TABLE mine (a int)",
        "CREATE TABLE metadata.mine (a int)",
    ] {
        let error = client.batch_execute(write).await.unwrap_err();
        let code = error.code().unwrap().code().to_owned();
        assert_eq!(code, "42501", "{write}: {error:?}");
    }
    let older = "DELETE FROM refinery_schema_history WHERE version = \
        (SELECT max(version) FROM refinery_schema_history)";
    database
        .client()
        .await
        .unwrap()
        .batch_execute(older)
        .await
        .unwrap();
    let error = database.check_version().await.unwrap_err();
    assert!(matches!(error, Error::Schema { .. }), "{error}");
    assert!(error.to_string().contains("chronolith db init"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_setup_is_reported_as_such() {
    let server = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    for database in [
        Database::writer(&server.url, 2, KINDS),
        Database::reader(&server.url, 2, KINDS),
    ] {
        let error = database.unwrap().client().await.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Schema { found: 0, .. }), "{error}");
        assert!(error.to_string().contains("chronolith db init"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_partitions_go_only_when_everything_in_them_is_dropped() {
    let (_server, database) = database().await;
    let chain = TestChain::new(12).await;
    let one = projector(&database, &chain, "one");
    one.register(support::GENESIS_TIME).await.unwrap();
    // This month and the next three are there from the start, and no others.
    let there = "SELECT string_agg(relname::text, ' ' ORDER BY relname) FROM pg_class \
        WHERE relkind = 'r' AND relname LIKE 'fee\\_events\\_c12\\_%'";
    let client = database.client().await.unwrap();
    let there: String = client.query_one(there, &[]).await.unwrap().get(0);
    let months = ["02", "03", "04", "05"].map(|month| format!("fee_events_c12_2024_{month}"));
    assert_eq!(there, months.join(" "));
    drop(client);
    let mut following = Following::default();
    chain.extend(0, &[]);
    for number in 1..5 {
        chain.extend(0, &[number]);
    }
    one.follow(&mut following).await.unwrap();
    chain.roll_back(4);
    for _ in 0..60 {
        chain.extend(1, &[]);
    }
    for number in 0..5 {
        chain.extend(1, &[500 + number]);
    }
    one.follow(&mut following).await.unwrap();
    chain.finalize(65).await;
    one.follow(&mut following).await.unwrap();
    let rows = stored(&database, 12).await;
    assert!(
        rows.iter().any(|row| row.6 == "dropped") && rows.iter().any(|row| row.6 == "confirmed")
    );
    // 2024-02 has dropped rows only, 2024-03 has confirmed ones.
    let seven_months = support::GENESIS_TIME + 214 * 86_400;
    for (dry_run, left) in [
        (true, rows.len()),
        (
            false,
            rows.iter().filter(|row| row.6 == "confirmed").count(),
        ),
    ] {
        let pruned = partitions::prune(&database, seven_months + 31 * 86_400, dry_run)
            .await
            .unwrap();
        let of = |name: &str| {
            pruned
                .iter()
                .find(|one| one.partition == name)
                .unwrap()
                .outcome
        };
        assert_eq!(of("fee_events_c12_2024_02"), "dropped");
        assert_eq!(of("fee_events_c12_2024_03"), "kept");
        assert_eq!(stored(&database, 12).await.len(), left, "dry run {dry_run}");
    }
    // A partition that is gone comes back when it is needed.
    let made = partitions::create(&database, &[12], "2024-02".parse().unwrap())
        .await
        .unwrap();
    let stems = [
        "fee_events",
        "adfs_events",
        "tx_inputs",
        "feed_updates",
        "ring_buffer_updates",
    ];
    assert_eq!(made, stems.map(|stem| format!("{stem}_c12_2024_02")));
    assert_eq!(
        partitions::create(&database, &[12], "2024-02".parse().unwrap())
            .await
            .unwrap(),
        Vec::<String>::new()
    );
}
