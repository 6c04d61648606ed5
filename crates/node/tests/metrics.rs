//! Metrics as a scraper sees them, while a simulated chain is followed, and the page that lists them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chronolith_model::{BlockRange, Hash32};
use chronolith_sim::evm::{
    EvmNode, EvmSpec, Faults, FeesSpec, RpcFault, RpcOptions, RpcServer, UPGRADED_TOPIC,
};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use serde_json::Value;
use support::{Bench, PATIENCE, assert_equals};

const PAGE: &str = include_str!("../../../docs/metrics.md");

/// Names in the first column of the page's tables, each in one row.
fn documented() -> BTreeSet<String> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut names = BTreeSet::new();
    for row in rows {
        let name = row.split('`').next().unwrap();
        assert!(names.insert(name.to_owned()), "{name} is listed twice");
    }
    names
}

/// Second words of all lines that begin so.
fn named<'a>(shown: &'a str, start: &str) -> BTreeSet<&'a str> {
    let lines = shown.lines().filter_map(|line| line.strip_prefix(start));
    lines.map(|line| line.split(' ').next().unwrap()).collect()
}

/// The value of a series; nothing where it is not there.
fn value(shown: &str, series: &str) -> Option<f64> {
    let found = shown.lines().find_map(|line| line.strip_prefix(series))?;
    found.trim().parse().ok()
}

/// Scrapes until a series is as wanted.
async fn until(bench: &Bench, series: &str, wanted: impl Fn(f64) -> bool) -> String {
    let began = Instant::now();
    loop {
        let (_, shown) = bench.operations("/metrics").await;
        if value(&shown, series).is_some_and(&wanted) {
            return shown;
        }
        assert!(began.elapsed() < PATIENCE, "{series} is not so in\n{shown}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_lists_what_is_exported_and_the_values_are_right() {
    // A contract that is there and has nothing to say.
    let spec = EvmSpec::tiny(31).with_fees(FeesSpec::per_thousand_blocks(0));
    let node = EvmNode::new(spec, 300);
    let faults = Faults::new(31);
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let more = format!(
        r#", "finality": {{ "mode": "depth", "confirmations": 12 }}, "rpcWs": ["{}"],
           "contractAddress": "{}", "datasets": ["headers", "logs", "tx_hashes"],
           "topicNames": {{ "1": "DataFeedsUpdated(uint256)" }},
           "alertsConfig": {{ "noEventsSeconds": 45 }}"#,
        server.ws_url(),
        hex(&FeesSpec::CONTRACT)
    );
    let bench = Bench::new(&[server.url()], &more);
    bench.change(
        r#""chains""#,
        r#""versions": { "1": { "hasBlockNumber": true } }, "chains""#,
    );
    bench.change(
        r#""chains""#,
        r#""apiKeys": {}, "accessLog": "stderr", "chains""#,
    );
    let database = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    bench.say(&["db", "init", "--admin-url", &database.url]);
    let running = bench.start_with(&["run"], &[("PG_URL", &database.url)]);
    bench.wait_for_listener();
    bench.until_health("readiness", |code, _| code == 200).await;
    let list = reqwest::get(format!("{}/v1/chains", bench.public())).await;
    assert_eq!(list.unwrap().status(), 200);
    node.reorg(5);
    node.mine(2);
    until(
        &bench,
        r#"chronolith_reorgs_total{chain="31337"}"#,
        |count| count == 1.0,
    )
    .await;
    faults.always(RpcFault::Http429Bare);
    let endpoint = server.url().replace("http://", "").replace('/', "");
    let limited =
        format!(r#"chronolith_rate_limited_total{{chain="31337",endpoint="{endpoint}"}}"#);
    until(&bench, &limited, |count| count > 0.0).await;
    faults.clear();
    let head = node.mine(40).number;
    // Counted last of all that happens to a block.
    let blocks = (head - 11) as f64;
    let proven = r#"chronolith_verified_blocks_total{chain="31337",level="roots"}"#;
    until(&bench, proven, |count| count == blocks).await;
    // Those that wait for finality may still be on their way.
    let waiting = r#"chronolith_tail_blocks{chain="31337"}"#;
    let shown = until(&bench, waiting, |blocks| blocks == 12.0).await;

    assert_listed(&shown);
    assert_values(&shown, &node);
    assert_standing(&shown, head, 0);
    // New blocks are seen, and none can be proven.
    faults.always(RpcFault::NullReceipts);
    node.mine(3);
    let lag = r#"chronolith_lag_blocks{chain="31337"}"#;
    let shown = until(&bench, lag, |blocks| blocks == 3.0).await;
    assert_standing(&shown, head, 3);
    running.stop();
}

/// The page and the scrape name the same metrics, of the same kinds, and each has its help.
#[track_caller]
fn assert_listed(shown: &str) {
    let exported: BTreeSet<String> = named(shown, "# TYPE ")
        .iter()
        .map(|name| (*name).to_owned())
        .collect();
    let documented = documented();
    // Those of projections appear once something counts under them.
    let (everywhere, projections) = PAGE.split_once("## Projections").unwrap();
    assert!(projections.contains("chronolith_database_up"));
    let missing = documented.difference(&exported);
    let missing: Vec<_> = missing
        .filter(|name| everywhere.contains(&format!("| `{name}` |")))
        .collect();
    let unlisted: Vec<_> = exported.difference(&documented).collect();
    assert!(missing.is_empty(), "listed and not exported: {missing:?}");
    assert!(unlisted.is_empty(), "exported and not listed: {unlisted:?}");
    let described: BTreeSet<&str> = named(shown, "# HELP ");
    let silent = exported
        .iter()
        .filter(|name| !described.contains(name.as_str()));
    assert_eq!(silent.collect::<Vec<_>>(), Vec::<&String>::new());
    for line in shown
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
    {
        let (name, kind) = line.split_once(' ').unwrap();
        let row = PAGE
            .lines()
            .find(|row| row.starts_with(&format!("| `{name}` |")));
        assert!(
            row.unwrap().contains(&format!("| {kind} |")),
            "{name} is a {kind}"
        );
    }
}

#[track_caller]
fn assert_values(shown: &str, node: &EvmNode) {
    let head = node.head().number;
    let blocks = (head - 11) as f64;
    let of = |series: &str| {
        let found = value(shown, series);
        found.unwrap_or_else(|| panic!("no {series} in\n{shown}"))
    };
    let chain = |name: &str| of(&format!(r#"{name}{{chain="31337"}}"#));
    assert_eq!(chain("chronolith_archive_ingested_blocks_total"), blocks);
    assert_eq!(chain("chronolith_archived_block"), blocks - 1.0);
    assert_eq!(
        of(r#"chronolith_verified_blocks_total{chain="31337",level="linked"}"#),
        0.0
    );
    assert_eq!(chain("chronolith_unverified_blocks"), 0.0);
    assert_eq!(chain("chronolith_reorg_depth_blocks_sum"), 5.0);
    assert!(chain("chronolith_gap_wait_seconds_count") >= 3.0);
    assert!(chain("chronolith_backfill_range_blocks_sum") >= 250.0);
    assert_eq!(chain("chronolith_head_subscription_up"), 1.0);
    assert_eq!(chain("chronolith_head_subscription_down_seconds"), 0.0);
    assert_eq!(chain("chronolith_alert_no_events_seconds"), 45.0);
    assert_eq!(chain("chronolith_alert_max_lag_blocks"), 64.0);
    assert_eq!(chain("chronolith_ready"), 1.0);
    let logs: usize = (0..head - 11)
        .map(|at| node.block(at).unwrap().to_model().logs.len())
        .sum();
    assert_eq!(chain("chronolith_archive_ingested_logs_total"), logs as f64);
    let calls = |outcome: &str| {
        of(&format!(
            r#"adfs_indexer_rpc_requests_total{{chain="31337",method="eth_getBlockByNumber",outcome="{outcome}"}}"#
        ))
    };
    assert!(calls("success") > blocks && calls("error") > 0.0);
    assert_eq!(
        of(r#"adfs_indexer_reorgs_total{chain="31337",status="dropped"}"#),
        1.0
    );
    assert!(chain("adfs_indexer_bytes_ingested_total") > 0.0);
    // Calls that we make and calls that we answer are counted apart.
    let lines = shown.lines();
    let mut made = lines.filter(|line| line.starts_with("chronolith_rpc_requests_total{"));
    assert!(made.all(|line| line.contains("endpoint=\"")));
    for name in [
        "resident_memory_bytes",
        "cpu_seconds_total",
        "open_fds",
        "threads",
    ] {
        assert!(of(&format!("process_{name}")) > 0.0, "{name}");
    }
    assert!(of("process_start_time_seconds") > 1.7e9);
    assert!(of("chronolith_data_dir_free_bytes") > 0.0);
}

/// Where the chain stands, under both names: we are at `ours`, and the source is some blocks further.
#[track_caller]
fn assert_standing(shown: &str, ours: u64, behind: u64) {
    let seen = (ours + behind) as f64;
    for (name, theirs, expected) in [
        ("lag_blocks", "events_lag_blocks", behind as f64),
        (
            "finality_lag_blocks",
            "finality_lag_blocks",
            (12 + behind) as f64,
        ),
        (
            "backfill_progress",
            "backfill_progress",
            (ours - 12) as f64 / seen,
        ),
        ("tail_blocks", "queue_depth", 12.0),
    ] {
        let of = |name: String| value(shown, &format!(r#"{name}{{chain="31337"}}"#));
        let found = (
            of(format!("chronolith_{name}")),
            of(format!("adfs_indexer_{theirs}")),
        );
        assert_eq!(found, (Some(expected), Some(expected)), "{name}\n{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_without_a_contract_has_our_names_alone_and_losses_are_counted() {
    let node = EvmNode::new(EvmSpec::tiny(32), 30);
    let faults = Faults::new(32);
    let options = RpcOptions {
        faults: faults.clone(),
        ..RpcOptions::default()
    };
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let more = format!(
        r#", "rpcWs": ["{}"], "verification": "linked""#,
        server.ws_url()
    );
    let finality = r#", "finality": { "mode": "depth", "confirmations": 5 }"#;
    let bench = Bench::new(&[server.url()], &(more + finality));
    let running = bench.start();
    bench.wait_for_listener();
    let up = r#"chronolith_head_subscription_up{chain="31337"}"#;
    until(&bench, up, |up| up == 1.0).await;
    faults.always(RpcFault::WsDrop);
    node.mine(1);
    let lost = r#"chronolith_head_subscription_reconnects_total{chain="31337"}"#;
    until(&bench, lost, |count| count > 0.0).await;
    let down = r#"chronolith_head_subscription_down_seconds{chain="31337"}"#;
    until(&bench, down, |seconds| seconds > 0.0).await;
    faults.clear();
    until(&bench, up, |up| up == 1.0).await;
    until(&bench, down, |seconds| seconds == 0.0).await;
    let unproven = r#"chronolith_unverified_blocks{chain="31337"}"#;
    let shown = until(&bench, unproven, |blocks| blocks == 27.0).await;
    assert!(!shown.contains("adfs_"), "{shown}");
    running.stop();
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    format!("0x{}", digits.collect::<String>())
}

/// Fees that are projected, beside an ADFS contract whose implementation nobody named.
fn projecting(node: &EvmNode, server: &RpcServer) -> Bench {
    let first = node.block(1).unwrap().to_model();
    let upgraded = |log: &&chronolith_model::Log| log.topics().any(|topic| topic == UPGRADED_TOPIC);
    let proxy = first.logs.iter().find(upgraded).unwrap();
    let more = format!(
        r#", "finality": {{ "mode": "depth", "confirmations": 5 }}, "contractAddress": "{}",
           "fees": {{ "contracts": ["{}"] }}, "topicNames": {{ "1": "DataFeedsUpdated(uint256)" }}"#,
        hex(proxy.emitter()),
        hex(&FeesSpec::CONTRACT)
    );
    let bench = Bench::new(&[server.url()], &more);
    bench.change(
        r#""chains""#,
        r#""versions": { "1": { "hasBlockNumber": true } }, "chains""#,
    );
    bench
}

/// Blocks that are projected again bring no event, and none is counted twice.
async fn assert_replay_counts_nothing(bench: &Bench, url: [(&str, &str); 1], shown: &str) {
    let fees = r#"chain="31337",projection="fees""#;
    let confirmed = format!(r#"chronolith_projection_events_total{{{fees},status="confirmed"}}"#);
    let came = format!("chronolith_projection_last_event_timestamp_seconds{{{fees}}}");
    let worked =
        format!(r#"chronolith_database_ops_total{{{fees},op="backfill",outcome="success"}}"#);
    let [counted, came_at, times] = [&confirmed, &came, &worked].map(|one| value(shown, one));
    assert!(came_at > Some(1.7e9), "{came_at:?}");
    let words = [
        "projection",
        "replay",
        "--projection",
        "fees",
        "--from",
        "0",
        "--to",
        "50",
    ];
    let replay = bench.command(&words).envs(url).output().unwrap();
    let message = String::from_utf8_lossy(&replay.stderr).into_owned();
    assert!(replay.status.success(), "{message}");
    let again = until(bench, &worked, |count| Some(count) > times).await;
    assert_eq!(value(&again, &confirmed), counted);
    assert_eq!(value(&again, &came), came_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_projections_do_is_counted_under_both_names() {
    let mut spec = EvmSpec::tiny(33);
    spec.fees = Some(FeesSpec::per_thousand_blocks(1_500));
    spec.upgrade_every = 1_000;
    let node = EvmNode::new(spec, 60);
    let options = RpcOptions::default();
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let database = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    let url = [("PG_URL", database.url.as_str())];
    let bench = projecting(&node, &server);
    bench.say(&["db", "init", "--admin-url", &database.url]);
    let running = bench.start_with(&["run"], &url);
    bench.wait_for_listener();
    let events = |status: &str| {
        format!(
            r#"chronolith_projection_events_total{{chain="31337",projection="fees",status="{status}"}}"#
        )
    };
    let fees = |from, to| node.fees(BlockRange::new(from, to)).len() as f64;
    let head = node.head().number;
    let (confirmed, pending) = (fees(0, head - 4), fees(head - 4, head + 1));
    until(&bench, &events("confirmed"), |count| count >= confirmed).await;
    until(&bench, &events("pending"), |count| count >= pending).await;
    let gone = fees(head - 2, head + 1);
    assert!(pending >= gone && gone > 0.0, "no fee in the newest blocks");
    node.reorg(3);
    until(&bench, &events("dropped"), |count| count >= gone).await;
    // The implementation of the other contract is not known, so nothing of it is projected.
    let paused = r#"adfs_indexer_version_paused{chain="31337"}"#;
    let shown = until(&bench, paused, |paused| paused == 1.0).await;
    let of = |series: &str| {
        let found = value(&shown, series);
        found.unwrap_or_else(|| panic!("no {series} in\n{shown}"))
    };
    let both = r#"chain="31337",projection"#;
    for (projection, is_paused) in [("adfs", 1.0), ("fees", 0.0)] {
        let series = format!(r#"chronolith_projection_paused{{{both}="{projection}"}}"#);
        assert_eq!(of(&series), is_paused, "{projection}");
    }
    // A projection that is paused halts no chain: its blocks are archived.
    assert_eq!(of(r#"chronolith_halted{chain="31337"}"#), 0.0);
    assert_replay_counts_nothing(&bench, url, &shown).await;
    for lock in ["writer", "finality"] {
        let ours =
            format!(r#"chronolith_projection_lock_age_seconds{{{both}="adfs",lock="{lock}"}}"#);
        let theirs = format!(r#"adfs_indexer_lock_age_seconds{{chain="31337",lock="{lock}"}}"#);
        assert_eq!(of(&ours), of(&theirs), "{lock}");
        assert!((0.0..15.0).contains(&of(&ours)), "{lock}: {}", of(&ours));
    }
    let op = r#"op="confirm""#;
    let done = of(&format!(
        r#"chronolith_database_ops_total{{{both}="adfs",{op},outcome="success"}}"#
    ));
    assert!(done > 0.0);
    let theirs = of(&format!(
        r#"adfs_indexer_db_ops_total{{chain="31337",{op},outcome="success"}}"#
    ));
    let timed = of(&format!(
        r#"adfs_indexer_db_latency_ms_count{{chain="31337",{op}}}"#
    ));
    assert_eq!((theirs, timed), (done, done));
    assert_eq!(of("chronolith_database_up"), 1.0);
    // Another node wants the same locks, and finds them held.
    let second = projecting(&node, &server);
    let waiting = second.start_with(&["run"], &url);
    second.wait_for_listener();
    let held = r#"adfs_indexer_finality_lock_contention_total{chain="31337"}"#;
    until(&second, held, |count| count > 0.0).await;
    waiting.stop();
    running.stop();
}

/// More blocks wait for finality than are held: the head stands still and says so. When they become final it
/// continues, and nothing was left out.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_tail_pauses_ingest_is_counted_and_leaves_nothing_out() {
    const HELD: u64 = 16_384;
    let node = EvmNode::new(EvmSpec::tiny(34), HELD + 100);
    node.set_finalized_depth(HELD + 100);
    let options = RpcOptions::default();
    let server = RpcServer::start(node.clone(), options).await.unwrap();
    let finality = r#", "finality": { "mode": "finalized" }, "datasets": ["logs"]"#;
    let bench = Bench::new(&[server.url()], finality);
    let running = bench.start();
    bench.wait_for_listener();
    let waiting = r#"chronolith_tail_blocks{chain="31337"}"#;
    // It takes a while on a slow machine; only standing still is a failure.
    for part in 1..4 {
        until(&bench, waiting, |blocks| blocks > (part * HELD / 4) as f64).await;
    }
    let full = r#"chronolith_tail_full_total{chain="31337"}"#;
    let shown = until(&bench, full, |count| count > 0.0).await;
    let waiting = value(&shown, waiting);
    assert!(
        waiting.is_some_and(|blocks| blocks <= HELD as f64),
        "{shown}"
    );
    let message = |_, health: &Value| {
        health
            .to_string()
            .contains("too many blocks wait for finality")
    };
    bench.until_health("why it stands still", message).await;
    // What becomes final inside of what is held leaves at once, however full it is.
    let archived = r#"chronolith_archived_block{chain="31337"}"#;
    for _ in 0..2 {
        node.mine(10);
        let wanted = node.finalized().number as f64;
        until(&bench, archived, |number| number == wanted).await;
    }
    node.set_finalized_depth(20);
    let head = node.mine(50).number;
    for part in 1..4 {
        until(&bench, archived, |number| number > (part * HELD / 4) as f64).await;
    }
    bench.wait("the end", || bench.head() == Some(head - 20));
    running.stop();
    // Around the block where it stood; each of the others names the one before it.
    assert_equals(&bench, &node, BlockRange::new(HELD - 100, head - 19));
}

/// The numbers of all blocks whose receipts were fetched, each as often as that happened.
fn fetched(node: &EvmNode, server: &RpcServer) -> Vec<u64> {
    let calls = |body: Bytes| match serde_json::from_slice(&body).unwrap() {
        Value::Array(calls) => calls,
        one => vec![one],
    };
    let number = |call: Value| {
        let of_receipts = call["method"] == "eth_getBlockReceipts";
        let named = call["params"][0].as_str().filter(|_| of_receipts)?;
        match named.len() {
            66 => {
                let digits = |at: usize| u8::from_str_radix(&named[at..at + 2], 16).unwrap();
                let bytes: Vec<u8> = (2..66).step_by(2).map(digits).collect();
                let block = node.by_hash(Hash32::from_slice(&bytes).unwrap());
                Some(block.unwrap().to_model().clock.number)
            }
            _ => u64::from_str_radix(&named[2..], 16).ok(),
        }
    };
    let requests = server.requests().into_iter();
    requests.flat_map(calls).filter_map(number).collect()
}

/// Follows a chain whose newest blocks need more memory than there is for those that are not final, and lets
/// finality move on inside of what is held. What is final must leave at once, and make room for as much:
/// before, nothing left until finality had passed everything that was held, and then all of it was
/// fetched a second time.
async fn drains(node: &EvmNode, server: &RpcServer, bench: &Bench) {
    const STEP: u64 = 10;
    let running = bench.start();
    bench.wait_for_listener();
    let full = r#"chronolith_tail_full_total{chain="31337"}"#;
    let waiting = r#"chronolith_tail_blocks{chain="31337"}"#;
    let archived = r#"chronolith_archived_block{chain="31337"}"#;
    let mut shown = until(bench, full, |count| count > 0.0).await;
    let begins = node.finalized().number;
    // Standing still asks for nothing.
    let held = value(&shown, waiting).unwrap();
    assert!(held > (4 * STEP) as f64, "too little is held: {shown}");
    for _ in 0..4 {
        let before = value(&shown, full).unwrap();
        node.mine(STEP);
        let wanted = node.finalized().number as f64;
        until(bench, archived, |number| number == wanted).await;
        // Still full, as there is more to come than what has left.
        shown = until(bench, full, |count| count > before + 2.0).await;
        let waits = value(&shown, waiting).unwrap();
        assert!(waits > held / 2.0, "the tail was thrown away: {shown}");
    }
    let mut once = BTreeSet::new();
    let fetched = fetched(node, server);
    // The last block of what was final at the start is fetched for its parent, and then by the walk.
    let walked = fetched.iter().filter(|number| **number > begins);
    let twice: Vec<_> = walked.filter(|number| !once.insert(**number)).collect();
    assert!(twice.is_empty(), "fetched twice: {twice:?}");
    assert!(once.len() as f64 > held, "{once:?}");
    // Now finality passes everything that is held.
    node.set_finalized_depth(5);
    let head = node.head().number;
    until(bench, archived, |number| number == (head - 5) as f64).await;
    running.stop();
    assert_equals(bench, node, BlockRange::new(0, head - 4));
}

async fn recorded(node: &EvmNode) -> RpcServer {
    let options = RpcOptions {
        keeps_requests: true,
        ..RpcOptions::default()
    };
    RpcServer::start(node.clone(), options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_tail_drains_as_blocks_become_final() {
    let node = EvmNode::new(EvmSpec::tiny(35), 3_000);
    node.set_finalized_depth(2_950);
    let server = recorded(&node).await;
    let more = r#", "finality": { "mode": "finalized" }, "tailMib": 1"#;
    let bench = Bench::new(&[server.url()], more);
    drains(&node, &server, &bench).await;
}
