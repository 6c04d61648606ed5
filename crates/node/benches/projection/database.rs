//! One PostgreSQL for all sides, a database of its own for each, and what is in it in the end.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use chronolith_sim::evm::FeeRow;
use chronolith_store::testing_postgres::{TempPostgres, TempPostgresOptions};
use const_hex::encode_prefixed;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use crate::process;

/// Beside fsync, which is on: what nobody would leave as small as it comes.
const SETTINGS: [&str; 2] = ["shared_buffers=512MB", "max_wal_size=4GB"];
/// How often it is looked whether the last row is there.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A side that has neither a new row nor a sign of life for so long is given up.
const QUIET_MAX: Duration = Duration::from_secs(120);
/// Counting all rows takes a while: once in so many looks, to see that there is progress.
const LOOKS_A_COUNT: u32 = 500;

/// A server that keeps what it commits.
pub(crate) struct Server {
    postgres: TempPostgres,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let options = TempPostgresOptions {
            durable: true,
            settings: SETTINGS.map(str::to_owned).to_vec(),
        };
        let postgres = TempPostgres::start(&options)?;
        Ok(Self { postgres })
    }

    /// An empty database of this name; one that was there is dropped. What other databases have left to
    /// write is written before.
    pub(crate) async fn fresh(&self, name: &str) -> Result<Database> {
        let client = connect(&self.postgres.url).await?;
        client
            .batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
            .await?;
        client
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .await?;
        client.batch_execute("CHECKPOINT").await?;
        let (server, _) = self.postgres.url.rsplit_once('/').context("a URL")?;
        let url = format!("{server}/{name}");
        let client = connect(&url).await?;
        Ok(Database { url, client })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the connection needs a task of its own, and this is no library"
)]
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Where a side keeps its rows.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// A condition for the row of transaction hash `$1`, as text, log index `$2`, chain `$3` and block
    /// `$4`, all of which it must name. An index should know most of it: it is asked often.
    pub(crate) is_row: &'static str,
    /// All columns as text, in the order of [`line`].
    pub(crate) columns: &'static str,
}

/// What is wrong with the rows of a side.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Faults {
    pub(crate) missing: u64,
    pub(crate) duplicate: u64,
    /// Rows that no log stands for, or with another value in some column.
    pub(crate) wrong: u64,
}

/// The database of one side.
pub(crate) struct Database {
    pub(crate) url: String,
    client: Client,
}

impl Database {
    /// CPU seconds of all processes of the server, so far.
    pub(crate) async fn cpu_seconds(&self) -> Result<f64> {
        let row = self.client.query_one("SELECT pg_backend_pid()", &[]);
        let backend: i32 = row.await?.try_get(0)?;
        process::cpu_of_family(process::parent_of(backend.try_into()?)?)
    }

    /// Waits until all rows are there, or until nothing happens any more. `alive` fails when the side has
    /// ended, else it gives a number that changes while the side does something.
    pub(crate) async fn wait_for(
        &self,
        table: &Table,
        rows: &[FeeRow],
        mut alive: impl FnMut() -> Result<u64>,
    ) -> Result<()> {
        let mut seen = (0, 0);
        let mut since = Instant::now();
        let mut question = None;
        for look in 0_u32.. {
            let mut sign = (alive()?, seen.1);
            if self.has_last(table, rows, &mut question).await?
                || look.is_multiple_of(LOOKS_A_COUNT)
            {
                sign.1 = self.count(table).await?;
            }
            if sign != seen {
                (seen, since) = (sign, Instant::now());
            }
            if sign.1 >= rows.len() as u64 || since.elapsed() > QUIET_MAX {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Whether the last row that must be there is there. The question is planned once: the side needs the
    /// CPU for itself.
    async fn has_last(
        &self,
        table: &Table,
        rows: &[FeeRow],
        question: &mut Option<Statement>,
    ) -> Result<bool> {
        let Some(last) = rows.last() else {
            return Ok(true);
        };
        let Table { name, is_row, .. } = table;
        if question.is_none() {
            let query = format!("SELECT 1 FROM {name} WHERE {is_row} LIMIT 1");
            *question = none_yet(self.client.prepare(&query).await)?;
        }
        let Some(question) = question else {
            return Ok(false);
        };
        let (hash, log_index) = (encode_prefixed(last.tx_hash.0), last.log_index as i32);
        let (chain_id, number) = (last.chain_id as i64, last.block_number as i64);
        let values: [&(dyn ToSql + Sync); 4] = [&hash, &log_index, &chain_id, &number];
        let found = self.client.query_opt(question, &values).await;
        Ok(none_yet(found)?.flatten().is_some())
    }

    async fn count(&self, table: &Table) -> Result<u64> {
        let query = format!("SELECT count(*) FROM {}", table.name);
        let row = none_yet(self.client.query_one(&query, &[]).await)?;
        let count: i64 = row.map_or(Ok(0), |row| row.try_get(0))?;
        Ok(count.try_into()?)
    }

    /// Compares every row with what must be there.
    pub(crate) async fn compare(&self, table: &Table, rows: &[FeeRow]) -> Result<Faults> {
        let mut seen: HashMap<String, u64> = rows.iter().map(|row| (line(row), 0)).collect();
        ensure!(seen.len() == rows.len(), "the chain itself has a row twice");
        let mut faults = Faults::default();
        let Table { name, columns, .. } = table;
        let query = format!("SELECT concat_ws(' ', {columns}) FROM {name}");
        let none: [&str; 0] = [];
        let found = self.client.query_raw(&query, none).await?;
        let mut found = std::pin::pin!(found.map(|row| row?.try_get::<_, String>(0)));
        while let Some(found) = found.try_next().await? {
            match seen.get_mut(&found) {
                None => faults.wrong += 1,
                Some(times) => {
                    faults.duplicate += u64::from(*times > 0);
                    *times += 1;
                }
            }
        }
        faults.missing = seen.values().filter(|times| **times == 0).count() as u64;
        Ok(faults)
    }
}

/// A side makes its table when it likes.
fn none_yet<T>(answer: Result<T, tokio_postgres::Error>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) => match error.code() {
            Some(code) if *code == SqlState::UNDEFINED_TABLE => Ok(None),
            _ => Err(error.into()),
        },
    }
}

/// A row as text, as it is compared.
fn line(row: &FeeRow) -> String {
    format!(
        "{} {} {} {} {} {} {} {} {} {}",
        row.chain_id,
        row.block_number,
        encode_prefixed(row.block_hash.0),
        row.block_timestamp,
        encode_prefixed(row.tx_hash.0),
        row.log_index,
        encode_prefixed(row.token),
        encode_prefixed(row.integrator),
        row.integrator_fee,
        row.lifi_fee
    )
}
