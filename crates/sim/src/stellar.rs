//! A simulated Stellar network: a chain of ledgers whose hashes hold, down to the last of them.
//!
//! A ledger is made as the bytes that stellar-core writes (`LedgerCloseMeta`). Header hashes, links,
//! the hashes of transaction sets, of results and of transactions are the real functions of their
//! content, so that programs that check them can be tested here. What cannot be checked without executing
//! transactions (what they changed, and the state after them) is made up, in every kind there is.

mod chain;
pub mod core;
mod event;
mod filler;
mod forgery;
mod kinds;
mod lake;
mod ledger;
mod made;
mod maker;
mod set;
mod transaction;

use sha2::{Digest as _, Sha256};
use stellar_xdr::{Limits, ReadXdr, WriteXdr};

pub use chain::{StellarChain, StellarSettings};
pub use event::{EventId, MadeEvent};
pub use forgery::{Forged, LakeForgery, forge};
pub use lake::{Lake, LakeLayout, LakeSuffix};
pub use made::{Made, MadeTx};

/// The XDR of a value that was made here, so that it keeps every bound of its type.
fn xdr(value: &impl WriteXdr) -> Vec<u8> {
    let bytes = value.to_xdr(Limits::none());
    bytes.expect("what was made can be written")
}

/// The value of XDR that was made here.
fn decoded<T: ReadXdr>(bytes: &[u8]) -> T {
    let value = T::from_xdr(bytes, Limits::none());
    value.expect("what was made can be read")
}

/// The hash of these bytes, end to end.
fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}
