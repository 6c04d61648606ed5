//! The baseline: the same logs in PostgreSQL, durable, with the indexes that fit the queries.
//!
//! It is spared the block hash, which it would have to store with each log or join: its answers
//! carry less than ours, its table is smaller and its queries are cheaper.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use chronolith_model::{Block, BlockRange};
use chronolith_sim::SimChain;
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};

const SETTINGS: [&str; 9] = [
    "shared_buffers=2GB",
    "maintenance_work_mem=1GB",
    "work_mem=64MB",
    "effective_cache_size=12GB",
    "max_wal_size=32GB",
    "checkpoint_timeout=30min",
    "random_page_cost=1.1",
    "effective_io_concurrency=200",
    "jit=off",
];

const TABLE: &str = "CREATE TABLE logs (
    block bigint NOT NULL, timestamp bigint NOT NULL, log_index int NOT NULL,
    tx_index int NOT NULL, tx_hash bytea NOT NULL, address bytea NOT NULL,
    topic0 bytea, topic1 bytea, topic2 bytea, topic3 bytea, data bytea NOT NULL)";

const INDEXES: [&str; 5] = [
    "CREATE INDEX ON logs (address, topic0, block)",
    "CREATE INDEX ON logs (topic0, block)",
    "CREATE INDEX ON logs (topic1, block)",
    "CREATE INDEX ON logs (topic2, block)",
    "CREATE INDEX ON logs (block, log_index)",
];

const COPY: &str = "COPY logs (block, timestamp, log_index, tx_index, tx_hash, address, topic0, \
                    topic1, topic2, topic3, data) FROM STDIN (FORMAT binary)";

const TYPES: [Type; 11] = [
    Type::INT8,
    Type::INT8,
    Type::INT4,
    Type::INT4,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
    Type::BYTEA,
];

/// Blocks made before they are copied.
const CHUNK: u64 = 200;

/// The throwaway server.
#[derive(Debug)]
pub(crate) struct Postgres {
    server: TempPostgres,
}

/// What loading came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) logs: u64,
    pub(crate) seconds: f64,
    pub(crate) bytes: i64,
}

impl Loaded {
    /// Logs a second.
    pub(crate) fn rate(&self) -> f64 {
        self.logs as f64 / self.seconds
    }

    /// Bytes a log, indexes included.
    pub(crate) fn bytes_per_log(&self) -> f64 {
        self.bytes as f64 / self.logs as f64
    }
}

impl Postgres {
    /// Starts a server of its own.
    pub(crate) fn start() -> Result<Self> {
        let server = TempPostgres::start(&TempPostgresOptions {
            durable: true,
            settings: SETTINGS.map(str::to_owned).to_vec(),
        })?;
        Ok(Self { server })
    }

    /// A new connection over loopback TCP.
    #[expect(
        clippy::disallowed_methods,
        reason = "the connection needs a task of its own, and this is no library"
    )]
    pub(crate) async fn connect(&self) -> Result<Client> {
        let connected = tokio_postgres::connect(&self.server.url, NoTls).await;
        let (client, connection) = connected.context("connect to PostgreSQL")?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Stops and starts it with everything on disk, so that its own cache is empty.
    pub(crate) async fn restart(&self) -> Result<()> {
        self.connect().await?.batch_execute("CHECKPOINT").await?;
        self.server.kill()?;
        self.server.restart()?;
        Ok(())
    }

    /// Loads blocks into a table that has its indexes already, one transaction each chunk, and
    /// drops it again. Stops after so many logs.
    pub(crate) async fn load_live(
        &self,
        chain: &SimChain,
        extent: BlockRange,
        chunk: u64,
        logs_max: u64,
    ) -> Result<Loaded> {
        let client = self.connect().await?;
        client.batch_execute(TABLE).await?;
        for index in INDEXES {
            client.batch_execute(index).await?;
        }
        let mut loaded = Loaded::default();
        let mut start = extent.start;
        while start < extent.end && loaded.logs < logs_max {
            let end = (start + chunk).min(extent.end);
            let blocks: Vec<Block> = chain.blocks(BlockRange::new(start, end)).collect();
            let began = Instant::now();
            // A statement outside of a transaction is one: durable when it returns.
            loaded.logs += copy(&client, blocks.into_iter()).await?;
            loaded.seconds += began.elapsed().as_secs_f64();
            start = end;
        }
        loaded.bytes = table_bytes(&client).await?;
        client.batch_execute("DROP TABLE logs").await?;
        Ok(loaded)
    }

    /// Loads everything, then builds the indexes; the table stays. `VACUUM ANALYZE` comes after
    /// and is not counted.
    pub(crate) async fn load_bulk(&self, chain: &SimChain, extent: BlockRange) -> Result<Loaded> {
        let client = self.connect().await?;
        client.batch_execute(TABLE).await?;
        let mut making = Duration::ZERO;
        let began = Instant::now();
        let mut start = extent.start;
        let blocks = std::iter::from_fn(|| {
            let began = Instant::now();
            let end = (start + CHUNK).min(extent.end);
            let blocks: Vec<Block> = chain.blocks(BlockRange::new(start, end)).collect();
            start = end;
            making += began.elapsed();
            (!blocks.is_empty()).then_some(blocks)
        });
        let logs = copy(&client, blocks.flatten()).await?;
        for index in INDEXES {
            client.batch_execute(index).await?;
        }
        let seconds = (began.elapsed() - making).as_secs_f64();
        let bytes = table_bytes(&client).await?;
        client.batch_execute("VACUUM ANALYZE logs").await?;
        client.batch_execute("CHECKPOINT").await?;
        Ok(Loaded {
            logs,
            seconds,
            bytes,
        })
    }
}

async fn table_bytes(client: &Client) -> Result<i64> {
    let query = "SELECT pg_total_relation_size('logs')";
    Ok(client.query_one(query, &[]).await?.try_get(0)?)
}

/// Copies blocks in one statement and returns how many logs they had.
async fn copy(client: &Client, blocks: impl Iterator<Item = Block>) -> Result<u64> {
    let sink = client.copy_in(COPY).await.context("begin COPY")?;
    let writer = BinaryCopyInWriter::new(sink, &TYPES);
    let mut writer = std::pin::pin!(writer);
    let mut logs = 0;
    for block in blocks {
        let number = i64::try_from(block.clock.number)?;
        let timestamp = i64::try_from(block.clock.timestamp)?;
        for log in &block.logs {
            let tx_hash = block.tx_hash(log.tx_index()).context("a log of no tx")?;
            let (log_index, tx_index) = (log.log_index() as i32, log.tx_index() as i32);
            let (tx_hash, emitter) = (tx_hash.as_bytes().as_slice(), log.emitter());
            let [topic0, topic1, topic2, topic3] = [0, 1, 2, 3].map(|at| log.topic(at));
            let data = log.data();
            let values: [&(dyn ToSql + Sync); 11] = [
                &number, &timestamp, &log_index, &tx_index, &tx_hash, &emitter, &topic0, &topic1,
                &topic2, &topic3, &data,
            ];
            writer.as_mut().write(&values).await.context("COPY")?;
            logs += 1;
        }
    }
    writer.finish().await.context("end COPY")?;
    Ok(logs)
}
