//! The wall clock, read nowhere else.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "the node is where the wall clock is read"
)]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The same with its fraction.
pub fn precise_now() -> f64 {
    let since = UNIX_EPOCH.elapsed();
    since.map_or(0.0, |since| since.as_secs_f64())
}
