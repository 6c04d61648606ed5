//! EVM chains over JSON-RPC.

pub(crate) mod bloom;
mod confirm;
mod evidence;
mod fetch;
mod heads;
mod hint;
mod probe;
mod ranges;
mod receipts;
mod recent;
mod standing;
mod verify;
mod wire;

mod source;

pub use heads::Subscription;
pub use probe::{Probed, Prober, Recorded};
pub use ranges::RangeSettings;
pub use source::{EvmSettings, EvmSource, Strategy};
pub use standing::Tags;
pub use verify::{Checks, Oddity, Rule};
