//! What each command does.

mod archive;
mod backfill;
mod backup;
mod config;
mod decode;
mod demo;
mod operate;
mod projections;
mod query;
mod repair;
mod run;
mod serve;
mod sim;
mod spectator;
mod state;
mod torture;
mod verify;
mod work;

pub(crate) use archive::archive;
pub(crate) use backfill::{backfill, fill_lacking};
pub(crate) use backup::{backup, restore};
pub(crate) use config::config;
pub(crate) use decode::{DecodeCommand, decode};
pub(crate) use demo::demo;
pub(crate) use operate::{gc, resume, rewind};
pub(crate) use projections::{db, jobs, locks, partitions, projection};
pub(crate) use query::{block_at, logs};
pub(crate) use repair::repair;
pub(crate) use run::run;
pub(crate) use serve::serve_archives;
pub(crate) use sim::serve;
pub(crate) use state::state;
pub(crate) use torture::torture;
pub(crate) use verify::verify;
pub(crate) use work::work;
