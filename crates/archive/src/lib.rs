//! Finalized history in immutable segments, with a log query engine on it.

mod archive;
mod catalog;
mod collect;
mod error;
mod format;
mod health;
mod meters;
mod read;
mod rebuild;
mod settings;
mod state;
mod view;
mod write;

pub use archive::Archive;
pub use collect::{Collect, GarbageReport};
pub use error::{Budget, Error, Result};
pub use health::{Health, HealthReport};
pub use read::hashes::TxPlace;
pub use read::lookup::TimeSide;
pub use read::query::{LogPage, QueryCost};
pub use read::rows::LogRecord;
pub use rebuild::{RebuildReport, rebuild_state};
pub use settings::{GarbageSettings, OrPolicy, QueryLimits, SealSettings, Settings};
pub use state::{AuditEntry, Halt};
pub use write::append::{IngestOutcome, Provenance};
pub use write::fill::Fill;
