//! The program that follows a node with the oracle's contracts into a database, and the chain that it
//! must have seen.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use tokio_postgres::{Client, NoTls};

use super::ground::{Act, Ground, Mined, Sent, Update, Way, sent};
use super::oracle::{Tables, difference, expected, stored};
use super::support::{Bench, PATIENCE, Running};
use chronolith_sim::evm::adfs::encode::{Row, Value};

pub const CONFIRMATIONS: u64 = 8;

/// An update whose table agrees with its values.
pub fn update(version: u32, number: u64, feeds: &[(u128, u16)]) -> Update {
    let strided: Vec<_> = feeds
        .iter()
        .map(|(feed, index)| (*feed, *index, 0))
        .collect();
    update_of(version, number, &strided)
}

/// The same of feeds with a stride.
pub fn update_of(version: u32, number: u64, feeds: &[(u128, u16, u8)]) -> Update {
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

pub fn direct(update: Update) -> Sent {
    sent(Way::Direct, vec![Act::Update(update)])
}

pub fn upgrade(version: u32) -> Sent {
    sent(Way::Direct, vec![Act::Upgrade(version)])
}

pub struct All {
    pub ground: Ground,
    database: TempPostgres,
    client: Client,
    pub bench: Bench,
    /// The chain as it is, from the first update on.
    pub chain: Vec<Mined>,
    /// Blocks that are on it no more.
    pub gone: Vec<Mined>,
    /// The highest block that ever was: what is final stays so on a shorter fork.
    highest: u64,
}

impl All {
    pub async fn new() -> Option<Self> {
        let ground = Ground::new().await?;
        let bench = bench(&ground);
        let database = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
        let client = connect(&database).await;
        let made = Self {
            ground,
            database,
            client,
            bench,
            chain: Vec::new(),
            gone: Vec::new(),
            highest: 0,
        };
        made.say(&["db", "init"]);
        Some(made)
    }

    #[track_caller]
    pub fn say(&self, words: &[&str]) -> String {
        let mut command = self.bench.command(words);
        let output = command.env("PG_URL", &self.database.url).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {message}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn start(&self) -> Running {
        let url = self.database.url.as_str();
        self.bench.start_with(&["run"], &[("PG_URL", url)])
    }

    pub async fn mine(&mut self, blocks: &[Vec<Sent>]) {
        for all in blocks {
            let mined = self.ground.mine(all).await;
            // A block that comes back is not gone.
            self.gone.retain(|block| block.hash != mined.hash);
            self.highest = self.highest.max(mined.number);
            self.chain.push(mined);
        }
    }

    /// Takes blocks back, and returns them.
    pub async fn take_back(&mut self, depth: usize) -> Vec<Mined> {
        let taken = self.chain.split_off(self.chain.len() - depth);
        self.ground.take_back(&taken).await;
        self.gone.extend(taken.clone());
        taken
    }

    fn is_final(&self, block: &Mined) -> bool {
        block.number + CONFIRMATIONS <= self.highest
    }

    /// How many blocks may still be taken back.
    pub fn open(&self) -> usize {
        let mut newest_first = self.chain.iter().rev();
        let last_final = newest_first.position(|block| self.is_final(block));
        last_final.unwrap_or(self.chain.len() - 1)
    }

    /// What the tables must hold of the first blocks of the chain as it is, and of some that are gone.
    pub fn expected(&self, blocks: usize, gone: &[Mined]) -> Tables {
        let status = |block: &Mined| match self.is_final(block) {
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
    pub async fn until_equal(&self, what: &str) -> Tables {
        self.until_equal_of(self.chain.len(), what).await
    }

    /// The same where only the first blocks are projected.
    pub async fn until_equal_of(&self, blocks: usize, what: &str) -> Tables {
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

    /// Waits until the projection stands still for want of a version, or does not.
    pub async fn until_paused(&self, paused: bool) {
        self.until_paused_by("unknownImplementation", paused).await;
    }

    /// The same for a reason.
    pub async fn until_paused_by(&self, reason: &str, paused: bool) {
        let read = "SELECT coalesce(bool_or(paused_reason = $1), false) \
            FROM projections WHERE projection = 'adfs'";
        let began = Instant::now();
        while self
            .client
            .query_one(read, &[&reason])
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

pub async fn connect(database: &TempPostgres) -> Client {
    let connected = tokio_postgres::connect(&database.url, NoTls).await;
    let (client, connection) = connected.unwrap();
    tokio::spawn(connection);
    client
}

/// The settings of the contract, with hashes of code as the node has them.
fn bench(ground: &Ground) -> Bench {
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
        let hash = ground.code_hash(version);
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
