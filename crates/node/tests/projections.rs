//! The program with a real database: fee events as rows, through reorgs, SIGKILL, a database that goes
//! away, workers, and two nodes that want to write.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

mod support;

use std::process::{Command, Stdio};
use std::time::Duration;

use chronolith_model::BlockRange;
use chronolith_sim::evm::{EvmNode, EvmSpec, FeeRow, FeesSpec, RpcOptions, RpcServer};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use serde_json::Value;
use support::{Bench, PATIENCE, Running, serve};
use tokio_postgres::NoTls;

/// Fees of a contract, on a chain whose blocks are final when five others stand on them.
const FEES: &str = r#", "finality": { "mode": "depth", "confirmations": 5 },
    "fees": { "contracts": ["0xbd6c7b0d2f68c2b7805d88388319cfb6ecb50ea9"], "jobBlocks": 50 }"#;

struct Projected {
    database: TempPostgres,
    node: EvmNode,
    _server: RpcServer,
    bench: Bench,
}

impl Projected {
    async fn new(seed: u64, blocks: u64) -> Self {
        let mut spec = EvmSpec::tiny(seed);
        spec.fees = Some(FeesSpec::per_thousand_blocks(1_500));
        let node = EvmNode::new(spec, blocks);
        let server = serve(&node, RpcOptions::default()).await;
        let bench = Bench::new(&[server.url()], FEES);
        let database = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
        let made = Self {
            database,
            node,
            _server: server,
            bench,
        };
        let message = made.say(&["db", "init"]);
        assert!(message.contains("the database is ready"), "{message}");
        made
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.bench.command(words);
        command.env("PG_URL", &self.database.url);
        command
    }

    #[track_caller]
    fn say(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {message}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.say(words)).unwrap()
    }

    fn start(&self, words: &[&str]) -> Running {
        let url = self.database.url.as_str();
        self.bench.start_with(words, &[("PG_URL", url)])
    }

    /// One number out of the database; none while it does not answer.
    async fn number(&self, sql: &str) -> Option<i64> {
        let connected = tokio_postgres::connect(&self.database.url, NoTls).await;
        let (client, connection) = connected.ok()?;
        let driven = tokio::spawn(connection);
        let row = client.query_one(sql, &[]).await.ok()?;
        let number = row.get(0);
        driven.abort();
        Some(number)
    }

    async fn sql(&self, statements: &str) {
        let connected = tokio_postgres::connect(&self.database.url, NoTls).await;
        let (client, connection) = connected.unwrap();
        let driven = tokio::spawn(connection);
        client.batch_execute(statements).await.unwrap();
        driven.abort();
    }

    /// Rows with a status, as the chain's oracle has them, once each.
    async fn rows(&self, status: &str) -> Vec<FeeRow> {
        let (client, connection) = tokio_postgres::connect(&self.database.url, NoTls)
            .await
            .unwrap();
        let driven = tokio::spawn(connection);
        let read = "SELECT chain_id, block_number, log_index, block_hash, \
            extract(epoch FROM block_timestamp)::bigint, tx_hash, token, integrator, \
            integrator_fee::text, lifi_fee::text FROM fee_events \
            WHERE event = 'FeesCollected' AND status::text = $1";
        let rows = client.query(read, &[&status]).await.unwrap();
        driven.abort();
        let bytes = |row: &tokio_postgres::Row, at: usize| row.get::<_, Vec<u8>>(at);
        let mut rows: Vec<FeeRow> = rows
            .iter()
            .map(|row| FeeRow {
                chain_id: row.get::<_, i64>(0) as u64,
                block_number: row.get::<_, i64>(1) as u64,
                log_index: row.get::<_, i32>(2) as u32,
                block_hash: chronolith_model::Hash32(bytes(row, 3).try_into().unwrap()),
                block_timestamp: row.get::<_, i64>(4) as u64,
                tx_hash: chronolith_model::Hash32(bytes(row, 5).try_into().unwrap()),
                token: bytes(row, 6).try_into().unwrap(),
                integrator: bytes(row, 7).try_into().unwrap(),
                integrator_fee: row.get::<_, String>(8).parse().unwrap(),
                lifi_fee: row.get::<_, String>(9).parse().unwrap(),
            })
            .collect();
        rows.sort();
        rows
    }

    /// What the table must hold of a range of the chain as it is.
    fn expected(&self, range: BlockRange) -> Vec<FeeRow> {
        let mut rows = self.node.fees(range);
        rows.sort();
        rows
    }

    /// Waits until everything through the newest block is there, as it must be.
    async fn until_whole(&self) {
        let head = self.node.head().number;
        let (last, next) = (head - 5, head - 4);
        let confirmed = self.expected(BlockRange::new(0, next));
        let pending = self.expected(BlockRange::new(next, head + 1));
        let done = format!(
            "SELECT (coalesce(complete_through, -1) >= {last})::int::bigint FROM complete_through"
        );
        let began = std::time::Instant::now();
        loop {
            let is_done = self.number(&done).await == Some(1);
            if is_done && self.rows("pending").await == pending {
                break;
            }
            let late = began.elapsed() > PATIENCE;
            let state = || self.say(&["projection", "state"]);
            assert!(!late, "not whole: {}\n{}", state(), self.bench.log());
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        let stored = self.rows("confirmed").await;
        if stored != confirmed {
            let missing: Vec<u64> = confirmed
                .iter()
                .filter(|row| !stored.contains(row))
                .map(|row| row.block_number)
                .collect();
            let odd = stored.iter().filter(|row| !confirmed.contains(row));
            let odd: Vec<u64> = odd.map(|row| row.block_number).collect();
            panic!("missing {missing:?}, odd {odd:?}\n{}", self.bench.log());
        }
        let gaps = self.json(&["jobs", "audit", "--json"]);
        assert_eq!(gaps.as_array().unwrap().len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_follow_the_chain_through_reorgs_kills_and_a_database_that_goes_away() {
    let all = Projected::new(1, 300).await;
    let mut running = all.start(&["run"]);
    all.until_whole().await;
    for round in 0..6_u64 {
        all.node.mine(7);
        all.until_whole().await;
        all.node.reorg(1 + round % 4);
        match round % 3 {
            0 => {
                running.kill();
                all.node.mine(9);
                all.node.reorg(3);
                running = all.start(&["run"]);
            }
            1 => {
                all.database.kill().unwrap();
                all.node.mine(12);
                all.bench
                    .until_health("the database's absence", |code, health| {
                        code == 503 && health.to_string().contains("database")
                    })
                    .await;
                // Nothing but the projections stands still.
                let head = all.node.head().number;
                all.bench
                    .wait("the archive's head", || all.bench.head() == Some(head - 5));
                all.database.restart().unwrap();
            }
            _ => {}
        }
        all.until_whole().await;
    }
    let dropped = all.rows("dropped").await;
    assert!(!dropped.is_empty(), "no reorg touched a row");
    // A stop gives everything back at once.
    running.stop();
    let held = all.json(&["locks", "list", "--json"]);
    let holders = held.as_array().unwrap().iter();
    assert!(
        holders.clone().all(|lock| lock["holder"].is_null()),
        "{held}"
    );
    assert!(holders.count() >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_share_history_and_two_nodes_take_turns() {
    let all = Projected::new(2, 2_000).await;
    // The archive first, without working on jobs.
    all.bench.change(
        r#""metricsPort": 0"#,
        r#""metricsPort": 0, "db": { "workers": 0 }"#,
    );
    let running = all.start(&["run"]);
    let safe = "SELECT last_safe_block FROM processing_state";
    let began = std::time::Instant::now();
    while all.number(safe).await != Some(1_995) {
        assert!(began.elapsed() < PATIENCE, "{}", all.bench.log());
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    let mut workers: Vec<Running> = (0..4).map(|_| all.start(&["work"])).collect();
    // Some are killed while they work; their jobs are taken by others.
    for _ in 0..4 {
        workers.remove(0).kill();
        workers.push(all.start(&["work"]));
        // Nobody waits two minutes for a test: what the killed one held is abandoned now.
        all.number(
            "WITH expired AS (UPDATE jobs SET locked_until = now() - interval '1 second' \
             WHERE status = 'processing' RETURNING 1) SELECT count(*) FROM expired",
        )
        .await;
    }
    all.until_whole().await;
    // Another node, with an archive of its own, waits until the first is gone.
    let second = Bench::new(&[all._server.url()], FEES);
    let other = second.start_with(&["run"], &[("PG_URL", &all.database.url)]);
    all.node.mine(3);
    all.until_whole().await;
    let holder = || {
        let locks = all.json(&["locks", "list", "--json"]);
        locks[0]["holder"].as_str().map(str::to_owned)
    };
    let first = format!(":{}", running.id());
    assert!(holder().is_some_and(|holder| holder.ends_with(&first)));
    // It is stopped in its tracks, its leases run out, and what it does afterwards counts for nothing.
    running.signal("-STOP");
    let mine = format!(":{}", other.id());
    all.bench.wait("the second node", || {
        holder().is_some_and(|holder| holder.ends_with(&mine))
    });
    all.node.mine(4);
    all.node.reorg(2);
    all.until_whole().await;
    running.signal("-CONT");
    all.node.mine(4);
    all.node.reorg(3);
    all.until_whole().await;
    other.stop();
    all.node.mine(2);
    all.until_whole().await;
    let epochs = "SELECT count(*) FROM (SELECT 1 FROM lease_history GROUP BY chain_id, kind \
        HAVING count(*) <> max(epoch)) odd";
    assert_eq!(all.number(epochs).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_what_operators_can_do() {
    let all = Projected::new(3, 60).await;
    let no_url = all
        .bench
        .command(&["run"])
        .env_remove("PG_URL")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&no_url.stderr).into_owned();
    assert!(message.contains("set PG_URL"), "{message}");
    // Where there is no contract its events would never come.
    let contract = "0xbd6c7b0d2f68c2b7805d88388319cfb6ecb50ea9";
    let nobody = "0x00000000000000000000000000000000000000aa";
    all.bench.change(contract, nobody);
    let refused = all.command(&["run"]).output().unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        message.contains("there is no contract at 0x0000"),
        "{message}"
    );
    all.bench.change(nobody, contract);
    all.say(&["run", "--until-caught-up"]);
    let message = all.say(&["projection", "state"]);
    assert!(message.contains("whole from 0 through 55"), "{message}");
    assert!(all.say(&["jobs", "list"]).contains("no job is on its way"));
    let replayed = all.json(&[
        "projection",
        "replay",
        "--from",
        "0",
        "--to",
        "55",
        "--json",
    ]);
    assert_eq!(replayed["jobs"], 2);
    let jobs = all.json(&["jobs", "list", "--json"]);
    let id = jobs[0]["id"].as_i64().unwrap().to_string();
    let message = all.say(&["jobs", "explain", &id]);
    assert!(message.contains("waits for a worker"), "{message}");
    all.say(&["work", "--until-done"]);
    assert!(all.say(&["jobs", "list"]).contains("no job is on its way"));
    assert!(all.say(&["jobs", "retry"]).contains("0 jobs"));
    let made = all.json(&["partitions", "create", "--month", "2031-05", "--json"]);
    assert_eq!(made["created"][0], "fee_events_c31337_2031_05");
    let wrong = all
        .command(&["partitions", "create", "--month", "May"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("YYYY-MM"));
    let pruned = all.json(&["partitions", "prune", "--dry-run", "--json"]);
    assert!(pruned["partitions"].is_array());
    let wrong = all
        .command(&["locks", "release", "--type", "all"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("neither finality nor writer"));
    // A database that was set up by another program is refused before anything is followed.
    let older = "WITH gone AS (DELETE FROM refinery_schema_history WHERE version > 1 RETURNING 1) \
        SELECT count(*) FROM gone";
    assert!(all.number(older).await > Some(0));
    let refused = all
        .command(&["run"])
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && message.contains("chronolith db init"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_shows_a_password_and_fees_are_served() {
    let all = Projected::new(4, 60).await;
    let running = all.start(&["run"]);
    all.until_whole().await;
    let fetch = async |url: String| reqwest::get(url).await.unwrap().text().await.unwrap();
    let requested = "/fees?integrator=31337&limit=3";
    let text = fetch(all.bench.public() + requested).await;
    let page: Value = serde_json::from_str(&text).unwrap();
    let rows = all.expected(BlockRange::new(0, 61));
    let newest = rows.last().unwrap().integrator_fee.to_string();
    assert_eq!(page["data"][0]["integratorFee"], newest);
    assert_eq!(page["pagination"]["total"], rows.len());
    let fees = all.bench.events("fees_listening");
    let address = fees[0]["listen"].as_str().unwrap();
    assert_eq!(fetch(format!("http://{address}/")).await, "Api Running");
    assert_eq!(fetch(format!("http://{address}{requested}")).await, text);
    running.stop();
    // They are read where the environment says: where nobody answers there are none, and rows come on.
    let nowhere = all.database.url.replace("127.0.0.1", "127.0.0.9");
    let variables = [
        ("PG_URL", all.database.url.as_str()),
        ("PG_READONLY_URL", &nowhere),
    ];
    let running = all.bench.start_with(&["run"], &variables);
    all.bench.wait("the listener", || {
        all.bench.count("fees_listening") > fees.len()
    });
    all.node.mine(3);
    all.until_whole().await;
    let refused = reqwest::get(all.bench.public() + requested).await.unwrap();
    assert!(refused.status().is_server_error(), "{refused:?}");
    running.stop();
    // No command shows a password.
    let url = all
        .database
        .url
        .replace("postgres@", "postgres:hunter2@")
        .replace("127.0.0.1", "127.0.0.9");
    for words in [
        &["run", "--until-caught-up"][..],
        &["db", "init"],
        &["jobs", "list"],
    ] {
        let output = all.bench.command(words).env("PG_URL", &url).output();
        let output = output.unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!error.contains("hunter2"), "{words:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_takes_confirmed_rows_back_where_a_final_block_was_replaced() {
    let all = Projected::new(6, 120).await;
    let running = all.start(&["run"]);
    all.until_whole().await;
    // Deeper than anything may be replaced: the archive halts, and its rows stay confirmed.
    let to = all.node.head().number - 25;
    let replaced = all.expected(BlockRange::new(to + 1, to + 21));
    assert!(!replaced.is_empty());
    all.node.reorg(25);
    all.node.mine(3);
    let halted = |code: u16, health: &Value| code == 503 && health.to_string().contains("halt");
    all.bench.until_health("the halt", halted).await;
    let rewind = |to: u64| {
        let to = to.to_string();
        all.command(&["rewind", "--to", &to, "--reason", "a test"])
            .output()
            .unwrap()
    };
    // The database does not answer: it is said what is left to do.
    all.database.kill().unwrap();
    let half = rewind(to);
    let error = String::from_utf8_lossy(&half.stderr).into_owned();
    assert!(!half.status.success(), "{error}");
    assert!(
        error.contains("chronolith projection rewind --chain"),
        "{error}"
    );
    all.database.restart().unwrap();
    let stays = format!(
        "SELECT count(*) FROM fee_events WHERE status = 'confirmed' AND block_number > {to}"
    );
    assert!(all.number(&stays).await.unwrap() > 0);
    let error = all.say(&["projection", "rewind", "--reason", "a test"]);
    assert!(error.contains("are not final any more"), "{error}");
    all.until_whole().await;
    let dropped = all.rows("dropped").await;
    let all_gone = replaced.iter().all(|row| dropped.contains(row));
    assert!(all_gone, "{dropped:?}");
    // All at once where it answers, by a node that runs and by one that does not.
    let to = all.node.head().number - 30;
    let error = all.say(&["rewind", "--to", &to.to_string(), "--reason", "once more"]);
    assert!(error.contains("blocks with rows were dropped"), "{error}");
    all.until_whole().await;
    running.stop();
    let to = (to - 10).to_string();
    let reported = all.json(&["rewind", "--to", &to, "--reason", "offline", "--json"]);
    assert!(
        reported["database"]["droppedBlocks"].as_u64() > Some(5),
        "{reported}"
    );
    let running = all.start(&["run"]);
    all.until_whole().await;
    running.stop();
    let acts = "SELECT count(*) FROM operator_acts WHERE act = 'rewind'";
    assert_eq!(all.number(acts).await, Some(3));
    // And everything again.
    let again = [
        "projection",
        "reset",
        "--projection",
        "fees",
        "--reason",
        "other",
    ];
    let error = all.say(&again);
    assert!(error.contains("rebuilds all of them"), "{error}");
    assert_eq!(all.number("SELECT count(*) FROM fee_events").await, Some(0));
    let running = all.start(&["run"]);
    all.until_whole().await;
    let refused = all.command(&again).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("stop it first"), "{error}");
    running.stop();
}

/// Everything that a server may refuse for a while, by its code, and what it is called in health.
const STARVED: [(&str, &str); 4] = [
    ("53100", "disk full"),
    ("53200", "out of memory"),
    ("57014", "statement timeout"),
    ("55P03", "lock timeout"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_room_time_or_connections_loses_nothing_and_is_reported() {
    let all = Projected::new(7, 150).await;
    let running = all.start(&["run"]);
    all.until_whole().await;
    for (code, named) in STARVED {
        all.sql(&format!(
            "CREATE FUNCTION starve() RETURNS trigger LANGUAGE plpgsql AS $$ \
                 BEGIN RAISE EXCEPTION '{named}' USING ERRCODE = '{code}'; END $$; \
             CREATE TRIGGER starve BEFORE INSERT ON fee_event_rows EXECUTE FUNCTION starve()"
        ))
        .await;
        all.node.mine(8);
        all.node.reorg(2);
        let reported =
            |status: u16, health: &Value| status == 503 && health.to_string().contains(code);
        all.bench.until_health(named, reported).await;
        // Everything else continues.
        let head = all.node.head().number;
        all.bench
            .wait("the archive's head", || all.bench.head() == Some(head - 5));
        all.sql("DROP TRIGGER starve ON fee_event_rows; DROP FUNCTION starve()")
            .await;
        all.until_whole().await;
    }
    running.stop();
    // Others take every connection there is.
    let mut taken = Vec::new();
    while let Ok((client, connection)) = tokio_postgres::connect(&all.database.url, NoTls).await {
        taken.push((client, tokio::spawn(connection)));
    }
    all.node.mine(20);
    let listeners = || all.bench.count("health_listening");
    let before = listeners();
    let running = all.start(&["run"]);
    all.bench.wait("the listener", || listeners() > before);
    let reported =
        |status: u16, health: &Value| status == 503 && health.to_string().contains("53300");
    all.bench.until_health("no connection", reported).await;
    for (client, connection) in taken {
        drop(client);
        connection.await.unwrap().unwrap();
    }
    all.until_whole().await;
    running.stop();
}

/// A database that takes connections and says nothing holds up the start once, not once for each chain.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_database_does_not_hold_up_every_chain() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://u:p@{}/d", silent.local_addr().unwrap());
    let (mut servers, mut entries) = (Vec::new(), Vec::new());
    for chain_id in 31_400..31_403 {
        let spec = EvmSpec {
            chain_id,
            fees: Some(FeesSpec::per_thousand_blocks(500)),
            ..EvmSpec::tiny(chain_id)
        };
        let server = serve(&EvmNode::new(spec, 30), RpcOptions::default()).await;
        let (name, at) = (format!("sim{chain_id}"), server.url());
        entries.push(format!(
            r#"{{ "chainId": {chain_id}, "name": "{name}", "rpcHttp": ["{at}"], "pollMs": 20 {FEES} }}"#
        ));
        servers.push(server);
    }
    let bench = Bench::new(&[], FEES);
    let text = std::fs::read_to_string(&bench.config).unwrap();
    let (before, _) = text.split_once(r#""chains""#).unwrap();
    let text = format!(r#"{before} "chains": [{}] }}"#, entries.join(","));
    std::fs::write(&bench.config, text).unwrap();
    let running = bench.start_with(&["run"], &[("PG_URL", &url)]);
    bench.wait_for_listener();
    let log = bench.log();
    let (before, _) = log.split_once("health_listening").unwrap();
    let waits = support::events(before, "projections_wait_for_database").len();
    assert_eq!(waits, 1, "{log}");
    running.kill();
}
