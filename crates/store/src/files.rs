//! Both ports over a directory of a local file system: no service, no database.
//!
//! ```text
//! root/state        the record, replaced by rename        root/lock   held by its one writer
//! root/state.tmp    the record being written              root/state.reserve  room for it on a full disk
//! root/blobs/a/b    the object `a/b`                      root/tmp/   objects being written
//! ```
//!
//! Everything is written under another name, synced, renamed, and then the directory is synced: a
//! reader in any process sees old or new and never a part, and so does a reader after a power
//! cut. One process writes the record; any number may read. The file system must be local: locks
//! and rename are what network file systems get wrong.

mod blobs;
mod disk;
mod handles;
mod meta;
mod read;
mod replace;
mod reserve;
mod walk;
mod writer;

pub use blobs::FileBlobs;
pub use meta::FileMeta;
pub use replace::{rename_durably, replace_file};
