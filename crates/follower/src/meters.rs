//! What is counted while a chain is followed. Handles are made with the chain: install the recorder
//! before that.

use chronolith_model::Verification;
use metrics::{Counter, Histogram, counter, histogram};

/// The metrics of following one chain.
pub(crate) struct Meters {
    pub(crate) good_rounds: Counter,
    pub(crate) failed_rounds: Counter,
    pub(crate) reorgs: Counter,
    pub(crate) reorg_depth: Histogram,
    pub(crate) gap_wait: Histogram,
    pub(crate) backfill_range: Histogram,
    pub(crate) tail_full: Counter,
    pub(crate) disagreements: Counter,
    verified: [Counter; 5],
}

impl Meters {
    pub(crate) fn new(chain_id: u64) -> Self {
        let chain = chain_id.to_string();
        let counted = |name: &'static str| counter!(name, "chain" => chain.clone());
        let spread = |name: &'static str| histogram!(name, "chain" => chain.clone());
        let rounds = |outcome: &'static str| counter!("chronolith_rounds_total", "chain" => chain.clone(), "outcome" => outcome);
        let proven = |level: &'static str| counter!("chronolith_verified_blocks_total", "chain" => chain.clone(), "level" => level);
        Self {
            good_rounds: rounds("success"),
            failed_rounds: rounds("error"),
            reorgs: counted("chronolith_reorgs_total"),
            reorg_depth: spread("chronolith_reorg_depth_blocks"),
            gap_wait: spread("chronolith_gap_wait_seconds"),
            backfill_range: spread("chronolith_backfill_range_blocks"),
            tail_full: counted("chronolith_tail_full_total"),
            disagreements: counted("chronolith_endpoint_disagreements_total"),
            verified: Verification::ALL.map(|level| proven(level.as_str())),
        }
    }

    /// Blocks that were archived, by how far their logs were proven.
    pub(crate) fn verified(&self, level: Verification) -> &Counter {
        let [claimed, linked, bloom, receipts, roots] = &self.verified;
        match level {
            Verification::Claimed => claimed,
            Verification::Linked => linked,
            Verification::Bloom => bloom,
            Verification::Receipts => receipts,
            Verification::Roots => roots,
        }
    }
}
