//! What is answered over the network: logs, blocks and transactions as nodes answer them, blocks by
//! time, how the process is, and what operators ask of it.
//!
//! Nothing here knows how a chain is followed. The node says how each chain does through [`ChainStatus`], and
//! this crate puts it into words and status codes. Every answer is made from one view: the tail as it
//! was first, the archive's state as it was second, and proof that both are one chain.

mod admin;
mod chain;
mod console;
mod cursor;
mod encode;
mod error;
mod fault;
mod fees;
mod health;
mod http;
mod logs;
mod metrics;
mod names;
mod rest;
mod rpc;
mod stellar;
mod times;
mod view;

pub use admin::{OperationFuture, Operator, admin_router, operation};
pub use chain::{
    ChainRanges, ChainStatus, EndpointHealth, EndpointState, Family, Ingested, Reorg, ServedChain,
    ServedChains, StellarChain,
};
pub use console::OPENAPI;
pub use encode::logs_as_json;
pub use error::{ApiError, ErrorCode};
pub use fees::fees_router;
pub use health::{
    ChainHealth, ConnectionState, DatabaseState, DroppedRuleHealth, InclusionHealth, L1Health,
    Probe, ProjectionsHealth, RpcHealth,
};
pub use http::context::{Clock, Limits};
pub use http::health::{Metrics, health_router};
pub use http::listener::{ConnectionLimits, listen};
pub use http::public::public_router;
pub use logs::AnswerLimits;
pub use names::{failed_phase_name, ledger_phase_name, txhash_phase_name};
pub use rest::chains::utc;
pub use rest::ranges::{counts_json, range_json};
pub use rest::times::parse_time;
pub use times::Timestamp;
