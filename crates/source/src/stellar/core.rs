//! Ledgers from a core of our own: a process that follows the network and writes every ledger into a pipe.

mod buffer;
mod config;
mod frames;
mod pipe;
mod process;
mod quiet;
mod source;
mod work;

pub use source::{CoreSettings, CoreSource};
