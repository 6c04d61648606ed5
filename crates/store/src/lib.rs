//! The two ports that everything durable goes through, and their adapters.
//!
//! [`MetaStore`] holds one small record that is replaced by compare-and-swap. [`BlobStore`] holds
//! immutable objects. Bytes in, bytes out: nothing here knows what a block is.
//!
//! | adapter | record | objects |
//! |---|---|---|
//! | memory | [`MemoryMeta`] | [`MemoryBlobs`] |
//! | a local directory | [`FileMeta`] | [`FileBlobs`] |
//! | an object store | [`ObjectMeta`] | [`ObjectBlobs`] |
//! | PostgreSQL | [`PostgresMeta`] | – |
//!
//! [`wait_until_quiet`] says when a new writer may try to take over. The feature `contract` adds the suite that each of them passes.

mod error;
mod port;

mod memory;

mod files;

mod object;

mod postgres;

mod lease;

mod name;
mod nonce;

#[cfg(feature = "crash")]
pub mod crash;
#[cfg(not(feature = "crash"))]
mod crash;

#[cfg(feature = "contract")]
pub mod contract;
#[cfg(any(feature = "contract", feature = "private-postgres"))]
pub mod testing_postgres;

pub use error::{Error, Result};
pub use files::{FileBlobs, FileMeta, rename_durably, replace_file};
pub use lease::{Claim, TakeOver, wait_until_quiet};
pub use memory::{MemoryBlobs, MemoryMeta};
pub use name::{NAME_BYTES_MAX, NAME_PART_BYTES_MAX};
pub use object::{
    KEEP_VERSIONS, ObjectBlobs, ObjectMeta, ObjectPlace, open_object_store, probe_create_only,
};
pub use port::{BlobInfo, BlobStore, BlobWriter, MetaStore, Version, Versioned};
pub use postgres::PostgresMeta;
