//! A made-up chain with fees and with a proxy that is upgraded, a real PostgreSQL, and the program that
//! projects the one into the other.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "each test file uses its own part, may panic, and waits for a program it cannot see into"
)]

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use chronolith_sim::evm::{EvmNode, EvmSpec, FeesSpec, RpcOptions, RpcServer, UPGRADED_TOPIC};
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use serde_json::Value;
use tokio_postgres::NoTls;

use super::{Bench, PATIENCE, Running, serve};

/// The contract of the simulator that collects fees.
const COLLECTOR: &str = "0xbd6c7b0d2f68c2b7805d88388319cfb6ecb50ea9";
/// The proxy gets another implementation every so many blocks.
const UPGRADE_EVERY: u64 = 40;

pub struct Setup {
    pub database: TempPostgres,
    pub node: EvmNode,
    pub bench: Bench,
    server: Option<RpcServer>,
}

impl Setup {
    /// Fees and an ADFS contract whose first implementation is known, and no other.
    pub async fn new(seed: u64, blocks: u64) -> Self {
        let spec = EvmSpec {
            upgrade_every: UPGRADE_EVERY,
            ..EvmSpec::tiny(seed).with_fees(FeesSpec::per_thousand_blocks(1_500))
        };
        let node = EvmNode::new(spec, blocks);
        let (proxy, first) = upgrade(&node, 1);
        let server = serve(&node, RpcOptions::default()).await;
        let chain = format!(
            r#", "finality": {{ "mode": "depth", "confirmations": 5 }},
            "fees": {{ "contracts": ["{COLLECTOR}"], "jobBlocks": 50 }}, "contractAddress": "{proxy}",
            "topicNames": {{ "1": "ValueSetV1(uint256)", "2": "ValueSetV2(uint256)" }}"#
        );
        let bench = Bench::new(&[server.url()], &chain);
        let named = format!(
            r#""versions": {{ "1": {{ "hasBlockNumber": true }}, "2": {{ "hasBlockNumber": true }} }},
            "implVersionMap": {{ "{first}": {{ "version": 1 }} }}, "chains""#
        );
        bench.change(r#""chains""#, &named);
        let database = TempPostgres::start(&TempPostgresOptions::default()).unwrap();
        let mut made = Self::of(database, node, bench);
        made.server = Some(server);
        made.json(&["db", "init", "--json"]);
        made
    }

    /// Of parts that are made elsewhere.
    pub fn of(database: TempPostgres, node: EvmNode, bench: Bench) -> Self {
        Self {
            database,
            node,
            bench,
            server: None,
        }
    }

    /// The implementation that nobody named.
    pub fn stranger(&self) -> String {
        upgrade(&self.node, UPGRADE_EVERY).1
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.bench.command(words);
        command.env("PG_URL", &self.database.url);
        command
    }

    pub fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    #[track_caller]
    pub fn json(&self, words: &[&str]) -> Value {
        let output = self.output(words);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {message}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub fn start(&self) -> Running {
        let url = self.database.url.as_str();
        self.bench.start_with(&["run"], &[("PG_URL", url)])
    }

    /// Waits until the state of the projections is as wanted.
    pub async fn until_state(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let output = self.output(&["projection", "state", "--json"]);
            let state = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
            if wanted(&state["chains"][0]) {
                return state["chains"][0].clone();
            }
            let late = began.elapsed() > PATIENCE;
            assert!(!late, "{what}: {state}\n{}", self.bench.log());
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Waits until fees are whole and the proxy's second implementation has stopped the other.
    pub async fn until_paused(&self) -> Value {
        let through = self.node.head().number - 5;
        self.until_state("fees whole, adfs paused", |chain| {
            named(chain, "fees")["completeThrough"] == through
                && named(chain, "adfs")["pausedReason"] == "unknownImplementation"
        })
        .await
    }

    /// Waits until a statement has this answer.
    pub async fn until_count(&self, what: &str, sql: &str, wanted: &[String]) {
        let began = Instant::now();
        loop {
            let found = self.column(sql).await;
            if found == wanted {
                return;
            }
            let late = began.elapsed() > PATIENCE;
            assert!(!late, "{what}: {found:?}\n{}", self.bench.log());
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// The first column of a statement, as text.
    pub async fn column(&self, sql: &str) -> Vec<String> {
        let connected = tokio_postgres::connect(&self.database.url, NoTls).await;
        let (client, connection) = connected.unwrap();
        let driven = tokio::spawn(connection);
        let rows = client.query(sql, &[]).await.unwrap();
        driven.abort();
        rows.iter().map(|row| row.get(0)).collect()
    }
}

/// A projection of a chain, by name.
pub fn named<'a>(chain: &'a Value, name: &str) -> &'a Value {
    let all = chain["projections"].as_array();
    let found = all.and_then(|all| all.iter().find(|one| one["projection"] == name));
    found.unwrap_or(&Value::Null)
}

/// The proxy, and the implementation that it gets in a block.
fn upgrade(node: &EvmNode, number: u64) -> (String, String) {
    let block = node.block(number).unwrap().to_model();
    let is_upgrade = |log: &&chronolith_model::Log| log.topic(0) == Some(UPGRADED_TOPIC.as_slice());
    let log = block.logs.iter().find(is_upgrade).unwrap();
    let hex = |bytes: &[u8]| -> String {
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        format!("0x{}", digits.collect::<String>())
    };
    (hex(log.emitter()), hex(&log.topic(1).unwrap()[12..]))
}
