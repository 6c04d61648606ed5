//! Ledgers from a data lake: objects that never change, each with the ledgers that its name says.

mod directory;
mod http;
mod keys;
mod manifest;
mod objects;
pub(crate) mod open;
mod reader;
#[cfg(feature = "s3")]
mod s3;
mod search;
mod source;

pub(crate) use keys::FIRST_LEDGER;
pub use keys::Layout;
pub use source::{LakePlace, LakeSettings, LakeSource};
