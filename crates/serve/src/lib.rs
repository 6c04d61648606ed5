//! What is answered over the network: for now how the process is, to people and probes.
//!
//! Nothing here knows how a chain is followed. The node says how each chain does through [`Probe`],
//! and this crate puts it into words and status codes.

mod health;
mod operations;

pub use health::{ChainHealth, InclusionHealth, L1Health, Probe, RpcHealth};
pub use operations::{Metrics, operations};
