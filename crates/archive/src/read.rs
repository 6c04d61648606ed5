//! Answering: bounded caches, the log query engine, and lookups.

pub(crate) mod cache;
pub(crate) mod candidates;
pub(crate) mod compare;
pub(crate) mod hashes;
pub(crate) mod lookup;
pub(crate) mod matcher;
pub(crate) mod objects;
pub(crate) mod origin;
pub(crate) mod payload;
pub(crate) mod postings;
pub(crate) mod query;
pub(crate) mod rows;
pub(crate) mod run_set;
pub(crate) mod segment_hashes;
pub(crate) mod window;
