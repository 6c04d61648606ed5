//! A simulated EVM node: a chain whose headers prove their content, and a node that shows it.
//!
//! Content comes from [`SimChain`](crate::SimChain). Header hashes, logs blooms and receipts roots
//! are the real functions of it, so that programs that check them can be tested here. What cannot be
//! checked without executing transactions (state and transactions roots) is made up.

pub mod adfs;
mod block;
mod bloom;
mod byzantine;
mod chain;
mod faults;
mod fees;
mod filter;
mod json;
mod methods;
mod node;
mod proxy;
mod refusals;
mod rpc;
mod server;

pub use crate::fault_registry::FaultsError;
pub use block::{EvmBlock, EvmTx, TxType};
pub(crate) use bloom::bloom_of;
pub use chain::{Era, EvmChain, EvmSpec};
pub use faults::{FaultSizes, Faults, RpcFault};
pub use fees::{
    FEES_COLLECTED_TOPIC, FEES_WITHDRAWN_TOPIC, FeeRow, FeesSpec, LIFI_FEES_WITHDRAWN_TOPIC,
};
pub use node::EvmNode;
pub use proxy::UPGRADED_TOPIC;
pub(crate) use server::Limiter;
pub use server::{MissingMethod, RateLimit, RpcOptions, RpcServer, RpcStats};
