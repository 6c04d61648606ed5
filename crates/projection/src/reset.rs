//! Making a projection of a chain again: every row goes, and is made again with other settings.

use deadpool_postgres::Transaction;
use serde::Serialize;
use serde_json::json;

use crate::database::Database;
use crate::error::{Error, Result, Tried as _};
use crate::leases::{audit, fence};
use crate::partitions::remove_chain;
use crate::rewind::Order;
use crate::rows::TableRole;
use crate::{chain_id, kind};

/// What went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reset {
    /// Whether there was anything to make again.
    pub known: bool,
}

/// Removes every row of a projection of a chain, and forgets its settings and how far it is. It begins
/// again when it is started. Recorded.
///
/// # Errors
/// A process writes the chain, there is no such projection, or the database does not answer.
pub async fn reset(
    database: &Database,
    chain: u64,
    projection: &str,
    order: Order<'_>,
) -> Result<Reset> {
    let kind = kind::named(database.kinds(), projection).ok_or_else(|| {
        let names: Vec<&str> = database.kinds().iter().map(|one| one.name()).collect();
        let names = names.join(" or ");
        Error::Invalid(format!("there is no projection {projection}: {names}"))
    })?;
    let id = chain_id(chain)?;
    let mut client = database.client().await?;
    let tx = client.transaction().await.tried("begin")?;
    let patience = "SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '10min'";
    tx.batch_execute(patience).await.tried("reset")?;
    keep_writers_away(&tx, id).await?;
    let mut known = false;
    // In the order in which the end of a job locks them.
    for table in ["jobs", "projections", "projected_ranges", "quarantine"] {
        let delete = format!("DELETE FROM {table} WHERE chain_id = $1 AND projection = $2");
        let done = tx.execute(&delete, &[&id, &projection]).await;
        known |= done.tried("reset a projection")? > 0;
    }
    let counts = "UPDATE pending_blocks SET counts = counts - $2 WHERE chain_id = $1";
    let counts = tx.execute(counts, &[&id, &projection]).await;
    counts.tried("reset a projection")?;
    let tables = kind.tables().iter();
    let sparse = tables.filter(|table| table.role == TableRole::Sparse);
    let sparse = sparse.map(|table| table.name);
    for table in sparse.chain(kind.own_tables().iter().copied()) {
        let delete = format!("DELETE FROM {table} WHERE chain_id = $1");
        let done = tx.execute(&delete, &[&id]).await;
        done.tried("reset a projection")?;
    }
    for table in kind::partitioned(kind.tables()) {
        remove_chain(&tx, table, chain).await?;
    }
    let detail = json!({ "projection": projection, "reason": order.reason });
    audit(&tx, Some(id), "projection reset", order.operator, &detail).await?;
    tx.commit().await.tried("reset a projection")?;
    Ok(Reset { known })
}

/// Refuses while a process writes the chain, and lets none begin until the transaction ends.
async fn keep_writers_away(tx: &Transaction<'_>, chain: i64) -> Result<()> {
    const WRITERS: &str = "SELECT holder FROM leases WHERE chain_id = $1 AND holder IS NOT NULL \
        AND expires_at > now()";
    let lock = "LOCK TABLE leases IN SHARE ROW EXCLUSIVE MODE";
    tx.batch_execute(lock).await.tried("reset a projection")?;
    let holders = tx.query(WRITERS, &[&chain]).await;
    let holders = holders.tried("reset a projection")?;
    match holders.first() {
        // A former holder that was suspended for a while writes nothing more.
        None => fence(tx, chain).await,
        Some(row) => Err(Error::Invalid(format!(
            "{} writes chain {chain}: stop it first",
            row.get::<_, String>(0)
        ))),
    }
}
