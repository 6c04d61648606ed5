//! The baseline: the same rows, ready in memory, copied into a stage and from there into a partitioned
//! table that refuses duplicates. Whoever must first find and decode them cannot be faster.

use std::time::Instant;

use anyhow::{Context as _, Result};
use chronolith_sim::evm::FeeRow;
use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::database::{Server, Table, connect};
use crate::process;
use crate::table::Measured;
use crate::workload::Chain;

/// Rows of one transaction. Ten times more or fewer take longer.
const BATCH_ROWS: usize = 50_000;
/// A partition holds so many seconds.
const PARTITION_SECONDS: u64 = 30 * 24 * 3_600;

const COLUMNS: &str = "chain_id bigint NOT NULL, block_number bigint NOT NULL, block_hash bytea NOT NULL, \
    block_timestamp bigint NOT NULL, tx_hash bytea NOT NULL, log_index int NOT NULL, token bytea NOT NULL, \
    integrator bytea NOT NULL, integrator_fee numeric NOT NULL, lifi_fee numeric NOT NULL";
/// One key, and one index for those who ask by integrator.
const INDEXES: &str = "ALTER TABLE fees ADD PRIMARY KEY (chain_id, block_timestamp, block_hash, log_index); \
    CREATE INDEX ON fees (chain_id, integrator, block_number DESC, log_index DESC)";
const COPY: &str = "COPY stage FROM STDIN (FORMAT binary)";
const MOVE: &str = "INSERT INTO fees SELECT * FROM stage ON CONFLICT DO NOTHING";
const TYPES: [Type; 10] = [
    Type::INT8,
    Type::INT8,
    Type::BYTEA,
    Type::INT8,
    Type::BYTEA,
    Type::INT4,
    Type::BYTEA,
    Type::BYTEA,
    Type::NUMERIC,
    Type::NUMERIC,
];
const TABLE: Table = Table {
    name: "fees",
    is_row: "chain_id = $3::bigint AND tx_hash = decode(substr($1, 3), 'hex') AND log_index = $2",
    columns: "chain_id, block_number, '0x' || encode(block_hash, 'hex'), block_timestamp, \
        '0x' || encode(tx_hash, 'hex'), log_index, '0x' || encode(token, 'hex'), \
        '0x' || encode(integrator, 'hex'), integrator_fee, lifi_fee",
};

pub(crate) async fn run(chain: &Chain, server: &Server) -> Result<Measured> {
    let database = server.fresh("bare").await?;
    let mut client = connect(&database.url).await?;
    create(&client, chain).await?;
    let (own_before, before) = (own_cpu()?, database.cpu_seconds().await?);
    let began = Instant::now();
    for batch in chain.rows.chunks(BATCH_ROWS) {
        write(&mut client, batch).await?;
    }
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

async fn create(client: &Client, chain: &Chain) -> Result<()> {
    let id = chain.id();
    let time = |row: Option<&FeeRow>| row.map_or(0, |row| row.block_timestamp);
    let (first, last) = (time(chain.rows.first()), time(chain.rows.last()));
    let mut ddl = format!(
        "CREATE TABLE fees ({COLUMNS}) PARTITION BY LIST (chain_id); \
         CREATE TABLE fees_{id} PARTITION OF fees FOR VALUES IN ({id}) PARTITION BY RANGE (block_timestamp);"
    );
    for number in first / PARTITION_SECONDS..=last / PARTITION_SECONDS {
        let (start, end) = (number * PARTITION_SECONDS, (number + 1) * PARTITION_SECONDS);
        ddl.push_str(&format!(
            "CREATE TABLE fees_{id}_{number} PARTITION OF fees_{id} FOR VALUES FROM ({start}) TO ({end});"
        ));
    }
    ddl.push_str(INDEXES);
    client.batch_execute(&ddl).await?;
    let stage = format!("CREATE TEMP TABLE stage ({COLUMNS}) ON COMMIT DELETE ROWS");
    client.batch_execute(&stage).await.context("the stage")?;
    Ok(())
}

async fn write(client: &mut Client, rows: &[FeeRow]) -> Result<()> {
    let transaction = client.transaction().await?;
    let sink = transaction.copy_in(COPY).await?;
    let mut writer = std::pin::pin!(BinaryCopyInWriter::new(sink, &TYPES));
    for row in rows {
        let numbers = (row.chain_id as i64, row.block_number as i64);
        let (time, log_index) = (row.block_timestamp as i64, row.log_index as i32);
        let (block_hash, tx_hash) = (&row.block_hash.0[..], &row.tx_hash.0[..]);
        let (token, integrator) = (&row.token[..], &row.integrator[..]);
        let fees = [
            Numeric(*row.integrator_fee.as_limbs()),
            Numeric(*row.lifi_fee.as_limbs()),
        ];
        let [integrator_fee, lifi_fee] = &fees;
        let columns: [&(dyn ToSql + Sync); 10] = [
            &numbers.0,
            &numbers.1,
            &block_hash,
            &time,
            &tx_hash,
            &log_index,
            &token,
            &integrator,
            integrator_fee,
            lifi_fee,
        ];
        writer.as_mut().write(&columns).await?;
    }
    writer.finish().await?;
    transaction.execute(MOVE, &[]).await?;
    transaction.commit().await?;
    Ok(())
}

/// A whole number of 256 bits, its least part first.
#[derive(Debug)]
struct Numeric([u64; 4]);

impl Numeric {
    /// Divides by ten thousand and gives what remains.
    fn next_digit(&mut self) -> u16 {
        const BASE: u128 = 10_000;
        let mut rest = 0;
        for part in self.0.iter_mut().rev() {
            let value = rest << 64 | u128::from(*part);
            (*part, rest) = ((value / BASE) as u64, value % BASE);
        }
        rest as u16
    }
}

impl ToSql for Numeric {
    /// Digits to the base of ten thousand, the highest first, behind their number, the weight of the
    /// first, the sign and the scale.
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let mut left = Self(self.0);
        let mut digits = Vec::new();
        while left.0 != [0; 4] {
            digits.push(left.next_digit());
        }
        let count = digits.len() as i16;
        for word in [count, (count - 1).max(0), 0, 0] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for digit in digits.iter().rev() {
            out.extend_from_slice(&digit.to_be_bytes());
        }
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::NUMERIC
    }

    to_sql_checked!();
}
