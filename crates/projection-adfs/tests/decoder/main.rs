//! ADFS calldata: vectors, round trips, limits, and bytes that nobody should send.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod faults;
mod generated;
mod meaning;
mod unwrap;
mod vectors;
