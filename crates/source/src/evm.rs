//! EVM chains over JSON-RPC.

mod agreement;
pub(crate) mod bloom;
pub(crate) mod chains;
mod choice;
mod claims;
mod confirm;
mod elsewhere;
mod evidence;
mod fetch;
mod finals;
mod headers;
mod heads;
mod hint;
mod named;
mod oddity;
mod probe;
mod ranges;
mod reader;
mod receipts;
mod recent;
mod rules;
mod strength;
mod verify;
mod wire;

mod source;

pub(crate) use headers::Headers;
pub(crate) use hint::class_of;
pub use oddity::Oddity;
pub use probe::{Probed, Prober, Recorded};
pub use ranges::RangeSettings;
pub use reader::Tags;
pub use rules::{Checks, Rule};
pub use source::{EvmSettings, EvmSource, Strategy};
pub(crate) use verify::is_empty;
pub(crate) use wire::WireBlock;
