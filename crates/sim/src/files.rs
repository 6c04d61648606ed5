//! A directory over HTTP, as object stores and web servers show one, with faults on command.
//!
//! `GET` and `HEAD`, whole or a range; no listings. It reads a file when it is asked for it, so that
//! what appears in the directory appears here.

mod faults;
mod range;
mod server;

pub use faults::{FileFault, FileFaults};
pub use server::{FileServer, FileStats};
