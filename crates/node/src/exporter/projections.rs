//! The metrics of projections, with what each means. They appear once something counts under them.

use super::catalog::Described;
use super::catalog::Kind::{Counter, Gauge, Histogram};

pub(super) const METRICS: &[Described] = &[
    (
        Counter,
        "chronolith_projection_events_total",
        "events whose rows were written, by status (pending, confirmed, dropped)",
    ),
    (
        Histogram,
        "chronolith_projection_pending_delay_seconds",
        "time from a block's timestamp to its rows being there as pending",
    ),
    (
        Gauge,
        "chronolith_projection_last_event_timestamp_seconds",
        "when an event last came that was not there before, in seconds since 1970; confirming an old one is none",
    ),
    (
        Gauge,
        "chronolith_projection_paused",
        "1 while the projection takes no block until a person or a backfill is done",
    ),
    (
        Gauge,
        "chronolith_projection_version_paused",
        "1 while the projection is paused by an unknown or changed implementation",
    ),
    (
        Gauge,
        "chronolith_projection_jobs",
        "jobs by state (pending, processing, failed, dead); a dead one is not tried again by itself",
    ),
    (
        Counter,
        "chronolith_projection_guard_dropped_total",
        "payloads that a guard refused, by reason (feedsLength, calldataSize, rbIndex, malformed, noCalldata, otherVersion)",
    ),
    (
        Gauge,
        "chronolith_projection_overflow_backfill_height",
        "the block from which the last overflow is made good",
    ),
    (
        Counter,
        "chronolith_projection_lock_contention_total",
        "attempts at the finality lock that found it held by another",
    ),
    (
        Gauge,
        "chronolith_projection_lock_age_seconds",
        "seconds since whoever holds a lock showed that it lives, by lock (finality, writer); 0 while it is free",
    ),
    (
        Counter,
        "chronolith_adfs_ring_gaps_total",
        "confirmed values whose ring index is not the one after that before; feed_ring_gaps has them",
    ),
    (
        Counter,
        "chronolith_adfs_ring_wraps_total",
        "confirmed values that went on at 0 behind 8191",
    ),
    (
        Counter,
        "chronolith_adfs_lane_mismatch_total",
        "confirmed values that lie elsewhere than the table of their calldata says",
    ),
    (
        Counter,
        "chronolith_adfs_block_number_mismatch_total",
        "events whose calldata says another block number than they do; they are refused",
    ),
    (
        Gauge,
        "chronolith_database_up",
        "1 while the database answers",
    ),
    (
        Counter,
        "chronolith_database_ops_total",
        "operations of the database by op (insert, confirm, drop, …) and outcome (success, error)",
    ),
    (
        Histogram,
        "chronolith_database_latency_seconds",
        "time of one operation of the database",
    ),
    (
        Counter,
        "adfs_indexer_events_processed_total",
        "chronolith_projection_events_total of the ADFS projection",
    ),
    (
        Gauge,
        "adfs_indexer_version_paused",
        "chronolith_projection_version_paused of the ADFS projection",
    ),
    (
        Counter,
        "adfs_indexer_guard_dropped_total",
        "chronolith_projection_guard_dropped_total of the ADFS projection",
    ),
    (
        Gauge,
        "adfs_indexer_queue_overflow_backfill_height",
        "chronolith_projection_overflow_backfill_height of the ADFS projection",
    ),
    (
        Counter,
        "adfs_indexer_finality_lock_contention_total",
        "chronolith_projection_lock_contention_total of the ADFS projection",
    ),
    (
        Gauge,
        "adfs_indexer_lock_age_seconds",
        "chronolith_projection_lock_age_seconds of the ADFS projection",
    ),
    (
        Counter,
        "adfs_indexer_db_ops_total",
        "chronolith_database_ops_total of the ADFS projection",
    ),
    (
        Histogram,
        "adfs_indexer_db_latency_ms",
        "chronolith_database_latency_seconds of the ADFS projection, in milliseconds",
    ),
];
