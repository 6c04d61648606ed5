//! Making history durable: rows from blocks, segments from rows, bigger segments from smaller.

pub(crate) mod append;
pub(crate) mod check;
pub(crate) mod cut;
pub(crate) mod edit;
pub(crate) mod fill;
pub(crate) mod hashes;
pub(crate) mod job;
pub(crate) mod join;
pub(crate) mod learn;
pub(crate) mod maintain;
pub(crate) mod mend;
pub(crate) mod merge;
pub(crate) mod pack;
pub(crate) mod plan;
pub(crate) mod publish;
pub(crate) mod rewind;
pub(crate) mod rows;
pub(crate) mod run_anew;
pub(crate) mod runs;
pub(crate) mod seal;
pub(crate) mod tables;
pub(crate) mod transition;
pub(crate) mod upload;
pub(crate) mod verify;
pub(crate) mod verify_range;
pub(crate) mod writer;
