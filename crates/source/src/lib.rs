//! Where blocks come from.
//!
//! A source claims blocks; a claim is checked as far as the chain allows before it is handed on, and
//! how far that was comes with it. An endpoint that is down, slow or wrong is passed over for the
//! next; one that lied is named. Nothing here decides what is final or keeps anything.

mod batch;
mod chains;
mod endpoint;
mod error;
pub mod evm;
mod joint;
mod meters;
mod pool;
pub mod portal;
mod reply;
mod secrets;
mod source;
pub mod stellar;
mod throttle;

pub use chains::{CHAINS, KnownChain, checks_of, known_chain, known_genesis};
pub use endpoint::{EndpointReport, EndpointSettings};
pub use error::{Error, Result};
pub use joint::JointSource;
pub use source::{DroppedRule, Fetched, Heads, Identity, Opinion, Plan, Source, Want};

/// The hash that the EVM gives to bytes, such as code.
#[must_use]
pub fn keccak256(bytes: &[u8]) -> [u8; 32] {
    alloy_primitives::keccak256(bytes).0
}
