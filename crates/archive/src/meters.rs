//! Every metric of the archive, by name. Handles are made once, when an archive is opened: install
//! the recorder before that.
//!
//! | name | what |
//! |---|---|
//! | `chronolith_archive_ingest_seconds` | time of one ingest call |
//! | `chronolith_archive_ingest_block_seconds` | the same, divided by its blocks |
//! | `chronolith_archive_ingested_blocks_total`, `…_logs_total` | what was appended, as far as it is kept |
//! | `chronolith_archive_query_seconds` | time of one query |
//! | `chronolith_archive_query_candidates` | rows looked at by one query |
//! | `chronolith_archive_clause_logs` | logs that carry a clause's terms, per clause and segment |
//! | `chronolith_archive_seals_total`, `chronolith_archive_segment_bytes` | segments made, their size |
//! | `chronolith_archive_merge_seconds` | time of one maintenance step |
//! | `chronolith_archive_unsealed_batches`, `…_unsealed_weight` | what waits to be sealed |
//! | `chronolith_archive_swap_retries_total` | swaps tried again |
//! | `chronolith_archive_lease_lost_total` | times we were fenced |
//! | `chronolith_archive_orphan_segment_bytes`, `…_orphan_state_records`, `…_stale_batch_keys` | garbage |
//! | `chronolith_archive_garbage_removed_total` | objects collected |
//! | `chronolith_archive_cache_hits_total`, `…_cache_misses_total` | parts found in memory, and not |
//! | `chronolith_archive_damaged_objects` | objects that maintenance could not read |
//! | `chronolith_archive_head_block` | the newest archived block |

use chronolith_model::ChainId;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// The metrics of one archive.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    pub(crate) ingest_seconds: Histogram,
    pub(crate) ingest_block_seconds: Histogram,
    pub(crate) ingested_blocks: Counter,
    pub(crate) ingested_logs: Counter,
    pub(crate) query_seconds: Histogram,
    pub(crate) query_candidates: Histogram,
    pub(crate) clause_logs: Histogram,
    pub(crate) seals: Counter,
    pub(crate) segment_bytes: Histogram,
    pub(crate) merge_seconds: Histogram,
    pub(crate) unsealed_batches: Gauge,
    pub(crate) unsealed_weight: Gauge,
    pub(crate) swap_retries: Counter,
    pub(crate) lease_lost: Counter,
    pub(crate) garbage: [Gauge; 3],
    pub(crate) garbage_removed: Counter,
    pub(crate) cache_hits: Counter,
    pub(crate) cache_misses: Counter,
    pub(crate) damaged: Gauge,
    pub(crate) head_block: Gauge,
}

impl Meters {
    pub(crate) fn new(chain: ChainId) -> Self {
        let chain = chain.to_string();
        let counted = |name: &'static str| counter!(name, "chain" => chain.clone());
        let gauged = |name: &'static str| gauge!(name, "chain" => chain.clone());
        let spread = |name: &'static str| histogram!(name, "chain" => chain.clone());
        Self {
            ingest_seconds: spread("chronolith_archive_ingest_seconds"),
            ingest_block_seconds: spread("chronolith_archive_ingest_block_seconds"),
            ingested_blocks: counted("chronolith_archive_ingested_blocks_total"),
            ingested_logs: counted("chronolith_archive_ingested_logs_total"),
            query_seconds: spread("chronolith_archive_query_seconds"),
            query_candidates: spread("chronolith_archive_query_candidates"),
            clause_logs: spread("chronolith_archive_clause_logs"),
            seals: counted("chronolith_archive_seals_total"),
            segment_bytes: spread("chronolith_archive_segment_bytes"),
            merge_seconds: spread("chronolith_archive_merge_seconds"),
            unsealed_batches: gauged("chronolith_archive_unsealed_batches"),
            unsealed_weight: gauged("chronolith_archive_unsealed_weight"),
            swap_retries: counted("chronolith_archive_swap_retries_total"),
            lease_lost: counted("chronolith_archive_lease_lost_total"),
            garbage: [
                gauged("chronolith_archive_orphan_segment_bytes"),
                gauged("chronolith_archive_orphan_state_records"),
                gauged("chronolith_archive_stale_batch_keys"),
            ],
            garbage_removed: counted("chronolith_archive_garbage_removed_total"),
            cache_hits: counted("chronolith_archive_cache_hits_total"),
            cache_misses: counted("chronolith_archive_cache_misses_total"),
            damaged: gauged("chronolith_archive_damaged_objects"),
            head_block: gauged("chronolith_archive_head_block"),
        }
    }
}
