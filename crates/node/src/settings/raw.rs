//! The settings file as people write it.
//!
//! Field names may be camelCase or snake_case. A field that is not known is an error. Where the ADFS
//! document has two spellings of one thing, both are taken. Nothing here can be printed: URLs carry
//! keys.

#![allow(
    dead_code,
    reason = "the whole file is checked, also the parts that only projections read"
)]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The whole file.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawSettings {
    #[serde(alias = "data_dir")]
    pub(crate) data_dir: Option<String>,
    pub(crate) listen: Option<String>,
    #[serde(alias = "metrics_port")]
    pub(crate) metrics_port: Option<u16>,
    #[serde(alias = "admin_listen")]
    pub(crate) admin_listen: Option<String>,
    pub(crate) chains: Vec<RawChainEntry>,
    pub(crate) service: RawService,
    pub(crate) queue: RawQueue,
    pub(crate) db: Option<Value>,
    pub(crate) metrics: Option<RawMetrics>,
    /// Versions of ADFS contracts, by number.
    pub(crate) versions: BTreeMap<String, RawVersion>,
    /// Which implementation has which version, by address.
    #[serde(alias = "impl_version_map")]
    pub(crate) impl_version_map: BTreeMap<String, RawImplementation>,
}

/// What the ADFS document calls the service.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawService {
    #[serde(alias = "queue_max_items")]
    pub(crate) queue_max_items: Option<usize>,
    #[serde(alias = "db_write_batch_rows")]
    pub(crate) db_write_batch_rows: Option<usize>,
    #[serde(alias = "metrics_port")]
    pub(crate) metrics_port: Option<u16>,
    #[serde(alias = "overflow_backfill_window")]
    pub(crate) overflow_backfill_window: Option<u64>,
    #[serde(alias = "guard_backfill_window")]
    pub(crate) guard_backfill_window: Option<u64>,
    pub(crate) ordering: RawOrdering,
}

/// How long blocks may come out of order.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawOrdering {
    #[serde(alias = "max_out_of_order_wait_ms")]
    pub(crate) max_out_of_order_wait_ms: Option<u64>,
}

/// The other spelling of the queue's limit.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawQueue {
    #[serde(alias = "max_items")]
    pub(crate) max_items: Option<usize>,
}

/// The other spelling of the metrics port.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawMetrics {
    pub(crate) port: Option<u16>,
}

/// A version of an ADFS contract.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawVersion {
    #[serde(alias = "has_block_number")]
    pub(crate) has_block_number: bool,
    #[serde(default, alias = "extra_fields")]
    pub(crate) extra_fields: Vec<String>,
}

/// An implementation behind a proxy.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawImplementation {
    pub(crate) version: u32,
    #[serde(default, alias = "expected_bytecode_hash")]
    pub(crate) expected_bytecode_hash: Option<String>,
}

/// A chain: the name of a known one, or a whole entry.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawChainEntry {
    Name(String),
    // Taken as a value first: an untagged enum would hide which field is wrong.
    Whole(Value),
}

/// A chain.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawChain {
    #[serde(alias = "chain_id")]
    pub(crate) chain_id: Option<u64>,
    pub(crate) name: Option<String>,
    #[serde(alias = "rpc_http")]
    pub(crate) rpc_http: Vec<RawEndpoint>,
    #[serde(alias = "rpc_ws")]
    pub(crate) rpc_ws: Vec<String>,
    pub(crate) portal: Option<RawPortal>,
    #[serde(alias = "start_block")]
    pub(crate) start_block: Option<u64>,
    #[serde(alias = "end_block")]
    pub(crate) end_block: Option<u64>,
    pub(crate) finality: Option<RawFinality>,
    pub(crate) datasets: Option<Vec<String>>,
    pub(crate) logs: Option<RawScope>,
    pub(crate) verification: Option<String>,
    pub(crate) strategy: Option<String>,
    pub(crate) mode: Option<String>,
    #[serde(alias = "poll_ms")]
    pub(crate) poll_ms: Option<u64>,
    #[serde(
        alias = "contract_address",
        alias = "proxyAddress",
        alias = "proxy_address"
    )]
    pub(crate) contract_address: Option<String>,
    #[serde(alias = "topic_names")]
    pub(crate) topic_names: BTreeMap<String, String>,
    #[serde(alias = "alerts_config")]
    pub(crate) alerts_config: Option<RawAlerts>,
    pub(crate) backfill: RawBackfill,
}

/// An endpoint: its URL, or with limits.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum RawEndpoint {
    Url(String),
    Whole(RawEndpointSettings),
}

/// An endpoint with limits.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawEndpointSettings {
    pub(crate) url: String,
    #[serde(default, alias = "in_flight")]
    pub(crate) in_flight: Option<usize>,
    #[serde(default, alias = "requests_per_second")]
    pub(crate) requests_per_second: Option<f64>,
    #[serde(default)]
    pub(crate) batch: Option<usize>,
}

/// A dataset of SQD Portal.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawPortal {
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) dataset: Option<String>,
}

/// How blocks become final.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawFinality {
    pub(crate) mode: Option<String>,
    #[serde(alias = "l1Confirmations", alias = "l1_confirmations")]
    pub(crate) confirmations: Option<u64>,
    #[serde(alias = "l2_depth")]
    pub(crate) l2_depth: Option<u64>,
    #[serde(alias = "max_l1_delay_seconds")]
    pub(crate) max_l1_delay_seconds: Option<u64>,
    /// The chain below, where the chain is not known by name.
    #[serde(alias = "l1_chain_id")]
    pub(crate) l1_chain_id: Option<u64>,
    /// Who tells its head, where it is not among the chains.
    #[serde(alias = "l1_rpc_http")]
    pub(crate) l1_rpc_http: Vec<RawEndpoint>,
}

/// A narrower scope of logs.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawScope {
    pub(crate) addresses: Vec<String>,
    pub(crate) topic0: Vec<String>,
}

/// When people want to be told.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawAlerts {
    #[serde(alias = "no_events_seconds")]
    pub(crate) no_events_seconds: Option<u64>,
    #[serde(alias = "max_lag_blocks")]
    pub(crate) max_lag_blocks: Option<u64>,
}

/// How history is fetched.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawBackfill {
    #[serde(alias = "initial_range")]
    pub(crate) initial_range: Option<u64>,
    #[serde(alias = "min_range")]
    pub(crate) min_range: Option<u64>,
    #[serde(alias = "max_range")]
    pub(crate) max_range: Option<u64>,
}
