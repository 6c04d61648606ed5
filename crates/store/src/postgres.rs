//! [`PostgresMeta`]: the record as a row of PostgreSQL.
//!
//! One connection, opened when needed and again after it broke. A swap is one statement that
//! names the version it expects, so the server decides who wins. No password is in an error or in
//! `Debug`.

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Mutex;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use crate::port::watch_by;
use crate::{Error, MetaStore, Result, Version, Versioned};

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a statement may take before the connection counts as dead.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a watcher looks.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Two sessions that create the table at once can collide in the catalog, hence the lock; the
/// number is that of nothing else.
const CREATE_TABLE: &str = "\
    BEGIN; \
    SELECT pg_advisory_xact_lock(7163384699739271987); \
    CREATE TABLE IF NOT EXISTS chronolith_state \
        (name text PRIMARY KEY, version bigint NOT NULL, bytes bytea NOT NULL); \
    COMMIT";

/// A commit is durable when it returns, also where the server's default is otherwise.
const COMMIT_DURABLY: &str = "\
    SELECT set_config('synchronous_commit', 'on', false) \
    WHERE current_setting('synchronous_commit') = 'off'";

/// The record as a row of the table `chronolith_state`, which is created if it is missing.
pub struct PostgresMeta {
    config: Config,
    name: String,
    client: Mutex<Option<Arc<Client>>>,
}

impl PostgresMeta {
    /// The record `name` in the database at `url` (`postgres://user:password@host:port/database`).
    /// Connects when first used, without TLS, and only to a server that takes writes: a standby
    /// may not know the newest record.
    pub fn new(url: &str, name: &str) -> Result<Self> {
        // The parser's own message may quote a part of the URL.
        let mut config =
            Config::from_str(url).map_err(|_| Error::conflict("database URL cannot be parsed"))?;
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        Ok(Self {
            config,
            name: name.to_owned(),
            client: Mutex::new(None),
        })
    }

    /// The open connection, or a new one.
    async fn client(&self) -> Result<Arc<Client>> {
        let mut slot = self.client.lock().await;
        if let Some(client) = slot.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        *slot = None;
        let client = Arc::new(self.within("connect to database", self.connect()).await?);
        *slot = Some(client.clone());
        Ok(client)
    }

    async fn connect(&self) -> std::result::Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.config.connect(NoTls).await?;
        drive(connection);
        client.batch_execute(COMMIT_DURABLY).await?;
        client.batch_execute(CREATE_TABLE).await?;
        Ok(client)
    }

    /// Bounds the time of a database call, and returns the meaning of its failure.
    async fn within<T>(
        &self,
        what: &str,
        call: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        let context = || format!("{what} (name={})", self.name);
        match tokio::time::timeout(STATEMENT_TIMEOUT, call).await {
            Ok(Ok(value)) => Ok(value),
            // The server undid it because of another's change.
            Ok(Err(error)) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {
                Err(Error::Conflict { reason: context() })
            }
            Ok(Err(error)) => Err(Error::unavailable(context(), error)),
            Err(elapsed) => Err(Error::unavailable(context(), elapsed)),
        }
    }

    /// Does something with a connection, and does not use it again after a failure.
    async fn run<T, F>(&self, what: &str, call: F) -> Result<T>
    where
        F: AsyncFnOnce(Arc<Client>) -> std::result::Result<T, tokio_postgres::Error>,
    {
        let client = self.client().await?;
        let outcome = self.within(what, call(client.clone())).await;
        if matches!(outcome, Err(Error::Unavailable { .. })) {
            let mut slot = self.client.lock().await;
            if slot.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, &client)) {
                *slot = None;
            }
        }
        outcome
    }

    async fn load_version(&self) -> Result<Option<Version>> {
        const SELECT: &str = "SELECT version FROM chronolith_state WHERE name = $1";
        let call = async |client: Arc<Client>| client.query_opt(SELECT, &[&self.name]).await;
        let row = self.run("load version", call).await?;
        row.map(|row| version_of(row.get(0))).transpose()
    }
}

/// Runs a connection until its client is dropped.
fn drive<T: Future + Send + 'static>(connection: T)
where
    T::Output: Send + 'static,
{
    #[expect(
        clippy::disallowed_methods,
        reason = "a connection is no loop of ours: it ends with its client"
    )]
    tokio::spawn(connection);
}

fn version_of(stored: i64) -> Result<Version> {
    let negative = |_| format!("record has a negative version (version={stored})");
    let version = u64::try_from(stored).map_err(negative);
    version.map(Version).map_err(Error::corrupt)
}

#[async_trait]
impl MetaStore for PostgresMeta {
    async fn load(&self) -> Result<Option<Versioned>> {
        const SELECT: &str = "SELECT version, bytes FROM chronolith_state WHERE name = $1";
        let call = async |client: Arc<Client>| client.query_opt(SELECT, &[&self.name]).await;
        let Some(row) = self.run("load record", call).await? else {
            return Ok(None);
        };
        Ok(Some(Versioned {
            version: version_of(row.get(0))?,
            bytes: row.get::<_, Vec<u8>>(1).into(),
        }))
    }

    async fn swap(&self, expected: Option<Version>, bytes: Bytes) -> Result<Version> {
        const INSERT: &str = "INSERT INTO chronolith_state (name, version, bytes) \
            VALUES ($1, 1, $2) ON CONFLICT DO NOTHING";
        const UPDATE: &str = "UPDATE chronolith_state SET version = version + 1, bytes = $2 \
            WHERE name = $1 AND version = $3";
        let Ok(found) = i64::try_from(expected.map_or(0, |version| version.0)) else {
            return Err(Error::stale(expected));
        };
        let bytes = &bytes[..];
        let changed = self.run("swap record", async |client: Arc<Client>| match expected {
            None => client.execute(INSERT, &[&self.name, &bytes]).await,
            Some(_) => client.execute(UPDATE, &[&self.name, &bytes, &found]).await,
        });
        match changed.await? {
            0 => Err(Error::stale(expected)),
            _ => version_of(found.saturating_add(1)),
        }
    }

    async fn watch(&self, seen: Option<Version>) -> Result<Versioned> {
        watch_by(self, WATCH_INTERVAL, seen, || self.load_version()).await
    }

    fn is_exclusive(&self) -> bool {
        false
    }
}

impl fmt::Debug for PostgresMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresMeta")
            .field("hosts", &self.config.get_hosts())
            .field("ports", &self.config.get_ports())
            .field("database", &self.config.get_dbname())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        let meta = PostgresMeta::new("postgres://me:hunter2@localhost:1/db", "chain-1").unwrap();
        let printed = format!("{meta:?}");
        assert!(
            printed.contains("chain-1") && !printed.contains("hunter2"),
            "{printed}"
        );
        for bad in [
            "postgres://me:hunter2@host:port/db",
            "hunter2",
            "host=a hunter2=b",
            "p=hunter2",
        ] {
            let error = PostgresMeta::new(bad, "x").unwrap_err();
            assert!(
                !format!("{error:?} {error}").contains("hunter2"),
                "{error:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_server_that_is_away_is_unavailable() {
        // A port that was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let url = format!("postgres://me:hunter2@127.0.0.1:{port}/db");
        let meta = PostgresMeta::new(&url, "x").unwrap();
        let error = meta.load().await.unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}
