//! What the engine knows of a projection on any chain, whatever its settings: its name, its tables, and what
//! to do with them when blocks are taken back or when an operator looks.
//!
//! A [`Database`](crate::Database) is opened with the kinds whose tables it has. So the engine names no
//! contract, and operators can reset, rewind and partition what no running chain is configured for.

use std::collections::BTreeMap;

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use serde_json::{Map, Value};

use crate::error::Result;
use crate::project::QUARANTINE;
use crate::rows::{Table, TableRole};
use crate::state::ChainState;

/// A sort of projection. It has no settings and no chain; a [`Projection`](crate::Projection) has both.
#[async_trait]
pub trait ProjectionKind: Send + Sync {
    /// Its name in the database, on the command line and in metrics.
    fn name(&self) -> &'static str;

    /// The tables that its rows are copied into.
    fn tables(&self) -> &'static [&'static Table];

    /// More tables with a column `chain_id`, which it writes itself. A reset deletes their rows.
    fn own_tables(&self) -> &'static [&'static str] {
        &[]
    }

    /// A counter for logs that are quarantined for this reason, in addition to the counter for all of them.
    fn quarantine_counter(&self, _reason: &str) -> Option<&'static str> {
        None
    }

    /// The command that ends a pause with this reason; none where `projection resume` does.
    fn remedy(&self, _chain: i64, _reason: &str, _detail: &str) -> Option<String> {
        None
    }

    /// Takes back what follows from rows of blocks above `to`, which are dropped in the same transaction.
    async fn rewind(&self, _tx: &Transaction<'_>, _chain: i64, _to: i64) -> Result<()> {
        Ok(())
    }

    /// The version of the contract that is in force, by chain: of one chain, or of all.
    async fn versions_in_force(
        &self,
        _tx: &Transaction<'_>,
        _chain: Option<i64>,
    ) -> Result<BTreeMap<i64, i32>> {
        Ok(BTreeMap::new())
    }

    /// Fields that it adds to the public overview of a chain. Anyone may read them.
    async fn overview(
        &self,
        _tx: &Transaction<'_>,
        _chain: &ChainState,
    ) -> Result<Map<String, Value>> {
        Ok(Map::new())
    }
}

/// The projections whose tables a database has.
pub type Kinds = &'static [&'static dyn ProjectionKind];

/// The kind with a name.
pub(crate) fn named(kinds: Kinds, name: &str) -> Option<&'static dyn ProjectionKind> {
    kinds.iter().copied().find(|kind| kind.name() == name)
}

/// Names of the tables that have a partition for each chain and month.
pub(crate) fn partitioned(tables: &[&'static Table]) -> impl Iterator<Item = &'static str> {
    let partitioned = tables.iter().filter(|table| table.role.is_partitioned());
    partitioned.map(|table| table.name)
}

/// Names of the tables that between them have every block with rows.
pub(crate) fn block_tables(kinds: Kinds) -> impl Iterator<Item = &'static str> {
    let all = kinds.iter().flat_map(|kind| kind.tables());
    let all = all.copied().chain(std::iter::once(&QUARANTINE));
    all.filter(|table| table.role != TableRole::Details)
        .map(|table| table.name)
}
