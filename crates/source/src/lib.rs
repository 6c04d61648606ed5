//! Where blocks come from.
//!
//! A source claims blocks; a claim is checked as far as the chain allows before it is handed on, and
//! how far that was comes with it. An endpoint that is down, slow or wrong is passed over for the
//! next; one that contradicts itself or others is named. Nothing here decides what is final or keeps anything.

mod answer_memory;
mod backoff;
mod error;
pub mod evm;
mod failure;
mod health;
mod http;
mod hybrid;
mod jsonrpc;
mod meters;
pub mod portal;
mod source;
mod spans;
pub mod stellar;

pub use backoff::Backoff;
pub use error::{Error, Result};
pub use evm::chains::{CHAINS, KnownChain, checks_of, known_chain, known_genesis};
pub use failure::FailureClass;
pub use health::EndpointReport;
pub use hybrid::JointSource;
pub use jsonrpc::settings::EndpointSettings;
pub use source::{
    DroppedRule, EndpointBlock, Fetched, Heads, Identity, Plan, Source, Subscription, Want,
};

/// The hash that the EVM gives to bytes, such as code.
#[must_use]
pub fn keccak256(bytes: &[u8]) -> [u8; 32] {
    alloy_primitives::keccak256(bytes).0
}
