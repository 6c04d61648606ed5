//! Stellar networks: ledgers from a data lake, from a captive core, or from one after the other.
//!
//! A ledger is final when it closes, and proves itself: whoever has its passphrase and the hash of the
//! ledger behind it needs to believe nobody.

mod core;
mod lake;

pub use crate::hybrid::LakeAndCore;
pub use core::{CoreSettings, CoreSource};
pub use lake::{LakePlace, LakeSettings, LakeSource, Layout};
