//! Connections to the database: who they are there, and how long they wait.

use std::time::Duration;

use deadpool_postgres::{
    Client, Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime,
};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::SqlState;

use crate::error::{Error, Result, Tried as _};
use crate::kind::Kinds;
use crate::tls::Target;

/// The role that owns and writes the tables.
pub const WRITER_ROLE: &str = "indexer_writer";
/// The role that reads them.
pub const READER_ROLE: &str = "sync_reader";

/// How long a connection may take to open, and how long one is waited for.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The session settings of a writer. A commit is durable when it returns. A transaction that
/// is left open is ended by the server, so that a process which hangs cannot hold a lock forever. A
/// whole stage fits into memory.
const WRITER_SESSION: &str = "\
    SET SESSION TIME ZONE 'UTC'; \
    SET search_path = public; \
    SET statement_timeout = '120s'; \
    SET lock_timeout = '30s'; \
    SET idle_in_transaction_session_timeout = '20s'; \
    SET jit = off; \
    SET temp_buffers = '32MB'; \
    SELECT set_config('synchronous_commit', 'on', false) \
        WHERE current_setting('synchronous_commit') = 'off'; \
    SET ROLE indexer_writer";

/// The session settings of a reader.
const READER_SESSION: &str = "\
    SET SESSION TIME ZONE 'UTC'; \
    SET search_path = public; \
    SET statement_timeout = '10s'; \
    SET jit = off; \
    SET default_transaction_read_only = on; \
    SET ROLE sync_reader";

/// A database with projections.
#[derive(Clone)]
pub struct Database {
    pool: Pool,
    /// The projections whose tables it has.
    kinds: Kinds,
}

impl std::fmt::Debug for Database {
    /// Without the URL, which may carry a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

impl Database {
    /// The database at a URL, with the tables of these projections, for writing. Connects when first used, and only to a server that takes
    /// writes.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn writer(url: &str, connections: usize, kinds: Kinds) -> Result<Self> {
        let mut target = parse(url)?;
        let attributes = TargetSessionAttrs::ReadWrite;
        target.config.target_session_attrs(attributes);
        let pool = open(target, connections, WRITER_SESSION)?;
        Ok(Self { pool, kinds })
    }

    /// The same, for reading. A standby will do.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn reader(url: &str, connections: usize, kinds: Kinds) -> Result<Self> {
        let pool = open(parse(url)?, connections, READER_SESSION)?;
        Ok(Self { pool, kinds })
    }

    /// The projections whose tables it has.
    pub(crate) fn kinds(&self) -> Kinds {
        self.kinds
    }

    /// A connection.
    ///
    /// # Errors
    /// There is none to be had in time.
    pub async fn client(&self) -> Result<Client> {
        let client = self.pool.get().await;
        client.map_err(|error| match &error {
            PoolError::PostCreateHook(HookError::Backend(error)) => match lacks_role(error) {
                // The greeting names roles: where they are missing, the server is not set up yet.
                true => Error::Schema {
                    found: 0,
                    wanted: crate::setup::latest_version(),
                },
                false => Error::of("greet the database", error),
            },
            _ => Error::of_pool("connect to the database", &error),
        })
    }

    /// Closes connections that are not in use. What they keep, such as tables that rows are staged in, is of
    /// the tables that were there when it was made, and those may have been rebuilt.
    pub(crate) fn reconnect(&self) {
        self.pool.retain(|_, _| false);
    }

    /// Whether the tables are those that this program knows.
    ///
    /// # Errors
    /// They are not, or the database does not answer.
    pub async fn check_version(&self) -> Result<()> {
        let client = self.client().await?;
        let wanted = crate::setup::latest_version();
        let there = "SELECT to_regclass('metadata.schema_version') IS NOT NULL";
        let there = client.query_one(there, &[]).await;
        let there: bool = there.tried("look for the tables")?.get(0);
        let found = match there {
            false => 0,
            true => {
                let version = "SELECT coalesce(version, 0)::int FROM metadata.schema_version";
                let row = client.query_one(version, &[]).await;
                row.tried("read the version of the tables")?.get(0)
            }
        };
        match found == wanted {
            true => Ok(()),
            false => Err(Error::Schema { found, wanted }),
        }
    }
}

/// Connections that are opened when first used, each with its session settings.
fn open(target: Target, connections: usize, session: &'static str) -> Result<Pool> {
    let recycling = ManagerConfig {
        recycling_method: RecyclingMethod::Fast,
    };
    let greet = Hook::async_fn(move |client: &mut deadpool_postgres::ClientWrapper, _| {
        Box::pin(async move {
            let greeted = client.batch_execute(session).await;
            greeted.map_err(HookError::Backend)
        })
    });
    let manager = Manager::from_config(target.config, target.tls, recycling);
    let pool = Pool::builder(manager)
        .max_size(connections.max(1))
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(WAIT_TIMEOUT))
        .create_timeout(Some(CONNECT_TIMEOUT))
        .post_create(greet)
        .build();
    pool.map_err(|error| Error::Invalid(error.to_string()))
}

/// What a URL says, and what is so unless it says otherwise.
pub(crate) fn parse(url: &str) -> Result<Target> {
    let mut target = Target::parse(url)?;
    let config = &mut target.config;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    // A server that died is noticed within half a minute.
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(WAIT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("chronolith");
    }
    Ok(target)
}

/// Whether a greeting failed for want of a role. Its words may be in any language, names are not.
fn lacks_role(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|refused| {
        let roles = [WRITER_ROLE, READER_ROLE];
        *refused.code() == SqlState::INVALID_PARAMETER_VALUE
            && roles.iter().any(|role| refused.message().contains(role))
    })
}
