//! Scenario files: requests with the answers that the rules demand, replayed against the program.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

pub(crate) mod chains;
mod expect;
mod fill;
mod moment;
mod naive;
mod plans;
pub(crate) mod play;
mod walks;
