//! The kinds of operation that a store is asked for.

use std::fmt;

/// A kind of operation on one of the two ports. Waiting for a change of the record is none: how
/// often it happens depends on timing, and numbers must not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Operation {
    /// `MetaStore::load`.
    MetaLoad,
    /// `MetaStore::swap`.
    MetaSwap,
    /// `BlobStore::put`.
    BlobPut,
    /// `BlobStore::create`.
    BlobCreate,
    /// `BlobWriter::write`.
    BlobWrite,
    /// `BlobWriter::finish`.
    BlobFinish,
    /// `BlobStore::get`.
    BlobGet,
    /// `BlobStore::range`.
    BlobRange,
    /// `BlobStore::ranges`.
    BlobRanges,
    /// `BlobStore::list`.
    BlobList,
    /// `BlobStore::delete`.
    BlobDelete,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::MetaLoad,
        Self::MetaSwap,
        Self::BlobPut,
        Self::BlobCreate,
        Self::BlobWrite,
        Self::BlobFinish,
        Self::BlobGet,
        Self::BlobRange,
        Self::BlobRanges,
        Self::BlobList,
        Self::BlobDelete,
    ];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MetaLoad => "meta.load",
            Self::MetaSwap => "meta.swap",
            Self::BlobPut => "blob.put",
            Self::BlobCreate => "blob.create",
            Self::BlobWrite => "blob.write",
            Self::BlobFinish => "blob.finish",
            Self::BlobGet => "blob.get",
            Self::BlobRange => "blob.range",
            Self::BlobRanges => "blob.ranges",
            Self::BlobList => "blob.list",
            Self::BlobDelete => "blob.delete",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
