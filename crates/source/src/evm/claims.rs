//! Blocks that endpoints call empty although the bloom of the hashed header allows a log of the scope.
//!
//! Receipts decide it. An endpoint without them is not believed alone: another one must say the same
//! of the same block, requested by its hash.

use std::collections::HashMap;
use std::sync::Arc;

use alloy_primitives::B256;
use parking_lot::Mutex;

/// What was claimed during one fetch, and by which endpoints.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashMap<B256, Vec<Arc<str>>>>);

impl Claims {
    /// Notes that an endpoint calls a block empty.
    pub(super) fn note(&self, block: B256, endpoint: &Arc<str>) {
        let mut claims = self.0.lock();
        let by = claims.entry(block).or_default();
        if !by.contains(endpoint) {
            by.push(endpoint.clone());
        }
    }

    /// Whether another endpoint claimed the same.
    pub(super) fn by_another(&self, block: B256, endpoint: &str) -> bool {
        let claims = self.0.lock();
        let by = claims.get(&block).into_iter().flatten();
        by.into_iter().any(|other| &**other != endpoint)
    }

    /// How many claims there are: where none is new, asking again changes nothing.
    pub(super) fn count(&self) -> usize {
        self.0.lock().values().map(Vec::len).sum()
    }
}
