//! A fee collector out of the environment alone: every variable of the fee document works, or is named.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use chronolith_sim::evm::{EvmNode, EvmSpec, FeesSpec, RpcOptions, RpcServer};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use serde_json::Value;
use support::{Bench, PATIENCE, Running, serve};
use tokio_postgres::NoTls;

/// The contract of the simulator that collects fees.
const CONTRACT: &str = "0xbd6c7b0d2f68c2b7805d88388319cfb6ecb50ea9";
/// Nothing listens there: projections wait.
const NO_DATABASE: &str = "postgres://nobody@127.0.0.1:1/none";
/// The admin port where none is set.
const ADMIN_PORT: &str = "9465";

type Variables<'a> = Vec<(&'a str, &'a str)>;

fn node(blocks: u64) -> EvmNode {
    let spec = EvmSpec::tiny(17).with_fees(FeesSpec::per_thousand_blocks(1_500));
    EvmNode::new(spec, blocks)
}

/// The variables of a collector, after which others count more.
fn collector<'a>(url: &'a str, database: &'a str, more: &[(&'a str, &'a str)]) -> Variables<'a> {
    let mut variables = vec![
        ("ACTIVE_CHAIN", "31337"),
        ("RPC_URL", url),
        ("CONTRACT_ADDRESS", CONTRACT),
        ("START_POINT", "20"),
        ("PG_URL", database),
        ("API_PORT", "0"),
    ];
    variables.extend(more);
    variables
}

async fn served_head(bench: &Bench) -> Option<u64> {
    let url = format!("{}/v1/indexing-status", bench.public());
    let text = reqwest::get(url).await.unwrap().text().await.unwrap();
    let status: Value = serde_json::from_str(&text).unwrap();
    status[0]["lastIndexedBlock"].as_u64()
}

async fn until_head(bench: &Bench, number: u64) {
    let began = Instant::now();
    while served_head(bench).await != Some(number) {
        assert!(began.elapsed() < PATIENCE, "block {number} did not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// When the node was next called for blocks.
async fn next_look(server: &RpcServer) -> Instant {
    let calls = || server.stats().calls.get("eth_getBlockByNumber").copied();
    let (before, began) = (calls(), Instant::now());
    while calls() == before {
        assert!(began.elapsed() < PATIENCE, "no call came");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let at = Instant::now();
    // The calls of one look come together.
    loop {
        let seen = calls();
        tokio::time::sleep(Duration::from_millis(50)).await;
        if calls() == seen {
            return at;
        }
    }
}

/// A look a second went out whatever was set: sixty times what a user of a metered provider wanted.
#[tokio::test(flavor = "multi_thread")]
async fn new_blocks_are_looked_for_as_often_as_the_variables_say() {
    const REALTIME: Duration = Duration::from_millis(2_500);
    let node = node(100);
    let server = serve(&node, RpcOptions::default()).await;
    let url = server.url();
    let near = [("REALTIME_POLL_INTERVAL_MS", "2500"), ("BATCH_SIZE", "10")];
    let far = [("HISTORICAL_POLL_INTERVAL_MS", "10")];
    let bench = Bench::without_file();
    let set = collector(&url, NO_DATABASE, &[near[0], near[1], far[0]]);
    let running = bench.start_plain(&["run"], &set);
    until_head(&bench, 100).await;
    // The round that came so far is over, and one that found nothing new.
    next_look(&server).await;
    let first = next_look(&server).await;
    next_look(&server).await;
    let third = next_look(&server).await;
    let took = third - first;
    // It was seen a moment late.
    let seen_late = Duration::from_millis(500);
    assert!(took + seen_late >= REALTIME * 2, "{took:?}");
    running.stop();
}

/// Far behind the head the other interval counts: with that of the head, nothing would come for ten minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_is_far_behind_is_looked_at_as_often_as_its_variable_says() {
    let node = node(100);
    let server = serve(&node, RpcOptions::default()).await;
    let url = server.url();
    let intervals = [
        ("HISTORICAL_POLL_INTERVAL_MS", "3000"),
        ("REALTIME_POLL_INTERVAL_MS", "600000"),
        ("BATCH_SIZE", "10"),
    ];
    let bench = Bench::without_file();
    let running = bench.start_plain(&["run"], &collector(&url, NO_DATABASE, &intervals));
    until_head(&bench, 100).await;
    // Five times the blocks of a job: it is far behind again.
    for head in [160, 220] {
        node.mine(60);
        until_head(&bench, head).await;
    }
    running.stop();
}

async fn number(database: &TempPostgres, sql: &str) -> i64 {
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls).await.unwrap();
    let driven = tokio::spawn(connection);
    let row = client.query_one(sql, &[]).await.unwrap();
    driven.abort();
    row.get(0)
}

/// Any other value was an error, although the document calls it the cursor of the first run.
#[tokio::test(flavor = "multi_thread")]
async fn the_start_point_is_for_the_first_run_only() {
    let node = node(300);
    let server = serve(&node, RpcOptions::default()).await;
    let url = server.url();
    let database = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    let bench = Bench::without_file();
    bench.say_plain(&["db", "init"], &collector(&url, &database.url, &[]));
    let start = "SELECT start_block FROM projections WHERE projection = 'fees'";
    let rows = "SELECT count(*) FROM fee_event_rows";
    let mut known = None;
    // Another machine has no archive: the rows of the database are the cursor.
    for (point, data) in [
        ("20", "a"),
        ("20", "a"),
        ("50", "a"),
        ("5", "a"),
        ("50", "b"),
    ] {
        let more = [("START_POINT", point), ("DATA_DIR", data)];
        let set = collector(&url, &database.url, &more);
        let output = bench
            .plain(&["run", "--until-caught-up"], &set)
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{point} {data}: {log}");
        let kept = support::events(&log, "start_point_kept").len();
        assert_eq!(kept, usize::from(point != "20"), "{point}: {log}");
        assert_eq!(number(&database, start).await, 20);
        let rows = number(&database, rows).await;
        assert!(rows > 0 && *known.get_or_insert(rows) == rows, "{rows}");
    }
    // Workers take the rows as they are, too.
    let set = collector(
        &url,
        &database.url,
        &[("START_POINT", "7"), ("DATA_DIR", "a")],
    );
    bench.say_plain(&["work", "--until-done"], &set);
}

/// The start of the first run was looked up once: where the database did not answer then, its rows were refused
/// until the next start.
#[tokio::test(flavor = "multi_thread")]
async fn the_start_of_the_first_run_counts_when_the_database_answers_later() {
    const ROWS: &str = "SELECT count(*) FROM fee_event_rows";
    let node = node(300);
    let server = serve(&node, RpcOptions::default()).await;
    let url = server.url();
    let database = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    let bench = Bench::without_file();
    let first = collector(&url, &database.url, &[("DATA_DIR", "a")]);
    bench.say_plain(&["db", "init"], &first);
    bench.say_plain(&["run", "--until-caught-up"], &first);
    // Other machines, which have no archive: one begins above the rows, one below them.
    for (runs, point) in ["50", "5"].into_iter().enumerate() {
        let known = number(&database, ROWS).await;
        assert!(known > 0);
        database.kill().unwrap();
        let more = [
            ("START_POINT", point),
            ("DATA_DIR", point),
            ("REALTIME_POLL_INTERVAL_MS", "50"),
            ("HISTORICAL_POLL_INTERVAL_MS", "50"),
        ];
        let running = bench.start_plain(&["run"], &collector(&url, &database.url, &more));
        let waits = || bench.count("projections_wait_for_database") > runs;
        bench.wait("projections that wait", waits);
        let listens = || bench.count("public_listening") > runs;
        bench.wait("the listener of this run", listens);
        until_head(&bench, node.head().number).await;
        database.restart().unwrap();
        let kept = || bench.count("start_point_kept") > runs;
        bench.wait("the start of the rows", kept);
        // Blocks of the rows that this machine did not begin with are fetched, and rows go on.
        let old = node.block(30).unwrap().to_model().clock;
        let time = old.timestamp + 1;
        let before = format!("{}/v1/chains/31337/block/before/{time}", bench.public());
        node.mine(40);
        let began = Instant::now();
        loop {
            let text = reqwest::get(&before).await.unwrap().text().await.unwrap();
            let found: Value = serde_json::from_str(&text).unwrap();
            let rows = number(&database, ROWS).await;
            if found["number"] == old.number && rows > known {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "{found}, {rows} rows");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let start = "SELECT start_block FROM projections WHERE projection = 'fees'";
        assert_eq!(number(&database, start).await, 20);
        running.stop();
    }
}

/// One that runs beside others, in a directory of its own and without a port for its admin listener.
struct Neighbour {
    bench: Bench,
    server: RpcServer,
    running: Running,
}

impl Neighbour {
    async fn start(blocks: u64) -> Self {
        let server = serve(&node(blocks), RpcOptions::default()).await;
        let url = server.url();
        let bench = Bench::without_file();
        let unused = [
            ("ADMIN_PORT", ""),
            ("MONGO_URI", "mongodb://user:SECRET@host/db"),
            ("DEV_MULTIPLE_WORKERS", "true"),
        ];
        let running = bench.start_plain(&["run"], &collector(&url, NO_DATABASE, &unused));
        until_head(&bench, blocks).await;
        Self {
            bench,
            server,
            running,
        }
    }

    fn admin(&self) -> String {
        let listening = || self.bench.events("admin_listening").pop();
        self.bench
            .wait("the admin listener", || listening().is_some());
        let listening = listening().unwrap();
        listening["listen"].as_str().unwrap().to_owned()
    }

    /// Its commands find it and no other: only a program that runs knows its endpoints.
    #[track_caller]
    fn assert_found(&self) {
        let url = self.server.url();
        let set = collector(&url, NO_DATABASE, &[]);
        let state = self.bench.say_plain(&["state", "--json"], &set);
        let state: Value = serde_json::from_str(&state).unwrap();
        assert_eq!(state[0]["chainId"], 31_337, "{state}");
        let endpoints = state[0]["endpoints"].as_array().unwrap();
        let names: Vec<&str> = endpoints
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        assert_eq!(names, [address]);
    }
}

/// A second one did not start where no file could give it another admin port.
#[tokio::test(flavor = "multi_thread")]
async fn two_collectors_share_a_machine() {
    // Where this fails, another program has the port, which is as good.
    let _taken = TcpListener::bind(format!("127.0.0.1:{ADMIN_PORT}"));
    let (first, second) = (Neighbour::start(100).await, Neighbour::start(150).await);
    let admin = [first.admin(), second.admin()];
    let has_default = |address: &String| address.ends_with(&format!(":{ADMIN_PORT}"));
    assert!(!admin.iter().any(has_default), "{admin:?}");
    assert_ne!(admin[0], admin[1]);
    first.assert_found();
    second.assert_found();
    let Neighbour {
        bench,
        server,
        running,
    } = first;
    let url = server.url();
    let notes = bench.events("setting_not_used");
    assert_eq!(notes.len(), 1, "{notes:?}");
    let note = notes[0]["message"].as_str().unwrap();
    for word in [
        "MONGO_URI",
        "PG_URL",
        "DEV_MULTIPLE_WORKERS",
        "chronolith work",
    ] {
        assert!(note.contains(word), "{note}");
    }
    assert!(!bench.log().contains("SECRET"), "{}", bench.log());
    running.stop();
    // The other one goes on.
    second.assert_found();
    second.running.stop();
    // One that was asked for is used or refused.
    let asked = collector(
        &url,
        NO_DATABASE,
        &[("ADMIN_PORT", ADMIN_PORT), ("DATA_DIR", "b")],
    );
    let message = bench.refused_plain(&["run"], &asked);
    assert!(message.contains("ADMIN_PORT"), "{message}");
}

/// Each of them logged a line: anybody could fill the disk.
#[tokio::test(flavor = "multi_thread")]
async fn requests_for_fees_log_one_line_a_minute_while_the_database_is_away() {
    let node = node(30);
    let server = serve(&node, RpcOptions::default()).await;
    let url = server.url();
    let bench = Bench::without_file();
    let running = bench.start_plain(&["run"], &collector(&url, NO_DATABASE, &[]));
    let public = bench.public();
    bench.wait("the fees", || bench.has("fees_listening"));
    let fees = bench.events("fees_listening");
    let fees = fees[0]["listen"].as_str().unwrap();
    // Lists of the API, and pages of the fee document.
    let urls = [
        format!("{public}/fees?chainId=31337"),
        format!("http://{fees}/fees"),
    ];
    let began = Instant::now();
    for url in urls.iter().cycle().take(100) {
        let status = reqwest::get(url).await.unwrap().status();
        assert!(status.is_server_error(), "{url}: {status}");
    }
    let minutes = began.elapsed().as_secs() / 60;
    let log = bench.log();
    let failures = ["cannot read fees", "reading fees timed out"];
    let lines = failures.map(|failure| log.matches(failure).count() as u64);
    let lines: u64 = lines.iter().sum();
    assert!((1..=1 + minutes).contains(&lines), "{lines} lines: {log}");
    running.stop();
}

/// What goes before what is said, and nothing is ignored in silence.
#[test]
fn a_file_goes_before_the_variables_and_says_so() {
    let bench = Bench::without_file();
    let set = collector("http://127.0.0.1:1", NO_DATABASE, &[]);
    let shown = bench.say_plain(&["config", "check"], &set);
    for words in [
        "the environment (ACTIVE_CHAIN) is fine",
        "Projections go to database none on 127.0.0.1:1.",
        "a look every 60s",
        "far behind, a look every 5s",
        "from block 20",
        CONTRACT,
    ] {
        assert!(shown.contains(words), "no `{words}` in {shown}");
    }
    std::fs::write(&bench.config, r#"{ "chains": ["base"] }"#).unwrap();
    let shown = bench.say_plain(&["config", "check"], &set);
    let note = "Note: set and not used: ACTIVE_CHAIN, RPC_URL, CONTRACT_ADDRESS, START_POINT";
    assert!(
        shown.contains(note) && shown.contains("base (8453)"),
        "{shown}"
    );
    assert!(!shown.contains("31337"), "{shown}");
}
