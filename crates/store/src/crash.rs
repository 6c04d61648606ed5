//! Ends the process at a chosen step of a chosen write to a directory, as a kill would: tests name the
//! step by its number, so that the same test cuts the same work short on every machine.
//!
//! Without the feature `crash` there are no such steps.

#[cfg(feature = "crash")]
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps that are left until the process ends; 0 where it is not to end.
#[cfg(feature = "crash")]
static LEFT: AtomicU64 = AtomicU64::new(0);

/// The process ends at the `count`th step from now, without another instruction of its own.
#[cfg(feature = "crash")]
pub fn after_steps(count: u64) {
    LEFT.store(count, Ordering::SeqCst);
}

/// One step of a write: an object is written and has no name, an object has its name, the record is
/// written, the record is replaced, an object is deleted.
#[cfg(feature = "crash")]
pub(crate) fn step() {
    let count_down = |left: u64| left.checked_sub(1);
    let before = LEFT.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count_down);
    if before == Ok(1) {
        std::process::abort();
    }
}

#[cfg(not(feature = "crash"))]
pub(crate) const fn step() {}
