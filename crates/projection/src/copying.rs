//! Rows into tables: a binary COPY into a stage, and from there whatever is not there yet.
//!
//! A stage is a temporary table of the connection, emptied by every commit. Rows that are there
//! already are left as they are, so any range can be written any number of times.

use bytes::Bytes;
use deadpool_postgres::Transaction;
use futures::{SinkExt as _, pin_mut};

use crate::error::{Result, Tried as _};
use crate::project::QUARANTINE;
use crate::rows::{Rows, Table, TableRows};

/// How much is handed to the connection at once.
const PIECE_BYTES: usize = 256 << 10;

/// Rows that are in their stages and not in their tables yet.
pub(crate) struct Staged(Vec<&'static Table>);

/// Copies rows into their stages. Nothing is locked yet: a process that hangs in the middle of a COPY is
/// not ended by any timeout of the server, so nobody may have to wait for it.
pub(crate) async fn stage(tx: &Transaction<'_>, rows: Rows) -> Result<Staged> {
    let mut tables = Vec::new();
    for one in rows.tables {
        if !tables.contains(&one.table) {
            tables.push(one.table);
        }
        stage_table(tx, one).await?;
    }
    Ok(Staged(tables))
}

async fn stage_table(tx: &Transaction<'_>, rows: TableRows) -> Result<()> {
    let Table { name, columns, .. } = rows.table;
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

/// Takes staged rows into their tables; returns how many of them were new.
pub(crate) async fn insert(tx: &Transaction<'_>, staged: &Staged) -> Result<u64> {
    let mut new = 0;
    for Table { name, columns, .. } in &staged.0 {
        let insert = format!(
            "INSERT INTO {name} ({columns}) SELECT {columns} FROM stage_{name} ON CONFLICT DO NOTHING"
        );
        new += match *name == QUARANTINE.name {
            true => insert_refused(tx, &insert).await?,
            false => tx.execute(&insert, &[]).await.tried("insert rows")?,
        };
    }
    Ok(new)
}

/// What could not be projected is counted when it is written down, and so once however often it is met.
async fn insert_refused(tx: &Transaction<'_>, insert: &str) -> Result<u64> {
    let insert = format!("{insert} RETURNING chain_id, projection, reason");
    let rows = tx.query(&insert, &[]).await.tried("insert rows")?;
    for row in &rows {
        let (chain, projection, reason): (i64, String, String) =
            (row.get(0), row.get(1), row.get(2));
        metrics::counter!(
            "chronolith_projection_guard_dropped_total",
            "chain" => chain.to_string(), "projection" => projection, "reason" => reason
        )
        .increment(1);
    }
    Ok(rows.len() as u64)
}
