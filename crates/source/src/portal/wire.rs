//! What Portal answers, as far as it is looked at.

use alloy_primitives::{Address, B256, Bloom, Bytes};
use chronolith_model::{BlockRef, Hash32};
use serde::Deserialize;

/// One line of a stream: a block. Lists without items are left out of it.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) header: LineHeader,
    #[serde(default)]
    pub(crate) logs: Vec<LineLog>,
    #[serde(default)]
    pub(crate) transactions: Vec<LineTx>,
}

/// A block's header, the fields that are requested.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LineHeader {
    pub(crate) number: u64,
    pub(crate) hash: B256,
    pub(crate) parent_hash: B256,
    pub(crate) timestamp: u64,
    /// In a box: most streams are without, and it is larger than all the rest.
    #[serde(default)]
    pub(crate) logs_bloom: Option<Box<Bloom>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LineLog {
    pub(crate) log_index: u32,
    pub(crate) transaction_index: u32,
    pub(crate) transaction_hash: B256,
    pub(crate) address: Address,
    pub(crate) data: Bytes,
    pub(crate) topics: Vec<B256>,
}

impl LineLog {
    /// The transaction that it names.
    pub(crate) fn place(&self) -> (u32, B256) {
        (self.transaction_index, self.transaction_hash)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LineTx {
    pub(crate) transaction_index: u32,
    pub(crate) hash: B256,
}

/// Number and hash of a block.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct WireRef {
    pub(crate) number: u64,
    pub(crate) hash: B256,
}

impl From<WireRef> for BlockRef {
    fn from(wire: WireRef) -> Self {
        Self {
            number: wire.number,
            hash: Hash32(wire.hash.0),
        }
    }
}

/// What a dataset says of itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) start_block: u64,
}

/// What a refused continuation comes with: blocks of the chain as it is now, in no order.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Conflict {
    pub(crate) previous_blocks: Vec<WireRef>,
}
