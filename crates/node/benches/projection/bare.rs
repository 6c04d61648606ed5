//! The baseline: the very rows of our table, as the bytes of a binary COPY in memory, copied into a stage
//! and from there into the same table of an empty database, with all its partitions and indexes. Whoever
//! must first find and decode them cannot be faster.

use std::time::Instant;

use anyhow::{Context as _, Result};
use bytes::{Bytes, BytesMut};
use chronolith_projection::{Month, partitions};
use chronolith_projection_fees::FeesKind;
use futures::future::try_join_all;
use futures::{SinkExt as _, TryStreamExt as _};
use tokio_postgres::Client;

use crate::database::{Database, Server, Table, connect};
use crate::ours::Ours;
use crate::process;
use crate::table::Measured;
use crate::workload::Chain;

/// Rows of one transaction, about. Ten times more or fewer take longer.
const BATCH_ROWS: u64 = 50_000;
/// How much is handed to a connection at once.
const PIECE_BYTES: usize = 256 << 10;

const COLUMNS: &str = "chain_id, block_number, block_hash, block_timestamp, tx_hash, log_index, position, \
    event, contract, token, integrator, integrator_fee, lifi_fee, recipient, amount";
const TABLE: Table = Table {
    name: "(SELECT * FROM fee_event_rows WHERE event = 'FeesCollected') AS fees",
    is_row: "chain_id = $3::bigint AND block_number = $4::bigint AND log_index = $2 \
        AND tx_hash = decode(substr($1, 3), 'hex')",
    columns: crate::ours::TEXTS,
};

/// Rows as they are copied, some of them.
type Batch = Bytes;

/// Copies what our side has projected, over so many connections at once.
pub(crate) async fn run(
    chain: &Chain,
    server: &Server,
    ours: &Ours,
    connections: usize,
) -> Result<Measured> {
    let batches = read(chain, &ours.database).await?;
    let database = server.fresh("bare").await?;
    ours.home.init(&database)?;
    let mut clients = Vec::new();
    for _ in 0..connections {
        clients.push(connect(&database.url).await?);
    }
    make_partitions(chain, &database).await?;
    for client in &clients {
        let stage = format!(
            "SET jit = off; CREATE TEMP TABLE stage ON COMMIT DELETE ROWS \
             AS SELECT {COLUMNS} FROM fee_event_rows WITH NO DATA"
        );
        client.batch_execute(&stage).await.context("the stage")?;
    }
    let (own_before, before) = (own_cpu()?, database.cpu_seconds().await?);
    let began = Instant::now();
    let all = clients.iter_mut().enumerate().map(|(at, client)| {
        let own = batches.iter().skip(at).step_by(connections);
        async move {
            for batch in own {
                write(client, batch.clone()).await?;
            }
            anyhow::Ok(())
        }
    });
    try_join_all(all).await?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Measured {
        seconds,
        cpu_seconds: own_cpu()? - own_before,
        database_cpu_seconds: database.cpu_seconds().await? - before,
        peak_mib: None,
        calls: 0,
        faults: database.compare(&TABLE, &chain.rows).await?,
    })
}

fn own_cpu() -> Result<f64> {
    process::cpu_of(std::process::id())
}

/// The rows of our table, in the order of the chain.
async fn read(chain: &Chain, database: &Database) -> Result<Vec<Batch>> {
    let client = connect(&database.url).await?;
    let blocks = (BATCH_ROWS * chain.blocks / chain.rows.len().max(1) as u64).max(1);
    let mut batches = Vec::new();
    for first in (0..chain.blocks).step_by(blocks.try_into()?) {
        let end = first + blocks;
        let copy = format!(
            "COPY (SELECT {COLUMNS} FROM fee_event_rows WHERE block_number >= {first} \
             AND block_number < {end} ORDER BY block_number, log_index, position) TO STDOUT BINARY"
        );
        let pieces: Vec<Bytes> = client.copy_out(&copy).await?.try_collect().await?;
        let mut batch = BytesMut::new();
        pieces
            .iter()
            .for_each(|piece| batch.extend_from_slice(piece));
        batches.push(batch.freeze());
    }
    Ok(batches)
}

/// As the projection makes them.
async fn make_partitions(chain: &Chain, database: &Database) -> Result<()> {
    let writer = chronolith_projection::Database::writer(&database.url, 2, &[&FeesKind])?;
    let months = chain.rows.iter().map(|row| Month::of(row.block_timestamp));
    let mut months: Vec<Month> = months.collect();
    months.sort();
    months.dedup();
    for month in months {
        partitions::create(&writer, &[chain.id()], month).await?;
    }
    Ok(())
}

async fn write(client: &mut Client, mut batch: Batch) -> Result<()> {
    let transaction = client.transaction().await?;
    let sink = transaction
        .copy_in("COPY stage FROM STDIN (FORMAT binary)")
        .await?;
    let mut sink = std::pin::pin!(sink);
    while !batch.is_empty() {
        let piece = batch.split_to(batch.len().min(PIECE_BYTES));
        sink.send(piece).await?;
    }
    sink.finish().await?;
    let insert = format!(
        "INSERT INTO fee_event_rows ({COLUMNS}) SELECT {COLUMNS} FROM stage ON CONFLICT DO NOTHING"
    );
    transaction.execute(&insert, &[]).await?;
    transaction.commit().await?;
    Ok(())
}
