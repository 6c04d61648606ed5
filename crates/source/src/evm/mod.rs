//! EVM chains over JSON-RPC.

pub(crate) mod bloom;
mod fetch;
mod heads;
mod hint;
mod ranges;
mod verify;
mod wire;

mod source;

pub use heads::Subscription;
pub use source::{EvmSettings, EvmSource, Strategy};
pub use verify::Checks;
