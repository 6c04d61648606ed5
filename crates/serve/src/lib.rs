//! What is answered over the network: for now how the process is, to people and probes, and what
//! operators ask of it.
//!
//! Nothing here knows how a chain is followed. The node says how each chain does through [`Probe`],
//! and this crate puts it into words and status codes.

mod admin;
mod health;
mod operations;

pub use admin::{Act, Collect, Later, Operator, Range, Reason, Refusal, RewindTo, admin};
pub use health::{ChainHealth, InclusionHealth, L1Health, Probe, RpcHealth};
pub use operations::{Metrics, operations};
