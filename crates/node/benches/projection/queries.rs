//! What consumers ask, of a million confirmed rows: our tables, whose rows have the status of their block,
//! beside tables with a column for it.
//!
//! The queries are those that the requirement prints, prepared, as the role that reads. Both sides are
//! asked in turn, for the same feeds and blocks, over a connection each, and must answer the same.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use chronolith_projection::{Month, Passwords, partitions, set_up};
use chronolith_projection_adfs::AdfsKind;
use chronolith_projection_fees::FeesKind;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, SimpleQueryMessage, Statement};

use crate::database::{Server, connect};

const CHAIN: u64 = 1;
const FEEDS: u64 = 500;
const BLOCKS: u64 = 50_000;
/// From the first block to the last one, and something more.
const MONTHS_BACK: i32 = 3;
/// How often each side is asked before it counts, and then.
const WARM_UP: u64 = 50;
const RUNS: u64 = 400;
/// How many answers are compared.
const COMPARED: u64 = 40;
const TARGET: f64 = 1.2;
/// A prime, to come by feeds and blocks in no order.
const STRIDE: u64 = 7_919;

const LATEST: &str = "SELECT data, block_number, block_timestamp, version, extra FROM feed_latest \
    WHERE chain_id = $1 AND feed_id = $2 AND stride = $3";
const RANGE: &str = "SELECT * FROM feed_updates WHERE chain_id = $1 AND feed_id = $2 AND stride = $3 \
    AND status = 'confirmed' AND block_number BETWEEN $4 AND $5 ORDER BY block_number, log_index";
const SLOT: &str = "SELECT block_number, block_timestamp, data FROM ring_buffer_updates \
    WHERE chain_id = $1 AND table_index = $2 AND status = 'confirmed' ORDER BY block_number DESC LIMIT 1";
const HISTORY: &str = "SELECT * FROM ring_buffer_updates WHERE chain_id = $1 AND table_index = $2 \
    AND status = 'confirmed' ORDER BY block_number, log_index";
const ACTIVE: &str = "SELECT chain_id, feed_id, stride, block_timestamp FROM feed_latest \
    WHERE chain_id = $1 AND block_timestamp >= now() - make_interval(days => $2::int)";

/// A query, and what is bound to it at each run.
struct Query {
    name: &'static str,
    sql: &'static str,
    values: fn(u64) -> Values,
}

const QUERIES: [Query; 6] = [
    Query {
        name: "latest value",
        sql: LATEST,
        values: |run| Values::feed(run).and(Value::Short(0)),
    },
    Query {
        name: "updates, 1,000 blocks",
        sql: RANGE,
        values: |run| range(run, 1_000),
    },
    Query {
        name: "updates, 10,000 blocks",
        sql: RANGE,
        values: |run| range(run, 10_000),
    },
    Query {
        name: "slot",
        sql: SLOT,
        values: Values::feed,
    },
    Query {
        name: "slot history",
        sql: HISTORY,
        values: Values::feed,
    },
    Query {
        name: "active feeds",
        sql: ACTIVE,
        values: |run| Values::chain().and(Value::Int(run as i32 % 30 + 1)),
    },
];

/// What is bound. A chain's id is as wide as the column that it is compared with.
enum Value {
    Chain,
    Feed(Vec<u8>),
    Short(i16),
    Int(i32),
    Long(i64),
}

struct Values(Vec<Value>);

impl Values {
    fn chain() -> Self {
        Self(vec![Value::Chain])
    }

    fn feed(run: u64) -> Self {
        let feed = u128::from(run * STRIDE % FEEDS);
        Self::chain().and(Value::Feed(feed.to_be_bytes().to_vec()))
    }

    fn and(mut self, value: Value) -> Self {
        self.0.push(value);
        self
    }

    /// With the query, as one text.
    fn written(&self, sql: &str) -> String {
        let mut sql = sql.to_owned();
        for (at, value) in self.0.iter().enumerate().rev() {
            let value = match value {
                Value::Chain => CHAIN.to_string(),
                Value::Feed(id) => format!(
                    "'{}'",
                    const_hex::encode_prefixed(id).replacen('0', "\\", 1)
                ),
                Value::Short(value) => format!("{value}::smallint"),
                Value::Int(value) => value.to_string(),
                Value::Long(value) => value.to_string(),
            };
            sql = sql.replace(&format!("${}", at + 1), &value);
        }
        sql
    }
}

fn range(run: u64, blocks: u64) -> Values {
    let first = run * STRIDE % (BLOCKS - blocks);
    let (first, last) = (
        Value::Long(first as i64),
        Value::Long((first + blocks) as i64),
    );
    Values::feed(run).and(Value::Short(0)).and(first).and(last)
}

/// One of the two.
struct Side {
    client: Client,
    statement: Statement,
    chain: Box<dyn ToSql + Sync>,
    millis: Vec<f64>,
}

impl Side {
    async fn new(url: &str, schemas: &str, sql: &str) -> Result<Self> {
        let client = connect(url).await?;
        let session = format!(
            "SET TIME ZONE 'UTC'; SET jit = off; SET search_path = {schemas}; SET ROLE sync_reader"
        );
        client.batch_execute(&session).await?;
        let statement = client.prepare(sql).await?;
        let is_wide = statement.params().first() == Some(&tokio_postgres::types::Type::INT8);
        let chain: Box<dyn ToSql + Sync> = match is_wide {
            true => Box::new(CHAIN as i64),
            false => Box::new(CHAIN as i32),
        };
        Ok(Self {
            client,
            statement,
            chain,
            millis: Vec::new(),
        })
    }

    async fn ask(&mut self, values: &Values) -> Result<()> {
        let bound = values.0.iter().map(|value| match value {
            Value::Chain => &*self.chain,
            Value::Feed(id) => id as &(dyn ToSql + Sync),
            Value::Short(value) => value,
            Value::Int(value) => value,
            Value::Long(value) => value,
        });
        let bound: Vec<&(dyn ToSql + Sync)> = bound.collect();
        let began = Instant::now();
        let rows = self.client.query(&self.statement, &bound).await?;
        self.millis.push(began.elapsed().as_secs_f64() * 1e3);
        ensure!(
            !rows.is_empty(),
            "a question without an answer says nothing"
        );
        Ok(())
    }

    /// The answer as text, row by row.
    async fn answer(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        let said = self.client.simple_query(sql).await?;
        let rows = said.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let columns = |row: &tokio_postgres::SimpleQueryRow| {
            (0..row.len())
                .map(|at| row.get(at).map(str::to_owned))
                .collect()
        };
        Ok(rows.map(columns).collect())
    }

    fn at(&mut self, part: f64) -> Result<f64> {
        self.millis.sort_by(f64::total_cmp);
        let at = (self.millis.len() as f64 * part).ceil() as usize - 1;
        self.millis.get(at).copied().context("a time")
    }
}

/// Fills both, asks both, prints how they stand to each other.
pub(crate) async fn run(server: &Server) -> Result<()> {
    let url = fill(server).await?;
    println!("queries: 1,000,000 confirmed rows, {RUNS} runs each, in ms");
    println!(
        "{:<24} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "query", "ours p50", "p99", "plain p50", "p99", "ratio"
    );
    for query in &QUERIES {
        let mut ours = Side::new(&url, "public", query.sql).await?;
        let mut plain = Side::new(&url, "plain, public", query.sql).await?;
        for run in 0..COMPARED {
            let sql = (query.values)(run).written(query.sql);
            let (mut one, mut other) = (ours.answer(&sql).await?, plain.answer(&sql).await?);
            if !sql.contains("ORDER BY") {
                one.sort();
                other.sort();
            }
            ensure!(!one.is_empty() && one == other, "answers differ: {sql}");
        }
        for run in 0..WARM_UP + RUNS {
            let values = (query.values)(run);
            if run == WARM_UP {
                ours.millis.clear();
                plain.millis.clear();
            }
            // Neither is always the second.
            let (first, second) = match run % 2 {
                0 => (&mut ours, &mut plain),
                _ => (&mut plain, &mut ours),
            };
            first.ask(&values).await?;
            second.ask(&values).await?;
        }
        let ratio = ours.at(0.5)? / plain.at(0.5)?;
        println!(
            "{:<24} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {ratio:>7.2}{}",
            query.name,
            ours.at(0.5)?,
            ours.at(0.99)?,
            plain.at(0.5)?,
            plain.at(0.99)?,
            if ratio > TARGET {
                " MISSED (target <= 1.2)"
            } else {
                ""
            }
        );
    }
    Ok(())
}

/// A database with the same rows in both.
async fn fill(server: &Server) -> Result<String> {
    let database = server.fresh("queries").await?;
    set_up(&database.url, &Passwords::default()).await?;
    let client = connect(&database.url).await?;
    let now = client
        .query_one("SELECT extract(epoch FROM now())::bigint", &[])
        .await?;
    let now: i64 = now.try_get(0)?;
    let writer =
        chronolith_projection::Database::writer(&database.url, 2, &[&FeesKind, &AdfsKind])?;
    for months in -MONTHS_BACK..=1 {
        let month = Month::of(now.try_into()?).plus(months);
        partitions::create(&writer, &[CHAIN], month).await?;
    }
    client
        .batch_execute("SET TIME ZONE 'UTC'; SET ROLE indexer_writer")
        .await?;
    let feeds = include_str!("feeds.sql").replace("$NOW", &now.to_string());
    client.batch_execute(&feeds).await.context("our rows")?;
    let plain = include_str!("plain.sql");
    client.batch_execute(plain).await.context("plain rows")?;
    for sql in ["RESET ROLE", "VACUUM ANALYZE", "CHECKPOINT"] {
        client.batch_execute(sql).await?;
    }
    Ok(database.url)
}
