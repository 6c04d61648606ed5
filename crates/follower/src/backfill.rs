//! History into the archive: fetched in many parts at a time, archived in order.

pub mod append;
pub mod bounded;
pub mod fill;
pub mod gaps;
mod prefetch;
pub mod retry_policy;
