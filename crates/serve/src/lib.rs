//! What is answered over the network: logs, blocks and transactions as nodes answer them, blocks by
//! time, how the process is, and what operators ask of it.
//!
//! Nothing here knows how a chain is followed. The node says how each chain does through [`ChainStatus`], and
//! this crate puts it into words and status codes. Every answer is made from one view: the tail as it
//! was first, the archive's state as it was second, and proof that both are one chain.

mod admin;
#[cfg(test)]
mod asking;
mod console;
mod context;
mod cursor;
mod encode;
mod error;
mod fault;
mod fees;
mod health;
mod listener;
mod logs;
mod meters;
mod names;
mod operations;
mod panics;
mod peers;
mod pieces;
mod public;
mod rest;
mod rpc;
mod served;
mod stellar;
mod times;
mod view;

pub use admin::{Later, Operator, admin, operation};
pub use console::OPENAPI;
pub use context::{Clock, Limits};
pub use encode::logs_as_json;
pub use error::{ApiError, ErrorCode};
pub use fees::fees_router;
pub use health::{
    ChainHealth, DroppedRuleHealth, InclusionHealth, L1Health, Probe, ProjectionsHealth, RpcHealth,
};
pub use listener::{Room, listen};
pub use logs::AnswerLimits;
pub use names::{failed_phase_name, ledger_phase_name, txhash_phase_name};
pub use operations::{Metrics, operations};
pub use public::public;
pub use rest::chains::utc;
pub use rest::ranges::{counts_json, range_json};
pub use rest::times::read_time;
pub use served::{
    ChainRanges, ChainStatus, EndpointHealth, Family, Ingested, Reorg, Served, ServedChain,
    StellarChain,
};
pub use times::Moment;
