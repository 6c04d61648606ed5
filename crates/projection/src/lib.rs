//! Decoded contract history in PostgreSQL, with the finality of each row.
//!
//! ```text
//!  archive ─► jobs ──► rows of final blocks      confirmed as they come
//!  tail ────► follow ► rows of the newest blocks pending, then confirmed or dropped
//!                      settle: one row says through which block everything is confirmed
//! ```
//!
//! Nothing here talks to a chain: everything is read from archive and tail, so every table can be made
//! again at any time. Rows and the cursor that speaks of them are written in one transaction, which
//! also shows that the writer still holds its lease or its job. Nothing here starts a task or reads the
//! wall clock.

mod copying;
mod database;
mod error;
mod feed;
mod follow;
pub mod jobs;
mod kind;
pub mod leases;
mod meters;
mod months;
mod numeric;
mod overview;
pub mod partitions;
mod project;
mod projector;
mod reset;
mod rewind;
mod rows;
mod settle;
mod setup;
mod state;
mod tls;
mod worker;

pub use database::{Database, READER_ROLE, WRITER_ROLE};
pub use error::{Error, Result, Tried};
pub use feed::{BlockLog, ChainFeed, LogSelection, Page};
pub use follow::{Following, Round};
pub use kind::{Kinds, ProjectionKind};
pub use meters::once_committed;
pub use months::Month;
pub use overview::{ChainOverview, JobBrief, ProjectionOverview, newest, overview};
pub use project::{Pause, Projected, Projection, Refusal};
pub use projector::{JOB_BLOCKS, Projector, ProjectorSettings, recorded_settings};
pub use reset::{Reset, reset};
pub use rewind::{Order, TakenBack, rewind};
pub use rows::{Row, Rows, Table, TableRole};
pub use setup::{Passwords, SetUp, execute, latest_version, set_up};
pub use state::{ChainState, ProjectionState, resume, snapshot, state};
pub use tls::place_of;

/// A chain's id as the database holds it.
///
/// # Errors
/// It is larger than the database can hold.
pub fn chain_id(chain: u64) -> Result<i64> {
    i64::try_from(chain).map_err(|_| Error::Invalid(format!("chain id {chain} is too large")))
}
