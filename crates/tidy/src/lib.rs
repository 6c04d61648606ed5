//! Checks on the repository itself, run as tests.
//!
//! Each module is one check: a pure function from text to findings, with a sample in its own
//! tests that it must refuse. `tests/tidy.rs` runs them on the real tree. Nothing here is shipped
//! and nothing here depends on another crate of the workspace.

mod tree;

pub mod defaults;
pub mod edges;
pub mod headers;
pub mod length;
pub mod licences;
pub mod manifests;
pub mod paths;
pub mod trace;
pub mod words;

pub use tree::{Finding, TextFile, Tree, report};
