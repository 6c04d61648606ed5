//! Finalized history in immutable segments, with a log query engine on it.
//!
//! [`Archive`] is the whole API: open it on two stores, append finalized blocks, query it for logs,
//! blocks and transactions. Blocks arrive in order at the end of the *live run*
//! ([`Archive::ingest_finalized_blocks`]) or as a bounded range of old ones ([`Archive::fill`]).
//! Either way nothing is visible before it is durable, and one swap of the state makes it so.
//!
//! The caller drives what else there is to do: [`Archive::maintain`] merges, one step a call,
//! [`Archive::collect_garbage`] removes what nothing names, [`Archive::renew_lease`] shows that a
//! writer on shared storage lives. Nothing here starts a task, reads the wall clock or retries
//! without end.
//!
//! An answer is whole or an error: a range that is not provably covered is
//! [`Error::NotCovered`], a budget that ran out is [`Error::TooLarge`] with a range that works.
//!
//! | folder | what |
//! |---|---|
//! | `format` | bytes on disk, pure |
//! | `state` | the record, the catalog that it names, snapshots of both |
//! | `write` | rows from blocks, segments from rows, fills, rewinds, the publisher |
//! | `read` | the cache, planning and executing queries, lookups |
//! | `ranges` | the life of a range: its blocks, status, journal, verification |
//! | `maintenance` | merges, garbage collection, repair |
//! | `tools` | inspect, copy, rebuild a lost state, check the format version |

mod archive;
#[cfg(feature = "bench")]
pub mod bench;
mod blocking;
mod error;
mod format;
mod health;
mod maintenance;
mod meters;
mod pinned;
mod ranges;
mod read;
mod settings;
mod state;
mod tools;
mod write;

pub use archive::Archive;
pub use error::{Budget, Error, Result};
pub use health::{Health, HealthReport};
pub use maintenance::gc::{GarbageReport, GcMode};
pub use pinned::Pinned;
pub use ranges::geometry::{
    FailedPhase, Geometry, LedgerPhase, PartStatus, RangeFailure, RangeReport, RangeState,
    TxHashPhase,
};
pub use ranges::tx_counts::TxCounts;
pub use read::cache::Cache;
pub use read::compare::Difference;
pub use read::hashes::TxLocation;
pub use read::lookup::{BlockTime, TimeSide};
pub use read::matcher::LogMatcher;
pub use read::query::{AnswerMemory, LogPage, QueryCost, Uncounted, after_cursor, check_cursor};
pub use read::rows::LogRecord;
pub use settings::{GarbageSettings, OrPolicy, QueryLimits, SealSettings, Settings};
pub use state::lost::has_state;
pub use state::record::{AuditEntry, Halt};
pub use tools::copy::{Copied, Place, copy_archive};
pub use tools::inspect::{DamagedObject, Inspected, ObjectSort, StoredObject};
pub use tools::rebuild::{Island, RebuildReport, rebuild_anchors, rebuild_state};
pub use tools::upgrade::{FormatReport, check_format};
pub use write::append::{IngestOutcome, Provenance};
pub use write::fill::Fill;
