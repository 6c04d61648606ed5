//! `db init`: roles, and tables in the version that this program knows.

use futures::FutureExt as _;
use postgres_protocol::password::scram_sha_256;
use serde::Serialize;
use tokio_postgres::Client;

use crate::database::{READER_ROLE, WRITER_ROLE, parse};
use crate::error::{Error, Result, Tried as _};

/// The tables of all projections are one sequence of migrations, although each projection is a crate of its own:
/// databases in use record the number and the checksum of every migration in this order. A migration that was
/// released stays here byte for byte.
#[allow(unreachable_pub, reason = "made by the macro")]
mod embedded {
    refinery::embed_migrations!("migrations");
}

/// Two that set up the same database at once would collide; the number is that of nothing else.
const SETUP_LOCK: i64 = 7_163_384_699_739_271_988;

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetUp {
    pub created_roles: Vec<String>,
    pub applied: Vec<String>,
    /// The version of the tables now.
    pub version: i32,
}

/// Passwords for roles that can log in. A role without one is made without the right to: grant it to
/// a role that can.
#[derive(Clone, Default)]
pub struct Passwords {
    /// Of the role that writes.
    pub writer: Option<String>,
    /// Of the role that reads.
    pub reader: Option<String>,
}

/// The version of the tables that this program knows.
#[must_use]
pub fn latest_version() -> i32 {
    let runner = embedded::migrations::runner();
    let versions = runner.get_migrations().iter();
    versions.map(|one| one.version()).max().unwrap_or(0)
}

/// Makes roles and tables, or brings them up to date. Doing it twice changes nothing.
///
/// # Errors
/// The user of this URL may not do that, or the server does not answer.
pub async fn set_up(url: &str, passwords: &Passwords) -> Result<SetUp> {
    connected(url, async |client| prepare(client, passwords).await).await
}

/// Executes statements as the user of a URL, each on its own, such as those that make databases.
///
/// # Errors
/// One is refused, or the server does not answer.
pub async fn execute(url: &str, statements: &[&str]) -> Result<()> {
    let run = async |client: &mut Client| {
        for statement in statements {
            client.batch_execute(statement).await.tried("execute")?;
        }
        Ok(())
    };
    connected(url, run).await
}

/// Does something over a connection of its own.
async fn connected<T>(url: &str, work: impl AsyncFnOnce(&mut Client) -> Result<T>) -> Result<T> {
    let target = parse(url)?;
    let connected = target.config.connect(target.tls).await;
    let (mut client, connection) = connected.tried("connect")?;
    let mut work = Box::pin(work(&mut client)).fuse();
    let mut connection = Box::pin(connection).fuse();
    futures::select! {
        done = work => done,
        ended = connection => match ended {
            Ok(()) => work.await,
            Err(error) => Err(Error::of("talk to the database", &error)),
        },
    }
}

async fn prepare(client: &mut Client, passwords: &Passwords) -> Result<SetUp> {
    let lock = client.execute("SELECT pg_advisory_lock($1)", &[&SETUP_LOCK]);
    lock.await.tried("wait for another setup")?;
    let mut created_roles = Vec::new();
    let roles = [
        (WRITER_ROLE, &passwords.writer),
        (READER_ROLE, &passwords.reader),
    ];
    for (role, password) in roles {
        if make_role(client, role, password.as_deref()).await? {
            created_roles.push(role.to_owned());
        }
    }
    let grants = format!(
        "DO $$ BEGIN \
            IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) \
                AND current_user <> '{WRITER_ROLE}' THEN \
                EXECUTE format('GRANT {WRITER_ROLE} TO %I', current_user); \
            END IF; \
            EXECUTE format('GRANT CREATE, TEMPORARY, CONNECT ON DATABASE %I TO {WRITER_ROLE}', current_database()); \
            EXECUTE format('GRANT CONNECT ON DATABASE %I TO {READER_ROLE}', current_database()); \
        END $$; \
        GRANT {READER_ROLE} TO {WRITER_ROLE}; \
        CREATE SCHEMA IF NOT EXISTS metadata AUTHORIZATION {WRITER_ROLE}; \
        GRANT USAGE, CREATE ON SCHEMA public TO {WRITER_ROLE}; \
        SET ROLE {WRITER_ROLE}; \
        SET search_path = public; \
        GRANT USAGE ON SCHEMA metadata TO {READER_ROLE}; \
        RESET ROLE; \
        GRANT USAGE ON SCHEMA public TO {READER_ROLE}; \
        SET ROLE {WRITER_ROLE}; \
        ALTER DEFAULT PRIVILEGES IN SCHEMA public, metadata GRANT SELECT ON TABLES TO {READER_ROLE}"
    );
    let granted = client.batch_execute(&grants).await;
    granted.tried("grant rights (the user must be allowed to create roles and schemas)")?;
    let report = embedded::migrations::runner().run_async(client).await;
    let report = report.map_err(|error| Error::Refused {
        context: "bring the tables up to date".to_owned(),
        reason: error.to_string(),
    })?;
    let reset = client.batch_execute("RESET ROLE").await;
    reset.tried("end the setup")?;
    let unlock = client.execute("SELECT pg_advisory_unlock($1)", &[&SETUP_LOCK]);
    unlock.await.tried("end the setup")?;
    let applied = report.applied_migrations().iter();
    Ok(SetUp {
        created_roles,
        applied: applied.map(ToString::to_string).collect(),
        version: latest_version(),
    })
}

/// Makes a role where there is none; returns whether it did. A password that is given is set again.
async fn make_role(client: &Client, role: &str, password: Option<&str>) -> Result<bool> {
    let known = "SELECT 1 FROM pg_roles WHERE rolname = $1";
    let known = client.query_opt(known, &[&role]).await;
    let known = known.tried("look for roles")?.is_some();
    if !known {
        let make = format!("CREATE ROLE {role} NOLOGIN");
        let made = client.batch_execute(&make).await;
        made.tried("create a role (the user must be allowed to)")?;
    }
    if let Some(password) = password {
        // What the server keeps is made here: statements may be logged. It holds no quote.
        let verifier = scram_sha_256(password.as_bytes());
        let set = format!("ALTER ROLE {role} LOGIN PASSWORD '{verifier}'");
        client.batch_execute(&set).await.tried("set a password")?;
    }
    Ok(!known)
}
