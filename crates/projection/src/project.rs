//! What a projection is: logs of whole blocks in, rows out.

use async_trait::async_trait;
use chronolith_chain_view::ChainView;
use deadpool_postgres::Transaction;
use serde_json::Value;

use crate::error::Result;
use crate::feed::{BlockLog, LogSelection};
use crate::kind::ProjectionKind;
use crate::rows::{Rows, Table, TableRole};

/// Decodes some logs of one chain into rows of some tables, as its settings say. It gives the same rows for the
/// same chain at any time. It writes nothing except where it is handed a transaction, and in
/// [`Projection::note_code`].
#[async_trait]
pub trait Projection: Send + Sync {
    /// What is the same on every chain: name and tables.
    fn kind(&self) -> &'static dyn ProjectionKind;
    /// Its name in the database.
    fn name(&self) -> &'static str {
        self.kind().name()
    }
    /// The first block whose logs count.
    fn start_block(&self) -> u64;
    /// Its settings, as they are stored with its cursor.
    fn settings(&self) -> Value;
    /// Whether every row that it made with these settings is one that it makes with its own.
    fn extends(&self, before: &Value) -> bool;
    /// Whether it made with these settings every row that it makes with its own.
    fn continues(&self, _before: &Value) -> bool {
        false
    }
    /// Whether it goes on with these settings instead of its own, from now on: what differs of its own is for a
    /// first run only.
    fn adopts(&self, _recorded: &Value) -> bool {
        false
    }
    /// The logs that it decodes.
    fn selection(&self) -> &LogSelection;
    /// The rows of logs of whole blocks.
    async fn rows(&self, view: &ChainView, logs: &[BlockLog<'_>]) -> Result<Projected>;
    /// How many events rows are of.
    fn events(&self, rows: &Rows) -> u64 {
        rows.count() as u64
    }
    /// Runs in the transaction that confirms rows: those of pending blocks with these numbers and hashes, or
    /// those that are staged.
    async fn confirmed(
        &self,
        _tx: &Transaction<'_>,
        _blocks: Option<&[(i64, Vec<u8>)]>,
    ) -> Result<()> {
        Ok(())
    }
    /// Runs in the transaction that registers it.
    async fn registered(&self, _tx: &Transaction<'_>) -> Result<()> {
        Ok(())
    }
    /// The part of the registered settings that the rows in the tables depend on.
    async fn made_with(
        &self,
        _tx: &Transaction<'_>,
        _view: &ChainView,
        settings: Value,
    ) -> Result<Value> {
        Ok(settings)
    }
    /// Contracts whose code hash it compares, and whether the block that named each is final.
    async fn implementations(&self, _view: &ChainView) -> Result<Vec<([u8; 20], bool)>> {
        Ok(Vec::new())
    }
    /// Stores the hash of the code of such a contract; none where the chain does not give its code.
    async fn note_code(&self, _contract: &[u8; 20], _hash: Option<[u8; 32]>) -> Result<()> {
        Ok(())
    }
    /// Whether the reason that it gave for its pause still holds.
    async fn is_still_paused(&self, _view: &ChainView, _reason: &str) -> Result<bool> {
        Ok(true)
    }
}

/// Rows, and why the projection must pause after them, where it must.
#[derive(Default)]
pub struct Projected {
    pub rows: Rows,
    pub pause: Option<Pause>,
    /// What it needs is not available yet: there are no rows, and the blocks are tried again later.
    pub not_yet: bool,
    /// The first block that is not projected, where there would be too many rows at once.
    pub next: Option<u64>,
}

/// Why a projection pauses until an operator acts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pause {
    /// The first block that is not projected.
    pub block: u64,
    /// In one word, for a metric.
    pub reason: &'static str,
    pub detail: String,
}

pub(crate) const QUARANTINE: Table = Table {
    name: "quarantine",
    columns: &["projection", "log_index", "reason", "detail"],
    role: TableRole::Sparse,
};

/// Why a log cannot be projected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal<'a> {
    pub projection: &'static str,
    /// In one word, for a metric.
    pub reason: &'a str,
    pub detail: &'a str,
}

impl Rows {
    /// Adds a row that says why a log cannot be projected.
    pub fn quarantine(&mut self, chain: i64, log: &BlockLog<'_>, refusal: Refusal<'_>) {
        self.row(&QUARANTINE, chain, log)
            .text(refusal.projection)
            .int4(log.log.log_index())
            .text(refusal.reason)
            .text(refusal.detail)
            .finish();
    }
}
