//! Ranges: fixed numbers of consecutive blocks that are merged, indexed and verified once all blocks are
//! there.

pub(crate) mod finish;
pub(crate) mod geometry;
pub(crate) mod journal;
pub(crate) mod report;
pub(crate) mod status;
pub(crate) mod tx_counts;
pub(crate) mod verify;
