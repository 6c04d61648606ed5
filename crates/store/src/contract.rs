//! What every backend must do: each sentence of the ports, as a check that can fail.
//!
//! [`check_meta`] and [`check_blobs`] call their factory once a case, each time with another
//! label, and expect an empty store that no other case uses. They panic where the contract is
//! broken. Run them on a runtime with several threads: racing is part of them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "this is a test suite: a panic is its answer"
)]

mod blobs;
mod listing;
mod meta;
mod writers;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{BlobStore, MetaStore};

/// What has not happened within this time will never happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Handles of one record.
#[derive(Debug)]
pub struct MetaHandles {
    /// Handles that may swap. At least one; several race each other.
    pub writers: Vec<Arc<dyn MetaStore>>,
    /// Handles that only read.
    pub readers: Vec<Arc<dyn MetaStore>>,
}

impl MetaHandles {
    /// Handles that may all swap.
    pub fn writers(writers: Vec<Arc<dyn MetaStore>>) -> Self {
        Self {
            writers,
            readers: Vec::new(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn MetaStore>> {
        self.writers.iter().chain(&self.readers)
    }
}

/// Checks a [`MetaStore`].
pub async fn check_meta<F, T>(open: F)
where
    F: Fn(&'static str) -> T,
    T: Future<Output = MetaHandles>,
{
    meta::an_absent_record_is_none(open("absent").await).await;
    meta::a_swap_is_visible_to_everybody(open("visible").await).await;
    meta::a_swap_of_another_version_changes_nothing(open("conflict").await).await;
    meta::any_bytes_are_a_record(open("bytes").await).await;
    meta::readers_cannot_swap(open("readers").await).await;
    meta::one_racer_wins_each_version(open("race").await).await;
    meta::the_winner_is_what_is_there(open("winner").await).await;
    meta::a_watcher_waits_for_another_version(open("watch").await).await;
    meta::a_watcher_sees_the_newest(open("newest").await).await;
    meta::a_dropped_watch_loses_nothing(open("dropped").await).await;
}

/// Checks a [`BlobStore`].
pub async fn check_blobs<F, T>(open: F)
where
    F: Fn(&'static str) -> T,
    T: Future<Output = Arc<dyn BlobStore>>,
{
    blobs::what_was_put_is_there(open("put").await).await;
    blobs::an_absent_object_is_not_found(open("absent").await).await;
    blobs::a_range_is_exact_or_an_error(open("range").await).await;
    blobs::several_ranges_at_once(open("ranges").await).await;
    blobs::putting_again_is_fine(open("again").await).await;
    blobs::deleting_is_idempotent(open("delete").await).await;
    blobs::bad_names_are_refused(open("names").await).await;
    blobs::many_use_it_at_once(open("many").await).await;
    listing::names_come_in_order(open("order").await).await;
    listing::pages_hold_everything_once(open("pages").await).await;
    listing::a_prefix_is_a_string_not_a_directory(open("prefix").await).await;
    writers::an_object_exists_when_finished(open("finish").await).await;
    writers::another_length_is_refused(open("length").await).await;
    writers::a_dropped_writer_leaves_nothing(open("dropped").await).await;
    writers::a_large_object_is_streamed(open("large").await).await;
    writers::the_last_of_two_writers_is_whole(open("two").await).await;
}

/// Fails instead of hanging.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, future).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
}

/// Bytes that differ at each position and for each seed.
fn pattern(seed: u64, len: usize) -> Bytes {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}
