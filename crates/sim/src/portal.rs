//! A simulated Portal: the chain of an [`EvmNode`](crate::evm::EvmNode) as a dataset of SQD Portal.
//!
//! It answers the heads and both streams as Portal does: compressed, with nothing but the fields
//! that were requested, and ending wherever it likes. Of the filters it knows those of logs and the
//! one for all transactions; of the fields those that a node keeps of a block. It refuses
//! everything else, as Portal does.

mod body;
mod encoder;
mod faults;
mod lines;
mod query;
mod server;

pub use faults::{PortalFault, PortalFaults};
pub use server::{PortalDatasets, PortalEncoding, PortalOptions, PortalServer, PortalStats};
