//! The oracle contract ADFS on a real node, followed into a real database: a proxy with two
//! implementations, upgrades in the middle of blocks and of transactions, calls through a Safe, and forks
//! that take an upgrade away, move it, and bring it back.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may panic, and waits for a program that it cannot see into"
)]

#[path = "adfs_anvil/followed.rs"]
mod followed;
#[path = "adfs_anvil/ground.rs"]
mod ground;
#[path = "adfs_anvil/oracle.rs"]
mod oracle;
#[path = "adfs_anvil/storm.rs"]
mod storm;
mod support;

use std::time::Instant;

use chronolith_sim::evm::adfs::encode::{Row, Value};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use followed::{All, CONFIRMATIONS, connect, direct, update, update_of, upgrade};
use ground::{Act, Mined, Sent, Update, Way, sent};
use oracle::{Tables, assert_storage, difference, stored};

/// What is final before anybody looks: every way to the proxy, and upgrades within a block and within a
/// transaction.
fn history() -> Vec<Vec<Sent>> {
    let act = |version, number, feeds: &[(u128, u16)]| Act::Update(update(version, number, feeds));
    let mut twice = update(1, 12, &[(0, 2), (0, 2), (3, 9)]);
    let lanes = [7; 16];
    twice.rows.insert(
        0,
        Row {
            table_index: 0,
            lanes,
        },
    );
    let wide = [(5, 2, 2), (1 << 100, 1, 0), (16, 8_000, 5), (0, 3, 0)];
    vec![
        vec![upgrade(1), direct(update(1, 10, &[(0, 1), (17, 5)]))],
        vec![],
        // A number that was there leaves no event. Of two values with one key the last counts.
        vec![
            direct(twice),
            sent(Way::Direct, vec![Act::Refused(update(1, 12, &[(0, 99)]))]),
            direct(update(1, 13, &[(40, 8_191), (40, 0)])),
        ],
        vec![sent(Way::Safe, vec![Act::Update(update_of(1, 14, &wide))])],
        vec![sent(
            Way::Many,
            vec![act(1, 15, &[(0, 4)]), act(1, 16, &[])],
        )],
        // The first call fails inside, and the event is of the second.
        vec![sent(
            Way::SafeMany,
            vec![
                Act::Refused(update(1, 16, &[(0, 98)])),
                act(1, 17, &[(0, 5)]),
            ],
        )],
        vec![
            direct(update(1, 18, &[(0, 6)])),
            upgrade(2),
            direct(update(2, 19, &[(0, 7), (17, 6)])),
            upgrade(1),
            direct(update(1, 20, &[(0, 8)])),
        ],
        vec![sent(
            Way::SafeMany,
            vec![
                act(1, 21, &[(0, 9)]),
                Act::Upgrade(2),
                act(2, 22, &[(0, 10)]),
                Act::Upgrade(1),
                act(1, 23, &[(0, 11), (1, 1)]),
            ],
        )],
        vec![direct(update(1, 24, &[]))],
        // Two calls with one number: the event says nothing of which it is.
        vec![sent(
            Way::SafeMany,
            vec![
                Act::Starved(update(1, 25, &[(910, 1)])),
                act(1, 25, &[(910, 2)]),
            ],
        )],
    ]
}

/// The fork on which the second implementation comes, in the middle of a block.
fn with_upgrade() -> Vec<Vec<Sent>> {
    vec![
        vec![
            direct(update(1, 30, &[(0, 12)])),
            upgrade(2),
            direct(update(2, 31, &[(0, 13), (2, 1)])),
        ],
        vec![sent(
            Way::Safe,
            vec![Act::Update(update(2, 32, &[(0, 14)]))],
        )],
        vec![direct(update(2, 33, &[(0, 15)]))],
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_is_what_was_sent_through_forks_across_an_upgrade() {
    let Some(mut all) = All::new().await else {
        return;
    };
    all.mine(&history()).await;
    all.mine(&vec![vec![]; CONFIRMATIONS as usize]).await;
    let running = all.start();
    let found = all.until_equal("history").await;
    assert!(found["adfs_events"].len() > 12 && found["feed_latest"].len() > 6);
    let upgraded = with_upgrade();
    all.mine(&upgraded).await;
    all.until_equal("the upgrade").await;
    // The upgrade is gone. The update before it is mined again with others, and they are of the version
    // that was there before.
    let first_fork = all.take_back(3).await;
    let again = upgraded[0][0].clone();
    let other = vec![
        vec![again, direct(update(1, 40, &[(0, 20)]))],
        vec![direct(update(1, 41, &[(0, 21)]))],
        vec![],
        vec![direct(update(1, 42, &[(0, 22), (2, 9)]))],
    ];
    all.mine(&other).await;
    let tx = |fork: &[Mined], block: usize, tx: usize| fork[block].txs[tx].hash.clone();
    let fork = &all.chain[all.chain.len() - 4..];
    assert_eq!(tx(&first_fork, 0, 0), tx(fork, 0, 0));
    all.until_equal("the fork without the upgrade").await;
    // Nobody looks while it comes back, as the same transaction in a later block.
    running.kill();
    all.take_back(2).await;
    let moved = vec![
        vec![
            direct(update(1, 43, &[(0, 22)])),
            upgrade(2),
            direct(update(2, 44, &[(0, 23)])),
        ],
        vec![sent(
            Way::SafeMany,
            vec![Act::Update(update(2, 45, &[(0, 24)]))],
        )],
    ];
    all.mine(&moved).await;
    let fork = &all.chain[all.chain.len() - 2..];
    assert_eq!(tx(&first_fork, 0, 1), tx(fork, 0, 1));
    let running = all.start();
    all.until_equal("the upgrade in another block").await;
    // The first fork comes back as it was, and is longer.
    all.take_back(4).await;
    all.mine(&upgraded).await;
    all.mine(&[vec![direct(update(2, 34, &[(0, 16), (3, 10)]))]; 1])
        .await;
    // Nobody can tell which of two calls without a number left the event.
    let hidden = vec![
        Act::Refused(update(2, 0, &[(0, 97)])),
        Act::Update(update(2, 35, &[(900, 1)])),
    ];
    all.mine(&[vec![sent(Way::SafeMany, hidden)]]).await;
    let fork = &all.chain[all.chain.len() - 5..];
    let hashes = |blocks: &[Mined]| {
        blocks
            .iter()
            .map(|one| one.hash.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(hashes(&fork[..3]), hashes(&first_fork));
    all.until_equal("the first fork again").await;
    all.mine(&vec![vec![]; CONFIRMATIONS as usize]).await;
    let found = all.until_equal("everything final").await;
    compare_with_storage(&all, &found).await;
    running.stop();
    replay(&all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_implementation_stops_the_rows_until_it_is_gone_or_named() {
    let Some(mut all) = All::new().await else {
        return;
    };
    let act = |version, number, index| direct(update(version, number, &[(0, index)]));
    all.mine(&[vec![upgrade(1), act(1, 10, 1)], vec![act(1, 11, 2)]])
        .await;
    let running = all.start();
    all.until_equal("before the upgrade").await;
    let stranger = |number| {
        [
            vec![act(1, number, 3), upgrade(3), act(2, number + 1, 4)],
            vec![act(2, number + 2, 5)],
        ]
    };
    all.mine(&stranger(12)).await;
    all.until_paused(true).await;
    all.until_equal_of(2, "nothing from the upgrade on").await;
    let message = all.say(&["projection", "state"]);
    let named = all.ground.implementation(3).to_owned();
    let reported = message.to_lowercase();
    assert!(
        reported.contains(&named) && reported.contains("versions add"),
        "{message}"
    );
    // It is gone with its fork, and the rows continue by themselves. It left none that could be dropped.
    all.take_back(2).await;
    all.gone.clear();
    all.mine(&[vec![act(1, 15, 3)], vec![], vec![act(1, 16, 4)]])
        .await;
    all.until_equal("the fork without it").await;
    all.until_paused(false).await;
    // It comes back to stay, and is final before anybody acts.
    all.mine(&stranger(17)).await;
    all.until_paused(true).await;
    running.kill();
    all.mine(&vec![vec![]; CONFIRMATIONS as usize]).await;
    let running = all.start();
    all.until_equal_of(5, "the blocks below it").await;
    all.until_paused(true).await;
    all.say(&[
        "versions",
        "add",
        "--implementation",
        &named,
        "--version",
        "2",
    ]);
    let found = all.until_equal("everything").await;
    all.until_paused(false).await;
    assert_eq!(found["adfs_events"].len(), 7);
    running.stop();
}

/// Many feeds without a value, which cost the chain next to nothing.
fn crowded(number: u64, feeds: u128) -> Act {
    let index = (number % 8_192) as u16;
    let value = |feed| Value::new(feed, index, &[]);
    Act::Update(Update {
        version: 1,
        number,
        feeds: (1..=feeds).map(value).collect(),
        rows: Vec::new(),
    })
}

/// One value of zeros that makes the calldata so long.
fn long(number: u64, bytes: usize) -> Act {
    let mut value = Value {
        stride: 13,
        ..Value::new(3, 1, &[0; 70_000])
    };
    let mut made = Update {
        version: 1,
        number,
        feeds: vec![value.clone()],
        rows: Vec::new(),
    };
    value.data = vec![0; 70_000 + bytes - made.calldata().len()];
    made.feeds = vec![value];
    assert_eq!(made.calldata().len(), bytes);
    Act::Update(made)
}

fn guarded(act: Act, reason: &'static str) -> Act {
    match act {
        Act::Update(update) => Act::Guarded(update, reason),
        other => other,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_at_the_limits_are_followed_from_a_real_node() {
    const BYTES: usize = 128 << 10;
    let Some(mut all) = All::new().await else {
        return;
    };
    let one = |act| vec![sent(Way::Direct, vec![act])];
    let history = [
        one(Act::Upgrade(1)),
        one(crowded(10, 10_000)),
        one(long(11, BYTES)),
    ];
    all.mine(&history).await;
    all.mine(&vec![vec![]; CONFIRMATIONS as usize]).await;
    let running = all.start();
    all.until_equal("history").await;
    let newest = [
        one(guarded(crowded(12, 10_001), "feedsLength")),
        one(crowded(13, 10_000)),
        one(guarded(long(14, BYTES + 1), "calldataSize")),
        vec![sent(Way::Safe, vec![long(15, BYTES)])],
    ];
    let began = Instant::now();
    all.mine(&newest).await;
    let mined = began.elapsed();
    all.until_equal("the newest blocks").await;
    let took = began.elapsed() - mined;
    println!("note: 10000 feeds and 128 KiB, compared {took:.2?} after they were mined");
    all.mine(&vec![vec![]; CONFIRMATIONS as usize]).await;
    let found = all.until_equal("everything final").await;
    assert_eq!(found["quarantine"].len(), 2);
    assert_eq!(found["feed_latest"].len(), 10_001);
    running.stop();
    // What was refused is in the log, once, with its chain and transaction.
    let log = all.bench.log();
    let lines = log.lines().map(serde_json::from_str::<serde_json::Value>);
    let lines = lines
        .filter_map(Result::ok)
        .map(|line| line["fields"].clone());
    let reported: Vec<_> = lines
        .filter(|fields| fields["message"] == "a log is not projected")
        .collect();
    assert_eq!(reported.len(), 2, "{reported:?}");
    for fields in reported {
        let tx_hash = fields["tx_hash"].as_str().unwrap();
        let known = |row: &&String| row.contains(tx_hash.trim_start_matches("0x"));
        let row = found["quarantine"].iter().find(known);
        let reason = fields["reason"].as_str().unwrap();
        assert!(row.is_some_and(|row| row.contains(reason)), "{fields}");
        assert!(
            fields["chain"].is_number() && fields["block"].is_number(),
            "{fields}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_code_stops_the_rows_until_an_operator_acts() {
    let Some(mut all) = All::new().await else {
        return;
    };
    let wrong = format!("0x{}", "01".repeat(32));
    let right = all.ground.code_hash(2).to_string();
    all.bench.change(&right, &wrong);
    let act = |version, number, index| direct(update(version, number, &[(0, index)]));
    all.mine(&[vec![upgrade(1), act(1, 10, 1)], vec![act(1, 11, 2)]])
        .await;
    let running = all.start();
    all.until_equal("the first version").await;
    all.mine(&[vec![upgrade(2), act(2, 12, 3)], vec![act(2, 13, 4)]])
        .await;
    all.until_paused_by("bytecode", true).await;
    all.until_equal_of(2, "nothing from the upgrade on").await;
    let message = all.say(&["projection", "state"]);
    assert!(
        message.contains(&right) && message.contains(&wrong),
        "{message}"
    );
    running.stop();
    all.bench.change(&wrong, &right);
    let running = all.start();
    all.until_equal("with the code that was meant").await;
    all.until_paused_by("bytecode", false).await;
    running.stop();
}

/// The contract itself says the same, but for the value whose calldata is not known.
async fn compare_with_storage(all: &All, found: &Tables) {
    let head = all.chain.last().unwrap().number;
    let (values, ring) = assert_storage(&all.ground, found, head).await;
    let rows: usize = found.values().map(Vec::len).sum();
    println!(
        "note: {rows} rows as sent, {values} newest values and {ring} rows of the table as in storage"
    );
    let dropped = |table: &str| {
        let rows = found[table].iter();
        rows.filter(|row| row.contains(r#""status":"dropped""#))
            .count()
    };
    assert!(dropped("adfs_events") >= 5 && dropped("feed_updates") >= 6);
}

/// A replay changes nothing, and a new database gets the same rows from the archive alone.
async fn replay(all: &All) {
    let last = (all.chain.last().unwrap().number - CONFIRMATIONS).to_string();
    all.say(&["projection", "replay", "--from", "0", "--to", &last]);
    all.say(&["work", "--until-done"]);
    all.until_equal("a replay").await;
    let other = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
    for words in [&["db", "init"][..], &["run", "--until-caught-up"]] {
        let mut command = all.bench.command(words);
        let output = command.env("PG_URL", &other.url).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {message}");
    }
    let (found, wanted) = (
        stored(&connect(&other).await).await,
        all.expected(all.chain.len(), &[]),
    );
    assert!(found == wanted, "{}", difference(&found, &wanted));
}
