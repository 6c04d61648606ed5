//! Rows on their way into the database, in the form that a binary COPY takes: encoded once, as they
//! are decoded, and copied from then on.

use std::collections::BTreeSet;

use alloy_primitives::U256;
use bytes::{BufMut as _, Bytes, BytesMut};
use chronolith_model::{BlockMeta, Hash32};

use crate::feed::BlockLog;
use crate::months::{Month, TIME_MAX};
use crate::numeric::put_numeric;

/// What a binary COPY begins with: the signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// 2000-01-01, where the server's clock begins, in seconds since 1970.
const EPOCH_2000: i64 = 946_684_800;

/// The columns that every table begins with: where the log of a row is.
const PLACE_COLUMNS: [&str; 5] = [
    "chain_id",
    "block_number",
    "block_hash",
    "block_timestamp",
    "tx_hash",
];

/// A table that rows are copied into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    pub name: &'static str,
    /// The columns after those that all tables share, in the order in which they are written.
    pub columns: &'static [&'static str],
    pub role: TableRole,
}

/// What a table is for, and so how it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableRole {
    /// One row for each event: a partition for each chain and month, and an index by block.
    Events,
    /// More rows of the same blocks: a partition for each chain and month.
    Details,
    /// Few rows, also of blocks without events: no partitions.
    Sparse,
}

impl TableRole {
    pub(crate) fn is_partitioned(self) -> bool {
        self != Self::Sparse
    }
}

impl Table {
    /// All columns that are copied, in order, as a list for a statement.
    pub(crate) fn column_list(&self) -> String {
        [&PLACE_COLUMNS, self.columns].concat().join(",")
    }

    fn column_count(&self) -> usize {
        PLACE_COLUMNS.len() + self.columns.len()
    }
}

/// Rows of one table.
#[derive(Debug)]
pub(crate) struct TableRows {
    pub(crate) table: &'static Table,
    bytes: BytesMut,
    pub(crate) count: usize,
}

/// Rows of several tables that belong together, and the blocks they are of.
#[derive(Debug, Default)]
pub struct Rows {
    pub(crate) tables: Vec<TableRows>,
    /// The blocks that have rows, oldest first.
    pub(crate) blocks: Vec<BlockMeta>,
    pub(crate) months: BTreeSet<Month>,
}

impl Rows {
    /// Begins a row of a table, of a log: the columns that all tables share are written.
    pub fn row(&mut self, table: &'static Table, chain: i64, log: &BlockLog<'_>) -> Row<'_> {
        let block = &log.block;
        let last = self.blocks.last();
        if last.is_none_or(|last| last.hash != block.hash) {
            self.blocks.push(*block);
            self.months.insert(Month::of(block.timestamp));
        }
        let known = self.tables.iter().position(|one| one.table == table);
        let at = known.unwrap_or_else(|| {
            self.tables.push(TableRows::new(table));
            self.tables.len() - 1
        });
        let rows = self.tables.get_mut(at).expect("the table is in the list");
        Row::begin(rows, chain, log)
    }

    /// Adds those of another projection of the same block.
    pub(crate) fn extend(&mut self, other: Self) {
        self.tables.extend(other.tables);
        self.months.extend(other.months);
        for block in other.blocks {
            if !self.blocks.iter().any(|known| known.hash == block.hash) {
                self.blocks.push(block);
            }
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.tables.iter().map(|one| one.count).sum()
    }

    /// How many there are of one table.
    pub fn count_of(&self, table: &Table) -> usize {
        let of_table = self.tables.iter().filter(|one| one.table == table);
        of_table.map(|one| one.count).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.tables.iter().map(|one| one.bytes.len()).sum()
    }
}

impl TableRows {
    fn new(table: &'static Table) -> Self {
        let mut bytes = BytesMut::with_capacity(4 << 10);
        bytes.put_slice(HEADER);
        Self {
            table,
            bytes,
            count: 0,
        }
    }

    /// Everything that is sent.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        self.bytes.put_i16(-1);
        self.bytes.freeze()
    }
}

/// One row that is being written, field by field, in the order of the table's columns.
#[must_use = "a row ends with `finish`"]
pub struct Row<'a> {
    rows: &'a mut TableRows,
    fields: usize,
}

impl<'a> Row<'a> {
    fn begin(rows: &'a mut TableRows, chain: i64, log: &BlockLog<'_>) -> Self {
        let columns = rows.table.column_count();
        let columns = i16::try_from(columns).expect("a table has at most 1600 columns");
        rows.bytes.put_i16(columns);
        Self { rows, fields: 0 }
            .int8(chain)
            .int8(log.block.number as i64)
            .hash(&log.block.hash)
            .time(log.block.timestamp)
            .hash(&log.tx_hash)
    }

    fn put(mut self, write: impl FnOnce(&mut BytesMut)) -> Self {
        write(&mut self.rows.bytes);
        self.fields += 1;
        self
    }

    /// Ends the row.
    ///
    /// # Panics
    /// It has another number of fields than the table has columns: the server would read the fields of
    /// the next row as its own.
    pub fn finish(self) {
        let table = self.rows.table;
        let (columns, name) = (table.column_count(), table.name);
        assert_eq!(self.fields, columns, "fields of a row of {name}");
        self.rows.count += 1;
    }

    pub fn int8(self, value: i64) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    pub fn int4(self, value: u32) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    pub fn int2(self, value: u16) -> Self {
        self.bytes(&value.to_be_bytes())
    }

    /// A `JSONB`: its version, and text.
    pub fn json(self, value: &serde_json::Value) -> Self {
        let text = value.to_string();
        self.put(|out| {
            out.put_i32(text.len() as i32 + 1);
            out.put_u8(1);
            out.put_slice(text.as_bytes());
        })
    }

    /// Seconds since 1970.
    pub fn time(self, seconds: u64) -> Self {
        let seconds = seconds.min(TIME_MAX) as i64;
        self.int8((seconds - EPOCH_2000) * 1_000_000)
    }

    pub fn hash(self, hash: &Hash32) -> Self {
        self.bytes(hash.as_bytes())
    }

    pub fn bytes(self, value: &[u8]) -> Self {
        self.put(|out| {
            out.put_i32(value.len() as i32);
            out.put_slice(value);
        })
    }

    /// Text, or the name of a value of an enum.
    pub fn text(self, value: &str) -> Self {
        self.bytes(value.as_bytes())
    }

    pub fn numeric(self, value: U256) -> Self {
        self.put(|out| put_numeric(out, value))
    }

    pub fn null(self) -> Self {
        self.put(|out| out.put_i32(-1))
    }

    /// A value that may be none.
    pub fn maybe<T>(self, value: Option<T>, put: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => put(self, value),
            None => self.null(),
        }
    }
}
