//! The bytes of EVM chains: transactions and headers as consensus encodes them.
//!
//! A node answers in JSON, a chain commits to bytes. Here one becomes the other: a transaction's JSON
//! becomes the bytes that its hash and the transactions root are computed from, and an archived
//! transaction becomes JSON again. Nothing here does I/O or knows the source of anything; nothing is believed,
//! because a wrong encoding gives a wrong hash.

mod body;
mod extra;
mod header;
mod json;
mod kept;
mod quantity;
mod rlp;
mod sender;
pub mod tx;

pub use body::{Body, BodyError, Call, Place, store_body};
pub use header::{BlockFields, ExtraFields, HeaderFields, HeaderForm};
pub use kept::{KeptHeader, kept_header};
pub use quantity::{maybe_quantity, parse_quantity, quantity};
pub use tx::{TxFields, Unencodable};

use alloy_primitives::B256;

/// The root of a trie over these items by their positions, as headers commit to lists.
#[must_use]
pub fn ordered_root(items: &[impl AsRef<[u8]>]) -> B256 {
    alloy_trie::root::ordered_trie_root_with_encoder(items, |item, out| {
        out.extend_from_slice(item.as_ref());
    })
}
