//! What health says of projections: which version is decoded, what is looked for, who stands still and
//! why, how far everything is, and since when the database is away.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod support;

use serde_json::{Value, json};
use support::projected::{Setup, named};

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
async fn an_unknown_implementation_is_told_until_somebody_names_it() {
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
        reason.contains("adfs stands still (unknownImplementation)"),
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
async fn a_database_that_is_away_is_told_with_since_when() {
    let setup = Setup::new(82, 30).await;
    let running = setup.start();
    let well =
        |code: u16, health: &Value| code == 200 && of(health, "fees")["completeThrough"] == 25;
    setup.bench.public();
    let health = setup.bench.until_health("fees", well).await;
    let projections = &health["chains"][0]["projections"];
    assert_eq!(projections["database"], "ok");
    assert_eq!(projections["troubleSince"], Value::Null);
    let before = projections["lookedAt"].as_u64().unwrap();
    setup.database.kill().unwrap();
    let away = |code: u16, health: &Value| {
        code == 503 && health["chains"][0]["projections"]["database"] == "unavailable"
    };
    let first = setup.bench.until_health("its absence", away).await;
    let since = first["chains"][0]["projections"]["troubleSince"]
        .as_u64()
        .unwrap();
    assert!(since >= before, "{since} {before}");
    let reason = first["chains"][0]["notReadyReason"].as_str().unwrap();
    assert!(reason.starts_with("projections: for "), "{reason}");
    assert!(reason.contains("the database is unavailable"), "{reason}");
    // The chain goes on, what is known is dated, and the beginning stays what it was.
    let head = setup.node.mine(4).number;
    let later = setup
        .bench
        .until_health("a new head", |code, health| {
            code == 503 && health["chains"][0]["lastSeenBlock"] == head
        })
        .await;
    let projections = &later["chains"][0]["projections"];
    assert_eq!(projections["troubleSince"].as_u64(), Some(since));
    assert!(projections["lookedAt"].as_u64().unwrap() <= since + 2);
    assert_eq!(of(&later, "fees")["completeThrough"], 25);
    setup.database.restart().unwrap();
    let again = |code: u16, health: &Value| {
        code == 200 && of(health, "fees")["completeThrough"] == head - 5
    };
    let health = setup.bench.until_health("its return", again).await;
    assert_eq!(health["chains"][0]["projections"]["trouble"], Value::Null);
    running.stop();
}
