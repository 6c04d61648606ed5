//! Numbered pages of fees beside all rows, one by one; and the status of rows beside its definition.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "../../projection/tests/support/mod.rs"]
mod support;

use chronolith_model::Order;
use chronolith_projection::{Database, Month, partitions};
use chronolith_projection_fees as fees;
use chronolith_projection_fees::{FeeFilter, FeeRequest};
use support::{GENESIS_TIME, database, number};

const CHAIN: u64 = 31_337;

/// Three events a block, one of them no collected fee, from a month into the next; one block with more of
/// them than are looked through at once. Every hundredth block has a sibling that was dropped, and so have
/// two at the ends.
async fn fill(database: &Database) {
    for months in 0..2 {
        let month = Month::of(GENESIS_TIME).plus(months);
        partitions::create(database, &[CHAIN], month).await.unwrap();
    }
    let rows = "INSERT INTO fee_event_rows (chain_id, block_number, block_hash, block_timestamp, tx_hash, \
        log_index, position, event, contract, token, integrator, integrator_fee, lifi_fee) \
        SELECT 31337, block, sha256(int8send(block + fork * 1000000)), \
            to_timestamp(1709250600 + block + fork * 3), sha256(int8send(block * 100000 + log)), log, 0, \
            (CASE WHEN log % 3 = 1 THEN 'FeesWithdrawn' ELSE 'FeesCollected' END)::fee_event, \
            substr(sha256('a'), 1, 20), substr(sha256('b'), 1, 20), substr(sha256('c'), 1, 20), 1, 2 ";
    let sql = format!(
        "SET TIME ZONE 'UTC'; \
         INSERT INTO chains VALUES (31337, 'one'); \
         INSERT INTO processing_state (chain_id, last_seen_block, last_safe_block) \
            VALUES (31337, 5999, 5900); \
         {rows} FROM generate_series(0, 5999) block, generate_series(0, 2) log, (SELECT 0 AS fork) f; \
         {rows} FROM generate_series(3500, 3500) block, generate_series(3, 18000) log, (SELECT 0 AS fork) f; \
         {rows} FROM generate_series(0, 5999) block, generate_series(0, 2) log, (SELECT 1 AS fork) f \
            WHERE block % 100 = 0 OR block IN (3500, 3501, 5999); \
         INSERT INTO dropped_blocks SELECT DISTINCT chain_id, block_hash, block_number, block_timestamp \
            FROM fee_event_rows WHERE block_hash = sha256(int8send(block_number + 1000000)); \
         ANALYZE fee_event_rows"
    );
    let client = database.client().await.unwrap();
    client.batch_execute(&sql).await.unwrap();
}

/// Every collected fee of no dropped block, newest first.
async fn all(database: &Database) -> Vec<(u64, u32)> {
    let sql = "SELECT r.block_number, r.log_index FROM fee_event_rows r LEFT JOIN dropped_blocks d \
        ON d.chain_id = r.chain_id AND d.block_hash = r.block_hash \
        WHERE r.event = 'FeesCollected' AND d.block_hash IS NULL ORDER BY 1 DESC, 2 DESC, r.position DESC";
    let rows = database.client().await.unwrap().query(sql, &[]).await;
    let row =
        |row: &tokio_postgres::Row| (row.get::<_, i64>(0) as u64, row.get::<_, i32>(1) as u32);
    rows.unwrap().iter().map(row).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_its_part_of_all_rows() {
    let (_server, database) = database().await;
    fill(&database).await;
    let all = all(&database).await;
    assert!(all.len() > 20_000, "{}", all.len());
    let pages = all.len().div_ceil(100) as u64 + 2;
    for page in 1..=pages {
        let got = fees::page(&database, CHAIN, page, 100).await.unwrap();
        assert_eq!(got.total, all.len() as u64);
        let rows = got.rows.iter().map(|row| (row.at.block, row.at.log_index));
        let wanted = all.chunks(100).nth(page as usize - 1).unwrap_or_default();
        assert_eq!(rows.collect::<Vec<_>>(), wanted, "page {page} of {pages}");
    }
    // Of another length, so that pages begin elsewhere; and where there is nothing.
    for page in [2, 31, 308, 329, 330, 500, 1_000, 2_857] {
        let got = fees::page(&database, CHAIN, page, 7).await.unwrap();
        let rows = got.rows.iter().map(|row| (row.at.block, row.at.log_index));
        let wanted = all.chunks(7).nth(page as usize - 1).unwrap_or_default();
        assert_eq!(rows.collect::<Vec<_>>(), wanted, "page {page}");
    }
    let none = fees::page(&database, 1, 1, 100).await.unwrap();
    assert_eq!((none.total, none.rows.len()), (0, 0));
}

/// More events than are read in order: tokens that are everywhere, at both ends, in the middle, nowhere.
async fn fill_tokens(database: &Database) {
    let month = Month::of(GENESIS_TIME).plus(1);
    partitions::create(database, &[CHAIN], month).await.unwrap();
    let sql = "INSERT INTO chains VALUES (31337, 'one'); \
        INSERT INTO processing_state (chain_id, last_seen_block, last_safe_block) VALUES (31337, 239999, 239999); \
        INSERT INTO projections (chain_id, projection, start_block, next_block, settings) \
            VALUES (31337, 'fees', 0, 240000, '{}'); \
        INSERT INTO fee_event_rows (chain_id, block_number, block_hash, block_timestamp, tx_hash, log_index, \
            position, event, contract, token, integrator, integrator_fee, lifi_fee) \
        SELECT 31337, block, sha256(int8send(block)), to_timestamp(1709337600 + block * 10), \
            sha256(int8send(-block)), 0, 0, 'FeesCollected', substr(sha256('a'), 1, 20), \
            substr(sha256(CASE WHEN block % 200000 < 3 THEN 'ends' WHEN block BETWEEN 120000 AND 120040 THEN \
                'middle' WHEN block % 1000 = 7 THEN 'everywhere' ELSE 'most' END::bytea), 1, 20), \
            substr(sha256('c'), 1, 20), 1, 2 \
        FROM generate_series(0::bigint, 239999) block; \
        INSERT INTO dropped_blocks SELECT chain_id, block_hash, block_number, block_timestamp \
            FROM fee_event_rows WHERE block_number IN (1, 120020, 7007)";
    let client = database.client().await.unwrap();
    client.batch_execute(sql).await.unwrap();
    client
        .batch_execute("VACUUM ANALYZE fee_event_rows")
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_found_wherever_it_is() {
    let (_server, database) = database().await;
    fill_tokens(&database).await;
    let client = database.client().await.unwrap();
    for (name, rows) in [
        ("ends", 5),
        ("middle", 40),
        ("everywhere", 238),
        ("nowhere", 0),
    ] {
        let truth = "SELECT block_number, substr(sha256($1), 1, 20) FROM fee_event_rows \
            WHERE token = substr(sha256($1), 1, 20) AND block_number NOT IN (1, 120020, 7007) ORDER BY 1";
        let truth = client.query(truth, &[&name.as_bytes()]).await.unwrap();
        assert_eq!(truth.len(), rows, "{name}");
        let token = "SELECT substr(sha256($1), 1, 20)";
        let token = client.query_one(token, &[&name.as_bytes()]).await.unwrap();
        let token: Vec<u8> = token.get(0);
        let mut blocks: Vec<u64> = truth
            .iter()
            .map(|row| row.get::<_, i64>(0) as u64)
            .collect();
        for order in [Order::Ascending, Order::Descending] {
            let mut request = FeeRequest {
                filter: FeeFilter {
                    token: Some(token.as_slice().try_into().unwrap()),
                    ..FeeFilter::default()
                },
                order,
                limit: 30,
                after: None,
            };
            let mut found = Vec::new();
            loop {
                let part = fees::list(&database, &request).await.unwrap();
                found.extend(part.items.iter().map(|row| row.at.block));
                request.after = part.next;
                if part.next.is_none() {
                    break;
                }
            }
            assert_eq!(found, blocks, "{name} {order:?}");
            let sums = FeeRequest {
                filter: request.filter.clone(),
                order,
                limit: 1_000,
                after: None,
            };
            let sums = fees::totals(&database, &sums).await.unwrap();
            let events: u64 = sums.items.iter().map(|sum| sum.events).sum();
            assert_eq!(events, rows as u64, "{name} {order:?}");
            blocks.reverse();
        }
    }
}

/// Rows of the view that have another status than their block, by the three lines of the definition.
const WRONG: &str = "SELECT count(*) FROM fee_events e LEFT JOIN dropped_blocks d \
    ON d.chain_id = e.chain_id AND d.block_hash = e.block_hash \
    JOIN processing_state s ON s.chain_id = e.chain_id \
    WHERE e.status IS DISTINCT FROM CASE WHEN d.block_hash IS NOT NULL THEN 'dropped'::adfs_state \
        WHEN e.block_number <= s.last_safe_block THEN 'confirmed' ELSE 'pending' END";

#[tokio::test(flavor = "multi_thread")]
async fn status_is_as_defined_however_blocks_came_to_be_dropped() {
    let (_server, database) = database().await;
    fill(&database).await;
    let client = database.client().await.unwrap();
    let dropped = "SELECT count(*) FROM fee_events WHERE status = 'dropped'";
    // One of the siblings is that of a block with many events more.
    let siblings = number(&database, dropped).await;
    assert_eq!(siblings, 62 * 3);
    assert_eq!(number(&database, WRONG).await, 0);
    for change in [
        // A block that was dropped comes back, and goes again.
        "DELETE FROM dropped_blocks WHERE block_number = 5900",
        "INSERT INTO dropped_blocks SELECT DISTINCT chain_id, block_hash, block_number, block_timestamp \
            FROM fee_event_rows WHERE block_number = 5900 ON CONFLICT DO NOTHING",
        // One of a height whose bit others may have set, and one that no row is of.
        "INSERT INTO dropped_blocks SELECT DISTINCT chain_id, block_hash, block_number, block_timestamp \
            FROM fee_event_rows WHERE block_number BETWEEN 10 AND 20",
        "INSERT INTO dropped_blocks VALUES (31337, sha256('nobody'), 8192 + 31, now())",
        "UPDATE processing_state SET last_safe_block = 5950",
        // The chain is written down again, and what was dropped stays so.
        "CREATE TABLE kept AS SELECT * FROM processing_state; DELETE FROM processing_state; \
            INSERT INTO processing_state (chain_id, last_seen_block, last_safe_block) \
            SELECT chain_id, last_seen_block, last_safe_block FROM kept",
    ] {
        client.batch_execute(change).await.unwrap();
        assert_eq!(number(&database, WRONG).await, 0, "{change}");
    }
    assert_eq!(
        number(&database, dropped).await,
        siblings + 3 + 11 * 3,
        "a sibling's block and eleven more"
    );
}
