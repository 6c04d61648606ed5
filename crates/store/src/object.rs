//! Both ports over an object store: S3 and what speaks its protocol, through `object_store`.
//!
//! Only three things are required of the store: a read or list that follows a write sees it, lists
//! come in the order of the keys, and a create of an existing key is refused. The first two are
//! what S3 promises; the third is what [`probe_create_only`] tries before a record is written
//! there, because some stores ignore the condition and answer that all is well.
//!
//! Feature `s3` is tested against Ceph. Features `gcs` and `azure` only compile.

mod blobs;
#[cfg(test)]
mod faulty;
mod lineage;
mod meta;
mod open;
mod probe;
mod stored;
mod writer;

use object_store::path::Path;

use crate::{Error, Result};

pub use blobs::ObjectBlobs;
pub use meta::{KEEP_VERSIONS, ObjectMeta};
pub use open::{ObjectPlace, open_object_store};
pub use probe::probe_create_only;

/// Where below a prefix the key of a checked name is.
fn key(prefix: &Path, name: &str) -> Result<Path> {
    let joined = match prefix.as_ref() {
        "" => name.to_owned(),
        prefix => format!("{prefix}/{name}"),
    };
    Path::parse(joined)
        .map_err(|error| Error::conflict(format!("object name is no key of this store: {error}")))
}

/// An error while doing `what` to the object `name`.
fn failed(what: &str, name: &str, error: object_store::Error) -> Error {
    match error {
        object_store::Error::NotFound { .. } => Error::not_found(name),
        error => Error::unavailable(format!("{what} (name={name})"), error),
    }
}
