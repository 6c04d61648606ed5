//! The settings file as people write it.
//!
//! Names are camelCase here; those in snake_case are changed before ([`super::reading::rename_keys`]). An
//! unknown field is an error. Where the ADFS document has two names of one setting, both are accepted. Nothing
//! here can be printed: URLs carry keys.

#![allow(
    dead_code,
    reason = "the whole file is checked, also the parts that only projections read"
)]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// The whole file.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawSettings {
    /// Where archives are kept [default: ./data]. `DATA_DIR` overrides it.
    pub(crate) data_dir: Option<String>,
    /// Where archives are kept instead, such as s3://bucket/prefix. Keys and endpoint come from the
    /// environment: AWS_ACCESS_KEY_ID and its like.
    pub(crate) archive_url: Option<String>,
    /// The SQD Portal of known chains that name none [default: `https://portal.sqd.dev/datasets`]. `PORTAL_URL`
    /// overrides it.
    pub(crate) portal_url: Option<String>,
    /// Requests to a Portal in ten seconds, of all chains together; 0 for no limit, as a Portal of your own allows
    /// [default: 20]. `PORTAL_REQUESTS` overrides it.
    pub(crate) portal_requests: Option<u32>,
    /// Address of the public listener.
    pub(crate) listen: Option<String>,
    /// Port of health and metrics [default: 9464].
    pub(crate) metrics_port: Option<u16>,
    /// Address of health and metrics [default: 0.0.0.0:9464]. `metricsPort` changes its port.
    pub(crate) metrics_listen: Option<String>,
    /// Seconds that open connections have to end when the process stops [default: 10].
    pub(crate) drain_seconds: Option<u64>,
    /// Address of the listener for operators.
    pub(crate) admin_listen: Option<String>,
    /// Address of the listener of the fee document, where fees are projected [default: 0.0.0.0:9999].
    /// `API_PORT` sets its port.
    pub(crate) fees_listen: Option<String>,
    /// The token of requests at adminListen; needed where that is not this machine.
    pub(crate) admin_token: Option<String>,
    /// Who may use the public listener [default: everybody, without limits].
    pub(crate) api_keys: Option<RawApiKeys>,
    /// A line of JSON for each request of the public listener: off, stderr, or the path of a file [default: off].
    pub(crate) access_log: Option<String>,
    /// Memory for what queries read of archives, of all chains together, in MiB [default: 256].
    pub(crate) cache_mib: Option<u64>,
    /// What requests may cost.
    pub(crate) limits: RawLimits,
    /// How queries are answered.
    pub(crate) planner: RawPlanner,
    /// The chains to follow.
    pub(crate) chains: Vec<RawChainEntry>,
    /// Limits of the service.
    pub(crate) service: RawService,
    /// The other spelling of the queue's limit.
    pub(crate) queue: RawQueue,
    /// The database of projections.
    pub(crate) db: RawDatabase,
    /// The other spelling of the metrics port.
    pub(crate) metrics: Option<RawMetrics>,
    /// Versions of ADFS contracts, by number.
    pub(crate) versions: BTreeMap<String, RawVersion>,
    /// Which implementation has which version, by address.
    pub(crate) impl_version_map: BTreeMap<String, RawImplementation>,
}

/// The database of projections.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawDatabase {
    /// Where it is, such as postgres://user:password@host:5432/database. `PG_URL` overrides it.
    pub(crate) url: Option<String>,
    /// Where it is read, if that is elsewhere. `PG_READONLY_URL` overrides it.
    pub(crate) readonly_url: Option<String>,
    /// Connections at most, for writing and for answers each [default: 10].
    pub(crate) connections: Option<usize>,
    /// Jobs that are worked on at the same time, of each chain; 0 leaves them to `chronolith work`
    /// [default: 2].
    pub(crate) workers: Option<usize>,
    /// How rows are written.
    pub(crate) write: RawWrite,
}

/// How rows are written.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawWrite {
    /// Rows at once. Taken and not used: all rows of a block go in one COPY.
    pub(crate) batch_rows: Option<usize>,
}

/// Fee contracts: whether those that are known, or which.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawFees {
    /// Those that are known.
    Whether(bool),
    /// These.
    // Taken as a value first, as chains are.
    Whole(#[schemars(with = "RawFeesSettings")] Value),
}

/// Fee contracts of a chain.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawFeesSettings {
    /// The contracts [default: those that are known].
    pub(crate) contracts: Vec<RawFeeContract>,
    /// Blocks of a job [default: 50000].
    pub(crate) job_blocks: Option<u64>,
    /// Milliseconds that the lease of a job lasts without renewal [default: 120000].
    pub(crate) job_lease_ttl_ms: Option<u64>,
}

/// A fee contract: its address, or with its first block.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawFeeContract {
    /// Its address.
    Address(String),
    /// With its first block.
    // Taken as a value first, as chains are.
    Whole(#[schemars(with = "RawFeeContractSettings")] Value),
}

/// A fee contract with its first block.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawFeeContractSettings {
    /// Its address.
    pub(crate) address: String,
    /// The first block whose events count [default: the chain's startBlock].
    #[serde(default)]
    pub(crate) from_block: Option<u64>,
}

/// What requests may cost.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawLimits {
    /// Logs in an answer [default: 10000].
    pub(crate) results: Option<usize>,
    /// MiB of logs in an answer [default: 64].
    pub(crate) answer_mib: Option<usize>,
    /// Blocks that a query for logs may look at [default: all].
    pub(crate) block_range: Option<u64>,
    /// Calls in a batch [default: 100].
    pub(crate) batch: Option<usize>,
    /// Seconds that a query may take [default: 10].
    pub(crate) timeout_seconds: Option<u64>,
    /// Connections at the same time [default: 4096].
    pub(crate) connections: Option<usize>,
    /// Those of one address; 0 counts none [default: 1024].
    pub(crate) connections_per_peer: Option<usize>,
}

/// Who may use the public listener.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawApiKeys {
    /// Whether requests without a key are refused [default: false].
    pub(crate) required: bool,
    /// A file with more keys, JSON or TOML by its extension.
    pub(crate) file: Option<String>,
    /// Keys by their hashes. `chronolith keys new` makes one.
    pub(crate) keys: Vec<RawApiKey>,
    /// The limits of all requests without a key together [default: none].
    pub(crate) anonymous: RawKeyLimits,
}

/// A file of API keys.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawKeyFile {
    /// Keys by their hashes.
    pub(crate) keys: Vec<RawApiKey>,
}

/// An API key by its hash, with its limits.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawApiKey {
    /// Its name in metrics and in the log.
    pub(crate) name: String,
    /// `sha256:` and 64 hex digits.
    pub(crate) hash: String,
    /// Requests in a second, each call of a batch as one [default: no limit].
    #[serde(default)]
    pub(crate) requests_per_second: Option<f64>,
    /// Requests at once [default: those of two seconds].
    #[serde(default)]
    pub(crate) request_burst: Option<f64>,
    /// Bytes of answers in a second, as they are sent [default: no limit].
    #[serde(default)]
    pub(crate) bytes_per_second: Option<f64>,
    /// Bytes at once [default: those of two seconds].
    #[serde(default)]
    pub(crate) byte_burst: Option<f64>,
}

/// Limits of requests without a key.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawKeyLimits {
    /// Requests in a second, each call of a batch as one [default: no limit].
    pub(crate) requests_per_second: Option<f64>,
    /// Requests at once [default: those of two seconds].
    pub(crate) request_burst: Option<f64>,
    /// Bytes of answers in a second, as they are sent [default: no limit].
    pub(crate) bytes_per_second: Option<f64>,
    /// Bytes at once [default: those of two seconds].
    pub(crate) byte_burst: Option<f64>,
}

/// How queries are answered.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawPlanner {
    /// More than 1,000 alternatives at one place of a filter: refuse or block_scan [default: refuse].
    pub(crate) or_policy: Option<RawOrPolicy>,
}

/// What becomes of a filter with too many alternatives.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawOrPolicy {
    Refuse,
    BlockScan,
}

/// What the ADFS document calls the service.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawService {
    /// Most items in a queue.
    pub(crate) queue_max_items: Option<usize>,
    /// Rows that are written to the database at once.
    pub(crate) db_write_batch_rows: Option<usize>,
    /// Port of health and metrics.
    pub(crate) metrics_port: Option<u16>,
    /// Blocks that are fetched again after an overflow.
    pub(crate) overflow_backfill_window: Option<u64>,
    /// Blocks that are fetched again after a guard ended.
    pub(crate) guard_backfill_window: Option<u64>,
    /// How long blocks may come out of order.
    pub(crate) ordering: RawOrdering,
}

/// How long blocks may come out of order.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawOrdering {
    /// Milliseconds.
    pub(crate) max_out_of_order_wait_ms: Option<u64>,
}

/// The other spelling of the queue's limit.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawQueue {
    /// Most items in a queue.
    pub(crate) max_items: Option<usize>,
}

/// The other spelling of the metrics port.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawMetrics {
    /// The port.
    pub(crate) port: Option<u16>,
}

/// A version of an ADFS contract.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawVersion {
    /// Whether its events carry a block number.
    pub(crate) has_block_number: bool,
    /// Further fields of its events.
    #[serde(default)]
    pub(crate) extra_fields: Vec<String>,
    /// What is refused.
    #[serde(default)]
    pub(crate) guards: RawGuards,
}

/// What is refused of a version's updates.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawGuards {
    /// Feeds of an update at most [default: 10000].
    pub(crate) feeds_length: Option<u32>,
    /// Lanes above 8191: reject, or mask as newer contracts do [default: reject].
    pub(crate) lane_policy: Option<RawLanePolicy>,
}

/// What becomes of lanes above 8191.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawLanePolicy {
    Reject,
    Mask,
}

/// An implementation behind a proxy.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawImplementation {
    /// Which version it is.
    pub(crate) version: u32,
    /// Hash that its code must have.
    #[serde(default)]
    pub(crate) expected_bytecode_hash: Option<String>,
}

/// A chain: the name of a known one, or a whole entry.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawChainEntry {
    /// The name of a chain of `chronolith config chains`.
    Name(String),
    /// A chain with its own settings.
    // Taken as a value first: an untagged enum would hide which field is wrong.
    Whole(#[schemars(with = "RawChain")] Value),
}

/// A chain.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawChain {
    /// The chain's id; may be left out for a chain that is known by name.
    pub(crate) chain_id: Option<u64>,
    /// What to call it, or the name of a known chain.
    pub(crate) name: Option<String>,
    /// JSON-RPC endpoints, the preferred one first.
    pub(crate) rpc_http: Vec<RawEndpoint>,
    /// WebSocket endpoints that tell of new heads.
    pub(crate) rpc_ws: Vec<String>,
    /// A dataset of SQD Portal, instead of endpoints.
    pub(crate) portal: Option<RawPortal>,
    /// A Stellar network, instead of endpoints.
    pub(crate) stellar: Option<RawStellar>,
    /// The first block to archive [default: 0, on Stellar 2].
    pub(crate) start_block: Option<u64>,
    /// Last block, in mode backfill.
    pub(crate) end_block: Option<u64>,
    /// How blocks become final.
    pub(crate) finality: Option<RawFinality>,
    /// What is kept: headers, logs, tx_hashes, transactions, payload; the clock always is.
    pub(crate) datasets: Option<Vec<String>>,
    /// Which logs are kept [default: all; with an ADFS contract and without `datasets`, those of the contract].
    pub(crate) logs: Option<RawScope>,
    /// The least level of every block: claimed, linked, bloom, receipts or roots.
    pub(crate) verification: Option<RawVerification>,
    /// How logs are fetched: receipts or logs.
    pub(crate) strategy: Option<RawStrategy>,
    /// auto, streaming or backfill.
    pub(crate) mode: Option<RawMode>,
    /// Milliseconds from one look for new blocks to the next.
    pub(crate) poll_ms: Option<u64>,
    /// The ADFS contract, a proxy, whose updates are projected.
    #[serde(alias = "proxyAddress")]
    pub(crate) contract_address: Option<String>,
    /// Events of fee contracts as rows: true, or which contracts.
    pub(crate) fees: Option<RawFees>,
    /// Signatures of events, by version.
    pub(crate) topic_names: BTreeMap<String, String>,
    /// The version of updates before the first upgrade that is known [default: the only one].
    pub(crate) initial_version: Option<u32>,
    /// Bytes of an update's calldata at most [default: 131072].
    pub(crate) max_calldata_bytes: Option<usize>,
    /// When operators are alerted.
    pub(crate) alerts_config: Option<RawAlerts>,
    /// Memory for blocks that wait for finality, in MiB: a limit, not a reservation [default: 640].
    pub(crate) tail_mib: Option<u64>,
    /// How history is fetched.
    pub(crate) backfill: RawBackfill,
    /// How history is cut into ranges.
    pub(crate) ranges: RawRanges,
}

/// How far blocks are proven.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawVerification {
    Claimed,
    Linked,
    Bloom,
    Receipts,
    Roots,
}

/// How logs are fetched.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawStrategy {
    Receipts,
    Logs,
}

/// What following a chain is for.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawMode {
    Auto,
    Streaming,
    Backfill,
}

/// An endpoint: its URL, or with limits.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum RawEndpoint {
    /// Its URL.
    Url(String),
    /// With limits of its own.
    // Taken as a value first, as chains are.
    Whole(#[schemars(with = "RawEndpointSettings")] Value),
}

/// An endpoint with limits.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawEndpointSettings {
    /// Its URL.
    pub(crate) url: String,
    /// Requests at the same time.
    #[serde(default)]
    pub(crate) in_flight: Option<usize>,
    /// Requests in a second.
    #[serde(default)]
    pub(crate) requests_per_second: Option<f64>,
    /// Calls in one request.
    #[serde(default)]
    pub(crate) batch: Option<usize>,
}

/// A dataset of SQD Portal.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawPortal {
    /// Where the datasets are.
    pub(crate) url: String,
    /// Which one; may be left out for a chain that is known by name.
    #[serde(default)]
    pub(crate) dataset: Option<String>,
}

/// How blocks become final.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawFinality {
    /// l1_confirmations (or depth), dual_source, finalized (or source), or safe.
    pub(crate) mode: Option<RawFinalityMode>,
    /// Blocks that must stand on a final one.
    #[serde(alias = "l1Confirmations")]
    pub(crate) confirmations: Option<u64>,
    /// Blocks of the chain itself, in mode dual_source.
    pub(crate) l2_depth: Option<u64>,
    /// How old a report of the L1 may be, in mode dual_source.
    pub(crate) max_l1_delay_seconds: Option<u64>,
    /// The L1, where the chain is not known by name.
    pub(crate) l1_chain_id: Option<u64>,
    /// Endpoints of the L1, where it is not among the chains.
    pub(crate) l1_rpc_http: Vec<RawEndpoint>,
}

/// A rule of finality; two of them have a second name.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawFinalityMode {
    L1Confirmations,
    Depth,
    DualSource,
    Finalized,
    Source,
    Safe,
}

/// A narrower scope of logs.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawScope {
    /// Addresses that emitted them, any of these.
    pub(crate) addresses: Vec<String>,
    /// First topics, any of these.
    pub(crate) topic0: Vec<String>,
}

/// When operators are alerted.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawAlerts {
    /// Seconds without an event [default: 300].
    pub(crate) no_events_seconds: Option<u64>,
    /// Blocks behind the head [default: 64].
    pub(crate) max_lag_blocks: Option<u64>,
    /// Blocks from the newest final one to the head [default: maxLagBlocks].
    pub(crate) max_finality_lag_blocks: Option<u64>,
    /// Seconds without heads over WebSocket [default: 600].
    pub(crate) ws_down_seconds: Option<u64>,
    /// Failed calls as a part of all calls [default: 0.02].
    pub(crate) rpc_error_ratio: Option<f64>,
    /// Seconds that a lock of the database may be held [default: 300].
    pub(crate) lock_age_seconds: Option<u64>,
}

/// How history is fetched.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawBackfill {
    /// Blocks that are requested at first.
    pub(crate) initial_range: Option<u64>,
    /// The fewest.
    pub(crate) min_range: Option<u64>,
    /// The most.
    pub(crate) max_range: Option<u64>,
}

/// How history is cut into ranges.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawRanges {
    /// Blocks of a range [default: 10000000].
    pub(crate) size: Option<u64>,
    /// Ranges that are fetched at the same time, in mode backfill [default: 2].
    pub(crate) parallel: Option<usize>,
    /// Blocks after which what was fetched is published, in mode backfill [default: 1000].
    pub(crate) checkpoint: Option<u64>,
}

/// A Stellar network.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawStellar {
    /// pubnet, testnet, or a name of your own with a passphrase.
    pub(crate) network: Option<String>,
    /// The network's passphrase; may be left out for a network that is known by name.
    pub(crate) passphrase: Option<String>,
    /// The data lake that history comes from.
    pub(crate) lake: Option<RawLake>,
    /// The core that new ledgers come from, and all of them where there is no lake.
    pub(crate) core: Option<RawCore>,
}

/// A stellar-core that is run for its ledgers.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RawCore {
    /// The program: its path, or its name.
    pub(crate) binary: String,
    /// Its settings file.
    pub(crate) config: String,
    /// Where it works [default: core beside the chain's archive].
    #[serde(default)]
    pub(crate) work_dir: Option<String>,
    /// Seconds without a ledger after which it is started again [default: 600].
    #[serde(default)]
    pub(crate) patience_seconds: Option<u64>,
}

/// A data lake of Stellar ledgers, laid out as SEP-54 has it.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawLake {
    /// Where it is: s3://bucket/prefix, or a web server.
    pub(crate) url: Option<String>,
    /// Or its directory on this machine.
    pub(crate) dir: Option<String>,
    /// Ledgers of an object; only for a lake without a manifest.
    pub(crate) ledgers_per_batch: Option<u32>,
    /// Objects of a partition; only for a lake without a manifest.
    pub(crate) batches_per_partition: Option<u32>,
    /// Where the S3 server is [default: AWS, or AWS_ENDPOINT].
    pub(crate) endpoint: Option<String>,
    /// The region of the bucket [default: AWS_REGION].
    pub(crate) region: Option<String>,
    /// Whether it is read without keys [default: false].
    pub(crate) anonymous: bool,
    /// Fetches at the same time [default: 8].
    pub(crate) in_flight: Option<usize>,
}
