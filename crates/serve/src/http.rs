//! HTTP: connections and their limits, what handlers share, response bodies, and the routers.

pub(crate) mod body;
pub(crate) mod context;
mod health;
pub(crate) mod limits;
mod listener;
pub(crate) mod panics;
mod peers;
mod public;
#[cfg(test)]
pub(crate) mod test_client;

pub use crate::fees::fees_router;
pub use context::Clock;
pub(crate) use health::Health;
pub use health::{Metrics, health_router};
pub use limits::{AnswerLimits, Limits};
pub use listener::{ConnectionLimits, listen};
pub use public::public_router;
