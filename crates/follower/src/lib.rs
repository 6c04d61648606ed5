//! Follows one chain into its archive.
//!
//! Begin with [`ingest`]: it is the system on a page. A [`chain::Chain`] is a source, an archive and the blocks
//! between the two. `walk` follows the newest blocks, [`backfill`] fetches history, [`maintenance`] merges and
//! collects beside them, and [`preflight`] makes sure that it is the right chain. [`replica`] keeps a tail of its
//! own above an archive that another process writes. Nothing here parses a command line, serves HTTP or writes
//! to PostgreSQL: that is the program's.

pub mod ingest;

pub mod chain;
pub mod settings;

pub mod backfill;
pub mod catch_up;
pub mod control;
pub mod counters;
pub mod error;
pub mod l1;
pub mod location;
pub mod maintenance;
pub mod preflight;
pub mod progress;
pub mod ranges;
pub mod replica;
pub mod run_state;
pub mod stellar;
pub mod walk;

pub mod clock;

mod dispute;
mod gap_waits;
mod meters;
mod pace;

use std::time::Duration;

use chronolith_source::Backoff;

/// The pauses of every loop here that tries again after a failure.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
