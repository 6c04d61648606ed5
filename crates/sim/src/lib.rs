//! What the tests and benches run on: seeded chains, a naive oracle, stores that fail on command,
//! and, with the feature `evm`, a simulated EVM node and a simulated Portal of its chain, with the
//! feature `stellar` a simulated Stellar network.
//!
//! Everything here is a pure function of its seed: the same seed gives the same bytes on every
//! run and platform, so a failing seed is a bug report. Nothing here is part of the product.

mod chain;
mod corrupt;
#[cfg(feature = "evm")]
pub mod evm;
#[cfg(feature = "evm")]
mod fault_registry;
mod faults;
#[cfg(feature = "stellar")]
pub mod files;
#[cfg(any(feature = "evm", feature = "stellar"))]
mod http_server;
#[cfg(feature = "evm")]
mod json_writer;
mod oracle;
#[cfg(feature = "evm")]
pub mod portal;
mod queries;
mod rng;
#[cfg(feature = "stellar")]
pub mod stellar;

pub use chain::{ChainSpec, Shape, SimChain};
pub use corrupt::flip_byte;
#[cfg(feature = "evm")]
pub use fault_registry::{FaultRegistry, InjectedFault};
pub use faults::{
    CountingBlobs, Fault, FaultPlan, FaultyBlobs, FaultyMeta, IoCount, Odds, Operation, Tally,
};
pub use oracle::Oracle;
pub use queries::{QueryClass, QueryMix};
