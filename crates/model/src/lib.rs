//! The nouns of Chronolith: what a block, a log, a filter and coverage are.
//!
//! Every other crate speaks in these types. Nothing here does I/O, waits, reads a clock or knows
//! how anything is stored; nothing here is serialisable, so that no wire or disk format can
//! depend on it by accident.

mod block;
mod coverage;
mod error;
mod filter;
mod hash;
mod log;
mod profile;
mod proof;
mod range;

pub use block::{Block, BlockMeta, BlockRef, Payload, Tx};
pub use coverage::{Dataset, DatasetSet, Scope, ScopeEntry};
pub use error::ErrorKind;
pub use filter::{Clause, Cursor, LogFilter, Order, Select, TopicArity};
pub use hash::Hash32;
pub use log::{EMITTER_BYTES_MAX, Log, LogError, LogParts, TOPICS_MAX};
pub use profile::{BlockFault, ChainProfile};
pub use proof::{Proof, Verification};
pub use range::{BlockRange, ChainId};
