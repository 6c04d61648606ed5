//! HTTP: connections and their limits, what handlers share, response bodies, and the routers.

pub(crate) mod access;
mod activity;
pub(crate) mod answer_memory;
pub(crate) mod body;
pub(crate) mod caching;
mod compress;
mod connection;
pub(crate) mod context;
mod drain;
mod finish;
mod health;
pub(crate) mod heavy;
mod holders;
pub(crate) mod limits;
mod listener;
pub(crate) mod panics;
mod peers;
mod public;
pub(crate) mod request_body;
mod request_id;
#[cfg(test)]
pub(crate) mod test_client;

pub use crate::fees::fees_router;
pub use access::{
    Access, AccessLog, ApiKey, ApiKeys, KeyHash, KeyLimits, LogLines, MillisClock, Rate,
};
pub use context::Clock;
pub use drain::{Drain, Drainer, drain};
pub(crate) use health::Health;
pub use health::{Metrics, health_router};
pub use heavy::HeavyWork;
pub use limits::{AnswerLimits, Limits};
pub use listener::{ConnectionLimits, listen};
pub use public::public_router;
