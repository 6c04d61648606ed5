//! The tables of ADFS as their readers see them: columns, names, helpers, and the queries of the
//! requirement, word for word.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

#[path = "../../projection/tests/support/mod.rs"]
mod support;

use std::fs;
use std::process::Command;

use chronolith_projection::{Following, Passwords, set_up};
use support::adfs::{Act, FIRST, direct, projector, settings, update};
use support::{GENESIS_TIME, TestChain, database, number};

const REQUIREMENT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../shared/requirements/adfs-indexer.md"
);

#[tokio::test(flavor = "multi_thread")]
async fn helpers_compute_what_the_contract_does() {
    let (_server, database) = database().await;
    let client = database.client().await.unwrap();
    let top = (1_u128 << 115) - 1;
    for (feed, stride, expected) in [
        (0, 0, "00000000000000000000000000000000"),
        (15, 0, "00000000000000000000000000000000"),
        (16, 0, "00000000000000000000000000000001"),
        (4_095, 0, "000000000000000000000000000000ff"),
        (1_000_004, 0, "0000000000000000000000000000f424"),
        (0, 1, "00008000000000000000000000000000"),
        (17, 1, "00008000000000000000000000000001"),
        (0, 2, "00010000000000000000000000000000"),
        (top, 0, "00007fffffffffffffffffffffffffff"),
        (top, 31, "000fffffffffffffffffffffffffffff"),
    ] {
        let sql = "SELECT encode(compute_table_index($1, $2), 'hex')";
        let id = feed.to_be_bytes().to_vec();
        let row = client.query_one(sql, &[&id, &(stride as i16)]).await;
        let found: String = row.unwrap().get(0);
        assert_eq!(found, expected, "feed {feed} of stride {stride}");
    }
    for (text, expected) in [
        ("0x1F", "0x0000000000000000000000000000001f"),
        ("", "0x00000000000000000000000000000000"),
        (
            "ffffffffffffffffffffffffffffffff",
            "0xffffffffffffffffffffffffffffffff",
        ),
    ] {
        let sql = "SELECT bytea16_to_hex(hex_to_bytea16($1))";
        let found: String = client.query_one(sql, &[&text]).await.unwrap().get(0);
        assert_eq!(found, expected, "{text}");
    }
}

/// Columns of the requirement, in its order.
const COLUMNS: &[(&str, &str)] = &[
    // The last one is ours: what events before the first upgrade were read as.
    (
        "contracts",
        "chain_id proxy_address initial_topic_hash start_block initial_version",
    ),
    (
        "proxy_versions",
        "chain_id version implementation topic_hash bytecode_hash activated_block",
    ),
    // How far calldata is proven: the last one of these two is ours.
    (
        "adfs_events",
        "chain_id block_number block_hash block_timestamp tx_hash log_index topic0 status version \
         calldata extra calldata_level",
    ),
    (
        "tx_inputs",
        "chain_id tx_hash status version selector decoded calldata_level",
    ),
    (
        "feed_updates",
        "chain_id block_number block_hash block_timestamp tx_hash log_index status version stride \
         feed_id rb_index data extra",
    ),
    (
        "ring_buffer_updates",
        "chain_id block_number block_hash block_timestamp tx_hash log_index status version \
         table_index data extra",
    ),
    // The place in the calldata decides which of two values is newer: the last one is ours.
    (
        "feed_latest",
        "chain_id feed_id stride block_number block_timestamp block_hash tx_hash log_index rb_index \
         data version extra position",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn tables_have_the_columns_indexes_and_partitions_of_the_requirement() {
    let (_server, database) = database().await;
    let client = database.client().await.unwrap();
    for (table, expected) in COLUMNS {
        let sql = "SELECT string_agg(column_name, ' ' ORDER BY ordinal_position) \
            FROM information_schema.columns WHERE table_schema = 'public' AND table_name = $1";
        let found: String = client.query_one(sql, &[table]).await.unwrap().get(0);
        assert_eq!(found, *expected, "{table}");
    }
    for index in [
        "adfs_events_block_idx",
        "adfs_events_topic_idx",
        "feed_updates_range_q_idx",
        "ring_buffer_updates_slot_latest_idx",
        "feed_latest_point_lookup_idx",
    ] {
        let sql = format!(
            "SELECT count(*) FROM pg_class WHERE relname = '{index}' AND relkind IN ('i', 'I')"
        );
        assert_eq!(number(&database, &sql).await, 1, "{index}");
    }
    let chain = TestChain::new(1).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, update(1, 1, &[(0, 1)]))]);
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    one.follow(&mut Following::default()).await.unwrap();
    for table in [
        "adfs_events",
        "tx_inputs",
        "feed_updates",
        "ring_buffer_updates",
    ] {
        let sql = format!("SELECT count(*) FROM {table}_c1_2024_02");
        assert_eq!(number(&database, &sql).await, 1, "{table}");
    }
    let known = format!(
        "SELECT count(*) FROM contracts JOIN chains USING (chain_id) WHERE start_block = 0 \
         AND proxy_address = '\\x{}' AND length(initial_topic_hash) = 32",
        "ad".repeat(20)
    );
    assert_eq!(number(&database, &known).await, 1);
    // Number and time are those of the event's block.
    let time = format!(
        "SELECT count(*) FROM feed_updates JOIN adfs_events USING (block_hash, block_timestamp) \
         WHERE block_timestamp = to_timestamp({})",
        GENESIS_TIME + 10
    );
    assert_eq!(number(&database, &time).await, 1);
    // A row that makes no sense is refused by the tables themselves.
    for (bad, table) in [
        ("rb_index = 8192", "feed_update_rows"),
        ("feed_id = '\\x00'", "feed_update_rows"),
        ("stride = 32", "feed_update_rows"),
        ("table_index = '\\x00'", "ring_buffer_update_rows"),
        ("tx_hash = '\\x00'", "adfs_event_rows"),
        ("topic0 = '\\x00'", "adfs_event_rows"),
        ("implementation = '\\x00'", "proxy_version_rows"),
    ] {
        let error = client
            .execute(&format!("UPDATE {table} SET {bad}"), &[])
            .await;
        let error = error.unwrap_err();
        let code = error.code().map(|code| code.code());
        assert_eq!(code, Some("23514"), "{table}: {bad}: {error:?}");
    }
}

/// The queries that a text shows, as they are printed.
fn printed(text: &str) -> Vec<String> {
    let blocks = text.split("```sql\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    let queries = blocks.filter(|block| block.trim_start().starts_with("SELECT"));
    queries.map(|block| block.trim().to_owned()).collect()
}

/// Values for a query, by what it asks for.
fn values(query: &str) -> &'static str {
    match query {
        query if query.contains("table_index") => "31337, hex_to_bytea16('0x01')",
        query if query.contains("make_interval") => "31337, 36500",
        query if query.contains("BETWEEN") => "31337, hex_to_bytea16('0x11'), 0::smallint, 0, 1000",
        _ => "31337, hex_to_bytea16('0x11'), 0::smallint",
    }
}

/// Consumers read rows. They write nothing, and names of people and machines are for operators.
const REFUSED: [&str; 4] = [
    "DELETE FROM feed_latest",
    "SELECT operator FROM operator_acts",
    "SELECT holder FROM lease_history",
    "SELECT error FROM jobs",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_queries_of_the_requirement_run_as_printed() {
    let Ok(text) = fs::read_to_string(REQUIREMENT) else {
        println!("skipped: ../shared is absent, there are no queries to run");
        return;
    };
    if Command::new("psql").arg("--version").output().is_err() {
        println!("skipped: there is no psql");
        return;
    }
    let (server, database) = database().await;
    let passwords = Passwords {
        reader: Some("reader".to_owned()),
        ..Passwords::default()
    };
    set_up(&server.url, &passwords).await.unwrap();
    let chain = TestChain::new(31_337).await;
    chain.send(0, &[direct(1, Act::Upgrade(FIRST))]);
    chain.send(0, &[direct(2, update(1, 1, &[(17, 5)]))]);
    chain.send(0, &[direct(3, update(1, 2, &[(17, 6), (18, 1)]))]);
    chain.send(0, &[direct(4, update(1, 3, &[(17, 7)]))]);
    let one = projector(&database, &chain, settings(), "one");
    one.register(GENESIS_TIME).await.unwrap();
    let mut following = Following::default();
    one.follow(&mut following).await.unwrap();
    chain.finalize(2).await;
    one.follow(&mut following).await.unwrap();

    let url = server.url.replace("postgres@", "sync_reader@");
    let ask = |sql: &str| {
        let mut psql = Command::new("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql, &url]);
        let output = psql.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines = String::from_utf8_lossy(&output.stdout).lines().count();
        (lines, message)
    };
    let queries = printed(&text);
    // Of the last block nothing is confirmed yet.
    let mut answers = Vec::new();
    for query in &queries {
        let query = query.trim_end_matches(';');
        let (lines, message) = ask(&format!(
            "PREPARE asked AS {query}; EXECUTE asked({})",
            values(query)
        ));
        assert_eq!(message, "", "{query}");
        answers.push(lines);
    }
    assert_eq!(answers, [1, 2, 1, 1, 2, 2, 2], "{queries:?}");
    for refused in REFUSED {
        let (_, message) = ask(refused);
        assert!(
            message.contains("permission denied"),
            "{refused}: {message}"
        );
    }
    assert_eq!(ask("SELECT id, status, attempts FROM jobs").1, "");
    for view in [
        "feed_updates_hex",
        "feed_latest_hex",
        "ring_buffer_updates_hex",
    ] {
        let sql = format!(
            "SELECT * FROM {view} WHERE table_index = '0x00000000000000000000000000000001'"
        );
        let (lines, message) = ask(&sql);
        assert!(
            message.is_empty() && lines >= 2,
            "{view}: {lines} {message}"
        );
    }
}
