//! What a projection is: logs of whole blocks in, rows out.

use async_trait::async_trait;
use chronolith_chain_view::ChainView;
use deadpool_postgres::Transaction;
use serde_json::Value;

use crate::error::Result;
use crate::feed::{BlockLog, LogSelection};
use crate::rows::{Rows, Table};

/// Decodes some logs of a chain into rows of some tables. It never writes, and gives the same rows for
/// the same chain whenever it is asked.
#[async_trait]
pub(crate) trait Projection: Send + Sync {
    /// Its name in the database.
    fn name(&self) -> &'static str;
    /// The first block whose logs count.
    fn start_block(&self) -> u64;
    /// What it was told, as it is written down beside its cursor.
    fn settings(&self) -> Value;
    /// Whether every row that it made with these settings is one that it makes with its own.
    fn extends(&self, before: &Value) -> bool;
    /// Whether nothing that it made with these settings lacks a row that it makes with its own.
    fn continues(&self, _before: &Value) -> bool {
        false
    }
    /// Which logs it wants.
    fn selection(&self) -> &LogSelection;
    /// Its tables that have a partition for each chain and month.
    fn tables(&self) -> &'static [&'static str];
    /// The rows of logs of whole blocks.
    async fn rows(&self, view: &ChainView, found: &[BlockLog<'_>]) -> Result<Projected>;
    /// How many events rows are of.
    fn events(&self, rows: &Rows) -> u64 {
        rows.count() as u64
    }
    /// Does in the transaction that confirms rows what follows from that: those of pending blocks with
    /// these numbers and hashes, or those that are just staged.
    async fn confirmed(
        &self,
        _tx: &Transaction<'_>,
        _blocks: Option<&[(i64, Vec<u8>)]>,
    ) -> Result<()> {
        Ok(())
    }
    /// Does what there is to do when it is written down.
    async fn registered(&self, _tx: &Transaction<'_>) -> Result<()> {
        Ok(())
    }
    /// What of the settings that were written down the rows that are there were made with.
    async fn made_with(
        &self,
        _tx: &Transaction<'_>,
        _view: &ChainView,
        settings: Value,
    ) -> Result<Value> {
        Ok(settings)
    }
    /// Contracts whose code it has to know, and whether the block that named them is final.
    async fn implementations(&self, _view: &ChainView) -> Result<Vec<([u8; 20], bool)>> {
        Ok(Vec::new())
    }
    /// Whether it still has to stand still for a reason that it gave.
    async fn stands_still(&self, _view: &ChainView, _reason: &str) -> Result<bool> {
        Ok(true)
    }
}

/// Rows, and why the projection must stand still behind them, where it must.
#[derive(Default)]
pub(crate) struct Projected {
    pub(crate) rows: Rows,
    pub(crate) pause: Option<Pause>,
    /// What it needs is not at hand yet: there are no rows, and the blocks are left to a later look.
    pub(crate) not_yet: bool,
    /// The first block that is not projected, where there would be too many rows at once.
    pub(crate) next: Option<u64>,
}

/// Why a projection stands still until somebody acts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pause {
    /// The first block that is not projected.
    pub(crate) block: u64,
    /// In a word, for a metric.
    pub(crate) reason: &'static str,
    pub(crate) detail: String,
}

pub(crate) const QUARANTINE: Table = Table {
    name: "quarantine",
    columns: &["projection", "log_index", "reason", "detail"],
    partitioned: false,
};

/// Writes down a log that cannot be projected.
pub(crate) fn quarantine(
    rows: &mut Rows,
    (chain, projection): (i64, &str),
    one: &BlockLog<'_>,
    why: &str,
) {
    quarantine_for(rows, (chain, projection), one, ("malformed", why));
}

/// Writes down a log that cannot be projected, and the guard that refused it.
pub(crate) fn quarantine_for(
    rows: &mut Rows,
    (chain, projection): (i64, &str),
    one: &BlockLog<'_>,
    (reason, why): (&str, &str),
) {
    rows.row(&QUARANTINE, chain, one)
        .text(projection)
        .int4(one.log.log_index())
        .text(reason)
        .text(why)
        .finish();
}
