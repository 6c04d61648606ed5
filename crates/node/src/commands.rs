//! What each command does.

mod archive;
mod backfill;
mod backup;
mod chain;
mod config;
mod decode;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "demo")]
mod demo_rows;
mod init;
mod init_plan;
mod keys;
#[cfg(feature = "demo")]
mod narrator;
mod operator;
mod output;
mod projection_reset;
mod projections;
mod query;
mod ranges;
mod repair;
mod run;
mod serve;
mod state;
mod verify;
mod verify_evm;
mod verify_stellar;
mod work;

pub(crate) use archive::archive;
pub(crate) use backfill::{backfill, check_numbers, fill_missing};
pub(crate) use backup::{backup, restore};
pub(crate) use chain::chain;
pub(crate) use config::config;
pub(crate) use decode::{DecodeCommand, decode};
#[cfg(feature = "demo")]
pub(crate) use demo::demo;
pub(crate) use init::{InitFlags, init};
pub(crate) use keys::keys;
pub(crate) use operator::{gc, prune, resume, rewind};
pub(crate) use projections::{db, perform, projection};
pub(crate) use query::{block_at, logs};
pub(crate) use ranges::retry_range;
pub(crate) use repair::repair;
pub(crate) use run::run;
pub(crate) use serve::serve_archives;
pub(crate) use state::state;
pub(crate) use verify::verify;
pub(crate) use work::work;
