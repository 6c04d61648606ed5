//! The two ports that everything durable goes through, and their adapters.
//!
//! [`MetaStore`] holds one small record that is replaced by compare-and-swap. [`BlobStore`] holds
//! immutable objects. Bytes in, bytes out: nothing here knows what a block is.

mod error;
mod port;

pub use error::{Error, Result};
pub use port::{BlobInfo, BlobStore, BlobWriter, MetaStore, Version, Versioned};
