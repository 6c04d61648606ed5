//! What health says of projections: which version is decoded, what is looked for, what is paused and
//! why, how far everything is, and since when the database is away.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use chronolith_sim::evm::{EvmNode, EvmSpec, FeesSpec, RpcOptions, RpcServer};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use serde_json::{Value, json};
use support::projected::{Setup, named};
use support::{Bench, serve};

/// `Upgraded(address)`.
const UPGRADED: &str = "0xbc7cd75a20ee27fd9adebab32041f755214dbc6bffa90cc0225b39da2e5c2d3b";
/// `FeesCollected(address,address,uint256,uint256)`.
const COLLECTED: &str = "0x28a87b6059180e46de5fb9ab35eb043e8fe00ab45afcc7789e3934ecbbcde3ea";

fn of<'a>(health: &'a Value, name: &str) -> &'a Value {
    let all = health["chains"][0]["projections"]["all"].as_array();
    let found = all.and_then(|all| all.iter().find(|one| one["projection"] == name));
    found.unwrap_or(&Value::Null)
}

/// Four events of fees, two versions, upgrades.
fn assert_topics(chain: &Value) {
    let topics: Vec<&str> = chain["topicsWatching"]
        .as_array()
        .unwrap()
        .iter()
        .map(|topic| topic.as_str().unwrap())
        .collect();
    assert!(
        topics.contains(&UPGRADED) && topics.contains(&COLLECTED),
        "{topics:?}"
    );
    assert_eq!(topics.len(), 7, "{topics:?}");
}

/// A process holds what it needs.
fn assert_locks(chain: &Value, process: u32) {
    let locks = chain["projections"]["locks"].as_array().unwrap();
    let id = format!(":{}", process);
    let held = |kind: &str| {
        let mut of_kind = locks.iter().filter(|lock| lock["type"] == kind);
        of_kind.any(|lock| {
            lock["holder"]
                .as_str()
                .is_some_and(|who| who.ends_with(&id))
        })
    };
    assert!(held("writer") && held("finality"), "{locks:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_implementation_is_reported_until_it_is_named() {
    let setup = Setup::new(81, 60).await;
    let running = setup.start();
    setup.until_paused().await;
    let health = setup
        .bench
        .until_health("the pause", |code, health| {
            code == 503 && of(health, "fees")["completeThrough"] == 55
        })
        .await;
    let chain = &health["chains"][0];
    assert_eq!(
        (&health["status"], &chain["paused"]),
        (&json!("degraded"), &json!(true))
    );
    assert_eq!(chain["version"], 1);
    let reason = chain["pausedReason"].as_str().unwrap();
    assert!(
        reason.contains("adfs is paused (unknownImplementation)"),
        "{reason}"
    );
    assert!(chain["notReadyReason"].as_str().unwrap().contains(reason));
    assert_topics(chain);
    let (adfs, fees) = (of(&health, "adfs"), of(&health, "fees"));
    assert!(
        adfs["remedy"]
            .as_str()
            .unwrap()
            .contains("chronolith versions add")
    );
    assert!(adfs["lagBlocks"].as_i64().unwrap() > 0, "{adfs}");
    assert_eq!(
        (&fees["lagBlocks"], &fees["pausedReason"]),
        (&json!(0), &Value::Null)
    );
    assert_locks(chain, running.id());

    let stranger = setup.stranger();
    let words = [
        "versions",
        "add",
        "--implementation",
        &stranger,
        "--version",
        "2",
        "--json",
    ];
    setup.json(&words);
    let health = setup
        .bench
        .until_health("the second version", |code, health| {
            code == 200 && health["chains"][0]["version"] == 2
        })
        .await;
    let chain = &health["chains"][0];
    assert_eq!(
        (&chain["paused"], &chain["pausedReason"]),
        (&json!(false), &Value::Null)
    );
    setup
        .until_state("everything", |chain| named(chain, "adfs")["lagBlocks"] == 0)
        .await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_database_is_reported_with_its_time() {
    let setup = Setup::new(82, 30).await;
    let running = setup.start();
    let well =
        |code: u16, health: &Value| code == 200 && of(health, "fees")["completeThrough"] == 25;
    setup.bench.public();
    let health = setup.bench.until_health("fees", well).await;
    let projections = &health["chains"][0]["projections"];
    assert_eq!(projections["database"], "ok");
    assert_eq!(projections["errorSince"], Value::Null);
    let before = projections["lookedAt"].as_u64().unwrap();
    setup.database.kill().unwrap();
    let away = |code: u16, health: &Value| {
        code == 503 && health["chains"][0]["projections"]["database"] == "unavailable"
    };
    let first = setup.bench.until_health("its absence", away).await;
    let since = first["chains"][0]["projections"]["errorSince"]
        .as_u64()
        .unwrap();
    assert!(since >= before, "{since} {before}");
    let reason = first["chains"][0]["notReadyReason"].as_str().unwrap();
    assert!(reason.starts_with("projections: for "), "{reason}");
    assert!(reason.contains("the database is unavailable"), "{reason}");
    // The chain continues, what is known is dated, and the beginning stays what it was.
    let head = setup.node.mine(4).number;
    let later = setup
        .bench
        .until_health("a new head", |code, health| {
            code == 503 && health["chains"][0]["lastSeenBlock"] == head
        })
        .await;
    let projections = &later["chains"][0]["projections"];
    assert_eq!(projections["errorSince"].as_u64(), Some(since));
    assert!(projections["lookedAt"].as_u64().unwrap() <= since + 2);
    assert_eq!(of(&later, "fees")["completeThrough"], 25);
    setup.database.restart().unwrap();
    let again = |code: u16, health: &Value| {
        code == 200 && of(health, "fees")["completeThrough"] == head - 5
    };
    let health = setup.bench.until_health("its return", again).await;
    assert_eq!(health["chains"][0]["projections"]["error"], Value::Null);
    running.stop();
}

/// A job that was abandoned leaves a hole in the rows until a person acts. `/health` had not a word of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_failed_permanently_is_reported() {
    let setup = Setup::new(83, 30).await;
    let running = setup.start();
    setup.bench.public();
    let whole = |_: u16, health: &Value| of(health, "fees")["completeThrough"] == 25;
    let health = setup.bench.until_health("fees", whole).await;
    assert_eq!(health["chains"][0]["error"], Value::Null);
    let dead = "INSERT INTO jobs (chain_id, projection, from_block, to_block, next_block, status) \
        VALUES (31337, 'fees', 3, 7, 3, 'dead') RETURNING projection";
    assert_eq!(setup.column(dead).await, ["fees"]);
    let reported = |_: u16, health: &Value| {
        let trouble = health["chains"][0]["error"].as_str().unwrap_or_default();
        trouble.contains("fees: 1 jobs failed permanently")
            && trouble.contains("chronolith jobs retry")
    };
    setup.bench.until_health("the job", reported).await;
    running.stop();
}

/// An operator rebuilds the database under a node that runs. It stayed degraded until it was started again.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_rebuilt_is_filled_again() {
    let setup = Setup::new(84, 30).await;
    let running = setup.start();
    setup.bench.public();
    let whole =
        |code: u16, health: &Value| code == 200 && of(health, "fees")["completeThrough"] == 25;
    setup.bench.until_health("fees", whole).await;
    let count = "SELECT count(*)::text FROM fee_events";
    let before = setup.column(count).await;
    for gone in ["DROP SCHEMA public CASCADE", "DROP SCHEMA metadata CASCADE"] {
        setup.column(gone).await;
    }
    setup.column("CREATE SCHEMA public").await;
    let lost = |_: u16, health: &Value| {
        let trouble = health["chains"][0]["projections"]["error"].as_str();
        trouble.is_some_and(|message| message.contains("run `chronolith db init`"))
    };
    setup.bench.until_health("what to do", lost).await;
    setup.json(&["db", "init", "--json"]);
    // Confirmed rows and pending ones.
    setup
        .until_count("the rows that were there", count, &before)
        .await;
    running.stop();
}

/// A chain with fees and nothing else.
async fn collector(seed: u64) -> (EvmNode, RpcServer, Bench) {
    let spec = EvmSpec::tiny(seed).with_fees(FeesSpec::per_thousand_blocks(1_500));
    let node = EvmNode::new(spec, 40);
    let server = serve(&node, RpcOptions::default()).await;
    let address = FeesSpec::CONTRACT.iter().map(|byte| format!("{byte:02x}"));
    let address: String = address.collect();
    let more = format!(
        r#", "finality": {{ "mode": "depth", "confirmations": 5 }}, "fees": {{ "contracts": ["0x{address}"] }}"#
    );
    let bench = Bench::new(&[server.url()], &more);
    (node, server, bench)
}

/// A node that waits to take over must be on the chain that it would take over. One on another chain with
/// the same id was healthy until it had to, and then could not.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_on_another_chain_is_reported() {
    let database = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    let url = [("PG_URL", database.url.as_str())];
    let (_, _first, leads) = collector(85).await;
    leads.say(&["db", "init", "--admin-url", &database.url]);
    let running = leads.start_with(&["run"], &url);
    leads.public();
    let whole = |_: u16, health: &Value| of(health, "fees")["completeThrough"] == 35;
    leads.until_health("the leader", whole).await;
    let (_, _second, waits) = collector(86).await;
    let waiting = waits.start_with(&["run"], &url);
    waits.public();
    let reported = |code: u16, health: &Value| {
        let trouble = health["chains"][0]["projections"]["error"].as_str();
        code == 503 && trouble.is_some_and(|message| message.contains("it is of another chain"))
    };
    waits.until_health("the standby", reported).await;
    let well = |code: u16, _: &Value| code == 200;
    leads.until_health("the leader", well).await;
    waiting.stop();
    running.stop();
}
