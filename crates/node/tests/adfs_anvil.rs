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

#[path = "../../projection/tests/adfs/encode.rs"]
#[allow(dead_code, reason = "each test uses its own part")]
mod encode;
#[path = "adfs_anvil/ground.rs"]
mod ground;
#[path = "adfs_anvil/oracle.rs"]
mod oracle;
mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use encode::{Row, Value};
use ground::{Act, Ground, Mined, Sent, Update, Way, sent};
use oracle::{Tables, assert_storage, difference, expected, stored};
use support::{Bench, PATIENCE, Running};
use tokio_postgres::{Client, NoTls};

const CONFIRMATIONS: u64 = 8;

/// An update whose table agrees with its values.
fn update(version: u32, number: u64, feeds: &[(u128, u16)]) -> Update {
    let strided: Vec<_> = feeds
        .iter()
        .map(|(feed, index)| (*feed, *index, 0))
        .collect();
    update_of(version, number, &strided)
}

/// The same of feeds with a stride.
fn update_of(version: u32, number: u64, feeds: &[(u128, u16, u8)]) -> Update {
    let mut rows: BTreeMap<u128, [u16; 16]> = BTreeMap::new();
    let mut values = Vec::new();
    for (at, (feed_id, rb_index, stride)) in feeds.iter().enumerate() {
        // A value that no other update has, and that fills its last slot only in part.
        let length = (32 << stride) - usize::from(*stride) * 5;
        let byte = |place: usize| (number as usize * 31 + at * 7 + place + 1) as u8;
        let data: Vec<u8> = (0..length).map(byte).collect();
        values.push(Value {
            stride: *stride,
            ..Value::new(*feed_id, *rb_index, &data)
        });
        let row = (u128::from(*stride) << 111) + feed_id / 16;
        rows.entry(row).or_default()[(feed_id % 16) as usize] = *rb_index;
    }
    let row = |(table_index, lanes)| Row { table_index, lanes };
    Update {
        version,
        number,
        feeds: values,
        rows: rows.into_iter().map(row).collect(),
    }
}

fn direct(update: Update) -> Sent {
    sent(Way::Direct, vec![Act::Update(update)])
}

fn upgrade(version: u32) -> Sent {
    sent(Way::Direct, vec![Act::Upgrade(version)])
}

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
    ]
}

struct All {
    ground: Ground,
    database: TempPostgres,
    client: Client,
    bench: Bench,
    /// The chain as it is, from the first update on.
    chain: Vec<Mined>,
    /// Blocks that are on it no more.
    gone: Vec<Mined>,
}

impl All {
    async fn new() -> Option<Self> {
        let ground = Ground::new().await?;
        let bench = bench(&ground).await;
        let database = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
        let client = connect(&database).await;
        let made = Self {
            ground,
            database,
            client,
            bench,
            chain: Vec::new(),
            gone: Vec::new(),
        };
        made.say(&["db", "init"]);
        Some(made)
    }

    #[track_caller]
    fn say(&self, words: &[&str]) -> String {
        let mut command = self.bench.command(words);
        let output = command.env("PG_URL", &self.database.url).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn start(&self) -> Running {
        let url = self.database.url.as_str();
        self.bench.start_with(&["run"], &[("PG_URL", url)])
    }

    async fn mine(&mut self, blocks: &[Vec<Sent>]) {
        for all in blocks {
            let mined = self.ground.mine(all).await;
            // A block that comes back is not gone.
            self.gone.retain(|block| block.hash != mined.hash);
            self.chain.push(mined);
        }
    }

    /// Takes blocks back, and returns them.
    async fn take_back(&mut self, depth: usize) -> Vec<Mined> {
        let taken = self.chain.split_off(self.chain.len() - depth);
        self.ground.take_back(&taken).await;
        self.gone.extend(taken.clone());
        taken
    }

    /// What the tables must hold of the first blocks of the chain as it is, and of some that are gone.
    fn expected(&self, blocks: usize, gone: &[Mined]) -> Tables {
        let head = self.chain.last().unwrap().number;
        let status = |block: &Mined| match block.number + CONFIRMATIONS <= head {
            true => "confirmed",
            false => "pending",
        };
        let gone = gone.iter().map(|block| (block, "dropped"));
        let chain = self.chain.iter().take(blocks);
        let chain = chain.map(|block| (block, status(block)));
        let all: Vec<_> = gone.chain(chain).collect();
        expected(&self.ground, &all)
    }

    /// Waits until the tables are as they must be.
    async fn until_equal(&self, what: &str) -> Tables {
        self.until_equal_of(self.chain.len(), what).await
    }

    /// The same where only the first blocks are projected.
    async fn until_equal_of(&self, blocks: usize, what: &str) -> Tables {
        let wanted = self.expected(blocks, &self.gone);
        let began = Instant::now();
        loop {
            let found = stored(&self.client).await;
            if found == wanted {
                return found;
            }
            let late = began.elapsed() > PATIENCE;
            let apart = || difference(&found, &wanted);
            assert!(!late, "{what}: {}\n{}", apart(), self.bench.log());
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
}

impl All {
    /// Waits until the projection stands still for want of a version, or does not.
    async fn until_paused(&self, paused: bool) {
        let read = "SELECT coalesce(bool_or(paused_reason = 'unknownImplementation'), false) \
            FROM projections WHERE projection = 'adfs'";
        let began = Instant::now();
        while self
            .client
            .query_one(read, &[])
            .await
            .unwrap()
            .get::<_, bool>(0)
            != paused
        {
            assert!(began.elapsed() < PATIENCE, "{}", self.bench.log());
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }
}

async fn connect(database: &TempPostgres) -> Client {
    let connected = tokio_postgres::connect(&database.url, NoTls).await;
    let (client, connection) = connected.unwrap();
    tokio::spawn(connection);
    client
}

/// The settings of the contract, with hashes of code as the node has them.
async fn bench(ground: &Ground) -> Bench {
    let more = format!(
        r#", "rpcWs": ["{}"], "finality": {{ "mode": "depth", "confirmations": {CONFIRMATIONS} }},
        "contractAddress": "{}", "topicNames": {{ "1": "DataFeedsUpdated(uint256)",
        "2": "DataFeedsUpdated(uint256,address)" }}"#,
        ground.node.socket(),
        ground.proxy
    );
    let bench = Bench::new(std::slice::from_ref(&ground.node.url), &more);
    let mut named = Vec::new();
    for version in [1, 2] {
        let hash = ground.code_hash(version).await;
        let implementation = ground.implementation(version);
        named.push(format!(
            r#""{implementation}": {{ "version": {version}, "expectedBytecodeHash": "{hash}" }}"#
        ));
    }
    let versions = format!(
        r#""versions": {{ "1": {{ "hasBlockNumber": true, "extraFields": [] }}, "2": {{
        "hasBlockNumber": false, "extraFields": ["sourceAccumulator", "destinationAccumulator"] }} }},
        "implVersionMap": {{ {} }}, "chains""#,
        named.join(", ")
    );
    bench.change(r#""chains""#, &versions);
    bench
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
async fn an_implementation_that_nobody_named_stops_the_rows_until_it_is_gone_or_named() {
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
    let said = all.say(&["projection", "state"]);
    let named = all.ground.implementation(3).to_owned();
    let told = said.to_lowercase();
    assert!(
        told.contains(&named) && told.contains("versions add"),
        "{said}"
    );
    // It is gone with its fork, and the rows go on by themselves. It left none that could be dropped.
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
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
    }
    let (found, wanted) = (
        stored(&connect(&other).await).await,
        all.expected(all.chain.len(), &[]),
    );
    assert!(found == wanted, "{}", difference(&found, &wanted));
}
