//! Rows into tables: a binary COPY into a stage, and from there whatever is not there yet.
//!
//! A stage is a temporary table of the connection, emptied by every commit. Rows that are there
//! already are left as they are, so any range can be written any number of times.

use bytes::Bytes;
use deadpool_postgres::Transaction;
use futures::{SinkExt as _, pin_mut};

use tokio_postgres::error::SqlState;

use crate::error::{Result, Tried as _};
use crate::kind::{self, Kinds};
use crate::meters;
use crate::project::QUARANTINE;
use crate::rows::{Rows, Table, TableRole, TableRows};

/// How much is handed to the connection at once.
const PIECE_BYTES: usize = 256 << 10;

/// Rows that are in their stages and not in their tables yet.
pub(crate) struct Staged {
    tables: Vec<&'static Table>,
    kinds: Kinds,
}

/// Copies rows into their stages. Nothing is locked yet: a process that hangs in the middle of a COPY is
/// not ended by any timeout of the server, so no other process may have to wait for it.
pub(crate) async fn stage(tx: &Transaction<'_>, kinds: Kinds, rows: Rows) -> Result<Staged> {
    let mut tables = Vec::new();
    for one in rows.tables {
        if !tables.contains(&one.table) {
            tables.push(one.table);
        }
        stage_table(tx, one).await?;
    }
    Ok(Staged { tables, kinds })
}

async fn stage_table(tx: &Transaction<'_>, rows: TableRows) -> Result<()> {
    let (name, columns) = (rows.table.name, rows.table.column_list());
    let stage = format!(
        "CREATE TEMP TABLE IF NOT EXISTS stage_{name} ON COMMIT DELETE ROWS \
         AS SELECT {columns} FROM {name} WITH NO DATA"
    );
    tx.batch_execute(&stage).await.tried("make a stage")?;
    let copy = format!("COPY stage_{name} ({columns}) FROM STDIN BINARY");
    let sink = tx.copy_in::<_, Bytes>(&copy).await.tried("begin to copy")?;
    pin_mut!(sink);
    let mut bytes = rows.into_bytes();
    while !bytes.is_empty() {
        let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
        sink.send(piece).await.tried("copy rows")?;
    }
    sink.finish().await.tried("copy rows").map(|_| ())
}

/// Takes staged rows into their tables.
pub(crate) async fn insert(tx: &Transaction<'_>, staged: &Staged) -> Result<()> {
    for table in &staged.tables {
        insert_missing(tx, table, staged.kinds).await?;
    }
    Ok(())
}

/// Takes staged rows of a range of a chain's blocks into their tables, faster where the range has none
/// yet: a check of each row whether it is there takes a third of the time. Returns how many events were not
/// there before.
pub(crate) async fn insert_range(
    tx: &Transaction<'_>,
    staged: &Staged,
    (chain, first, last): (i64, i64, i64),
) -> Result<u64> {
    let mut events = 0;
    for table in &staged.tables {
        // Its index by block shows at no cost that a range has no rows.
        if table.role != TableRole::Events {
            insert_missing(tx, table, staged.kinds).await?;
            continue;
        }
        let is_new = format!(
            "SELECT NOT EXISTS (SELECT FROM {} WHERE chain_id = $1 AND block_number BETWEEN $2 AND $3)",
            table.name
        );
        let is_new = tx.query_one(&is_new, &[&chain, &first, &last]).await;
        let new = match is_new.tried("look for rows")?.get(0) {
            true => insert_new(tx, table).await?,
            false => None,
        };
        events += match new {
            Some(inserted) => inserted,
            None => insert_missing(tx, table, staged.kinds).await?,
        };
    }
    Ok(events)
}

/// Inserts rows that are not there, and returns how many. None, and nothing is done, where one came
/// meanwhile: another process works on a range that has blocks in common with this one.
async fn insert_new(tx: &Transaction<'_>, table: &Table) -> Result<Option<u64>> {
    let (name, columns) = (table.name, table.column_list());
    let insert = format!("INSERT INTO {name} ({columns}) SELECT {columns} FROM stage_{name}");
    let begun = tx.batch_execute("SAVEPOINT fresh").await;
    begun.tried("insert rows")?;
    match tx.execute(&insert, &[]).await {
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
            let back = tx.batch_execute("ROLLBACK TO SAVEPOINT fresh").await;
            back.tried("insert rows").map(|()| None)
        }
        done => {
            let inserted = done.tried("insert rows")?;
            let ended = tx.batch_execute("RELEASE SAVEPOINT fresh").await;
            ended.tried("insert rows").map(|()| Some(inserted))
        }
    }
}

/// Inserts rows that are not there, and returns how many.
async fn insert_missing(tx: &Transaction<'_>, table: &Table, kinds: Kinds) -> Result<u64> {
    let (name, columns) = (table.name, table.column_list());
    let insert = format!(
        "INSERT INTO {name} ({columns}) SELECT {columns} FROM stage_{name} ON CONFLICT DO NOTHING"
    );
    if name == QUARANTINE.name {
        return insert_refused(tx, &insert, kinds).await;
    }
    tx.execute(&insert, &[]).await.tried("insert rows")
}

/// What could not be projected is counted when it is written down, and so once however often it is met.
async fn insert_refused(tx: &Transaction<'_>, insert: &str, kinds: Kinds) -> Result<u64> {
    let insert = format!(
        "{insert} RETURNING chain_id, projection, reason, block_number, encode(tx_hash, 'hex'), \
         log_index, detail"
    );
    let rows = tx.query(&insert, &[]).await.tried("insert rows")?;
    for row in &rows {
        let [chain, block] = [0, 3].map(|at| row.get::<_, i64>(at));
        let [projection, reason, tx_hash, detail] = [1, 2, 4, 6].map(|at| row.get::<_, String>(at));
        let log_index: i32 = row.get(5);
        tracing::warn!(
            chain, projection, block, tx_hash = %format_args!("0x{tx_hash}"), log_index, reason, detail,
            "a log is not projected"
        );
        let kind = kind::named(kinds, &projection);
        let own = kind.and_then(|kind| kind.quarantine_counter(&reason));
        meters::refused(chain, projection, reason, own);
    }
    Ok(rows.len() as u64)
}
