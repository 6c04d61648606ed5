//! The baseline: the same logs in PostgreSQL with the index that fits exactly, behind a handler that does
//! nothing but ask it and encode as we do. It is spared the block's hash, which it would have to join.

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use chronolith_archive::LogRecord;
use chronolith_model::{Block, BlockRange, BlockRef, Hash32, Log, LogParts};
use chronolith_serve::logs_as_json;
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use serde_json::Value;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls, Row, Statement};

use crate::data::Data;
use crate::{Running, pinned};

const TABLE: &str = "CREATE TABLE logs (block bigint NOT NULL, timestamp bigint NOT NULL, log_index int NOT NULL, \
    tx_index int NOT NULL, tx_hash bytea NOT NULL, address bytea NOT NULL, topic0 bytea, topic1 bytea, \
    topic2 bytea, topic3 bytea, data bytea NOT NULL)";
const INDEXES: [&str; 2] = [
    "CREATE INDEX ON logs (address, topic0, block, log_index)",
    "CREATE INDEX ON logs (topic0, block, log_index)",
];
const COPY: &str = "COPY logs FROM STDIN (FORMAT binary)";
const COLUMNS: &str =
    "block, timestamp, log_index, tx_index, tx_hash, address, topic0, topic1, topic2, topic3, data";
const SETTINGS: [&str; 3] = ["shared_buffers=2GB", "random_page_cost=1.1", "jit=off"];
/// Connections to the database.
const CLIENTS: usize = 8;
const CHUNK: u64 = 500;

/// The database, and the process that answers from it.
pub(crate) struct Postgres {
    pub(crate) address: String,
    _handler: Running,
    _server: TempPostgres,
}

impl Postgres {
    pub(crate) fn start(data: &Data) -> Result<Self> {
        pin_self("0")?;
        let settings = SETTINGS.map(str::to_owned).to_vec();
        let server = TempPostgres::start(&TempPostgresOptions {
            durable: false,
            settings,
        });
        // The database stays on the first core.
        pin_self("0,1")?;
        let server = server?;
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(fill(&server.url, data))?;
        let mut command = pinned("0", &std::env::current_exe()?);
        let mut handler = command.args(["postgres", &server.url]).spawn()?;
        let mut said = std::io::BufReader::new(handler.stdout.take().context("no output")?);
        let mut address = String::new();
        std::io::BufRead::read_line(&mut said, &mut address)?;
        Ok(Self {
            address: format!("{}/", address.trim()),
            _handler: Running(handler),
            _server: server,
        })
    }
}

fn pin_self(cores: &str) -> Result<()> {
    let pid = std::process::id().to_string();
    let mut command = Command::new("taskset");
    let status = command
        .args(["-a", "-p", "-c", cores, &pid])
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "taskset failed");
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the connection needs a task of its own, and this is no library"
)]
async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn fill(url: &str, data: &Data) -> Result<()> {
    let client = connect(url).await?;
    client.batch_execute(TABLE).await?;
    let sink = client.copy_in(COPY).await?;
    let bytes = Type::BYTEA;
    let mut types = vec![Type::INT8, Type::INT8, Type::INT4, Type::INT4];
    types.extend(std::iter::repeat_n(bytes, 7));
    let writer = BinaryCopyInWriter::new(sink, &types);
    let mut writer = std::pin::pin!(writer);
    for start in (0..data.blocks).step_by(CHUNK as usize) {
        let range = BlockRange::new(start, (start + CHUNK).min(data.blocks));
        for block in data.chain.blocks(range) {
            for log in &block.logs {
                let row = Columns::new(&block, log)?;
                writer.as_mut().write(&row.values()).await?;
            }
        }
    }
    writer.finish().await?;
    for index in INDEXES {
        client.batch_execute(index).await?;
    }
    client.batch_execute("VACUUM ANALYZE logs").await?;
    Ok(())
}

struct Columns<'a> {
    numbers: (i64, i64, i32, i32),
    tx_hash: Vec<u8>,
    address: &'a [u8],
    topics: [Option<&'a [u8]>; 4],
    data: &'a [u8],
}

impl<'a> Columns<'a> {
    fn new(block: &Block, log: &'a Log) -> Result<Self> {
        let tx_hash = block
            .tx_hash(log.tx_index())
            .context("a log of no transaction")?;
        let (number, time) = (block.clock.number as i64, block.clock.timestamp as i64);
        Ok(Self {
            numbers: (number, time, log.log_index() as i32, log.tx_index() as i32),
            tx_hash: tx_hash.as_bytes().to_vec(),
            address: log.emitter(),
            topics: [0, 1, 2, 3].map(|at| log.topic(at)),
            data: log.data(),
        })
    }

    fn values(&self) -> [&(dyn ToSql + Sync); 11] {
        let (block, time, log, tx) = &self.numbers;
        let [topic0, topic1, topic2, topic3] = &self.topics;
        [
            block,
            time,
            log,
            tx,
            &self.tx_hash,
            &self.address,
            topic0,
            topic1,
            topic2,
            topic3,
            &self.data,
        ]
    }
}

struct Pool {
    clients: Vec<(Client, [Statement; 2])>,
    next: AtomicUsize,
}

/// Answers on a port of its own, which it prints, until it is killed.
pub(crate) fn serve(url: &str) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let client = connect(url).await?;
            let by_both = format!("SELECT {COLUMNS} FROM logs WHERE address = ANY($1) AND topic0 = ANY($2) AND block BETWEEN $3 AND $4 ORDER BY block, log_index");
            let by_topic = format!("SELECT {COLUMNS} FROM logs WHERE topic0 = ANY($1) AND block BETWEEN $2 AND $3 ORDER BY block, log_index");
            let statements = [client.prepare(&by_both).await?, client.prepare(&by_topic).await?];
            clients.push((client, statements));
        }
        let next = AtomicUsize::new(0);
        let router = Router::new().route("/", post(answer)).with_state(Arc::new(Pool { clients, next }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        axum::serve(listener, router).await?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn answer(State(pool): State<Arc<Pool>>, body: String) -> Vec<u8> {
    match find(&pool, &body).await {
        Ok(logs) => {
            let mut out = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":".to_vec();
            out.extend_from_slice(&logs_as_json(&logs));
            out.push(b'}');
            out
        }
        Err(error) => format!("{{\"error\":\"{error}\"}}").into_bytes(),
    }
}

async fn find(pool: &Pool, body: &str) -> Result<Vec<LogRecord>> {
    let body: Value = serde_json::from_str(body)?;
    let filter = body.pointer("/params/0").context("no filter")?;
    let bytes = |value: &Value| -> Result<Vec<u8>> {
        let text = value.as_str().context("no text")?.trim_start_matches("0x");
        let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2).unwrap_or_default(), 16);
        Ok((0..text.len())
            .step_by(2)
            .map(digit)
            .collect::<Result<_, _>>()?)
    };
    let many = |value: Option<&Value>| -> Result<Vec<Vec<u8>>> {
        match value {
            Some(Value::Array(values)) => values.iter().map(bytes).collect(),
            Some(value) => Ok(vec![bytes(value)?]),
            None => Ok(Vec::new()),
        }
    };
    let number = |name: &str| -> Result<i64> {
        let text = filter
            .get(name)
            .and_then(Value::as_str)
            .context("no block")?;
        Ok(i64::from_str_radix(text.trim_start_matches("0x"), 16)?)
    };
    let (from, to) = (number("fromBlock")?, number("toBlock")?);
    let (addresses, topics) = (
        many(filter.get("address"))?,
        many(filter.pointer("/topics/0"))?,
    );
    let at = pool.next.fetch_add(1, Ordering::Relaxed) % pool.clients.len();
    let (client, [by_both, by_topic]) = pool.clients.get(at).context("no client")?;
    let rows = match addresses.is_empty() {
        false => {
            client
                .query(by_both, &[&addresses, &topics, &from, &to])
                .await?
        }
        true => client.query(by_topic, &[&topics, &from, &to]).await?,
    };
    rows.iter().map(record).collect()
}

fn record(row: &Row) -> Result<LogRecord> {
    let topics: Vec<&[u8]> = (6..10)
        .filter_map(|at| row.get::<_, Option<&[u8]>>(at))
        .collect();
    let parts = LogParts {
        tx_index: row.get::<_, i32>(3) as u32,
        log_index: row.get::<_, i32>(2) as u32,
        emitter: row.get(5),
        topics: &topics,
        data: row.get(10),
        ..LogParts::default()
    };
    let tx_hash = Hash32::from_slice(row.get(4)).context("no hash")?;
    Ok(LogRecord {
        block: BlockRef {
            number: row.get::<_, i64>(0) as u64,
            hash: Hash32::ZERO,
        },
        timestamp: row.get::<_, i64>(1) as u64,
        tx_hash,
        log: Log::new(&parts)?,
    })
}
