//! Bytes on disk. Everything here is pure: values in, bytes out, and back.
//!
//! Every decoder takes hostile bytes: it answers with [`Damage`], never panics, and allocates no
//! more than the input can justify.

pub(crate) mod blocks;
pub(crate) mod compress;
pub(crate) mod container;
pub(crate) mod digest;
pub(crate) mod facts;
pub(crate) mod frame;
pub(crate) mod pack;
pub(crate) mod page;
pub(crate) mod postings;
pub(crate) mod row;
pub(crate) mod segment;
pub(crate) mod table;
pub(crate) mod term;
pub(crate) mod v1;
pub(crate) mod wire;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Damage(pub(crate) &'static str);

impl From<Damage> for String {
    fn from(damage: Damage) -> Self {
        damage.0.to_owned()
    }
}

/// The result of decoding.
pub(crate) type Decoded<T> = Result<T, Damage>;

/// Refuses bytes that break a rule of the format.
#[inline]
pub(crate) fn ensure(holds: bool, damage: &'static str) -> Decoded<()> {
    if holds { Ok(()) } else { Err(Damage(damage)) }
}

/// The checksum of a unit of reading, with its position mixed in, so that a whole unit in the
/// wrong place is as wrong as a flipped bit.
pub(crate) fn checksum(bytes: &[u8], position: u64) -> u32 {
    let hash = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, position);
    (hash >> 32) as u32 ^ hash as u32
}
