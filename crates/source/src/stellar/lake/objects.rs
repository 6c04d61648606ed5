//! Where a lake's objects are, and what can be requested there.

use async_trait::async_trait;
use bytes::Bytes;

use super::keys::Layout;

/// The most bytes of an object as it is stored. The largest ledgers of the public network take less
/// than one hundredth of that.
pub(crate) const OBJECT_BYTES_MAX: u64 = 128 << 20;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// It may come another time.
    #[error("{0}")]
    Unavailable(String),
    /// It is longer than the limit.
    #[error("it has {bytes} bytes, more than {most}")]
    TooLong { bytes: u64, most: u64 },
}

/// The newest object by a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Newest {
    /// There is no listing: it has to be searched for.
    Unlisted,
    Nothing,
    Key(String),
}

/// A place with objects that never change.
#[async_trait]
pub(crate) trait Objects: Send + Sync + std::fmt::Debug {
    /// An object; none where there is no such key.
    async fn get(&self, key: &str, most: u64) -> Result<Option<Bytes>, Failure>;

    /// Whether there is an object.
    async fn has(&self, key: &str) -> Result<bool, Failure>;

    /// The first key in order that is one of this layout.
    async fn newest(&self, layout: Layout) -> Result<Newest, Failure>;
}

/// Refuses what is too long before it is read.
pub(crate) fn fits(bytes: u64, most: u64) -> Result<(), Failure> {
    if bytes <= most {
        Ok(())
    } else {
        Err(Failure::TooLong { bytes, most })
    }
}
