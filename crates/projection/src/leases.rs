//! Leases: rows that say who may write, by an epoch that every write checks in its own transaction.
//!
//! Time is the server's. It decides when a lease may be taken over, and nothing else: a process that
//! was suspended for an hour and continues writes nothing, because its epoch is gone.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use deadpool_postgres::{GenericClient, Transaction};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::chain_id;
use crate::database::Database;
use crate::error::{Error, Result, Tried as _};

/// How long a lease holds without being renewed.
pub const LEASE_TTL: Duration = Duration::from_secs(15);

/// What a lease is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaseKind {
    /// Rows of blocks that are not final.
    Writer,
    /// What is confirmed and what is dropped.
    Finality,
}

impl LeaseKind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Writer => "writer",
            Self::Finality => "finality",
        }
    }
}

impl fmt::Display for LeaseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LeaseKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::Writer, Self::Finality];
        let found = all.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| Error::Invalid(format!("`{text}` is neither finality nor writer")))
    }
}

/// A lease that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lease {
    pub(crate) chain: i64,
    pub(crate) kind: LeaseKind,
    pub(crate) epoch: i64,
}

impl Lease {
    /// Takes a lease that is free or expired. None where another process holds it.
    pub(crate) async fn take(
        database: &Database,
        chain: i64,
        kind: LeaseKind,
        holder: &str,
    ) -> Result<Option<Self>> {
        const TAKE: &str = "\
            WITH taken AS ( \
                INSERT INTO leases AS l (chain_id, kind, epoch, holder, expires_at) \
                VALUES ($1, $2, 1, $3, now() + $4 * interval '1 second') \
                ON CONFLICT (chain_id, kind) DO UPDATE SET epoch = l.epoch + 1, \
                    holder = excluded.holder, taken_at = now(), expires_at = excluded.expires_at \
                WHERE l.holder IS NULL OR l.expires_at < now() \
                RETURNING epoch) \
            INSERT INTO lease_history (chain_id, kind, epoch, holder) \
            SELECT $1, $2, epoch, $3 FROM taken RETURNING epoch";
        let client = database.client().await?;
        let seconds = LEASE_TTL.as_secs_f64();
        let taken = client
            .query_opt(TAKE, &[&chain, &kind.name(), &holder, &seconds])
            .await;
        let epoch = taken.tried("take a lease")?.map(|row| row.get(0));
        Ok(epoch.map(|epoch| Self { chain, kind, epoch }))
    }

    /// Renews the lease.
    pub(crate) async fn renew(&self, database: &Database) -> Result<()> {
        const RENEW: &str = "\
            UPDATE leases SET expires_at = now() + $4 * interval '1 second' \
            WHERE chain_id = $1 AND kind = $2 AND epoch = $3 AND holder IS NOT NULL";
        let client = database.client().await?;
        let seconds = LEASE_TTL.as_secs_f64();
        let name = self.kind.name();
        let renewed = client
            .execute(RENEW, &[&self.chain, &name, &self.epoch, &seconds])
            .await;
        match renewed.tried("renew a lease")? {
            0 => Err(self.fenced()),
            _ => Ok(()),
        }
    }

    /// Makes sure, to the end of a transaction, that the lease is still ours: a process that
    /// takes it over waits for that end.
    pub(crate) async fn check(&self, tx: &Transaction<'_>) -> Result<()> {
        const CHECK: &str = "SELECT 1 FROM leases WHERE chain_id = $1 AND kind = $2 AND epoch = $3 \
            AND holder IS NOT NULL FOR SHARE";
        let held = tx
            .query_opt(CHECK, &[&self.chain, &self.kind.name(), &self.epoch])
            .await;
        match held.tried("check a lease")? {
            Some(_) => Ok(()),
            None => Err(self.fenced()),
        }
    }

    /// Releases it, so that no other process has to wait.
    pub(crate) async fn release(&self, database: &Database) -> Result<()> {
        const RELEASE: &str = "UPDATE leases SET holder = NULL \
            WHERE chain_id = $1 AND kind = $2 AND epoch = $3";
        let client = database.client().await?;
        let done = client
            .execute(RELEASE, &[&self.chain, &self.kind.name(), &self.epoch])
            .await;
        done.tried("release a lease").map(|_| ())
    }

    fn fenced(&self) -> Error {
        Error::Fenced {
            what: format!("the {} lease of chain {}", self.kind, self.chain),
            epoch: self.epoch,
        }
    }
}

/// A lease: which process may write something of a chain.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ProjectionLock")]
pub struct LeaseReport {
    /// The chain.
    pub chain_id: i64,
    /// What it is for.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["writer", "finality"]))]
    pub kind: String,
    /// How often it changed hands.
    pub epoch: i64,
    /// Who holds it.
    pub holder: Option<String>,
    /// Seconds since it was taken.
    pub age_seconds: f64,
    /// Seconds since its holder last renewed it.
    pub renewed_seconds: f64,
    /// Seconds until others may take it; negative where they may already.
    pub expires_in_seconds: f64,
}

/// All leases, of one chain or of all.
///
/// # Errors
/// The database does not answer.
pub async fn list(database: &Database, chain: Option<u64>) -> Result<Vec<LeaseReport>> {
    let client = database.client().await?;
    read(&client, chain.map(chain_id).transpose()?).await
}

pub(crate) async fn read(
    client: &impl GenericClient,
    chain: Option<i64>,
) -> Result<Vec<LeaseReport>> {
    const LIST: &str = "SELECT chain_id, kind, epoch, holder, \
        extract(epoch FROM now() - taken_at)::float8, extract(epoch FROM expires_at - now())::float8 \
        FROM leases WHERE $1::bigint IS NULL OR chain_id = $1 ORDER BY 1, 2";
    let rows = client.query(LIST, &[&chain]).await.tried("list leases")?;
    let report = |row: &tokio_postgres::Row| LeaseReport {
        chain_id: row.get(0),
        kind: row.get(1),
        epoch: row.get(2),
        holder: row.get(3),
        age_seconds: row.get(4),
        renewed_seconds: LEASE_TTL.as_secs_f64() - row.get::<_, f64>(5),
        expires_in_seconds: row.get(5),
    };
    Ok(rows.iter().map(report).collect())
}

/// Takes a lease away from its holder, which may take it again; what the holder had under way is not
/// written. Audited. False where the lease was free.
///
/// # Errors
/// The database does not answer.
pub async fn release(
    database: &Database,
    chain: u64,
    kind: LeaseKind,
    operator: &str,
) -> Result<bool> {
    const RELEASE: &str = "\
        WITH before AS ( \
            SELECT holder FROM leases WHERE chain_id = $1 AND kind = $2 AND holder IS NOT NULL FOR UPDATE), \
        released AS ( \
            UPDATE leases SET holder = NULL, epoch = epoch + 1 FROM before \
            WHERE chain_id = $1 AND kind = $2 RETURNING epoch, before.holder) \
        INSERT INTO lease_history (chain_id, kind, epoch, holder) \
        SELECT $1, $2, epoch, NULL FROM released \
        RETURNING (SELECT holder FROM before)";
    let mut client = database.client().await?;
    let tx = client.transaction().await.tried("begin")?;
    let chain = chain_id(chain)?;
    let released = tx.query_opt(RELEASE, &[&chain, &kind.name()]).await;
    let Some(row) = released.tried("release a lease")? else {
        return Ok(false);
    };
    let holder: Option<String> = row.get(0);
    let detail = json!({ "type": kind.name(), "holder": holder });
    audit(&tx, Some(chain), "locks release", operator, &detail).await?;
    tx.commit().await.tried("release a lease")?;
    Ok(true)
}

/// Takes every lease of a chain away, to the end of a transaction and after it: the next write of a
/// former holder fails.
pub async fn fence(tx: &Transaction<'_>, chain: i64) -> Result<()> {
    const FENCE: &str = "\
        WITH fenced AS ( \
            UPDATE leases SET holder = NULL, epoch = epoch + 1 WHERE chain_id = $1 \
            RETURNING kind, epoch) \
        INSERT INTO lease_history (chain_id, kind, epoch, holder) \
        SELECT $1, kind, epoch, NULL FROM fenced";
    let fenced = tx.execute(FENCE, &[&chain]).await;
    fenced.tried("take leases away").map(|_| ())
}

/// Writes down what an operator did.
pub async fn audit(
    tx: &Transaction<'_>,
    chain: Option<i64>,
    act: &str,
    operator: &str,
    detail: &serde_json::Value,
) -> Result<()> {
    const AUDIT: &str =
        "INSERT INTO operator_acts (chain_id, act, operator, detail) VALUES ($1, $2, $3, $4)";
    let done = tx.execute(AUDIT, &[&chain, &act, &operator, detail]).await;
    done.tried("write down an act").map(|_| ())
}

/// Writes down what an operator is about to do where that is more than one transaction: what cannot be
/// written down is not done.
///
/// # Errors
/// The database does not answer.
pub async fn note_act(
    database: &Database,
    act: &str,
    operator: &str,
    detail: &serde_json::Value,
) -> Result<()> {
    let mut client = database.client().await?;
    let tx = client.transaction().await.tried("begin")?;
    audit(&tx, None, act, operator, detail).await?;
    tx.commit().await.tried("write down an act")
}
