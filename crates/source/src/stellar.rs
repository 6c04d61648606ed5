//! Stellar networks: ledgers from a data lake, from a captive core, or from one after the other.
//!
//! A ledger is final when it closes, and proves itself: with its passphrase and the hash of the
//! ledger before it, no source has to be trusted.

mod core;
mod lake;

pub use crate::hybrid::LakeAndCore;
pub use core::{CoreSettings, CoreSource};
pub use lake::{LakePlace, LakeSettings, LakeSource, Layout};
