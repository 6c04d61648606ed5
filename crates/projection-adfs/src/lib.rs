//! The oracle contract ADFS: its calldata and events as rows.
//!
//! The decoder is pure: bytes in, values out. The bytes are hostile, since they come from any sender: it
//! answers with a [`Fault`] or with [`NotFound`], never panics, and makes room for no more than the limits
//! allow and the bytes that are there can hold. What cannot be decoded is written down once, with the
//! reason, and everything else of its block is projected.

mod address;
mod calldata;
mod codes;
mod decoded;
mod fault;
mod json;
mod kind;
mod latest;
mod pair;
mod projection;
mod registry;
mod rows;
mod settings;
mod unwrap;
mod versions;

pub use address::{
    FEED_ID_BITS, LANES, RB_INDEX_BITS, RB_INDEX_MAX, STRIDE_MAX, TABLE_INDEX_BITS,
    compute_table_index, to_bytes16,
};
pub use calldata::{HeaderForm, LanePolicy, Limits, Profile, block_number, decode};
pub use decoded::{Decoded, Disagreement, Feed, Header, HighLane, RingRow};
pub use fault::{Cause, Fault, Reason};
pub use kind::AdfsKind;
pub use pair::{Pairing, event_block_number, pair};
pub use projection::Adfs;
pub use registry::{KnownVersion, add_version, list_versions, remove_version};
pub use settings::{AdfsSettings, AdfsVersion};
pub use unwrap::{Call, NotFound, Seen, WRAPPERS_MAX, Wrapper, Wrappers, find};
