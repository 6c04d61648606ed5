//! The header of the newest block, kept from the request for heads until the block itself is fetched.
//!
//! It is used once, at the endpoint that served it, and only together with receipts that name its
//! very hash. A block that was replaced meanwhile is therefore never served from here.

use std::sync::Arc;

use chronolith_model::BlockRange;
use parking_lot::Mutex;

use super::fetch::{Fetcher, GET_RECEIPTS, receipts_call};
use super::wire::{WireBlock, WireReceipt};
use crate::error::Result;
use crate::jsonrpc::endpoint::Endpoint;
use crate::source::Fetched;

#[derive(Debug)]
struct Newest {
    endpoint: Arc<str>,
    block: WireBlock,
}

/// The newest header, and the endpoint that served it.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Option<Newest>>);

impl Recent {
    pub(crate) fn keep(&self, endpoint: &Endpoint, block: WireBlock) {
        let endpoint = endpoint.name.clone();
        *self.0.lock() = Some(Newest { endpoint, block });
    }

    /// The header for a fetch of just this block. Without transactions there is no receipt to name its
    /// hash.
    pub(crate) fn take(&self, endpoint: &Endpoint, range: BlockRange) -> Option<WireBlock> {
        let fits = |newest: &mut Newest| {
            newest.endpoint == endpoint.name
                && BlockRange::one(newest.block.number()) == range
                && !newest.block.tx_hashes.is_empty()
        };
        let mut kept = self.0.lock();
        kept.take_if(fits).map(|newest| newest.block)
    }
}

impl Fetcher<'_> {
    /// The block of a header that is known, with its receipts; none where they are not of this very
    /// block.
    pub(crate) async fn of_header(&self, block: WireBlock) -> Result<Option<Fetched>> {
        let number = block.number();
        let answer = self.request_one(receipts_call(number)).await?;
        let receipts: Vec<WireReceipt> = self.required(number, GET_RECEIPTS, answer)?;
        let named = |receipt: &WireReceipt| receipt.block_hash == Some(block.hash);
        if receipts.is_empty() || !receipts.iter().all(named) {
            return Ok(None);
        }
        let logs = receipts.iter().flat_map(|receipt| &receipt.logs);
        let has_logs = logs.clone().any(|log| self.keeps(log));
        let mut blocks = [block];
        self.make_whole(&mut blocks, |_| has_logs).await?;
        let [block] = &blocks;
        self.with_receipts(block, &receipts).map(Some)
    }
}
