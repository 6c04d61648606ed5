//! Every metric that is exported, with what it means.

use metrics::{describe_counter, describe_gauge, describe_histogram};

use super::projections;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

use Kind::{Counter, Gauge, Histogram};

/// What a metric is, its name, and its help.
pub(super) type Described = (Kind, &'static str, &'static str);

/// Gives every metric its help text.
pub(super) fn describe() {
    for &(kind, name, help) in METRICS.iter().chain(projections::METRICS) {
        match kind {
            Counter => describe_counter!(name, help),
            Gauge => describe_gauge!(name, help),
            Histogram => describe_histogram!(name, help),
        }
    }
}

/// Whether there is such a metric.
#[cfg(test)]
pub(super) fn has(name: &str) -> bool {
    let all = METRICS.iter().chain(projections::METRICS);
    all.into_iter().any(|(_, known, _)| *known == name)
}

const METRICS: &[Described] = &[
    (
        Gauge,
        "chronolith_ranges",
        "ranges of the chain's history, by state (PENDING, INGESTING, TRANSITIONING, COMPLETE, FAILED)",
    ),
    (
        Gauge,
        "chronolith_ready",
        "1 while the chain is ready: it had a good round lately and is not halted",
    ),
    (
        Gauge,
        "chronolith_halted",
        "1 while nothing is taken any more until a person acts",
    ),
    (
        Gauge,
        "chronolith_archiving_held",
        "1 while nothing is archived because endpoints have different blocks",
    ),
    (
        Counter,
        "chronolith_endpoint_disagreements_total",
        "times that endpoints had different blocks where one was to be archived",
    ),
    (
        Gauge,
        "chronolith_verification_rules_dropped",
        "1 for a rule of verification that was dropped because it fails on every endpoint: blocks get a lower level",
    ),
    (
        Counter,
        "chronolith_downgraded_blocks_total",
        "blocks fetched without receipts although the chain allows to check them: no endpoint has eth_getBlockReceipts",
    ),
    (
        Counter,
        "chronolith_unproven_blocks_total",
        "blocks taken as empty on one endpoint's word, because verification is linked",
    ),
    (
        Gauge,
        "chronolith_throttled",
        "1 while ingest waits for garbage to be collected",
    ),
    (
        Gauge,
        "chronolith_in_trouble",
        "1 after a round that failed, or while nothing becomes final",
    ),
    (
        Gauge,
        "chronolith_finality_stalled",
        "1 while blocks come but the chain below does not confirm them",
    ),
    (
        Gauge,
        "chronolith_last_good_round_age_seconds",
        "seconds since a round ended well; NaN before the first",
    ),
    (
        Counter,
        "chronolith_rounds_total",
        "rounds of looking for new blocks, by outcome (success, error)",
    ),
    (
        Gauge,
        "chronolith_source_head_block",
        "the newest block of the source",
    ),
    (
        Gauge,
        "chronolith_finalized_block",
        "the newest final block",
    ),
    (
        Gauge,
        "chronolith_archived_block",
        "the newest archived block",
    ),
    (
        Gauge,
        "chronolith_lag_blocks",
        "blocks between the source's head and ours",
    ),
    (
        Gauge,
        "chronolith_finality_lag_blocks",
        "blocks between the source's head and the newest final block",
    ),
    (
        Gauge,
        "chronolith_backfill_progress",
        "the newest archived block as a part of the source's head, 0 to 1",
    ),
    (
        Histogram,
        "chronolith_backfill_range_blocks",
        "blocks of one fetch of history",
    ),
    (
        Gauge,
        "chronolith_tail_blocks",
        "blocks in memory that wait for finality",
    ),
    (
        Counter,
        "chronolith_tail_full_total",
        "rounds that ended because blocks that wait for finality filled the memory for them",
    ),
    (
        Histogram,
        "chronolith_gap_wait_seconds",
        "time from a block being known to be missing to it being there",
    ),
    (
        Counter,
        "chronolith_reorgs_total",
        "times that the chain went back behind blocks that were not final",
    ),
    (
        Histogram,
        "chronolith_reorg_depth_blocks",
        "blocks that one reorg took back",
    ),
    (
        Counter,
        "chronolith_verified_blocks_total",
        "archived blocks by how far their logs were proven (claimed, linked, bloom, receipts, roots)",
    ),
    (
        Gauge,
        "chronolith_unverified_blocks",
        "archived blocks whose logs are at level claimed or linked",
    ),
    (
        Counter,
        "chronolith_rpc_requests_total",
        "calls by method and outcome (success, error); those of a batch one by one",
    ),
    (Counter, "chronolith_rpc_errors_total", "calls that failed"),
    (
        Histogram,
        "chronolith_rpc_latency_seconds",
        "time of one request, under each method in it",
    ),
    (
        Counter,
        "chronolith_rate_limited_total",
        "requests that were refused because there were too many",
    ),
    (
        Counter,
        "chronolith_received_bytes_total",
        "bytes of answers, unpacked",
    ),
    (
        Gauge,
        "chronolith_endpoint_up",
        "1 while the endpoint is asked, 0 while it is passed over",
    ),
    (
        Counter,
        "chronolith_endpoint_requests_total",
        "requests sent, a batch being one",
    ),
    (
        Counter,
        "chronolith_endpoint_failures_total",
        "failures that were noted of an endpoint",
    ),
    (
        Counter,
        "chronolith_endpoint_lies_total",
        "times that an endpoint contradicted itself or others",
    ),
    (
        Gauge,
        "chronolith_head_subscription_up",
        "1 while new heads are told over WebSocket; absent where none is set up",
    ),
    (
        Gauge,
        "chronolith_head_subscription_down_seconds",
        "seconds without heads over WebSocket, 0 while they come; absent where none is set up",
    ),
    (
        Counter,
        "chronolith_head_subscription_reconnects_total",
        "subscriptions to new heads that ended or never began",
    ),
    (
        Gauge,
        "chronolith_archive_head_block",
        "the newest block that was published",
    ),
    (
        Histogram,
        "chronolith_archive_ingest_seconds",
        "time of one ingest call",
    ),
    (
        Histogram,
        "chronolith_archive_ingest_block_seconds",
        "time of one ingest call divided by its blocks",
    ),
    (
        Counter,
        "chronolith_archive_ingested_blocks_total",
        "blocks that were archived",
    ),
    (
        Counter,
        "chronolith_archive_ingested_logs_total",
        "logs that were archived",
    ),
    (
        Histogram,
        "chronolith_archive_query_seconds",
        "time of one query",
    ),
    (
        Histogram,
        "chronolith_archive_query_candidates",
        "rows that one query looked at",
    ),
    (
        Histogram,
        "chronolith_archive_clause_logs",
        "logs that carry a clause's terms, per clause and segment",
    ),
    (
        Counter,
        "chronolith_archive_seals_total",
        "segments that were sealed",
    ),
    (
        Histogram,
        "chronolith_archive_segment_bytes",
        "size of sealed segments",
    ),
    (
        Histogram,
        "chronolith_archive_merge_seconds",
        "time of one step of maintenance",
    ),
    (
        Gauge,
        "chronolith_archive_unsealed_batches",
        "batches that wait to be sealed",
    ),
    (
        Gauge,
        "chronolith_archive_unsealed_weight",
        "logs and blocks that wait to be sealed",
    ),
    (
        Counter,
        "chronolith_archive_swap_retries_total",
        "swaps of the state that were tried again",
    ),
    (
        Counter,
        "chronolith_archive_lease_lost_total",
        "times that another writer took over",
    ),
    (
        Gauge,
        "chronolith_archive_orphan_segment_bytes",
        "bytes of objects that nothing names any more",
    ),
    (
        Gauge,
        "chronolith_archive_orphan_state_records",
        "old records of the state",
    ),
    (
        Gauge,
        "chronolith_archive_stale_batch_keys",
        "batches that were sealed and not yet removed",
    ),
    (
        Gauge,
        "chronolith_archive_damaged_objects",
        "objects that maintenance could not read since the start",
    ),
    (
        Counter,
        "chronolith_archive_garbage_removed_total",
        "objects that were collected",
    ),
    (
        Counter,
        "chronolith_served_calls_total",
        "JSON-RPC calls that were answered, by method and outcome (success, error)",
    ),
    (
        Histogram,
        "chronolith_rpc_seconds",
        "how long a call took until its answer could be sent",
    ),
    (
        Counter,
        "chronolith_http_panics_total",
        "handlers that panicked",
    ),
    (
        Counter,
        "chronolith_connections_refused_total",
        "connections that were refused because their address had too many",
    ),
    (
        Counter,
        "chronolith_archive_cache_hits_total",
        "parts of objects that were found in memory",
    ),
    (
        Counter,
        "chronolith_archive_cache_misses_total",
        "parts of objects that had to be read",
    ),
    (
        Gauge,
        "chronolith_archive_stored_bytes",
        "bytes of all objects that the state names",
    ),
    (
        Gauge,
        "chronolith_data_dir_free_bytes",
        "bytes that are free where the data directory lies",
    ),
    (
        Gauge,
        "chronolith_alert_no_events_seconds",
        "alertsConfig.noEventsSeconds of the chain",
    ),
    (
        Gauge,
        "chronolith_alert_max_lag_blocks",
        "alertsConfig.maxLagBlocks of the chain",
    ),
    (
        Gauge,
        "chronolith_alert_max_finality_lag_blocks",
        "alertsConfig.maxFinalityLagBlocks of the chain",
    ),
    (
        Gauge,
        "chronolith_alert_ws_down_seconds",
        "alertsConfig.wsDownSeconds of the chain",
    ),
    (
        Gauge,
        "chronolith_alert_rpc_error_ratio",
        "alertsConfig.rpcErrorRatio of the chain",
    ),
    (
        Gauge,
        "chronolith_alert_lock_age_seconds",
        "alertsConfig.lockAgeSeconds of the chain",
    ),
    (
        Gauge,
        "chronolith_alert_queue_max_items",
        "service.queueMaxItems",
    ),
    (
        Gauge,
        "chronolith_alert_out_of_order_wait_max_seconds",
        "service.ordering.maxOutOfOrderWaitMs, in seconds",
    ),
    (
        Gauge,
        "process_start_time_seconds",
        "when the process started, in seconds since 1970",
    ),
    (
        Gauge,
        "process_cpu_seconds_total",
        "processor time of the process, in seconds; it only grows",
    ),
    (
        Gauge,
        "process_resident_memory_bytes",
        "memory of the process",
    ),
    (Gauge, "process_open_fds", "files and sockets that are open"),
    (Gauge, "process_threads", "threads of the process"),
    (
        Gauge,
        "adfs_indexer_events_lag_blocks",
        "chronolith_lag_blocks",
    ),
    (
        Gauge,
        "adfs_indexer_finality_lag_blocks",
        "chronolith_finality_lag_blocks",
    ),
    (
        Counter,
        "adfs_indexer_rpc_requests_total",
        "chronolith_rpc_requests_total",
    ),
    (
        Counter,
        "adfs_indexer_rpc_errors_total",
        "chronolith_rpc_errors_total",
    ),
    (
        Histogram,
        "adfs_indexer_rpc_latency_ms",
        "chronolith_rpc_latency_seconds, in milliseconds",
    ),
    (
        Counter,
        "adfs_indexer_bytes_ingested_total",
        "chronolith_received_bytes_total",
    ),
    (
        Gauge,
        "adfs_indexer_backfill_progress",
        "chronolith_backfill_progress",
    ),
    (Gauge, "adfs_indexer_queue_depth", "chronolith_tail_blocks"),
    (
        Histogram,
        "adfs_indexer_out_of_order_wait_seconds",
        "chronolith_gap_wait_seconds",
    ),
    (
        Counter,
        "adfs_indexer_reorgs_total",
        "chronolith_reorgs_total; the status is always dropped",
    ),
    (
        Counter,
        "adfs_indexer_queue_overflow_total",
        "chronolith_tail_full_total",
    ),
];
