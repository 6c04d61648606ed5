//! HTTP: JSON-RPC, REST, Stellar RPC, the fees API, the admin API, health, metrics and the console.
//!
//! Nothing here knows how a chain is followed: the node reports that through [`chain::ChainStatus`]. Every
//! answer comes from one view: first a snapshot of the tail, then the state of the archive, and proof that
//! both are of one chain.

pub mod admin;
pub mod chain;
pub mod health;
pub mod history;
pub mod http;
pub mod ranges;
pub mod times;

mod console;
mod cursor;
mod encode;
mod error;
mod fault;
mod fees;
mod logs;
mod metrics;
mod names;
mod openapi;
mod problem;
mod renamed;
mod rest;
mod rpc;
mod seldom;
mod stellar;
mod view;

pub use encode::logs_as_json;
pub use error::{ApiError, ErrorCode};
pub use names::ChainId;
pub use openapi::OPENAPI;
