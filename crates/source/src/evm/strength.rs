//! Which endpoints can show what the chain's profile allows, and what is logged when none can.
//!
//! Only receipts prove a block's logs, and that a block which its bloom does not clear has none of a
//! narrow scope. An endpoint without `eth_getBlockReceipts` gets no request while another one has it: by
//! denying a method an endpoint would choose how well it is checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chronolith_model::{Dataset, Scope};
use metrics::Counter;

use super::fetch::GET_RECEIPTS;
use super::source::{EvmSettings, Strategy};
use crate::jsonrpc::endpoint::Endpoint;
use crate::meters;
use crate::source::{Fetched, Want};

/// Reports blocks that are proven less far than the chain allows.
#[derive(Debug)]
pub(super) struct Downgrades {
    is_on: AtomicBool,
    chain_id: u64,
    blocks: Counter,
}

impl Downgrades {
    pub(super) fn new(chain_id: u64) -> Self {
        // Shown as none before the first.
        meters::unproven(chain_id).increment(0);
        Self {
            is_on: AtomicBool::new(false),
            chain_id,
            blocks: meters::downgraded(chain_id),
        }
    }

    /// Notes blocks that came without receipts although the chain allows to check them.
    pub(super) fn note(&self, fetched: &[Fetched]) {
        self.blocks.increment(fetched.len() as u64);
        if self.is_on.swap(true, Ordering::Relaxed) {
            return;
        }
        let level = fetched.first().map(|one| one.proof.logs().as_str());
        let endpoint = fetched.first().map(|one| &*one.endpoint);
        tracing::warn!(
            chain = self.chain_id,
            endpoint,
            level,
            "proof downgraded: no endpoint shows all receipts; add one that answers eth_getBlockReceipts in full to rpcHttp, or set verification to refuse such blocks"
        );
    }

    /// Notes that blocks are proven as far as the chain allows.
    pub(super) fn end(&self) {
        if self.is_on.swap(false, Ordering::Relaxed) {
            tracing::info!(chain = self.chain_id, "proof no longer downgraded");
        }
    }
}

/// Whether only receipts prove what is wanted as far as the chain allows.
pub(super) fn needs_receipts(settings: &EvmSettings, want: &Want) -> bool {
    if !want.datasets.contains(Dataset::Logs) {
        return false;
    }
    match want.scope {
        Scope::All => settings.strategy == Strategy::Receipts && settings.checks.receipts_root,
        Scope::Only(_) => settings.checks.bloom,
    }
}

/// Endpoints that are passed over because another one can show more; none where all are equal.
pub(super) fn weaker(
    settings: &EvmSettings,
    endpoints: &[Arc<Endpoint>],
    want: &Want,
) -> Vec<Arc<str>> {
    if !needs_receipts(settings, want) {
        return Vec::new();
    }
    let without = endpoints.iter().filter(|one| !one.has(GET_RECEIPTS));
    let mut without: Vec<Arc<str>> = without.map(|one| one.name.clone()).collect();
    if without.len() == endpoints.len() {
        without.clear();
    }
    without
}
