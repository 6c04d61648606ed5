//! Partitions: one for each chain, and below it one for each month.
//!
//! A partition is made as a table of its own and then attached, which lets readers and writers of the
//! others continue; `CREATE TABLE … PARTITION OF` would stop them all.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use deadpool_postgres::Transaction;
use serde::Serialize;

use crate::database::Database;
use crate::error::{Error, Result, Tried as _};
use crate::kind::partitioned;
use crate::months::Month;
use crate::rows::Table;

/// How many months ahead of the present one there are always partitions for.
pub(crate) const MONTHS_AHEAD: i32 = 3;
/// How many months are kept before rows of dropped blocks may go.
pub const MONTHS_KEPT: i32 = 6;

/// Two that make the same partition at once would collide.
const PARTITION_LOCK: &str = "SELECT pg_advisory_xact_lock(7163384699739271989)";

/// The partitions that are known to be there.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    known: Mutex<Known>,
}

/// Table, chain and month of each.
type Known = HashSet<(&'static str, u64, Month)>;

impl Partitions {
    /// Makes those that are missing.
    pub(crate) async fn ensure(
        &self,
        database: &Database,
        chain: u64,
        tables: &[&'static Table],
        months: &BTreeSet<Month>,
    ) -> Result<()> {
        let wanted = partitioned(tables)
            .flat_map(|table| months.iter().map(move |month| (table, chain, *month)));
        let missing: Vec<_> = {
            let known = self.known();
            wanted.filter(|one| !known.contains(one)).collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let mut client = database.client().await?;
        let tx = client.transaction().await.tried("begin")?;
        for (table, chain, month) in &missing {
            make(&tx, table, *chain, *month).await?;
        }
        tx.commit().await.tried("make partitions")?;
        self.known().extend(missing);
        Ok(())
    }

    /// Forgets what is known: partitions may have been removed.
    pub(crate) fn forget(&self) {
        self.known().clear();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the partitions of a month, of every table and every chain that is given.
///
/// # Errors
/// The database does not take them.
pub async fn create(database: &Database, chains: &[u64], month: Month) -> Result<Vec<String>> {
    let mut client = database.client().await?;
    let mut made = Vec::new();
    for chain in chains {
        for table in tables_of(database) {
            let tx = client.transaction().await.tried("begin")?;
            if make(&tx, table, *chain, month).await? {
                made.push(name_of(table, *chain, month));
            }
            tx.commit().await.tried("make a partition")?;
        }
    }
    Ok(made)
}

/// Every table of the database that has partitions.
fn tables_of(database: &Database) -> impl Iterator<Item = &'static str> {
    let kinds = database.kinds().iter();
    kinds.flat_map(|kind| partitioned(kind.tables()))
}

/// The months that every chain has partitions for from the start.
pub(crate) fn ahead(now: u64) -> BTreeSet<Month> {
    let month = Month::of(now);
    let months = 0..=MONTHS_AHEAD;
    months.map(|months| month.plus(months)).collect()
}

/// The partition of a chain, which has those of its months.
pub(crate) fn chain_partition(table: &str, chain: u64) -> String {
    format!("{}_c{chain}", stem(table))
}

fn name_of(table: &str, chain: u64, month: Month) -> String {
    format!("{}_{}", chain_partition(table, chain), month.suffix())
}

/// `fee_event_rows` has partitions that are called `fee_events_…`.
fn stem(table: &str) -> String {
    match table.strip_suffix("_rows") {
        Some(stem) => format!("{stem}s"),
        None => table.to_owned(),
    }
}

/// Makes one partition, and that of its chain; whether it was missing.
async fn make(tx: &Transaction<'_>, table: &str, chain: u64, month: Month) -> Result<bool> {
    let (of_chain, of_month) = (chain_partition(table, chain), name_of(table, chain, month));
    if exists(tx, &of_month).await? {
        return Ok(false);
    }
    let locked = tx.execute(PARTITION_LOCK, &[]).await;
    locked.tried("make a partition")?;
    if !exists(tx, &of_chain).await? {
        let statements = format!(
            "CREATE TABLE {of_chain} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS) \
                PARTITION BY RANGE (block_timestamp); \
             ALTER TABLE {table} ATTACH PARTITION {of_chain} FOR VALUES IN ({chain})"
        );
        let made = tx.batch_execute(&statements).await;
        made.tried("make the partition of a chain")?;
    }
    if exists(tx, &of_month).await? {
        return Ok(false);
    }
    let (first, next) = (month.first_day(), month.plus(1).first_day());
    let statements = format!(
        "CREATE TABLE {of_month} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS); \
         ALTER TABLE {of_chain} ATTACH PARTITION {of_month} FOR VALUES FROM ('{first}') TO ('{next}')"
    );
    let made = tx.batch_execute(&statements).await;
    made.tried("make the partition of a month")?;
    Ok(true)
}

async fn exists(tx: &Transaction<'_>, table: &str) -> Result<bool> {
    const EXISTS: &str = "SELECT to_regclass($1) IS NOT NULL";
    let row = tx.query_one(EXISTS, &[&table]).await;
    Ok(row.tried("look for a partition")?.get(0))
}

/// What pruning did, or would do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pruned {
    pub partition: String,
    pub rows: i64,
    /// `dropped` or `kept`.
    pub outcome: &'static str,
    pub reason: Option<String>,
}

/// Removes partitions that are older than the months that are kept and hold nothing but rows of
/// dropped blocks. A confirmed row is never removed.
///
/// # Errors
/// The database does not answer.
pub async fn prune(database: &Database, now: u64, dry_run: bool) -> Result<Vec<Pruned>> {
    let mut client = database.client().await?;
    let oldest = Month::of(now).plus(-MONTHS_KEPT);
    let mut pruned = Vec::new();
    for table in tables_of(database) {
        let children = "SELECT c.relname::text, p.relname::text FROM pg_partition_tree($1::text::regclass) t \
            JOIN pg_class c ON c.oid = t.relid JOIN pg_class p ON p.oid = t.parentrelid \
            WHERE t.isleaf ORDER BY 1";
        let children = client.query(children, &[&table]).await;
        for row in children.tried("list partitions")? {
            let (name, parent): (String, String) = (row.get(0), row.get(1));
            let month = name.len().checked_sub(7).and_then(|at| name.get(at..));
            let Some(month) = month.and_then(Month::from_suffix) else {
                continue;
            };
            if month < oldest {
                let tx = client.transaction().await.tried("begin")?;
                let one = prune_one(&tx, &name, &parent, dry_run).await?;
                tx.commit().await.tried("remove a partition")?;
                pruned.push(one);
            }
        }
        if !dry_run && pruned.iter().any(|one| one.outcome == "dropped") {
            let vacuum = format!("VACUUM ANALYZE {table}");
            client.batch_execute(&vacuum).await.tried("vacuum")?;
        }
    }
    Ok(pruned)
}

async fn prune_one(
    tx: &Transaction<'_>,
    name: &str,
    parent: &str,
    dry_run: bool,
) -> Result<Pruned> {
    if !is_plain(name) || !is_plain(parent) {
        return Err(Error::Invalid(format!("`{name}` is no partition of ours")));
    }
    let (rows, alive) = look(tx, name).await?;
    let pruned = |outcome, reason| Pruned {
        partition: name.to_owned(),
        rows,
        outcome,
        reason,
    };
    if alive > 0 {
        let reason = format!("{alive} rows are not dropped");
        return Ok(pruned("kept", Some(reason)));
    }
    if !dry_run {
        // From above to below, as writers lock, and not for long: readers wait for it. A block that
        // was dropped cannot come back meanwhile, and nothing is written between the look and the act.
        let lock = format!(
            "SET LOCAL lock_timeout = '2s'; SELECT 1 FROM processing_state FOR SHARE; \
             LOCK TABLE {parent}, {name} IN ACCESS EXCLUSIVE MODE"
        );
        tx.batch_execute(&lock).await.tried("lock a partition")?;
        if look(tx, name).await?.1 > 0 {
            return Err(Error::Unavailable {
                context: format!("remove {name}"),
                reason: "a row came meanwhile".to_owned(),
            });
        }
        let remove = format!("ALTER TABLE {parent} DETACH PARTITION {name}; DROP TABLE {name}");
        let removed = tx.batch_execute(&remove).await;
        removed.tried("remove a partition")?;
    }
    Ok(pruned("dropped", None))
}

/// Removes every partition of a chain, of one table.
pub(crate) async fn remove_chain(tx: &Transaction<'_>, table: &str, chain: u64) -> Result<()> {
    let remove = format!("DROP TABLE IF EXISTS {}", chain_partition(table, chain));
    let removed = tx.batch_execute(&remove).await;
    removed.tried("remove the partitions of a chain")
}

/// How many rows a partition has, and how many of them are not dropped.
async fn look(tx: &Transaction<'_>, name: &str) -> Result<(i64, i64)> {
    let look = format!(
        "SELECT count(*), count(*) FILTER (WHERE d.block_hash IS NULL) FROM {name} r \
         LEFT JOIN dropped_blocks d ON d.chain_id = r.chain_id AND d.block_hash = r.block_hash"
    );
    let row = tx.query_one(&look, &[]).await;
    let row = row.tried("look into a partition")?;
    Ok((row.get(0), row.get(1)))
}

fn is_plain(name: &str) -> bool {
    let mut signs = name.bytes();
    signs.all(|sign| matches!(sign, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}
