//! Making history durable: rows from blocks, segments from rows, and edits that publish them.

pub(crate) mod append;
pub(crate) mod boundaries;
pub(crate) mod check;
pub(crate) mod dictionary;
pub(crate) mod edit;
pub(crate) mod fill;
pub(crate) mod pack;
pub(crate) mod publish;
pub(crate) mod rewind;
pub(crate) mod rows;
pub(crate) mod seal;
pub(crate) mod seal_task;
pub(crate) mod upload;
pub(crate) mod writer;
